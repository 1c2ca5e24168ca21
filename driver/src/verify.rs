//! `phzc verify`: runs a program and its plan and says, output by output, whether they agree.

use crate::args::VerifyArgs;
use crate::hints;
use comfy_table::Table;
use comfy_table::presets::NOTHING;
use phzc_frontends::ReadArgs;
use phzc_frontends::{Program, load};
use phzc_io::render::{Source, render};
use phzc_io::{Failure, Io, write_stdout};
use phzc_ir::{Diagnostic, Module, counted};
use phzc_passes::derive::is_planned;
use phzc_passes::partitioned::partitioned;
use phzc_passes::verify::dark::{Dark, Idleness};
use phzc_passes::verify::pieces::Pieces;
use phzc_passes::verify::{Output, Settings, Verdict, Verified, verify};
use std::path::Path;

/// More outputs than this are shown only if they differ.
const MAX_SHOWN: usize = 12;
/// The exit code where nothing differs and not everything is proven.
const NOT_PROVEN: u8 = 3;
/// As many reasons are listed besides the first.
const MAX_REASONS: usize = 9;

/// Does what the command line says; outputs that differ are an error.
pub(crate) fn run(args: &VerifyArgs, io: &mut Io) -> Result<(), Failure> {
    if args.model.as_os_str() == "-" && args.plan.as_os_str() == "-" {
        let message = "the program and the plan cannot both be standard input";
        return Err(Failure { code: 2, ..Diagnostic::error(message).into() });
    }
    hints::check_plan(&args.plan)?;
    let (model, model_source) = legal(&args.model, &args.read, io)?;
    let (plan, plan_source) = legal(&args.plan, &ReadArgs::default(), io)?;
    let said = remarks(&model, &plan);
    let _ = io.stderr.write_all(render(None, &said, io.color).as_bytes());
    (io.progress)("verify: running program and plan");
    let settings = Settings {
        seed: args.seed,
        tolerance: args.tolerance,
        fill_elided: args.fill_elided,
        by_pieces: args.pieces,
    };
    let verified = verify(&model, &plan, &settings).map_err(|failed| {
        let source = if failed.is_of_plan { plan_source } else { model_source };
        Failure::new(Some(source), failed.error)
    })?;
    let shown =
        verified.pieces.as_ref().map_or_else(|| text(&verified), |pieces| pieces_text(&verified, pieces));
    write_stdout(io, &shown)?;
    match verified.verdict() {
        Verdict::Equal => Ok(()),
        Verdict::Differs => Err(differs(&verified).into()),
        Verdict::NotProven => Err(Failure { code: NOT_PROVEN, ..not_proven(&verified).into() }),
    }
}

/// What is odd about a program and its plan.
fn remarks(model: &Module, plan: &Module) -> Vec<Diagnostic> {
    match (is_planned(model), is_planned(plan) || partitioned(plan).is_some()) {
        (true, false) => {
            let help = "`phzc verify MODEL PLAN`: the program first, then what `-o` wrote";
            vec![Diagnostic::warning("the first program has a plan, the second has none").help(help)]
        }
        (false, false) => vec![Diagnostic::warning("the second program has no plan: it runs on one device")],
        _ => Vec::new(),
    }
}

fn differs(verified: &Verified) -> Diagnostic {
    let (n_wrong, what, all) = match &verified.pieces {
        Some(pieces) => (pieces.differing.len(), "piece", pieces.n_pieces),
        None => {
            let n_wrong = verified.outputs.iter().filter(|output| !output.is_equal()).count();
            (n_wrong, "output", verified.outputs.len())
        }
    };
    let verb = if n_wrong == 1 { "differs" } else { "differ" };
    let wrong = counted(n_wrong, what);
    Diagnostic::error(format!("{wrong} of {all} {verb}: the plan does not compute what the program does"))
}

fn not_proven(verified: &Verified) -> Diagnostic {
    let open = verified.pieces.iter().flat_map(|pieces| &pieces.open);
    let mut notes = open.map(|open| format!("`{}`: {}", open.name, open.why));
    let error = Diagnostic::error(format!("not proven, because of {}", notes.next().unwrap_or_default()));
    let error = notes.by_ref().take(MAX_REASONS).fold(error, |error, note| error.note(None, note));
    match notes.count() {
        0 => error,
        n_more => error.note(None, format!("and {n_more} more")),
    }
}

fn legal(path: &Path, args: &ReadArgs, io: &mut Io) -> Result<(Module, Source), Failure> {
    let Program { module, source, .. } = load(path, args, io)?;
    let errors = phzc_ir::verify(&module);
    if errors.is_empty() {
        Ok((module, source))
    } else {
        Err(Failure { code: 1, source: Some(source), errors })
    }
}

fn text(verified: &Verified) -> String {
    let outputs = &verified.outputs;
    let mut table = Table::new();
    table.load_style(NOTHING).set_header(["output", "shape", "error", "tolerance", "verdict"]);
    let is_shown = |index: usize| outputs.len() <= MAX_SHOWN || !outputs[index].is_equal();
    for (index, output) in outputs.iter().enumerate().filter(|(index, _)| is_shown(*index)) {
        let verdict = if output.is_equal() { "equal" } else { "DIFFERS" };
        let (error, tolerance) = (format!("{:.1e}", output.error), format!("{:.0e}", output.tolerance));
        table.add_row([index.to_string(), output.shape.clone(), error, tolerance, verdict.to_owned()]);
    }
    let rows = rows(&table);
    let worst = outputs.iter().map(|output| output.error).fold(0.0, f64::max);
    let n_equal = outputs.iter().filter(|output| output.is_equal()).count();
    let all = counted(outputs.len(), "output");
    let (silent, dark) = (silent(outputs).unwrap_or_default(), dark(&verified.dark));
    format!("{}{rows}{n_equal} of {all} equal, largest error {worst:.1e}\n{silent}{dark}", how(verified))
}

/// What the run says nothing about, a line each.
fn dark(dark: &Dark) -> String {
    let idle = dark.idle_inputs.iter().map(|input| {
        let why = match input.why {
            Idleness::Unread => "leads to no output",
            Idleness::NoEffect => "has no effect on any output in this run",
            Idleness::NotFound => "was not found to have an effect on any output in this run",
        };
        format!("input {} `{}` {why}\n", input.index, input.name)
    });
    let constant = dark.constant_outputs.iter();
    let constant =
        constant.map(|index| format!("output {index} does not change with any input in this run\n"));
    idle.chain(constant).collect()
}

/// How many outputs would be equal whatever the plan did.
fn silent(outputs: &[Output]) -> Option<String> {
    let n_silent = outputs.iter().filter(|output| output.says_nothing).count();
    let which = counted(n_silent, "output");
    (n_silent > 0)
        .then(|| format!("{which} of these prove nothing: all zero, not finite, or too small beside others, in the program\n"))
}

/// The pieces that differ, and how much is proven.
fn pieces_text(verified: &Verified, pieces: &Pieces) -> String {
    let devices = counted(verified.n_devices, "virtual device");
    let stages = stages(verified);
    let microbatches = counted(verified.n_microbatches, "microbatch");
    let mut table = Table::new();
    table.load_style(NOTHING).set_header(["piece", "error", "tolerance", "verdict"]);
    for piece in &pieces.differing {
        let (error, tolerance) = (format!("{:.1e}", piece.error), format!("{:.0e}", piece.tolerance));
        table.add_row([piece.name.clone(), error, tolerance, "DIFFERS".to_owned()]);
    }
    let n_equal = pieces.n_pieces - pieces.differing.len() - pieces.open.len();
    let (all, unlike) = (counted(pieces.n_pieces, "piece"), pieces.n_unlike);
    let (instrs, flops) = (100.0 * pieces.share_of_instrs, 100.0 * pieces.share_of_flops);
    format!(
        "{devices}, {stages}, {microbatches}, piece by piece; `check` judges the order of tasks\n{}{n_equal} of {all} \
         equal, {unlike} run for all that are alike: {instrs:.1} % of the instructions, {flops:.1} % of the operations proven\n",
        rows(&table)
    )
}

/// The lines of a table, if it has any.
fn rows(table: &Table) -> String {
    match table.is_empty() {
        true => String::new(),
        false => table.to_string().lines().map(|line| format!("{}\n", line.trim())).collect(),
    }
}

/// `2 stages`, `2 stages in 3 replicas`.
fn stages(verified: &Verified) -> String {
    let stages = counted(verified.n_stages, "stage");
    match verified.n_replicas {
        1 => stages,
        n => format!("{stages} in {n} replicas"),
    }
}

/// How both were run.
fn how(verified: &Verified) -> String {
    let devices = counted(verified.n_devices, "virtual device");
    let stages = stages(verified);
    let microbatches = counted(verified.n_microbatches, "microbatch");
    let way = if verified.is_replayed { "the schedule replayed task by task" } else { "in lock-step" };
    let sizes = if verified.is_shrunk { ", with smaller sizes" } else { "" };
    let floats = if verified.is_widened { ", in 64-bit floats" } else { "" };
    let steps = counted(verified.n_steps, "step");
    format!("{devices}, {stages}, {microbatches}, {way}{sizes}{floats}, {steps}\n")
}
