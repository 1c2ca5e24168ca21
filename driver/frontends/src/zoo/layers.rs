//! Layers that several families share, in the words of their papers.

use super::net::Net;
use phzc_ir::{DType, InstrId, Opcode};

/// Projections into attention, by name.
const INTO_ATTENTION: [&str; 8] = ["q", "k", "v", "qkv", "q_a", "q_b", "kv_a", "kv_b"];

/// A function of each element.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Activation {
    /// GELU by its tanh approximation (GPT-2).
    GeluTanh,
    /// GELU by the error function (BERT, ViT).
    Gelu,
    /// max(x, 0).
    Relu,
    /// x·σ(x) (LLaMA).
    Silu,
}

impl Net {
    /// x·W, plus a bias if asked for: `[…, in]` to `[…, out]`.
    pub fn linear(&mut self, x: InstrId, name: &str, out: i64, has_bias: bool) -> InstrId {
        let last = self.b.rank(x) - 1;
        let inner = self.b.dims(x)[last];
        self.scoped(name, |net| {
            let kernel = net.weight("kernel", &[inner, out]);
            let y = net.b.dot((x, kernel), (&[], &[]), (&[last], &[0]));
            let y = net.weighted(y);
            let y = if INTO_ATTENTION.contains(&name) { net.adapted(x, y) } else { y };
            if !has_bias {
                return y;
            }
            let bias = net.weight("bias", &[out]);
            let bias = net.b.broadcast_like(bias, y, &[last]);
            net.b.add(y, bias)
        })
    }

    /// Layer normalisation over the last dimension (Ba et al. 2016), in `f32`.
    pub fn layer_norm(&mut self, x: InstrId, name: &str, epsilon: f64) -> InstrId {
        let (dtype, last) = (self.b.dtype(x), self.b.rank(x) - 1);
        let size = self.b.dims(x)[last];
        let x = self.b.convert(x, DType::F32);
        let mean = self.mean_like(x, last);
        let centred = self.b.sub(x, mean);
        let squares = self.b.square(centred);
        let normed = self.over_root(centred, squares, last, epsilon);
        self.scoped(name, |net| {
            let (scale, bias) = (net.master("scale", &[size]), net.master("bias", &[size]));
            let scale = net.b.broadcast_like(scale, normed, &[last]);
            let bias = net.b.broadcast_like(bias, normed, &[last]);
            let scaled = net.b.mul(normed, scale);
            let y = net.b.add(scaled, bias);
            net.b.convert(y, dtype)
        })
    }

    /// Root mean square normalisation over the last dimension (Zhang and Sennrich 2019), in `f32`.
    pub fn rms_norm(&mut self, x: InstrId, name: &str, epsilon: f64) -> InstrId {
        let (dtype, last) = (self.b.dtype(x), self.b.rank(x) - 1);
        let size = self.b.dims(x)[last];
        let x = self.b.convert(x, DType::F32);
        let squares = self.b.square(x);
        let normed = self.over_root(x, squares, last, epsilon);
        self.scoped(name, |net| {
            let scale = net.master("scale", &[size]);
            let scale = net.b.broadcast_like(scale, normed, &[last]);
            let y = net.b.mul(normed, scale);
            net.b.convert(y, dtype)
        })
    }

    /// x / √(mean of the squares + ε).
    fn over_root(&mut self, x: InstrId, squares: InstrId, last: usize, epsilon: f64) -> InstrId {
        let variance = self.b.mean(squares, &[last]);
        let shifted = self.b.shift(variance, epsilon);
        let root = self.b.rsqrt(shifted);
        let kept: Vec<usize> = (0..last).collect();
        let root = self.b.broadcast_like(root, x, &kept);
        self.b.mul(x, root)
    }

    fn mean_like(&mut self, x: InstrId, last: usize) -> InstrId {
        let mean = self.b.mean(x, &[last]);
        let kept: Vec<usize> = (0..last).collect();
        self.b.broadcast_like(mean, x, &kept)
    }

    /// An activation function.
    pub fn activate(&mut self, x: InstrId, activation: Activation) -> InstrId {
        let b = &mut self.b;
        match activation {
            Activation::Relu => {
                let zero = b.full_like(x, 0.0);
                b.max(x, zero)
            }
            Activation::Silu => {
                let gate = b.logistic(x);
                b.mul(x, gate)
            }
            Activation::Gelu => {
                let scaled = b.scale(x, std::f64::consts::FRAC_1_SQRT_2);
                let erf = b.erf(scaled);
                gate(b, x, erf)
            }
            Activation::GeluTanh => {
                let square = b.square(x);
                let cube = b.mul(square, x);
                let small = b.scale(cube, 0.044715);
                let sum = b.add(x, small);
                let scaled = b.scale(sum, (2.0 / std::f64::consts::PI).sqrt());
                let tanh = b.tanh(scaled);
                gate(b, x, tanh)
            }
        }
    }

    /// Two linear layers with an activation between them, dropout after them.
    pub fn feed_forward(
        &mut self,
        x: InstrId,
        (inner, out): (i64, i64),
        activation: Activation,
        has_bias: bool,
    ) -> InstrId {
        let y = self.scoped("mlp", |net| {
            let up = net.linear(x, "up", inner, has_bias);
            let active = net.activate(up, activation);
            net.linear(active, "down", out, has_bias)
        });
        self.dropout(y)
    }

    /// Softmax over the last dimension, in `f32`.
    pub fn softmax(&mut self, x: InstrId) -> InstrId {
        let last = self.b.rank(x) - 1;
        let x = self.b.convert(x, DType::F32);
        let kept: Vec<usize> = (0..last).collect();
        let largest = self.b.max_of(x, &[last]);
        let largest = self.b.broadcast_like(largest, x, &kept);
        let below = self.b.sub(x, largest);
        let exp = self.b.exp(below);
        let sum = self.b.sum(exp, &[last]);
        let sum = self.b.broadcast_like(sum, exp, &kept);
        self.b.div(exp, sum)
    }

    /// Rows of a table of `n` vectors, by number.
    pub fn embedding(&mut self, ids: InstrId, name: &str, n: i64, size: i64) -> (InstrId, InstrId) {
        let table = self.weight(name, &[n, size]);
        (self.b.take_rows(table, ids), table)
    }

    /// The tokens of a batch and what is to be predicted at each: `s32[batch, seq]`.
    pub fn tokens(&mut self, seq: i64) -> (InstrId, InstrId) {
        let sizes = [self.settings.batch, seq];
        (self.data("input_ids", DType::S32, &sizes), self.data("labels", DType::S32, &sizes))
    }

    /// A learned vector per position added: `[batch, positions, width]`.
    pub fn positioned(&mut self, x: InstrId, name: &str) -> InstrId {
        let dims = self.b.dims(x);
        let table = self.weight(name, &dims[1..]);
        let table = self.b.broadcast_like(table, x, &[1, 2]);
        self.b.add(x, table)
    }

    /// The mean of −log p(label): logits `[…, classes]`, labels `[…]` of `s32`.
    ///
    /// The label's logit is picked by comparing, not by look-up: the classes may be split over devices.
    pub fn cross_entropy(&mut self, logits: InstrId, labels: InstrId) -> InstrId {
        let last = self.b.rank(logits) - 1;
        let kept: Vec<usize> = (0..last).collect();
        let logits = self.b.convert(logits, DType::F32);
        let largest = self.b.max_of(logits, &[last]);
        let wide = self.b.broadcast_like(largest, logits, &kept);
        let below = self.b.sub(logits, wide);
        let exp = self.b.exp(below);
        let sum = self.b.sum(exp, &[last]);
        let log = self.b.log(sum);
        let dims = self.b.dims(logits);
        let classes = self.b.iota(DType::S32, &dims, last);
        let wanted = self.b.broadcast(labels, &dims, &kept);
        let hit = self.b.compare(classes, wanted, "EQ");
        let zero = self.b.full_like(below, 0.0);
        let picked = self.b.select(hit, below, zero);
        let picked = self.b.sum(picked, &[last]);
        let losses = self.b.sub(log, picked);
        self.b.mean(losses, &kept)
    }
}

/// x/2·(1 + t).
fn gate(b: &mut phzc_ir::build::Builder, x: InstrId, t: InstrId) -> InstrId {
    let (half, more) = (b.scale(x, 0.5), b.shift(t, 1.0));
    b.op(Opcode::Multiply, &[half, more], Vec::new())
}
