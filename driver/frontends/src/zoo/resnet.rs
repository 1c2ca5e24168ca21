//! ResNet with bottlenecks (He et al. 2015) and Wide-ResNet (Zagoruyko and Komodakis 2016), of any width and
//! depth.

use super::dims::{Dim, dims};
use super::net::Net;
use super::{Family, Size, size};
use phzc_ir::attr::WindowDim;
use phzc_ir::{DType, InstrId, Opcode, Result};

dims! {
    /// A ResNet.
    Resnet {
        blocks_1: Dim::layers("blocks-1", "Blocks of the first group"),
        blocks_2: Dim::layers("blocks-2", "Blocks of the second group"),
        blocks_3: Dim::layers("blocks-3", "Blocks of the third group"),
        blocks_4: Dim::layers("blocks-4", "Blocks of the fourth group"),
        channels: Dim::size("channels", "Channels after the first convolution"),
        width: Dim::size("width", "Factor of the channels within blocks"),
        image: Dim::size("image", "Pixels along an image's side"),
        classes: Dim::size("classes", "Classes to tell apart"),
    }
}

const PAPER: &str = "He et al. 2015, table 1";
const WIDE: &str = "torchvision, wide_resnet50_2";
const ACESO: &str = "Aceso (EuroSys 2024), artifact";

const SIZES: &[Size] = &[
    size("tiny", &[1, 1, 1, 1, 8, 1, 32, 10], "for tests"),
    size("50", &[3, 4, 6, 3, 64, 1, 224, 1000], PAPER),
    size("101", &[3, 4, 23, 3, 64, 1, 224, 1000], PAPER),
    size("152", &[3, 8, 36, 3, 64, 1, 224, 1000], PAPER),
    size("wide-50-2", &[3, 4, 6, 3, 64, 2, 224, 1000], WIDE),
    size("aceso-500m", &[3, 4, 6, 3, 224, 2, 224, 1024], ACESO),
    size("aceso-1b", &[3, 4, 6, 3, 320, 2, 224, 1024], ACESO),
    size("aceso-2b", &[3, 4, 6, 3, 448, 2, 224, 1024], ACESO),
    size("aceso-4b", &[3, 4, 6, 3, 640, 2, 224, 1024], ACESO),
    size("aceso-6.8b", &[3, 4, 6, 3, 320, 16, 224, 1024], ACESO),
    size("aceso-13b", &[3, 4, 23, 3, 320, 16, 224, 1024], ACESO),
];

/// ResNet and Wide-ResNet.
pub const FAMILY: Family = Family {
    name: "resnet",
    about: "ResNet and Wide-ResNet: bottleneck blocks, batch norm with moving averages, stride in the 3x3",
    dims: Resnet::DIMS,
    sizes: SIZES,
    can_scan: false,
    build: |values, net| Resnet::new(values).loss(net),
};

/// Channels that leave a block, over those of its group.
const EXPANSION: i64 = 4;
/// Red, green, blue.
const COLOURS: i64 = 3;
/// How much of a moving average a step keeps.
const MOMENTUM: f64 = 0.9;

impl Resnet {
    fn loss(self, net: &mut Net) -> Result<InstrId> {
        let batch = net.settings.batch;
        let images = net.data("images", DType::F32, &[batch, self.image, self.image, COLOURS]);
        let labels = net.data("labels", DType::S32, &[batch]);
        let x = net.b.convert(images, net.settings.dtype);
        let x = net.normed_convolution(x, "stem", (7, 2), self.channels);
        let x = net.relu(x);
        let mut x = net.max_pool(x);
        let groups = [self.blocks_1, self.blocks_2, self.blocks_3, self.blocks_4];
        for (group, blocks) in groups.into_iter().enumerate() {
            for block in 0..blocks {
                let stride = if group > 0 && block == 0 { 2 } else { 1 };
                let name = format!("layer{}.{block}", group + 1);
                x = net.scoped(&name, |net| self.block(net, x, self.channels << group, stride));
            }
        }
        let x = net.b.convert(x, DType::F32);
        let x = net.b.mean(x, &[1, 2]);
        let x = net.b.convert(x, net.settings.dtype);
        let logits = net.linear(x, "fc", self.classes, true);
        Ok(net.cross_entropy(logits, labels))
    }

    /// 1x1, 3x3, 1x1, and the residual, projected where its shape changes.
    fn block(&self, net: &mut Net, x: InstrId, channels: i64, stride: i64) -> InstrId {
        let (inner, out) = (channels * self.width, channels * EXPANSION);
        let y = net.normed_convolution(x, "1", (1, 1), inner);
        let y = net.relu(y);
        let y = net.normed_convolution(y, "2", (3, stride), inner);
        let y = net.relu(y);
        let y = net.normed_convolution(y, "3", (1, 1), out);
        let is_same = stride == 1 && net.b.dims(x)[3] == out;
        let shortcut = if is_same { x } else { net.normed_convolution(x, "downsample", (1, stride), out) };
        let sum = net.b.add(y, shortcut);
        net.relu(sum)
    }
}

impl Net {
    fn relu(&mut self, x: InstrId) -> InstrId {
        self.activate(x, super::layers::Activation::Relu)
    }

    /// A square convolution that keeps the size but for its stride, and batch norm.
    fn normed_convolution(&mut self, x: InstrId, name: &str, kernel: (i64, i64), out: i64) -> InstrId {
        let (side, stride) = kernel;
        let inner = self.b.dims(x)[3];
        self.scoped(name, |net| {
            let kernel = net.weight("kernel", &[side, side, inner, out]);
            let window = [window(side, stride); 2];
            let y = net.b.convolution(x, kernel, &window);
            net.batch_norm(y)
        })
    }

    /// Batch normalisation (Ioffe and Szegedy 2015) of `[batch, height, width, channels]` in `f32`, with
    /// moving averages.
    fn batch_norm(&mut self, x: InstrId) -> InstrId {
        let (dtype, dims) = (self.b.dtype(x), self.b.dims(x));
        let x = self.b.convert(x, DType::F32);
        let mean = self.b.mean(x, &[0, 1, 2]);
        let wide = self.b.broadcast_like(mean, x, &[3]);
        let centred = self.b.sub(x, wide);
        let squares = self.b.square(centred);
        let variance = self.b.mean(squares, &[0, 1, 2]);
        for (name, value) in [("mean", mean), ("variance", variance)] {
            self.state(name, &dims[3..], |b, old| {
                let (kept, new) = (b.scale(old, MOMENTUM), b.scale(value, 1.0 - MOMENTUM));
                b.add(kept, new)
            });
        }
        let shifted = self.b.shift(variance, 1e-5);
        let root = self.b.rsqrt(shifted);
        let (scale, bias) = (self.master("scale", &dims[3..]), self.master("bias", &dims[3..]));
        let factor = self.b.mul(root, scale);
        let factor = self.b.broadcast_like(factor, x, &[3]);
        let bias = self.b.broadcast_like(bias, x, &[3]);
        let scaled = self.b.mul(centred, factor);
        let y = self.b.add(scaled, bias);
        self.b.convert(y, dtype)
    }

    /// The largest of 3x3 windows, every other one.
    fn max_pool(&mut self, x: InstrId) -> InstrId {
        let alone = WindowDim::default();
        let windows = [alone, window(3, 2), window(3, 2), alone];
        self.b.reduce_window(x, f64::NEG_INFINITY, Opcode::Maximum, &windows)
    }
}

/// A window in the middle of what it is padded with.
fn window(size: i64, stride: i64) -> WindowDim {
    let pad = size / 2;
    WindowDim { size, stride, pad_low: pad, pad_high: pad, ..WindowDim::default() }
}
