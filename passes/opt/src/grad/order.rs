//! Derivatives of `sort` and `topk`: cotangents go back to where the elements came from.

use super::scope::{Cx, leaf_shape};
use phzc_ir::attr::Value;
use phzc_ir::build::dimensions;
use phzc_ir::{Attr, CompId, DType, Instr, InstrId, Key, Opcode, Payload, Result, Shape};

/// The cotangents, sorted by the places that the elements had.
pub(super) fn sort(cx: &mut Cx) -> Result<()> {
    let (n, along) =
        (cx.instr.operands.len(), cx.instr.ints(Key::Dimensions).first().map_or(0, |&dim| dim as usize));
    let Some(comparator) = cx.instr.comp(Key::ToApply) else {
        return Err(cx.refuse("it has no computation"));
    };
    let mut operands: Vec<InstrId> = (0..n).map(|operand| cx.x(operand)).collect();
    let sizes = cx.b.dims(operands[0]);
    operands.push(cx.b.iota(DType::S32, &sizes, along));
    let mut attrs = cx.instr.attrs.clone();
    attrs.retain(|attr| !matches!(attr.key, Key::ToApply | Key::Sharding | Key::FrontendAttributes));
    attrs.push(Attr { key: Key::ToApply, value: Value::Comp(with_numbers(cx, comparator, n)) });
    let sorted = cx.b.op(Opcode::Sort, &operands, attrs);
    let places = cx.b.element(sorted, n);
    for index in 0..n {
        let Some(ct) = cx.cts.get(index).copied().flatten() else { continue };
        cx.give_with(index, |cx| sorted_by(cx, places, ct, along));
    }
    Ok(())
}

/// The comparator with two more parameters, which it does not look at.
fn with_numbers(cx: &mut Cx, comparator: CompId, n: usize) -> CompId {
    let comp = cx.b.comps()[comparator.index()].clone();
    cx.b.begin(&comp.name);
    let span = cx.b.span;
    comp.instrs.into_iter().for_each(|instr| {
        cx.b.push(instr);
    });
    for (index, name) in ["phzc_place", "phzc_other_place"].into_iter().enumerate() {
        cx.b.push(Instr {
            name: name.into(),
            op: Opcode::Parameter,
            operands: [].into_iter().collect(),
            shape: Shape::array(DType::S32, &[]),
            payload: Payload::Parameter((2 * n + index) as u32),
            attrs: Vec::new(),
            span,
        });
    }
    cx.b.end(comp.root)
}

/// `values` in the order of `places`.
fn sorted_by(cx: &mut Cx, places: InstrId, values: InstrId, along: usize) -> InstrId {
    let less = by_place(cx, cx.b.dtype(values));
    let attrs =
        vec![dimensions(Key::Dimensions, &[along]), Attr { key: Key::ToApply, value: Value::Comp(less) }];
    let sorted = cx.b.op(Opcode::Sort, &[places, values], attrs);
    cx.b.element(sorted, 1)
}

/// Compares two places that come with values.
fn by_place(cx: &mut Cx, dtype: DType) -> CompId {
    cx.b.begin("by_place");
    let [one, other] = ["a", "b"].map(|name| cx.b.parameter(name, Shape::array(DType::S32, &[])));
    for name in ["c", "d"] {
        cx.b.parameter(name, Shape::array(dtype, &[]));
    }
    let root = cx.b.compare(one, other, "LT");
    cx.b.end(root)
}

/// The cotangents of the largest, added where these were.
pub(super) fn topk(cx: &mut Cx) -> Result<()> {
    let Some(ct) = cx.cts.first().copied().flatten() else { return Ok(()) };
    let is_known = cx.instr.operands.len() == 1 && cx.instr.shape.parts().len() == 2;
    if !is_known || leaf_shape(&cx.instr.shape, 0).dims != leaf_shape(&cx.instr.shape, 1).dims {
        return Err(cx.refuse("it does not make values and their places"));
    }
    let (shape, at) = (cx.shape(0), cx.y_part(1));
    let last = shape.rank() - 1;
    if cx.b.rank(at) != shape.rank() || cx.b.dims(at)[..last] != shape.dims[..last] {
        return Err(cx.refuse("it does not make values of its operand"));
    }
    let k = cx.b.dims(at)[last];
    let sizes: Vec<i64> = [&shape.dims[..last], &[k, shape.dims[last]]].concat();
    let leading: Vec<usize> = (0..=last).collect();
    let numbers = cx.b.iota(cx.b.dtype(at), &sizes, last + 1);
    let [at, ct] = [at, ct].map(|value| cx.b.broadcast(value, &sizes, &leading));
    let is_it = cx.b.compare(numbers, at, "EQ");
    let zero = cx.b.full_like(ct, 0.0);
    let spread = cx.b.select(is_it, ct, zero);
    let made = cx.b.sum(spread, &[last]);
    cx.give(0, made);
    Ok(())
}
