//! A lower bound of makespans from the work of a kind of cores between two moments.
//!
//! Operators that start no earlier than `a` and have at least `b` cycles after them run within `a` and the
//! makespan less `b`, in which the cores of their kind have to do all of their work. This is the bound of one
//! machine with heads and tails (Carlier 1982), with the whole chip as the machine.

use super::Instance;

/// No schedule takes fewer cycles, given by operator: the cycles before it and after it at least, and
/// whether it runs on all cores where that is decided.
pub(super) fn work_cycles(
    instance: &Instance,
    before: &[f64],
    after: &[f64],
    on_all: impl Fn(usize) -> Option<bool>,
) -> f64 {
    let cores = [instance.n_tensor, instance.n_vector];
    let of_kind = |kind: usize| {
        let own = (0..before.len()).filter(move |at| instance.ops[*at].needs()[kind] > 0);
        own.map(|at| (before[at], after[at], chip_cycles(instance, at, cores[kind], on_all(at)))).collect()
    };
    [0, 1].map(of_kind).into_iter().map(one_machine).fold(0.0, f64::max)
}

/// Cycles for which an operator takes all cores of a kind, or as many core cycles as that.
fn chip_cycles(instance: &Instance, at: usize, n_cores: usize, on_all: Option<bool>) -> f64 {
    let op = &instance.ops[at];
    let [one, all] = [op.one_core_cycles / n_cores as f64, op.all_cores_cycles];
    match on_all {
        Some(true) => all,
        Some(false) => one,
        None => one.min(all),
    }
}

/// The largest `a + work + b` over sets of operators `(before, after, work)`.
fn one_machine(mut ops: Vec<(f64, f64, f64)>) -> f64 {
    ops.sort_by(|x, y| y.0.total_cmp(&x.0));
    let mut tails: Vec<f64> = ops.iter().map(|op| op.1).collect();
    tails.sort_by(f64::total_cmp);
    tails.dedup();
    let mut bound: f64 = 0.0;
    for tail in tails {
        let mut work = 0.0;
        for (before, _, own) in ops.iter().filter(|op| op.1 >= tail) {
            work += own;
            bound = bound.max(before + work + tail);
        }
    }
    bound
}
