//! Unlike devices: a cluster of several kinds of nodes, numbered one kind after the other.
//!
//! ```text
//! a100-8x4+t4-8x2     devices 0 to 31 are A100s, 32 to 47 are T4s
//! ```
//!
//! A [`Cluster`] is its own first kind: who asks for its devices, network or memory hears of those. What
//! plans or prices stages on all kinds asks for [`Cluster::kinds`].

use super::egress::{self, Egress};
use super::{Cluster, ClusterFile};
use crate::accelerator::base;
use crate::network::Level;
use crate::read::{MAX_COUNT, of_table, parse};
use phzc_ir::{Diagnostic, Result, Span};
use serde::Deserialize;
use toml::{Spanned, Table, Value};

/// What joins the names of kinds.
const JOINT: char = '+';

/// The most kinds of nodes.
const MAX_KINDS: usize = 32;

/// Further kinds of nodes, and what joins them.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Others {
    kinds: Vec<Cluster>,
    /// The network between nodes of different kinds; if none is named, the slower one of the two kinds'.
    between: Option<Level>,
    /// Where prices come from, and of when.
    pub(super) price_basis: Option<String>,
    /// What bytes between zones cost.
    pub(super) egress: Egress,
}

/// A cluster of several kinds as its TOML file says it.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct KindsFile {
    name: String,
    nodes: Vec<Spanned<Table>>,
    between: Option<Level>,
    price_basis: Option<String>,
    #[serde(default)]
    egress_usd_per_gb: Egress,
}

/// The cluster of a name with several kinds; `None` where it has one.
pub(super) fn named(name: &str) -> Option<Result<Cluster>> {
    let parts: Vec<&str> = name.split(JOINT).map(str::trim).collect();
    (parts.len() > 1).then(|| {
        if parts.iter().any(|part| part.is_empty()) {
            let error = Diagnostic::error(format!("`{name}` names no nodes on one side of a `{JOINT}`"));
            return Err(error.help("join kinds of nodes so: `a100-8x2+v100-8`"));
        }
        let kinds = parts.iter().map(|part| Cluster::named(part)).collect::<Result<_>>()?;
        joined(parts.join("+"), kinds, None)
    })
}

/// The cluster of a file with `[[nodes]]`; `None` where it has none.
pub(super) fn from_toml(text: &str) -> Option<Result<Cluster>> {
    let table: Table = text.parse().ok()?;
    if table.get("nodes")?.is_table() {
        let error = Diagnostic::error("`[nodes]` is one table, and kinds of nodes are several");
        return Some(Err(error.help("write two brackets, `[[nodes]]`, a table for each kind")));
    }
    table.get("nodes")?.as_array()?;
    Some(parse(text).and_then(|file: KindsFile| {
        let kinds = file.nodes.into_iter().enumerate().map(|(at, table)| {
            let range = table.span();
            let place = Span::new(range.start, range.end);
            offered(table.into_inner()).map_err(|error| within(at, error).at(place))
        });
        let mut all = joined(file.name, kinds.collect::<Result<_>>()?, file.between)?;
        let basis = file.price_basis.filter(|basis| !basis.trim().is_empty());
        let of_nodes = all.kinds().any(|kind| kind.offer.usd_per_hour.is_some());
        if basis.is_none() && (of_nodes || !file.egress_usd_per_gb.is_empty()) {
            let error =
                Diagnostic::error("there are prices, and `price_basis` does not say where these come from");
            return Err(error.help("name one source of all prices, and its date"));
        }
        egress::check(&file.egress_usd_per_gb, &all.kinds().map(Cluster::zone).collect::<Vec<_>>())?;
        (all.others.price_basis, all.others.egress) = (basis, file.egress_usd_per_gb);
        Ok(all)
    }))
}

/// The same kinds with other numbers of nodes.
pub(super) fn again(whole: &Cluster, parts: Vec<Cluster>) -> Result<Cluster> {
    let between = whole.others.between.clone();
    let mut all = joined(whole.name.clone(), parts, between)?;
    all.others.price_basis.clone_from(&whole.others.price_basis);
    all.others.egress.clone_from(&whole.others.egress);
    Ok(all)
}

/// One kind with its price and its numbers.
fn offered(mut table: Table) -> Result<Cluster> {
    let (offer, most) = super::offer::taken(&mut table)?;
    let is_offer = offer.is_any() || most.is_some();
    let kind = kind(table)?;
    if most.is_some() && kind.n_nodes() > 1 {
        let message = format!("`count` and `{}` both say how many nodes there are", kind.name);
        return Err(Diagnostic::error(message).help("name one node, as in `a100-8`, or leave `count` out"));
    }
    if is_offer && kind.is_unlike() {
        let error = Diagnostic::error(
            "`count`, `usd_per_hour`, `availability`, `watts` and `zone` are of one kind of nodes",
        );
        return Err(error.help("give each kind a table of its own"));
    }
    let Some(most) = most else { return Ok(Cluster { offer, ..kind }) };
    let per_node = kind.per_node();
    Ok(Cluster { offer, ..kind.with_counts(per_node, most)? })
}

/// One kind: `cluster = "a100-8x4"`, or what a cluster file says, the name left out.
fn kind(mut table: Table) -> Result<Cluster> {
    if let Some(name) = table.get("cluster").and_then(Value::as_str).filter(|_| table.len() == 1) {
        return Cluster::named(name);
    }
    if let Some(cluster) = table.get("cluster") {
        let other = table.keys().find(|key| *key != "cluster");
        return Err(Diagnostic::error(match other {
            Some(other) => format!("unknown key `{other}` beside `cluster`"),
            None => format!("`cluster`: expected a name, found `{cluster}`"),
        }));
    }
    if table.is_empty() {
        return Err(Diagnostic::error("neither `cluster` nor `accelerator` says which devices there are"));
    }
    base::complete(&mut table)?;
    let device = table.get("accelerator");
    let device = device.and_then(|it| it.as_str().or_else(|| it.get("name")?.as_str())).unwrap_or("nodes");
    let name = Value::String(device.to_owned());
    table.entry("name").or_insert(name);
    of_table::<ClusterFile>(table).and_then(Cluster::of_file)
}

fn within(at: usize, error: Diagnostic) -> Diagnostic {
    let message = format!("`[[nodes]]` {}: {}", at + 1, error.message);
    let help = "each has `cluster`, a name, or the keys of a cluster file, and `count`, `usd_per_hour`, `availability`, `watts`, `zone`";
    Diagnostic { message, help: error.help.or_else(|| Some(help.to_owned())), ..error }
}

fn joined(name: String, parts: Vec<Cluster>, between: Option<Level>) -> Result<Cluster> {
    let mut kinds: Vec<Cluster> = parts.iter().flat_map(|it| it.kinds().map(Cluster::alone)).collect();
    let n_devices = kinds.iter().map(Cluster::n_devices).sum::<usize>();
    if !(1..=MAX_KINDS).contains(&kinds.len()) || n_devices > MAX_COUNT {
        let most = format!("expected 1 to {MAX_KINDS} kinds of nodes with at most {MAX_COUNT} devices");
        return Err(Diagnostic::error(format!("{most}, found {} with {n_devices}", kinds.len())));
    }
    let alone = kinds.iter().find(|kind| kind.levels().len() < 2).filter(|_| between.is_none());
    if let Some(alone) = alone.filter(|_| kinds.len() > 1) {
        let message = format!("no network joins the nodes of `{}` to others", alone.name);
        return Err(Diagnostic::error(message).help("describe it in `[between]`, with the keys of a level"));
    }
    // Adapters are those of a node.
    let per_node = kinds.iter().map(Cluster::per_node).max().unwrap_or(1);
    let between = between.map(|level| Level { devices: n_devices, ..level.of_one_device(per_node) });
    let first = kinds.remove(0);
    Ok(Cluster { name, others: Others { kinds, between, ..Others::default() }, ..first })
}

impl Cluster {
    /// All kinds of nodes, this one first.
    pub fn kinds(&self) -> impl Iterator<Item = &Cluster> {
        std::iter::once(self).chain(&self.others.kinds)
    }

    /// Whether there are nodes of other kinds.
    pub fn is_unlike(&self) -> bool {
        !self.others.kinds.is_empty()
    }

    /// Devices of all kinds.
    pub fn n_all_devices(&self) -> usize {
        self.kinds().map(Cluster::n_devices).sum()
    }

    /// The number of the first device of each kind.
    pub fn first_devices(&self) -> Vec<usize> {
        let sums = self.kinds().scan(0, |sum, kind| Some(std::mem::replace(sum, *sum + kind.n_devices())));
        sums.collect()
    }

    /// The place among the kinds of the one that has a device; of a device that no kind has, the last.
    pub fn kind_of(&self, device: usize) -> usize {
        self.first_devices().partition_point(|&first| first <= device).max(1) - 1
    }

    /// The nodes among which a device is.
    pub fn around(&self, device: usize) -> &Cluster {
        self.kinds().nth(self.kind_of(device)).unwrap_or(self)
    }

    /// Its own kind alone.
    #[must_use]
    pub fn alone(&self) -> Cluster {
        Cluster { others: Others::default(), ..self.clone() }
    }

    /// The link between two devices: its rank from the inside out, the bytes per second that it reaches, its
    /// name. None of a device and itself.
    pub fn link(&self, a: usize, b: usize) -> Option<(usize, f64, &str)> {
        let (own, other) = (self.around(a), self.around(b));
        if self.kind_of(a) == self.kind_of(b) {
            let first = self.first_devices()[self.kind_of(a)];
            let is_inside = |level: &Level| (a - first) / level.devices == (b - first) / level.devices;
            let rank = own.levels().iter().position(is_inside).filter(|_| a != b)?;
            let level = &own.levels()[rank];
            return Some((rank, reached(level), &level.name));
        }
        let ends = [own, other].into_iter().filter_map(|kind| kind.levels().last());
        let slower = ends.min_by(|x, y| reached(x).total_cmp(&reached(y)));
        let level = self.others.between.as_ref().or(slower)?;
        Some((self.kinds().map(|kind| kind.levels().len()).max()?, reached(level), &level.name))
    }

    /// Seconds to send `bytes` from one device to one other, of two neighboring groups of devices of which
    /// the first and the last are given.
    pub fn send_between_secs(&self, bytes: f64, [own, next]: [[usize; 2]; 2]) -> f64 {
        let [a, b] = [own, next].map(|devices| self.kind_of(devices[0]));
        let first = self.first_devices()[a];
        let (kind, other) = (self.around(own[0]), self.around(next[0]));
        if a == b {
            let [low, high] = [own[0].min(next[0]), own[1].max(next[1])].map(|device| device - first);
            return kind.send_secs(bytes, low / kind.per_node() != high / kind.per_node());
        }
        match &self.others.between {
            Some(level) if bytes > 0.0 => {
                let launch_secs = [kind, other].map(|it| it.accelerator.collective_launch_secs);
                launch_secs[0].max(launch_secs[1]) + level.send_secs(bytes)
            }
            _ => kind.send_secs(bytes, true).max(other.send_secs(bytes, true)),
        }
    }
}

/// Bytes per second of one device.
fn reached(level: &Level) -> f64 {
    level.bytes_per_sec * level.efficiency
}

#[cfg(test)]
mod tests {
    use super::*;

    fn named(name: &str) -> Cluster {
        Cluster::named(name).expect("legal names")
    }

    #[test]
    fn nothing_is_no_kind() {
        for name in ["a100-8+", "+a100-8", "a100-8++t4-8"] {
            let error = Cluster::named(name).expect_err("no kind");
            assert_eq!(error.message, format!("`{name}` names no nodes on one side of a `+`"));
        }
    }

    #[test]
    fn kinds_are_numbered_one_after_the_other() {
        let cluster = named("a100-8x4+v100-8+t4-8x2");
        let names: Vec<&str> = cluster.kinds().map(|kind| &*kind.accelerator.name).collect();
        assert_eq!(names, ["a100-80", "v100-32", "t4"]);
        assert_eq!((cluster.n_devices(), cluster.n_all_devices()), (32, 56));
        assert_eq!(cluster.first_devices(), [0, 32, 40]);
        assert_eq!([0, 31, 32, 39, 40, 55, 99].map(|device| cluster.kind_of(device)), [0, 0, 1, 1, 2, 2, 2]);
        assert!(cluster.is_unlike() && !cluster.alone().is_unlike());
    }

    #[test]
    fn a_file_names_kinds_or_describes_them() {
        let text = "name = \"fleet\"
            [[nodes]]
            cluster = \"a100-8x2\"
            [[nodes]]
            accelerator = { base = \"t4\", name = \"our-t4\", hbm_bytes = 8e9 }
            per_node = 4
            nodes = 3";
        let fleet = Cluster::from_toml(text).expect("a legal file");
        let nested = "name = \"f\"\nnodes = [{ cluster = \"a100-8+v100-8\" }, { cluster = \"t4-8\" }]";
        assert_eq!(Cluster::from_toml(nested).expect("a legal file").n_all_devices(), 24);
        let other = fleet.around(16);
        assert_eq!((&*other.accelerator.name, other.n_devices(), other.per_node()), ("our-t4", 12, 4));
        let error = |text: &str| Cluster::from_toml(text).expect_err("not legal").message;
        let misspelled =
            error("name = \"f\"\n[[nodes]]\ncluster = \"a100-8\"\n[[nodes]]\nclutser = \"t4-8\"");
        assert!(misspelled.starts_with("`[[nodes]]` 2: unknown field `clutser`"), "{misspelled}");
        assert!(error("name = \"f\"\nnodes = []").starts_with("expected 1 to 32 kinds of nodes"));
        let message = |nodes: &str| error(&format!("name = \"f\"\n{nodes}"));
        assert_eq!(message("[[nodes]]\ncluster = 5"), "`[[nodes]]` 1: `cluster`: expected a name, found `5`");
        assert!(message("[[nodes]]").contains("neither `cluster` nor `accelerator` says"));
        assert!(message("[nodes]\ncluster = \"a100-8\"").starts_with("`[nodes]` is one table"));
    }

    #[test]
    fn what_is_wrong_has_its_place_and_its_key() {
        let error = |text: &str| {
            let error = Cluster::from_toml(text).expect_err("not legal");
            let place = error.span.map_or("", |span| &text[span.start as usize..span.end as usize]);
            format!("{} @ {place}", error.message)
        };
        let between = "name = \"f\"\nnodes = [{ cluster = \"a100-8\" }]\n[between]\nbytes_per_sec = -1";
        assert_eq!(error(between), "expected a positive finite number, found `-1` @ -1");
        let nodes = "name = \"f\"\nnodes = [{ accelerator = { base = \"t4\", name = \"t\", hbm_bytes = -1 }, per_node = 4 }]";
        let found = error(nodes);
        assert!(found.contains("`accelerator.hbm_bytes`: expected a positive finite number"), "{found}");
        assert!(found.ends_with("per_node = 4 }"), "{found}");
    }

    #[test]
    fn between_kinds_the_slower_network_counts_unless_one_is_named() {
        let cluster = named("a100-8x4+t4-8x2");
        let far = cluster.send_between_secs(1e9, [[24, 31], [32, 39]]);
        assert_eq!(far, named("t4-8x2").send_secs(1e9, true));
        assert_eq!(cluster.send_between_secs(1e9, [[0, 3], [4, 7]]), cluster.send_secs(1e9, false));
        assert_eq!(cluster.send_between_secs(1e9, [[32, 39], [40, 47]]), far);
        let text = "name = \"fleet\"
            nodes = [{ cluster = \"a100-8x4\" }, { cluster = \"t4-8x2\" }]
            [between]
            name = \"slow\"
            bytes_per_sec = 1e6
            latency_secs = 1e-3
            source = \"a test\"";
        let slow = Cluster::from_toml(text).expect("a legal file");
        assert!(slow.send_between_secs(1e9, [[24, 31], [32, 39]]) > 1000.0);
    }
}
