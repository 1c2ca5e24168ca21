//! Whether a program that stands for a longer one shows where that can be cut.

use super::chain::Layers;
use crate::shard::planning_input::PlanningInput;
use phzc_cost::Cluster;
use phzc_ir::{InstrId, Module};
use phzc_plan::derive::{Phase, derive, is_naming, operand_origins};

/// Whether the chain of the short program, if there is one, has several places to cut, and in the whole one
/// nothing of the forward part would then be read before the stage that makes it.
pub fn shows_cuts(subject: &PlanningInput, whole: &Module, cluster: &Cluster) -> bool {
    let Some(short) = &subject.short else { return true };
    let Ok(facts) = derive(&short.module) else { return false };
    let phases: Vec<Phase> = facts.comps[short.module.entry.index()].iter().map(|own| own.phase).collect();
    let layers = Layers::new(&short.module, facts, cluster, Some(short));
    let layer_of = layers.whole_layers(short);
    let computes = |id: InstrId| {
        !whole.entry().instr(id).operands.is_empty()
            && phases[short.stands[id.index()][0].index()] == Phase::Forward
    };
    let is_in_order = |(id, operand): (InstrId, InstrId)| {
        !computes(operand) || layer_of[operand.index()] <= layer_of[id.index()]
    };
    // What only names values reads none.
    let entry = whole.entry();
    let readers = entry.iter().filter(|(id, instr)| *id != entry.root && !is_naming(instr) && computes(*id));
    let reads =
        readers.flat_map(|(id, instr)| operand_origins(entry, instr).map(move |(maker, _)| (id, maker)));
    layers.n_layers() > 1 && reads.into_iter().all(is_in_order)
}

#[cfg(test)]
mod tests {
    use super::shows_cuts;
    use crate::shard::planning_input::PlanningInput;
    use crate::testing::{passed, slow_8};
    use phzc_ir::Module;
    use phzc_testing::perceptron::perceptron;

    fn shows(module: &Module) -> bool {
        let module = &passed(&phzc_ir::print(module), "fuse", &slow_8()).expect("it is fused");
        let subject = PlanningInput::short(module, None, Default::default()).expect("layers repeat");
        shows_cuts(&subject, module, &slow_8())
    }

    /// Layers up, and down again with the same weights.
    fn autoencoder(n_layers: usize) -> Module {
        let shape = "f32[64,256]";
        let mut lines = vec![format!("x0 = {shape} parameter(0)")];
        let dot = |of: &str, w: usize, at: usize| {
            format!("dot({of}, w{w}), lhs_contracting_dims={{1}}, rhs_contracting_dims={{{at}}}")
        };
        for at in 1..=n_layers {
            lines.push(format!("w{at} = f32[256,256] parameter({at})"));
            lines.push(format!("h{at} = {shape} {}", dot(&format!("x{}", at - 1), at, 0)));
            lines.push(format!("x{at} = {shape} tanh(h{at})"));
        }
        lines.push(format!("y{n_layers} = {shape} negate(x{n_layers})"));
        for at in (1..=n_layers).rev() {
            lines.push(format!("k{at} = {shape} {}", dot(&format!("y{at}"), at, 1)));
            lines.push(format!("y{} = {shape} sine(k{at})", at - 1));
        }
        lines.push(format!("ROOT out = {shape} add(y0, y0)"));
        let text = format!("HloModule m\n\nENTRY e {{\n  {}\n}}\n", lines.join("\n  "));
        phzc_ir::parse(&text).expect("legal")
    }

    /// The gradient reads a name that also holds the first layer's operand.
    fn holding_early_and_late() -> Module {
        let text = phzc_ir::print(&perceptron(24));
        let line = text.lines().find(|line| line.trim_start().starts_with("g24 =")).expect("a gradient");
        let shape = "f32[64,256]";
        let held = format!(
            "  held = ({shape}, {shape}) tuple(x0, x24)\n  behind = ({shape}, {shape}) opt-barrier(held)\n  \
             late = {shape} get-tuple-element(behind), index=1\n{}",
            line.replace("x24", "late")
        );
        phzc_ir::parse(&text.replace(line, &held)).expect("legal")
    }

    #[test]
    fn what_only_names_an_early_value_and_a_late_one_is_no_reader() {
        assert!(shows(&holding_early_and_late()));
    }

    #[test]
    fn layers_that_data_passes_twice_are_not_cut_by_what_stands_for_them() {
        assert!(shows(&perceptron(24)));
        assert!(!shows(&autoencoder(24)));
    }
}
