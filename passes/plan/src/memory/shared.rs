//! What a device group that holds several stages keeps of microbatches which are not under way.
//!
//! The sweep over the text has one microbatch, on its way through all stages of the group: what its forward
//! parts have saved by an instruction is there. The order of the tasks says what all microbatches keep while
//! a stage's part is under way
//! ([`Interleaving::held_by_task`](phzc_cost::schedule::Interleaving::held_by_task)); the rest of that is the
//! others'.

use super::held::Held;
use super::live::Live;
use crate::derive::{Facts, InstrFacts, Phase};
use phzc_ir::Module;
use rayon::prelude::*;

/// Per stage: what is kept beside the sweep's microbatch, in bytes on one device.
pub struct Shared {
    others: Vec<[f64; 2]>,
    /// What a microbatch keeps between its forward and its backward part.
    pub kept_bytes: Vec<f64>,
}

/// What a device of a group needs as it holds more or less.
#[derive(Clone, Debug, PartialEq)]
pub struct GroupMemory {
    /// The most bytes while it holds nothing of any microbatch.
    pub idle_bytes: f64,
    /// Bytes beside those that it holds, while it holds anything.
    pub base_bytes: f64,
    /// Bytes of one microbatch, per stage of the group.
    pub kept_bytes: Vec<f64>,
}

impl Shared {
    /// What a plan's groups share; nothing where each stage has devices of its own.
    pub fn new(module: &Module, facts: &Facts, live: &Live) -> Option<Shared> {
        let (header, interleaving) = (&facts.header, facts.header.interleaving()?);
        let held = Held::in_one_piece(module, facts, live);
        let kept_bytes: Vec<f64> =
            (0..header.meshes.len()).into_par_iter().map(|stage| held.kept_bytes(stage)).collect();
        let mut others = vec![[0.0; 2]; kept_bytes.len()];
        for group in 0..header.n_groups() {
            let own: Vec<f64> = header.stages_of(group).map(|stage| kept_bytes[stage]).collect();
            let mut passed = 0.0;
            let by_task = interleaving.held_by_task(group, &own);
            for (stage, (most, own)) in header.stages_of(group).zip(by_task.into_iter().zip(&own)) {
                passed += own;
                others[stage] = most.map(|bytes| (bytes - passed).max(0.0));
            }
        }
        Some(Shared { others, kept_bytes })
    }

    /// The same with nothing held.
    pub fn idle(&self) -> Shared {
        let n_stages = self.kept_bytes.len();
        Shared { others: vec![[0.0; 2]; n_stages], kept_bytes: vec![0.0; n_stages] }
    }

    /// Bytes of the other microbatches while an instruction of the group runs.
    pub fn others_bytes(&self, own: &InstrFacts) -> f64 {
        match own.phase {
            Phase::Forward => self.others[own.stage][0],
            Phase::Backward => self.others[own.stage][1],
            Phase::Update => 0.0,
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::derive::derive;
    use crate::memory::memory;
    use phzc_cost::schedule::Part;
    use phzc_cost::{Cluster, Pipeline, Schedule};
    use phzc_ir::{Module, parse};
    use proptest::prelude::*;

    const BATCH: usize = 24;

    /// A step of a chain of products between layers of these widths, a stage each.
    fn step(widths: &[usize], n_chunks: usize, n_microbatches: usize) -> Module {
        let (n, last) = (widths.len() - 1, widths[widths.len() - 1]);
        let mut lines = vec![format!("h0 = f32[{BATCH},{}] parameter(0)@0fwd", widths[0])];
        let mut params = vec![format!("e = f32[{last},{last}] parameter(1)@{}fwd", n - 1)];
        let (mut back, mut updates) =
            (Vec::new(), vec![format!("v = f32[{last},{last}] add(e, e)@{}upd", n - 1)]);
        let dot = |lhs: usize, rhs: usize| {
            format!("lhs_contracting_dims={{{lhs}}}, rhs_contracting_dims={{{rhs}}}")
        };
        back.push(format!("d{n} = f32[{BATCH},{last}] dot(h{n}, e), {}@{}bwd", dot(1, 0), n - 1));
        for at in 1..=n {
            let (from, to, stage, before) = (widths[at - 1], widths[at], at - 1, at - 1);
            params.push(format!("w{at} = f32[{from},{to}] parameter({})@{stage}fwd", at + 1));
            lines.push(format!("h{at} = f32[{BATCH},{to}] dot(h{before}, w{at}), {}@{stage}fwd", dot(1, 0)));
            updates.push(format!("v{at} = f32[{from},{to}] subtract(w{at}, g{at})@{stage}upd"));
        }
        for at in (1..=n).rev() {
            let (from, to, stage, before) = (widths[at - 1], widths[at], at - 1, at - 1);
            back.push(format!("g{at} = f32[{from},{to}] dot(h{before}, d{at}), {}@{stage}bwd", dot(0, 0)));
            back.push(format!("d{before} = f32[{BATCH},{from}] dot(d{at}, w{at}), {}@{stage}bwd", dot(1, 1)));
        }
        let line = |line: &String| {
            let (text, stage) = line.split_once('@').expect("a stage and a phase");
            let (stage, phase) = stage.split_at(stage.len() - 3);
            format!(
                "  {text}, sharding={{replicated}}, frontend_attributes={{phzc.stage=\"{stage}\",phzc.phase=\"{phase}\"}}\n"
            )
        };
        let body: String = [params, lines, back, updates].concat().iter().map(line).collect();
        let results: Vec<String> = (1..=n).map(|at| format!("v{at}")).collect();
        let shapes: Vec<String> =
            (1..=n).map(|at| format!("f32[{},{}]", widths[at - 1], widths[at])).collect();
        let aliases: Vec<String> =
            (0..=n).map(|at| format!("{{{at}}}: ({}, {{}}, may-alias)", at + 1)).collect();
        let meshes: Vec<String> = (0..n).map(|stage| format!("{stage}:")).collect();
        let plan = format!(
            "{{\\\"n_microbatches\\\":{n_microbatches},\\\"schedule\\\":\\\"interleaved:{n_chunks}\\\"}}"
        );
        parse(&format!(
            "HloModule m, input_output_alias={{ {} }}, frontend_attributes={{phzc.stages=\"{}\",phzc.plan=\"{plan}\"}}\nENTRY e {{\n{body}  ROOT all = (f32[{last},{last}], {}) tuple(v, {})\n}}",
            aliases.join(", "), meshes.join(";"), shapes.join(", "), results.join(", ")
        ))
        .expect("legal")
    }

    /// Bytes that the tasks of each group hold between forward and backward, by the replay: each stage what
    /// it receives and what it makes.
    fn held_bytes(widths: &[usize], n_chunks: usize, n_microbatches: usize) -> Vec<f64> {
        let n = widths.len() - 1;
        let pipeline = Pipeline {
            forward_secs: vec![1.0; n],
            backward_secs: vec![2.0; n],
            weight_secs: Vec::new(),
            send_secs: vec![0.0; n - 1],
            n_microbatches,
        };
        let timeline = pipeline.simulate(Schedule::Interleaved(n_chunks));
        let (mut now, mut most) = (vec![0.0; n / n_chunks], vec![0.0f64; n / n_chunks]);
        for event in &timeline.events {
            let bytes = (4 * BATCH / n_microbatches * (widths[event.stage] + widths[event.stage + 1])) as f64;
            let group = timeline.device(event);
            now[group] += if event.phase == Part::Forward { bytes } else { -bytes };
            most[group] = most[group].max(now[group]);
        }
        most
    }

    proptest! {
        #[test]
        fn a_group_needs_what_its_tasks_hold_and_what_one_has_under_way(
            (n_groups, n_chunks) in (1_usize..4, 2_usize..4),
            all_widths in prop::collection::vec(1_usize..40, 10),
            n_microbatches in prop::sample::select(vec![1_usize, 2, 3, 4, 6, 8]),
        ) {
            let n_stages = n_groups * n_chunks;
            let widths = &all_widths[..=n_stages];
            let module = step(widths, n_chunks, n_microbatches);
            let cluster = Cluster::named("a100-8").expect("a known cluster");
            let found = memory(&module, &cluster).expect("a legal header").stages;
            let facts = derive(&module).expect("a legal header");
            prop_assert_eq!(facts.header.n_devices(), n_groups);
            let held = held_bytes(widths, n_chunks, n_microbatches);
            for (stage, own) in found.iter().enumerate() {
                let group = stage % n_groups;
                prop_assert_eq!(own, &found[group]);
                let weights = |stage: usize| {
                    let last = if stage + 1 == n_stages { widths[n_stages] * widths[n_stages] } else { 0 };
                    4.0 * (widths[stage] * widths[stage + 1] + last) as f64
                };
                let weights: f64 = (group..n_stages).step_by(n_groups).map(weights).sum();
                // One microbatch's input, output and their gradients, of any stage; sums of gradients are as
                // large as weights.
                let widest = 4 * BATCH / n_microbatches * widths.iter().max().expect("some");
                let inputs = if group == 0 { 0.0 } else { widest as f64 };
                let (least, most) = (weights + held[group], 2.0 * weights + held[group] + 4.0 * widest as f64);
                prop_assert!(own.peak_bytes >= least - 1e-6, "{stage}: {} < {least}", own.peak_bytes);
                let arrivals = n_chunks as f64 * widest as f64 + inputs;
                prop_assert!(own.peak_bytes <= most + arrivals, "{stage}: {} > {most}", own.peak_bytes);
            }
        }
    }

    #[test]
    fn stages_that_do_not_share_devices_evenly_are_refused() {
        let text = |stages: &str, schedule: &str| {
            let plan = format!("{{\\\"schedule\\\":\\\"{schedule}\\\"}}");
            let notes = format!("frontend_attributes={{phzc.stages=\"{stages}\",phzc.plan=\"{plan}\"}}");
            let module =
                parse(&format!("HloModule m, {notes}\nENTRY e {{\n  ROOT x = f32[] parameter(0)\n}}"))
                    .expect("legal");
            derive(&module).map(|_| ()).map_err(|error| error.message)
        };
        assert_eq!(
            text("0:x=2;1:x=2;2:x=2", "interleaved:2"),
            Err("the schedule `interleaved:2` needs 2 stages per device group, the plan has 3 stages"
                .to_owned())
        );
        assert_eq!(
            text("0:x=2;1:x=4;2:x=2;3:x=2", "interleaved:2"),
            Err("stages 1 and 3 share devices by the schedule `interleaved:2`, but the one has 4 devices, the other 2".to_owned())
        );
        assert!(text("0:x=2;1:x=2", "interleaved:1").is_err());
        assert_eq!(text("0:x=4;1:x=2;2:x=2,y=2;3:x=2", "interleaved:2"), Ok(()));
    }
}
