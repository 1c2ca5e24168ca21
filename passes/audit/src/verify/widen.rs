//! The same programs with all floats of 64 bits: what differs then is no rounding.
//!
//! Deep programs in narrow floats amplify rounding beyond any useful tolerance, and small terms vanish in it.
//! An instruction that reads the bits of a float, or makes a float of bits, would mean something else in
//! wider floats: it keeps its types, between converts that lie where the values lie that they convert.
//!
//! ```text
//! y = u32[2] bitcast-convert(x)    →    x.narrow = f32[2] convert(x)
//!                                       y = u32[2] bitcast-convert(x.narrow)
//! z = f32[2] bitcast-convert(y)    →    z = f32[2] bitcast-convert(y)
//! w = f32[2] negate(z)                  z.wide = f64[2] convert(z)
//!                                       w = f64[2] negate(z.wide)
//! ```

use phzc_ir::alias::retain_aliases;
use phzc_ir::dtype::Class;
use phzc_ir::edit::Names;
use phzc_ir::{Computation, DType, Instr, InstrId, Key, Module, Opcode, Payload, Shape, View, verify};

/// The programs in 64-bit floats; `None` if one of them is none then.
pub fn widen(programs: &[Module; 2]) -> Option<[Module; 2]> {
    let wide = programs.clone().map(|mut module| {
        module.attrs.retain(|attr| &*attr.key != "entry_computation_layout");
        module.comps.iter_mut().for_each(widen_comp);
        // Buffers of a float and of an integer were of one size.
        retain_aliases(&mut module, |module, alias| {
            let shapes = [(module.entry().root, alias.output), (alias.param, alias.leaf)];
            let [made, held] = shapes.map(|(id, leaf)| module.entry().instr(id).shape.leaves()[leaf].bytes());
            made == held
        });
        module
    });
    wide.iter().all(|module| verify(module).is_empty()).then_some(wide)
}

fn widen_comp(comp: &mut Computation) {
    let view = |instr| View { comps: &[], instrs: &comp.instrs, instr };
    let is_kept: Vec<bool> =
        comp.instrs.iter().map(|instr| (instr.op.def().reads_bits)(&view(instr))).collect();
    if is_kept.contains(&true) {
        return widen_around(comp, &is_kept);
    }
    comp.instrs.iter_mut().for_each(|instr| widen_shape(&mut instr.shape));
}

/// Widens all but what is kept, with converts before and behind.
fn widen_around(comp: &mut Computation, is_kept: &[bool]) {
    let narrow: Vec<Shape> = comp.instrs.iter().map(|instr| instr.shape.clone()).collect();
    for (instr, _) in comp.instrs.iter_mut().zip(is_kept).filter(|(_, is_kept)| !**is_kept) {
        widen_shape(&mut instr.shape);
    }
    let mut names = Names::of(comp);
    let mut new: Vec<(InstrId, Instr)> = Vec::new();
    for at in (0..narrow.len()).filter(|&at| is_kept[at]).map(InstrId::new) {
        for slot in 0..comp.instr(at).operands.len() {
            let operand = comp.instr(at).operands[slot];
            let shape = &narrow[operand.index()];
            if comp.instr(operand).shape != *shape {
                let name = names.derive(&comp.instr(operand).name, "narrow");
                let convert = convert(comp, operand, at, Instr { name, shape: shape.clone(), ..bare() });
                comp.instrs[at.index()].operands[slot] = InstrId::new(narrow.len() + new.len());
                new.push((at, convert));
            }
        }
        let mut shape = narrow[at.index()].clone();
        widen_shape(&mut shape);
        let is_other = shape != narrow[at.index()];
        if is_other && read_instead(comp, is_kept, at, InstrId::new(narrow.len() + new.len())) {
            let name = names.derive(&comp.instr(at).name, "wide");
            let convert = convert(comp, at, at, Instr { name, shape, ..bare() });
            new.push((InstrId::new(at.index() + 1), convert));
        }
    }
    comp.insert_before(new);
}

fn bare() -> Instr {
    Instr { op: Opcode::Convert, ..Instr::nothing(Default::default()) }
}

/// A convert of `of` for `reader`. It lies and runs where its operand does; a parameter runs nowhere.
fn convert(comp: &Computation, of: InstrId, reader: InstrId, bare: Instr) -> Instr {
    let source = comp.instr(of);
    let runs = if source.op == Opcode::Parameter { comp.instr(reader) } else { source };
    let attr = |instr: &Instr, key: Key| instr.attrs.iter().find(|attr| attr.key == key).cloned();
    let attrs = [attr(source, Key::Sharding), attr(runs, Key::FrontendAttributes)];
    let attrs = attrs.into_iter().flatten().collect();
    Instr { operands: [of].into_iter().collect(), attrs, payload: Payload::None, span: source.span, ..bare }
}

/// Makes everything that is wide, and the caller, read `new` instead of `old`; whether anything does.
fn read_instead(comp: &mut Computation, is_kept: &[bool], old: InstrId, new: InstrId) -> bool {
    let readers = comp.instrs.iter_mut().zip(is_kept).filter(|(_, is_kept)| !**is_kept);
    let operands = readers.flat_map(|(instr, _)| &mut instr.operands);
    let uses = operands.chain(std::iter::once(&mut comp.root)).filter(|operand| **operand == old);
    uses.map(|operand| *operand = new).count() > 0
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
    use crate::testing::{passed, slow_8};
    use crate::verify::{Settings, verify};

    /// The instructions of the entry when floats are widened.
    fn check(body: &str) -> String {
        let module = phzc_ir::parse(&format!("HloModule m\nENTRY e {{\n{body} }}")).expect("a legal program");
        let [wide, other] = widen(&[module.clone(), module]).expect("it may be widened");
        assert_eq!(wide, other);
        let text = phzc_ir::print(&wide);
        let lines = text.lines().filter(|line| line.starts_with("  "));
        lines.map(str::trim).collect::<Vec<_>>().join("\n").replace("{0}", "")
    }

    #[test]
    fn floats_widen_and_integers_stay() {
        let made = check(
            "x = bf16[2] parameter(0) n = s32[2] parameter(1) y = f32[2] convert(x)
             ROOT z = (f32[2], s32[2]) tuple(y, n)",
        );
        assert!(made.contains("y = f64[2] convert(x)\nROOT z = (f64[2], s32[2]) tuple(y, n)"), "{made}");
    }

    #[test]
    fn complex_numbers_widen_as_their_parts_do() {
        let made = check("x = c64[2] parameter(0) y = c64[2] negate(x) ROOT r = f32[2] real(y)");
        assert_eq!(made, "x = c128[2] parameter(0)\ny = c128[2] negate(x)\nROOT r = f64[2] real(y)");
    }

    #[test]
    fn bits_are_read_and_made_in_their_own_types() {
        let made = check(
            "x = f32[2] parameter(0)
             b = u32[2] bitcast-convert(x)
             ROOT f = f32[2] bitcast-convert(b), sharding={replicated}, frontend_attributes={phzc.stage=\"1\"}",
        );
        let wanted = "x = f64[2] parameter(0)\n\
            x.narrow = f32[2] convert(x)\n\
            b = u32[2] bitcast-convert(x.narrow)\n\
            f = f32[2] bitcast-convert(b), sharding={replicated}, frontend_attributes={phzc.stage=\"1\"}\n\
            ROOT f.wide = f64[2] convert(f), sharding={replicated}, frontend_attributes={phzc.stage=\"1\"}";
        assert_eq!(made, wanted);
    }

    #[test]
    fn bits_that_are_read_again_are_not_rounded_in_between() {
        let made = check(
            "x = u16[2] parameter(0)
             h = f16[2] bitcast-convert(x)
             ROOT b = bf16[2] bitcast-convert(h)",
        );
        let wanted = "x = u16[2] parameter(0)\n\
            h = f16[2] bitcast-convert(x)\n\
            b = bf16[2] bitcast-convert(h)\n\
            ROOT b.wide = f64[2] convert(b)";
        assert_eq!(made, wanted);
    }

    #[test]
    fn a_convert_runs_where_its_operand_does_and_of_a_parameter_where_it_is_read() {
        let stage = |n: u32| format!("frontend_attributes={{phzc.stage=\"{n}\"}}");
        let made = check(&format!(
            "x = f32[2] parameter(0), {}
             y = f32[2] negate(x), {}
             b = u32[2] bitcast-convert(y), {}
             c = u32[2] bitcast-convert(x), {}
             ROOT d = u32[2] xor(b, c)",
            stage(3),
            stage(0),
            stage(1),
            stage(2),
        ));
        for (name, n) in [("y.narrow = f32[2] convert(y)", 0), ("x.narrow = f32[2] convert(x)", 2)] {
            assert!(made.contains(&format!("{name}, {}", stage(n))), "{made}");
        }
    }

    #[test]
    fn moves_of_elements_are_widened() {
        let made = check("x = f32[2,3]{1,0} parameter(0) ROOT y = f32[6] bitcast(x)");
        assert!(made.ends_with("ROOT y = f64[6] bitcast(x)"), "{made}");
    }

    /// Stochastic rounding: random bits are added to a product's, and the lower half goes.
    const ROUNDING: &str = "HloModule m, input_output_alias={ {0}: (1, {}, may-alias) }
ENTRY e {
  x = bf16[64,256]{1,0} parameter(0)
  w = bf16[256,128]{1,0} parameter(1)
  key = u32[] parameter(2)
  y = f32[64,128]{1,0} dot(x, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  keys = u32[64,128]{1,0} broadcast(key), dimensions={}
  columns = u32[64,128]{1,0} iota(), iota_dimension=1
  random = u32[64,128]{1,0} multiply(keys, columns)
  low = u32[] constant(65535)
  lows = u32[64,128]{1,0} broadcast(low), dimensions={}
  noise = u32[64,128]{1,0} and(random, lows)
  bits = u32[64,128]{1,0} bitcast-convert(y)
  noisy = u32[64,128]{1,0} add(bits, noise)
  highs = u32[64,128]{1,0} not(lows)
  kept = u32[64,128]{1,0} and(noisy, highs)
  rounded = f32[64,128]{1,0} bitcast-convert(kept)
  g = bf16[256,128]{1,0} dot(x, rounded), lhs_contracting_dims={0}, rhs_contracting_dims={0}
  n = bf16[256,128]{1,0} subtract(w, g)
  ROOT t = (bf16[256,128]{1,0}) tuple(n)
}";

    #[test]
    fn plans_of_programs_that_look_at_bits_are_compared_in_64_bits() {
        let original = phzc_ir::parse(ROUNDING).expect("a legal program");
        for (shard, place) in [("mesh=2x4", "stages=1,microbatches=1"), ("", "stages=2,microbatches=2")] {
            let pipeline = format!("fuse,shard{{{shard}}},place{{{place}}}");
            let planned = passed(ROUNDING, &pipeline, &slow_8()).expect("it has a plan");
            let bits = planned.entry().instrs.iter().find(|instr| &*instr.name == "bits").expect("it stays");
            assert_ne!(bits.sharding().map(ToString::to_string).as_deref(), Some("{replicated}"));
            let verified = verify(&original, &planned, &Settings::default()).expect("it can be run");
            assert!(verified.is_widened);
            assert!(verified.outputs.iter().all(|output| output.error <= 1e-12), "{:?}", verified.outputs);
        }
    }
}
