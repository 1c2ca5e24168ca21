//! Pooling: windows that slide over an image.

use super::contract::sizes;
use super::movement::Parts;
use super::node::Cx;
use crate::onnx::{self, Attribute};
use phzc_ir::attr::WindowDim;
use phzc_ir::{Attr, CompId, DType, Diagnostic, InstrId, Key, Opcode, Result, Shape, attr};

/// The attributes of ONNX's operator for windows over `n` dimensions.
fn windows(cx: &Cx, n: usize) -> Result<Vec<Attribute>> {
    let kernel = sizes(cx, "kernel_size", n, 1)?;
    let stride = cx.ints("stride")?.filter(|stride| !stride.is_empty());
    let stride = if stride.is_some() { sizes(cx, "stride", n, 1)? } else { kernel.clone() };
    Ok(vec![
        Attribute::ints("kernel_shape", &kernel),
        Attribute::ints("strides", &stride),
        Attribute::ints("pads", &sizes(cx, "padding", n, 0)?.repeat(2)),
        Attribute::ints("dilations", &sizes(cx, "dilation", n, 1)?),
        Attribute::int("ceil_mode", i64::from(cx.flag("ceil_mode", false))),
    ])
}

/// `max_pool1d` to `max_pool3d`, without places.
pub(super) fn max(cx: &mut Cx, n: usize) -> Parts {
    let x = image(cx, n)?;
    let attributes = windows(cx, n)?;
    cx.onnx("MaxPool", &[x.into()], attributes).map(|made| vec![Some(made), None])
}

/// `avg_pool1d` to `avg_pool3d`.
pub(super) fn average(cx: &mut Cx, n: usize) -> Result<InstrId> {
    if cx.has("divisor_override") {
        return Err(Diagnostic::error("`divisor_override` is not supported"));
    }
    let x = image(cx, n)?;
    let mut attributes = windows(cx, n)?;
    attributes.push(Attribute::int("count_include_pad", i64::from(cx.flag("count_include_pad", true))));
    cx.onnx("AveragePool", &[x.into()], attributes)
}

fn image(cx: &mut Cx, n: usize) -> Result<InstrId> {
    let x = cx.tensor("self")?;
    match cx.b.rank(x) == n + 2 {
        true => Ok(x),
        false => Err(Diagnostic::error("the input must have a dimension of images and one of features")),
    }
}

/// `adaptive_avg_pool1d` to `…3d`: as many means as are asked for, of parts of equal sizes.
pub(super) fn adaptive(cx: &mut Cx, n: usize) -> Result<InstrId> {
    let x = image(cx, n)?;
    let (dims, out) = (cx.b.dims(x), sizes(cx, "output_size", n, 1)?);
    let fits = out.len() == n && out.iter().zip(&dims[2..]).all(|(&out, &size)| out > 0 && size % out == 0);
    if !fits {
        return Err(Diagnostic::error(format!("{out:?} parts of sizes {:?} are not equal", &dims[2..])));
    }
    if out.iter().all(|&size| size == 1) {
        return cx.onnx("GlobalAveragePool", &[x.into()], Vec::new());
    }
    let kernel: Vec<i64> = out.iter().zip(&dims[2..]).map(|(out, size)| size / out).collect();
    let attributes = vec![Attribute::ints("kernel_shape", &kernel), Attribute::ints("strides", &kernel)];
    cx.onnx("AveragePool", &[x.into()], attributes)
}

/// `max_pool2d_with_indices_backward`: each gradient goes to the largest element of its window.
pub(super) fn max_backward(cx: &mut Cx) -> Result<InstrId> {
    let (grad, x) = (cx.like_out("grad_output")?, image(cx, 2)?);
    let kernel = sizes(cx, "kernel_size", 2, 1)?;
    let stride = cx.ints("stride")?.filter(|stride| !stride.is_empty());
    let stride = if stride.is_some() { sizes(cx, "stride", 2, 1)? } else { kernel.clone() };
    let pads = sizes(cx, "padding", 2, 0)?;
    if sizes(cx, "dilation", 2, 1)? != [1, 1] || cx.flag("ceil_mode", false) {
        return Err(Diagnostic::error("`dilation` and `ceil_mode` are not supported"));
    }
    let dim = |at: usize| {
        let (size, stride, pad) = (kernel[at], stride[at], pads[at]);
        WindowDim { size, stride, pad_low: pad, pad_high: pad, ..WindowDim::default() }
    };
    let one = WindowDim { size: 1, ..WindowDim::default() };
    let window = onnx::windowed(vec![one, one, dim(0), dim(1)]);
    let dtype = cx.b.dtype(x);
    let comps = [(Key::Select, larger(cx, dtype)), (Key::Scatter, cx.b.reducer(Opcode::Add, dtype))];
    let comps = comps.map(|(key, comp)| Attr { key, value: attr::Value::Comp(comp) });
    let zero = cx.b.scalar(dtype, 0.0);
    cx.b.try_op(Opcode::SelectAndScatter, &[x, grad, zero], [vec![window], comps.to_vec()].concat())
}

/// Whether the first of two scalars is not less.
fn larger(cx: &mut Cx, dtype: DType) -> CompId {
    cx.b.begin("not_less");
    let [a, b] = ["a", "b"].map(|name| cx.b.parameter(name, Shape::array(dtype, &[])));
    let root = cx.b.compare(a, b, "GE");
    cx.b.end(root)
}
