//! Constants of a moderate size: beside a mask's `-1e30` every other value is rounding, beside an `eps` of
//! 1e-12 none is.

use phzc_ir::{Instr, Module, Opcode, Payload};

/// Constants further from 1 than this, or than its reciprocal, are tamed.
const MOST: f64 = 1e4;
/// The exponents beyond it are that much smaller.
const SHARE: f64 = 0.05;

/// A program and a plan with tame constants, if they have others: equal as long as no rounding decides, if
/// these are.
pub fn tamed(both: &[Module; 2]) -> Option<[Module; 2]> {
    let mut both = both.clone();
    let n_wild: usize = both.iter_mut().map(tame).sum();
    (n_wild > 0).then_some(both)
}

/// Tames all constants; says how many were not.
fn tame(module: &mut Module) -> usize {
    let mut n_wild = 0;
    for instr in module.comps.iter_mut().flat_map(|comp| &mut comp.instrs) {
        if let Some(tame) = tame_literal(instr) {
            instr.payload = Payload::Literal(tame.into());
            n_wild += 1;
        }
    }
    n_wild
}

fn tame_literal(instr: &Instr) -> Option<String> {
    let (Opcode::Constant, Payload::Literal(text)) = (instr.op, &instr.payload) else { return None };
    let is_float = instr.shape.as_array().is_some_and(|shape| shape.dtype.is_inexact());
    let number = text.parse().ok().filter(|_| is_float)?;
    tame_number(number).map(|tame| format!("{tame:?}"))
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
}
