//! The gradient that copies wait for, as little of it as there is in memory anyway.
//!
//! A barrier's operands are written to memory as they are. The gradient that a reader takes is often the
//! `convert` to f32, or a multiple, of a bf16 product, which XLA makes in registers: waiting for the product
//! moves half the bytes or less. On one H100, GPT-350M's plan passed 49 GiB of such gradients a step, and its
//! kernels moved 363 GiB; they move 255 GiB with the products (tests/measured/README.md).

use phzc_ir::{Computation, FusionKind, InstrId, Opcode};

/// Of a gradient and what it is made of element by element, or repeats, as far as that is one gradient, the
/// one with the fewest bytes; the latest of equal ones. A scalar is made too early to wait for.
pub fn narrowest(comp: &Computation, gradient: InstrId, is_gradient: impl Fn(InstrId) -> bool) -> InstrId {
    let bytes = |id: InstrId| comp.instr(id).shape.bytes();
    let (mut best, mut at) = (gradient, gradient);
    loop {
        let instr = comp.instr(at);
        let is_repeat = instr.op == Opcode::Broadcast;
        let is_elementwise =
            matches!(instr.op.def().fusion, FusionKind::Loop | FusionKind::View) || is_repeat;
        let mut from = instr.operands.iter().copied().filter(|&operand| is_gradient(operand));
        let (Some(next), None) = (from.next().filter(|_| is_elementwise), from.next()) else { return best };
        let is_repeated = is_repeat && elements(comp, next) > Some(1.0);
        if elements(comp, next) != elements(comp, at) && !is_repeated {
            return best;
        }
        at = next;
        if bytes(at) < bytes(best) {
            best = at;
        }
    }
}

fn elements(comp: &Computation, id: InstrId) -> Option<f64> {
    comp.instr(id).shape.as_array().map(|array| array.n_elements())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn copies_wait_for_the_product_that_a_gradient_is_made_of() {
        let text = "ENTRY e {
            x = bf16[8,8] parameter(0)  s = f32[8,8] parameter(1)
            d = bf16[8,8] dot(x, x), lhs_contracting_dims={1}, rhs_contracting_dims={0}
            w = f32[8,8] convert(d)
            m = f32[8,8] multiply(w, s)
            two = f32[8,8] add(m, w)
            r = f32[8] parameter(2)
            b = f32[8,8] broadcast(r), dimensions={0}
            o = f32[] parameter(3)
            ROOT all = f32[8,8] broadcast(o), dimensions={} }";
        let module = phzc_ir::parse(text).expect("legal");
        let comp = module.entry();
        let id = |name: &str| comp.iter().find(|(_, instr)| &*instr.name == name).expect("it is there").0;
        let given = [id("x"), id("s")];
        let token = |name: &str| {
            let found = narrowest(comp, id(name), |operand| !given.contains(&operand));
            comp.instr(found).name.to_string()
        };
        assert_eq!(["m", "w", "d"].map(token), ["d"; 3]);
        // Of two gradients it is made anew; of a scalar too.
        assert_eq!(["two", "b", "all"].map(token), ["two", "r", "all"]);
    }
}
