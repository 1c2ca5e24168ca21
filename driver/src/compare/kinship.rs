//! Whether two programs are plans of one: by the instructions that both have.

use crate::planned::type_text;
use phzc_ir::{Instr, Module, counted};
use phzc_passes::report::Plan;
use std::collections::BTreeMap;

/// Plans of one program share more of the shorter one's instructions, also where one has unrolled its loops:
/// what is around them stays.
const LEAST_SHARED: f64 = 0.1;

/// Padding adds less to a program's FLOPs.
const SAME_FLOPS: f64 = 0.1;

/// What to say of programs that have next to nothing in common: to compare their instructions would be noise.
pub(super) fn unrelated(a: &Module, b: &Module) -> Option<String> {
    let few = few_shared(a, b)?;
    Some(format!(
        "A and B are not plans of one program: {few} match by name, op and type; instructions and memory are \
         not compared\n"
    ))
}

/// The same of figures, by the FLOPs of the program as it was given, whatever a plan makes of it.
pub(super) fn unrelated_figures(a: &Plan, b: &Plan) -> Option<String> {
    let flops = |plan: &Plan| plan.throughput.as_ref()?.model_flops.filter(|flops| *flops > 0.0);
    let (of_a, of_b) = (flops(a)?, flops(b)?);
    let is_of_one = (of_a / of_b - 1.0).abs() <= SAME_FLOPS;
    (!is_of_one).then(|| {
        format!(
            "A and B are not plans of one program: a step is {of_a:.3e} FLOPs of products in A and {of_b:.3e} \
             in B; tensors are not compared\n"
        )
    })
}

/// `0 of 3 instructions`, if two programs share so few by name, op and type that they are not the same one.
pub(crate) fn few_shared(a: &Module, b: &Module) -> Option<String> {
    let n_instrs = |module: &Module| instrs(module).count();
    let (short, long) = if n_instrs(a) <= n_instrs(b) { (a, b) } else { (b, a) };
    let known: BTreeMap<&str, &Instr> = instrs(long).map(|instr| (&*instr.name, instr)).collect();
    let is_shared = |instr: &&Instr| {
        let other = known.get(&*instr.name);
        other.is_some_and(|other| other.op == instr.op && type_text(other) == type_text(instr))
    };
    let (n_shared, n_all) = (instrs(short).filter(is_shared).count(), n_instrs(short));
    let is_of_one = n_shared as f64 >= LEAST_SHARED * n_all as f64;
    (!is_of_one).then(|| format!("{n_shared} of {}", counted(n_all, "instruction")))
}

fn instrs(module: &Module) -> impl Iterator<Item = &Instr> {
    module.comps.iter().flat_map(|comp| &comp.instrs)
}

#[cfg(test)]
mod tests {
    use super::unrelated;
    use phzc_ir::parse;

    #[test]
    fn programs_that_share_no_instruction_are_no_plans_of_one() {
        let program = |name: &str, n: usize| {
            let text = format!(
                "ENTRY e {{ {name} = f32[{n}] parameter(0) {name}b = f32[{n}] add({name}, {name}) \
                 ROOT y = f32[{n}] negate({name}b) }}"
            );
            parse(&text).expect("legal")
        };
        let said = |a, b| unrelated(&a, &b);
        assert_eq!(said(program("x", 4), program("x", 4)), None);
        // `y` is in both.
        assert_eq!(said(program("x", 4), program("z", 4)), None);
        let other = said(program("x", 4), program("z", 8)).expect("unrelated");
        assert!(
            other.starts_with("A and B are not plans of one program: 0 of 3 instructions match"),
            "{other}"
        );
    }
}
