//! Runs a piece of a program and of its plan on the same inputs.

use super::super::devices::Devices;
use super::super::far::{FAR, positive, scaled};
use super::super::shrink::shrink_plan;
use super::super::widen::widen;
use super::super::{LEAST, Settings, compare};
use super::compared::with_ties;
use super::tamed::tamed;
use indexmap::IndexMap;
use phzc_ir::eval::{Inputs, Value, run};
use phzc_ir::flops::totals;
use phzc_ir::{Module, Result, print};
use phzc_plan::derive::header;
use rustc_hash::FxBuildHasher;

/// Operations of one piece, program and all devices of the plan.
const MAX_FLOPS: f64 = 2e10;
/// Bytes of all its values.
const MAX_BYTES: f64 = 1.5e9;
/// Operations of all pieces.
const MAX_ALL_FLOPS: f64 = 4e11;
/// Values with fewer bytes than this keep their sizes.
const SMALL_BYTES: f64 = 1e5;
/// How many inputs are tried until every output says something.
const MAX_DRAWS: u64 = 4;
/// On how many inputs a piece must agree that is not, by its text, the program's: small masks may be all true
/// by chance.
pub const DRAWS_OF_OTHERS: u64 = 16;

/// What is known of a piece.
#[derive(Clone, Debug, PartialEq)]
pub enum Outcome {
    /// Both compute the same.
    Equal,
    /// They do not.
    Differs {
        /// The largest difference over the largest value.
        error: f64,
        /// The largest that rounding explains.
        tolerance: f64,
    },
    /// Both are zero on all inputs tried.
    Zero,
    /// Nothing was compared.
    Open(String),
}

/// Judges pieces; those of the same text once.
pub struct Judge<'s> {
    settings: &'s Settings,
    known: IndexMap<String, Outcome, FxBuildHasher>,
    flops: f64,
}

impl<'s> Judge<'s> {
    /// Has seen nothing yet.
    pub fn new(settings: &'s Settings) -> Judge<'s> {
        Judge { settings, known: IndexMap::default(), flops: 0.0 }
    }

    /// How many pieces differ from each other.
    pub fn n_unlike(&self) -> usize {
        self.known.len()
    }

    /// Whether a plan's piece computes what the program's does, on so many inputs.
    pub fn judge(&mut self, both: &[Module; 2], n_draws: u64) -> Outcome {
        let text = format!("{n_draws}{}{}", print(&both[0]), print(&both[1]));
        if let Some(outcome) = self.known.get(&text) {
            return outcome.clone();
        }
        let outcome = self.run(both, n_draws).unwrap_or_else(|error| Outcome::Open(error.message));
        self.known.insert(text, outcome.clone());
        outcome
    }

    fn run(&mut self, [program, plan]: &[Module; 2], n_draws: u64) -> Result<Outcome> {
        let n_devices = header(plan)?.n_replica_devices() as f64;
        let both = match bytes(program) * n_devices <= SMALL_BYTES {
            true => [program.clone(), plan.clone()],
            false => shrink_plan(program, plan, LEAST)?,
        };
        let both = widen(&both).unwrap_or(both);
        if let Some(tamed) = tamed(&both) {
            let outcome = self.run_sized(&tamed, n_draws)?;
            if matches!(outcome, Outcome::Differs { .. }) {
                return Ok(outcome);
            }
        }
        self.run_sized(&both, n_draws)
    }

    /// Runs both as they are, unless that is too much work.
    fn run_sized(&mut self, [program, plan]: &[Module; 2], n_draws: u64) -> Result<Outcome> {
        let devices = Devices::of(plan)?;
        let n_devices = devices.n_devices as f64;
        let flops = totals(program).with_trips.flops + n_devices * totals(devices.local()).with_trips.flops;
        let bytes = bytes(program) + n_devices * bytes(devices.local());
        if flops > MAX_FLOPS || bytes > MAX_BYTES {
            return Ok(Outcome::Open(format!("it takes {flops:.0e} operations and {bytes:.0e} bytes")));
        }
        let flops = flops * n_draws as f64;
        if self.flops + flops > MAX_ALL_FLOPS {
            let message = format!("all pieces together take more than {MAX_ALL_FLOPS:.0e} operations");
            return Ok(Outcome::Open(message));
        }
        self.flops += flops;
        self.compare([program, plan], &devices, n_draws)
    }

    /// Compares on so many inputs, and on more until every output has said something.
    fn compare(&self, [program, plan]: [&Module; 2], devices: &Devices, n_draws: u64) -> Result<Outcome> {
        let (options, of_plan) = (self.settings.options(), self.settings.options_of_plan(program, plan));
        let tolerance = self.settings.tolerance.unwrap_or_else(|| compare::tolerance(program));
        let inputs = Inputs::of(program, &devices.parts());
        let is_closed = program.entry().params().is_empty();
        let mut is_silent: Vec<bool> = vec![true; program.entry().root().shape.n_leaves()];
        let mut is_finite = true;
        for draw in 0..if is_closed { 1 } else { n_draws.max(MAX_DRAWS) } {
            let given = drawn(inputs.draw(self.settings.seed.wrapping_add(draw), &options)?, draw);
            let given = [program, plan].iter().fold(given, |given, module| with_ties(module, given, draw));
            let wanted = run(program, &given, &options)?;
            let Ok(made) = devices.join(&devices.run_each(&given, &of_plan)?) else {
                return Ok(Outcome::Differs { error: f64::INFINITY, tolerance });
            };
            let outputs = compare::outputs(&wanted, &made, tolerance)?;
            if let Some(output) = outputs.iter().find(|output| !output.is_equal()) {
                return Ok(Outcome::Differs { error: output.error, tolerance: output.tolerance });
            }
            is_silent.iter_mut().zip(&outputs).for_each(|(all, output)| *all &= output.says_nothing);
            if draw + 1 >= n_draws && !is_silent.contains(&true) {
                return Ok(Outcome::Equal);
            }
            is_finite = wanted.leaves().iter().all(|leaf| leaf.to_f64_vec().iter().all(|x| x.is_finite()));
        }
        Ok(match (is_closed, is_finite) {
            (true, _) => Outcome::Equal,
            (false, true) => Outcome::Zero,
            (false, false) => Outcome::Open("its values are not finite on any inputs tried".to_owned()),
        })
    }
}

fn bytes(module: &Module) -> f64 {
    let instrs = module.comps.iter().flat_map(|comp| &comp.instrs);
    instrs.map(|instr| instr.shape.bytes()).sum()
}

/// Inputs as they are, without negative numbers, and with large ones: a piece has no product before it.
fn drawn(given: Vec<Value>, draw: u64) -> Vec<Value> {
    match draw % 4 {
        0 => given,
        1 => positive(given),
        2 => scaled(given, FAR * FAR),
        _ => scaled(positive(given), FAR),
    }
}

#[cfg(test)]
mod tests;
