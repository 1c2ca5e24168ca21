//! Gradients of narrow weights in 32 bits, as Megatron and DeepSpeed sum them: products hand on what they have
//! added up, not rounded.

use phzc_ir::build::Builder;
use phzc_ir::{DType, InstrId, Module, Opcode, Shape, notes};

/// Makes every gradient of fewer than 32 bits one of 32; what it is made of instead stays, unread.
pub(super) fn widen(module: Module) -> Module {
    let (root, mut b) = (module.entry().root, Builder::resume(module));
    let mut n_uses = vec![0; b.instrs().len()];
    b.instrs().iter().flat_map(|instr| &instr.operands).for_each(|operand| n_uses[operand.index()] += 1);
    let mut outputs: Vec<InstrId> = b.instr(root).operands.to_vec();
    for output in &mut outputs {
        let Some(note) = b.instr(*output).note(notes::GRAD).map(str::to_owned) else { continue };
        if b.dtype(*output).bits() >= 32 {
            continue;
        }
        b.instr_mut(*output).remove_note(notes::GRAD);
        *output = widened(&mut b, &n_uses, *output);
        b.instr_mut(*output).set_note(notes::GRAD, &note);
    }
    let root = b.tuple(&outputs);
    b.finish(root)
}

/// The value in 32 bits: made so where nobody else reads it, else converted.
fn widened(b: &mut Builder, n_uses: &[usize], id: InstrId) -> InstrId {
    let (op, dims) = (b.instr(id).op, b.dims(id));
    let is_product = matches!(op, Opcode::Dot | Opcode::Convolution);
    let is_open = matches!(op, Opcode::Add | Opcode::Transpose | Opcode::Reshape);
    if n_uses[id.index()] > 1 || !is_product && !is_open {
        return b.convert(id, DType::F32);
    }
    let (mut operands, attrs) = (b.instr(id).operands.to_vec(), b.instr(id).attrs.clone());
    if is_open {
        operands.iter_mut().for_each(|operand| *operand = widened(b, n_uses, *operand));
    }
    b.shaped(op, &operands, Shape::array(DType::F32, &dims), attrs)
}

#[cfg(test)]
mod tests {
    use super::*;
    use phzc_ir::{parse, print};

    #[test]
    fn a_product_that_only_a_gradient_is_made_of_is_not_rounded() {
        let module = parse(
            "ENTRY e {
            x = bf16[8,4] parameter(0)
            y = bf16[8,2] parameter(1)
            a = bf16[4,2] dot(x, y), lhs_contracting_dims={0}, rhs_contracting_dims={0}
            b = bf16[4,2] dot(x, y), lhs_contracting_dims={0}, rhs_contracting_dims={0}
            t = bf16[4,2] tanh(b)
            w = bf16[4,2] add(a, b)
            g = bf16[2,4] transpose(w), dimensions={1,0}, frontend_attributes={phzc.grad=\"0\"}
            ROOT r = (bf16[4,2], bf16[2,4]) tuple(t, g)
        }",
        );
        let text = print(&widen(module.expect("legal")));
        let lines: Vec<&str> =
            text.lines().filter(|line| line.contains("f32[") || line.contains("ROOT")).collect();
        insta::assert_snapshot!(lines.join("\n"), @r#"
        dot.0 = f32[4,2] dot(x, y), lhs_contracting_dims={0}, rhs_contracting_dims={0}
        convert.1 = f32[4,2] convert(b)
        add.2 = f32[4,2] add(dot.0, convert.1)
        transpose.3 = f32[2,4] transpose(add.2), dimensions={1,0}, frontend_attributes={phzc.grad="0"}
        ROOT tuple.4 = (bf16[4,2], f32[2,4]) tuple(t, transpose.3)
        "#);
    }
}
