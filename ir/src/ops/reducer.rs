//! Computations that an op applies to scalars: their signatures, their cost, and what they combine with.

use super::literal;
use super::read::{callee, describe};
use crate::attr::Key;
use crate::diag::counted;
use crate::dtype::{Class, DType};
use crate::flops;
use crate::module::{CompId, Computation, Instr};
use crate::opcode::Opcode;
use crate::rule::Reducer;
use crate::shape::Shape;
use crate::view::View;
use crate::work::Work;
use smallvec::SmallVec;

/// Checks that `comp` takes scalars of these types.
pub(crate) fn check_params(comp: &Computation, dtypes: &[DType]) -> Result<(), String> {
    let mut found = 0;
    for instr in &comp.instrs {
        let Some(number) = instr.param_number() else { continue };
        found += 1;
        let Some(&wanted) = dtypes.get(number as usize) else {
            let count = counted(dtypes.len(), "scalar");
            return Err(format!("`{}` must take {count}, but has a parameter {number}", comp.name));
        };
        if !is_scalar_of(&instr.shape, wanted) {
            let (wanted, found) = (wanted.as_str(), describe(&instr.shape));
            return Err(format!("parameter {number} of `{}` must be {wanted}[], got {found}", comp.name));
        }
    }
    if found == dtypes.len() {
        return Ok(());
    }
    Err(format!("`{}` must take {}, got {found}", comp.name, counted(dtypes.len(), "scalar")))
}

/// Whether this is a scalar of the type, or of another width of float.
fn is_scalar_of(shape: &Shape, dtype: DType) -> bool {
    let fits =
        |found: DType| found == dtype || (found.class() == Class::Float && dtype.class() == Class::Float);
    shape.as_array().is_some_and(|scalar| scalar.rank() == 0 && fits(scalar.dtype))
}

/// Checks that the computation combines pairs of these types, accumulators first; the types it makes.
pub(crate) fn check_reducer(view: &View, key: Key, dtypes: &[DType]) -> Result<DTypes, String> {
    let comp = callee(view, key)?;
    let params: DTypes = dtypes.iter().chain(dtypes).copied().collect();
    check_params(comp, &params)?;
    let root = &comp.root().shape;
    let parts = if let Shape::Tuple(parts) = root { parts } else { std::slice::from_ref(root) };
    let fits = parts.len() == dtypes.len()
        && parts.iter().zip(dtypes).all(|(part, &wanted)| is_scalar_of(part, wanted));
    if !fits {
        let wanted: Vec<String> = dtypes.iter().map(|dtype| format!("{}[]", dtype.as_str())).collect();
        return Err(format!("`{}` must return {}, got {}", comp.name, wanted.join(", "), describe(root)));
    }
    Ok(parts.iter().filter_map(|part| part.as_array()).map(|scalar| scalar.dtype).collect())
}

/// Element types of a few arrays.
pub(crate) type DTypes = SmallVec<[DType; 4]>;

/// Checks that a comparator takes pairs of these types and returns a truth value.
pub(crate) fn check_comparator(comp: &Computation, dtypes: &[DType]) -> Result<(), String> {
    let params: DTypes = dtypes.iter().flat_map(|&dtype| [dtype, dtype]).collect();
    check_params(comp, &params)?;
    match &comp.root().shape {
        Shape::Array(scalar) if scalar.rank() == 0 && scalar.dtype == DType::Pred => Ok(()),
        other => Err(format!("`{}` must return pred[], got {}", comp.name, describe(other))),
    }
}

/// The work of one run of the computation that an attribute names.
pub(crate) fn applied(view: &View, key: Key) -> Work {
    view.instr.comp(key).map_or(Work::default(), |id| flops::of_comp(view.comps, id))
}

/// How the computation that an attribute names combines the `index`-th of its pairs, if it is a known
/// reduction.
pub fn reducer(view: &View, key: Key, index: usize) -> Option<Reducer> {
    of_comp(view.comps, view.instr.comp(key)?, index)
}

fn of_comp(comps: &[Computation], id: CompId, index: usize) -> Option<Reducer> {
    let comp = comps.get(id.index())?;
    let (root, n_pairs) = match comp.root() {
        root if root.op == Opcode::Tuple => (comp.instr(*root.operands.get(index)?), root.operands.len()),
        root => (root, 1),
    };
    let root = unrounded(comp, root);
    let reducer = of_op(root)?;
    let &[a, b] = root.operands.as_slice() else { return None };
    let number = |id| unrounded(comp, comp.instr(id)).param_number().map(|number| number as usize);
    let mut numbers = [number(a)?, number(b)?];
    numbers.sort_unstable();
    (numbers == [index, index + n_pairs]).then_some(reducer)
}

/// What a float is before conversions to other floats: reducers of narrow floats compute in wide ones.
fn unrounded<'a>(comp: &'a Computation, mut instr: &'a Instr) -> &'a Instr {
    let is_float =
        |instr: &Instr| instr.shape.as_array().is_some_and(|shape| shape.dtype.class() == Class::Float);
    while instr.op == Opcode::Convert && is_float(instr) {
        match instr.operands.first().map(|&id| comp.instr(id)) {
            Some(operand) if is_float(operand) => instr = operand,
            _ => break,
        }
    }
    instr
}

fn of_op(instr: &Instr) -> Option<Reducer> {
    let is_pred = instr.shape.as_array()?.dtype == DType::Pred;
    Some(match instr.op {
        Opcode::Add if is_pred => Reducer::Or,
        Opcode::Multiply if is_pred => Reducer::And,
        Opcode::Add => Reducer::Add,
        Opcode::Multiply => Reducer::Mul,
        Opcode::Maximum => Reducer::Max,
        Opcode::Minimum => Reducer::Min,
        Opcode::And => Reducer::And,
        Opcode::Or => Reducer::Or,
        Opcode::Xor => Reducer::Xor,
        _ => return None,
    })
}

/// Every pair's reduction, if all are known and equal: a factor has one kind for all results.
pub(crate) fn common_reducer(view: &View, key: Key, n_pairs: usize) -> Option<Reducer> {
    let mut all = (0..n_pairs).map(|index| reducer(view, key.clone(), index));
    let first = all.next()??;
    all.all(|other| other == Some(first)).then_some(first)
}

/// Whether combining `operand`'s values several times instead of once changes nothing.
///
/// True for reductions in which a repeated value is absorbed, and for visible neutral elements.
pub(crate) fn is_neutral(view: &View, operand: usize, reducer: Reducer) -> bool {
    let neutral = match reducer {
        Reducer::Max | Reducer::Min | Reducer::And | Reducer::Or => return true,
        Reducer::Add | Reducer::Xor => 0.0,
        Reducer::Mul => 1.0,
    };
    let Some(&id) = view.instr.operands.get(operand) else { return false };
    let mut instr = &view.instrs[id.index()];
    while matches!(instr.op, Opcode::Broadcast | Opcode::Convert | Opcode::Reshape | Opcode::Copy)
        || instr.word(Key::CustomCallTarget) == Some("Sharding")
    {
        match instr.operands.first() {
            Some(&operand) => instr = &view.instrs[operand.index()],
            None => return false,
        }
    }
    literal::is_all(instr, neutral)
}

/// Checks that a window's selection compares two scalars of this type.
pub(crate) fn check_selection(view: &View, key: Key, dtype: DType) -> Result<(), String> {
    check_comparator(callee(view, key)?, &[dtype])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ops::check::{error, with_root};

    fn combines(dtype: &str, root: &str) -> Option<Reducer> {
        let comp = format!("r {{ a = {dtype}[] parameter(0) b = {dtype}[] parameter(1) {root} }}");
        let body = format!(
            "x: {dtype}[2]; z: {dtype}[]; ROOT y = {dtype}[] reduce(x, z), dimensions={{0}}, to_apply=r"
        );
        with_root(&format!("{comp}\n---\n{body}"), |view| reducer(view, Key::ToApply, 0))
    }

    #[test]
    fn computations_of_one_op_are_known() {
        let of = |dtype: &str, op: &str| combines(dtype, &format!("ROOT c = {dtype}[] {op}(b, a)"));
        assert_eq!(
            [of("f32", "add"), of("s32", "multiply"), of("f32", "maximum")],
            [Some(Reducer::Add), Some(Reducer::Mul), Some(Reducer::Max)]
        );
        assert_eq!(
            [of("f32", "minimum"), of("u8", "and"), of("u8", "or"), of("u8", "xor")],
            [Some(Reducer::Min), Some(Reducer::And), Some(Reducer::Or), Some(Reducer::Xor)]
        );
        assert_eq!(
            [of("pred", "add"), of("pred", "multiply"), of("f32", "subtract")],
            [Some(Reducer::Or), Some(Reducer::And), None]
        );
        assert_eq!(combines("f32", "ROOT c = f32[] add(a, a)"), None);
    }

    #[test]
    fn narrow_floats_may_be_combined_in_wide_ones() {
        let wide = "x = f32[] convert(a) y = f32[] convert(b) s = f32[] add(x, y) ROOT c = bf16[] convert(s)";
        assert_eq!(combines("bf16", wide), Some(Reducer::Add));
        let whole = wide.replace("f32[]", "s32[]");
        assert_eq!(combines("bf16", &whole), None);
    }

    #[test]
    fn a_window_s_selection_is_a_comparison() {
        let select = |comp: &str| {
            error(&format!(
                "x: f32[8]; s: f32[4]; z: f32[]; ROOT r = f32[8] select-and-scatter(x, s, z), window={{size=2 stride=2}}, select={comp}, scatter=add"
            ))
        };
        assert_eq!([select("less"), select("add")], ["", "`add` must return pred[], got f32[]"]);
    }

    #[test]
    fn long_tuples_are_shortened_where_they_are_described() {
        let of = |n: usize| describe(&Shape::Tuple(vec![Shape::array(DType::F32, &[]); n]));
        assert_eq!(of(4), "(f32[], f32[], f32[], f32[])");
        assert_eq!(of(5), "(f32[], f32[], f32[], f32[], … (5 parts))");
    }
}
