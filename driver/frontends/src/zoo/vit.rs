//! The vision transformer (Dosovitskiy et al. 2020).

use super::attention::Attention;
use super::dims::{Dim, dims, divides};
use super::layers::Activation;
use super::net::Net;
use super::{Family, Size, size};
use phzc_ir::{DType, InstrId, Result};

dims! {
    /// A vision transformer.
    Vit {
        layers: Dim::layers("layers", "Transformer layers"),
        hidden: Dim::size("hidden", "Width of the residual stream"),
        heads: Dim::size("heads", "Attention heads"),
        ffn: Dim::size("ffn", "Width of the feed-forward layers"),
        image: Dim::size("image", "Pixels along an image's side"),
        patch: Dim::size("patch", "Pixels along a patch's side"),
        classes: Dim::size("classes", "Classes to tell apart"),
    }
}

const PAPER: &str = "Dosovitskiy et al. 2020, table 1";
const GIANT: &str = "Zhai et al. 2021, table 2";

const SIZES: &[Size] = &[
    size("tiny", &[2, 64, 4, 128, 32, 8, 10], "for tests"),
    size("b16", &[12, 768, 12, 3072, 224, 16, 1000], PAPER),
    size("b32", &[12, 768, 12, 3072, 224, 32, 1000], PAPER),
    size("l16", &[24, 1024, 16, 4096, 224, 16, 1000], PAPER),
    size("h14", &[32, 1280, 16, 5120, 224, 14, 1000], PAPER),
    size("g14", &[48, 1664, 16, 8192, 224, 14, 1000], GIANT),
];

/// The vision transformer.
pub const FAMILY: Family = Family {
    name: "vit",
    about: "Vision transformer: encoder over patches, a class token, layer norm first, GELU",
    dims: Vit::DIMS,
    sizes: SIZES,
    can_scan: true,
    build: |values, net| Vit::new(values).loss(net),
};

const EPSILON: f64 = 1e-6;
/// Red, green, blue.
const COLOURS: i64 = 3;

impl Vit {
    fn loss(self, net: &mut Net) -> Result<InstrId> {
        divides(("heads", self.heads), ("hidden", self.hidden))?;
        divides(("patch", self.patch), ("image", self.image))?;
        let batch = net.settings.batch;
        let images = net.data("images", DType::F32, &[batch, self.image, self.image, COLOURS]);
        let labels = net.data("labels", DType::S32, &[batch]);
        let patches = self.patches(net, images);
        let token = net.weight("cls_token", &[self.hidden]);
        let token = net.b.broadcast(token, &[batch, 1, self.hidden], &[2]);
        let x = net.b.concatenate(&[token, patches], 1);
        let x = net.positioned(x, "position_embeddings");
        let x = net.dropout(x);
        let x = net.layers(self.layers, &[x], &[], |net, x, _| vec![self.layer(net, x[0])])[0];
        let x = net.layer_norm(x, "norm", EPSILON);
        let first = net.b.slice_in(x, 1, 0, 1);
        let first = net.b.reshape(first, &[batch, self.hidden]);
        let logits = net.linear(first, "head", self.classes, true);
        Ok(net.cross_entropy(logits, labels))
    }

    /// Each patch's pixels in a row, projected: a convolution whose windows do not overlap.
    fn patches(&self, net: &mut Net, images: InstrId) -> InstrId {
        let (batch, side, n) = (net.settings.batch, self.patch, self.image / self.patch);
        let images = net.b.convert(images, net.settings.dtype);
        let cut = net.b.reshape(images, &[batch, n, side, n, side, COLOURS]);
        let cut = net.b.transpose(cut, &[0, 1, 3, 2, 4, 5]);
        let rows = net.b.reshape(cut, &[batch, n * n, side * side * COLOURS]);
        net.linear(rows, "patch_embeddings", self.hidden, true)
    }

    fn layer(&self, net: &mut Net, x: InstrId) -> InstrId {
        let shape = Attention::of(self.heads, self.hidden);
        let x = net.attention_block(x, ("norm_before", EPSILON), "attention", &shape);
        let normed = net.layer_norm(x, "norm_after", EPSILON);
        let fed = net.feed_forward(normed, (self.ffn, self.hidden), Activation::Gelu, true);
        net.b.add(x, fed)
    }
}
