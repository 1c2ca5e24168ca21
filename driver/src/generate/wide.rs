//! Gradients of narrow weights in 32 bits, as Megatron and DeepSpeed sum them over microbatches and copies:
//! products hand on what they have added up, not rounded.

use phzc_ir::build::Builder;
use phzc_ir::{DType, Instr, InstrId, Module, Opcode, Shape, notes};

/// Makes every gradient of fewer than 32 bits one of 32; narrow values that nobody reads any more are left to
/// `dce`.
pub(super) fn widen(mut module: Module) -> Module {
    let is_narrow = |instr: &Instr| {
        let array = instr.shape.as_array().filter(|_| instr.note(notes::GRAD).is_some());
        array.is_some_and(|array| array.dtype.bits() < 32)
    };
    if !module.entry().instrs.iter().any(is_narrow) {
        return module;
    }
    module.put_entry_last();
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
    wide.place_behind(root);
    let mut order: Vec<usize> = (0..wide.placed_behind.len()).collect();
    order.sort_by_key(|&id| (wide.placed_behind[id], id));
    let mut module = wide.b.finish(root);
    module.comps[entry].reorder(&order);
    module
}

/// A program some of whose values are made anew.
struct Wide {
    b: Builder,
    n_uses: Vec<usize>,
    /// Per instruction: itself, or the narrow one that it is placed behind, so that what is made early is not
    /// kept until the end of the program.
    placed_behind: Vec<InstrId>,
}

impl Wide {
    fn of(b: Builder) -> Wide {
        let mut n_uses = vec![0; b.instrs().len()];
        b.instrs().iter().flat_map(|instr| &instr.operands).for_each(|operand| n_uses[operand.index()] += 1);
        let placed_behind = (0..n_uses.len()).map(InstrId::new).collect();
        Wide { b, n_uses, placed_behind }
    }

    /// Places what is new behind an instruction.
    fn place_behind(&mut self, id: InstrId) {
        self.placed_behind.resize(self.b.instrs().len(), id);
    }

    /// The value in 32 bits: what was rounded to it, made so where nobody else reads it, or converted.
    fn made(&mut self, id: InstrId) -> InstrId {
        let (op, dims) = (self.b.instr(id).op, self.b.dims(id));
        let source = self.b.instr(id).operands.first().copied();
        if let Some(exact) = source.filter(|&it| op == Opcode::Convert && self.b.dtype(it) == DType::F32) {
            return exact;
        }
        let is_product = matches!(op, Opcode::Dot | Opcode::Convolution);
        let is_open = matches!(op, Opcode::Add | Opcode::Transpose | Opcode::Reshape);
        let made = if self.n_uses[id.index()] > 1 || !is_product && !is_open {
            self.b.convert(id, DType::F32)
        } else {
            let (mut operands, attrs) = (self.b.instr(id).operands.to_vec(), self.b.instr(id).attrs.clone());
            operands.iter_mut().filter(|_| is_open).for_each(|operand| *operand = self.made(*operand));
            self.b.shaped(op, &operands, Shape::array(DType::F32, &dims), attrs)
        };
        self.place_behind(id);
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
            f = f32[4] iota(), iota_dimension=0
            h = bf16[4] convert(f), frontend_attributes={phzc.grad=\"1\"}
            ROOT r = (bf16[4,2], bf16[2,4], bf16[4]) tuple(t, g, h)
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
        f = f32[4] iota(), iota_dimension=0, frontend_attributes={phzc.grad="1"}
        ROOT tuple.4 = (bf16[4,2], f32[2,4], f32[4]) tuple(t, transpose.3, f)
        "#);
    }
}
