//! Random restrictions of a program's search: whether a plan under one takes less than the bound without it,
//! or than the plan without it.

use super::{Random, plan};
use phzc_cost::Cluster;
use phzc_ir::{Diagnostic, Module};
use phzc_passes::{plan_note, report};

/// Pipelines whose searches are restricted; a restriction stands at `RESTRICTION`, options of `place` at
/// `OPTIONS`.
pub const SPACES: [&str; 4] = [
    "fuse,shard{mesh=2x4RESTRICTION}",
    "fuse,shard{mesh=autoRESTRICTION}",
    "fuse,shard{mesh=2x4RESTRICTION},place{stages=1}",
    "fuse,shard,placeOPTIONS",
];

/// Options of `place`, of each of which a run has one value or none.
const OPTIONS: [(&str, &[&str]); 4] = [
    ("stages", &["1", "2", "4", "8"]),
    ("microbatches", &["1", "2", "4", "8"]),
    ("schedule", &["gpipe", "1f1b", "zero-bubble", "interleaved"]),
    ("recompute", &["never", "all"]),
];

/// What a run may be forbidden.
const FORBIDDEN: [&str; 9] = [
    "all-to-all",
    "collective-permute",
    "reduce-scatter",
    "rhs",
    "contract",
    "weights",
    "zero1",
    "zero3",
    "remake",
];

/// How far a time may be below a bound, relatively: sums of seconds differ by rounding.
const ROUNDING: f64 = 1e-6;

/// By how much, relatively, a plan is to be faster than the one without restrictions to count.
const FASTER: f64 = 5e-3;

/// What came of one program's runs.
#[derive(Debug, Default)]
pub struct Found {
    /// Runs that have a plan; others ask for what cannot be.
    pub n_planned: usize,
    /// Restrictions whose plans take less than the bound without them, and by which part of it.
    pub below: Vec<(String, f64)>,
    /// Restrictions whose plans take less than the plan without them, and by which part of it.
    pub faster: Vec<(String, f64)>,
}

/// Plans a program without and with `n_runs` random restrictions of each space.
pub fn restricted(module: &Module, n_runs: usize, cluster: &Cluster, random: &mut Random) -> Found {
    let mut found = Found::default();
    for space in SPACES {
        let passes = |restriction: &str, options: &str| {
            space.replace("RESTRICTION", restriction).replace("OPTIONS", options)
        };
        let Ok(free) = secs(module, &passes("", ""), cluster) else { continue };
        for _ in 0..n_runs {
            let restricted = passes(&restriction(module, random), &options(random));
            let Ok(run) = secs(module, &restricted, cluster) else { continue };
            found.n_planned += 1;
            let short = 1.0 - run.planned.min(run.reported) / free.bound;
            if short > ROUNDING {
                found.below.push((restricted.clone(), short));
            }
            let saved = 1.0 - run.reported / free.reported;
            if saved > FASTER {
                found.faster.push((restricted, saved));
            }
        }
    }
    found
}

/// Seconds of a step.
struct Secs {
    planned: f64,
    reported: f64,
    bound: f64,
}

fn secs(module: &Module, passes: &str, cluster: &Cluster) -> Result<Secs, Diagnostic> {
    let planned = plan(module, passes, cluster)?;
    let note = plan_note::read(&planned);
    let of = |key: &str| note.get(key).and_then(serde_json::Value::as_f64).expect("a plan's note has it");
    let reported = report::plan(&planned, cluster)?.time_secs;
    Ok(Secs { planned: of("planned_secs"), reported, bound: of("lower_bound_secs") })
}

/// One or two pins, something forbidden, or both.
fn restriction(module: &Module, random: &mut Random) -> String {
    let n_pins = random.below(3);
    let pins: Vec<String> = (0..n_pins).map(|_| pin(module, random)).collect();
    let pinned = if pins.is_empty() { String::new() } else { format!(",pin={{{}}}", pins.join("; ")) };
    let is_forbidding = n_pins == 0 || random.below(4) == 0;
    let forbidden = is_forbidding.then(|| format!(",forbid={}", random.pick(&FORBIDDEN)));
    pinned + &forbidden.unwrap_or_default()
}

/// Some options of `place`.
fn options(random: &mut Random) -> String {
    let mut chosen = Vec::new();
    for (key, values) in OPTIONS {
        if random.below(2) == 0 {
            chosen.push(format!("{key}={}", random.pick(values)));
        }
    }
    if chosen.is_empty() { String::new() } else { format!("{{{}}}", chosen.join(",")) }
}

/// A pin of some instruction of the entry or of what it calls: each axis of two on a dimension or on none.
fn pin(module: &Module, random: &mut Random) -> String {
    let instrs = module.comps.iter().flat_map(|comp| &comp.instrs);
    let arrays = instrs.filter_map(|instr| Some((&*instr.name, instr.shape.as_array()?.dims.len())));
    let (name, rank) = random.pick(&arrays.filter(|(_, rank)| *rank > 0).collect::<Vec<_>>());
    let mut dims = vec![String::new(); rank];
    for axis in ["x", "y"] {
        if let Some(dim) = dims.get_mut(random.below(rank + 1)) {
            *dim += axis;
        }
    }
    let dims: Vec<&str> = dims.iter().map(|axes| if axes.is_empty() { "-" } else { axes }).collect();
    format!("^{}$=[{}]", name.replace('.', r"\."), dims.join(","))
}
