//! Measured tables of single operators: what each takes under a split, and what collectives and links take.
//!
//! A table is keyed by operator, samples of a replica's microbatch, tensor-parallel degree and the dimension
//! that is split. Times are those of one microbatch on one device, the collectives of tensor parallelism
//! inside; sizes are per device. These are the columns of Aceso's profiler (`reference/aceso.md`, section 2);
//! milliseconds and MiB, as there, so that its figures and ours are the same numbers.

use std::collections::BTreeMap;

/// What one operator takes under one split.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct OpProfile {
    /// Milliseconds of the forward part.
    pub forward_ms: f64,
    /// Milliseconds of the backward part.
    pub backward_ms: f64,
    /// MiB that cross a cut before the operator: its input and every value that still lives.
    pub input_mib: f64,
    /// MiB that cross a cut after it.
    pub output_mib: f64,
    /// MiB of parameters.
    pub weight_mib: f64,
    /// MiB of parameters, gradients and the optimizer's state; 0 in a table, which does not know them.
    pub state_mib: f64,
    /// MiB that its backward part reads, for one microbatch.
    pub activation_mib: f64,
    /// MiB that the allocator took beyond them in the forward part.
    pub forward_reserved_mib: f64,
    /// MiB that it took in the backward part.
    pub backward_reserved_mib: f64,
}

impl OpProfile {
    /// Milliseconds of both parts.
    pub fn both_ms(&self) -> f64 {
        self.forward_ms + self.backward_ms
    }
}

/// How an operator is split.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct OpSplit {
    /// Samples of a replica's microbatch.
    pub batch: u32,
    /// Devices that share each sample.
    pub tensor: u32,
    /// Which dimension they split; 0 is the usual one.
    pub algo: u32,
}

/// The tables of one model on one machine.
#[derive(Clone, Debug, Default)]
pub struct OpTables {
    /// The distinct operators in order.
    pub names: Vec<String>,
    /// Per split a row per operator.
    pub rows: BTreeMap<OpSplit, Vec<OpProfile>>,
    /// Per number of devices: milliseconds of an all-gather by whole MiB that a device sends.
    pub all_gather_ms: BTreeMap<u32, BTreeMap<i64, f64>>,
    /// Per number of devices: milliseconds of an all-to-all by whole MiB that a device sends.
    pub all_to_all_ms: BTreeMap<u32, BTreeMap<i64, f64>>,
    /// Per number of devices: milliseconds of an all-reduce by whole MiB that are reduced.
    pub all_reduce_ms: BTreeMap<u32, BTreeMap<i64, f64>>,
    /// GiB/s of messages of 1, 2, 4, ... MiB within a node.
    pub near_gib_per_s: Vec<f64>,
    /// The same between nodes.
    pub far_gib_per_s: Vec<f64>,
}

/// Milliseconds of a collective that was not measured: no plan with it is the best.
const UNMEASURED_MS: f64 = 100_000.0;

impl OpTables {
    /// Milliseconds of a message as Aceso looks it up: one row below the message's size, and from the table's
    /// end for less than 1 MiB.
    pub fn send_ms(&self, mib: f64, is_far: bool) -> f64 {
        let table = if is_far { &self.far_gib_per_s } else { &self.near_gib_per_s };
        if mib == 0.0 || table.is_empty() {
            return 0.0;
        }
        let doublings = mib.log2().trunc() as i64;
        let row = if doublings >= 1 { doublings - 1 } else { doublings };
        let len = table.len() as i64;
        let row = if row < 0 { (len + row).max(0) } else { row.min(len - 1) };
        mib / table[row as usize]
    }

    /// Milliseconds of an all-gather as Aceso looks it up: at the size in whole MiB, or at one less.
    pub fn all_gather_ms(&self, n_devices: u32, mib: f64) -> f64 {
        looked_up_ms(self.all_gather_ms.get(&n_devices), mib)
    }

    /// The same of an all-to-all.
    pub fn all_to_all_ms(&self, n_devices: u32, mib: f64) -> f64 {
        looked_up_ms(self.all_to_all_ms.get(&n_devices), mib)
    }

    /// The splits that were measured for a replica's microbatch and a tensor-parallel degree, with their
    /// rows.
    pub fn splits(&self, batch: u32, tensor: u32) -> impl Iterator<Item = (u32, &Vec<OpProfile>)> {
        let wanted =
            move |(split, _): &(&OpSplit, &Vec<OpProfile>)| split.batch == batch && split.tensor == tensor;
        self.rows.iter().filter(wanted).map(|(split, rows)| (split.algo, rows))
    }

    /// The numbers of samples of a replica's microbatch that were measured.
    pub fn batches(&self) -> Vec<u32> {
        let mut batches: Vec<u32> = self.rows.keys().map(|split| split.batch).collect();
        batches.dedup();
        batches
    }
}

fn looked_up_ms(table: Option<&BTreeMap<i64, f64>>, mib: f64) -> f64 {
    let size = mib.round_ties_even() as i64;
    let found = table.and_then(|table| table.get(&size).or_else(|| table.get(&(size - 1))));
    found.copied().unwrap_or(UNMEASURED_MS)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tables() -> OpTables {
        let far_gib_per_s = vec![1.0, 2.0, 4.0];
        let sizes = BTreeMap::from([(8, 0.5), (10, 0.7)]);
        OpTables {
            near_gib_per_s: vec![10.0, 20.0, 40.0],
            far_gib_per_s,
            all_gather_ms: BTreeMap::from([(2, sizes)]),
            ..OpTables::default()
        }
    }

    #[test]
    fn a_message_is_priced_one_row_below_its_size_and_a_small_one_from_the_tables_end() {
        assert_eq!(tables().send_ms(2.0, false), 2.0 / 10.0);
        assert_eq!(tables().send_ms(8.0, true), 8.0 / 4.0);
        assert_eq!(tables().send_ms(0.5, false), 0.5 / 40.0);
        assert_eq!(tables().send_ms(0.0, true), 0.0);
    }

    #[test]
    fn messages_beyond_the_table_and_without_one() {
        assert_eq!(tables().send_ms(1.0, false), 1.0 / 10.0);
        assert_eq!(tables().send_ms(1024.0, false), 1024.0 / 40.0);
        assert_eq!(tables().send_ms(2.0_f64.powi(-9), false), 2.0_f64.powi(-9) / 10.0);
        assert_eq!(OpTables::default().send_ms(8.0, true), 0.0);
    }

    #[test]
    fn splits_are_those_of_one_microbatch_and_one_degree() {
        let row = OpProfile { forward_ms: 3.0, backward_ms: 4.0, ..OpProfile::default() };
        let mut tables = OpTables::default();
        for (batch, tensor, algo) in [(1, 2, 0), (1, 2, 1), (1, 4, 2), (2, 2, 3)] {
            tables.rows.insert(OpSplit { batch, tensor, algo }, vec![row]);
        }
        assert_eq!(tables.splits(1, 2).map(|(algo, _)| algo).collect::<Vec<_>>(), [0, 1]);
        assert_eq!(tables.splits(1, 2).map(|(_, rows)| rows[0].both_ms()).sum::<f64>(), 14.0);
        assert_eq!(tables.batches(), [1, 2]);
    }

    #[test]
    fn an_all_gather_is_found_at_its_whole_size_or_one_less_and_else_forbidden() {
        assert_eq!(tables().all_gather_ms(2, 8.4), 0.5);
        assert_eq!(tables().all_gather_ms(2, 10.6), 0.7);
        assert_eq!(tables().all_gather_ms(2, 20.0), UNMEASURED_MS);
        assert_eq!(tables().all_gather_ms(4, 8.0), UNMEASURED_MS);
    }
}
