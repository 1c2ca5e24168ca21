//! Offers of nodes, links between zones and egress prices, as a fleet's file says them.

use super::file::{positive, within, wrong};
use phzc_cost::fasop::{Fleet, NodeKind, Rate, Zones};
use phzc_ir::Result;
use serde::Deserialize;
use std::collections::BTreeMap;

/// The most nodes of one kind.
const MAX_NODES: usize = 1024;

/// One offer: nodes of a device at a price in a zone.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Node {
    pub device: String,
    /// On demand, spot, reserved: told apart by name only.
    offer: Option<String>,
    zone: Option<String>,
    count: Count,
    between_bits_per_sec: RateText,
    inside_bits_per_sec: RateText,
    usd_per_hour: f64,
    memory_gib: f64,
    /// Part of the time in which a node is there.
    availability: Option<f64>,
    /// Of one device.
    watts: Option<f64>,
}

#[derive(Clone, Copy, Deserialize)]
#[serde(untagged, expecting = "expected a number of nodes, or the fewest and the most, such as `[0, 4]`")]
enum Count {
    One(usize),
    Range([usize; 2]),
}

/// Bits per second: one rate, or points of bytes of a message and its rate.
#[derive(Clone, Deserialize)]
#[serde(
    untagged,
    expecting = "expected bits per second, or points of bytes and rates, such as `[[65536, 20e9], [1e6, 120e9]]`"
)]
enum RateText {
    One(f64),
    Points(Vec<(f64, f64)>),
}

/// A link between two zones.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Link {
    zones: [String; 2],
    bits_per_sec: RateText,
}

impl Node {
    /// `A100`, `A100 spot`, `A100 spot in us-west1-b`.
    pub(super) fn name(&self) -> String {
        let offer = self.offer.iter().map(|offer| format!(" {offer}"));
        let zone = self.zone.iter().map(|zone| format!(" in {zone}"));
        offer.chain(zone).fold(self.device.clone(), |name, more| name + &more)
    }

    /// The least and the largest number of them.
    ///
    /// # Errors
    /// When the range is none.
    pub(super) fn counts(&self) -> Result<[usize; 2]> {
        let [least, most] = match self.count {
            Count::One(n) => [n, n],
            Count::Range(range) => range,
        };
        let is_fine = least <= most && most <= MAX_NODES;
        let found = format!("expected a number or a range up to {MAX_NODES}, found `[{least}, {most}]`");
        is_fine.then_some([least, most]).ok_or_else(|| wrong("count", &found))
    }

    fn kind(&self, zones: &[&str]) -> Result<NodeKind> {
        let availability = self.availability.unwrap_or(1.0);
        if !(availability > 0.0 && availability <= 1.0) {
            let what = format!("expected a part of the time above 0 and up to 1, found `{availability}`");
            return Err(wrong("availability", &what));
        }
        let own = self.zone.as_deref().unwrap_or_default();
        Ok(NodeKind {
            device: self.device.clone(),
            between_bits_per_sec: rate("between_bits_per_sec", &self.between_bits_per_sec)?,
            inside_bits_per_sec: rate("inside_bits_per_sec", &self.inside_bits_per_sec)?,
            usd_per_hour: positive("usd_per_hour", self.usd_per_hour)?,
            memory_gib: positive("memory_gib", self.memory_gib)?,
            availability,
            watts: self.watts.map_or(Ok(0.0), |watts| positive("watts", watts))?,
            zone: zones.iter().position(|zone| *zone == own).unwrap_or(0),
        })
    }
}

fn rate(key: &str, text: &RateText) -> Result<Rate> {
    match text {
        RateText::One(bits_per_sec) => positive(key, *bits_per_sec).map(Rate::from),
        RateText::Points(points) => Rate::curve(points.clone()).ok_or_else(|| {
            wrong(key, "expected points `[[bytes, bits per second], ...]`, positive and ascending in bytes")
        }),
    }
}

/// The nodes and what lies between them.
///
/// # Errors
/// At a number that cannot be, a zone that no node is in.
pub(super) fn read(
    per_node: usize,
    nodes: &[Node],
    links: &[Link],
    egress: &BTreeMap<String, BTreeMap<String, f64>>,
) -> Result<Fleet> {
    let mut names: Vec<&str> = Vec::new();
    for zone in nodes.iter().map(|node| node.zone.as_deref().unwrap_or_default()) {
        if !names.contains(&zone) {
            names.push(zone);
        }
    }
    let kinds: Result<Vec<NodeKind>> = nodes.iter().map(|node| node.kind(&names)).collect();
    let zones = zones(&names, links, egress)?;
    Ok(Fleet { kinds: kinds?, per_node: within("per_node", per_node, MAX_NODES)?, zones })
}

fn zones(names: &[&str], links: &[Link], egress: &BTreeMap<String, BTreeMap<String, f64>>) -> Result<Zones> {
    let place = |key: &str, name: &String| {
        let known = names.iter().position(|zone| zone == name);
        known.ok_or_else(|| wrong(key, &format!("no node is in zone `{name}`")))
    };
    let n = names.len();
    let (mut rates, mut usd_per_gb) = (vec![vec![None; n]; n], vec![vec![0.0; n]; n]);
    for link in links {
        let [a, b] = [place("links", &link.zones[0])?, place("links", &link.zones[1])?];
        let own = rate("bits_per_sec", &link.bits_per_sec)?;
        rates[a][b] = Some(own.clone());
        rates[b][a] = Some(own);
    }
    for (from, row) in egress {
        for (to, usd) in row {
            let [a, b] = [place("egress_usd_per_gb", from)?, place("egress_usd_per_gb", to)?];
            let is_fine = usd.is_finite() && *usd >= 0.0;
            let what = format!("expected dollars from 0 up, found `{usd}`");
            usd_per_gb[a][b] = if is_fine { *usd } else { return Err(wrong("egress_usd_per_gb", &what)) };
        }
    }
    Ok(Zones { rates, usd_per_gb })
}
