//! Convolutions: batch first, features second (`bf01`), as ONNX has them.

use super::node::Cx;
use super::pool::Windows;
use phzc_ir::attr::{DimLabels, LabelledDims, WindowDim, WindowKey};
use phzc_ir::{Attr, Diagnostic, InstrId, Key, Opcode, Result, attr};

/// `Conv`.
pub(super) fn conv(cx: &mut Cx) -> Result<InstrId> {
    let (x, kernel) = (cx.input(0)?, cx.input(1)?);
    let sizes = kernel_sizes(cx, x, kernel)?;
    let window = Windows::read(cx, x, &sizes)?.dims(false);
    let made = convolution(cx, (x, kernel), window, "oi")?;
    biased(cx, made)
}

/// `ConvTranspose`: a convolution of the input with zeros between its elements and the kernel reversed.
pub(super) fn conv_transpose(cx: &mut Cx) -> Result<InstrId> {
    let (x, kernel) = (cx.input(0)?, cx.input(1)?);
    let sizes = kernel_sizes(cx, x, kernel)?;
    if cx.attr("output_shape").is_some() || !matches!(&*cx.attr_text("auto_pad", ""), "" | "NOTSET" | "VALID")
    {
        return Err(Diagnostic::error("padding that follows from the size of the result is not supported"));
    }
    let more = cx.sizes("output_padding", sizes.len(), 0)?;
    let window = Windows::read(cx, x, &sizes)?.dims(false);
    let reversed = |(dim, more): (WindowDim, i64)| {
        let reach = (dim.size - 1) * dim.rhs_dilate;
        let (pad_low, pad_high) = (reach - dim.pad_low, reach - dim.pad_high + more);
        WindowDim { stride: 1, lhs_dilate: dim.stride, pad_low, pad_high, reversed: true, ..dim }
    };
    let window = window.into_iter().zip(more).map(reversed).collect();
    let kernel = grouped(cx, kernel)?;
    let made = convolution(cx, (x, kernel), window, "io")?;
    biased(cx, made)
}

/// The spatial sizes of a kernel that fits the input's rank.
fn kernel_sizes(cx: &Cx, x: InstrId, kernel: InstrId) -> Result<Vec<i64>> {
    let (rank, sizes) = (cx.b.rank(x), cx.b.dims(kernel));
    match rank >= 3 && sizes.len() == rank && sizes.iter().all(|&size| size > 0) {
        true => Ok(sizes[2..].to_vec()),
        false => Err(Diagnostic::error(format!("a kernel of sizes {sizes:?} for an input of rank {rank}"))),
    }
}

fn groups(cx: &Cx) -> Result<i64> {
    let n = cx.attr_int("group", 1);
    if n > 0 { Ok(n) } else { Err(Diagnostic::error(format!("{n} groups"))) }
}

/// A kernel of `ConvTranspose`, `[in, out/group, …]`, as `[in/group, out, …]`.
fn grouped(cx: &mut Cx, kernel: InstrId) -> Result<InstrId> {
    let (n, sizes) = (groups(cx)?, cx.b.dims(kernel));
    if n == 1 {
        return Ok(kernel);
    }
    if sizes[0] % n != 0 {
        return Err(Diagnostic::error(format!("{} input features in {n} groups", sizes[0])));
    }
    let split = cx.reshape(kernel, &[&[n, sizes[0] / n], &sizes[1..]].concat())?;
    let order: Vec<usize> = [1, 0].into_iter().chain(2..cx.b.rank(split)).collect();
    let swapped = cx.b.transpose(split, &order);
    cx.reshape(swapped, &[&[sizes[0] / n, sizes[1].saturating_mul(n)], &sizes[2..]].concat())
}

fn convolution(
    cx: &mut Cx,
    (x, kernel): (InstrId, InstrId),
    window: Vec<WindowDim>,
    roles: &str,
) -> Result<InstrId> {
    let digits: String = (0..window.len()).map(|dim| dim.to_string()).collect();
    let dims = |major, minor| LabelledDims { major, minor, spatial: (2..window.len() + 2).collect() };
    let labels = DimLabels {
        lhs: dims(0, 1),
        rhs: if roles == "oi" { dims(0, 1) } else { dims(1, 0) },
        out: dims(0, 1),
        text: format!("bf{digits}_{roles}{digits}->bf{digits}").into(),
    };
    let mut attrs =
        vec![windowed(window), Attr { key: Key::DimLabels, value: attr::Value::DimLabels(Box::new(labels)) }];
    let groups = groups(cx)?;
    if groups > 1 {
        attrs.push(Attr { key: Key::FeatureGroupCount, value: attr::Value::Int(groups) });
    }
    cx.op(Opcode::Convolution, &[x, kernel], attrs)
}

/// A window as an attribute, with the keys that say something.
pub(crate) fn windowed(dims: Vec<WindowDim>) -> Attr {
    let is_any = |test: fn(&WindowDim) -> bool| dims.iter().any(test);
    let keys = [
        (WindowKey::Size, true),
        (WindowKey::Stride, is_any(|dim| dim.stride != 1)),
        (WindowKey::Pad, is_any(|dim| (dim.pad_low, dim.pad_high) != (0, 0))),
        (WindowKey::LhsDilate, is_any(|dim| dim.lhs_dilate != 1)),
        (WindowKey::RhsDilate, is_any(|dim| dim.rhs_dilate != 1)),
        (WindowKey::RhsReversal, is_any(|dim| dim.reversed)),
    ];
    let keys = keys.into_iter().filter(|(_, is_said)| *is_said).map(|(key, _)| key).collect();
    let window = attr::Window { dims: dims.into_iter().collect(), keys };
    Attr { key: Key::Window, value: attr::Value::Window(Box::new(window)) }
}

/// With the third input, one number per feature, added.
fn biased(cx: &mut Cx, x: InstrId) -> Result<InstrId> {
    let Some(bias) = cx.optional(2)? else { return Ok(x) };
    let bias = cx.per_feature(bias, x)?;
    cx.op(Opcode::Add, &[x, bias], Vec::new())
}

impl Cx<'_> {
    /// One number per feature, as an array like `x`.
    pub(crate) fn per_feature(&mut self, values: InstrId, x: InstrId) -> Result<InstrId> {
        let (dims, own) = (self.b.dims(x), self.b.dims(values));
        match dims.get(1) == own.first() && own.len() == 1 {
            true => Ok(self.b.broadcast_like(values, x, &[1])),
            false => Err(Diagnostic::error(format!("sizes {own:?} for the features of {dims:?}"))),
        }
    }
}
