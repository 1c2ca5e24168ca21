//! The time of collectives: alpha-beta formulas over the levels of the network.
//!
//! A group of `n` devices has `c[i]` members in one domain under level `i`: `c[0] = 1`, `c[1]` members in one
//! node, and so on up to `n`. With `a[i]` the latency (s) of a hop of level `i`, `w[i]` the bandwidth
//! (bytes/s) that one device reaches in it and `B` the message (bytes), every algorithm has a latency part
//! `L` and a transfer part `T`:
//!
//! | collective, algorithm | `L` (s) | `T` (s) |
//! |---|---|---|
//! | all-gather, reduce-scatter: ring | `sum_i a[i] (n/c[i] - n/c[i+1])` | `(n-1)/n B / w` |
//! | all-reduce: ring | twice that of the all-gather | `2 (n-1)/n B / w` |
//! | all-reduce: tree | `2 (a[0] (c[1]-1) + sum_i a[i] log2(c[i+1]/c[i]))` | `2 B / w` |
//! | all-to-all: direct | `3 (a[top] + sum_i a[i] (c[i+1]-c[i]) / 8)` | `max_i (n-c[i])/n B / w[i]` |
//! | permute, send | `a[top]` | `B / w[top]` |
//!
//! where `w = min_i c[i] w[i]`: all members of a domain carry the ring's traffic out of it side by side, each
//! over its own share of the links. Other groups use the other shares, so a group with one member per node
//! sees one share and is that much slower: this is contention. (Mist's all-gathers over 2 nodes of 8 A100
//! show it: bus bandwidth 1.38, 2.77, 5.71 and 11.2 GB/s with 1, 2, 4 and 8 members per node;
//! `data/published/collectives_measured.csv`.) Steps and transfer volumes are those of NCCL's own model
//! (NVIDIA/nccl `src/graph/tuning.cc`) and of Alpa (OSDI'22).
//!
//! `time = launch + L + T + 2 sqrt(L T)`: a message is sent in chunks, few chunks waste bandwidth while the
//! pipeline fills and many waste latency; this is the time with the best chunk size (Sanders, Speck & Träff,
//! "Two-tree algorithms", Parallel Computing 2009). It stands in for NCCL's three protocols, whose latency
//! and bandwidth rise together. Median errors on collectives_measured.csv, 0.5 KB to 17 GB: `phzc validate`,
//! docs/benchmarks.md.

use crate::cluster::Cluster;
use crate::network::Level;

/// Messages that a device has in flight at once in an all-to-all.
///
/// Fitted to NCCL 2.27-2.29 all-to-alls of 2 to 8 devices, whose latency hardly grows with the group.
const MESSAGES_IN_FLIGHT: f64 = 8.0;

/// Hops of latency that a message of an all-to-all costs: sender and receiver agree, then it is sent.
///
/// Fitted to the same: with one, messages of 32 KB to 1 MB are 35 % too fast on A100, H100, H200 and B200.
const HANDSHAKES: f64 = 3.0;

/// What a group of devices does together, with the names that HLO gives it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Collective {
    /// Everyone gets the sum.
    AllReduce,
    /// Everyone gets every part.
    AllGather,
    /// Everyone gets its part of the sum.
    ReduceScatter,
    /// Everyone sends each other a part.
    AllToAll,
    /// Everyone sends to one and receives from one.
    Permute,
}

/// A mesh axis over the devices of a row-major mesh: `size` devices, each `stride` after the one before.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct AxisGroup {
    /// Devices in one group.
    pub size: usize,
    /// Distance between neighbours, in devices.
    pub stride: usize,
}

impl Collective {
    /// Every collective.
    pub const ALL: [Collective; 5] = [
        Collective::AllReduce,
        Collective::AllGather,
        Collective::ReduceScatter,
        Collective::AllToAll,
        Collective::Permute,
    ];

    /// HLO's name.
    pub fn as_str(self) -> &'static str {
        match self {
            Collective::AllReduce => "all-reduce",
            Collective::AllGather => "all-gather",
            Collective::ReduceScatter => "reduce-scatter",
            Collective::AllToAll => "all-to-all",
            Collective::Permute => "collective-permute",
        }
    }
}

impl std::fmt::Display for Collective {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.as_str())
    }
}

impl std::str::FromStr for Collective {
    type Err = phzc_ir::Diagnostic;
    fn from_str(text: &str) -> phzc_ir::Result<Collective> {
        let found = Collective::ALL.into_iter().find(|kind| kind.as_str() == text);
        found.ok_or_else(|| phzc_ir::Diagnostic::error(format!("expected a collective, found `{text}`")))
    }
}

impl Cluster {
    /// Seconds of one collective over each group of one mesh axis, all groups at once.
    ///
    /// `bytes` is what one device holds: the buffer of an all-reduce, all-to-all or permute, the *output* of
    /// an all-gather, the *input* of a reduce-scatter.
    pub fn collective_secs(&self, kind: Collective, bytes: f64, group: AxisGroup) -> f64 {
        self.collective_over_secs(kind, bytes, &[group])
    }

    /// Seconds of one collective over the groups that several mesh axes span together.
    ///
    /// The axes make one flat group, as one NCCL communicator would: its members per domain are the product
    /// of those of its axes, so `data=2` over nodes times `model=4` in a node is a ring of 8 with 4 members
    /// per node.
    pub fn collective_over_secs(&self, kind: Collective, bytes: f64, groups: &[AxisGroup]) -> f64 {
        let members = Members::new(self, groups);
        if members.total() <= 1.0 || bytes <= 0.0 {
            return 0.0;
        }
        self.accelerator.collective_launch_secs + members.secs(kind, bytes)
    }

    /// Seconds to send `bytes` from one device to one other, in its node or in another.
    pub fn send_secs(&self, bytes: f64, crosses_nodes: bool) -> f64 {
        if bytes <= 0.0 {
            return 0.0;
        }
        let Some(level) = self.levels().get(usize::from(crosses_nodes)).or(self.levels().first()) else {
            return 0.0;
        };
        self.accelerator.collective_launch_secs + level.send_secs(bytes)
    }
}

impl Level {
    /// Seconds of a message from one device to one other, launches left out.
    pub(crate) fn send_secs(&self, bytes: f64) -> f64 {
        let pair = self.reached_bytes_per_sec(2.0, self.devices as f64);
        pipelined(self.latency_secs, bytes / pair)
    }
}

/// How the members of a group sit in the network.
struct Members<'a> {
    levels: &'a [Level],
    /// `counts[i]`: members in one domain under level `i`; one more entry than levels, the last is all
    /// members.
    counts: Vec<f64>,
    /// Devices in one domain under level `i`.
    domains: Vec<f64>,
}

impl<'a> Members<'a> {
    fn new(cluster: &'a Cluster, groups: &[AxisGroup]) -> Members<'a> {
        let levels = cluster.levels();
        let total: f64 = groups.iter().map(|group| group.size as f64).product();
        let inside = |level: &Level| match level.devices {
            devices if devices >= cluster.n_devices() => total,
            devices => groups.iter().map(|group| group.members_in(devices) as f64).product(),
        };
        let counts = [1.0].into_iter().chain(levels.iter().map(inside)).collect();
        let domains = [1.0].into_iter().chain(levels.iter().map(|level| level.devices as f64)).collect();
        Members { levels, counts, domains }
    }

    fn total(&self) -> f64 {
        self.counts.last().copied().unwrap_or(1.0)
    }

    fn secs(&self, kind: Collective, bytes: f64) -> f64 {
        let n = self.total();
        let (hops, sent) = (self.ring_latency_secs(), (n - 1.0) / n * bytes);
        match kind {
            Collective::AllGather | Collective::ReduceScatter => {
                pipelined(hops, sent / self.ring_bytes_per_sec())
            }
            Collective::AllReduce => {
                let ring = pipelined(2.0 * hops, 2.0 * sent / self.all_reduce_bytes_per_sec());
                ring.min(pipelined(self.tree_latency_secs(), 2.0 * bytes / self.ring_bytes_per_sec()))
            }
            Collective::AllToAll => pipelined(self.scatter_latency_secs(), self.scatter_secs(bytes)),
            Collective::Permute => self.shift_secs(bytes),
        }
    }

    /// The levels that the group uses: index, level, members under it, members in it.
    fn used(&self) -> impl Iterator<Item = (usize, &'a Level, f64, f64)> {
        let steps = self.levels.iter().zip(self.counts.windows(2)).enumerate();
        steps
            .map(|(i, (level, pair))| (i, level, pair[0], pair[1]))
            .filter(|&(.., under, within)| within > under)
    }

    /// Bandwidth of one member into level `i` when `within` members in units of `under` talk, in bytes per
    /// second.
    fn member_bytes_per_sec(&self, i: usize, level: &Level, units: f64) -> f64 {
        level.reached_bytes_per_sec(units, self.domains[i + 1] / self.domains[i])
    }

    fn ring_bytes_per_sec(&self) -> f64 {
        let speeds = self
            .used()
            .map(|(i, level, under, within)| under * self.member_bytes_per_sec(i, level, within / under));
        speeds.fold(f64::INFINITY, f64::min)
    }

    /// The ring's bandwidth, or that of a switch that reduces if the group is all that the switch joins.
    fn all_reduce_bytes_per_sec(&self) -> f64 {
        let whole = |i: usize| self.total() == self.domains[i + 1];
        let mut used = self.used();
        match (used.next(), used.next()) {
            (Some((i, level, ..)), None) if whole(i) => {
                level.all_reduce_bytes_per_sec.unwrap_or(0.0).max(self.ring_bytes_per_sec())
            }
            _ => self.ring_bytes_per_sec(),
        }
    }

    fn ring_latency_secs(&self) -> f64 {
        let n = self.total();
        self.used().map(|(_, level, under, within)| level.latency_secs * (n / under - n / within)).sum()
    }

    /// Up and down: a chain inside the innermost domain, a binary tree over the domains of each further
    /// level.
    fn tree_latency_secs(&self) -> f64 {
        let hops = |i, units: f64| if i == 0 { units - 1.0 } else { units.log2().ceil() };
        2.0 * self
            .used()
            .map(|(i, level, under, within)| level.latency_secs * hops(i, within / under))
            .sum::<f64>()
    }

    fn scatter_latency_secs(&self) -> f64 {
        let messages = self.used().map(|(_, level, under, within)| level.latency_secs * (within - under));
        HANDSHAKES * (self.top_latency_secs() + messages.sum::<f64>() / MESSAGES_IN_FLIGHT)
    }

    /// Each member sends `1/n` of its buffer to each other; what leaves a domain goes over the member's own
    /// share.
    fn scatter_secs(&self, bytes: f64) -> f64 {
        let n = self.total();
        let secs = self.used().map(|(i, level, under, within)| {
            bytes * (n - under) / n / self.member_bytes_per_sec(i, level, within / under)
        });
        secs.fold(0.0, f64::max)
    }

    fn shift_secs(&self, bytes: f64) -> f64 {
        let Some((i, level, ..)) = self.used().last() else { return 0.0 };
        pipelined(level.latency_secs, bytes / self.member_bytes_per_sec(i, level, 2.0))
    }

    fn top_latency_secs(&self) -> f64 {
        self.used().last().map_or(0.0, |(_, level, ..)| level.latency_secs)
    }
}

impl AxisGroup {
    /// Members that every domain of `domain` consecutive devices holds, if it holds any of the group.
    ///
    /// Where groups do not line up with domains this is the least over the domains that a group touches.
    fn members_in(self, domain: usize) -> usize {
        let extent = self.size.saturating_mul(self.stride);
        (gcd(extent, domain) / self.stride.max(1)).clamp(1, self.size.max(1))
    }
}

/// Seconds of a transfer in chunks; see the module.
fn pipelined(latency_secs: f64, transfer_secs: f64) -> f64 {
    latency_secs + transfer_secs + 2.0 * (latency_secs * transfer_secs).sqrt()
}

fn gcd(a: usize, b: usize) -> usize {
    if b == 0 { a } else { gcd(b, a % b) }
}

#[cfg(test)]
mod tests;
