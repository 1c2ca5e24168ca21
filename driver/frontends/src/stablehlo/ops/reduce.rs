//! Reductions: of dimensions and of windows.

use crate::element::window_keys;
use crate::stablehlo::ast::{Attr, Op, Region};
use crate::stablehlo::lower::{Lowerer, Made, attr, ints};
use phzc_ir::attr::{Window, WindowDim};
use phzc_ir::{CompId, InstrId, Key, Opcode, Result, Value};

/// Two values into one that is an opcode's: shared by all operations that apply it.
pub(super) fn reducer<'a>(cx: &mut Lowerer<'a, '_>, region: &Region<'a>, op: &Op<'a>) -> Result<CompId> {
    if let Some((opcode, dtype)) = simple(region) {
        return Ok(cx.b.reducer(opcode, dtype));
    }
    let name = cx.region_name();
    cx.region(region, &name, op)
}

/// The opcode of a region that returns `opcode(%a, %b)` of its two scalar arguments.
fn simple(region: &Region) -> Option<(Opcode, phzc_ir::DType)> {
    let ([a, b], [body, end]) = (region.args.as_slice(), region.ops.as_slice()) else { return None };
    let array = a.shape.as_array().filter(|array| array.dims.is_empty() && a.shape == b.shape)?;
    let names = |op: &Op| -> Vec<String> { op.operands.iter().map(|used| used.name.to_owned()).collect() };
    let made = [body.results.first()?.0];
    let fits =
        names(body) == [a.name, b.name] && names(end) == made && body.attrs.is_empty() && body.loc.is_none();
    binary(body.name).filter(|_| fits).map(|opcode| (opcode, array.dtype))
}

/// The opcodes of two operands that make up most reductions.
fn binary(name: &str) -> Option<Opcode> {
    Some(match name.strip_prefix("stablehlo.")? {
        "add" => Opcode::Add,
        "and" => Opcode::And,
        "maximum" => Opcode::Maximum,
        "minimum" => Opcode::Minimum,
        "multiply" => Opcode::Multiply,
        "or" => Opcode::Or,
        "xor" => Opcode::Xor,
        _ => return None,
    })
}

/// `reduce(%x init: %i) applies stablehlo.add across dimensions = [1]`, or with a region.
pub(super) fn reduce<'a>(cx: &mut Lowerer<'a, '_>, op: &Op<'a>, operands: &[InstrId]) -> Result<Made> {
    let dims = ints(Key::Dimensions, op.ints(&["dimensions"])?);
    let comp = match op.attr(&["applies"]).and_then(Attr::word) {
        Some(name) => {
            let Some(opcode) = binary(name) else {
                return Err(op.error(format!("`reduce` cannot apply `{name}`")));
            };
            cx.b.reducer(opcode, cx.array(op, operands, 0)?.dtype)
        }
        None => reducer(cx, op.region(0)?, op)?,
    };
    cx.emit_all(op, Opcode::Reduce, operands, vec![dims, attr(Key::ToApply, Value::Comp(comp))])
}

/// `"reduce_window"(%x, %i) <{window_dimensions, …}> ({computation})`.
pub(super) fn reduce_window<'a>(cx: &mut Lowerer<'a, '_>, op: &Op<'a>, operands: &[InstrId]) -> Result<Made> {
    let window = attr(Key::Window, Value::Window(Box::new(window(op)?)));
    let comp = reducer(cx, op.region(0)?, op)?;
    cx.emit_all(op, Opcode::ReduceWindow, operands, vec![window, attr(Key::ToApply, Value::Comp(comp))])
}

/// `"select_and_scatter"(%x, %source, %i) <{window_dimensions, …}> ({select}, {scatter})`.
pub(super) fn select_and_scatter<'a>(
    cx: &mut Lowerer<'a, '_>,
    op: &Op<'a>,
    operands: &[InstrId],
) -> Result<Made> {
    let window = attr(Key::Window, Value::Window(Box::new(window(op)?)));
    let name = cx.region_name();
    let select = attr(Key::Select, Value::Comp(cx.region(op.region(0)?, &name, op)?));
    let scatter = attr(Key::Scatter, Value::Comp(reducer(cx, op.region(1)?, op)?));
    cx.emit(op, Opcode::SelectAndScatter, operands, vec![window, select, scatter])
}

/// The window of a reduction.
fn window(op: &Op) -> Result<Window> {
    let sizes = op.ints(&["window_dimensions"])?;
    let parts = WindowParts {
        strides: op.ints(&["window_strides"])?.to_vec(),
        padding: op.ints(&["padding"])?.to_vec(),
        lhs_dilation: op.ints(&["base_dilations"])?.to_vec(),
        rhs_dilation: op.ints(&["window_dilations"])?.to_vec(),
        reversal: Vec::new(),
    };
    parts
        .window(&sizes)
        .ok_or_else(|| op.error(format!("the window of `{}` has lists of several lengths", op.name)))
}

/// A window's properties, each a list with one number per dimension, or empty.
pub(super) struct WindowParts {
    pub strides: Vec<i64>,
    /// Low and high, one pair after the other.
    pub padding: Vec<i64>,
    pub lhs_dilation: Vec<i64>,
    pub rhs_dilation: Vec<i64>,
    pub reversal: Vec<i64>,
}

impl WindowParts {
    /// The window; `None` where lengths differ.
    pub fn window(&self, sizes: &[i64]) -> Option<Window> {
        let n = sizes.len();
        let lists = [&self.strides, &self.lhs_dilation, &self.rhs_dilation, &self.reversal];
        let mut lengths = lists.map(|list| (list.len(), n)).into_iter().chain([(self.padding.len(), 2 * n)]);
        if lengths.any(|(found, wanted)| found != 0 && found != wanted) {
            return None;
        }
        let at = |list: &[i64], index: usize, default: i64| list.get(index).copied().unwrap_or(default);
        let dim = |index: usize| WindowDim {
            size: sizes[index],
            stride: at(&self.strides, index, 1),
            pad_low: at(&self.padding, 2 * index, 0),
            pad_high: at(&self.padding, 2 * index + 1, 0),
            lhs_dilate: at(&self.lhs_dilation, index, 1),
            rhs_dilate: at(&self.rhs_dilation, index, 1),
            reversed: at(&self.reversal, index, 0) != 0,
        };
        let mut window = Window { dims: (0..n).map(dim).collect(), ..Window::default() };
        if n > 0 {
            window.keys = window_keys(&window);
        }
        Some(window)
    }
}
