//! A program planned in given degrees: layouts on the devices of one stage, then the cut between layers.

use super::arguments::{Arguments, Recompute};
use super::degrees::{Degrees, Sizes, Stages, degrees, stages};
use super::shared::stored;
use super::{dims, doubts};
use crate::sample::{sample, widest};
use phzc_cost::Cluster;
use phzc_io::Io;
use phzc_ir::{Diagnostic, Module, notes};
use phzc_passes::derive::{Facts, derive, is_planned};
use phzc_passes::graph::Graph;
use phzc_passes::manager::{self, Hooks};
use phzc_passes::report::{ColumnsRows, Plan, SplitValue, Splits, columns_rows, layer_products, plan_of};
use phzc_passes::{Context, Done, place};

/// A planned program, and what was said on the way.
pub struct Priced {
    pub module: Module,
    pub said: Vec<Diagnostic>,
}

/// Why nothing is priced.
pub enum Refused {
    /// An argument.
    Arguments(Diagnostic),
    /// The program, in these degrees.
    Program(Vec<Diagnostic>),
}

/// What the planner may do with the weights of data-parallel copies, by ZeRO's stage. Where only optimizer
/// states are shared, weights are whole or in parts: those of the program are the optimizer's, which a stack
/// keeps beside its copies in 16 bits.
const FORBIDDEN: [&[&str]; 4] = [&["zero1+zero3"], &["zero3", ""], &["zero3", ""], &[""]];

/// Plans a program as its arguments say.
///
/// # Errors
/// At an argument that fits neither the program nor the cluster, or when the program cannot be planned so.
pub fn planned(
    mut module: Module,
    asked: &Arguments,
    cluster: &Cluster,
    io: &mut Io,
) -> Result<Priced, Refused> {
    if is_planned(&module) {
        let error = Diagnostic::error("the program has a plan already");
        return Err(Refused::Program(vec![error.help("price the program that was planned")]));
    }
    let attention = if asked.is_unfused { "as-written" } else { "flash" };
    // Layers in a loop are neither told apart nor cut.
    let mut said = run(&mut module, &format!("unroll,fuse{{attention={attention}}}"), cluster, io)?;
    let graph = Graph::build(&module);
    dims::check(asked, &graph).map_err(Refused::Arguments)?;
    let facts = derive(&module).map_err(|error| Refused::Program(vec![error]))?;
    let sizes = sizes(&module, &facts, cluster);
    let degrees = degrees(asked, cluster.n_devices(), sizes).map_err(Refused::Arguments)?;
    let n_layers = layer_products(&module, &facts).map_or(0, |layers| layers.len());
    if degrees.pipeline > 1 && n_layers == 0 {
        let error =
            Diagnostic::error("the program has no layers that are alike, so it has no stages of layers");
        let help = "stages are cut between equal layers: price it as one stage";
        return Err(Refused::Program(vec![error.help(help)]));
    }
    let stages = stages(asked, degrees.pipeline, n_layers).map_err(Refused::Arguments)?;
    let splits = columns_rows(&module, &facts, degrees.tensor as i64);
    doubts::experts(asked, &splits, &module)
        .and_then(|()| doubts::recomputed_layers(asked))
        .map_err(Refused::Arguments)?;
    said.extend(doubts::passed_over(asked, &degrees, &stages));
    said.extend(unsplit(&splits, &degrees));
    said.extend(nearly(asked, &degrees));
    let is_shared = asked.is_exact && asked.zero == 3;
    let stored = if is_shared { stored(&module, &facts, &degrees, &splits) } else { Vec::new() };
    let layouts = Layouts { splits, stored };
    let (best, more) = cheapest(&module, asked, (&degrees, &stages, &layouts), cluster, io)?;
    said.extend(more);
    Ok(Priced { module: best, said })
}

/// Layouts that are asked for.
struct Layouts {
    splits: ColumnsRows,
    /// Weights that copies share out, by name, and how.
    stored: Vec<(String, String)>,
}

/// The fastest plan with a stage of ZeRO. Where its copies share out less than that, the plan is made anew
/// as if so little had been asked for: else it might have states in parts by tensor parallelism, as no stack
/// has.
fn cheapest(
    module: &Module,
    asked: &Arguments,
    (degrees, stages, layouts): (&Degrees, &Stages, &Layouts),
    cluster: &Cluster,
    io: &mut Io,
) -> Result<(Module, Vec<Diagnostic>), Refused> {
    let (mut asked, wanted) = (asked.clone(), asked.zero.min(3));
    asked.zero = wanted;
    loop {
        let mut tried = |forbid: &str| {
            let passes = passes(&asked, degrees, layouts, forbid);
            tried(module.clone(), &passes, (degrees, stages), by_layers(&asked, degrees), cluster, io)
        };
        let all = FORBIDDEN[usize::from(asked.zero)];
        let forbidden = if asked.is_exact { &all[..1] } else { all };
        let strict = forbidden.iter().map(|forbid| tried(forbid)).reduce(faster);
        let best = match strict {
            Some(Err(_)) if !forbidden.contains(&"") => tried("").map(gathering),
            best => best.unwrap_or_else(|| Err(Refused::Program(Vec::new()))),
        };
        let (best, mut said, plan) = best?;
        let shared = plan.stages.iter().filter_map(|stage| stage.parallelism.as_ref()?.zero_stage).max();
        let shared = shared.unwrap_or(0);
        if shared < asked.zero && !asked.is_exact {
            asked.zero = shared;
            continue;
        }
        let is_less = shared < wanted && degrees.data * degrees.context > 1;
        said.extend(is_less.then(|| {
            Diagnostic::warning(format!(
                "ZeRO-{shared} is priced: it is faster than ZeRO-{wanted}, which is asked for"
            ))
            .help("the memory is that of what is priced")
        }));
        return Ok((best, said));
    }
}

/// A plan that may gather weights where a stack would not.
fn gathering((module, mut said, plan): (Module, Vec<Diagnostic>, Plan)) -> (Module, Vec<Diagnostic>, Plan) {
    let message =
        "weights are gathered: the planner has no layout with all of them whole or by columns and rows";
    let help = "keys and values that several heads share are such a case: the time is that of this plan";
    said.push(Diagnostic::warning(message).help(help));
    (module, said, plan)
}

/// What layers compute again once they are cut. What `place` finds for one stage would be no whole number of
/// layers, and as little as the memory of all stages allows. Attention that is one kernel saves nothing
/// of itself anyway.
fn by_layers(asked: &Arguments, degrees: &Degrees) -> Option<Again> {
    match asked.recompute {
        _ if degrees.pipeline == 1 => None,
        Recompute::Full => Some(place::recompute_layers),
        Recompute::Selective if asked.is_unfused => Some(place::recompute_attention),
        _ => None,
    }
}

/// Has layers compute something again.
type Again = fn(&mut Module) -> phzc_ir::Result<()>;

/// How much more memory there is before layers compute again.
const ROOM: f64 = 4.0;

/// A planned program, what was said, and its figures.
type Tried = Result<(Module, Vec<Diagnostic>, Plan), Refused>;

fn faster(a: Tried, b: Tried) -> Tried {
    match (&a, &b) {
        (Ok(first), Ok(second)) if second.2.time_secs < first.2.time_secs => b,
        (Err(_), Ok(_)) => b,
        _ => a,
    }
}

fn tried(
    mut module: Module,
    passes: &str,
    (degrees, stages): (&Degrees, &Stages),
    by_layers: Option<Again>,
    cluster: &Cluster,
    io: &mut Io,
) -> Tried {
    let mut stage = cluster.submesh(cluster.n_devices() / degrees.pipeline);
    stage.accelerator.hbm_bytes *= degrees.pipeline as f64 * if by_layers.is_some() { ROOM } else { 1.0 };
    let mut said = run(&mut module, passes, &stage, io)?;
    let program = |error| Refused::Program(vec![error]);
    if degrees.pipeline > 1 {
        place::cut_at_layers(&mut module, &stages.layers, degrees.n_microbatches, stages.schedule)
            .map_err(program)?;
    }
    by_layers.map_or(Ok(()), |again| again(&mut module)).map_err(program)?;
    module.set_note(notes::CLUSTER, &cluster.name);
    // Too little memory is a price too.
    let checked = run(&mut module.clone(), "check", cluster, io);
    said.extend(checked.unwrap_or_else(|refused| match refused {
        Refused::Arguments(error) => vec![error],
        Refused::Program(errors) => errors.into_iter().map(as_warning).collect(),
    }));
    let facts = derive(&module).map_err(program)?;
    let plan = plan_of(&module, &facts, cluster);
    Ok((module, said, plan))
}

fn as_warning(error: Diagnostic) -> Diagnostic {
    Diagnostic { severity: phzc_ir::Severity::Warning, ..error }
}

/// The samples of a step, and the places of one.
pub fn sizes(module: &Module, facts: &Facts, cluster: &Cluster) -> Sizes {
    let graph = Graph::build(module);
    let sample = sample(&graph, plan_of(module, facts, cluster).throughput.as_ref());
    let places = sample.places.or_else(|| widest(&graph));
    Sizes {
        batch: sample.batch,
        seq: places.map(|seq| seq as usize),
        has_microbatches: sample.has_microbatches,
    }
}

/// A program after `fuse`, loops over layers unrolled and attention one kernel, and what is known of it.
///
/// # Errors
/// When it cannot be planned.
pub fn fused(module: &Module, cluster: &Cluster, io: &mut Io) -> Result<(Module, Facts), Refused> {
    let mut fused = module.clone();
    run(&mut fused, "unroll,fuse{attention=flash}", cluster, io)?;
    let facts = derive(&fused).map_err(|error| Refused::Program(vec![error]))?;
    Ok((fused, facts))
}

/// Runs passes; what they say.
///
/// # Errors
/// What the passes refuse.
pub fn run(
    module: &mut Module,
    passes: &str,
    cluster: &Cluster,
    io: &mut Io,
) -> Result<Vec<Diagnostic>, Refused> {
    let pipeline = phzc_passes::pipeline(passes).map_err(Refused::Program)?;
    let mut cx = Context { progress: io.progress, ..Context::new(cluster) };
    let mut hooks = Hooks { observer: &mut |_: Done| Ok(()), clock: io.clock };
    manager::run(module, &pipeline, &mut cx, &mut hooks).map_err(Refused::Program)?;
    Ok(cx.warnings)
}

/// The passes after `fuse`.
fn passes(asked: &Arguments, degrees: &Degrees, layouts: &Layouts, forbid: &str) -> String {
    let axes = axes(degrees);
    let mesh: Vec<String> = axes.iter().map(|(name, size)| format!("{name}={size}")).collect();
    let recompute = match asked.recompute {
        Recompute::Nothing => "never",
        _ if by_layers(asked, degrees).is_some() => "never",
        Recompute::Selective => "auto",
        Recompute::Full => "all",
    };
    let mut options = Vec::new();
    if !axes.is_empty() {
        options.push(format!("mesh={{{}}}", mesh.join(",")));
        options.push(format!("pin={{{}}}", pins(asked, degrees, layouts).join(";")));
    }
    options.extend((!forbid.is_empty()).then(|| format!("forbid={forbid}")));
    let options = if options.is_empty() { String::new() } else { format!("{{{}}}", options.join(",")) };
    let n_microbatches = degrees.n_microbatches;
    format!("shard{options},place{{stages=1,microbatches={n_microbatches},recompute={recompute}}}")
}

/// Megatron numbers the devices of a tensor-parallel group first, then those of context, experts, data.
pub fn axes(degrees: &Degrees) -> Vec<(&'static str, usize)> {
    let all = [
        ("data", degrees.data / degrees.expert),
        ("expert", degrees.expert),
        ("context", degrees.context),
        ("tensor", degrees.tensor),
    ];
    all.into_iter().filter(|(_, size)| *size > 1).collect()
}

/// A pin per layout, of all values that have it.
fn pins(asked: &Arguments, degrees: &Degrees, layouts: &Layouts) -> Vec<String> {
    let splits = &layouts.splits;
    let mut found: Vec<(String, Vec<&str>)> = Vec::new();
    // A weight that is read as it is stored is stored in parts where copies share it out.
    let is_stored_whole = |value: &&SplitValue| !value.is_input || asked.zero == 0;
    let weights = splits.weights.iter().filter(is_stored_whole);
    let values = splits.data.iter().chain(weights).chain(&splits.results);
    let values = values.map(|value| (&*value.name, layout(asked, degrees, value)));
    let stored = layouts.stored.iter().map(|(name, layout)| (&**name, layout.clone()));
    for (name, layout) in values.chain(stored) {
        match found.iter_mut().find(|(own, _)| *own == layout) {
            Some((_, names)) => names.push(name),
            None => found.push((layout, vec![name])),
        }
    }
    let pin = |(layout, names): (String, Vec<&str>)| {
        let names: Vec<String> = names.iter().map(|name| name.replace('.', "\\.")).collect();
        format!("^({})$={layout}", names.join("|"))
    };
    found.into_iter().map(pin).collect()
}

/// `[data+expert,-]`.
fn layout(asked: &Arguments, degrees: &Degrees, value: &SplitValue) -> String {
    let has = |name: &str| axes(degrees).iter().any(|(own, _)| *own == name);
    let dim = |splits: &Splits| {
        let names: &[&str] = match splits {
            Splits::Nothing => &[],
            Splits::Tensor => &["tensor"],
            Splits::Expert => &["expert"],
            Splits::Batch => &["data", "expert"],
            Splits::SummedPlaces if asked.sequence_parallel => &["context", "tensor"],
            Splits::Places | Splits::SummedPlaces => &["context"],
        };
        let names: Vec<&str> = names.iter().copied().filter(|name| has(name)).collect();
        if names.is_empty() { "-".to_owned() } else { names.join("+") }
    };
    let dims: Vec<String> = value.dims.iter().map(dim).collect();
    format!("[{}]", dims.join(","))
}

/// A warning about products that Megatron splits and this program's text does not let be split.
fn unsplit(splits: &ColumnsRows, degrees: &Degrees) -> Option<Diagnostic> {
    let first = splits.whole.first().filter(|_| degrees.tensor > 1)?;
    let message = format!(
        "{} products of {} are split neither by columns nor by rows (`{first}`): the planner lays them out",
        splits.whole.len(),
        splits.whole.len() + splits.weights.len()
    );
    let help = "one product for query, key and value is such a case: a program with three can be split";
    Some(Diagnostic::warning(message).help(help))
}

fn nearly(asked: &Arguments, degrees: &Degrees) -> Vec<Diagnostic> {
    let mut said: Vec<String> = asked.nearly.clone();
    if asked.recompute == Recompute::Selective && by_layers(asked, degrees).is_none() {
        said.push(
            "selective recomputation: priced with what the planner recomputes, the cheapest values".into(),
        );
    }
    said.into_iter().map(Diagnostic::warning).collect()
}
