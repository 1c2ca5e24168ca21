//! Sites and what they share: a clock is the device's, passes, host and overlap are the software's, rates are
//! the network's.
//!
//! A site is all rows of one device, software and network. What several sites of a device (software, network)
//! decide alike is a property of that device (software, network), and holds for its other sites too; what one
//! site alone shows may be its own, and stays with it.

use super::fit::{Fitted, Site};
use super::terms::{Factors, Term};
use crate::validate::Run;
use std::collections::BTreeMap;

/// Device, software, network, and whether this is one node or several.
pub(super) type SiteName = [String; 4];

/// What a level above sites is called: the term, and the device, software or network that shares it.
type Shared = (Term, String);

/// All sites with their factors, and what levels above them say.
pub(super) struct Levels {
    pub sites: BTreeMap<SiteName, Fitted>,
    pub shared: BTreeMap<Shared, f64>,
}

/// The site of a run.
pub(super) fn site_of(run: &Run) -> SiteName {
    let nodes = if run.cluster.n_nodes() > 1 { "several nodes" } else { "one node" };
    [run.clock_name(), run.software.clone(), run.network.clone(), nodes.to_owned()]
}

/// Who shares a term of a site.
fn owner(term: Term, [device, software, network, _]: &SiteName) -> String {
    match term {
        Term::Clock => device.clone(),
        Term::Kernels | Term::Host | Term::Overlap => software.clone(),
        Term::Inside => device.clone(),
        Term::Between => format!("{device}, {network}"),
    }
}

impl Levels {
    /// Fits all sites of these runs: each alone, then with what the others say of what they share.
    pub(super) fn of(runs: &[&Run]) -> Levels {
        let mut rows: BTreeMap<SiteName, Vec<&Run>> = BTreeMap::new();
        for run in runs {
            rows.entry(site_of(run)).or_default().push(run);
        }
        let fitted = |known: &dyn Fn(&SiteName) -> Factors| -> BTreeMap<SiteName, Fitted> {
            let site = |(name, runs): (&SiteName, &Vec<&Run>)| {
                let site = Site { runs: runs.clone(), known: known(name) };
                (name.clone(), site.fitted())
            };
            rows.iter().map(site).collect()
        };
        let alone = fitted(&|_| Factors::default());
        let sites = fitted(&|name| known(name, &shared(&alone, Some(name))));
        Levels { sites, shared: shared(&alone, None) }
    }

    /// The factors of a run: its site's, else what is shared.
    pub(super) fn factors(&self, run: &Run) -> Factors {
        let name = site_of(run);
        self.sites.get(&name).map_or_else(|| known(&name, &self.shared), |site| site.factors)
    }
}

/// What the levels above a site say of its terms.
fn known(name: &SiteName, shared: &BTreeMap<Shared, f64>) -> Factors {
    Term::ALL.map(|term| shared.get(&(term, owner(term, name))).copied().unwrap_or(0.0))
}

/// The mean of what sites decided alone, drawn towards what was there by what is known of the level above: of
/// two sites and more, the one that it is for left out.
fn shared(alone: &BTreeMap<SiteName, Fitted>, without: Option<&SiteName>) -> BTreeMap<Shared, f64> {
    let mut decided: BTreeMap<Shared, Vec<f64>> = BTreeMap::new();
    for (name, fitted) in alone.iter().filter(|(name, _)| Some(*name) != without) {
        for term in Term::ALL.into_iter().filter(|term| fitted.decided[*term as usize]) {
            decided.entry((term, owner(term, name))).or_default().push(fitted.factors[term as usize]);
        }
    }
    let several = decided.into_iter().filter(|(_, values)| values.len() > 1);
    several.map(|((term, name), values)| ((term, name), mean(term, &values))).collect()
}

/// The most probable mean of a normal distribution with known widths of draws and mean (Gelman et al.,
/// Bayesian Data Analysis, section 2.5).
fn mean(term: Term, values: &[f64]) -> f64 {
    let [own, above] = term.widths();
    values.iter().sum::<f64>() / (values.len() as f64 + (own / above).powi(2))
}
