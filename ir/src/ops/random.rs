//! Random numbers.
//!
//! None of these is split: a device that drew its part of the result from the same state would draw
//! the numbers of another part. (`rng_three_fry` counts elements, but from the start of the local
//! shape.) Programs that want split random numbers compute them from `iota`, as JAX does.

use super::maps::all_replicated;
use super::read::{Inferred, describe, expect_scalar, stated};
use crate::eval::random as eval;
use crate::fusion::FusionKind;
use crate::opcode::{Arity, OpDef};
use crate::shape::{ArrayShape, Shape};
use crate::view::View;
use crate::work::Work;

/// `rng`: from the device's own generator.
pub const RNG: OpDef =
    OpDef::new(Arity::AtLeast(1), infer_rng, all_replicated, transcendentals, FusionKind::Opaque);
/// `rng-bit-generator`: from a state that is passed on.
pub const RNG_BIT_GENERATOR: OpDef =
    OpDef::new(Arity::Exactly(1), infer_bit_generator, all_replicated, transcendentals, FusionKind::Opaque)
        .evaluated(eval::bit_generator);
/// `rng-get-and-update-state`: the device's own state.
pub const RNG_STATE: OpDef =
    OpDef::new(Arity::Exactly(0), |_| Ok(None), all_replicated, |_| Work::default(), FusionKind::Opaque);

fn infer_rng(view: &View) -> Inferred {
    (0..view.n_operands()).try_for_each(|index| expect_scalar(view, index).map(drop))?;
    stated(view).map(|_| None)
}

fn infer_bit_generator(view: &View) -> Inferred {
    let state = view.array(0)?;
    match view.instr.shape.parts() {
        [] => Ok(None),
        [Shape::Array(next), Shape::Array(_)] if next.same_type(state) => Ok(None),
        _ => Err(format!(
            "`rng-bit-generator` makes its state and an array, got {}",
            describe(&view.instr.shape)
        )),
    }
}

/// XLA counts a random number as a transcendental call.
fn transcendentals(view: &View) -> Work {
    let leaves = view.instr.shape.leaves();
    Work::transcendentals(leaves.iter().filter_map(|leaf| leaf.as_array()).map(ArrayShape::n_elements).sum())
}

#[cfg(test)]
mod tests {
    use crate::ops::check::{rule, work};

    #[test]
    fn nothing_is_split() {
        let body = "s: u64[2]; ROOT r = (u64[2], u32[8]) rng-bit-generator(s), algorithm=rng_default";
        assert_eq!(rule(body), "([a])->([b],[c]) {a=2!, b=2!, c=8!}");
        assert_eq!(work(body).transcendentals, 10.0);
    }

    #[test]
    fn the_next_state_has_the_state_s_type() {
        let of = |next: &str| {
            crate::ops::check::error(&format!(
                "s: u64[2]; ROOT r = ({next}, u32[4]) rng-bit-generator(s), algorithm=rng_default"
            ))
        };
        assert_eq!(of("u64[2]"), "");
        assert_ne!(of("u64[3]"), "");
    }
}
