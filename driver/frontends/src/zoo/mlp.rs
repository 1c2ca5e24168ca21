//! A multi-layer perceptron.

use super::dims::{Dim, dims};
use super::layers::Activation;
use super::net::Net;
use super::{Family, Size, size};
use phzc_ir::{DType, InstrId, Result};

dims! {
    /// A multi-layer perceptron.
    Mlp {
        layers: Dim::layers("layers", "Hidden layers of equal width"),
        input: Dim::size("input", "Numbers of a sample"),
        hidden: Dim::size("hidden", "Width of the hidden layers"),
        classes: Dim::size("classes", "Classes to tell apart"),
    }
}

const SIZES: &[Size] = &[
    size("tiny", &[2, 16, 32, 8], "for tests"),
    size("mnist", &[2, 784, 512, 10], "images of 28 x 28 in ten classes"),
    size("wide", &[8, 4096, 16384, 1024], "products of the size of GPT-3's"),
];

/// A multi-layer perceptron.
pub const FAMILY: Family = Family {
    name: "mlp",
    about: "Multi-layer perceptron: ReLU, softmax cross entropy",
    dims: Mlp::DIMS,
    sizes: SIZES,
    can_scan: true,
    build: |values, net| Mlp::new(values).loss(net),
};

impl Mlp {
    fn loss(self, net: &mut Net) -> Result<InstrId> {
        let batch = net.settings.batch;
        let x = net.data("inputs", DType::F32, &[batch, self.input]);
        let labels = net.data("labels", DType::S32, &[batch]);
        let x = net.b.convert(x, net.settings.dtype);
        let x = net.scoped("first", |net| self.layer(net, x));
        let x = net.layers(self.layers - 1, &[x], &[], |net, x, _| vec![self.layer(net, x[0])])[0];
        let logits = net.linear(x, "head", self.classes, true);
        Ok(net.cross_entropy(logits, labels))
    }

    fn layer(&self, net: &mut Net, x: InstrId) -> InstrId {
        let y = net.linear(x, "dense", self.hidden, true);
        let y = net.activate(y, Activation::Relu);
        net.dropout(y)
    }
}
