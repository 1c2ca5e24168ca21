//! LLaMA 1, 2 and 3 (Touvron et al. 2023, Grattafiori et al. 2024).

use super::attention::Attention;
use super::dims::{Dim, dims, divides};
use super::layers::Activation;
use super::net::Net;
use super::{Family, Size, size};
use phzc_ir::{Diagnostic, InstrId, Result};

dims! {
    /// A LLaMA.
    Llama {
        layers: Dim::layers("layers", "Transformer layers"),
        hidden: Dim::size("hidden", "Width of the residual stream"),
        heads: Dim::size("heads", "Query heads"),
        kv_heads: Dim::size("kv-heads", "Key and value heads"),
        ffn: Dim::size("ffn", "Width of the feed-forward layers"),
        vocab: Dim::size("vocab", "Tokens in the vocabulary"),
        seq: Dim::size("seq", "Tokens of a sample"),
        rope_base: Dim::within("rope-base", (2, 1_000_000_000), "Base of the rotary embedding's frequencies"),
        tied: Dim::within("tied", (0, 1), "1: the head is the embedding's transpose, 0: it has weights of its own"),
    }
}

const ONE: &str = "Touvron et al. 2023 (LLaMA), table 2; feed-forward width of the released models";
const TWO: &str = "Touvron et al. 2023 (Llama 2), released models";
const THREE: &str = "Grattafiori et al. 2024 (Llama 3), table 3";

const SIZES: &[Size] = &[
    size("tiny", &[2, 64, 4, 2, 176, 256, 32, 10_000, 0], "for tests"),
    size("7b", &[32, 4096, 32, 32, 11008, 32000, 2048, 10_000, 0], ONE),
    size("13b", &[40, 5120, 40, 40, 13824, 32000, 2048, 10_000, 0], ONE),
    size("33b", &[60, 6656, 52, 52, 17920, 32000, 2048, 10_000, 0], ONE),
    size("65b", &[80, 8192, 64, 64, 22016, 32000, 2048, 10_000, 0], ONE),
    size("2-7b", &[32, 4096, 32, 32, 11008, 32000, 4096, 10_000, 0], TWO),
    size("2-13b", &[40, 5120, 40, 40, 13824, 32000, 4096, 10_000, 0], TWO),
    size("2-70b", &[80, 8192, 64, 8, 28672, 32000, 4096, 10_000, 0], TWO),
    size("3-8b", &[32, 4096, 32, 8, 14336, 128_256, 8192, 500_000, 0], THREE),
    size("3-70b", &[80, 8192, 64, 8, 28672, 128_256, 8192, 500_000, 0], THREE),
    size("3-405b", &[126, 16384, 128, 8, 53248, 128_256, 8192, 500_000, 0], THREE),
];

/// LLaMA.
pub const FAMILY: Family = Family {
    name: "llama",
    about: "LLaMA 1, 2, 3: decoder, RMSNorm, rotary positions, SwiGLU, grouped-query attention",
    dims: Llama::DIMS,
    sizes: SIZES,
    can_scan: true,
    build: |values, net| Llama::new(values).loss(net),
};

impl Llama {
    fn loss(self, net: &mut Net) -> Result<InstrId> {
        self.check()?;
        let (tokens, labels) = net.tokens(self.seq);
        let (x, table) = net.embedding(tokens, "embed_tokens", self.vocab, self.hidden);
        let (cos, sin) = net.rotary_tables(self.seq, self.hidden / self.heads, self.rope_base as f64);
        let x = net.layers(self.layers, &[x], &[cos, sin], |net, x, tables| {
            let x = net.decoder_attention(x[0], (tables[0], tables[1]), &self.attention());
            vec![net.swiglu_block(x, self.ffn)]
        })[0];
        let x = net.rms_norm(x, "norm", 1e-5);
        let logits = match self.tied {
            0 => net.linear(x, "lm_head", self.vocab, false),
            _ => net.b.einsum("bsh,vh->bsv", x, table),
        };
        Ok(net.cross_entropy(logits, labels))
    }

    fn check(&self) -> Result<()> {
        divides(("heads", self.heads), ("hidden", self.hidden))?;
        divides(("kv-heads", self.kv_heads), ("heads", self.heads))?;
        even(self.hidden / self.heads)
    }

    fn attention(&self) -> Attention {
        let all = Attention::of(self.heads, self.hidden).causal();
        Attention { kv_heads: self.kv_heads, has_bias: false, ..all }
    }
}

/// Rotary embedding turns pairs.
pub fn even(head_dim: i64) -> Result<()> {
    if head_dim % 2 == 0 {
        return Ok(());
    }
    let message = format!("rotary embedding needs an even `--hidden` / `--heads`, got {head_dim}");
    Err(Diagnostic::error(message))
}

impl Net {
    /// Attention with rotary positions and its residual, RMSNorm first.
    pub fn decoder_attention(
        &mut self,
        x: InstrId,
        tables: (InstrId, InstrId),
        shape: &Attention,
    ) -> InstrId {
        let hidden = self.b.dims(x)[2];
        let normed = self.rms_norm(x, "input_layernorm", 1e-5);
        let attended = self.scoped("self_attn", |net| {
            let mut heads = net.project(normed, normed, shape);
            heads.q = net.rotate(heads.q, tables);
            heads.k = net.rotate(heads.k, tables);
            net.attend(heads, shape, None, hidden)
        });
        let attended = self.dropout(attended);
        self.b.add(x, attended)
    }

    /// The gated feed-forward layer and its residual, RMSNorm first.
    pub fn swiglu_block(&mut self, x: InstrId, ffn: i64) -> InstrId {
        let normed = self.rms_norm(x, "post_attention_layernorm", 1e-5);
        let fed = self.scoped("mlp", |net| net.gated(normed, ffn, Activation::Silu));
        let fed = self.dropout(fed);
        self.b.add(x, fed)
    }

    /// The gated feed-forward layer of Shazeer 2020, (f(x·G) ∘ x·U)·D.
    pub fn gated(&mut self, x: InstrId, ffn: i64, activation: Activation) -> InstrId {
        let hidden = self.b.dims(x)[2];
        let gate = self.linear(x, "gate_proj", ffn, false);
        let gate = self.activate(gate, activation);
        let up = self.linear(x, "up_proj", ffn, false);
        let gated = self.b.mul(gate, up);
        self.linear(gated, "down_proj", hidden, false)
    }
}
