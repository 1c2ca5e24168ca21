//! Which nodes to choose anew together: such that share costs, from a few places where memory is scarce.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use super::super::memory::Memory;
use super::super::random::Random;
use super::base::{Base, Part};

/// Places that a part grows from, at most.
const N_SEEDS: usize = 4;

/// The nodes' neighbors, and where to grow parts from.
pub(super) struct Neighborhoods {
    /// Per node: its pairs, with the other node.
    near: Vec<Vec<(u32, u32)>>,
    /// Per time at which memory is scarce: the nodes that hold some.
    scarce: Vec<Vec<u32>>,
    /// Nodes with more than one option.
    open: Vec<u32>,
    random: Random,
}

impl Neighborhoods {
    /// `prices` are those of a byte, per time.
    pub fn new(base: &Base, memory: &Memory, prices: &[f64], sizes: &[usize]) -> Self {
        let mut near = vec![Vec::new(); sizes.len()];
        for (pair, [a, b]) in (0..).zip(base.pairs()) {
            near[a as usize].push((pair, b));
            near[b as usize].push((pair, a));
        }
        let times = (0..prices.len() as u32).filter(|&time| prices[time as usize] > 0.0);
        let holds = |time: u32| {
            let nodes = (0..).zip(&memory.held);
            let holds = nodes.filter(|(_, usages)| usages.iter().any(|usage| usage.alive.contains(&time)));
            holds.map(|(node, _)| node).collect()
        };
        let open = (0..sizes.len() as u32).filter(|&node| sizes[node as usize] > 1).collect();
        Self { near, scarce: times.map(holds).collect(), open, random: Random(0) }
    }

    /// Grows a part of `option` from some nodes to about `n_entries`, with the options no further from the
    /// bound than `room`; says whether it became the whole problem.
    pub fn part(&mut self, base: &Base, option: &[u32], room: f64, n_entries: usize) -> (Part, usize, bool) {
        let kept = option.iter().map(|&option| vec![option]).collect();
        let mut grown = Grown {
            part: Part { kept, room },
            is_in: vec![false; option.len()],
            n_entries: 0,
            queue: BinaryHeap::new(),
        };
        let seeds = self.seeds();
        (0..).zip(seeds).for_each(|(order, seed)| grown.queue.push(Reverse((0, order, seed))));
        let mut order = N_SEEDS as u32;
        while grown.n_entries < n_entries {
            let next = grown.queue.pop().map(|Reverse((_, _, node))| node);
            let Some(node) =
                next.or_else(|| self.open.iter().copied().find(|&node| !grown.is_in[node as usize]))
            else {
                return (grown.part, grown.n_entries, true);
            };
            if std::mem::replace(&mut grown.is_in[node as usize], true) {
                continue;
            }
            grown.part.kept[node as usize] = base.near(node as usize, option[node as usize], room);
            let near = &self.near[node as usize];
            for &(pair, other) in near {
                grown.n_entries += base.n_entries(pair as usize, &grown.part);
                order += 1;
                // What many share comes last: its neighbors have little to do with each other.
                grown.queue.push(Reverse((near.len() as u32, order, other)));
            }
            grown.n_entries += grown.part.kept[node as usize].len();
        }
        (grown.part, grown.n_entries, false)
    }

    /// Nodes to grow from: some that hold memory when it is scarce, or any one.
    fn seeds(&mut self) -> Vec<u32> {
        let n_seeds = 1 + self.random.below(N_SEEDS);
        let time = self.random.below(1 + self.scarce.len());
        let from = self.scarce.get(time).cloned().filter(|nodes| !nodes.is_empty());
        let from = from.unwrap_or_else(|| self.open.clone());
        (0..n_seeds).map(|_| from[self.random.below(from.len())]).collect()
    }
}

/// A part under way.
struct Grown {
    part: Part,
    is_in: Vec<bool>,
    n_entries: usize,
    /// Nodes to take in, those with the fewest fellows first.
    queue: BinaryHeap<Reverse<(u32, u32, u32)>>,
}
