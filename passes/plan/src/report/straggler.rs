//! What is to be expected of a step on devices some of which are slow: the mean over which of the device
//! groups have a slow device. It computes for longer; its links are as fast as the others'.

use super::Plan;
use super::price::StagePrice;
use crate::derive::Facts;
use phzc_cost::{Pipeline, Schedule, Straggler};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Slow devices, and the step without them.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Straggling {
    /// By how much, and with what probability each device by itself: `1.2x@5%`.
    pub straggler: String,
    /// Seconds of a step in which no device is slow.
    pub even_secs: f64,
    /// The probability that any device that the plan uses is.
    pub any_slow: f64,
    /// Per stage.
    #[serde(skip)]
    stages: Vec<Slowable>,
}

/// What a slow device does not change in a stage.
#[derive(Clone, Debug, Default, PartialEq)]
struct Slowable {
    /// Of the forward, backward and once seconds those in which bytes are moved.
    moving_secs: [f64; 3],
    /// Seconds of what is done once per step.
    once_secs: f64,
}

/// Of the stages of one replica with what each does once, no figures yet; nothing where the text says nothing
/// of slow devices.
pub(super) fn of(facts: &Facts, prices: &[StagePrice], once_secs: &[f64]) -> Option<Straggling> {
    let stage = |(price, &once_secs): (&StagePrice, &f64)| {
        let [forward, backward, update] = price.moving_secs;
        let moving_secs = [forward, backward, update + once_secs - price.update_secs];
        Slowable { moving_secs, once_secs }
    };
    Some(Straggling {
        straggler: facts.header.straggler?.to_string(),
        even_secs: 0.0,
        any_slow: 0.0,
        stages: prices.iter().zip(once_secs).map(stage).collect(),
    })
}

/// A plan of such replicas as is to be expected. What it waits for slow devices is waiting.
pub(super) fn expected(mut plan: Plan, replicas: &[Plan]) -> Plan {
    let Some(mut it) = plan.straggling.take() else { return plan };
    it.even_secs = plan.time_secs;
    let n_devices = replicas.iter().flat_map(group_sizes).sum();
    it.any_slow = said(&it).any_of(n_devices);
    let schedule = plan.schedule.parse().expect("as it was written");
    plan.time_secs = expected_secs(&it, replicas, schedule);
    plan.breakdown.bubble_secs += plan.time_secs - it.even_secs;
    plan.straggling = Some(it);
    plan
}

/// Seconds of a step of such replicas by a schedule: the longest pipeline, then what takes longest once.
pub(super) fn expected_secs(it: &Straggling, replicas: &[Plan], schedule: Schedule) -> f64 {
    let straggler = said(it);
    let sizes: Vec<Vec<usize>> = replicas.iter().map(group_sizes).collect();
    let mut known: Vec<BTreeMap<Vec<bool>, [f64; 2]>> = vec![BTreeMap::new(); replicas.len()];
    straggler.expected(&sizes.concat(), |is_slow| {
        let (mut rest, mut longest) = (is_slow, [0.0; 2]);
        for (at, plan) in replicas.iter().enumerate() {
            let (own, others) = rest.split_at(sizes[at].len());
            let secs = known[at].entry(own.to_vec()).or_insert_with(|| secs(plan, straggler, own, schedule));
            longest = [f64::max(longest[0], secs[0]), f64::max(longest[1], secs[1])];
            rest = others;
        }
        longest[0] + longest[1]
    })
}

fn said(it: &Straggling) -> Straggler {
    it.straggler.parse().expect("as it was read")
}

/// Devices of each group.
fn group_sizes(plan: &Plan) -> Vec<usize> {
    let mut sizes = BTreeMap::new();
    for (at, stage) in plan.stages.iter().enumerate() {
        sizes.insert(stage.group.unwrap_or(at), stage.devices[1] + 1 - stage.devices[0]);
    }
    sizes.into_values().collect()
}

/// Seconds of one replica's pipeline, and of what it does once, where these groups are slow.
fn secs(plan: &Plan, straggler: Straggler, is_slow: &[bool], schedule: Schedule) -> [f64; 2] {
    let stages = plan.straggling.as_ref().map_or(&[][..], |it| &it.stages);
    let (mut pipeline, mut once_secs) = (plan.pipeline(), vec![0.0; is_slow.len()]);
    for (at, stage) in stages.iter().enumerate() {
        let group = plan.stages[at].group.unwrap_or(at);
        let [forward, backward, once] = stage.moving_secs;
        if is_slow[group] {
            slow_down(&mut pipeline, at, straggler, [forward, backward]);
            once_secs[group] += straggler.slowed_secs(stage.once_secs, once);
        } else {
            once_secs[group] += stage.once_secs;
        }
    }
    [pipeline.step_secs(schedule), once_secs.into_iter().fold(0.0, f64::max)]
}

fn slow_down(pipeline: &mut Pipeline, stage: usize, straggler: Straggler, moving_secs: [f64; 2]) {
    let [forward, backward] = moving_secs;
    pipeline.forward_secs[stage] = straggler.slowed_secs(pipeline.forward_secs[stage], forward);
    let before = pipeline.backward_secs[stage];
    pipeline.backward_secs[stage] = straggler.slowed_secs(before, backward);
    if before > 0.0 {
        pipeline.weight_secs[stage] *= pipeline.backward_secs[stage] / before;
    }
}

#[cfg(test)]
mod tests {
    use crate::report::Plan;
    use crate::testing::staged;
    use phzc_cost::{Cluster, Schedule};

    /// Two microbatches through two stages of a device each, of unlike work.
    fn plan(straggler: &str) -> Plan {
        let lines = [
            ("x = f32[1024,1024] parameter(0)", "fwd", 0),
            ("a = f32[1024,1024] tanh(x)", "fwd", 0),
            ("b = f32[1024,1024] dot(a, a), lhs_contracting_dims={1}, rhs_contracting_dims={0}", "fwd", 1),
            ("ROOT c = f32[1024,1024] tanh(b)", "fwd", 1),
        ];
        let noted =
            if straggler.is_empty() { String::new() } else { format!(r#","straggler":"{straggler}""#) };
        let plan = format!(r#"{{"n_microbatches":2{noted}}}"#);
        let module = staged("", "0:;1:", &plan, &lines);
        super::super::plan(&module, &Cluster::named("a100-8").expect("a cluster")).expect("legal")
    }

    #[test]
    fn a_step_is_expected_to_take_the_mean_over_which_stages_are_slow() {
        let (even, all_slow) = (plan(""), plan("2x@100%"));
        assert_eq!(even.straggling, None);
        // All kernels take twice as long, what is sent takes no longer.
        let mut slow = even.pipeline();
        slow.forward_secs.iter_mut().chain(&mut slow.backward_secs).for_each(|secs| *secs *= 2.0);
        let secs = slow.step_secs(Schedule::OneFOneB) + even.once_secs;
        assert!((all_slow.time_secs / secs - 1.0).abs() < 1e-9, "{} {secs}", all_slow.time_secs);
        let it = all_slow.straggling.as_ref().expect("said");
        assert_eq!((it.even_secs, it.any_slow), (even.time_secs, 1.0));
        let waited_secs = all_slow.breakdown.bubble_secs - even.breakdown.bubble_secs;
        assert!((waited_secs - (all_slow.time_secs - even.time_secs)).abs() < 1e-12);
        let half = plan("2x@50%");
        assert!(even.time_secs < half.time_secs && half.time_secs < all_slow.time_secs);
        assert_eq!(half.straggling.expect("said").any_slow, 0.75);
    }

    #[test]
    fn none_is_slow_with_no_probability() {
        assert!((plan("3x@0%").time_secs - plan("").time_secs).abs() < 1e-12);
    }

    #[test]
    fn another_schedule_is_expected_too() {
        let (it, even) = (plan("2x@100%"), plan(""));
        let (gpipe, without) = ("gpipe".parse().expect("one"), even.secs_by("gpipe".parse().expect("one")));
        assert!(it.secs_by(gpipe) > without);
        let by = it.by(gpipe, &[]);
        assert_eq!((by.time_secs, by.straggling.expect("said").even_secs), (it.secs_by(gpipe), without));
    }
}
