//! Phaze's placement, exactly: stages of a chain, tensor-parallel width and pipelines with the least seconds
//! per step.
//!
//! A stage has 1 device or the chain's width of them, so that the devices of `s` stages follow from how many
//! of them are wide. For each suffix of the chain, number of stages, and limit on the wide ones, the table
//! holds the least slowest stage; then every number of pipelines is tried with every first stage.
//! `reference/phaze.md`, section 5, has a table over all numbers of devices instead.

#[cfg(test)]
mod tests;

use phzc_cost::phaze::{Chain, Instance, Plan, PlanStage, StageCost};

/// Plans whose slowest stages differ by less, relatively, tie: sums over the same layers in another order do.
const TIE: f64 = 1e-12;
/// Sums may differ by less, relatively, from what they bound.
const ROUNDING: f64 = 1e-9;

/// The best plan, and its seconds per step; `None` where none fits.
///
/// Ties go to the narrowest width, then the fewest pipelines, then the shortest first stage, then the fewest
/// stages, then the shortest next stage, and so on.
pub fn best(instance: &Instance) -> Option<(Plan, f64)> {
    let mut best: Option<(Plan, f64)> = None;
    for at in 0..instance.chains.len() {
        let Some(plan) = Table::new(instance, at).best() else { continue };
        let secs = instance.price(&plan).expect("the table holds plans that fit");
        if best.as_ref().is_none_or(|(_, least_secs)| secs < *least_secs) {
            best = Some((plan, secs));
        }
    }
    best
}

/// The least slowest stages of the suffixes of one chain.
struct Table<'a> {
    instance: &'a Instance,
    chain_index: usize,
    chain: &'a Chain,
    /// Per first layer: stages by their length, as long as they fit.
    costs: Vec<Vec<StageCost>>,
    /// Per first layer of a suffix: its layers that are tensor-parallel.
    n_wide_layers: Vec<usize>,
    /// The most stages.
    max_stages: usize,
    /// Per first layer of a suffix and number of stages: seconds by the limit on wide stages, from
    /// [`Self::least_wide`] on.
    secs: Vec<Vec<Vec<f64>>>,
}

impl<'a> Table<'a> {
    fn new(instance: &'a Instance, chain_index: usize) -> Table<'a> {
        let chain = &instance.chains[chain_index];
        let n_layers = chain.layers.len();
        let mut n_wide_layers = vec![0; n_layers + 1];
        for at in (0..n_layers).rev() {
            let is_wide = chain.width > 1 && chain.layers[at].is_tensor_parallel;
            n_wide_layers[at] = n_wide_layers[at + 1] + usize::from(is_wide);
        }
        let costs = (0..n_layers).map(|start| stages_from(instance, chain, start)).collect();
        let max_stages = instance.n_devices.min(n_layers);
        let secs = vec![Vec::new(); n_layers + 1];
        let mut table = Table { instance, chain_index, chain, costs, n_wide_layers, max_stages, secs };
        table.secs[n_layers] = vec![vec![0.0]];
        for start in (1..n_layers).rev() {
            table.fill(start);
        }
        table
    }

    /// No fewer of `n_stages` stages of a suffix are wide: narrow stages have narrow layers.
    fn least_wide(&self, start: usize, n_stages: usize) -> usize {
        let n_narrow_layers = self.chain.layers.len() - start - self.n_wide_layers[start];
        n_stages.saturating_sub(n_narrow_layers)
    }

    fn fill(&mut self, start: usize) {
        let most = self.max_stages.min(self.chain.layers.len() - start);
        let mut rows = vec![Vec::new()];
        for n_stages in 1..=most {
            let widest = n_stages.min(self.n_wide_layers[start]);
            let limits = self.least_wide(start, n_stages)..=widest;
            rows.push(limits.map(|n_wide| self.least(start, n_stages, n_wide)).collect());
        }
        self.secs[start] = rows;
    }

    /// The least slowest stage of a suffix in `n_stages` stages, at most `n_wide` of them wide.
    fn least(&self, start: usize, n_stages: usize, n_wide: usize) -> f64 {
        let mut least = f64::INFINITY;
        for (cost, rest) in self.options(start, n_stages, n_wide) {
            if cost.compute_secs > least * (1.0 + ROUNDING) {
                break;
            }
            least = least.min(rest.max(cost.secs(self.instance.recompute, n_stages)));
        }
        least
    }

    /// The stages that a suffix can begin with, by length, each with the slowest of those after it.
    fn options(
        &self,
        start: usize,
        n_stages: usize,
        n_wide: usize,
    ) -> impl Iterator<Item = (&StageCost, f64)> {
        let fit = self.costs[start].iter().take_while(move |cost| cost.max_stages >= n_stages);
        fit.enumerate().map(move |(at, cost)| {
            let left = n_wide.checked_sub(usize::from(self.is_wide(cost)));
            let rest = left.map(|left| self.known(start + at + 1, n_stages - 1, left));
            (cost, rest.unwrap_or(f64::INFINITY))
        })
    }

    fn is_wide(&self, cost: &StageCost) -> bool {
        cost.n_devices > 1
    }

    /// An entry of the table; infinite where there is none.
    fn known(&self, start: usize, n_stages: usize, n_wide: usize) -> f64 {
        let row = self.secs[start].get(n_stages).filter(|row| !row.is_empty());
        let (Some(row), least) = (row, self.least_wide(start, n_stages)) else { return f64::INFINITY };
        let at = n_wide.checked_sub(least).map(|at| at.min(row.len() - 1));
        at.map_or(f64::INFINITY, |at| row[at])
    }

    /// How many of `n_stages` stages may be wide on so many devices.
    fn most_wide(&self, n_devices: usize, n_stages: usize) -> Option<usize> {
        let spare = n_devices.checked_sub(n_stages)?;
        Some(spare.checked_div(self.chain.width - 1).unwrap_or(n_stages).min(n_stages))
    }

    /// The best plan of this chain.
    fn best(&self) -> Option<Plan> {
        let mut best: Option<(f64, usize, usize, usize)> = None;
        for data_parallel in 1..=self.instance.n_devices.min(self.instance.n_microbatches) {
            let n_devices = self.instance.n_devices / data_parallel;
            for (at, cost) in self.costs[0].iter().enumerate() {
                for n_stages in 1..=cost.max_stages.min(self.max_stages).min(n_devices) {
                    let Some(slowest) = self.slowest(at + 1, cost, n_stages, n_devices) else { continue };
                    let bytes = cost.parameter_bytes;
                    let secs = self.instance.step_secs(slowest, n_stages, data_parallel, bytes);
                    let secs = secs + cost.update_secs;
                    if secs < best.map_or(f64::INFINITY, |(least, ..)| least) {
                        best = Some((secs, data_parallel, at + 1, n_stages));
                    }
                }
            }
        }
        best.map(|(_, data_parallel, end, n_stages)| self.plan(data_parallel, end, n_stages))
    }

    /// The slowest stage where the first one ends at `end`; `None` where no plan fits.
    fn slowest(&self, end: usize, cost: &StageCost, n_stages: usize, n_devices: usize) -> Option<f64> {
        let n_wide = self.most_wide(n_devices, n_stages)?.checked_sub(usize::from(self.is_wide(cost)))?;
        let rest = self.known(end, n_stages - 1, n_wide);
        let slowest = rest.max(cost.secs(self.instance.recompute, n_stages));
        slowest.is_finite().then_some(slowest)
    }

    /// The plan behind an entry.
    fn plan(&self, data_parallel: usize, first_end: usize, n_stages: usize) -> Plan {
        let n_devices = self.instance.n_devices / data_parallel;
        let most = self.most_wide(n_devices, n_stages).expect("an entry fits on its devices");
        let first = &self.costs[0][first_end - 1];
        let mut n_wide = most - usize::from(self.is_wide(first));
        let mut stages = vec![PlanStage { layers: 0..first_end, n_devices: first.n_devices }];
        let mut start = first_end;
        for left in (1..n_stages).rev() {
            let within = self.known(start, left, n_wide) * (1.0 + TIE);
            let is_as_good = |(cost, rest): &(&StageCost, f64)| {
                rest.max(cost.secs(self.instance.recompute, left)) <= within
            };
            let mut options = self.options(start, left, n_wide);
            let at = options.position(|option| is_as_good(&option)).expect("an entry came from an option");
            let cost = &self.costs[start][at];
            n_wide -= usize::from(self.is_wide(cost));
            stages.push(PlanStage { layers: start..start + at + 1, n_devices: cost.n_devices });
            start += at + 1;
        }
        Plan { chain: self.chain_index, data_parallel, stages }
    }
}

/// The stages that begin with a layer; what a device holds only grows with the stage.
fn stages_from(instance: &Instance, chain: &Chain, start: usize) -> Vec<StageCost> {
    let ends = start + 1..=chain.layers.len();
    ends.map(|end| instance.stage(chain, start..end)).take_while(|cost| cost.max_stages > 0).collect()
}
