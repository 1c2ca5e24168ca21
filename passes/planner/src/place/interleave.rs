//! Interleaved pipelines: device groups hold several stages each (Narayanan et al., SC 2021), so a chain is
//! cut into more stages.
//!
//! Layouts are those of as many stages as there are groups: a stage's devices are as many. A plan's number of
//! stages is that of its pipeline; the option `stages` counts groups.

use super::Problem;
use super::schedule::Wanted;
use super::stage_search::Sketch;
use phzc_cost::Schedule;
use phzc_ir::{Diagnostic, Result};
use rayon::prelude::*;
use serde_json::{Map, Value};

/// The names that the option has.
pub const NAMES: &[&str] = &[
    "auto",
    "1f1b",
    "gpipe",
    "zero-bubble",
    "interleaved",
    "interleaved:2",
    "interleaved:3",
    "interleaved:4",
];

/// How many stages per group are tried.
pub const CHUNKS: [usize; 3] = [2, 3, 4];

/// How many sketches, those that promise most with one stage per group, are worth a look: each is cut for
/// every number of microbatches, and of many layers a text takes seconds.
const MAX_LOOKS: usize = 4;

/// By how much the best cut of a sketch may be slower than the best plan for several stages per group to be
/// worth a try.
pub const HOPELESS: f64 = 2.0;

/// Of sketches, those that seem faster than all of them with several stages per device group, the fastest
/// first.
pub fn faster<'p>(sketches: &[Sketch<'p>], best_secs: f64) -> Vec<Sketch<'p>> {
    let mut some: Vec<&Sketch> = sketches.iter().filter(|sketch| sketch.is_cut()).collect();
    some.sort_by(|a, b| a.secs.total_cmp(&b.secs));
    some.truncate(MAX_LOOKS);
    let best_secs = some.first().map_or(best_secs, |sketch| best_secs.min(sketch.secs));
    let mut found: Vec<Sketch> = some.par_iter().filter_map(|sketch| sketch.interleaved(best_secs)).collect();
    found.sort_by(|a, b| a.secs.total_cmp(&b.secs));
    found
}

/// How many stages each group holds in a plan.
pub fn n_chunks(plan: &Map<String, Value>) -> i64 {
    let schedule =
        plan.get("schedule").and_then(Value::as_str).and_then(|name| name.parse::<Schedule>().ok());
    schedule.unwrap_or_default().n_chunks() as i64
}

/// Whether a schedule is of the kind that is wanted.
pub fn is_like(option: &str, wanted: &str, found: &str) -> bool {
    option == "schedule" && wanted == "interleaved" && found.starts_with("interleaved:")
}

impl Wanted {
    /// Whether every schedule is tried.
    pub fn is_open(self) -> bool {
        self == Wanted::Fastest
    }

    /// Whether groups must hold several stages.
    pub fn is_interleaved(self) -> bool {
        matches!(self, Wanted::Interleaved | Wanted::This(Schedule::Interleaved(_)))
    }

    /// How many stages per group are tried at first.
    pub fn chunks(self) -> &'static [usize] {
        match self {
            Wanted::Interleaved => &CHUNKS,
            Wanted::This(Schedule::Interleaved(2)) => &CHUNKS[..1],
            Wanted::This(Schedule::Interleaved(3)) => &CHUNKS[1..2],
            Wanted::This(Schedule::Interleaved(_)) => &CHUNKS[2..],
            _ => &[1],
        }
    }

    /// Errors if there are not several groups: one waits for nobody.
    pub fn allows(self, n_devices: usize, wanted: usize) -> Result<()> {
        if self.is_interleaved() && (wanted == 1 || n_devices == 1) {
            let message = "an interleaved schedule needs several device groups";
            return Err(Diagnostic::error(message)
                .help("ask for `stages=2` on two devices at least, or for another schedule"));
        }
        Ok(())
    }
}

impl Problem<'_> {
    /// The same with so many stages per device group, if they are several.
    pub(super) fn chunked(&self, n_chunks: usize) -> Problem<'_> {
        let schedule = match n_chunks {
            1 => self.schedule,
            _ => Wanted::This(Schedule::Interleaved(n_chunks)),
        };
        Problem { schedule, ..self.clone() }
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{EXAMPLES, cluster, run};
    use phzc_ir::{Module, parse};
    use phzc_pass::pass::{Changed, Context};

    /// What `place` says to a program.
    fn error(module: &Module, pipeline: &str) -> String {
        let (mut module, cluster) = (module.clone(), cluster());
        let mut cx = Context::new(&cluster);
        let steps = crate::testing::pipeline(pipeline).expect("a legal pipeline").steps;
        let ran = steps.iter().try_for_each(|step| step.run(&mut module, &mut cx).map(|_| ()));
        ran.expect_err("it cannot be placed").message
    }

    #[test]
    fn what_is_placed_stays_as_it_is_and_counts_its_groups() {
        let (placed, _) = run(
            EXAMPLES[0].1,
            "fuse,shard,place{stages=2,microbatches=4,schedule=interleaved:2}",
            &cluster(),
        );
        for options in
            ["", "stages=2", "schedule=interleaved", "schedule=interleaved:2", "stages=2,schedule=auto"]
        {
            let (again, changed) = run(&phzc_ir::print(&placed), &format!("place{{{options}}}"), &cluster());
            assert_eq!(
                (changed, phzc_ir::print(&again) == phzc_ir::print(&placed)),
                (Changed::No, true),
                "{options}"
            );
        }
        assert_eq!(error(&placed, "place{stages=4}"), "the program has been placed already, with stages=2");
        assert_eq!(
            error(&placed, "place{schedule=interleaved:3}"),
            "the program has been placed already, with schedule=interleaved:2"
        );
    }

    #[test]
    fn one_group_and_too_few_layers_are_refused() {
        let program = parse(EXAMPLES[0].1).expect("a program");
        let refusal =
            |options: &str| error(&program, &format!("fuse,shard,place{{{options},schedule=interleaved:4}}"));
        assert_eq!(refusal("stages=1"), "an interleaved schedule needs several device groups");
        let layer = "ENTRY e { x = f32[64,32] parameter(0) w = f32[32,32] parameter(1)
            y = f32[64,32] dot(x, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}
            ROOT z = f32[64,32] tanh(y) }";
        let layer = parse(layer).expect("a program");
        let found = error(&layer, "fuse,shard,place{stages=4,schedule=interleaved:4}");
        assert!(found.contains("not into 16"), "{found}");
    }
}
