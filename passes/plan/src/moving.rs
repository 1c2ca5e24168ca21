//! What moves between devices when one plan takes the place of another: the parts of parameters and optimizer
//! states that a device needs and did not hold.
//!
//! ```text
//! before: w split over devices 0 and 1; node 1 is lost     after: w whole on device 0: half of it is read again
//! ```
//!
//! A device keeps what it held. What it lacks comes from the nearest device that held it, of several the one
//! that has sent for the least time; what no device holds any more is read from a checkpoint. Devices send
//! and receive on all links at once, so that the time is that of the busiest device on its busiest link.

mod held;
mod roles;

use crate::derive::Facts;
use held::{Held, Tile, common, n_elements};
use phzc_cost::Cluster;
use phzc_ir::Module;
use std::collections::BTreeMap;

pub use roles::{Slot, slots};

/// A plan: its text, and what that says.
#[derive(Clone, Copy)]
pub struct Side<'a> {
    /// The text.
    pub module: &'a Module,
    /// Its facts.
    pub facts: &'a Facts,
}

/// What has to be moved before a new plan can go on where an old one stopped.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Moving {
    /// Per link, from the inside out: its name and the bytes that go over it.
    pub links: Vec<(String, f64)>,
    /// Bytes that devices need and no surviving device holds.
    pub unheld_bytes: f64,
    /// Seconds until the last device has what others send it.
    pub time_secs: f64,
    /// Per node of the new plan, the node of the cluster that takes its part.
    pub nodes: Vec<usize>,
}

impl Moving {
    /// Bytes on all links.
    pub fn bytes(&self) -> f64 {
        self.links.iter().fold(0.0, |sum, (_, bytes)| sum + bytes)
    }
}

/// What moves from one plan to another on a cluster whose nodes held the old plan's devices, or are empty.
/// Nodes take those parts of the new plan of whose states they hold most.
pub fn moving(old: Side, new: Side, slots: &[Slot], cluster: &Cluster) -> Moving {
    let held = Held::pairs(old, new);
    let nodes = roles::assigned(&held, slots);
    let was = roles::devices(slots, &nodes);
    let mut transfers =
        Transfers { cluster, busy: BTreeMap::new(), links: BTreeMap::new(), unheld_bytes: 0.0 };
    held.iter().for_each(|(before, after)| transfers.one(before.as_ref(), after, &was));
    let mut links: Vec<(String, (usize, f64))> = transfers.links.into_iter().collect();
    links.sort_by_key(|(_, (rank, _))| *rank);
    Moving {
        links: links.into_iter().map(|(name, (_, bytes))| (name, bytes)).collect(),
        unheld_bytes: transfers.unheld_bytes,
        time_secs: transfers.busy.into_values().fold(0.0, f64::max),
        nodes,
    }
}

/// Which way bytes go.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Way {
    In,
    Out,
}

/// What devices send each other.
struct Transfers<'a> {
    cluster: &'a Cluster,
    /// Seconds of each device on links of a rank.
    busy: BTreeMap<(usize, usize, Way), f64>,
    /// Per name of links, their lowest rank and the bytes.
    links: BTreeMap<String, (usize, f64)>,
    unheld_bytes: f64,
}

impl Transfers<'_> {
    /// One state: `was` has, per device of the new plan, the device of the old one that it was.
    fn one(&mut self, before: Option<&Held>, after: &Held, was: &[Option<usize>]) {
        let mut holders: BTreeMap<Tile, Vec<usize>> = BTreeMap::new();
        let tile = |device: usize| before?.tile((*was.get(device)?)?);
        for device in 0..was.len() {
            tile(device).into_iter().for_each(|tile| holders.entry(tile).or_default().push(device));
        }
        for device in after.devices() {
            let Some(needed) = after.tile(device) else { continue };
            let own = tile(device);
            let mut missing = n_elements(&needed) - own.as_ref().map_or(0.0, |own| common(own, &needed));
            for (other, from) in holders.iter().filter(|(other, _)| own.as_ref() != Some(*other)) {
                let part = common(other, &needed).min(missing);
                if part > 0.0 {
                    self.send(device, from, part * after.bytes_per_element);
                    missing -= part;
                }
            }
            self.unheld_bytes += missing * after.bytes_per_element;
        }
    }

    /// Sends bytes to a device from one of those that hold them.
    fn send(&mut self, device: usize, from: &[usize], bytes: f64) {
        let ranked = from.iter().filter_map(|&other| {
            let (rank, rate, _) = self.cluster.link(other, device)?;
            let busy = self.busy.get(&(other, rank, Way::Out)).copied().unwrap_or(0.0);
            Some((rank, busy, other, rate))
        });
        let nearest = ranked.min_by(|a, b| a.0.cmp(&b.0).then(a.1.total_cmp(&b.1)).then(a.2.cmp(&b.2)));
        let Some((rank, _, other, rate)) = nearest else {
            self.unheld_bytes += bytes;
            return;
        };
        let name = self.cluster.link(other, device).map_or("", |(_, _, name)| name).to_owned();
        let link = self.links.entry(name).or_insert((rank, 0.0));
        *link = (link.0.min(rank), link.1 + bytes);
        for end in [(other, rank, Way::Out), (device, rank, Way::In)] {
            *self.busy.entry(end).or_default() += bytes / rate;
        }
    }
}

#[cfg(test)]
mod tests;
