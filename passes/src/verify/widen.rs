//! The same programs with all floats of 64 bits: what differs then is no rounding.
//!
//! Deep programs in narrow floats amplify rounding beyond any useful tolerance, and small terms vanish in it. A
//! program that looks at the bits of its floats means something else in wider ones: the verifier objects to it, and
//! it stays as it is.

use phzc_ir::dtype::Class;
use phzc_ir::{DType, Module, Shape, verify};

/// The programs in 64-bit floats; `None` if one of them is none then.
pub fn widen(programs: &[Module; 2]) -> Option<[Module; 2]> {
    let wide = programs.clone().map(|mut module| {
        module.attrs.retain(|attr| &*attr.key != "entry_computation_layout");
        let instrs = module.comps.iter_mut().flat_map(|comp| &mut comp.instrs);
        instrs.for_each(|instr| widen_shape(&mut instr.shape));
        module
    });
    wide.iter().all(|module| verify(module).is_empty()).then_some(wide)
}

fn widen_shape(shape: &mut Shape) {
    match shape {
        Shape::Array(array) => {
            array.dtype = match array.dtype.class() {
                Class::Float => DType::F64,
                Class::Complex => DType::C128,
                _ => array.dtype,
            }
        }
        Shape::Tuple(parts) => parts.iter_mut().for_each(widen_shape),
        Shape::Buffer(inner) => widen_shape(inner),
        Shape::Token | Shape::Opaque => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str) -> Option<String> {
        let module = phzc_ir::parse(text).expect("a legal program");
        let [wide, _] = widen(&[module.clone(), module])?;
        Some(phzc_ir::print(&wide))
    }

    #[test]
    fn floats_widen_and_integers_stay() {
        let text = "HloModule m\nENTRY e { x = bf16[2]{0} parameter(0) n = s32[2]{0} parameter(1) \
                    y = f32[2]{0} convert(x) ROOT z = (f32[2]{0}, s32[2]{0}) tuple(y, n) }";
        let wide = check(text).expect("it may be widened");
        assert!(
            wide.contains("y = f64[2]{0} convert(x)") && wide.contains("(f64[2]{0}, s32[2]{0})"),
            "{wide}"
        );
    }

    #[test]
    fn programs_that_look_at_bits_stay() {
        let text =
            "HloModule m\nENTRY e { x = f32[2]{0} parameter(0) ROOT b = u32[2]{0} bitcast-convert(x) }";
        assert_eq!(check(text), None);
    }
}
