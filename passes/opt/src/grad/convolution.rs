//! Derivatives of `convolution`: a convolution each.

use super::contract::copy_precision;
use super::scope::Cx;
use phzc_ir::attr::{DimLabels, LabelledDims, Value, Window, WindowDim, WindowKey};
use phzc_ir::{Attr, InstrId, Key, Opcode, Result};

/// A convolution as the text has it.
struct Case {
    labels: DimLabels,
    window: Window,
    groups: i64,
}

/// A convolution of the cotangent with the reversed kernel, and one of the input with the cotangent.
pub(super) fn convolution(cx: &mut Cx) -> Result<()> {
    let (Some(Value::DimLabels(labels)), Some(Value::Window(window))) =
        (cx.instr.attr(Key::DimLabels), cx.instr.attr(Key::Window))
    else {
        return Err(cx.refuse("it has no window"));
    };
    let (labels, window) = ((**labels).clone(), (**window).clone());
    if [&cx.shape(0), &cx.shape(1), cx.result()].iter().any(|shape| shape.dims.contains(&0)) {
        return Err(cx.refuse("an array is empty"));
    }
    if cx.instr.int(Key::BatchGroupCount).unwrap_or(1) > 1 {
        return Err(cx.refuse("its batch is in groups"));
    }
    let case = Case { labels, window, groups: cx.instr.int(Key::FeatureGroupCount).unwrap_or(1) };
    cx.give_with(0, |cx| of_input(cx, &case));
    cx.give_with(1, |cx| of_kernel(cx, &case));
    Ok(())
}

/// Elements with `step - 1` between neighbours.
fn dilated(size: i64, step: i64) -> i64 {
    if size == 0 { 0 } else { (size - 1) * step + 1 }
}

fn of_input(cx: &mut Cx, case: &Case) -> InstrId {
    let Case { labels, window, groups } = case;
    let (input, out) = (cx.shape(0), cx.result().clone());
    let size = |index: usize| (input.dims[labels.lhs.spatial[index]], out.dims[labels.out.spatial[index]]);
    let dims = window.dims.iter().enumerate().map(|(index, dim)| {
        let (pad_low, pad_high) = transposed_padding(size(index), dim);
        let (stride, lhs_dilate) = (dim.lhs_dilate, dim.stride);
        WindowDim { stride, lhs_dilate, pad_low, pad_high, reversed: false, ..*dim }
    });
    let dims: Vec<WindowDim> = dims.collect();
    let kernel = grouped_by_input(cx, case);
    let forward = window.dims.iter().zip(&labels.rhs.spatial).filter(|(dim, _)| !dim.reversed);
    let turned: Vec<usize> = forward.map(|(_, &at)| at).collect();
    let kernel = if turned.is_empty() { kernel } else { cx.b.reverse(kernel, &turned) };
    let roles = [labels.out.clone(), swapped(&labels.rhs), labels.lhs.clone()];
    let operands = [cx.ct(), kernel];
    made(cx, operands, dims, roles, (Key::FeatureGroupCount, *groups), 0)
}

/// Padding with which a window over what another window made gives an array of the sizes that this one read.
///
/// `sizes` are those of the array that was read and of what was made of it.
pub(super) fn transposed_padding((read, made): (i64, i64), dim: &WindowDim) -> (i64, i64) {
    let (read, made) = (dilated(read, dim.lhs_dilate), dilated(made, dim.stride));
    let window = dilated(dim.size, dim.rhs_dilate);
    let low = window - dim.pad_low - 1;
    (low, read + window - 1 - made - low)
}

/// The kernel with the groups of its output features among its input features.
fn grouped_by_input(cx: &mut Cx, case: &Case) -> InstrId {
    let (kernel, shape) = (cx.x(1), cx.shape(1));
    let LabelledDims { major: output, minor: input, .. } = case.labels.rhs;
    if case.groups == 1 {
        return kernel;
    }
    let mut split: Vec<i64> = shape.dims.to_vec();
    split[output] /= case.groups;
    split.insert(output, case.groups);
    let kernel = cx.b.reshape(kernel, &split);
    // The groups stand before the output features; they go before the input features.
    let input_at = input + usize::from(input > output);
    let mut order: Vec<usize> = (0..split.len()).filter(|&dim| dim != output).collect();
    let place = order.iter().position(|&dim| dim == input_at).unwrap_or(0);
    order.insert(place, output);
    let kernel = cx.b.transpose(kernel, &order);
    let mut dims: Vec<i64> = shape.dims.to_vec();
    dims[output] /= case.groups;
    dims[input] *= case.groups;
    cx.b.reshape(kernel, &dims)
}

fn of_kernel(cx: &mut Cx, case: &Case) -> InstrId {
    let Case { labels, window, groups } = case;
    let (input, out) = (cx.shape(0), cx.result().clone());
    let dims = window.dims.iter().enumerate().map(|(index, dim)| {
        let read = dilated(input.dims[labels.lhs.spatial[index]], dim.lhs_dilate);
        let size = out.dims[labels.out.spatial[index]];
        let pad_high = dilated(size, dim.stride) + dilated(dim.size, dim.rhs_dilate) - read - dim.pad_low - 1;
        let (stride, rhs_dilate) = (dim.rhs_dilate, dim.stride);
        WindowDim { size, stride, rhs_dilate, pad_high, reversed: false, ..*dim }
    });
    let dims: Vec<WindowDim> = dims.collect();
    let roles = [swapped(&labels.lhs), swapped(&labels.out), swapped(&labels.rhs)];
    let operands = [cx.x(0), cx.ct()];
    let kernel = made(cx, operands, dims, roles, (Key::BatchGroupCount, *groups), 1);
    let backward = window.dims.iter().zip(&labels.rhs.spatial).filter(|(dim, _)| dim.reversed);
    let turned: Vec<usize> = backward.map(|(_, &at)| at).collect();
    if turned.is_empty() { kernel } else { cx.b.reverse(kernel, &turned) }
}

fn swapped(dims: &LabelledDims) -> LabelledDims {
    LabelledDims { major: dims.minor, minor: dims.major, spatial: dims.spatial.clone() }
}

/// The convolution of these operands, in the type of a forward operand.
fn made(
    cx: &mut Cx,
    operands: [InstrId; 2],
    dims: Vec<WindowDim>,
    [lhs, rhs, out]: [LabelledDims; 3],
    (key, groups): (Key, i64),
    operand: usize,
) -> InstrId {
    let text = labels_text(&lhs, &rhs, &out);
    let labels = DimLabels { lhs, rhs, out, text };
    let mut attrs = vec![
        Attr { key: Key::Window, value: Value::Window(Box::new(window(dims))) },
        Attr { key: Key::DimLabels, value: Value::DimLabels(Box::new(labels)) },
    ];
    if groups > 1 {
        attrs.push(Attr { key, value: Value::Int(groups) });
    }
    let made = cx.b.op(Opcode::Convolution, &operands, attrs);
    copy_precision(cx, made);
    let dtype = cx.shape(operand).dtype;
    cx.b.convert(made, dtype)
}

/// A window that says what differs from the usual.
pub(super) fn window(dims: Vec<WindowDim>) -> Window {
    let usual = WindowDim::default();
    let any = |differs: &dyn Fn(&WindowDim) -> bool| dims.iter().any(differs);
    let keys = [
        (WindowKey::Size, true),
        (WindowKey::Stride, any(&|dim| dim.stride != usual.stride)),
        (WindowKey::Pad, any(&|dim| (dim.pad_low, dim.pad_high) != (0, 0))),
        (WindowKey::LhsDilate, any(&|dim| dim.lhs_dilate != usual.lhs_dilate)),
        (WindowKey::RhsDilate, any(&|dim| dim.rhs_dilate != usual.rhs_dilate)),
    ];
    let keys = keys.into_iter().filter(|(_, is_written)| *is_written).map(|(key, _)| key).collect();
    Window { dims: dims.into(), keys }
}

fn labels_text(lhs: &LabelledDims, rhs: &LabelledDims, out: &LabelledDims) -> Box<str> {
    let of = |dims: &LabelledDims, [major, minor]: [char; 2]| -> String {
        let mut text = vec![' '; dims.spatial.len() + 2];
        (text[dims.major], text[dims.minor]) = (major, minor);
        for (number, &at) in dims.spatial.iter().enumerate() {
            text[at] = char::from_digit(number as u32, 36).unwrap_or('?');
        }
        text.into_iter().collect()
    };
    format!("{}_{}->{}", of(lhs, ['b', 'f']), of(rhs, ['o', 'i']), of(out, ['b', 'f'])).into()
}
