//! What the layouts that a program brings, or that pins give, cost: the same search without them.

use phzc_io::units::{percent, secs};
use phzc_ir::border::has_regions;
use phzc_ir::{Module, counted, notes};
use phzc_passes::derive::derive;
use phzc_passes::manager::{self, Hooks};
use phzc_passes::report::{self, Plan};
use phzc_passes::{Context, Done, Pipeline, Step, estimate, fuse, shard, unmap, unpartition, unshard};

/// Names that are listed.
const MAX_NAMES: usize = 3;

/// Whether layouts may be given: to find what they cost takes the program as it was.
pub(crate) fn is_possible(module: &Module, pipeline: &Pipeline) -> bool {
    let mut instrs = module.comps.iter().flat_map(|comp| &comp.instrs);
    module.note(notes::PLAN).is_none()
        && shards(pipeline).next().is_some()
        && (has_pins(pipeline) || instrs.any(|instr| instr.sharding().is_some()))
}

fn shards(pipeline: &Pipeline) -> impl Iterator<Item = &Step> {
    pipeline.steps.iter().filter(|step| step.pass.name == shard::PASS.name)
}

fn has_pins(pipeline: &Pipeline) -> bool {
    shards(pipeline).any(|step| !step.options.text("pin").is_empty())
}

/// What is said of given layouts in the summary, with what the best plan takes without them; nothing where
/// none is given.
pub(crate) fn text(plan: &Plan, planned: &Module) -> String {
    let instrs = || planned.comps.iter().flat_map(|comp| &comp.instrs);
    let given = instrs().filter(|instr| instr.note(notes::GIVEN).is_some());
    let mut names: Vec<&str> = given.take(MAX_NAMES).map(|instr| &*instr.name).collect();
    if names.is_empty() {
        return String::new();
    }
    if plan.n_given_layouts > MAX_NAMES {
        names.push("…");
    }
    let n_given = counted(plan.n_given_layouts, "layout");
    let is_pin = || instrs().filter_map(|instr| Some(instr.note(notes::GIVEN)? == shard::PIN));
    let ways =
        [("no pins", is_pin().any(|is_pin| is_pin)), ("--ignore-shardings", is_pin().any(|is_pin| !is_pin))];
    let how =
        ways.into_iter().filter(|(_, is_way)| *is_way).map(|(way, _)| way).collect::<Vec<_>>().join(", ");
    let free =
        plan.free_secs.map_or_else(String::new, |free| format!("; {}", compared(plan.time_secs, free, &how)));
    format!("given: {n_given} restricted the search ({}){free}\n", names.join(", "))
}

fn compared(time_secs: f64, free_secs: f64, how: &str) -> String {
    let saved = percent((time_secs - free_secs) / time_secs);
    match saved == percent(0.0) || free_secs > time_secs {
        true => "no plan without them is faster".to_owned(),
        false => format!("without them ({how}) {}, {saved} less", secs(free_secs)),
    }
}

/// Seconds of a step of a program as planned without given layouts; `None` where that has no plan or the
/// user waits no longer.
pub(crate) fn free_secs(mut module: Module, pipeline: &Pipeline, cx: &Context) -> Option<f64> {
    let (progress, interrupt) = (cx.progress, cx.interrupt);
    if (interrupt.is_requested)() {
        return None;
    }
    (progress)("without given layouts");
    let mut free = Context { progress, interrupt, ..Context::new(cx.cluster) };
    let mut observer = |_: Done| Ok(());
    let mut hooks = Hooks { observer: &mut observer, clock: &|| 0.0 };
    manager::run(&mut module, &without(pipeline), &mut free, &mut hooks).ok()?;
    let facts = derive(&module).ok()?;
    Some(report::plan_of(&module, &facts, cx.cluster).time_secs)
}

/// Passes that make the program whole which is planned.
const RECOVERING: [&str; 2] = [unpartition::PASS.name, unmap::PASS.name];

/// The pipeline, with `unmap` first where a program that is to be planned or priced has regions of one
/// device's part.
pub fn unmapped(pipeline: &Pipeline, module: &Module) -> Pipeline {
    let mut steps = pipeline.steps.clone();
    let has = |name: &str| pipeline.steps.iter().any(|step| step.pass.name == name);
    let is_planned = [fuse::PASS.name, shard::PASS.name, estimate::PASS.name].into_iter().any(has);
    if is_planned && !has(unmap::PASS.name) && has_regions(module) {
        steps.insert(0, Step::new(&unmap::PASS));
    }
    Pipeline { steps }
}

/// The pipeline with nothing given, in the program that is planned: recovered first, if it is partitioned.
fn without(pipeline: &Pipeline) -> Pipeline {
    let others = pipeline.steps.iter().filter(|step| step.pass.name != unshard::PASS.name);
    let mut steps: Vec<Step> = others.cloned().collect();
    let at = steps.iter().take_while(|step| RECOVERING.contains(&step.pass.name)).count();
    steps.insert(at, Step::new(&unshard::PASS));
    steps.iter_mut().filter_map(|step| step.options.values.get_mut("pin")).for_each(String::clear);
    Pipeline { steps }
}
