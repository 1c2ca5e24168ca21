//! Products of tensors, and convolutions.

use super::movement::swapped;
use super::node::Cx;
use crate::onnx::{self, Attribute, Value};
use phzc_ir::{Diagnostic, InstrId, Opcode, Result};

/// `mm`, `bmm`, `matmul`, `mv`, `dot`.
pub(super) fn matmul(cx: &mut Cx, left: &str, right: &str) -> Result<InstrId> {
    let (a, b) = (cx.like_out(left)?, cx.like_out(right)?);
    cx.onnx("MatMul", &[a.into(), b.into()], Vec::new())
}

/// `outer` and `ger`: the products of all pairs.
pub(super) fn outer(cx: &mut Cx) -> Result<InstrId> {
    let (a, b) = (cx.like_out("self")?, cx.like_out("vec2")?);
    if [a, b].iter().any(|&x| cx.b.rank(x) != 1) {
        return Err(Diagnostic::error("it takes two vectors"));
    }
    let n_rows = cx.b.dims(a)[0];
    let rows = cx.plain().reshape(a, &[n_rows, 1])?;
    cx.plain().binary(Opcode::Multiply, rows, b)
}

/// `addmm` and `baddbmm`: β·self + α·product.
pub(super) fn add_product(cx: &mut Cx, left: &str, right: &str) -> Result<InstrId> {
    let (alpha, beta) = (cx.float("alpha", 1.0)?, cx.float("beta", 1.0)?);
    let product = matmul(cx, left, right)?;
    let product = if alpha == 1.0 { product } else { cx.b.scale(product, alpha) };
    let bias = cx.like_out("self")?;
    let bias = if beta == 1.0 { bias } else { cx.b.scale(bias, beta) };
    let dims = cx.b.dims(product);
    let bias = cx.plain().broadcast_to(bias, &dims)?;
    cx.op(Opcode::Add, &[product, bias])
}

/// `linear`: the weight's second dimension is contracted.
pub(super) fn linear(cx: &mut Cx) -> Result<InstrId> {
    let (x, weight) = (cx.like_out("input")?, cx.like_out("weight")?);
    let rank = cx.b.rank(x);
    let fits = rank > 0 && cx.b.rank(weight) == 2 && cx.b.dims(x)[rank - 1] == cx.b.dims(weight)[1];
    if !fits {
        return Err(Diagnostic::error("the sizes of the weight do not fit those of the input"));
    }
    let product = onnx::dot(&mut cx.plain(), (x, weight), 0, (rank - 1, 1))?;
    let Some(bias) = cx.optional("bias")? else { return Ok(product) };
    cx.plain().binary(Opcode::Add, product, bias)
}

/// `einsum`.
pub(super) fn einsum(cx: &mut Cx) -> Result<InstrId> {
    let inputs: Vec<Value> = cx.tensors("tensors")?.into_iter().map(Value::from).collect();
    let equation = cx.text("equation", "");
    cx.onnx("Einsum", &inputs, vec![Attribute::text("equation", &equation)])
}

/// A list of `n` integers, one of which may stand for all.
pub(super) fn sizes(cx: &Cx, name: &str, n: usize, default: i64) -> Result<Vec<i64>> {
    let given = cx.ints(name)?.unwrap_or_default();
    Ok(match given[..] {
        [] => vec![default; n],
        [one] => vec![one; n],
        _ => given,
    })
}

/// `convolution` and `conv1d` to `conv3d`, transposed too.
pub(super) fn convolution(cx: &mut Cx, is_transposed: bool) -> Result<InstrId> {
    let (x, weight) = (cx.like_out("input")?, cx.like_out("weight")?);
    let is_transposed = cx.flag("transposed", is_transposed);
    let n = cx.b.rank(weight).saturating_sub(2);
    if cx.b.rank(x) != n + 2 {
        return Err(Diagnostic::error("the input must have a dimension of images and one of features"));
    }
    let mut attributes = vec![
        Attribute::ints("strides", &sizes(cx, "stride", n, 1)?),
        Attribute::ints("dilations", &sizes(cx, "dilation", n, 1)?),
        Attribute::int("group", cx.int("groups", 1)?),
    ];
    match &*cx.text("padding", "") {
        "" => attributes.push(Attribute::ints("pads", &sizes(cx, "padding", n, 0)?.repeat(2))),
        "valid" => {}
        "same" => attributes.push(Attribute::text("auto_pad", "SAME_UPPER")),
        other => return Err(Diagnostic::error(format!("`padding` is `{other}`"))),
    }
    if is_transposed {
        attributes.push(Attribute::ints("output_padding", &sizes(cx, "output_padding", n, 0)?));
    }
    let mut inputs = vec![Value::from(x), Value::from(weight)];
    if let Some(bias) = cx.optional("bias")? {
        inputs.push(bias.into());
    }
    cx.onnx(if is_transposed { "ConvTranspose" } else { "Conv" }, &inputs, attributes)
}

/// `convolution_backward`: the gradients of the input, the weight and the bias, those that are asked for.
pub(super) fn convolution_backward(cx: &mut Cx) -> super::movement::Parts {
    let [grad, x, weight] = ["grad_output", "input", "weight"].map(|name| cx.tensor(name));
    let (grad, x, weight) = (grad?, x?, weight?);
    let n = cx.b.rank(weight).saturating_sub(2);
    let is_plain = cx.int("groups", 1)? == 1
        && !cx.flag("transposed", false)
        && n > 0
        && [grad, x].iter().all(|&it| cx.b.rank(it) == n + 2);
    if !is_plain {
        return Err(Diagnostic::error("groups and transposed convolutions are not supported here"));
    }
    let of_input = if cx.is_read(0) { Some(input_gradient(cx, grad, x, weight)?) } else { None };
    let of_weight = if cx.is_read(1) { Some(weight_gradient(cx, grad, x, weight)?) } else { None };
    let others: Vec<usize> = (0..n + 2).filter(|&dim| dim != 1).collect();
    let of_bias = cx.is_read(2).then(|| cx.b.sum(grad, &others));
    Ok(vec![of_input, of_weight, of_bias])
}

/// The transposed convolution of the gradient.
fn input_gradient(cx: &mut Cx, grad: InstrId, x: InstrId, weight: InstrId) -> Result<InstrId> {
    let n = cx.b.rank(x) - 2;
    let [stride, pads, dilation] =
        [("stride", 1), ("padding", 0), ("dilation", 1)].map(|(name, default)| sizes(cx, name, n, default));
    let (stride, pads, dilation) = (stride?, pads?, dilation?);
    let (dims, kernel, out) = (cx.b.dims(x), cx.b.dims(weight), cx.b.dims(grad));
    let rest = |at: usize| -> Option<i64> {
        let reach = dilation.get(at)?.checked_mul(kernel[at + 2] - 1)?.checked_add(1)?;
        let made = stride.get(at)?.checked_mul(out[at + 2] - 1)?.checked_add(reach)?;
        (dims[at + 2]).checked_add(pads.get(at)?.checked_mul(2)?)?.checked_sub(made).filter(|&rest| rest >= 0)
    };
    let rest: Option<Vec<i64>> = (0..n).map(rest).collect();
    let rest =
        rest.ok_or_else(|| Diagnostic::error("the sizes of the gradient do not fit those of the input"))?;
    let attributes = vec![
        Attribute::ints("strides", &stride),
        Attribute::ints("dilations", &dilation),
        Attribute::ints("pads", &pads.repeat(2)),
        Attribute::ints("output_padding", &rest),
    ];
    cx.onnx("ConvTranspose", &[grad.into(), weight.into()], attributes)
}

/// The convolution of the input with the gradient, images as features; stride and dilation change places.
fn weight_gradient(cx: &mut Cx, grad: InstrId, x: InstrId, weight: InstrId) -> Result<InstrId> {
    let n = cx.b.rank(x) - 2;
    let (x, grad) = (swapped(cx, x, 0, 1), swapped(cx, grad, 0, 1));
    let attributes = vec![
        Attribute::ints("strides", &sizes(cx, "dilation", n, 1)?),
        Attribute::ints("dilations", &sizes(cx, "stride", n, 1)?),
        Attribute::ints("pads", &sizes(cx, "padding", n, 0)?.repeat(2)),
    ];
    let made = cx.onnx("Conv", &[x.into(), grad.into()], attributes)?;
    // Elements that no window of the forward pass reached made places behind the kernel's.
    let (kernel, mut cut) = (cx.b.dims(weight), swapped(cx, made, 0, 1));
    for dim in 2..n + 2 {
        cut = match cx.b.dims(cut)[dim] > kernel[dim] {
            true => cx.b.slice_in(cut, dim, 0, kernel[dim]),
            false => cut,
        };
    }
    Ok(cut)
}
