//! What a calibration may change of a prediction: one factor per cause, each with what is known of it before.

use crate::validate::Run;
use phzc_cost::{Cluster, SoftwareFactors};

/// One cause of a difference between prediction and measurement.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Term {
    /// Products and attention: the clock that lasting load leaves.
    Clock,
    /// Kernels that memory bounds: how often elementwise chains pass through it.
    Kernels,
    /// Links inside a node: their rate.
    Inside,
    /// The network between nodes: its rate.
    Between,
    /// The host: the time in which it issues an operator.
    Host,
    /// Overlap: the part of what is said to be hidden that is not.
    Overlap,
}

impl Term {
    pub(super) const ALL: [Term; 6] =
        [Term::Clock, Term::Kernels, Term::Inside, Term::Between, Term::Host, Term::Overlap];

    /// What a person calls it.
    pub(super) fn name(self) -> &'static str {
        match self {
            Term::Clock => "sustained clock",
            Term::Kernels => "memory passes",
            Term::Inside => "rate inside a node",
            Term::Between => "rate between nodes",
            Term::Host => "issue of an operator",
            Term::Overlap => "overlap not hidden",
        }
    }

    /// How far it lies from what is known, as a logarithm, in two of three cases: `[of one site, of all sites
    /// that share it]`.
    ///
    /// The clock by the spread of those in `cost/accels` (0.70 to 1.0); passes by
    /// those of compiled and eager software (1 to 2.5); links by the efficiencies of the levels in
    /// `cost/accels` (0.74 to 0.93), between nodes with what others take of them; the host by the issue times
    /// of two programs (20 and 55 us).
    pub(super) fn widths(self) -> [f64; 2] {
        match self {
            Term::Clock => [0.15, 0.1],
            Term::Kernels => [0.3, 0.3],
            Term::Inside => [0.15, 0.1],
            Term::Between => [0.3, 0.2],
            Term::Host => [0.5, 0.3],
            Term::Overlap => [0.3, 0.2],
        }
    }

    /// Whether a value is possible. Overlap cannot hide more than all.
    pub(super) fn admits(self, value: f64) -> bool {
        value.abs() <= LARGEST && (self != Term::Overlap || value >= 0.0)
    }
}

/// No cause is sought beyond a factor of four: such rows say something else than their columns.
const LARGEST: f64 = 1.4;

/// The logarithm of each term's factor, in the order of [`Term::ALL`]; of overlap, the negative logarithm of
/// the part that is still hidden.
pub(super) type Factors = [f64; 6];

/// The cluster of a run with these factors.
pub(super) fn applied(cluster: &Cluster, factors: &Factors) -> Cluster {
    let [clock, kernels, inside, between, host, overlap] = *factors;
    let mut made = cluster.clone().with_rates([inside.exp(), between.exp()]);
    // No more than the clock of a benchmark, unless the device's file has more of it.
    let before = made.accelerator.sustained;
    made.accelerator.sustained = (before * clock.exp()).min(before.max(1.0));
    let known = made.software;
    made.software = SoftwareFactors {
        memory_passes: known.memory_passes * kernels.exp(),
        issue: known.issue * host.exp(),
        exposed: 1.0 - (1.0 - known.exposed) * (-overlap).exp(),
        ..known
    };
    made
}

/// Seconds of a step with these factors.
pub(super) fn secs(run: &Run, factors: &Factors) -> f64 {
    run.job.terms(&applied(&run.cluster, factors)).sum_secs()
}
