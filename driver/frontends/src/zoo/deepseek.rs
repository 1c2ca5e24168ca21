//! DeepSeek-V2 and V3 (DeepSeek-AI 2024): latent attention, dense layers first, shared experts beside routed
//! ones; with one or the other left out, what others made of it (Qwen3, but for norms of queries and keys).

use super::attention::{Attention, Heads};
use super::dims::{Dim, dims, divides};
use super::experts::Experts;
use super::layers::Activation;
use super::net::Net;
use super::{Family, Size, size};
use phzc_ir::{DType, Diagnostic, InstrId, Result};

dims! {
    /// A DeepSeek.
    DeepSeek {
        layers: Dim::layers("layers", "Transformer layers"),
        hidden: Dim::size("hidden", "Width of the residual stream"),
        heads: Dim::size("heads", "Query heads"),
        kv_heads: Dim::size("kv-heads", "Key and value heads; latent attention has as many as query heads"),
        head_dim: Dim::size("head-dim", "Width of a head's queries and keys"),
        query_rank: Dim::within("query-rank", (0, 1_000_000), "Width that queries are projected through; 0: one projection"),
        kv_rank: Dim::within("kv-rank", (0, 1_000_000), "Width that keys and values are projected through; 0: attention is not latent"),
        rotated: Dim::within("rotated", (0, 1_000_000), "Part of `--head-dim` that latent attention rotates, the same for keys of all heads"),
        value_dim: Dim::within("value-dim", (1, 1_000_000), "Width of a head's values in latent attention"),
        ffn: Dim::size("ffn", "Width of the feed-forward part of dense layers"),
        dense_layers: Dim::within("dense-layers", (0, 16_384), "First layers, which have no experts"),
        experts: Dim::size("experts", "Routed experts"),
        top_k: Dim::size("top-k", "Routed experts that a token is sent to"),
        capacity: Dim::within("capacity", (1, 100_000), "An expert's places, in per cent of an even share"),
        expert_ffn: Dim::size("expert-ffn", "Width of a routed expert"),
        shared_ffn: Dim::within("shared-ffn", (0, 1_000_000), "Width of all shared experts together"),
        vocab: Dim::size("vocab", "Tokens in the vocabulary"),
        seq: Dim::size("seq", "Tokens of a sample"),
        rope_base: Dim::within("rope-base", (2, 1_000_000_000), "Base of the rotary embedding's frequencies"),
    }
}

/// Of all norms but those before dense parts and unlatent attention, which are LLaMA's.
const EPSILON: f64 = 1e-6;

const TWO: &str = "DeepSeek-AI 2024 (DeepSeek-V2), section 3.1.2 and appendix B, released models";
const THREE: &str = "DeepSeek-AI 2024 (DeepSeek-V3), section 4.2, released model";
const QWEN: &str = "Qwen team 2025 (Qwen3), table 2, released models";

#[rustfmt::skip]
const SIZES: &[Size] = &[
    size("tiny", &[3, 32, 4, 4, 12, 16, 16, 4, 8, 64, 1, 4, 2, 200, 16, 16, 64, 16, 10_000], "for tests"),
    size("v2-lite", &[27, 2048, 16, 16, 192, 0, 512, 64, 128, 10944, 1, 64, 6, 125, 1408, 2816, 102_400, 4096, 10_000], TWO),
    size("v2", &[60, 5120, 128, 128, 192, 1536, 512, 64, 128, 12288, 1, 160, 6, 125, 1536, 3072, 102_400, 4096, 10_000], TWO),
    size("v3", &[61, 7168, 128, 128, 192, 1536, 512, 64, 128, 18432, 3, 256, 8, 125, 2048, 2048, 129_280, 4096, 10_000], THREE),
    size("qwen3-30b-a3b", &[48, 2048, 32, 4, 128, 0, 0, 0, 128, 6144, 0, 128, 8, 125, 768, 0, 151_936, 4096, 1_000_000], QWEN),
    size("qwen3-235b-a22b", &[94, 4096, 64, 4, 128, 0, 0, 0, 128, 12288, 0, 128, 8, 125, 1536, 0, 151_936, 4096, 1_000_000], QWEN),
];

/// DeepSeek.
pub const FAMILY: Family = Family {
    name: "deepseek",
    about: "DeepSeek-V2 and V3: latent attention, dense layers first, shared and routed experts; Qwen3",
    dims: DeepSeek::DIMS,
    sizes: SIZES,
    can_scan: true,
    build: |values, net| DeepSeek::new(values).loss(net),
};

impl DeepSeek {
    fn loss(self, net: &mut Net) -> Result<InstrId> {
        self.check()?;
        let (tokens, labels) = net.tokens(self.seq);
        let (x, _) = net.embedding(tokens, "embed_tokens", self.vocab, self.hidden);
        let tables = net.rotary_tables(self.seq, self.turned(), self.rope_base as f64);
        let tables = [tables.0, tables.1];
        let x = net.scoped("dense", |net| self.dense(net, x, &tables));
        let none = net.b.scalar(DType::F32, 0.0);
        let made = net.layers(self.layers - self.dense_layers, &[x, none], &tables, |net, x, tables| {
            let y = self.attention(net, x[0], (tables[0], tables[1]));
            let (y, balance) = self.experts(net, y);
            vec![y, net.b.add(x[1], balance)]
        });
        let x = net.rms_norm(made[0], "norm", EPSILON);
        let logits = net.linear(x, "lm_head", self.vocab, false);
        let loss = net.cross_entropy(logits, labels);
        Ok(net.b.add(loss, made[1]))
    }

    fn check(&self) -> Result<()> {
        divides(("kv-heads", self.kv_heads), ("heads", self.heads))?;
        self.routed().check()?;
        let turned = self.turned();
        let wrong = [
            (self.dense_layers > self.layers, "there are more `--dense-layers` than `--layers`"),
            (turned % 2 != 0 || turned == 0, "rotary embedding needs an even width of what it rotates"),
            (
                self.kv_rank > 0 && self.rotated >= self.head_dim,
                "`--rotated` is to be less than `--head-dim`",
            ),
            (
                self.kv_rank > 0 && self.kv_heads != self.heads,
                "latent attention has as many `--kv-heads` as `--heads`",
            ),
        ];
        let found = wrong.into_iter().find(|(is_wrong, _)| *is_wrong);
        found.map_or(Ok(()), |(_, message)| Err(Diagnostic::error(message)))
    }

    /// Width of a head that is rotated.
    fn turned(&self) -> i64 {
        if self.kv_rank > 0 { self.rotated } else { self.head_dim }
    }

    fn routed(&self) -> Experts {
        let DeepSeek { experts, top_k, capacity, expert_ffn, .. } = *self;
        Experts { experts, top_k, capacity, ffn: expert_ffn, is_gated: true }
    }

    fn dense(&self, net: &mut Net, x: InstrId, tables: &[InstrId]) -> InstrId {
        net.layers(self.dense_layers, &[x], tables, |net, x, tables| {
            let y = self.attention(net, x[0], (tables[0], tables[1]));
            vec![net.swiglu_block(y, self.ffn)]
        })[0]
    }

    /// Routed and shared experts and their residual, RMSNorm first; and the loss of uneven loads.
    fn experts(&self, net: &mut Net, x: InstrId) -> (InstrId, InstrId) {
        let normed = net.rms_norm(x, "post_attention_layernorm", EPSILON);
        let (fed, balance) = net.scoped("experts", |net| net.routed(normed, &self.routed()));
        let y = net.b.add(x, fed);
        if self.shared_ffn == 0 {
            return (y, balance);
        }
        let shared = net.scoped("shared_experts", |net| net.gated(normed, self.shared_ffn, Activation::Silu));
        (net.b.add(y, shared), balance)
    }

    fn shape(&self) -> Attention {
        let all = Attention::of(self.heads, self.heads * self.head_dim).causal();
        Attention { kv_heads: self.kv_heads, has_bias: false, ..all }
    }

    fn attention(&self, net: &mut Net, x: InstrId, tables: (InstrId, InstrId)) -> InstrId {
        if self.kv_rank == 0 {
            return net.decoder_attention(x, tables, &self.shape());
        }
        let normed = net.rms_norm(x, "input_layernorm", EPSILON);
        let attended = net.scoped("self_attn", |net| {
            let heads = self.latent(net, normed, tables);
            net.attend(heads, &self.shape(), None, self.hidden)
        });
        let attended = net.dropout(attended);
        net.b.add(x, attended)
    }

    /// Queries, keys and values through narrow projections (DeepSeek-V2, section 2.1): the rotated part of
    /// the keys is the same for all heads.
    fn latent(&self, net: &mut Net, x: InstrId, tables: (InstrId, InstrId)) -> Heads {
        let plain = self.head_dim - self.rotated;
        let q = self.queries(net, x);
        let narrow = net.linear(x, "kv_a", self.kv_rank + self.rotated, false);
        let shared = net.b.slice_in(narrow, 2, self.kv_rank, self.kv_rank + self.rotated);
        let narrow = net.b.slice_in(narrow, 2, 0, self.kv_rank);
        let narrow = net.rms_norm(narrow, "kv_norm", EPSILON);
        let both = net.linear(narrow, "kv_b", self.heads * (plain + self.value_dim), false);
        let both = net.split_heads(both, self.heads);
        let (k, v) =
            (net.b.slice_in(both, 3, 0, plain), net.b.slice_in(both, 3, plain, plain + self.value_dim));
        let q_plain = net.b.slice_in(q, 3, 0, plain);
        let q_turned = net.b.slice_in(q, 3, plain, self.head_dim);
        let q_turned = net.rotate(q_turned, tables);
        let shared = net.split_heads(shared, 1);
        let shared = net.rotate(shared, tables);
        let dims = net.b.dims(q_turned);
        let shared = net.b.reshape(shared, &[dims[0], dims[1], self.rotated]);
        let k_turned = net.b.broadcast(shared, &dims, &[0, 1, 3]);
        Heads { q: net.b.concatenate(&[q_plain, q_turned], 3), k: net.b.concatenate(&[k, k_turned], 3), v }
    }

    fn queries(&self, net: &mut Net, x: InstrId) -> InstrId {
        let width = self.heads * self.head_dim;
        let q = match self.query_rank {
            0 => net.linear(x, "q", width, false),
            rank => {
                let narrow = net.linear(x, "q_a", rank, false);
                let narrow = net.rms_norm(narrow, "q_norm", EPSILON);
                net.linear(narrow, "q_b", width, false)
            }
        };
        net.split_heads(q, self.heads)
    }
}
