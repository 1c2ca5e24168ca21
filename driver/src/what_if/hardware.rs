//! Hardware that is asked about: `--hbm 80GB`, `--bandwidth NVLink=2x`, `--nodes 4`.

use phzc_cost::Cluster;
use phzc_ir::{Diagnostic, Result};

/// Another memory, other links, other nodes; what is not given stays as it is.
#[derive(Clone, Debug, Default, clap::Args)]
pub struct HardwareArgs {
    /// Memory of a device: `80GB`, `64GiB`, `2x`
    #[arg(long, value_name = "SIZE", value_parser = size)]
    pub hbm: Option<Quantity>,

    /// Bandwidth of one device into a link, by the link's name in the cluster or how that starts:
    /// `NVLink=2x`, `InfiniBand=50GB/s`
    #[arg(long, value_name = "LINK=RATE", value_parser = named_rate)]
    pub bandwidth: Vec<(String, Quantity)>,

    /// Nodes of the cluster
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub nodes: Option<u32>,
}

/// An amount, or how many times as much.
#[derive(Clone, Debug, PartialEq)]
pub struct Quantity {
    /// As the user wrote it.
    text: String,
    value: Value,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Value {
    Times(f64),
    Amount(f64),
}

impl Quantity {
    fn of(&self, before: f64) -> f64 {
        match self.value {
            Value::Times(factor) => factor * before,
            Value::Amount(amount) => amount,
        }
    }
}

impl HardwareArgs {
    /// Whether nothing changes.
    pub fn is_empty(&self) -> bool {
        self.hbm.is_none() && self.bandwidth.is_empty() && self.nodes.is_none()
    }

    /// A cluster with the changes, which its name lists.
    ///
    /// # Errors
    /// A link that the cluster does not have, nodes without a network between them.
    pub fn apply(&self, before: &Cluster) -> Result<Cluster> {
        let (mut cluster, mut changes) = (before.clone(), Vec::new());
        if let Some(n_nodes) = self.nodes {
            let per_node = cluster.per_node();
            cluster = cluster.with_counts(per_node, n_nodes as usize)?;
            changes.push(format!("nodes={n_nodes}"));
        }
        if let Some(size) = &self.hbm {
            let bytes = size.of(cluster.accelerator.hbm_bytes);
            cluster = cluster.with_hbm_bytes(bytes);
            changes.push(format!("hbm={}", size.text));
        }
        let mut levels = Vec::new();
        for (name, rate) in &self.bandwidth {
            let level = cluster.level_named(name)?;
            if levels.contains(&level) {
                let error = Diagnostic::error(format!("`--bandwidth` of `{name}` is given twice"));
                return Err(error.help("give each link once"));
            }
            levels.push(level);
            let (known, old) = (cluster.levels()[level].name.clone(), cluster.levels()[level].bytes_per_sec);
            cluster = cluster.with_level_rate(level, rate.of(old) / old);
            changes.push(format!("{known}={}", rate.text));
        }
        let name = format!("{} with {}", before.name, changes.join(", "));
        Ok(cluster.named_as(name))
    }
}

/// What the command asks about, if it asks about anything.
pub fn asked(hardware: &HardwareArgs) -> Result<()> {
    match hardware.is_empty() {
        true => Err(Diagnostic::error("nothing changes: no hardware is given")
            .help("say `--hbm SIZE`, `--bandwidth LINK=RATE` or `--nodes N`")),
        false => Ok(()),
    }
}

/// Units of bytes, longest names first.
const UNITS: [(&str, f64); 8] = [
    ("TiB", (1u64 << 40) as f64),
    ("GiB", (1u64 << 30) as f64),
    ("MiB", (1u64 << 20) as f64),
    ("KiB", (1u64 << 10) as f64),
    ("TB", 1e12),
    ("GB", 1e9),
    ("MB", 1e6),
    ("kB", 1e3),
];

fn size(text: &str) -> std::result::Result<Quantity, String> {
    quantity(text, "")
        .ok_or_else(|| "expected a size or how many times as much, such as 80GB or 2x".to_owned())
}

fn named_rate(text: &str) -> std::result::Result<(String, Quantity), String> {
    let parts = text.rsplit_once('=').filter(|(name, _)| !name.is_empty());
    let found = parts.and_then(|(name, rate)| Some((name.to_owned(), quantity(rate, "/s")?)));
    found.ok_or_else(|| "expected a link and its rate, such as NVLink=2x or NVLink=450GB/s".to_owned())
}

/// `2x`, or a number and a unit of bytes, with what follows it.
fn quantity(text: &str, after: &str) -> Option<Quantity> {
    let number = |digits: &str| digits.trim().parse::<f64>().ok().filter(|it| it.is_finite() && *it > 0.0);
    let value = match text.strip_suffix('x') {
        Some(factor) => Value::Times(number(factor)?),
        None => {
            let amount = text.strip_suffix(after)?;
            let (unit, size) = UNITS.iter().find(|(unit, _)| amount.ends_with(unit))?;
            Value::Amount(number(amount.strip_suffix(unit)?)? * size)
        }
    };
    Some(Quantity { text: text.to_owned(), value })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_and_rates_are_amounts_or_factors() {
        let of = |text: &str, after: &str| quantity(text, after).map(|it| it.of(10.0));
        assert_eq!(
            ["80GB", "1.5x", "2GiB"].map(|text| of(text, "")),
            [Some(8e10), Some(15.0), Some(2147483648.0)]
        );
        assert_eq!(["50GB/s", "2x"].map(|text| of(text, "/s")), [Some(5e10), Some(20.0)]);
        for wrong in ["", "x", "80", "-1GB", "0x", "GB", "infGB", "50GB/s"] {
            assert_eq!(quantity(wrong, ""), None, "{wrong}");
        }
        assert_eq!(quantity("50GB", "/s"), None);
    }

    #[test]
    fn the_changed_cluster_says_what_was_changed() {
        let hardware = HardwareArgs {
            hbm: size("2x").ok(),
            bandwidth: vec![named_rate("nvlink=2x").expect("legal")],
            nodes: Some(4),
        };
        let before = Cluster::named("h100-8").expect("a known cluster");
        let after = hardware.apply(&before).expect("links are there");
        assert_eq!((after.n_devices(), after.n_nodes()), (32, 4));
        assert_eq!(after.accelerator.hbm_bytes, 2.0 * before.accelerator.hbm_bytes);
        let link = &before.levels()[0].name;
        assert_eq!(after.name, format!("h100-8 with nodes=4, hbm=2x, {link}=2x"));
        assert!(asked(&hardware).is_ok() && asked(&HardwareArgs::default()).is_err());
    }
}
