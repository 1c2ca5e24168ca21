//! Bounds from critical paths: the longest chain of work of one cut is a chain of every other, too.
//!
//! Its seconds are a sum over stages ([`CriticalPath`]), so that the least over all cuts with the same last
//! stages is found stage by stage, once per path. A cut that a path shows to be slow leaves its own path for
//! those to come.

use super::Bounding;
use phzc_cost::fasop::{CriticalPath, critical_path, step_secs};

/// So many paths are kept, the latest.
const MAX_PATHS: usize = 32;
/// Once there are as many, every so manieth cut leaves its path.
const EVERY: usize = 8;

/// Critical paths of cuts that were tried.
pub(super) struct Paths<'a> {
    bounding: &'a Bounding<'a>,
    known: Vec<Known>,
    n_seen: usize,
}

/// One of them, and what bounds others by it.
struct Known {
    path: Path,
    /// By stages and entries: the least seconds of the first stages on it, with so many entries that fit.
    least_secs: Vec<Vec<f64>>,
}

/// The critical path of a cut.
#[derive(Clone)]
pub(in super::super) struct Path {
    chain: CriticalPath,
    /// Whose sum of gradients follows, and whose parameters that sums.
    end: usize,
    summed: usize,
}

impl<'a> Paths<'a> {
    pub(super) fn new(bounding: &'a Bounding<'a>) -> Paths<'a> {
        Paths { bounding, known: Vec::new(), n_seen: 0 }
    }

    /// Seconds that no cut beats that shares `n` entries among the first stages and goes on as `cut` does.
    pub(super) fn least(&self, n_stages: usize, n: usize, cut: &[usize]) -> f64 {
        let of = |known: &Known| {
            let behind_secs = self.bounding.behind_secs(&known.path, n_stages, n, cut);
            known.path.chain.constant_secs + known.least_secs[n_stages][n] + behind_secs
        };
        self.known.iter().map(of).fold(0.0, f64::max) + self.bounding.times.embedding_secs
    }

    /// Steps of work that one call of [`Paths::least`] takes for so many stages.
    pub(super) fn effort(&self, n_behind: usize) -> usize {
        1 + self.known.len() * n_behind
    }

    /// Adds the path of a cut, if it is its turn; the steps of work that this took.
    pub(super) fn learn(&mut self, cut: &[usize]) -> usize {
        self.n_seen += 1;
        if self.known.len() == MAX_PATHS {
            if !self.n_seen.is_multiple_of(EVERY) {
                return 0;
            }
            self.known.remove(0);
        }
        let path = self.bounding.path(cut);
        let least_secs = self.bounding.path_rows(&path);
        self.known.push(Known { path, least_secs });
        let n_entries = self.bounding.roles.len();
        cut.len() * n_entries * n_entries / 2
    }
}

impl Bounding<'_> {
    /// The critical path of a cut's step.
    pub(in super::super) fn path(&self, cut: &[usize]) -> Path {
        let (placement, secs) = (self.placement, self.times.stage_secs(cut));
        let (sends, n) = (&self.times.boundary_secs, placement.n_microbatches());
        let ends = step_secs(&secs, sends, n, placement.variant);
        let whole = ends.iter().enumerate().map(|(stage, secs)| secs + placement.sum_secs(cut, stage));
        let last = whole.enumerate().max_by(|a, b| a.1.total_cmp(&b.1));
        let end = last.map_or(0, |(stage, _)| stage);
        let chain = critical_path(&secs, sends, n, placement.variant, end);
        Path { chain, end, summed: placement.summed_stage(end) }
    }

    /// Seconds that a cut takes at least, by the critical path of another.
    pub(in super::super) fn secs_along(&self, path: &Path, cut: &[usize]) -> f64 {
        path.chain.constant_secs + self.behind_secs(path, 0, 0, cut) + self.times.embedding_secs
    }

    /// Seconds on a path of the stages of a cut behind the first `n_stages`, which have `n` entries.
    fn behind_secs(&self, path: &Path, n_stages: usize, n: usize, cut: &[usize]) -> f64 {
        let mut first = n;
        let stages = cut.iter().enumerate().skip(n_stages).map(|(stage, own)| {
            first += own;
            self.path_secs(path, stage, [first - own, first])
        });
        stages.sum()
    }

    /// The least seconds of beginnings on a path.
    fn path_rows(&self, path: &Path) -> Vec<Vec<f64>> {
        let (n_stages, n_entries) = (self.placement.degrees.stages, self.roles.len() - 1);
        let mut rows = vec![vec![f64::INFINITY; n_entries + 1]];
        rows[0][0] = 0.0;
        for stage in 0..n_stages {
            let fit = (self.placement.role_bytes(stage), self.placement.limit_bytes(stage));
            let ends = |n: usize| {
                let froms = (stage..n).filter(|from| self.holds(&fit.0, fit.1, *from, n));
                let secs = froms.map(|from| rows[stage][from] + self.path_secs(path, stage, [from, n]));
                secs.fold(f64::INFINITY, f64::min)
            };
            let row = (0..=n_entries).map(ends).collect();
            rows.push(row);
        }
        rows
    }

    /// Seconds of a stage's entries on a path, with the sum of gradients if it is of these.
    fn path_secs(&self, path: &Path, stage: usize, [first, end]: [usize; 2]) -> f64 {
        let secs = path.chain.weights[stage] * self.times.span_secs(self.times.kinds[stage], first, end);
        if stage != path.summed {
            return secs;
        }
        let mut cut = vec![0; self.placement.degrees.stages];
        cut[0] = first;
        cut[stage] = end - first;
        secs + self.placement.sum_secs(&cut, path.end)
    }
}
