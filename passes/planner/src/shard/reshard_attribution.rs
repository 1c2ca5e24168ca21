//! What a choice pays for moving values, reading by reading: the costs of edges and stars, taken apart again.

use super::edges::FxMap;
use super::model::Model;
use super::reshard_cost::Source;
use super::sharding_request::Want;
use super::sharing;
use super::strategies::Strategy;
use phzc_analysis::blocks::BlockId;
use phzc_analysis::graph::{NodeId, TensorId};
use phzc_solver::choose::MAX_READERS;

/// What a choice pays for moving values, in seconds of one step.
pub(super) struct Paid {
    /// Per reading, in the order of [`Model::uses`]: seconds, and where the value was before; nothing for a
    /// reading that finds the value where another one has brought it.
    pub uses: Vec<(f64, Source)>,
    /// Per tensor: seconds of bringing it to where its readings find it.
    pub home: Vec<f64>,
}

/// A tensor under a choice: its maker's block, where readings find it once it is reduced, and the readings.
struct Read<'r> {
    tensor: TensorId,
    from: BlockId,
    settled: Source,
    uses: &'r [usize],
    strategies: &'r [Strategy],
}

impl Model<'_> {
    /// The readings of each tensor, as positions in [`Model::uses`].
    pub(super) fn readings(&self) -> FxMap<TensorId, Vec<usize>> {
        let mut readings: FxMap<TensorId, Vec<usize>> = FxMap::default();
        for (index, it) in self.uses.iter().enumerate() {
            readings.entry(it.tensor).or_default().push(index);
        }
        readings
    }

    /// What a choice of one strategy per block pays for moving values.
    pub(super) fn paid(&mut self, option: &[u32]) -> Paid {
        let chosen = self.menus.iter().zip(option);
        let strategies: Vec<Strategy> =
            chosen.map(|(menu, &option)| menu.strategies[option as usize]).collect();
        let mut paid =
            Paid { uses: vec![(0.0, Source::default()); self.uses.len()], home: self.home(&strategies) };
        for (tensor, uses) in self.readings() {
            let Some(from) = self.maker(tensor) else { continue };
            let settled = self.settled(tensor, &strategies[from as usize]);
            let it = Read { tensor, from, settled, uses: &uses, strategies: &strategies };
            match self.sums_elsewhere(tensor, &uses, &strategies) {
                true => self.pay_once(&it, &mut paid),
                false => self.pay_apart(&it, &mut paid),
            }
        }
        paid
    }

    /// The block that makes a tensor.
    pub(super) fn maker(&self, tensor: TensorId) -> Option<BlockId> {
        self.input.blocks.block_of[self.input.graph.tensors[tensor as usize].def as usize]
    }

    /// What a reading wants under a choice.
    pub(super) fn target(&self, index: usize, strategies: &[Strategy]) -> Want {
        let it = &self.uses[index];
        self.wanted(it, &strategies[it.block as usize])
    }

    /// Whether the sum of a tensor, if it is made partial, is done on the way to the one layout that all
    /// readings want.
    pub(super) fn sums_elsewhere(&self, tensor: TensorId, uses: &[usize], strategies: &[Strategy]) -> bool {
        let first = self.target(uses[0], strategies);
        self.may_sum_elsewhere(tensor, uses)
            && uses.iter().all(|&index| self.target(index, strategies) == first)
    }

    /// Whether all readings of a tensor are these, and could do its sum if they agreed.
    pub(super) fn may_sum_elsewhere(&self, tensor: TensorId, uses: &[usize]) -> bool {
        let at = tensor as usize;
        let is_star = (2..=MAX_READERS).contains(&uses.len()) && sharing::groups(self, uses).len() == 1;
        is_star
            && self.settles(tensor)
            && self.input.pinned[at].is_none()
            && self.n_readers[at] as usize == uses.len()
    }

    fn home(&mut self, strategies: &[Strategy]) -> Vec<f64> {
        let mut home = vec![0.0; self.input.graph.tensors.len()];
        for tensor in 0..home.len() as TensorId {
            if let Some(block) = self.maker(tensor).filter(|_| self.settles(tensor)) {
                home[tensor as usize] = self.settling_secs(tensor, &strategies[block as usize]);
            }
        }
        home
    }

    fn pay_once(&mut self, it: &Read, paid: &mut Paid) {
        let (index, at) = (it.uses[0], it.tensor as usize);
        let target = self.target(index, it.strategies);
        let made = self.made(it.tensor, &it.strategies[it.from as usize]);
        let [direct, apart] = [made, it.settled]
            .map(|source| self.moves_secs(self.trips(&self.uses[index]), it.tensor, source, target));
        if direct <= paid.home[at] + apart {
            paid.home[at] = 0.0;
            paid.uses[index] = (direct, made);
        } else {
            paid.uses[index] = (apart, it.settled);
        }
    }

    fn pay_apart(&mut self, it: &Read, paid: &mut Paid) {
        for group in sharing::groups(self, it.uses) {
            let mut brought: Vec<Want> = Vec::new();
            for index in group {
                let target = self.target(index, it.strategies);
                if !brought.contains(&target) {
                    brought.push(target);
                    let secs = self.moves_secs(self.trips(&self.uses[index]), it.tensor, it.settled, target);
                    paid.uses[index] = (secs, it.settled);
                }
            }
        }
    }

    /// Seconds to bring a node's results to where readings find them.
    pub(super) fn inside_secs(&mut self, node: NodeId, strategy: &Strategy) -> f64 {
        let results = self.input.graph.nodes[node as usize].results.clone();
        let settled: Vec<TensorId> = results.into_iter().filter(|&result| self.settles(result)).collect();
        settled.into_iter().map(|result| self.settling_secs(result, strategy)).sum()
    }
}
