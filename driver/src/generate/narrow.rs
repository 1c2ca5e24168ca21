//! Products of layers in 8 or 4 bits: their operands are converted right before them, forward and backward
//! (Micikevicius et al. 2022, "FP8 formats for deep learning"), without the scales of a training recipe.

use phzc_frontends::zoo::LAYER_PRODUCT;
use phzc_ir::edit::Names;
use phzc_ir::{Computation, DType, Instr, InstrId, Key, Module, Opcode, Shape};
use std::collections::BTreeMap;

/// Gives the marked products operands of that type; what they add up in, and hand on, stays.
pub(super) fn narrow(module: &mut Module, dtype: DType) {
    module.comps.iter_mut().for_each(|comp| narrow_in(comp, dtype));
}

fn narrow_in(comp: &mut Computation, dtype: DType) {
    let is_marked = |(_, instr): &(InstrId, &Instr)| instr.word(Key::Algorithm) == Some(LAYER_PRODUCT);
    let marked: Vec<InstrId> = comp.iter().filter(is_marked).map(|(id, _)| id).collect();
    let (n_old, mut names) = (comp.instrs.len(), Names::of(comp));
    let (mut new, mut narrow_of) = (Vec::new(), BTreeMap::<InstrId, InstrId>::new());
    for product in marked {
        for operand in comp.instr(product).operands.clone() {
            narrow_of.entry(operand).or_insert_with(|| {
                new.push((product, converted(comp.instr(operand), operand, dtype, &mut names)));
                InstrId::new(n_old + new.len() - 1)
            });
        }
        let instr = &mut comp.instrs[product.index()];
        instr.operands.iter_mut().for_each(|operand| *operand = narrow_of[operand]);
        instr.attrs.retain(|attr| attr.key != Key::Algorithm);
    }
    comp.insert_before(new);
}

fn converted(wide: &Instr, id: InstrId, dtype: DType, names: &mut Names) -> Instr {
    let dims = wide.shape.as_array().map(|array| array.dims.clone()).unwrap_or_default();
    Instr {
        op: Opcode::Convert,
        name: names.derive(&wide.name, dtype.as_str()),
        shape: Shape::array(dtype, &dims),
        operands: [id].into_iter().collect(),
        ..Instr::nothing(wide.span)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use phzc_ir::{parse, print};

    #[test]
    fn products_of_layers_share_what_is_converted() {
        let text = format!(
            "ENTRY e {{
            x = bf16[8,4] parameter(0)
            w = bf16[4,2] parameter(1)
            g = bf16[8,2] parameter(2)
            y = bf16[8,2] dot(x, w), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}}, algorithm={LAYER_PRODUCT}
            head = bf16[8,2] dot(x, w), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}}
            dw = f32[4,2] dot(x, g), lhs_contracting_dims={{0}}, rhs_contracting_dims={{0}}, algorithm={LAYER_PRODUCT}
            ROOT r = (bf16[8,2], bf16[8,2], f32[4,2]) tuple(y, head, dw)
        }}"
        );
        let mut module = parse(&text).expect("legal");
        narrow(&mut module, DType::F8e4m3fn);
        let text = print(&module);
        let made = text.lines().filter(|line| line.contains("convert") || line.contains("dot"));
        insta::assert_snapshot!(made.collect::<Vec<_>>().join("\n"), @r#"
        x.f8e4m3fn = f8e4m3fn[8,4] convert(x)
        w.f8e4m3fn = f8e4m3fn[4,2] convert(w)
        y = bf16[8,2] dot(x.f8e4m3fn, w.f8e4m3fn), lhs_contracting_dims={1}, rhs_contracting_dims={0}
        head = bf16[8,2] dot(x, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}
        g.f8e4m3fn = f8e4m3fn[8,2] convert(g)
        dw = f32[4,2] dot(x.f8e4m3fn, g.f8e4m3fn), lhs_contracting_dims={0}, rhs_contracting_dims={0}
        "#);
    }
}
