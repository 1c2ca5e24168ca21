//! What bytes from one zone to another cost.
//!
//! ```toml
//! [[nodes]]
//! cluster = "a100-8"
//! zone = "us-west1-b"
//!
//! [egress_usd_per_gb.us-west1-b]     # a gigabyte is 1e9 bytes
//! us-central1-a = 0.02
//! ```

use super::Cluster;
use phzc_ir::{Diagnostic, Result};
use std::collections::BTreeMap;

/// By zones: dollars for a gigabyte from the first to the second.
pub(super) type Egress = BTreeMap<String, BTreeMap<String, f64>>;

const BYTES_PER_GB: f64 = 1e9;

/// An error unless nodes are in all zones, and every price is one.
pub(super) fn check(egress: &Egress, zones: &[&str]) -> Result<()> {
    let wrong = |what: String, help: &str| {
        Err(Diagnostic::error(format!("`egress_usd_per_gb`: {what}")).help(help.to_owned()))
    };
    for (from, row) in egress {
        for (to, usd) in row {
            if let Some(zone) = [from, to].into_iter().find(|zone| !zones.contains(&&***zone)) {
                let what = format!("no node is in zone `{zone}`");
                return wrong(what, "give each of `[[nodes]]` its `zone`");
            }
            if !(usd.is_finite() && *usd >= 0.0) {
                let what = format!("expected dollars from 0 up, found `{usd}`");
                return wrong(what, "write the price of 1e9 bytes");
            }
        }
    }
    Ok(())
}

impl Cluster {
    /// Whether bytes between some of its kinds of nodes cost money.
    pub fn has_egress(&self) -> bool {
        let n_kinds = self.kinds().count();
        (0..n_kinds).any(|from| (0..n_kinds).any(|to| self.egress_usd([from, to], BYTES_PER_GB) > 0.0))
    }

    /// Dollars for so many bytes from one of its kinds of nodes to another, by their places.
    pub fn egress_usd(&self, [from, to]: [usize; 2], bytes: f64) -> f64 {
        let zone = |kind: usize| self.kinds().nth(kind).map(Cluster::zone);
        let price = |from: &str, to: &str| self.others.egress.get(from)?.get(to).copied();
        let per_gb = zone(from).zip(zone(to)).and_then(|(from, to)| price(from, to));
        per_gb.unwrap_or(0.0) * bytes / BYTES_PER_GB
    }

    /// The zone of its first kind of nodes; that without a name where none is said.
    pub(super) fn zone(&self) -> &str {
        self.offer.zone.as_deref().unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FLEET: &str = "name = \"fleet\"
        price_basis = \"a test\"
        [[nodes]]
        cluster = \"a100-8\"
        count = [0, 2]
        zone = \"far\"
        [[nodes]]
        cluster = \"t4-4\"
        [[nodes]]
        cluster = \"v100-8\"
        [egress_usd_per_gb.far]
        \"\" = 0.02";

    #[test]
    fn bytes_cost_what_their_zones_say_in_that_direction() {
        let fleet = Cluster::from_toml(FLEET).expect("a legal file");
        let usd = |from: usize, to: usize| fleet.egress_usd([from, to], 5e9);
        assert_eq!([usd(0, 1), usd(0, 2), usd(1, 0), usd(1, 2), usd(0, 0)], [0.1, 0.1, 0.0, 0.0, 0.0]);
        let part = |counts: &[usize]| fleet.with_nodes(counts).expect("a part").has_egress();
        assert!(part(&[1, 0, 1]) && !part(&[2, 0, 0]) && !part(&[0, 1, 1]));
    }

    #[test]
    fn what_is_wrong_with_a_price_is_said() {
        let error = |from: &str, to: &str| {
            Cluster::from_toml(&FLEET.replace(from, to)).expect_err("not legal").message
        };
        let nowhere = error("per_gb.far", "per_gb.near");
        assert_eq!(nowhere, "`egress_usd_per_gb`: no node is in zone `near`");
        let basis = error("price_basis = \"a test\"", "");
        assert_eq!(basis, "there are prices, and `price_basis` does not say where these come from");
        assert_eq!(error("0.02", "-1"), "`egress_usd_per_gb`: expected dollars from 0 up, found `-1`");
        assert_eq!(error("\"far\"", "3"), "`[[nodes]]` 1: `zone`: expected a name, found `3`");
    }
}
