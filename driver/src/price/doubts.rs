//! What Megatron-LM itself refuses or says of its arguments: experts of a dense model, sequences in parts
//! without tensor parallelism, more recomputed layers than a stage has.

use super::arguments::{Arguments, Recompute};
use super::degrees::{Degrees, Stages};
use phzc_ir::{Diagnostic, Module, Result};
use phzc_passes::report::{ColumnsRows, SplitValue, Splits};

/// Arguments about experts.
const OF_EXPERTS: [&str; 3] =
    ["--num-experts", "--expert-model-parallel-size", "--expert-tensor-parallel-size"];

/// Errors at an argument about experts where the program has none, or another number of them.
pub fn experts(asked: &Arguments, splits: &ColumnsRows, module: &Module) -> Result<()> {
    let sizes = n_experts(splits, module);
    if let Some(first) = sizes.first() {
        let given = asked.given("--num-experts").filter(|given| !sizes.contains(&(given.value as i64)));
        return given.map_or(Ok(()), |given| {
            let message = format!("`--num-experts {}`, but the program has {first}", given.value);
            let help = "leave it out, or write the program with as many (`phzc gen mixtral --experts`)";
            Err(Diagnostic::error(message).at(given.span).help(help))
        });
    }
    let given = OF_EXPERTS.iter().find_map(|name| Some((*name, asked.given(name)?)));
    let is_said = |(_, number): &(&str, super::arguments::Number)| number.value > 1;
    match given.filter(is_said) {
        None => Ok(()),
        Some((name, number)) => {
            let message = format!("`{name} {}`, but the program has no experts", number.value);
            let help = "leave it out, or write a program that has some (`phzc gen mixtral`)";
            Err(Diagnostic::error(message).at(number.span).help(help))
        }
    }
}

/// How many experts the layers have: the sizes of weights where groups of experts split them.
fn n_experts(splits: &ColumnsRows, module: &Module) -> Vec<i64> {
    let size = |weight: &SplitValue| {
        let dim = weight.dims.iter().position(|dim| *dim == Splits::Expert)?;
        let mut instrs = module.comps.iter().flat_map(|comp| &comp.instrs);
        let instr = instrs.find(|instr| *instr.name == *weight.name)?;
        instr.shape.as_array()?.dims.get(dim).copied()
    };
    splits.weights.iter().filter_map(size).collect()
}

/// Errors at numbers of recomputed layers where not all are recomputed; Megatron's words.
pub fn recomputed_layers(asked: &Arguments) -> Result<()> {
    match asked.given("--recompute-num-layers") {
        Some(number) if asked.recompute == Recompute::Selective => {
            let message = "`--recompute-num-layers` beside selective recomputation, which is of all layers";
            let help = "leave it out, or ask for `--recompute-granularity full`";
            Err(Diagnostic::error(message).at(number.span).help(help))
        }
        _ => Ok(()),
    }
}

/// Warnings about what Megatron passes over.
pub fn passed_over(asked: &Arguments, degrees: &Degrees, stages: &Stages) -> Vec<Diagnostic> {
    let mut said = Vec::new();
    if asked.sequence_parallel && degrees.tensor == 1 {
        let message = "`--sequence-parallel` is off, as in Megatron: there is no tensor parallelism";
        let help = "leave it out, or ask for `--tensor-model-parallel-size`";
        said.push(Diagnostic::warning(message).help(help));
    }
    let most = stages.layers.iter().copied().max().unwrap_or(0);
    let number = asked.given("--recompute-num-layers").map(|number| number.value);
    if let Some(number) = number.filter(|number| *number > most) {
        let message = format!(
            "`--recompute-num-layers {number}`, but no stage has more than {most}: priced as all of them"
        );
        said.push(Diagnostic::warning(message).help("Megatron takes 1 to the layers of a stage"));
    }
    said
}
