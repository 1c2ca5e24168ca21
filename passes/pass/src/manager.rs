//! Runs a pipeline: verifies before and after every pass, keeps time, and writes down what has run.
//!
//! The manager prints nothing and dumps nothing; who wants to see the module in between passes an observer.

use crate::pass::{Changed, Context};
use crate::pipeline::{Pipeline, Step};
use phzc_ir::{Diagnostic, Module, Severity, notes, print, verify};

/// What the observer hears: once about the verified input, then after each pass.
pub struct Done<'a> {
    /// How many passes have run.
    pub n_done: usize,
    /// The one that has just run; `None` for the input.
    pub step: Option<&'a Step>,
    /// The module after it, verified.
    pub module: &'a Module,
    /// Whether it changed the module.
    pub changed: bool,
    /// How long it took by the caller's clock.
    pub secs: f64,
}

/// What a run reports to and what it measures time with.
pub struct Hooks<'a> {
    /// Called with the input and after each pass; an error ends the run.
    pub observer: &'a mut dyn FnMut(Done) -> phzc_ir::Result<()>,
    /// Seconds since some fixed moment.
    pub clock: &'a dyn Fn() -> f64,
}

/// Runs the pipeline's passes in order. With none, it verifies.
///
/// # Errors
/// Every broken rule of the input; or what a pass refuses; or, naming the pass, every rule that it broke.
pub fn run(
    module: &mut Module,
    pipeline: &Pipeline,
    cx: &mut Context,
    hooks: &mut Hooks,
) -> Result<(), Vec<Diagnostic>> {
    check(module, cx)?;
    let mut tell = |n_done, step, module: &Module, changed, secs| {
        (hooks.observer)(Done { n_done, step, module, changed, secs }).map_err(|error| vec![error])
    };
    tell(0, None, module, true, 0.0)?;
    for (index, step) in pipeline.steps.iter().enumerate() {
        let start = (hooks.clock)();
        let changed = run_step(module, step, cx)? == Changed::Yes;
        tell(index + 1, Some(step), module, changed, (hooks.clock)() - start)?;
    }
    Ok(())
}

fn run_step(module: &mut Module, step: &Step, cx: &mut Context) -> Result<Changed, Vec<Diagnostic>> {
    let name = step.pass.name;
    (cx.progress)(name);
    let before = cx.is_suspicious.then(|| print(module));
    let ran = step.run(module, cx);
    let changed = ran.map_err(|error| vec![error.note(None, format!("in pass `{name}`"))])?;
    if before.is_some_and(|before| (before != print(module)) != (changed == Changed::Yes)) {
        return Err(vec![bug(name, &format!("it says `{changed:?}` to whether it changed the module"))]);
    }
    check(module, cx)
        .map_err(|errors| errors.into_iter().map(|error| broken(name, error)).collect::<Vec<_>>())?;
    record(module, step, cx);
    Ok(changed)
}

/// Warnings go to the context, errors to the caller.
fn check(module: &Module, cx: &mut Context) -> Result<(), Vec<Diagnostic>> {
    let (errors, warnings): (Vec<_>, Vec<_>) =
        verify(module).into_iter().partition(|found| found.severity == Severity::Error);
    for warning in warnings {
        if !cx.warnings.contains(&warning) {
            cx.warnings.push(warning);
        }
    }
    if errors.is_empty() { Ok(()) } else { Err(errors) }
}

fn bug(pass: &str, what: &str) -> Diagnostic {
    Diagnostic::error(format!("pass `{pass}` is wrong: {what}"))
        .help("this is a bug in phzc, not in the program")
}

/// A rule that a pass broke: the message names the pass, for the user's program is innocent.
fn broken(pass: &str, error: Diagnostic) -> Diagnostic {
    let message = format!("after pass `{pass}`: {}", error.message);
    Diagnostic { message, ..error }.help("this is a bug in phzc, not in the program")
}

/// Appends the pass to the module's history, so that a dump says how it came about.
fn record(module: &mut Module, step: &Step, cx: &Context) {
    let history = match module.note(notes::PASSES) {
        Some(earlier) => format!("{earlier},{step}"),
        None => step.to_string(),
    };
    module.set_note(notes::PASSES, &history);
    module.set_note(notes::CLUSTER, &cx.cluster.name);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pass::{Options, Pass};
    use phzc_cost::{Cluster, DEFAULT_CLUSTER};
    use phzc_ir::{InstrId, parse};

    /// What a run of one pass that does this says: its error, or the notes that it leaves.
    fn check(run_pass: fn(&mut Module, &Options, &mut Context) -> phzc_ir::Result<Changed>) -> String {
        let pass = Box::leak(Box::new(Pass { name: "sample", summary: "", options: &[], run: run_pass }));
        let pipeline = Pipeline { steps: vec![Step::new(pass)] };
        let mut module =
            parse("ENTRY e { x = f32[2] parameter(0) ROOT y = f32[2] negate(x) }").expect("legal");
        let cluster = Cluster::named(DEFAULT_CLUSTER).expect("the default exists");
        let mut hooks = Hooks { observer: &mut |_| Ok(()), clock: &|| 0.0 };
        let mut cx = Context { is_suspicious: true, ..Context::new(&cluster) };
        match run(&mut module, &pipeline, &mut cx, &mut hooks) {
            Ok(()) => module.attr("frontend_attributes").unwrap_or("").to_owned(),
            Err(errors) => errors.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n"),
        }
    }

    #[test]
    fn writes_down_what_has_run() {
        assert_eq!(check(|_, _, _| Ok(Changed::No)), "{phzc.passes=\"sample\",phzc.cluster=\"a100-8\"}");
    }

    #[test]
    fn an_observer_hears_what_changed_and_how_long_it_took() {
        let pass = |run| &*Box::leak(Box::new(Pass { name: "sample", summary: "", options: &[], run }));
        let renames: fn(&mut Module, &Options, &mut Context) -> phzc_ir::Result<Changed> = |module, _, _| {
            module.name = "renamed".into();
            Ok(Changed::Yes)
        };
        let steps = vec![Step::new(pass(|_, _, _| Ok(Changed::No))), Step::new(pass(renames))];
        let mut module = parse("ENTRY e { ROOT x = f32[2] parameter(0) }").expect("legal");
        let cluster = Cluster::named(DEFAULT_CLUSTER).expect("the default exists");
        let (mut heard, now) = (Vec::new(), std::cell::Cell::new(0.0));
        let clock = || {
            now.set(2.0 * now.get() + 1.0);
            now.get()
        };
        let mut observer = |it: Done| {
            heard.push((it.n_done, it.changed, it.secs));
            Ok(())
        };
        let mut hooks = Hooks { observer: &mut observer, clock: &clock };
        run(&mut module, &Pipeline { steps }, &mut Context::new(&cluster), &mut hooks).expect("it runs");
        assert_eq!(heard, [(0, true, 0.0), (1, false, 2.0), (2, true, 8.0)]);
    }

    #[test]
    fn a_pass_that_breaks_the_module_is_named() {
        let said = check(|module, _, _| {
            module.comps[0].instrs[1].operands.push(InstrId(0));
            Ok(Changed::Yes)
        });
        assert!(said.starts_with("after pass `sample`: "), "{said}");
        assert!(said.ends_with("this is a bug in phzc, not in the program"), "{said}");
    }

    #[test]
    fn what_a_pass_refuses_names_it() {
        assert_eq!(check(|_, _, _| Err(Diagnostic::error("no mesh"))), "no mesh; in pass `sample`");
    }

    #[test]
    fn a_pass_that_lies_about_changes_is_found_out() {
        let said = check(|_, _, _| Ok(Changed::Yes));
        assert!(said.starts_with("pass `sample` is wrong: it says `Yes`"), "{said}");
    }
}
