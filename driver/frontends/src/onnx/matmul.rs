//! Products of tensors.

use super::node::{Cx, common};
use super::reduce;
use phzc_ir::build::dimensions;
use phzc_ir::{Diagnostic, InstrId, Key, Opcode, Result};

/// `dot`: batch dimensions, the left one's others, the right one's others.
pub(crate) fn dot(
    cx: &mut Cx,
    (lhs, rhs): (InstrId, InstrId),
    n_batch: usize,
    contracting: (usize, usize),
) -> Result<InstrId> {
    let batch: Vec<usize> = (0..n_batch).collect();
    let mut attrs = Vec::new();
    if n_batch > 0 {
        attrs.push(dimensions(Key::LhsBatchDims, &batch));
        attrs.push(dimensions(Key::RhsBatchDims, &batch));
    }
    attrs.push(dimensions(Key::LhsContractingDims, &[contracting.0]));
    attrs.push(dimensions(Key::RhsContractingDims, &[contracting.1]));
    cx.op(Opcode::Dot, &[lhs, rhs], attrs)
}

/// `MatMul`, as NumPy's: vectors are rows on the left and columns on the right, other dimensions are
/// broadcast.
pub(super) fn matmul(cx: &mut Cx) -> Result<InstrId> {
    let (mut a, mut b) = (cx.input(0)?, cx.input(1)?);
    let is_vector = [a, b].map(|x| cx.b.rank(x) == 1);
    if is_vector[0] {
        let n = cx.b.dims(a)[0];
        a = cx.reshape(a, &[1, n])?;
    }
    if is_vector[1] {
        let n = cx.b.dims(b)[0];
        b = cx.reshape(b, &[n, 1])?;
    }
    let product = product(cx, a, b)?;
    let mut dims = cx.b.dims(product);
    let rank = dims.len();
    if is_vector[1] {
        dims.remove(rank - 1);
    }
    if is_vector[0] {
        dims.remove(rank - 2);
    }
    cx.reshape(product, &dims)
}

fn product(cx: &mut Cx, a: InstrId, b: InstrId) -> Result<InstrId> {
    let (left, right) = (cx.b.dims(a), cx.b.dims(b));
    if left.len() < 2 || right.len() < 2 {
        return Err(Diagnostic::error("the operands must have dimensions"));
    }
    if right.len() == 2 {
        return dot(cx, (a, b), 0, (left.len() - 1, 0));
    }
    let (left_at, right_at) = (left.len() - 2, right.len() - 2);
    let batch = common(&left[..left_at], &right[..right_at])?;
    let n = batch.len();
    let a = cx.broadcast_to(a, &[&batch, &left[left_at..]].concat())?;
    let b = cx.broadcast_to(b, &[&batch, &right[right_at..]].concat())?;
    dot(cx, (a, b), n, (n + 1, n))
}

/// `Gemm`: α·A·B + β·C, either factor transposed.
pub(super) fn gemm(cx: &mut Cx) -> Result<InstrId> {
    let (a, b) = (cx.input(0)?, cx.input(1)?);
    if cx.b.rank(a) != 2 || cx.b.rank(b) != 2 {
        return Err(Diagnostic::error("the factors must be matrices"));
    }
    let contracting =
        (usize::from(cx.attr_int("transA", 0) == 0), usize::from(cx.attr_int("transB", 0) != 0));
    let product = dot(cx, (a, b), 0, contracting)?;
    let product = scaled(cx, product, "alpha");
    let Some(c) = cx.optional(2)? else { return Ok(product) };
    let dims = cx.b.dims(product);
    let c = scaled(cx, c, "beta");
    let c = cx.broadcast_to(c, &dims)?;
    cx.op(Opcode::Add, &[product, c], Vec::new())
}

fn scaled(cx: &mut Cx, x: InstrId, factor: &str) -> InstrId {
    let factor = cx.attr_float(factor, 1.0);
    if factor == 1.0 { x } else { cx.b.scale(x, factor) }
}

/// An operand of an `Einsum` and the letters of its dimensions.
type Lettered = (InstrId, String);

/// `Einsum`: operands are multiplied from left to right; letters that nothing needs any more are summed over.
pub(super) fn einsum(cx: &mut Cx) -> Result<InstrId> {
    let equation = cx.attr_text("equation", "").replace(' ', "");
    let (operands, out) = lettered(cx, &equation)?;
    let mut operands = operands.into_iter();
    let none = || Diagnostic::error("there are no operands");
    let mut left = operands.next().ok_or_else(none)?;
    while let Some(right) = operands.next() {
        let later: String = operands.clone().map(|(_, letters)| letters).collect();
        left = pair(cx, left, right, &(later + &out))?;
    }
    let (x, letters) = summed(cx, left, &out)?;
    let order: Option<Vec<usize>> = out.chars().map(|c| letters.find(c)).collect();
    let order = order.filter(|order| order.len() == letters.len());
    let wrong = || Diagnostic::error(format!("`{equation}`: the result has a letter that no operand has"));
    Ok(cx.b.transpose(x, &order.ok_or_else(wrong)?))
}

/// The product of two operands, as far as later ones and the result need it.
fn pair(cx: &mut Cx, left: Lettered, right: Lettered, needed: &str) -> Result<Lettered> {
    let (x, a) = summed(cx, left, &format!("{needed}{}", right.1))?;
    let (y, b) = summed(cx, right, &format!("{needed}{a}"))?;
    let (sizes, others) = (cx.b.dims(x), cx.b.dims(y));
    let fits = |(at, c)| b.find(c).is_none_or(|other| others[other] == sizes[at]);
    if !a.chars().enumerate().all(fits) {
        return Err(Diagnostic::error(format!("sizes {sizes:?} (`{a}`) and {others:?} (`{b}`) differ")));
    }
    if cx.b.dtype(x) != cx.b.dtype(y) {
        return Err(Diagnostic::error("the operands are of different types"));
    }
    let own = b.chars().filter(|&c| !a.contains(c));
    let out: String = a.chars().chain(own).filter(|&c| needed.contains(c)).collect();
    Ok((cx.b.einsum(&format!("{a},{b}->{out}"), x, y), out))
}

/// Without the letters that are not needed.
fn summed(cx: &mut Cx, (x, letters): Lettered, needed: &str) -> Result<Lettered> {
    let dims: Vec<usize> =
        letters.chars().enumerate().filter(|&(_, c)| !needed.contains(c)).map(|(at, _)| at).collect();
    let kept = letters.chars().filter(|&c| needed.contains(c)).collect();
    Ok((reduce::sum(cx, x, &dims)?, kept))
}

/// The operands with their letters, and the result's letters; dimensions behind `...` get digits.
fn lettered(cx: &mut Cx, equation: &str) -> Result<(Vec<Lettered>, String)> {
    let wrong = |what: &str| Diagnostic::error(format!("`{equation}`: {what}"));
    let (inputs, out) = equation.split_once("->").map_or((equation, None), |(a, b)| (a, Some(b)));
    let (ids, specs) = (cx.all()?, inputs.split(',').collect::<Vec<_>>());
    if ids.len() != specs.len() {
        return Err(wrong("not as many operands as the node has inputs"));
    }
    let mut found = Vec::new();
    for (&id, spec) in ids.iter().zip(specs) {
        reduce::expect_numbers(cx, id)?;
        let hidden = (cx.b.rank(id) + 3).checked_sub(spec.len()).filter(|&n| n < 10 && spec.contains("..."));
        let letters = spec.replace("...", &digits(hidden.unwrap_or(0)));
        let once = |c: char| letters.matches(c).count() == 1;
        if letters.len() != cx.b.rank(id) || !letters.chars().all(|c| c.is_ascii_alphanumeric() && once(c)) {
            return Err(wrong("an operand has other dimensions, or a letter twice"));
        }
        found.push((id, letters));
    }
    let all: String = found.iter().map(|(_, letters)| letters.as_str()).collect();
    let most = all.chars().filter_map(|c| c.to_digit(10)).max().map_or(0, |digit| digit as usize + 1);
    let out = out.map_or_else(|| implied(&all), |out| out.replace("...", &digits(most)));
    match out.chars().all(|c| c.is_ascii_alphanumeric() && out.matches(c).count() == 1) {
        true => Ok((found, out)),
        false => Err(wrong("the result is not a list of letters")),
    }
}

/// Digits for hidden dimensions, the last of which is always 0: they count from the end.
fn digits(n: usize) -> String {
    (0..n).rev().map(|digit| digit.to_string()).collect()
}

/// The result of an equation that names none: hidden dimensions, then letters that occur once, in order.
fn implied(all: &str) -> String {
    let mut letters: Vec<char> =
        all.chars().filter(|&c| c.is_ascii_digit() || all.matches(c).count() == 1).collect();
    letters.sort_unstable_by_key(
        |&c| if c.is_ascii_digit() { (0, '9' as u32 - c as u32) } else { (1, c as u32) },
    );
    letters.dedup();
    letters.into_iter().collect()
}
