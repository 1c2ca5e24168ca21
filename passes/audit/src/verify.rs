//! `phzc verify`: runs a program and its plan for two steps and compares, output by output.
//!
//! The plan is lowered to the program of one device ([`phzc_spmd::spmd`]) and run on as many virtual devices
//! as it is for. With stages or microbatches the schedule is replayed, task by task ([`replay`]): what a
//! stage reads has to be there by then. Both begin with the same inputs ([`phzc_ir::eval::Inputs`]); in the
//! second step each goes on with what it returned itself. Inputs and outputs that the run says nothing about
//! are named ([`dark`]).

mod compare;
pub mod dark;
mod devices;
mod failed;
mod far;
mod one_mesh;
pub mod pieces;
pub mod replay;
mod restack;
pub mod shrink;
#[cfg(test)]
mod tests;
mod unrolled;
mod widen;

pub use compare::Output;
use dark::{Chains, Dark};
use devices::Devices;
pub use failed::Failed;
use phzc_ir::eval::{Array, Inputs, Options, Value, run};
use phzc_ir::flops::totals;
use phzc_ir::text::shape_text;
use phzc_ir::trip::trip_count;
use phzc_ir::{CompId, Computation, Diagnostic, Module, Opcode, Result, Shape, counted, notes};
use phzc_opt::inline;
use phzc_plan::derive::{Problem, aliases, derive, listed};
use phzc_plan::{partitioned::partitioned, plan_note::n_accumulated};
use pieces::Pieces;
use widen::widen;

/// What a comparison found.
#[derive(Clone, Debug)]
pub struct Verified {
    /// One per output, of all steps.
    pub outputs: Vec<Output>,
    /// Steps that were compared: one if its outputs differ, otherwise two.
    pub n_steps: usize,
    /// What both steps say nothing about; not looked for where the first one differs.
    pub dark: Dark,
    /// Whether they differ where all floats are large: by rounding, or because something cuts them off.
    pub is_far_apart: bool,
    /// Replicas of all stages.
    pub n_replicas: usize,
    /// Devices of all stages, of all replicas.
    pub n_devices: usize,
    /// Pipeline stages.
    pub n_stages: usize,
    /// Microbatches.
    pub n_microbatches: usize,
    /// Whether the schedule was replayed; otherwise all devices and microbatches ran in lock-step.
    pub is_replayed: bool,
    /// Whether both ran with smaller sizes than they have.
    pub is_shrunk: bool,
    /// Whether both ran in 64-bit floats.
    pub is_widened: bool,
    /// What the plan's pieces showed, where it was not run whole; there are no outputs then.
    pub pieces: Option<Pieces>,
}

/// The answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The plan computes what the program does.
    Equal,
    /// It does not.
    Differs,
    /// Nothing differs, but a part of the plan was not proven.
    NotProven,
}

impl Verified {
    /// The answer.
    pub fn verdict(&self) -> Verdict {
        let (n_differing, n_open) =
            self.pieces.as_ref().map_or((0, 0), |pieces| (pieces.differing.len(), pieces.open.len()));
        match n_differing > 0 || self.outputs.iter().any(|output| !output.is_equal()) {
            true => Verdict::Differs,
            false if n_open > 0 => Verdict::NotProven,
            false => Verdict::Equal,
        }
    }

    /// Whether rounding that a deep program amplifies may explain what differs.
    fn may_be_rounding(&self) -> bool {
        self.verdict() == Verdict::Differs && self.outputs.iter().all(|output| output.error <= MAX_AMPLIFIED)
    }
}

/// Programs with more operations than this are run with smaller sizes.
const MAX_FLOPS: f64 = 2e9;
/// Those whose values have more bytes than this, all taken together, too.
const MAX_BYTES: f64 = 1e9;
/// Programs that have more operations than this even then are proven piece by piece.
const MAX_RUN_FLOPS: f64 = 10.0 * MAX_FLOPS;
/// Those whose values have more bytes than this even then, too.
const MAX_RUN_BYTES: f64 = MAX_BYTES;
/// A larger error is none of rounding in 64 bits, however deep the program is that amplifies it.
const MAX_AMPLIFIED: f64 = 1e-4;
/// A piece is too short to amplify rounding: a larger error shows that a smaller one of the whole is none
/// either.
const OF_PIECES: f64 = 1e-13;
/// No size is made smaller than this.
pub const LEAST: i64 = 4;

/// How both are run.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The inputs follow from it.
    pub seed: u64,
    /// The relative error that counts as rounding; without it what the narrowest floats of the program
    /// explain.
    pub tolerance: Option<f64>,
    /// Whether to make up the elements of constants that were left out of the text.
    pub fill_elided: bool,
    /// Whether to prove the plan piece by piece even if it can be run whole.
    pub by_pieces: bool,
}

impl Default for Settings {
    fn default() -> Settings {
        Settings { seed: 1, tolerance: None, fill_elided: false, by_pieces: false }
    }
}

impl Settings {
    fn options(&self) -> Options {
        Options { fill_elided: self.fill_elided.then_some(self.seed), ..Options::default() }
    }

    /// The same for a plan: its loops run no longer than twice those of its program and the one over its
    /// microbatches, or they count as endless.
    fn options_of_plan(&self, program: &Module, plan: &Module) -> Options {
        let options = self.options();
        let most = most_trips(program).map(|most| 2 * most.max(n_accumulated(plan).unwrap_or(0)) + 2);
        Options { max_trips: most.unwrap_or(u64::MAX).min(options.max_trips), ..options }
    }
}

/// Trips of a program's longest loop; none if it has one of which they are not known.
fn most_trips(program: &Module) -> Option<u64> {
    let ids = (0..program.comps.len()).map(CompId::new);
    let all = ids.flat_map(|comp| program.comp(comp).iter().map(move |(id, instr)| (comp, id, instr)));
    let loops = all.filter(|(_, _, instr)| instr.op == Opcode::While);
    loops.map(|(comp, id, _)| trip_count(program, comp, id)).try_fold(0, |most, trips| Some(most.max(trips?)))
}

/// Runs a program and its plan on the same inputs. Where it makes sense all floats are widened first. A plan
/// of unrolled loops is compared in two steps (`verify/unrolled.rs`).
///
/// # Errors
/// When the two are not a program and its plan, the plan cannot be lowered or replayed, or an instruction
/// cannot be evaluated.
pub fn verify(
    original: &Module,
    planned: &Module,
    settings: &Settings,
) -> std::result::Result<Verified, Failed> {
    refuse_partitioned(original).map_err(Failed::of_program)?;
    refuse_partitioned(planned)?;
    let is_unrolled = |module: &Module| module.note(notes::UNSTACKED).is_some();
    match is_unrolled(planned) && !is_unrolled(original) {
        true => unrolled::verify(original, planned, settings),
        false => verify_alike(original, planned, settings),
    }
}

/// A partitioned program has no plan, and is none of a program with global values.
fn refuse_partitioned(module: &Module) -> Result<()> {
    let Some(partitioned) = partitioned(module) else { return Ok(()) };
    let n_devices = counted(partitioned.devices.n_devices(), "device");
    let message = format!("the program is partitioned already, for {n_devices}: there is no plan to compare");
    let error = partitioned.shown(module, Diagnostic::error(message));
    Err(error.help("verify a plan of the program as it was before XLA's partitioner; `phzc eval --devices` runs this one"))
}

/// The same for a plan that keeps the program's loops.
fn verify_alike(
    original: &Module,
    planned: &Module,
    settings: &Settings,
) -> std::result::Result<Verified, Failed> {
    same_signature(original, planned)?;
    let mut both = [original.clone(), planned.clone()];
    inline::flatten(&mut both[0]).map_err(Failed::of_program)?;
    inline::flatten(&mut both[1])?;
    if settings.by_pieces {
        return by_pieces(&both, settings);
    }
    legal_aliases(&both[1])?;
    let is_large = exceeds(original, MAX_FLOPS, MAX_BYTES);
    let small = is_large.then(|| shrink::shrink_plan(&both[0], &both[1], LEAST)).transpose()?;
    let sized = small.as_ref().unwrap_or(&both);
    if is_large && exceeds(&sized[0], MAX_RUN_FLOPS, MAX_RUN_BYTES) {
        return by_pieces(&both, settings);
    }
    let wide = widen(sized);
    let [original, planned] = wide.as_ref().unwrap_or(sized);
    let verified = compared(original, planned, settings)?;
    let strict = Settings { tolerance: settings.tolerance.or(Some(OF_PIECES)), ..settings.clone() };
    if wide.is_some() && verified.may_be_rounding() {
        if let Ok(pieces) = by_pieces(&both, &strict)
            && pieces.verdict() == Verdict::Equal
        {
            return Ok(pieces);
        }
    } else if wide.is_some() && verified.verdict() == Verdict::Equal && verified.is_far_apart {
        // Large numbers amplify rounding beyond any bound, but not in an instruction.
        let pieces = by_pieces(&both, &strict)?;
        if pieces.verdict() != Verdict::Equal {
            return Ok(pieces);
        }
    }
    Ok(Verified { is_shrunk: is_large, is_widened: wide.is_some(), ..verified })
}

/// Errors where outputs cannot have the buffers that the plan's header gives them.
fn legal_aliases(planned: &Module) -> Result<()> {
    let problems = aliases::problems(planned, &derive(planned)?);
    let fatal: Vec<&Problem> = problems.iter().filter(|problem| problem.is_fatal).collect();
    listed(planned, &fatal, Diagnostic::error).map_or(Ok(()), Err)
}

/// Proves a plan piece by piece.
fn by_pieces(
    [original, planned]: &[Module; 2],
    settings: &Settings,
) -> std::result::Result<Verified, Failed> {
    let header = phzc_plan::derive::header(planned)?;
    Ok(Verified {
        outputs: Vec::new(),
        n_steps: 1,
        dark: Dark::default(),
        is_far_apart: false,
        n_replicas: header.n_replicas(),
        n_devices: header.n_devices(),
        n_stages: header.meshes.len(),
        n_microbatches: header.n_microbatches,
        is_replayed: false,
        is_shrunk: true,
        is_widened: true,
        pieces: Some(pieces::prove(original, planned, settings)?),
    })
}

/// Two programs that take and return the same, as they are run.
struct Runs<'a> {
    original: &'a Module,
    devices: Devices,
    tolerance: f64,
    options: Options,
    of_plan: Options,
}

impl Runs<'_> {
    /// What the program makes of its inputs, and what the plan makes of its own.
    fn both(
        &self,
        of_program: &[Value],
        of_plan: &[Value],
    ) -> std::result::Result<(Value, Result<Value>), Failed> {
        let wanted = run(self.original, of_program, &self.options).map_err(Failed::of_program)?;
        Ok((wanted, self.devices.run(of_plan, &self.of_plan)))
    }

    /// The first step, and what nothing more is known of yet.
    fn first(&self, wanted: &Value, made: &Value) -> Result<Verified> {
        let Devices { n_replicas, n_devices, n_stages, n_microbatches, is_replayed, .. } = self.devices;
        Ok(Verified {
            outputs: compare::outputs(wanted, made, self.tolerance)?,
            n_steps: 1,
            dark: Dark::default(),
            is_far_apart: false,
            n_replicas,
            n_devices,
            n_stages,
            n_microbatches,
            is_replayed,
            is_shrunk: false,
            is_widened: false,
            pieces: None,
        })
    }
}

/// Runs two programs that take and return the same, as they are, for two steps and once with large floats.
///
/// # Errors
/// As [`verify`].
fn compared(
    original: &Module,
    planned: &Module,
    settings: &Settings,
) -> std::result::Result<Verified, Failed> {
    let tolerance = settings.tolerance.unwrap_or_else(|| compare::tolerance(original));
    let (options, of_plan) = (settings.options(), settings.options_of_plan(original, planned));
    let runs = Runs { original, devices: Devices::of(planned)?, tolerance, options, of_plan };
    let (inputs, chains) = (Inputs::of(original, &runs.devices.parts()), Chains::of(original));
    let options = &runs.options;
    let given = inputs.draw(settings.seed, options).map_err(Failed::of_program)?;
    let (wanted, recorded) = chains.run(&given, options).map_err(Failed::of_program)?;
    let made = runs.devices.run(&given, &runs.of_plan)?;
    let mut verified = runs.first(&wanted, &made)?;
    if verified.verdict() == Verdict::Differs {
        return Ok(verified);
    }
    let second = inputs.after(&given, &wanted, settings.seed, options).map_err(Failed::of_program)?;
    let next = second.inputs(&wanted);
    let far = far::inputs(&inputs, (&given, &next), settings.seed, options).map_err(Failed::of_program)?;
    let idle = chains.idle_inputs((&given, &far), (&wanted, &recorded), options);
    verified.dark.idle_inputs = idle.map_err(Failed::of_program)?;
    drop(recorded);
    let (wanted_far, made_far) = runs.both(&far, &far)?;
    verified.is_far_apart = is_far_apart(&wanted_far, made_far, tolerance);
    verified.dark.constant_outputs = unchanged(&wanted, &wanted_far);
    let (wanted, made) = runs.both(&next, &second.inputs(&made))?;
    let outputs = compare::outputs(&wanted, &made?, tolerance)?;
    verified.outputs = verified.outputs.into_iter().zip(outputs).map(|(one, other)| one.and(other)).collect();
    verified.n_steps = 2;
    Ok(verified)
}

/// Whether a plan makes something else of large floats. It is asked in pieces then: what overflows may have
/// copies that differ.
fn is_far_apart(wanted: &Value, made: Result<Value>, tolerance: f64) -> bool {
    let outputs = made.and_then(|made| compare::outputs(wanted, &made, tolerance));
    outputs.map_or(true, |outputs| outputs.iter().any(|output| !output.is_equal()))
}

/// The outputs that are the same in two runs, of which no input is the same.
fn unchanged(first: &Value, second: &Value) -> Vec<usize> {
    let is_same = |(a, b): (f64, f64)| a == b || (a.is_nan() && b.is_nan());
    let all_same = |(first, second): (&Array, &Array)| {
        first.to_f64_vec().into_iter().zip(second.to_f64_vec()).all(is_same)
    };
    let pairs = first.leaves().into_iter().zip(second.leaves()).enumerate();
    pairs.filter(|&(_, pair)| all_same(pair)).map(|(index, _)| index).collect()
}

/// Whether a program has more operations or bytes than this.
fn exceeds(module: &Module, flops: f64, bytes: f64) -> bool {
    let of = |comp: &Computation| comp.instrs.iter().map(|instr| instr.shape.bytes()).sum::<f64>();
    totals(module).with_trips.flops > flops || module.comps.iter().map(of).sum::<f64>() > bytes
}

/// Errors unless both take and return values of the same shapes.
fn same_signature(original: &Module, planned: &Module) -> Result<()> {
    let shapes = |module: &Module| {
        let entry = module.entry();
        let ids = entry.params().into_iter().chain([entry.root]);
        ids.map(|id| entry.instr(id).shape.clone()).collect::<Vec<_>>()
    };
    let (wanted, found) = (shapes(original), shapes(planned));
    match unlike(&wanted, &found) {
        None => Ok(()),
        Some(message) => {
            Err(Diagnostic::error(message).help("give a program and the plan that phzc made of it"))
        }
    }
}

/// What is different about parameters and, last, the result.
fn unlike(wanted: &[Shape], found: &[Shape]) -> Option<String> {
    if wanted.len() != found.len() {
        let (wanted, found) = (counted(wanted.len() - 1, "parameter"), found.len() - 1);
        return Some(format!("the program has {wanted}, the plan {found}"));
    }
    let at = wanted.iter().zip(found).position(|(wanted, found)| !wanted.same_type(found))?;
    let what = if at + 1 == wanted.len() { "the result".to_owned() } else { format!("parameter {at}") };
    let (wanted, found) = (wanted[at].leaves(), found[at].leaves());
    if wanted.len() != found.len() {
        let (wanted, found) = (counted(wanted.len(), "array"), found.len());
        return Some(format!("{what} has {wanted} in the program, {found} in the plan"));
    }
    let (wanted, found) = wanted.into_iter().zip(found).find(|(wanted, found)| !wanted.same_type(found))?;
    let (wanted, found) = (shape_text(wanted), shape_text(found));
    Some(format!("{what} has `{wanted}` in the program where it has `{found}` in the plan"))
}
