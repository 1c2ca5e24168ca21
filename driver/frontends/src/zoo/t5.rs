//! T5 (Raffel et al. 2020): encoder and decoder.

use super::attention::Attention;
use super::dims::{Dim, dims};
use super::layers::Activation;
use super::net::Net;
use super::{Family, Size, size};
use phzc_ir::{DType, InstrId, Opcode, Result};

dims! {
    /// A T5.
    T5 {
        layers: Dim::layers("layers", "Layers of the encoder, and of the decoder"),
        hidden: Dim::size("hidden", "Width of the residual stream"),
        heads: Dim::size("heads", "Attention heads"),
        head_dim: Dim::size("head-dim", "Width of a head"),
        ffn: Dim::size("ffn", "Width of the feed-forward layers"),
        vocab: Dim::size("vocab", "Tokens in the vocabulary"),
        seq: Dim::size("seq", "Tokens of a sample's input"),
        target_seq: Dim::size("target-seq", "Tokens of a sample's target"),
        gated: Dim::within("gated", (0, 1), "1: the feed-forward layers are gated by a GELU (T5 1.1), 0: they have a ReLU"),
    }
}

const PAPER: &str = "Raffel et al. 2020, section 3.7; vocabulary of the released models";
const ACESO: &str = "Aceso (EuroSys 2024), artifact";
const NEMO: &str = "NeMo launcher, T5-3B (`activation: geglu`)";

const SIZES: &[Size] = &[
    size("tiny", &[2, 64, 4, 16, 128, 256, 32, 16, 0], "for tests"),
    size("small", &[6, 512, 8, 64, 2048, 32128, 512, 114, 0], PAPER),
    size("base", &[12, 768, 12, 64, 3072, 32128, 512, 114, 0], PAPER),
    size("large", &[24, 1024, 16, 64, 4096, 32128, 512, 114, 0], PAPER),
    size("3b", &[24, 1024, 32, 128, 16384, 32128, 512, 114, 0], PAPER),
    size("11b", &[24, 1024, 128, 128, 65536, 32128, 512, 114, 0], PAPER),
    size("aceso-770m", &[24, 1024, 16, 64, 4096, 30592, 2048, 512, 0], ACESO),
    size("aceso-3b", &[24, 1024, 32, 128, 16384, 30592, 2048, 512, 0], ACESO),
    size("aceso-6b", &[24, 1024, 64, 128, 32768, 30592, 2048, 512, 0], ACESO),
    size("aceso-11b", &[24, 1024, 128, 128, 65536, 30592, 2048, 512, 0], ACESO),
    size("aceso-22b", &[48, 1024, 128, 128, 65536, 30592, 2048, 512, 0], ACESO),
    size("nemo-3b", &[24, 2048, 32, 64, 5120, 29184, 512, 128, 1], NEMO),
];

/// T5.
pub const FAMILY: Family = Family {
    name: "t5",
    about: "T5: encoder and decoder, relative positions, RMSNorm first, ReLU, tied head",
    dims: T5::DIMS,
    sizes: SIZES,
    can_scan: true,
    build: |values, net| T5::new(values).loss(net),
};

const EPSILON: f64 = 1e-6;
/// Distances are sorted into this many buckets,
const BUCKETS: i64 = 32;
/// those from here on into one.
const FAR: f64 = 128.0;

impl T5 {
    fn loss(self, net: &mut Net) -> Result<InstrId> {
        let batch = net.settings.batch;
        let tokens = net.data("input_ids", DType::S32, &[batch, self.seq]);
        let targets = net.data("decoder_input_ids", DType::S32, &[batch, self.target_seq]);
        let labels = net.data("labels", DType::S32, &[batch, self.target_seq]);
        let (x, table) = net.embedding(tokens, "shared", self.vocab, self.hidden);
        let y = net.b.take_rows(table, targets);
        let encoded = net.scoped("encoder", |net| self.encoded(net, x));
        let decoded = net.scoped("decoder", |net| self.decoded(net, y, encoded));
        let scaled = net.b.scale(decoded, 1.0 / (self.hidden as f64).sqrt());
        let logits = net.b.einsum("bsh,vh->bsv", scaled, table);
        Ok(net.cross_entropy(logits, labels))
    }

    fn encoded(&self, net: &mut Net, x: InstrId) -> InstrId {
        let bias = self.position_bias(net, self.seq, true);
        let x = net.dropout(x);
        let x = net.layers(self.layers, &[x], &[bias], |net, x, bias| {
            let x = self.attention(net, "self_attn", (x[0], None), Some(bias[0]), false);
            vec![self.feed_forward(net, x)]
        })[0];
        net.rms_norm(x, "final_norm", EPSILON)
    }

    fn decoded(&self, net: &mut Net, y: InstrId, encoded: InstrId) -> InstrId {
        let bias = self.position_bias(net, self.target_seq, false);
        let y = net.dropout(y);
        let y = net.layers(self.layers, &[y], &[bias, encoded], |net, y, fixed| {
            let y = self.attention(net, "self_attn", (y[0], None), Some(fixed[0]), true);
            let y = self.attention(net, "cross_attn", (y, Some(fixed[1])), None, false);
            vec![self.feed_forward(net, y)]
        })[0];
        net.rms_norm(y, "final_norm", EPSILON)
    }

    fn attention(
        &self,
        net: &mut Net,
        name: &str,
        (x, source): (InstrId, Option<InstrId>),
        bias: Option<InstrId>,
        is_causal: bool,
    ) -> InstrId {
        let all = Attention::of(self.heads, self.heads * self.head_dim);
        let shape = Attention { has_bias: false, is_causal, is_scaled: false, ..all };
        let attended = net.scoped(name, |net| {
            let normed = net.rms_norm(x, "norm", EPSILON);
            let heads = net.project(normed, source.unwrap_or(normed), &shape);
            net.attend(heads, &shape, bias, self.hidden)
        });
        let attended = net.dropout(attended);
        net.b.add(x, attended)
    }

    fn feed_forward(&self, net: &mut Net, x: InstrId) -> InstrId {
        let normed = net.rms_norm(x, "mlp_norm", EPSILON);
        let fed = match self.gated {
            0 => net.feed_forward(normed, (self.ffn, self.hidden), Activation::Relu, false),
            _ => {
                let fed = net.scoped("mlp", |net| net.gated(normed, self.ffn, Activation::GeluTanh));
                net.dropout(fed)
            }
        };
        net.b.add(x, fed)
    }

    /// A learned number per head and bucket of key − query: `[heads, positions, positions]`.
    fn position_bias(&self, net: &mut Net, positions: i64, is_bidirectional: bool) -> InstrId {
        let buckets = buckets(net, positions, is_bidirectional);
        let table = net.weight("relative_attention_bias", &[BUCKETS, self.heads]);
        let bias = net.b.take_rows(table, buckets);
        net.b.transpose(bias, &[2, 0, 1])
    }
}

/// The bucket of each query and key, `s32[positions, positions]`: near distances have one each, far ones
/// share logarithmically, section 2.1. An encoder keeps half of the buckets for later keys.
fn buckets(net: &mut Net, positions: i64, is_bidirectional: bool) -> InstrId {
    let b = &mut net.b;
    let dims = [positions, positions];
    let (query, key) = (b.iota(DType::S32, &dims, 0), b.iota(DType::S32, &dims, 1));
    let (before, zero) = (b.sub(query, key), b.full(DType::S32, &dims, 0.0));
    let n = if is_bidirectional { BUCKETS / 2 } else { BUCKETS };
    let (distance, offset) = if is_bidirectional {
        let is_later = b.compare(before, zero, "LT");
        let half = b.full(DType::S32, &dims, n as f64);
        (b.abs(before), b.select(is_later, half, zero))
    } else {
        (b.max(before, zero), zero)
    };
    let exact = n / 2;
    let limit = b.full(DType::S32, &dims, exact as f64);
    let is_near = b.compare(distance, limit, "LT");
    let at_least = b.max(distance, limit);
    let real = b.convert(at_least, DType::F32);
    let ratio = b.scale(real, 1.0 / exact as f64);
    let log = b.log(ratio);
    let steps = b.scale(log, (n - exact) as f64 / (FAR / exact as f64).ln());
    let steps = b.op(Opcode::Floor, &[steps], Vec::new());
    let steps = b.convert(steps, DType::S32);
    let far = b.add(limit, steps);
    let last = b.full(DType::S32, &dims, (n - 1) as f64);
    let far = b.min(far, last);
    let bucket = b.select(is_near, distance, far);
    b.add(bucket, offset)
}
