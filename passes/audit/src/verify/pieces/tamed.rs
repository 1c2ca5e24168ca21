//! Constants of a moderate size: beside a mask's `-1e30` every other value is rounding, beside an `eps` of
//! 1e-12 none is.

use phzc_ir::{Module, Opcode, Payload};
use std::collections::BTreeSet;

/// Constants further from 1 than this, or than its reciprocal, are tamed.
const MOST: f64 = 1e4;
/// The exponents beyond it are that much smaller.
const SHARE: f64 = 0.05;

/// A program and a plan with tame constants, if they have others: equal as long as no rounding decides, if
/// these are. Nothing where the plan has other ones than the program: it may have computed with them before.
pub fn tamed(both: &[Module; 2]) -> Option<[Module; 2]> {
    let mut both = both.clone();
    let [of_program, of_plan] = both.each_mut().map(tame);
    (!of_program.is_empty() && of_program == of_plan).then_some(both)
}

/// Tames all constants; the bits of those that were not.
fn tame(module: &mut Module) -> BTreeSet<u64> {
    let mut wild = BTreeSet::new();
    for instr in module.comps.iter_mut().flat_map(|comp| &mut comp.instrs) {
        let (Opcode::Constant, Payload::Literal(text)) = (instr.op, &instr.payload) else { continue };
        if instr.shape.as_array().is_some_and(|shape| shape.dtype.is_inexact()) {
            instr.payload = Payload::Literal(tame_literal(text, &mut wild).into());
        }
    }
    wild
}

/// The numbers of a literal, tamed: `{1, -1e30}` is `{1, -199526.23…}`.
fn tame_literal(text: &str, wild: &mut BTreeSet<u64>) -> String {
    let mut tame = |token: &str| {
        let number: f64 = token.trim().parse().ok()?;
        let tame = tame_number(number)?;
        wild.insert(number.to_bits());
        Some(format!("{tame:?}"))
    };
    let tokens = text.split_inclusive(['{', '}', '(', ')', ',']);
    let each = tokens.map(|token| {
        let end = token.trim_end_matches(['{', '}', '(', ')', ',']).len();
        let (number, rest) = token.split_at(end);
        tame(number).unwrap_or_else(|| number.to_owned()) + rest
    });
    each.collect()
}

/// Nearer to 1, in the same order as before.
fn tame_number(x: f64) -> Option<f64> {
    let size = x.abs();
    let is_wild = size > MOST || (size > 0.0 && size < MOST.recip());
    let bound = if size > 1.0 { MOST } else { MOST.recip() };
    (is_wild && size.is_finite()).then(|| (bound * (size / bound).powf(SHARE)).copysign(x))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_numbers_far_from_one_change_and_keep_their_order() {
        assert_eq!([0.0, 1.0, -1e4, 1e-4, f64::NEG_INFINITY].map(tame_number), [None; 5]);
        let [least, less, small, large, most] =
            [-1e30, -1e9, 1e-12, 1e5, 1e30].map(|x| tame_number(x).expect("wild"));
        assert!(least < less && less < -MOST && 0.0 < small && small < 1.0 && MOST < large && large < most);
        assert!((most - 1e4 * 10f64.powf(1.3)).abs() < 1e-6 * most, "{most}");
    }

    #[test]
    fn a_mask_of_a_program_is_tamed_and_its_integers_are_not() {
        let text = "HloModule m\nENTRY e {\n  n = s32[] constant(100000)\n  m = f32[] constant(-1e+30)\n  ROOT t = (s32[], f32[]) tuple(n, m)\n}\n";
        let module = phzc_ir::parse(text).expect("a legal program");
        let [program, _] = tamed(&[module.clone(), module]).expect("a mask");
        let text = phzc_ir::print(&program);
        assert!(text.contains("constant(100000)") && text.contains("constant(-1995"), "{text}");
        let module = phzc_ir::parse(&text.replace("-1995", "-5")).expect("a legal program");
        assert!(tamed(&[module.clone(), module]).is_none());
    }
    #[test]
    fn an_array_is_tamed_number_by_number() {
        let mut wild = BTreeSet::new();
        assert_eq!(
            tame_literal("{ {0, -1e30}, {2.5, inf} }", &mut wild),
            "{ {0,-199526.231496888}, {2.5, inf} }"
        );
        assert_eq!(wild.len(), 1);
        assert_eq!(tame_literal("{...}", &mut wild), "{...}");
    }

    #[test]
    fn a_plan_that_has_multiplied_large_constants_is_left_as_it_is() {
        let read = |body: &str| phzc_ir::parse(&format!("HloModule m\nENTRY e {{ {body} }}")).expect("legal");
        let product = "a = f32[] constant(1e5) b = f32[] constant(3e5) ROOT c = f32[] multiply(a, b)";
        assert!(tamed(&[read(product), read("ROOT c = f32[] constant(3e10)")]).is_none());
        assert!(tamed(&[read(product), read(product)]).is_some());
    }
}
