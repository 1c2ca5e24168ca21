//! Derivatives of `reduce-window`: pooling and running sums.

use super::convolution::{transposed_padding, window};
use super::scope::Cx;
use phzc_ir::attr::{PadDim, Value, WindowDim};
use phzc_ir::build::Builder;
use phzc_ir::ops::reducer;
use phzc_ir::{Attr, CompId, DType, Key, Opcode, Reducer, Result, Shape, View};

/// Sums and extremes over windows.
pub(super) fn reduce_window(cx: &mut Cx) -> Result<()> {
    let Some(Value::Window(found)) = cx.instr.attr(Key::Window) else {
        return Err(cx.refuse("it has no window"));
    };
    let dims: Vec<WindowDim> = found.dims.to_vec();
    if cx.instr.operands.len() != 2 {
        return Err(cx.refuse("it combines several arrays"));
    }
    if [&cx.shape(0), cx.result()].iter().any(|shape| shape.dims.contains(&0)) {
        return Err(cx.refuse("an array is empty"));
    }
    if cx.wants(1) {
        return Err(cx.refuse("its initial value depends on what is differentiated by"));
    }
    let view = View { comps: cx.b.comps(), instrs: cx.scope.instrs(cx.b), instr: &cx.instr };
    let is_dense = dims.iter().all(|dim| (dim.lhs_dilate, dim.rhs_dilate) == (1, 1));
    match reducer(&view, Key::ToApply, 0) {
        Some(Reducer::Add) => sum(cx, &dims),
        Some(Reducer::Max) if is_dense => extreme(cx, dims, "GE"),
        Some(Reducer::Min) if is_dense => extreme(cx, dims, "LE"),
        _ => return Err(cx.refuse("its computation is no sum, and no maximum or minimum of dense windows")),
    }
    Ok(())
}

/// Every element's cotangent is the sum of those of the windows that it is in.
fn sum(cx: &mut Cx, dims: &[WindowDim]) {
    let (ct, read, made) = (cx.ct(), cx.shape(0), cx.result().clone());
    let ct = cx.b.convert(ct, read.dtype);
    let padding = dims.iter().zip(read.dims.iter().zip(&made.dims)).map(|(dim, (&read, &made))| {
        let (low, high) = transposed_padding((read, made), dim);
        PadDim { low, high, interior: dim.stride - 1 }
    });
    let padding: Vec<PadDim> = padding.collect();
    let zero = cx.b.scalar(read.dtype, 0.0);
    let padded = cx.b.pad(ct, zero, &padding);
    let back = dims.iter().map(|dim| WindowDim {
        size: dim.size,
        stride: dim.lhs_dilate,
        rhs_dilate: dim.rhs_dilate,
        ..WindowDim::default()
    });
    let attrs = vec![
        Attr { key: Key::Window, value: Value::Window(Box::new(window(back.collect()))) },
        Attr { key: Key::ToApply, value: Value::Comp(cx.b.reducer(Opcode::Add, read.dtype)) },
    ];
    let made = cx.b.op(Opcode::ReduceWindow, &[padded, zero], attrs);
    cx.give(0, made);
}

/// Every window's cotangent goes to the element that was chosen.
fn extreme(cx: &mut Cx, dims: Vec<WindowDim>, direction: &str) {
    let (ct, x, dtype) = (cx.ct(), cx.x(0), cx.shape(0).dtype);
    let ct = cx.b.convert(ct, dtype);
    let zero = cx.b.scalar(dtype, 0.0);
    let select = comparison(cx.b, dtype, direction);
    let attrs = vec![
        Attr { key: Key::Window, value: Value::Window(Box::new(window(dims))) },
        Attr { key: Key::Select, value: Value::Comp(select) },
        Attr { key: Key::Scatter, value: Value::Comp(cx.b.reducer(Opcode::Add, dtype)) },
    ];
    let made = cx.b.op(Opcode::SelectAndScatter, &[x, ct, zero], attrs);
    cx.give(0, made);
}

/// The computation that compares two scalars.
pub(super) fn comparison(b: &mut Builder, dtype: DType, direction: &str) -> CompId {
    b.begin(&format!("{}_{}", direction.to_lowercase(), dtype.as_str()));
    let [one, other] = ["a", "b"].map(|name| b.parameter(name, Shape::array(dtype, &[])));
    let root = b.compare(one, other, direction);
    b.end(root)
}
