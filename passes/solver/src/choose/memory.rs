//! Memory over time: the times at which the limit may bind, and what each option holds on to then.

use std::collections::BTreeMap;
use std::ops::Range;

use super::Usage;

/// The times at which memory may be too little, in order.
#[derive(Clone, Debug, Default)]
pub(super) struct Memory {
    /// Per time: bytes left for what options need beyond the least of their node.
    pub room: Vec<f64>,
    /// Per node: what its options need beyond the least, when.
    pub held: Vec<Vec<Usage>>,
}

impl Memory {
    /// Of nodes with these usages, where no more than `limit` bytes may be held at any time.
    pub fn new(usages: &[Vec<Usage>], limit: f64) -> Self {
        let times = peaks(usages.iter().flatten());
        let at = |time: u32| times.partition_point(|&other| other < time) as u32;
        let row =
            |usage: &Usage| Usage { alive: at(usage.alive.start)..at(usage.alive.end), ..usage.clone() };
        let held = usages.iter().map(|usages| usages.iter().map(row).collect()).collect();
        let mut memory = Memory { room: vec![limit; times.len()], held };
        memory.subtract_least();
        memory.drop_slack();
        let implied = memory.implied();
        memory.keep(&implied.iter().map(|implied| !implied).collect::<Vec<bool>>());
        memory
    }

    /// The least of every usage is needed whatever is chosen.
    fn subtract_least(&mut self) {
        for usage in self.held.iter_mut().flatten() {
            let least = usage.bytes.iter().copied().fold(f64::INFINITY, f64::min);
            usage.bytes.iter_mut().for_each(|bytes| *bytes -= least);
            self.room[rows(&usage.alive)].iter_mut().for_each(|room| *room -= least);
        }
        self.join();
    }

    /// One usage per node and time; none of zero bytes.
    fn join(&mut self) {
        for usages in &mut self.held {
            let mut sums: BTreeMap<[u32; 2], Vec<f64>> = BTreeMap::new();
            for usage in usages
                .drain(..)
                .filter(|it| it.alive.start < it.alive.end && it.bytes.iter().any(|&bytes| bytes > 0.0))
            {
                let key = [usage.alive.start, usage.alive.end];
                match sums.get_mut(&key) {
                    Some(sum) => sum.iter_mut().zip(&usage.bytes).for_each(|(sum, bytes)| *sum += bytes),
                    None => drop(sums.insert(key, usage.bytes)),
                }
            }
            usages.extend(sums.into_iter().map(|([start, end], bytes)| Usage { alive: start..end, bytes }));
        }
    }

    /// Leaves out the times at which all fits whatever is chosen.
    fn drop_slack(&mut self) {
        let most = self.sum(|_, usage| usage.bytes.iter().copied().fold(0.0, f64::max));
        self.keep(&most.iter().zip(&self.room).map(|(most, room)| most > room).collect::<Vec<bool>>());
    }

    /// Goes on with some of the times.
    fn keep(&mut self, keep: &[bool]) {
        let mut before = vec![0];
        keep.iter().for_each(|&keep| before.push(before[before.len() - 1] + u32::from(keep)));
        for usage in self.held.iter_mut().flatten() {
            usage.alive = before[usage.alive.start as usize]..before[usage.alive.end as usize];
        }
        let mut keep = keep.iter();
        self.room.retain(|_| keep.next() == Some(&true));
        self.join();
    }

    /// Which times need not be looked at: what fits at a time near them fits then too.
    fn implied(&self) -> Vec<bool> {
        let mut changes: Vec<Vec<(u32, &[f64], f64)>> = vec![Vec::new(); self.room.len() + 1];
        for (node, usages) in (0..).zip(&self.held) {
            for usage in usages {
                changes[usage.alive.start as usize].push((node, &usage.bytes, 1.0));
                changes[usage.alive.end as usize].push((node, &usage.bytes, -1.0));
            }
        }
        let mut implied = vec![false; self.room.len()];
        let mut last = 0;
        let mut since: BTreeMap<u32, Vec<f64>> = BTreeMap::new();
        for time in 1..self.room.len() {
            for &(node, bytes, sign) in &changes[time] {
                let sums = since.entry(node).or_insert_with(|| vec![0.0; bytes.len()]);
                sums.iter_mut().zip(bytes).for_each(|(sum, bytes)| *sum += sign * bytes);
            }
            let more = self.room[time] - self.room[last];
            let most = |sign: f64| {
                since
                    .values()
                    .map(|sums| sums.iter().map(|sum| sign * sum).fold(f64::NEG_INFINITY, f64::max))
                    .sum::<f64>()
            };
            if most(1.0) <= more {
                implied[time] = true;
                continue;
            }
            implied[last] = most(-1.0) <= -more;
            last = time;
            since.clear();
        }
        implied
    }

    /// Per time: the bytes of all nodes together, as `bytes` has them for a node's usage.
    pub fn sum(&self, bytes: impl Fn(usize, &Usage) -> f64) -> Vec<f64> {
        let mut steps = vec![0.0; self.room.len() + 1];
        for (node, usages) in self.held.iter().enumerate() {
            for usage in usages {
                let bytes = bytes(node, usage);
                steps[usage.alive.start as usize] += bytes;
                steps[usage.alive.end as usize] -= bytes;
            }
        }
        let mut sum = 0.0;
        steps.pop();
        steps.iter_mut().for_each(|step| {
            sum += *step;
            *step = sum;
        });
        steps
    }

    /// Per node and option: what its bytes cost at a price per time; `sizes` are the nodes' option counts.
    pub fn priced(&self, prices: &[f64], sizes: &[usize]) -> Vec<Vec<f64>> {
        let mut sums = vec![0.0];
        prices.iter().for_each(|price| sums.push(sums[sums.len() - 1] + price));
        let of = |(usages, &size): (&Vec<Usage>, &usize)| {
            let mut costs = vec![0.0; size];
            for usage in usages {
                let price = sums[usage.alive.end as usize] - sums[usage.alive.start as usize];
                costs.iter_mut().zip(&usage.bytes).for_each(|(cost, bytes)| *cost += price * bytes);
            }
            costs
        };
        self.held.iter().zip(sizes).map(of).collect()
    }

    /// Per time: the bytes that a choice needs beyond the least.
    pub fn used(&self, option: &[u32]) -> Vec<f64> {
        self.sum(|node, usage| usage.bytes[option[node] as usize])
    }
}

/// A range of times as one of indices.
pub(super) fn rows(alive: &Range<u32>) -> Range<usize> {
    alive.start as usize..alive.end as usize
}

/// The times at which something ends to be alive right after something began: at every other time no more
/// is alive than at one of these.
fn peaks<'u>(usages: impl Iterator<Item = &'u Usage>) -> Vec<u32> {
    let usages = usages.filter(|usage| usage.alive.start < usage.alive.end);
    let mut events: Vec<(u32, bool)> =
        usages.flat_map(|usage| [(usage.alive.start, true), (usage.alive.end, false)]).collect();
    events.sort_unstable();
    let is_peak = |pair: &&[(u32, bool)]| pair[0].1 && !pair[1].1;
    events.windows(2).filter(is_peak).map(|pair| pair[0].0).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn usage(alive: Range<u32>, bytes: [f64; 2]) -> Usage {
        Usage { alive, bytes: bytes.to_vec() }
    }

    #[test]
    fn times_that_others_imply_are_left_out() {
        // At 3 more is held than at 0, and at 9 nothing that an option changes.
        let nodes = [vec![usage(0..5, [1.0, 4.0])], vec![usage(3..5, [2.0, 3.0]), usage(9..10, [2.0, 2.0])]];
        let memory = Memory::new(&nodes, 6.0);
        assert_eq!(memory.room, [3.0]);
        assert_eq!(memory.held, [[usage(0..1, [0.0, 3.0])], [usage(0..1, [0.0, 1.0])]]);
        assert_eq!(memory.used(&[1, 1]), [4.0]);
    }

    #[test]
    fn a_limit_that_never_binds_leaves_no_time() {
        let memory = Memory::new(&[vec![usage(0..5, [1.0, 4.0])]], 4.0);
        assert!(memory.room.is_empty() && memory.held == [[]]);
    }

    #[test]
    fn bytes_cost_the_prices_of_the_times_they_are_held() {
        let room = vec![1.0; 3];
        let memory = Memory { room, held: vec![vec![usage(0..2, [0.0, 2.0]), usage(2..3, [1.0, 0.0])]] };
        assert_eq!(memory.priced(&[1.0, 2.0, 5.0], &[2]), [[5.0, 6.0]]);
    }
}
