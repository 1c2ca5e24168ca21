//! Plans by the whole price, and interleaved pipelines made of plans for 1F1B.
//!
//! A group of devices of an interleaved pipeline has several stages that do not lie next to each other, which
//! the search does not know. The groups of a plan that it found are given `v` stages each, cut anew so that
//! the slowest stage takes the least; then each group recomputes the operators that save the most bytes for
//! their time, all layers' alike, until it fits. That is tried, and nothing is proved by it.

use super::{Found, Limits, Space, best};
use phzc_cost::aceso::{Machine, OpChoice, PipelinePlan, PlanSchedule, StageChoice};
use phzc_cost::profile::OpProfile;

/// The plan that Aceso's cost takes for the best, which a search without regrouping may have passed over.
pub fn seed(machine: &Machine, space: &Space, found: &[Found]) -> Option<Found> {
    let limits = &space.limits;
    let is_allowed = limits.schedules.is_empty() || limits.schedules.contains(&PlanSchedule::OneFOneB);
    let measured = machine.tables.batches();
    let microbatches = space.microbatches.iter().copied().filter(|size| measured.contains(size)).collect();
    let groups: Vec<usize> = limits.groups.iter().copied().filter(|size| size.is_power_of_two()).collect();
    let is_allowed = is_allowed && groups.is_empty() == limits.groups.is_empty();
    let zero = limits.zero.first().copied().unwrap_or(0);
    let limits =
        Limits { groups, zero: vec![0], schedules: Vec::new(), gap: None, n_best: 1, ..limits.clone() };
    let acesos = Machine { own: None, ..machine.clone() };
    let mut plan =
        best(&acesos, &Space { microbatches, limits, ..space.clone() }).filter(|_| is_allowed)?.plan;
    for op in plan.stages.iter_mut().flat_map(|stage| &mut stage.ops) {
        op.zero = if op.data > 1 { zero } else { 0 };
    }
    let first = found.first()?;
    Some(Found { plan, ..first.clone() })
}

/// The found plans and interleaved ones made of them, the cheapest first; no interleaved one takes less than
/// `ideal_ms`.
pub fn by_price(
    machine: &Machine,
    space: &Space,
    found: Vec<Found>,
    seed: Option<Found>,
    ideal_ms: f64,
) -> Vec<Found> {
    let price = |plan: &PipelinePlan| {
        machine.price(plan).filter(|cost| cost.mib <= machine.limit_mib).map_or(f64::INFINITY, |cost| cost.ms)
    };
    let wanted = &space.limits.schedules;
    let mut all: Vec<(f64, Option<usize>, Found)> = Vec::new();
    for (at, found) in found.into_iter().enumerate() {
        for n_chunks in space.chunks().filter(|_| found.plan.schedule == PlanSchedule::OneFOneB) {
            if let Some(plan) = interleaved(machine, space, &found.plan, n_chunks) {
                all.push((price(&plan), None, Found { plan, bound_ms: ideal_ms, ..found.clone() }));
            }
        }
        if wanted.is_empty() || wanted.contains(&found.plan.schedule) {
            all.push((price(&found.plan), Some(at), found));
        }
    }
    all.extend(seed.map(|seed| (price(&seed.plan), None, seed)));
    all.retain(|(ms, _, _)| ms.is_finite());
    all.sort_by(|a, b| a.0.total_cmp(&b.0));
    let mut known: Vec<Kind> = Vec::new();
    all.retain(|(_, _, found)| {
        let kind = kind(&found.plan);
        let is_new = !known.contains(&kind);
        known.push(kind);
        is_new
    });
    with_bounds(all)
}

/// What plans differ in: microbatch, schedule and the devices of each stage.
type Kind = (u32, PlanSchedule, Vec<usize>);

fn kind(plan: &PipelinePlan) -> Kind {
    (plan.microbatch, plan.schedule, plan.stages.iter().map(|stage| stage.n_devices).collect())
}

/// What was proved with the first plans left out holds only for plans behind all of them.
fn with_bounds(all: Vec<(f64, Option<usize>, Found)>) -> Vec<Found> {
    let bounds: Vec<(Option<usize>, f64)> = all.iter().map(|(_, at, found)| (*at, found.bound_ms)).collect();
    let bound_of = |wanted: usize| bounds.iter().find(|(at, _)| *at == Some(wanted)).map(|(_, ms)| *ms);
    let mut first_left = 0;
    let mut done: Vec<usize> = Vec::new();
    let bounded = |(_, at, found): (f64, Option<usize>, Found)| {
        let Some(at) = at else { return found };
        while done.contains(&first_left) {
            first_left += 1;
        }
        done.push(at);
        Found { bound_ms: bound_of(first_left).unwrap_or(found.bound_ms), ..found }
    };
    all.into_iter().map(bounded).collect()
}

/// The groups of a plan with `n_chunks` stages each; `None` where that cannot be, or nothing makes it fit.
fn interleaved(
    machine: &Machine,
    space: &Space,
    plan: &PipelinePlan,
    n_chunks: usize,
) -> Option<PipelinePlan> {
    let n_groups = plan.stages.len();
    let n_microbatches = machine.n_microbatches(plan.microbatch) as usize;
    let n_stages = n_groups * n_chunks;
    if n_groups < 2 || !n_microbatches.is_multiple_of(n_groups) || n_stages > machine.chain.len() {
        return None;
    }
    let choices: Vec<OpChoice> =
        plan.stages.iter().map(|stage| OpChoice { recompute: false, ..stage.ops[0] }).collect();
    let groups = Groups { machine, plan, choices };
    let ends = groups.ends(n_stages)?;
    let mut start = 0;
    let stage = |(at, end): (usize, usize)| {
        let group = at % n_groups;
        let ops = (start..end).map(|op| groups.choice(group, op)).collect();
        let stage = StageChoice { start, n_devices: plan.stages[group].n_devices, ops };
        start = end;
        stage
    };
    let stages = ends.into_iter().enumerate().map(stage).collect();
    let schedule = PlanSchedule::Interleaved(n_chunks);
    let mut made = PipelinePlan { microbatch: plan.microbatch, schedule, stages };
    (0..n_groups).all(|group| fit(machine, space, &mut made, group)).then_some(made)
}

/// The groups of devices of a plan.
struct Groups<'a> {
    machine: &'a Machine,
    plan: &'a PipelinePlan,
    /// Per group: how it runs operators that it does not have in the plan.
    choices: Vec<OpChoice>,
}

impl Groups<'_> {
    fn choice(&self, group: usize, op: usize) -> OpChoice {
        let stage = &self.plan.stages[group];
        let own = op.checked_sub(stage.start).and_then(|at| stage.ops.get(at));
        own.map_or(OpChoice { algo: 0, ..self.choices[group] }, |own| OpChoice { recompute: false, ..*own })
    }

    fn ms(&self, group: usize, op: usize) -> Option<f64> {
        let choice = self.choice(group, op);
        let rows = self.machine.tables.rows.get(&choice.split(self.plan.microbatch)?)?;
        Some(rows[self.machine.chain.rows[op]].both_ms())
    }

    /// Per operator what those before it take on a group; all of them at the end.
    fn sums_ms(&self, group: usize) -> Option<Vec<f64>> {
        let mut sums = vec![0.0];
        for op in 0..self.machine.chain.len() {
            sums.push(sums[op] + self.ms(group, op)?);
        }
        Some(sums)
    }

    /// The ends of as many stages, the groups in turn, of which the slowest takes the least.
    fn ends(&self, n_stages: usize) -> Option<Vec<usize>> {
        let (n_groups, n_ops) = (self.plan.stages.len(), self.machine.chain.len());
        let sums: Vec<Vec<f64>> = (0..n_groups).map(|group| self.sums_ms(group)).collect::<Option<_>>()?;
        let ends_under = |cap: f64| {
            let (mut start, mut ends, mut is_within) = (0, Vec::new(), true);
            for stage in 0..n_stages {
                let sums = &sums[stage % n_groups];
                let end = sums.partition_point(|&ms| ms <= sums[start] + cap).saturating_sub(1);
                let end = end.max(start + 1).min(n_ops - (n_stages - 1 - stage));
                is_within &= sums[end] - sums[start] <= cap;
                ends.push(end);
                start = end;
            }
            (is_within && start == n_ops).then_some(ends)
        };
        let (mut low, mut high) = (0.0, sums.iter().map(|sums| sums[n_ops]).fold(0.0, f64::max));
        for _ in 0..N_HALVINGS {
            let middle = 0.5 * (low + high);
            match ends_under(middle) {
                Some(_) => high = middle,
                None => low = middle,
            }
        }
        ends_under(high)
    }
}

/// How often the slowest stage's time is halved in.
const N_HALVINGS: usize = 40;

/// Recomputes operators of a group until its devices hold it; whether they do.
fn fit(machine: &Machine, space: &Space, plan: &mut PipelinePlan, group: usize) -> bool {
    let fits = |plan: &PipelinePlan| {
        machine.price_stage(plan, group).is_some_and(|cost| cost.mib <= machine.limit_mib)
    };
    if fits(plan) || space.limits.keeps_all {
        return fits(plan);
    }
    for row in by_ratio(machine, plan, group) {
        let before = plan.clone();
        mark(machine, plan, group, row, usize::MAX);
        if !fits(plan) {
            continue;
        }
        let (mut low, mut high) = (0, machine.chain.len());
        while high - low > 1 {
            let middle = (low + high) / 2;
            let mut tried = before.clone();
            mark(machine, &mut tried, group, row, middle);
            match fits(&tried) {
                true => (high, *plan) = (middle, tried),
                false => low = middle,
            }
        }
        return true;
    }
    false
}

/// The tables' rows of which an operator is recomputed with the one after it, the cheapest bytes first.
fn by_ratio(machine: &Machine, plan: &PipelinePlan, group: usize) -> Vec<usize> {
    let choice = plan.stages[group].ops[0];
    let rows = choice.split(plan.microbatch).and_then(|split| machine.tables.rows.get(&split));
    let Some(rows) = rows else { return Vec::new() };
    let ratio = |row: usize| {
        let pair: &[OpProfile] = &rows[row..row + 2];
        (pair[0].forward_ms + pair[1].forward_ms) / pair[0].activation_mib
    };
    let saves = |row: &usize| rows[*row].activation_mib > 0.0;
    let mut order: Vec<usize> = (0..rows.len().saturating_sub(1)).filter(saves).collect();
    order.sort_by(|&a, &b| ratio(a).total_cmp(&ratio(b)));
    order
}

/// Recomputes the first `most` operators of a row, each with the one after it.
fn mark(machine: &Machine, plan: &mut PipelinePlan, group: usize, row: usize, most: usize) {
    let (n_groups, last) = (plan.n_groups(), machine.chain.len() - 1);
    let mut n_marked = 0;
    for stage in plan.stages.iter_mut().skip(group).step_by(n_groups) {
        for at in 0..stage.ops.len().saturating_sub(1) {
            let op = stage.start + at;
            if machine.chain.rows[op] == row && n_marked < most && op > 0 && op + 1 < last {
                (stage.ops[at].recompute, stage.ops[at + 1].recompute) = (true, true);
                n_marked += 1;
            }
        }
    }
}

#[cfg(test)]
mod tests;
