//! OPT (Zhang et al. 2022).

use super::attention::Attention;
use super::dims::{Dim, dims, divides};
use super::layers::Activation;
use super::net::Net;
use super::{Family, Size, size};
use phzc_ir::{InstrId, Result};

dims! {
    /// An OPT.
    Opt {
        layers: Dim::layers("layers", "Transformer layers"),
        hidden: Dim::size("hidden", "Width of the residual stream"),
        heads: Dim::size("heads", "Attention heads"),
        ffn: Dim::size("ffn", "Width of the feed-forward layers"),
        vocab: Dim::size("vocab", "Tokens in the vocabulary"),
        seq: Dim::size("seq", "Tokens of a sample"),
    }
}

const PAPER: &str = "Zhang et al. 2022, table 1; vocabulary of the released models";

const SIZES: &[Size] = &[
    size("tiny", &[2, 64, 4, 256, 256, 32], "for tests"),
    size("125m", &[12, 768, 12, 3072, 50272, 2048], PAPER),
    size("1.3b", &[24, 2048, 32, 8192, 50272, 2048], PAPER),
    size("2.7b", &[32, 2560, 32, 10240, 50272, 2048], PAPER),
    size("6.7b", &[32, 4096, 32, 16384, 50272, 2048], PAPER),
    size("13b", &[40, 5120, 40, 20480, 50272, 2048], PAPER),
    size("30b", &[48, 7168, 56, 28672, 50272, 2048], PAPER),
    size("66b", &[64, 9216, 72, 36864, 50272, 2048], PAPER),
    size("175b", &[96, 12288, 96, 49152, 50272, 2048], PAPER),
];

/// OPT.
pub const FAMILY: Family = Family {
    name: "opt",
    about: "OPT: decoder, learned positions, layer norm first, ReLU, three projections, tied head",
    dims: Opt::DIMS,
    sizes: SIZES,
    can_scan: true,
    build: |values, net| Opt::new(values).loss(net),
};

/// The released models' table of positions starts with two that no token has.
const OFFSET: i64 = 2;

impl Opt {
    fn loss(self, net: &mut Net) -> Result<InstrId> {
        divides(("heads", self.heads), ("hidden", self.hidden))?;
        let (tokens, labels) = net.tokens(self.seq);
        let (x, table) = net.embedding(tokens, "embed_tokens", self.vocab, self.hidden);
        let positions = net.weight("embed_positions", &[OFFSET + self.seq, self.hidden]);
        let positions = net.b.slice_in(positions, 0, OFFSET, OFFSET + self.seq);
        let positions = net.b.broadcast_like(positions, x, &[1, 2]);
        let x = net.b.add(x, positions);
        let x = net.dropout(x);
        let x = net.layers(self.layers, &[x], &[], |net, x, _| vec![self.layer(net, x[0])])[0];
        let x = net.layer_norm(x, "final_layer_norm", 1e-5);
        let logits = net.b.einsum("bsh,vh->bsv", x, table);
        Ok(net.cross_entropy(logits, labels))
    }

    fn layer(&self, net: &mut Net, x: InstrId) -> InstrId {
        let shape = Attention::of(self.heads, self.hidden).causal();
        let x = net.attention_block(x, ("self_attn_layer_norm", 1e-5), "self_attn", &shape);
        let normed = net.layer_norm(x, "final_layer_norm", 1e-5);
        let fed = net.feed_forward(normed, (self.ffn, self.hidden), Activation::Relu, true);
        net.b.add(x, fed)
    }
}
