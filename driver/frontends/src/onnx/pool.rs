//! Windows that slide over an image, and what is made of each.

use super::convolution::windowed;
use super::node::Cx;
use phzc_ir::attr::WindowDim;
use phzc_ir::build::Builder;
use phzc_ir::{Attr, Diagnostic, InstrId, Key, Opcode, Result, attr};

/// No attribute that counts elements is larger.
const MAX_SIZE: i64 = 1 << 31;

/// The windows of a node, per spatial dimension.
pub(super) struct Windows {
    dims: Vec<WindowDim>,
    /// Elements by which the last window sticks out, with `ceil_mode`.
    beyond: Vec<i64>,
}

impl Cx<'_> {
    /// A list of `n` sizes.
    pub(super) fn sizes(&self, name: &str, n: usize, default: i64) -> Result<Vec<i64>> {
        let sizes = self.attr_ints(name).unwrap_or_else(|| vec![default; n]);
        match sizes.len() == n && sizes.iter().all(|size| (0..=MAX_SIZE).contains(size)) {
            true => Ok(sizes),
            false => Err(Diagnostic::error(format!("`{name}` is {sizes:?}, not {n} sizes"))),
        }
    }
}

impl Windows {
    /// The windows that the attributes of a node describe.
    pub fn read(cx: &Cx, x: InstrId, sizes: &[i64]) -> Result<Windows> {
        let n = sizes.len();
        let (strides, dilations) = (cx.sizes("strides", n, 1)?, cx.sizes("dilations", n, 1)?);
        let pads = cx.sizes("pads", 2 * n, 0)?;
        let (mut dims, mut beyond) = (Vec::new(), Vec::new());
        for (at, &input) in cx.b.dims(x).iter().skip(2).enumerate() {
            let (size, stride, dilation) = (sizes[at], strides[at], dilations[at]);
            if !(1..=MAX_SIZE).contains(&size) || stride < 1 || dilation < 1 {
                return Err(Diagnostic::error(format!(
                    "a window of {size}, step {stride}, dilation {dilation}"
                )));
            }
            let reach = (size - 1) * dilation + 1;
            let (pad_low, pad_high) = padding(cx, (input, reach, stride), (pads[at], pads[n + at]))?;
            dims.push(WindowDim {
                size,
                stride,
                pad_low,
                pad_high,
                rhs_dilate: dilation,
                ..WindowDim::default()
            });
            beyond.push(beyond_end(cx, (input, reach, stride), (pad_low, pad_high)));
        }
        Ok(Windows { dims, beyond })
    }

    /// With or without the elements beyond the end.
    pub fn dims(&self, beyond: bool) -> Vec<WindowDim> {
        let both = self.dims.iter().zip(&self.beyond);
        both.map(|(dim, more)| WindowDim { pad_high: dim.pad_high + i64::from(beyond) * more, ..*dim })
            .collect()
    }
}

/// Padding as stated, or such that there are as many windows as steps.
fn padding(cx: &Cx, (input, reach, stride): (i64, i64, i64), stated: (i64, i64)) -> Result<(i64, i64)> {
    let auto = cx.attr_text("auto_pad", "NOTSET");
    let n_windows = input / stride + i64::from(input % stride != 0);
    let total = ((n_windows - 1) * stride + reach - input).max(0);
    match &*auto {
        "NOTSET" | "" => Ok(stated),
        "VALID" => Ok((0, 0)),
        "SAME_UPPER" => Ok((total / 2, total - total / 2)),
        "SAME_LOWER" => Ok((total - total / 2, total / 2)),
        other => Err(Diagnostic::error(format!("`auto_pad` is `{other}`"))),
    }
}

/// With `ceil_mode` a last window may stick out, if it begins within the input or the padding before it.
fn beyond_end(cx: &Cx, (input, reach, stride): (i64, i64, i64), (low, high): (i64, i64)) -> i64 {
    let rest = input + low + high - reach;
    if cx.attr_int("ceil_mode", 0) == 0 || rest < 0 || rest % stride == 0 {
        return 0;
    }
    let start = (rest / stride + 1) * stride;
    if start < input + low { start - rest } else { 0 }
}

/// `reduce-window` over the spatial dimensions.
fn slide(cx: &mut Cx, x: InstrId, init: f64, op: Opcode, window: &[WindowDim]) -> Result<InstrId> {
    let dtype = cx.b.dtype(x);
    let one = WindowDim { size: 1, ..WindowDim::default() };
    let all = [one, one].into_iter().chain(window.iter().copied()).collect();
    let init = cx.b.scalar(dtype, init);
    let comp = Attr { key: Key::ToApply, value: attr::Value::Comp(cx.b.reducer(op, dtype)) };
    cx.op(Opcode::ReduceWindow, &[x, init], vec![windowed(all), comp])
}

/// The input, of floats, and its windows.
fn pooled(cx: &mut Cx) -> Result<(InstrId, Windows)> {
    let x = cx.float(0)?;
    let n = cx.b.rank(x).checked_sub(2).filter(|&n| n > 0);
    let n = n.ok_or_else(|| Diagnostic::error("the input has no spatial dimensions"))?;
    let sizes = cx.sizes("kernel_shape", n, 0)?;
    let windows = Windows::read(cx, x, &sizes)?;
    Ok((x, windows))
}

/// `MaxPool`, without places.
pub(super) fn max(cx: &mut Cx) -> Result<InstrId> {
    if cx.node.output.get(1).is_some_and(|name| !name.is_empty()) {
        return Err(Diagnostic::error("the places of the largest elements are not supported"));
    }
    let (x, windows) = pooled(cx)?;
    slide(cx, x, f64::NEG_INFINITY, Opcode::Maximum, &windows.dims(true))
}

/// `AveragePool`: of the input's elements, or of the padding's zeros too.
pub(super) fn average(cx: &mut Cx) -> Result<InstrId> {
    let (x, windows) = pooled(cx)?;
    let window = windows.dims(true);
    let sum = slide(cx, x, 0.0, Opcode::Add, &window)?;
    let mut ones: Vec<i64> = cx.b.dims(x).to_vec();
    ones[..2].fill(1);
    let mut counted = window;
    if cx.attr_int("count_include_pad", 0) != 0 {
        for (at, dim) in counted.iter_mut().enumerate() {
            ones[at + 2] += dim.pad_low + windows.dims[at].pad_high;
            (dim.pad_low, dim.pad_high) = (0, windows.beyond[at]);
        }
    }
    let ones = cx.b.full(cx.b.dtype(x), &ones, 1.0);
    let count = slide(cx, ones, 0.0, Opcode::Add, &counted)?;
    cx.binary(Opcode::Divide, sum, count)
}

/// A reduction of all spatial dimensions, which stay with size 1.
pub(super) fn global(cx: &mut Cx, of: fn(&mut Builder, InstrId, &[usize]) -> InstrId) -> Result<InstrId> {
    let x = cx.float(0)?;
    let mut dims = cx.b.dims(x);
    let spatial: Vec<usize> = (2..dims.len()).collect();
    let made = of(cx.b, x, &spatial);
    dims.iter_mut().skip(2).for_each(|size| *size = 1);
    cx.reshape(made, &dims)
}
