//! phzc's own cost of measured operators: what Aceso's leaves out (`reference/aceso.md`, sections 3 and 14),
//! operator by operator.
//!
//! With `w` MiB of parameters on a device, `c` copies of them in its state, `d` replicas, `N` microbatches
//! and `r` the milliseconds that an all-reduce takes per MiB ([`OpTables::all_reduce_ms_per_mib`]), an
//! operator takes beside its measured time
//!
//! | term | milliseconds | how often |
//! |---|---|---|
//! | gradients' sums, ZeRO 0 and 1 (Rajbhandari et al., SC 2020, section 7) | `r w` | a step |
//! | ZeRO 2: gradients are reduced and scattered, parameters gathered | `r w / 2`, `r w / 2` | a microbatch, a step |
//! | ZeRO 3: the same, and parameters gathered for the forward and the backward part | `r w / 2`, `r w` | a microbatch |
//! | optimizer: every copy is read, all but the gradient written; from ZeRO 1 on a `d`-th of it | `(2 c - 1) w / rate` | a step |
//! | sum of a parameter's gradient that `m` stages share, in a pipeline | `2 (m - 1) / m w / link` | a step |
//!
//! Beside the backward part (`is_overlapped`) only that part of a reduction counts that its operator's own
//! backward part does not hide, and of a gather its forward part. What happens once a step is spread over its
//! microbatches, so that a stage's time for one is a sum over operators.

use super::layout::Change;
use super::{Machine, OpChoice};
use crate::profile::{OpProfile, OpTables};
use std::collections::BTreeMap;

/// What phzc's own cost needs to know beside the tables.
#[derive(Clone, Debug, PartialEq)]
pub struct Own {
    /// Whether gradients are reduced beside the backward part.
    pub is_overlapped: bool,
    /// MiB that the optimizer reads or writes in a millisecond.
    pub memory_mib_per_ms: f64,
    /// Operators of the chain that share one parameter.
    pub tied: Vec<usize>,
}

/// What operators of all stages of a step share.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Step {
    /// Samples of a microbatch over all replicas.
    pub microbatch: u32,
    /// Devices of the whole pipeline.
    pub n_devices: usize,
    /// Whether there are several stages.
    pub is_pipeline: bool,
}

/// The highest ZeRO stage.
pub const MAX_ZERO: u32 = 3;

impl Own {
    /// What an operator of `behind_ms` does not hide of a transfer.
    fn exposed_ms(&self, ms: f64, behind_ms: f64) -> f64 {
        if self.is_overlapped { (ms - behind_ms).max(0.0) } else { ms }
    }
}

impl Machine {
    /// What an operator takes under a choice: the measured row and the terms of the own cost, if that is
    /// asked for.
    pub fn adjusted(&self, op: usize, row: &OpProfile, choice: &OpChoice, step: &Step) -> OpProfile {
        let copies = self.state_copies;
        let Some(own) = &self.own else {
            return OpProfile { state_mib: row.weight_mib * copies, ..*row };
        };
        let n_microbatches = self.n_microbatches(step.microbatch);
        let half_ms = 0.5 * self.all_reduce_ms_per_mib(choice) * row.weight_mib;
        let reduce_ms = own.exposed_ms(half_ms, row.backward_ms);
        let gather_ms = own.exposed_ms(half_ms, row.forward_ms);
        let (mut step_ms, mut backward_ms, mut forward_ms) = (0.0, 0.0, 0.0);
        match choice.zero {
            0 => step_ms = own.exposed_ms(2.0 * half_ms, row.backward_ms),
            1 => step_ms = reduce_ms + gather_ms,
            2 => (backward_ms, step_ms) = (reduce_ms, gather_ms),
            _ => (forward_ms, backward_ms) = (gather_ms, own.exposed_ms(2.0 * half_ms, row.backward_ms)),
        }
        let share = |from: u32| if choice.zero >= from { 1.0 / f64::from(choice.data) } else { 1.0 };
        step_ms += (2.0 * copies - 1.0) * row.weight_mib * share(1) / own.memory_mib_per_ms;
        step_ms += self.tied_ms(own, op, row.weight_mib, step);
        // A gathered parameter, and a gradient before it is scattered, are there in full while their operator
        // runs.
        let whole = |from: u32| if choice.zero >= from && choice.data > 1 { row.weight_mib } else { 0.0 };
        OpProfile {
            forward_ms: row.forward_ms + forward_ms,
            backward_ms: row.backward_ms + backward_ms + step_ms / n_microbatches,
            state_mib: row.weight_mib * (share(3) + share(2) + (copies - 2.0).max(0.0) * share(1)),
            forward_reserved_mib: row.forward_reserved_mib + whole(3),
            backward_reserved_mib: row.backward_reserved_mib + whole(3) + whole(2),
            ..*row
        }
    }

    fn all_reduce_ms_per_mib(&self, choice: &OpChoice) -> f64 {
        let is_far = (choice.tensor * choice.data) as usize > self.devices_per_node;
        self.tables.all_reduce_ms_per_mib(choice.data, is_far)
    }

    fn tied_ms(&self, own: &Own, op: usize, weight_mib: f64, step: &Step) -> f64 {
        if !step.is_pipeline || !own.tied.contains(&op) {
            return 0.0;
        }
        let is_far = step.n_devices > self.devices_per_node;
        ring_share(own.tied.len() as u32) * weight_mib / self.tables.link_mib_per_ms(is_far)
    }

    /// Milliseconds of the transfer to the operator that a stage begins with.
    pub fn send_before_ms(&self, op: usize, mib: f64, is_far: bool) -> f64 {
        match self.own {
            Some(_) if op == 0 => 0.0,
            Some(_) => self.tables.transfer_ms(mib, is_far),
            None => self.tables.send_ms(mib, is_far),
        }
    }

    /// Milliseconds of the transfer, of gradients, to the operator that a stage ends with.
    pub fn send_after_ms(&self, op: usize, mib: f64, is_far: bool) -> f64 {
        match self.own {
            Some(_) if op + 1 == self.chain.len() => 0.0,
            Some(_) => self.tables.transfer_ms(mib, is_far),
            None => self.tables.send_ms(mib, is_far),
        }
    }

    /// Milliseconds of a change of layout: fewer parts are gathered forward, more of them have their
    /// gradients gathered, of which each device has its input.
    pub(super) fn own_change_ms(&self, change: Change, input_mib: f64) -> f64 {
        match change {
            Change::Gather(n) => self.tables.gather_ms(n, input_mib / f64::from(n)),
            Change::Scatter(n) => self.tables.gather_ms(n, input_mib),
            Change::Exchange(n) => 2.0 * self.tables.exchange_ms(n, input_mib),
        }
    }
}

/// MiB of `GiB/s` in a millisecond.
const MIB_PER_MS: f64 = 1.024;
/// Measured times from this on stand for what failed or was skipped.
const FAILED_MS: f64 = 1e5;

/// Bytes over a link by bytes of the message, in a ring all-reduce of `n` devices.
fn ring_share(n: u32) -> f64 {
    2.0 * f64::from(n.saturating_sub(1)) / f64::from(n.max(1))
}

impl OpTables {
    /// Milliseconds of a message: the bandwidth lies between those of the next smaller and larger size that
    /// was measured.
    pub fn transfer_ms(&self, mib: f64, is_far: bool) -> f64 {
        let rates = if is_far { &self.far_gib_per_s } else { &self.near_gib_per_s };
        let Some(last) = rates.len().checked_sub(1) else { return 0.0 };
        let doublings = mib.log2().clamp(0.0, last as f64);
        let row = doublings.floor() as usize;
        let rate = rates[row] + doublings.fract() * (rates[(row + 1).min(last)] - rates[row]);
        mib / (rate * MIB_PER_MS)
    }

    /// MiB of a large message in a millisecond.
    fn link_mib_per_ms(&self, is_far: bool) -> f64 {
        let rates = if is_far { &self.far_gib_per_s } else { &self.near_gib_per_s };
        rates.last().map_or(f64::INFINITY, |rate| rate * MIB_PER_MS)
    }

    /// Milliseconds of an all-gather of which each device has `piece_mib`; as a ring over the links where
    /// none was measured.
    pub fn gather_ms(&self, n_devices: u32, piece_mib: f64) -> f64 {
        let ring_ms = || f64::from(n_devices.saturating_sub(1)) * self.transfer_ms(piece_mib, false);
        between_ms(self.all_gather_ms.get(&n_devices), piece_mib).unwrap_or_else(ring_ms)
    }

    /// Milliseconds of an all-to-all of which each device has `piece_mib`; where none was measured each sends
    /// all but its own part over the links.
    fn exchange_ms(&self, n_devices: u32, piece_mib: f64) -> f64 {
        let sent_mib = piece_mib * (1.0 - 1.0 / f64::from(n_devices.max(1)));
        let measured = between_ms(self.all_to_all_ms.get(&n_devices), piece_mib);
        measured.unwrap_or_else(|| self.transfer_ms(sent_mib, false))
    }

    /// Milliseconds per MiB of a large all-reduce of so many devices: by the largest that was measured, else
    /// by twice the largest all-gather, else as a ring over the links, which it is between nodes.
    pub fn all_reduce_ms_per_mib(&self, n_devices: u32, is_far: bool) -> f64 {
        if n_devices < 2 {
            return 0.0;
        }
        let largest = |tables: &BTreeMap<u32, BTreeMap<i64, f64>>| -> Option<(f64, f64)> {
            let table = tables.get(&n_devices)?;
            let good = table.iter().rev().find(|(size, ms)| **size > 0 && **ms < FAILED_MS);
            good.map(|(size, ms)| (*size as f64, *ms))
        };
        let reduced = largest(&self.all_reduce_ms).map(|(mib, ms)| ms / mib);
        let gathered =
            || largest(&self.all_gather_ms).map(|(mib, ms)| 2.0 * ms / (mib * f64::from(n_devices)));
        let measured = if is_far { None } else { reduced.or_else(gathered) };
        measured.unwrap_or_else(|| ring_share(n_devices) / self.link_mib_per_ms(is_far))
    }
}

/// Milliseconds of a collective: between the measured sizes, by the last one's rate beyond them; `None` where
/// none was measured.
fn between_ms(table: Option<&BTreeMap<i64, f64>>, piece_mib: f64) -> Option<f64> {
    let measured = |(size, ms): (&i64, &f64)| (*size > 0 && *ms < FAILED_MS).then_some((*size as f64, *ms));
    let points: Vec<(f64, f64)> = table.into_iter().flatten().filter_map(measured).collect();
    let &(most_mib, most_ms) = points.last()?;
    if piece_mib >= most_mib {
        return Some(most_ms * piece_mib / most_mib);
    }
    let above = points.partition_point(|point| point.0 <= piece_mib);
    let (mib, ms) = points[above];
    let (low_mib, low_ms) = if above > 0 { points[above - 1] } else { (0.0, 0.0) };
    Some(low_ms + (ms - low_ms) * (piece_mib - low_mib) / (mib - low_mib))
}

#[cfg(test)]
mod tests;
