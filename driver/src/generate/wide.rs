//! Gradients of narrow weights in 32 bits, as Megatron and DeepSpeed sum them: products hand on what they
//! have added up, not rounded.

use phzc_ir::build::Builder;
use phzc_ir::{DType, InstrId, Module, Opcode, Shape, notes};

/// Makes every gradient of fewer than 32 bits one of 32; what it is made of instead stays, unread.
pub(super) fn widen(module: Module) -> Module {
    let (root, entry) = (module.entry().root, module.entry.index());
    let mut wide = Wide::of(Builder::resume(module));
    let mut outputs: Vec<InstrId> = wide.b.instr(root).operands.to_vec();
    for output in &mut outputs {
        let Some(note) = wide.b.instr(*output).note(notes::GRAD).map(str::to_owned) else { continue };
        if wide.b.dtype(*output).bits() >= 32 {
            continue;
        }
        wide.b.instr_mut(*output).remove_note(notes::GRAD);
        *output = wide.made(*output);
        wide.b.instr_mut(*output).set_note(notes::GRAD, &note);
    }
    let root = wide.b.tuple(&outputs);
    wide.stands_by(root);
    let mut order: Vec<usize> = (0..wide.stands_by.len()).collect();
    order.sort_by_key(|&id| (wide.stands_by[id], id));
    let mut module = wide.b.finish(root);
    module.comps[entry].reorder(&order);
    module
}

/// A program some of whose values are made anew.
struct Wide {
    b: Builder,
    n_uses: Vec<usize>,
    /// Per instruction: the one that it stands at or behind in the order of the program, where what it reads
    /// need not wait for it.
    stands_by: Vec<InstrId>,
}

impl Wide {
    fn of(b: Builder) -> Wide {
        let mut n_uses = vec![0; b.instrs().len()];
        b.instrs().iter().flat_map(|instr| &instr.operands).for_each(|operand| n_uses[operand.index()] += 1);
        let stands_by = (0..n_uses.len()).map(InstrId::new).collect();
        Wide { b, n_uses, stands_by }
    }

    /// What is new stands by that one.
    fn stands_by(&mut self, id: InstrId) {
        self.stands_by.resize(self.b.instrs().len(), id);
    }

    /// The value in 32 bits: made so where nobody else reads it, else converted.
    fn made(&mut self, id: InstrId) -> InstrId {
        let (op, dims) = (self.b.instr(id).op, self.b.dims(id));
        let is_product = matches!(op, Opcode::Dot | Opcode::Convolution);
        let is_open = matches!(op, Opcode::Add | Opcode::Transpose | Opcode::Reshape);
        let made = if self.n_uses[id.index()] > 1 || !is_product && !is_open {
            self.b.convert(id, DType::F32)
        } else {
            let (mut operands, attrs) = (self.b.instr(id).operands.to_vec(), self.b.instr(id).attrs.clone());
            operands.iter_mut().filter(|_| is_open).for_each(|operand| *operand = self.made(*operand));
            self.b.shaped(op, &operands, Shape::array(DType::F32, &dims), attrs)
        };
        self.stands_by(id);
        made
    }
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
