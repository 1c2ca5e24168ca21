//! GPT-2 and GPT-3 (Radford et al. 2019, Brown et al. 2020), and Megatron-LM's and Aceso's sizes of it.

use super::attention::Attention;
use super::dims::{Dim, dims, divides};
use super::layers::Activation;
use super::net::Net;
use super::{Family, Size, size};
use phzc_ir::{InstrId, Result};

dims! {
    /// A GPT.
    Gpt {
        layers: Dim::layers("layers", "Transformer layers"),
        hidden: Dim::size("hidden", "Width of the residual stream"),
        heads: Dim::size("heads", "Attention heads"),
        ffn: Dim::size("ffn", "Width of the feed-forward layers"),
        vocab: Dim::size("vocab", "Tokens in the vocabulary"),
        seq: Dim::size("seq", "Tokens of a sample"),
        tied: Dim::within("tied", (0, 1), "1: the head is the embedding's transpose, 0: it has weights of its own"),
    }
}

const GPT2: &str = "Radford et al. 2019, table 2";
const GPT3: &str = "Brown et al. 2020, table 2.1; vocabulary of GPT-2";
const MEGATRON: &str = "Narayanan et al. 2021 (SC), table 1";
const ACESO: &str = "Aceso (EuroSys 2024), artifact";

const SIZES: &[Size] = &[
    size("tiny", &[2, 64, 4, 256, 256, 32, 1], "for tests"),
    size("gpt2-small", &[12, 768, 12, 3072, 50257, 1024, 1], GPT2),
    size("gpt2-medium", &[24, 1024, 16, 4096, 50257, 1024, 1], GPT2),
    size("gpt2-large", &[36, 1280, 20, 5120, 50257, 1024, 1], GPT2),
    size("gpt2-xl", &[48, 1600, 25, 6400, 50257, 1024, 1], GPT2),
    size("125m", &[12, 768, 12, 3072, 50257, 2048, 1], GPT3),
    size("350m", &[24, 1024, 16, 4096, 50257, 2048, 1], GPT3),
    size("760m", &[24, 1536, 16, 6144, 50257, 2048, 1], GPT3),
    size("1.3b", &[24, 2048, 16, 8192, 50257, 2048, 1], GPT3),
    size("2.7b", &[32, 2560, 32, 10240, 50257, 2048, 1], GPT3),
    size("6.7b", &[32, 4096, 32, 16384, 50257, 2048, 1], GPT3),
    size("13b", &[40, 5120, 40, 20480, 50257, 2048, 1], GPT3),
    size("175b", &[96, 12288, 96, 49152, 50257, 2048, 1], GPT3),
    size("aceso-350m", &[24, 1024, 16, 4096, 51200, 2048, 1], ACESO),
    size("aceso-1.3b", &[24, 2048, 32, 8192, 51200, 2048, 1], ACESO),
    size("aceso-2.6b", &[32, 2560, 32, 10240, 51200, 2048, 1], ACESO),
    size("aceso-6.7b", &[32, 4096, 32, 16384, 51200, 2048, 1], ACESO),
    size("aceso-13b", &[40, 5120, 40, 20480, 51200, 2048, 1], ACESO),
    size("megatron-1.7b", &[24, 2304, 24, 9216, 51200, 2048, 1], MEGATRON),
    size("megatron-3.6b", &[30, 3072, 32, 12288, 51200, 2048, 1], MEGATRON),
    size("megatron-7.5b", &[36, 4096, 32, 16384, 51200, 2048, 1], MEGATRON),
    size("megatron-18.4b", &[40, 6144, 48, 24576, 51200, 2048, 1], MEGATRON),
    size("megatron-39.1b", &[48, 8192, 64, 32768, 51200, 2048, 1], MEGATRON),
    size("megatron-76.1b", &[60, 10240, 80, 40960, 51200, 2048, 1], MEGATRON),
    size("megatron-145.6b", &[80, 12288, 96, 49152, 51200, 2048, 1], MEGATRON),
    size("megatron-310.1b", &[96, 16384, 128, 65536, 51200, 2048, 1], MEGATRON),
    size("megatron-529.6b", &[105, 20480, 128, 81920, 51200, 2048, 1], MEGATRON),
    size("megatron-1008b", &[128, 25600, 160, 102400, 51200, 2048, 1], MEGATRON),
];

/// GPT-2 and GPT-3.
pub const FAMILY: Family = Family {
    name: "gpt",
    about: "GPT-2 and GPT-3: decoder, learned positions, layer norm first, GELU",
    dims: Gpt::DIMS,
    sizes: SIZES,
    can_scan: true,
    build: |values, net| Gpt::new(values).loss(net),
};

impl Gpt {
    fn loss(self, net: &mut Net) -> Result<InstrId> {
        divides(("heads", self.heads), ("hidden", self.hidden))?;
        let (tokens, labels) = net.tokens(self.seq);
        let (x, table) = net.embedding(tokens, "wte", self.vocab, self.hidden);
        let x = net.positioned(x, "wpe");
        let x = net.dropout(x);
        let x = net.layers(self.layers, &[x], &[], |net, x, _| vec![self.layer(net, x[0])])[0];
        let x = net.layer_norm(x, "ln_f", 1e-5);
        let logits = match self.tied {
            0 => net.linear(x, "head", self.vocab, false),
            _ => net.b.einsum("bsh,vh->bsv", x, table),
        };
        Ok(net.cross_entropy(logits, labels))
    }

    fn layer(&self, net: &mut Net, x: InstrId) -> InstrId {
        let normed = net.layer_norm(x, "ln_1", 1e-5);
        let attended = net.scoped("attn", |net| {
            let shape = Attention::of(self.heads, self.hidden).causal();
            let heads = net.project_at_once(normed, &shape);
            net.attend(heads, &shape, None, self.hidden)
        });
        let attended = net.dropout(attended);
        let x = net.b.add(x, attended);
        let normed = net.layer_norm(x, "ln_2", 1e-5);
        let fed = net.feed_forward(normed, (self.ffn, self.hidden), Activation::GeluTanh, true);
        net.b.add(x, fed)
    }
}
