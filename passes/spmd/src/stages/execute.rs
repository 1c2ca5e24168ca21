//! Runs the modules of a plan with the evaluator, in the manifest's order: what any runtime would have to do.

use super::{Entry, From, Manifest, Stages};
use phzc_ir::eval::{Options, Value, join, run, split};
use phzc_ir::{Diagnostic, Layout, Mesh, Module, Result, parse};
use std::collections::BTreeMap;

/// The arrays of the step's result, from whole inputs.
///
/// # Errors
/// When a module cannot be evaluated, or a value is not there.
pub fn execute(stages: &Stages, inputs: &[Value], options: &Options) -> Result<Vec<Value>> {
    let manifest = &stages.manifest;
    let mut machine = Machine { manifest, inputs, sums: Vec::new(), made: BTreeMap::new() };
    for sum in &manifest.accumulators {
        machine.sums.push(filled(&sum.shape, sum.start)?);
    }
    for step in &manifest.order {
        let entry = manifest.modules.iter().find(|entry| entry.name == step.module);
        let module = stages.modules.iter().find(|(name, _)| *name == step.module);
        let (entry, (_, module)) = entry.zip(module).ok_or_else(|| missing(&step.module))?;
        machine.run(entry, module, step.microbatch, options)?;
    }
    manifest.results.iter().map(|result| machine.result(&result.from, result.join_dim)).collect()
}

struct Machine<'a> {
    manifest: &'a Manifest,
    inputs: &'a [Value],
    sums: Vec<Value>,
    /// Results by module and microbatch; of an update by module and nothing.
    made: BTreeMap<(&'a str, Option<usize>), Vec<Value>>,
}

impl<'a> Machine<'a> {
    fn run(
        &mut self,
        entry: &'a Entry,
        module: &Module,
        microbatch: Option<usize>,
        options: &Options,
    ) -> Result<()> {
        let given = entry.parameters.iter().map(|given| self.value(&given.from, microbatch));
        let Value::Tuple(made) = run(module, &given.collect::<Result<Vec<_>>>()?, options)? else {
            return Err(missing(&entry.name));
        };
        for (result, value) in entry.results.iter().zip(&made) {
            if let Some(sum) = result.accumulator {
                self.sums[sum] = value.clone();
            }
        }
        self.made.insert((&entry.name, microbatch), made);
        Ok(())
    }

    fn value(&self, from: &From, microbatch: Option<usize>) -> Result<Value> {
        match from {
            From::Program { parameter, leaf, split_dim } => {
                let whole = self.input(*parameter, *leaf)?;
                match split_dim.zip(microbatch) {
                    Some((dim, at)) => Ok(self.parts(&whole, dim)?.swap_remove(at)),
                    None => Ok(whole),
                }
            }
            From::Module { module, result } => self.made(module, *result, microbatch),
            From::Accumulator { accumulator } => Ok(self.sums[*accumulator].clone()),
            From::Microbatch => {
                let text = microbatch.unwrap_or_default().to_string();
                constant("u32[]", &text)
            }
        }
    }

    fn input(&self, parameter: u32, leaf: usize) -> Result<Value> {
        let leaves = self.inputs[parameter as usize].leaves();
        leaves.get(leaf).map(|&leaf| Value::Array(leaf.clone())).ok_or_else(|| missing("a parameter"))
    }

    /// A result of a module; once per step that of the last microbatch.
    fn made(&self, module: &str, result: usize, microbatch: Option<usize>) -> Result<Value> {
        let last = Some(self.manifest.n_microbatches - 1);
        let keys = [(module, microbatch), (module, None), (module, last)];
        let made = keys.iter().find_map(|key| self.made.get(key)).and_then(|made| made.get(result));
        made.cloned().ok_or_else(|| missing(module))
    }

    fn mesh(&self) -> Mesh {
        Mesh::new(&[self.manifest.n_microbatches as i64])
    }

    fn parts(&self, whole: &Value, dim: usize) -> Result<Vec<Value>> {
        split(whole, &[Layout::REPLICATED.with(0, Some(dim))], &self.mesh())
    }

    fn result(&self, from: &From, join_dim: Option<usize>) -> Result<Value> {
        match join_dim {
            Some(dim) if !matches!(from, From::Program { .. }) => {
                let parts = (0..self.manifest.n_microbatches).map(|at| self.value(from, Some(at)));
                let parts: Vec<Value> = parts.collect::<Result<_>>()?;
                join(&parts, &[Layout::REPLICATED.with(0, Some(dim))], &self.mesh())
            }
            _ => self.value(from, None),
        }
    }
}

/// What an accumulator holds before the first microbatch.
fn filled(shape: &str, start: &str) -> Result<Value> {
    let dtype = shape.split('[').next().unwrap_or_default();
    let (is_float, is_unsigned) = (dtype.contains('f'), dtype.starts_with('u'));
    let bits: u32 = dtype.trim_start_matches(|letter: char| !letter.is_ascii_digit()).parse().unwrap_or(32);
    let element = match start {
        "one" => "1".to_owned(),
        "ones" if dtype == "pred" => "true".to_owned(),
        "ones" if is_unsigned => ((1_u128 << bits) - 1).to_string(),
        "ones" => "-1".to_owned(),
        "lowest" if is_float => "-inf".to_owned(),
        "highest" if is_float => "inf".to_owned(),
        "highest" if is_unsigned => ((1_u128 << bits) - 1).to_string(),
        "lowest" if !is_unsigned => (-(1_i128 << (bits - 1))).to_string(),
        "highest" => ((1_i128 << (bits - 1)) - 1).to_string(),
        _ => "0".to_owned(),
    };
    constant(shape, &element)
}

/// An array full of one element.
fn constant(shape: &str, element: &str) -> Result<Value> {
    let dtype = shape.split('[').next().unwrap_or_default();
    let text = format!(
        "ENTRY e {{\n  c = {dtype}[] constant({element})\n  ROOT b = {shape} broadcast(c), dimensions={{}}\n}}\n"
    );
    run(&parse(&text)?, &[], &Options::default())
}

fn missing(what: &str) -> Diagnostic {
    Diagnostic::error(format!("`{what}` is read before it is made"))
}

#[cfg(test)]
mod tests;
