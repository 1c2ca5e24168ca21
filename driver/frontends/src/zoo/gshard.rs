//! A decoder with GShard's experts in every other layer (Lepikhin et al. 2020), in Alpa's sizes.

use super::attention::Attention;
use super::dims::{Dim, dims, divides};
use super::experts::Experts;
use super::layers::Activation;
use super::net::Net;
use super::{Family, Size, size};
use phzc_ir::{DType, Diagnostic, InstrId, Result};

dims! {
    /// A decoder with experts.
    Gshard {
        layers: Dim::layers("layers", "Transformer layers, every other one with experts"),
        hidden: Dim::size("hidden", "Width of the residual stream"),
        heads: Dim::size("heads", "Attention heads"),
        ffn: Dim::size("ffn", "Width of the feed-forward layers, an expert's too"),
        experts: Dim::size("experts", "Experts"),
        top_k: Dim::size("top-k", "Experts that a token is sent to"),
        capacity: Dim::within("capacity", (1, 100_000), "An expert's places, in per cent of an even share"),
        vocab: Dim::size("vocab", "Tokens in the vocabulary"),
        seq: Dim::size("seq", "Tokens of a sample"),
    }
}

const ALPA: &str = "Alpa (OSDI 2022), table 6 and benchmark suite";

const SIZES: &[Size] = &[
    size("tiny", &[2, 32, 4, 64, 4, 2, 200, 64, 16], "for tests"),
    size("380m", &[8, 768, 16, 3072, 8, 2, 100, 32000, 1024], ALPA),
    size("1.3b", &[16, 768, 16, 3072, 16, 2, 100, 32000, 1024], ALPA),
    size("2.4b", &[16, 1024, 16, 4096, 16, 2, 100, 32000, 1024], ALPA),
    size("10b", &[16, 1536, 16, 6144, 32, 2, 100, 32000, 1024], ALPA),
    size("27b", &[16, 2048, 16, 8192, 48, 2, 100, 32000, 1024], ALPA),
    size("70b", &[32, 2048, 16, 8192, 64, 2, 100, 32000, 1024], ALPA),
];

/// A decoder with GShard's experts.
pub const FAMILY: Family = Family {
    name: "gshard",
    about: "Mixture of experts by GShard: top-2 routing with capacity, in every other layer",
    dims: Gshard::DIMS,
    sizes: SIZES,
    can_scan: true,
    build: |values, net| Gshard::new(values).loss(net),
};

impl Gshard {
    fn loss(self, net: &mut Net) -> Result<InstrId> {
        divides(("heads", self.heads), ("hidden", self.hidden))?;
        if self.layers % 2 != 0 {
            return Err(Diagnostic::error(format!("`--layers` has to be even, got {}", self.layers)));
        }
        self.experts().check()?;
        let (tokens, labels) = net.tokens(self.seq);
        let (x, table) = net.embedding(tokens, "wte", self.vocab, self.hidden);
        let x = net.positioned(x, "wpe");
        let x = net.dropout(x);
        let none = net.b.scalar(DType::F32, 0.0);
        let made = net.layers(self.layers / 2, &[x, none], &[], |net, x, _| self.pair(net, x));
        let x = net.layer_norm(made[0], "ln_f", 1e-5);
        let logits = net.b.einsum("bsh,vh->bsv", x, table);
        let loss = net.cross_entropy(logits, labels);
        Ok(net.b.add(loss, made[1]))
    }

    fn experts(&self) -> Experts {
        let Gshard { experts, top_k, capacity, ffn, .. } = *self;
        Experts { experts, top_k, capacity, ffn, is_gated: false }
    }

    /// A layer without and one with experts; the second value adds up the losses of uneven loads.
    fn pair(&self, net: &mut Net, x: &[InstrId]) -> Vec<InstrId> {
        let dense = net.scoped("dense", |net| {
            let x = self.attention(net, x[0]);
            let normed = net.layer_norm(x, "ln_2", 1e-5);
            let fed = net.feed_forward(normed, (self.ffn, self.hidden), Activation::GeluTanh, true);
            net.b.add(x, fed)
        });
        net.scoped("sparse", |net| {
            let y = self.attention(net, dense);
            let normed = net.layer_norm(y, "ln_2", 1e-5);
            let (fed, balance) = net.scoped("experts", |net| net.mixture(normed, &self.experts()));
            vec![net.b.add(y, fed), net.b.add(x[1], balance)]
        })
    }

    fn attention(&self, net: &mut Net, x: InstrId) -> InstrId {
        let shape = Attention::of(self.heads, self.hidden).causal();
        net.attention_block(x, ("ln_1", 1e-5), "attn", &shape)
    }
}
