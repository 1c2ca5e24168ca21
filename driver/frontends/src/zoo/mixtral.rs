//! Mixtral (Jiang et al. 2024): LLaMA with experts in every layer.

use super::attention::Attention;
use super::dims::{Dim, dims, divides};
use super::experts::Experts;
use super::llama::even;
use super::net::Net;
use super::{Family, Size, size};
use phzc_ir::{DType, InstrId, Result};

dims! {
    /// A Mixtral.
    Mixtral {
        layers: Dim::layers("layers", "Transformer layers"),
        hidden: Dim::size("hidden", "Width of the residual stream"),
        heads: Dim::size("heads", "Query heads"),
        kv_heads: Dim::size("kv-heads", "Key and value heads"),
        ffn: Dim::size("ffn", "Width of an expert's feed-forward layer"),
        experts: Dim::size("experts", "Experts"),
        top_k: Dim::size("top-k", "Experts that a token is sent to"),
        capacity: Dim::within("capacity", (1, 100_000), "An expert's places, in per cent of an even share"),
        vocab: Dim::size("vocab", "Tokens in the vocabulary"),
        seq: Dim::size("seq", "Tokens of a sample"),
        rope_base: Dim::within("rope-base", (2, 1_000_000_000), "Base of the rotary embedding's frequencies"),
    }
}

const PAPER: &str = "Jiang et al. 2024, table 1";
const RELEASE: &str = "Mixtral 8x22B, released model";

const SIZES: &[Size] = &[
    size("tiny", &[2, 32, 4, 2, 64, 4, 2, 200, 64, 16, 10_000], "for tests"),
    size("8x7b", &[32, 4096, 32, 8, 14336, 8, 2, 125, 32000, 4096, 1_000_000], PAPER),
    size("8x22b", &[56, 6144, 48, 8, 16384, 8, 2, 125, 32768, 4096, 1_000_000], RELEASE),
];

/// Mixtral.
pub const FAMILY: Family = Family {
    name: "mixtral",
    about: "Mixtral: LLaMA with top-k gated experts in every layer, with capacity",
    dims: Mixtral::DIMS,
    sizes: SIZES,
    can_scan: true,
    build: |values, net| Mixtral::new(values).loss(net),
};

impl Mixtral {
    fn loss(self, net: &mut Net) -> Result<InstrId> {
        divides(("heads", self.heads), ("hidden", self.hidden))?;
        divides(("kv-heads", self.kv_heads), ("heads", self.heads))?;
        even(self.hidden / self.heads)?;
        self.experts().check()?;
        let (tokens, labels) = net.tokens(self.seq);
        let (x, _) = net.embedding(tokens, "embed_tokens", self.vocab, self.hidden);
        let (cos, sin) = net.rotary_tables(self.seq, self.hidden / self.heads, self.rope_base as f64);
        let none = net.b.scalar(DType::F32, 0.0);
        let made = net.layers(self.layers, &[x, none], &[cos, sin], |net, x, tables| {
            let y = net.decoder_attention(x[0], (tables[0], tables[1]), &self.attention());
            let normed = net.rms_norm(y, "post_attention_layernorm", 1e-5);
            let (fed, balance) = net.scoped("experts", |net| net.mixture(normed, &self.experts()));
            vec![net.b.add(y, fed), net.b.add(x[1], balance)]
        });
        let x = net.rms_norm(made[0], "norm", 1e-5);
        let logits = net.linear(x, "lm_head", self.vocab, false);
        let loss = net.cross_entropy(logits, labels);
        Ok(net.b.add(loss, made[1]))
    }

    fn experts(&self) -> Experts {
        let Mixtral { experts, top_k, capacity, ffn, .. } = *self;
        Experts { experts, top_k, capacity, ffn, is_gated: true }
    }

    fn attention(&self) -> Attention {
        let all = Attention::of(self.heads, self.hidden).causal();
        Attention { kv_heads: self.kv_heads, has_bias: false, ..all }
    }
}
