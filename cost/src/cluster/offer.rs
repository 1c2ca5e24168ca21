//! What nodes cost, how many of them can be had, for which part of the time, and what they draw.
//!
//! ```toml
//! price_basis = "AWS on demand, us-east-1, June 2025"
//!
//! [[nodes]]
//! cluster = "a100-8"
//! count = [0, 4]          # nodes: from none to four
//! usd_per_hour = 32.77    # of one node
//! availability = 0.95     # part of the time in which such a node is there
//! watts = 400             # of one device
//! zone = "us-west1-b"
//! ```

use super::Cluster;
use crate::read::MAX_COUNT;
use phzc_ir::{Diagnostic, Result};
use serde::Deserialize;
use toml::{Table, Value};

/// No node costs more in an hour.
const MAX_USD: f64 = 1e12;
/// No device draws more.
const MAX_WATTS: f64 = 1e6;
const SECS_PER_HOUR: f64 = 3600.0;
const JOULES_PER_KWH: f64 = 3.6e6;

/// How many nodes of a kind can be had, and at what price.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Offer {
    /// The fewest nodes; the most are those that the cluster has. None where it is not said.
    pub least_nodes: Option<usize>,
    /// Dollars of one node for an hour.
    pub usd_per_hour: Option<f64>,
    /// Part of the time in which such a node is there, above 0 and up to 1; always where it is not said.
    pub availability: Option<f64>,
    /// Watts of one device while a step runs.
    pub watts: Option<f64>,
    /// Where it is.
    pub zone: Option<String>,
}

impl Offer {
    /// Whether it says anything.
    pub(super) fn is_any(&self) -> bool {
        *self != Offer::default()
    }
}

/// What a step is billed for on all nodes of a cluster.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Bill {
    /// Seconds of the step with those in which it waits for nodes that are not there.
    pub expected_secs: f64,
    /// Dollars; none unless all nodes have a price.
    pub usd: Option<f64>,
    /// Energy; none unless all nodes have watts.
    pub kwh: Option<f64>,
}

/// `count = 4`, or `count = [0, 4]`.
#[derive(Clone, Copy, Deserialize)]
#[serde(untagged)]
enum Count {
    One(usize),
    Range([usize; 2]),
}

/// What a table of nodes says of its price and numbers, taken out of it: the offer, and the most nodes.
pub(super) fn taken(table: &mut Table) -> Result<(Offer, Option<usize>)> {
    let usd_per_hour = table.remove("usd_per_hour").map(usd).transpose()?;
    let availability = table.remove("availability").map(availability).transpose()?;
    let watts = table.remove("watts").map(watts).transpose()?;
    let zone = table.remove("zone").map(zone).transpose()?;
    let count = table.remove("count").map(count).transpose()?;
    if count.is_some() && table.contains_key("nodes") {
        let error = Diagnostic::error("`count` and `nodes` both say how many nodes there are");
        return Err(error.help("leave one of them out"));
    }
    let least_nodes = count.map(|[least, _]| least);
    Ok((Offer { least_nodes, usd_per_hour, availability, watts, zone }, count.map(|[_, most]| most)))
}

fn zone(value: Value) -> Result<String> {
    let name = value.as_str().map(str::to_owned);
    name.ok_or_else(|| Diagnostic::error(format!("`zone`: expected a name, found `{value}`")))
}

fn number(value: &Value) -> Option<f64> {
    value.as_float().or_else(|| value.as_integer().map(|whole| whole as f64))
}

fn availability(value: Value) -> Result<f64> {
    number(&value).filter(|part| *part > 0.0 && *part <= 1.0).ok_or_else(|| {
        let what =
            format!("`availability`: expected a part of the time above 0 and up to 1, found `{value}`");
        Diagnostic::error(what).help("write 0.95 for a node that is there 95 % of the time")
    })
}

fn watts(value: Value) -> Result<f64> {
    number(&value).filter(|watts| *watts > 0.0 && *watts <= MAX_WATTS).ok_or_else(|| {
        let what = format!("`watts`: expected more than 0 and 1e6 at most, found `{value}`");
        Diagnostic::error(what).help("write what one device draws while it computes")
    })
}

fn usd(value: Value) -> Result<f64> {
    number(&value).filter(|usd| (0.0..=MAX_USD).contains(usd)).ok_or_else(|| {
        let error =
            Diagnostic::error(format!("`usd_per_hour`: expected dollars from 0 to 1e12, found `{value}`"));
        error.help("write the price of one node for an hour")
    })
}

fn count(value: Value) -> Result<[usize; 2]> {
    let shown = value.to_string();
    let range = match value.try_into() {
        Ok(Count::One(n)) => Some([n, n]),
        Ok(Count::Range(range)) => Some(range),
        Err(_) => None,
    };
    let is_legal = |[least, most]: &[usize; 2]| least <= most && (1..=MAX_COUNT).contains(most);
    range.filter(is_legal).ok_or_else(|| {
        let error =
            Diagnostic::error(format!("`count`: expected a number of nodes, or two, found `{shown}`"));
        error.help("write `count = 4`, or `count = [0, 4]` for none to four")
    })
}

/// `fleet[2,1]` is `fleet` with two nodes of its first kind and one of its second, `fleet[2,0][1]` one node
/// of these: the name before the brackets, and the numbers.
pub fn chosen_nodes(name: &str) -> (&str, Vec<Vec<usize>>) {
    let (mut name, mut parts) = (name, Vec::new());
    while let Some((whole, counts)) = name.strip_suffix(']').and_then(|it| it.rsplit_once('[')) {
        let Some(counts) = counts.split(',').map(|n| n.trim().parse().ok()).collect::<Option<Vec<usize>>>()
        else {
            break;
        };
        parts.push(counts);
        name = whole;
    }
    parts.reverse();
    (name, parts)
}

impl Cluster {
    /// What is said of its nodes.
    pub fn offer(&self) -> &Offer {
        &self.offer
    }

    /// Per kind of nodes, the fewest and the most that can be had.
    pub fn node_counts(&self) -> Vec<[usize; 2]> {
        let of = |kind: &Cluster| {
            [kind.offer.least_nodes.unwrap_or(kind.n_nodes()).min(kind.n_nodes()), kind.n_nodes()]
        };
        self.kinds().map(of).collect()
    }

    /// Dollars of all its nodes for an hour; none unless all have a price.
    pub fn usd_per_hour(&self) -> Option<f64> {
        self.kinds().map(|kind| Some(kind.offer.usd_per_hour? * kind.n_nodes() as f64)).sum()
    }

    /// What a step of so many seconds is billed for on all nodes, used or not.
    ///
    /// A step runs while all nodes are there, each by itself in its `availability` of the time; those that
    /// are there are paid while the others are waited for. All devices draw their watts while it runs.
    pub fn bill(&self, step_secs: f64) -> Bill {
        let there = |kind: &Cluster| kind.offer.availability.unwrap_or(1.0);
        let all: f64 = self.kinds().map(|kind| there(kind).powi(kind.n_nodes() as i32)).product();
        let expected_secs = step_secs / all;
        let usd_per_hour =
            self.kinds().map(|kind| Some(kind.offer.usd_per_hour? * kind.n_nodes() as f64 * there(kind)));
        let watts = self.kinds().map(|kind| Some(kind.offer.watts? * kind.n_devices() as f64));
        Bill {
            expected_secs,
            usd: usd_per_hour.sum::<Option<f64>>().map(|usd| expected_secs * usd / SECS_PER_HOUR),
            kwh: watts.sum::<Option<f64>>().map(|watts| step_secs * watts / JOULES_PER_KWH),
        }
    }

    /// Where its prices come from.
    pub fn price_basis(&self) -> Option<&str> {
        self.others.price_basis.as_deref()
    }

    /// So many nodes of each of its kinds; a kind with none is left out.
    ///
    /// # Errors
    /// When there is no node at all, or there are more than the cluster has, or numbers of other kinds.
    pub fn with_nodes(&self, counts: &[usize]) -> Result<Cluster> {
        let most: Vec<usize> = self.kinds().map(Cluster::n_nodes).collect();
        let is_within = counts.len() == most.len() && counts.iter().zip(&most).all(|(n, most)| n <= most);
        if !is_within || counts.iter().all(|&n| n == 0) {
            let message = format!("`{}` has {most:?} nodes of its kinds, found {counts:?}", self.name);
            return Err(Diagnostic::error(message).help("name up to so many of each kind, not all of them 0"));
        }
        let used = self.kinds().zip(counts).filter(|(_, n)| **n > 0);
        let part = |(kind, &n): (&Cluster, &usize)| {
            let offer = kind.offer.clone();
            Ok(Cluster { offer, ..kind.alone().with_counts(kind.per_node(), n)? })
        };
        let parts = used.map(part).collect::<Result<Vec<Cluster>>>()?;
        let shown: Vec<String> = counts.iter().map(usize::to_string).collect();
        let name = format!("{}[{}]", self.chosen_of(), shown.join(","));
        Ok(Cluster { name, ..super::kinds::again(self, parts)? })
    }

    /// The name of the cluster of which nodes were chosen, no kind left out; its own if there is none.
    fn chosen_of(&self) -> &str {
        let last = chosen_nodes(&self.name).1.pop().filter(|last| last.len() == self.kinds().count());
        let whole = last.and_then(|_| self.name.rsplit_once('['));
        whole.map_or(&self.name, |(whole, _)| whole)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FLEET: &str = "name = \"fleet\"
        price_basis = \"a test\"
        [[nodes]]
        cluster = \"a100-8\"
        count = [1, 4]
        usd_per_hour = 32
        [[nodes]]
        accelerator = \"t4\"
        per_node = 4
        count = 2
        usd_per_hour = 4.5";

    fn fleet() -> Cluster {
        Cluster::from_toml(FLEET).expect("a legal file")
    }

    #[test]
    fn a_fleet_has_counts_and_prices() {
        let fleet = fleet();
        assert_eq!((fleet.n_all_devices(), fleet.node_counts()), (40, vec![[1, 4], [2, 2]]));
        assert_eq!((fleet.usd_per_hour(), fleet.price_basis()), (Some(4.0 * 32.0 + 9.0), Some("a test")));
        assert_eq!(Cluster::named("a100-8+t4-8").expect("a name").usd_per_hour(), None);
    }

    #[test]
    fn a_step_is_billed_for_nodes_that_are_there_and_for_what_its_devices_draw() {
        let cheap = "usd_per_hour = 4.5\navailability = 0.5\nwatts = 70";
        let text = FLEET.replace("usd_per_hour = 32", "usd_per_hour = 32\nwatts = 400");
        let fleet = |text: &str| Cluster::from_toml(text).expect("a legal file");
        let bill = fleet(&text.replace("usd_per_hour = 4.5", cheap)).bill(3600.0);
        // Both nodes of the second kind are there in a fourth of the time, half of them are paid.
        assert_eq!((bill.expected_secs, bill.usd), (4.0 * 3600.0, Some(4.0 * (128.0 + 4.5))));
        let kwh = (32.0 * 400.0 + 8.0 * 70.0) / 1000.0;
        assert!(bill.kwh.is_some_and(|found| (found - kwh).abs() < 1e-12), "{bill:?}");
        let plain = Bill { expected_secs: 3600.0, usd: Some(137.0), kwh: None };
        assert_eq!(fleet(&text).bill(3600.0), plain);
    }

    #[test]
    fn a_part_of_a_fleet_is_a_cluster() {
        let part = fleet().with_nodes(&[0, 1]).expect("a part");
        assert_eq!((&*part.name, part.n_all_devices(), part.is_unlike()), ("fleet[0,1]", 4, false));
        assert_eq!((part.usd_per_hour(), part.price_basis()), (Some(4.5), Some("a test")));
        let error = |counts: &[usize]| fleet().with_nodes(counts).expect_err("not there").message;
        assert_eq!(error(&[5, 0]), "`fleet` has [4, 2] nodes of its kinds, found [5, 0]");
        assert_eq!(error(&[0, 0]), "`fleet` has [4, 2] nodes of its kinds, found [0, 0]");
        assert_eq!(error(&[1]), "`fleet` has [4, 2] nodes of its kinds, found [1]");
    }

    #[test]
    fn a_part_of_a_part_has_a_name_that_can_be_asked_for() {
        let part = Cluster::named("a100-8x4+t4-8x2[3,1][2,0]").expect("a name");
        assert_eq!((part.n_all_devices(), part.is_unlike()), (16, false));
        let again = |name: &str, counts: &[usize]| {
            Cluster::named(name).and_then(|part| part.with_nodes(counts)).expect("a part").name
        };
        assert_eq!(again("a100-8x4[3]", &[2]), "a100-8x4[2]");
        // Where a kind is left out, numbers are of those that are there.
        assert_eq!(again("a100-8x4+t4-8x2[3,0]", &[2]), "a100-8x4+t4-8x2[3,0][2]");
        assert_eq!(chosen_nodes("f.toml[3,1][2]"), ("f.toml", vec![vec![3, 1], vec![2]]));
        assert_eq!(chosen_nodes("f[x]"), ("f[x]", Vec::new()));
        let deep = format!("a100-8{}", "[1]".repeat(2000));
        assert_eq!(Cluster::named(&deep).expect("a name").n_devices(), 8);
    }

    #[test]
    fn adapters_between_kinds_are_those_of_a_node_however_many_nodes_there_are() {
        let between = "[between]\nname = \"eth\"\nbytes_per_sec = 1e10\nadapters = 1\nlatency_secs = 1e-5\nsource = \"a test\"";
        let fleet = Cluster::from_toml(&format!("{FLEET}\n{between}")).expect("a legal file");
        let part = fleet.with_nodes(&[1, 1]).expect("a part");
        let rate = |cluster: &Cluster, far: usize| cluster.link(0, far).map(|(_, rate, _)| rate);
        assert_eq!((rate(&fleet, 32), rate(&part, 8)), (Some(1e10 / 8.0), Some(1e10 / 8.0)));
    }

    #[test]
    fn what_is_wrong_with_an_offer_is_said() {
        let error = |from: &str, to: &str| {
            Cluster::from_toml(&FLEET.replace(from, to)).expect_err("not legal").message
        };
        let wrong = error("[1, 4]", "[4, 1]");
        assert_eq!(wrong, "`[[nodes]]` 1: `count`: expected a number of nodes, or two, found `[4, 1]`");
        let wrong = error("usd_per_hour = 4.5", "usd_per_hour = -1");
        assert_eq!(wrong, "`[[nodes]]` 2: `usd_per_hour`: expected dollars from 0 to 1e12, found `-1`");
        let wrong = error("count = 2", "count = 2\navailability = 1.5");
        assert!(wrong.contains("expected a part of the time above 0 and up to 1, found `1.5`"), "{wrong}");
        let wrong = error("count = 2", "count = 2\nwatts = \"many\"");
        assert!(wrong.contains("`watts`: expected more than 0 and 1e6 at most"), "{wrong}");
        let wrong = error("count = 2", "count = 2\nnodes = 2");
        assert_eq!(wrong, "`[[nodes]]` 2: `count` and `nodes` both say how many nodes there are");
        let wrong = error("cluster = \"a100-8\"", "cluster = \"a100-8x2\"");
        assert_eq!(wrong, "`[[nodes]]` 1: `count` and `a100-8x2` both say how many nodes there are");
        let wrong = error("price_basis = \"a test\"", "");
        assert_eq!(wrong, "there are prices, and `price_basis` does not say where these come from");
    }
}
