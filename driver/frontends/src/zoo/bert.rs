//! BERT (Devlin et al. 2018), trained to fill in masked tokens and to tell whether a sentence follows
//! another.

use super::attention::Attention;
use super::dims::{Dim, dims, divides};
use super::layers::Activation;
use super::net::Net;
use super::{Family, Size, size};
use phzc_ir::{DType, InstrId, Result};

dims! {
    /// A BERT.
    Bert {
        layers: Dim::layers("layers", "Transformer layers"),
        hidden: Dim::size("hidden", "Width of the residual stream"),
        heads: Dim::size("heads", "Attention heads"),
        ffn: Dim::size("ffn", "Width of the feed-forward layers"),
        vocab: Dim::size("vocab", "Tokens in the vocabulary"),
        seq: Dim::size("seq", "Tokens of a sample"),
        types: Dim::size("types", "Kinds of tokens: sentence A, sentence B"),
    }
}

const PAPER: &str = "Devlin et al. 2018, section 3; vocabulary of the released uncased models";
const NEMO: &str = "NeMo launcher, BERT-4B";

const SIZES: &[Size] = &[
    size("tiny", &[2, 64, 4, 256, 256, 32, 2], "for tests"),
    size("base", &[12, 768, 12, 3072, 30522, 512, 2], PAPER),
    size("large", &[24, 1024, 16, 4096, 30522, 512, 2], PAPER),
    size("4b", &[48, 2560, 32, 10240, 30522, 512, 2], NEMO),
];

/// BERT.
pub const FAMILY: Family = Family {
    name: "bert",
    about: "BERT: encoder, learned positions, layer norm last, GELU, masked tokens and next sentence",
    dims: Bert::DIMS,
    sizes: SIZES,
    can_scan: true,
    build: |values, net| Bert::new(values).loss(net),
};

const EPSILON: f64 = 1e-12;

impl Bert {
    fn loss(self, net: &mut Net) -> Result<InstrId> {
        divides(("heads", self.heads), ("hidden", self.hidden))?;
        let batch = net.settings.batch;
        let tokens = net.data("input_ids", DType::S32, &[batch, self.seq]);
        let types = net.data("token_type_ids", DType::S32, &[batch, self.seq]);
        let labels = net.data("labels", DType::S32, &[batch, self.seq]);
        let follows = net.data("next_sentence_label", DType::S32, &[batch]);
        let (x, table) = self.embedded(net, tokens, types);
        let x = net.layers(self.layers, &[x], &[], |net, x, _| vec![self.layer(net, x[0])])[0];
        let masked = self.masked_loss(net, x, table, labels);
        let next = self.next_loss(net, x, follows);
        Ok(net.b.add(masked, next))
    }

    fn embedded(&self, net: &mut Net, tokens: InstrId, types: InstrId) -> (InstrId, InstrId) {
        net.scoped("embeddings", |net| {
            let (words, table) = net.embedding(tokens, "word", self.vocab, self.hidden);
            let (kinds, _) = net.embedding(types, "token_type", self.types, self.hidden);
            let x = net.b.add(words, kinds);
            let x = net.positioned(x, "position");
            let x = net.layer_norm(x, "layer_norm", EPSILON);
            (net.dropout(x), table)
        })
    }

    fn layer(&self, net: &mut Net, x: InstrId) -> InstrId {
        let shape = Attention::of(self.heads, self.hidden);
        let attended = net.scoped("attention", |net| {
            let heads = net.project(x, x, &shape);
            net.attend(heads, &shape, None, self.hidden)
        });
        let attended = net.dropout(attended);
        let sum = net.b.add(x, attended);
        let x = net.layer_norm(sum, "attention_norm", EPSILON);
        let fed = net.feed_forward(x, (self.ffn, self.hidden), Activation::Gelu, true);
        let sum = net.b.add(x, fed);
        net.layer_norm(sum, "output_norm", EPSILON)
    }

    /// The head of masked tokens: every position is asked for its label.
    fn masked_loss(&self, net: &mut Net, x: InstrId, table: InstrId, labels: InstrId) -> InstrId {
        net.scoped("predictions", |net| {
            let x = net.linear(x, "transform", self.hidden, true);
            let x = net.activate(x, Activation::Gelu);
            let x = net.layer_norm(x, "layer_norm", EPSILON);
            let logits = net.b.einsum("bsh,vh->bsv", x, table);
            let bias = net.weight("bias", &[self.vocab]);
            let bias = net.b.broadcast_like(bias, logits, &[2]);
            let logits = net.b.add(logits, bias);
            net.cross_entropy(logits, labels)
        })
    }

    /// The head of the first position: does the second sentence follow the first?
    fn next_loss(&self, net: &mut Net, x: InstrId, follows: InstrId) -> InstrId {
        let first = net.b.slice_in(x, 1, 0, 1);
        let first = net.b.reshape(first, &[net.settings.batch, self.hidden]);
        let pooled = net.linear(first, "pooler", self.hidden, true);
        let pooled = net.b.tanh(pooled);
        let logits = net.linear(pooled, "seq_relationship", 2, true);
        net.cross_entropy(logits, follows)
    }
}
