//! List scheduling: operators in an order, each as early as possible, and a local search over the order and
//! over who runs on all cores.

use super::{Instance, Schedule};

/// A short schedule: the best of a hill climb that changes one operator at a time.
pub(super) fn improved(instance: &Instance) -> Schedule {
    let n = instance.ops.len();
    let mut priorities = instance.tails();
    priorities.iter_mut().zip(&instance.ops).for_each(|(tail, op)| *tail += op.least_cycles());
    let bound_cycles = instance.bound_cycles();
    let starts = [false, true].map(|on_all| {
        let on_all_cores = instance.ops.iter().map(|op| on_all && op.all_cores_cycles < op.one_core_cycles);
        place(instance, &priorities, on_all_cores.collect(), bound_cycles)
    });
    let [one, all] = starts;
    let mut best = if all.cycles < one.cycles { all } else { one };
    let mut is_better = true;
    while is_better && !best.is_optimal() {
        let before = best.cycles;
        for at in 0..n {
            let mut on_all_cores = best.on_all_cores.clone();
            on_all_cores[at] = !on_all_cores[at];
            keep(&mut best, place(instance, &priorities, on_all_cores, bound_cycles));
            for factor in [0.0, 2.0] {
                let mut moved = priorities.clone();
                moved[at] *= factor;
                let on_all_cores = best.on_all_cores.clone();
                if keep(&mut best, place(instance, &moved, on_all_cores, bound_cycles)) {
                    priorities = moved;
                }
            }
        }
        is_better = best.cycles < before;
    }
    best
}

fn keep(best: &mut Schedule, new: Schedule) -> bool {
    let is_better = new.cycles < best.cycles;
    if is_better {
        *best = new;
    }
    is_better
}

/// Places operators, the highest priority of those whose predecessors are placed first, each at the
/// earliest time at which there are cores.
pub(super) fn place(
    instance: &Instance,
    priorities: &[f64],
    on_all_cores: Vec<bool>,
    bound_cycles: f64,
) -> Schedule {
    let n = instance.ops.len();
    let mut schedule = Schedule { starts: vec![f64::NAN; n], on_all_cores, cycles: 0.0, bound_cycles };
    let mut left: Vec<usize> = instance.graph.sorted().to_vec();
    while !left.is_empty() {
        let is_ready = |at: usize| !left.iter().any(|other| instance.graph.precedes(*other, at));
        let ready = (0..left.len()).filter(|index| is_ready(left[*index]));
        let first = ready.max_by(|a, b| priorities[left[*a]].total_cmp(&priorities[left[*b]]).then(b.cmp(a)));
        // A graph without cycles always has an operator whose predecessors are placed.
        let at = left.remove(first.unwrap_or(0));
        schedule.starts[at] = earliest(instance, &mut schedule, at);
        schedule.cycles = schedule.cycles.max(end(instance, &schedule, at));
    }
    schedule
}

/// The earliest start of an operator beside those that have one.
fn earliest(instance: &Instance, schedule: &mut Schedule, at: usize) -> f64 {
    let before = (0..instance.ops.len()).filter(|other| instance.graph.precedes(*other, at));
    let mut start = before.map(|other| end(instance, schedule, other)).fold(0.0, f64::max);
    loop {
        schedule.starts[at] = start;
        match overload(instance, schedule, at) {
            Some(until) => start = until,
            None => return start,
        }
    }
}

/// The first end of an operator that has to end before this one can start, if there are not enough cores.
///
/// Operators without a start are left out: their start is no number, so that they overlap with none.
pub(super) fn overload(instance: &Instance, schedule: &Schedule, at: usize) -> Option<f64> {
    let (start, stop) = (schedule.starts[at], end(instance, schedule, at));
    let meets = |other: &usize| {
        *other != at && schedule.starts[*other] < stop && start < end(instance, schedule, *other)
    };
    let others: Vec<usize> = (0..instance.ops.len()).filter(meets).collect();
    let moments = others.iter().map(|other| schedule.starts[*other].max(start));
    let crowded = moments.map(|moment| running(instance, schedule, &others, moment));
    let crowded = crowded.filter(|running| !is_within(instance, schedule, running, at));
    let ends = crowded.flatten().map(|other| end(instance, schedule, other));
    ends.reduce(f64::min)
}

/// Those of `others` that run at a moment.
fn running(instance: &Instance, schedule: &Schedule, others: &[usize], moment: f64) -> Vec<usize> {
    let is_running = |at: &&usize| schedule.starts[**at] <= moment && moment < end(instance, schedule, **at);
    others.iter().filter(is_running).copied().collect()
}

/// Whether there are cores for an operator beside others.
fn is_within(instance: &Instance, schedule: &Schedule, others: &[usize], at: usize) -> bool {
    let is_alone = others.is_empty();
    let is_exclusive = schedule.on_all_cores[at] || others.iter().any(|other| schedule.on_all_cores[*other]);
    let needed =
        |kind: usize| others.iter().chain([&at]).map(|at| instance.ops[*at].needs()[kind]).sum::<usize>();
    is_alone || !is_exclusive && needed(0) <= instance.n_tensor && needed(1) <= instance.n_vector
}

pub(super) fn end(instance: &Instance, schedule: &Schedule, at: usize) -> f64 {
    schedule.starts[at] + instance.ops[at].cycles(schedule.on_all_cores[at])
}

/// Operators that run at once and are one more than the cores of a kind, if there are any.
pub(super) fn crowd(instance: &Instance, schedule: &Schedule) -> Option<Vec<usize>> {
    let everyone: Vec<usize> = (0..instance.ops.len()).collect();
    schedule.starts.iter().find_map(|moment| {
        let running = running(instance, schedule, &everyone, *moment);
        [instance.n_tensor, instance.n_vector].into_iter().enumerate().find_map(|(kind, n_cores)| {
            let own = running.iter().filter(|at| instance.ops[**at].needs()[kind] > 0);
            let crowd: Vec<usize> = own.copied().take(n_cores + 1).collect();
            (crowd.len() > n_cores).then_some(crowd)
        })
    })
}
