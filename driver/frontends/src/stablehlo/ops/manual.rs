//! Regions of one device's part: `sdy.manual_computation`, as XLA's calls at its borders and a computation.

use crate::stablehlo::ast::{Attr, Op};
use crate::stablehlo::lower::{Ids, Lowerer, Made, attr};
use crate::stablehlo::sharding::from_shardy;
use phzc_ir::shardy::Meant;
use phzc_ir::{Attr as HloAttr, InstrId, Key, Opcode, Result, Sharding, Tiling, TilingKind, Value};

/// `sdy.manual_computation(%x) in_shardings=[<@mesh, [{"x"}]>] out_shardings=[…] manual_axes={"x"} (%a: T)
/// {…}`: the operands' tiles go in, the whole arrays of the results' tiles come out.
pub(super) fn manual_computation<'a>(
    cx: &mut Lowerer<'a, '_>,
    op: &Op<'a>,
    operands: &[InstrId],
) -> Result<Made> {
    let region = op.region(0)?;
    let (ins, outs) = (texts(op, "in_shardings")?, texts(op, "out_shardings")?);
    if region.args.len() != operands.len() || ins.len() != operands.len() {
        return Err(op.error("`sdy.manual_computation` needs an argument and a sharding per operand"));
    }
    let mut inner = Ids::new();
    for ((&operand, text), arg) in operands.iter().zip(ins).zip(&region.args) {
        let attrs = constraint(&meant(cx, op, operand, text)?, "Sharding");
        let shape = cx.b.shape(operand).clone();
        let said = cx.b.try_shaped(Opcode::CustomCall, &[operand], shape, attrs)?;
        let manual = Sharding::Single(Tiling { kind: TilingKind::Manual, suffix: None });
        let attrs = call("SPMDFullToShardShape", manual);
        inner.push(cx.b.try_shaped(Opcode::CustomCall, &[said], arg.shape.clone(), attrs)?);
    }
    let name = cx.region_name();
    let comp = cx.region(region, &format!("manual_{name}"), op)?;
    let shape = cx.b.comps()[comp.index()].root().shape.clone();
    let n_made = if outs.len() == 1 { 1 } else { shape.parts().len() };
    if n_made != outs.len() || outs.len() == 1 && matches!(shape, phzc_ir::Shape::Tuple(_)) {
        return Err(op.error("`sdy.manual_computation` needs a sharding per result"));
    }
    let attrs = vec![attr(Key::ToApply, Value::Comp(comp))];
    let made = cx.b.try_shaped(Opcode::Call, &inner, shape, attrs)?;
    let mut results = Ids::new();
    for (index, text) in outs.iter().enumerate() {
        let part = if outs.len() == 1 { made } else { cx.b.element(made, index) };
        let attrs = constraint(&meant(cx, op, part, text)?, "SPMDShardToFullShape");
        results.push(cx.b.try_shaped(Opcode::CustomCall, &[part], op.shape(index)?, attrs)?);
    }
    Ok(Made::Many(results))
}

/// The texts of a list of shardings.
fn texts<'a>(op: &Op<'a>, name: &str) -> Result<Vec<&'a str>> {
    let wrong = || op.error(format!("`sdy.manual_computation` needs `{name}=[<@mesh, …>, …]`"));
    match op.attr(&[name]) {
        Some(Attr::List(items)) => {
            let text = |item: &Attr<'a>| if let Attr::Text(text) = item { Some(*text) } else { None };
            items.iter().map(text).collect::<Option<Vec<_>>>().ok_or_else(wrong)
        }
        _ => Err(wrong()),
    }
}

/// What a border says of a value; on a mesh without devices it is whole.
fn meant<'a>(cx: &Lowerer<'a, '_>, op: &Op<'a>, id: InstrId, text: &str) -> Result<Meant> {
    let rank = cx.b.shape(id).as_array().map_or(0, |array| array.rank());
    let meant = from_shardy(cx.file, text, rank).map_err(|message| op.error(message))?;
    Ok(meant.unwrap_or(Meant { sharding: Sharding::Single(Tiling::replicated()), open: Vec::new() }))
}

fn constraint(meant: &Meant, target: &str) -> Vec<HloAttr> {
    let mut attrs = call(target, meant.sharding.clone());
    attrs.extend(super::call::unspecified(&meant.open));
    attrs
}

fn call(target: &str, sharding: Sharding) -> Vec<HloAttr> {
    let target = attr(Key::CustomCallTarget, Value::Str(target.into()));
    vec![target, attr(Key::Sharding, Value::Sharding(Box::new(sharding)))]
}
