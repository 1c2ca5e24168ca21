//! What no cut into stages takes less than.
//!
//! Stage `j` of `n` runs `k = min(n - j, B)` of `B` microbatches forward before the first comes back, which
//! has passed all stages forward and those behind it backward by then; then come its `B` backward parts and
//! the other forward ones, and those before it run the last microbatch backward. With `c_j` its seconds, a
//! third of them forward, `C` those of all stages and `T` those of the crossings there and back, the first
//! stage ends at `T + C + (B - 2/3 - k/3) c_j` at the earliest, whichever `j` is; what it waits for while it
//! sends backward, `B - 1` times, comes on top. Then follow the sums of gradients.
//!
//! The least over all cuts that fit of the largest of these is found stage by stage: of two beginnings of a
//! cut with equal entries, one that is no slower in sum and in largest term is enough, and none whose other
//! entries cannot end below the known time even on their fastest kind. Where cuts are tried one by one, the
//! critical paths of those before bound the others, too (`paths.rs`).

mod paths;

use paths::Paths;
use phzc_cost::fasop::{Placement, Times, Variant};

/// A placement whose cuts are bounded.
pub(super) struct Bounding<'a> {
    placement: &'a Placement<'a>,
    times: &'a Times,
    /// Embeddings, layers and heads among the first so many entries.
    roles: Vec<[f64; 3]>,
}

/// A beginning of a cut.
#[derive(Clone, Copy, Debug)]
struct Start {
    /// Seconds of its stages, and of the sum of gradients that follows on the first.
    sum_secs: f64,
    /// The largest `(B - 2/3 - k/3) c_j` so far, with what sends keep.
    term_secs: f64,
    /// Entries of its last stage, and which beginning it goes on from.
    n_last: usize,
    from: usize,
}

/// Beginnings with so many stages, by their entries.
type Row = Vec<Vec<Start>>;

/// All beginnings that may belong to the best cut, by stages and entries.
pub(super) struct Beginnings(Vec<Row>);

impl<'a> Bounding<'a> {
    pub(super) fn new(placement: &'a Placement<'a>, times: &'a Times) -> Bounding<'a> {
        let mut roles = vec![[0.0; 3]];
        for role in &placement.model.roles {
            let mut next = *roles.last().unwrap_or(&[0.0; 3]);
            next[*role as usize] += 1.0;
            roles.push(next);
        }
        Bounding { placement, times, roles }
    }

    /// Seconds that no cut beats, at a glance: stages share out entries as if these could be cut.
    ///
    /// With `w_e` the seconds of entry `e` on the fastest kind for it, `W` their sum, and `r_k` how many
    /// times as long an entry takes on kind `k` at least, all stages together take no less than `W`, and the
    /// largest no less than `W / sum_j 1 / r_k(j)`.
    pub(super) fn glance_secs(&self) -> f64 {
        let kinds = &self.times.kinds;
        let entry_secs = |kind: usize, entry: usize| self.times.span_secs(kind, entry, entry + 1);
        let (mut slowdowns, mut whole_secs) = (vec![f64::INFINITY; kinds.len()], 0.0);
        for entry in 0..self.placement.model.roles.len() {
            let secs: Vec<f64> = kinds.iter().map(|kind| entry_secs(*kind, entry)).collect();
            let least = secs.iter().copied().fold(f64::INFINITY, f64::min);
            whole_secs += least;
            slowdowns
                .iter_mut()
                .zip(secs)
                .for_each(|(slowdown, secs)| *slowdown = slowdown.min(secs / least));
        }
        let rates: f64 = slowdowns.iter().map(|slowdown| 1.0 / slowdown).sum();
        self.fixed_secs() + whole_secs + self.term(0).0.max(0.0) * whole_secs / rates
    }

    /// Seconds that no cut that fits beats, and a cut that has them; `None` where none fits below the limit.
    pub(super) fn least(&self, limit_secs: f64) -> Option<(f64, Vec<usize>)> {
        let Beginnings(rows) = self.beginnings(limit_secs);
        let (n_stages, n_entries) = (self.placement.degrees.stages, self.placement.model.roles.len());
        let ends = &rows[n_stages][n_entries];
        let secs = |start: &Start| start.sum_secs + start.term_secs;
        let (index, best) = ends.iter().enumerate().min_by(|a, b| secs(a.1).total_cmp(&secs(b.1)))?;
        Some((secs(best) + self.fixed_secs(), cut(&rows, n_entries, index)))
    }

    /// Those from which a cut may end below the limit.
    fn beginnings(&self, limit_secs: f64) -> Beginnings {
        let (n_stages, n_entries) = (self.placement.degrees.stages, self.placement.model.roles.len());
        let none = Start { sum_secs: 0.0, term_secs: 0.0, n_last: 0, from: 0 };
        let empty: Row = (0..=n_entries).map(|n| if n == 0 { vec![none] } else { Vec::new() }).collect();
        let limits = self.limits(limit_secs);
        let mut rows = vec![empty];
        for stage in 0..n_stages {
            rows.push(self.next(stage, &rows[stage], &limits));
        }
        Beginnings(rows)
    }

    /// By the number of entries that a beginning has: seconds that leave the others time to end below the
    /// limit, each on the kind that is fastest for it.
    fn limits(&self, limit_secs: f64) -> Vec<f64> {
        let n_entries = self.placement.model.roles.len();
        let mut limits = vec![limit_secs - self.fixed_secs(); n_entries + 1];
        for entry in (0..n_entries).rev() {
            let secs = self.times.kinds.iter().map(|kind| self.times.span_secs(*kind, entry, entry + 1));
            limits[entry] = limits[entry + 1] - secs.fold(f64::INFINITY, f64::min);
        }
        limits
    }

    /// Seconds of every cut.
    fn fixed_secs(&self) -> f64 {
        self.crossing_secs() + self.times.embedding_secs
    }

    /// Visits cuts that fit and whose bound is below a limit, which a visit may lower, from the last stage
    /// on; whether those were all, with so many replayed tasks at most, or as much work on bounds.
    pub(super) fn visit(
        &self,
        limit_secs: f64,
        n_tasks: usize,
        see: &mut dyn FnMut(&[usize]) -> f64,
    ) -> bool {
        let rows = self.beginnings(limit_secs).0;
        let mut visit =
            Visit { bounding: self, paths: Paths::new(self), rows, limit_secs, n_left: STEPS * n_tasks, see };
        let n_stages = self.placement.degrees.stages;
        let mut cut = vec![0; n_stages];
        visit.from(n_stages, self.placement.model.roles.len(), [0.0, 0.0], &mut cut)
    }

    /// Seconds in which one microbatch crosses all boundaries, there and back.
    fn crossing_secs(&self) -> f64 {
        let boundaries = &self.times.boundary_secs;
        match self.placement.variant {
            Variant::Strict => 2.0 * boundaries.iter().sum::<f64>(),
            Variant::Faithful => [boundaries.first(), boundaries.last()].into_iter().flatten().sum(),
        }
    }

    /// Seconds for which a stage waits with each backward result.
    fn sent_secs(&self, stage: usize) -> f64 {
        let is_last = stage + 1 == self.placement.degrees.stages;
        match stage.checked_sub(1) {
            Some(boundary) if is_last || self.placement.variant == Variant::Strict => {
                self.times.boundary_secs[boundary]
            }
            _ => 0.0,
        }
    }

    /// Whether the entries from `first` to before `end` fit as a stage with so many bytes of each role.
    fn holds(&self, role_bytes: &[f64; 3], limit_bytes: f64, first: usize, end: usize) -> bool {
        let counts = self.roles[end].iter().zip(&self.roles[first]).map(|(end, first)| end - first);
        counts.zip(role_bytes).map(|(n, bytes)| n * bytes).sum::<f64>() <= limit_bytes
    }

    /// What the seconds of a stage count in its term, and what it keeps waiting for.
    fn term(&self, stage: usize) -> (f64, f64) {
        let n_microbatches = self.placement.n_microbatches();
        let n_ahead = (self.placement.degrees.stages - stage).min(n_microbatches) as f64;
        let factor = n_microbatches as f64 - (2.0 + n_ahead) / 3.0;
        (factor, (n_microbatches as f64 - 1.0) * self.sent_secs(stage))
    }

    /// Beginnings with one stage more, as far as sum and term are below the limits.
    fn next(&self, stage: usize, before: &Row, limits: &[f64]) -> Row {
        let (n_stages, n_entries) = (self.placement.degrees.stages, before.len() - 1);
        let (factor, kept_secs) = self.term(stage);
        let kind = self.times.kinds[stage];
        let (role_bytes, limit_bytes) = (self.placement.role_bytes(stage), self.placement.limit_bytes(stage));
        let ends = |n: usize| {
            let mut starts: Vec<Start> = Vec::new();
            // Every stage to come has an entry, and the last one has the last.
            let n_later = n_stages - 1 - stage;
            let is_possible = n + n_later <= n_entries && (n_later > 0 || n == n_entries);
            for (from, first) in before.iter().enumerate().take(n).skip(stage) {
                if !is_possible || !self.holds(&role_bytes, limit_bytes, from, n) {
                    continue;
                }
                let secs = self.times.span_secs(kind, from, n);
                let (own_secs, term) = (secs + self.summed_secs(stage, n), factor * secs + kept_secs);
                let next = first.iter().enumerate().map(|(index, start)| Start {
                    sum_secs: start.sum_secs + own_secs,
                    term_secs: start.term_secs.max(term),
                    n_last: n - from,
                    from: index,
                });
                starts.extend(next.filter(|it| it.sum_secs + it.term_secs < limits[n]));
            }
            undominated(starts)
        };
        (0..=n_entries).map(ends).collect()
    }

    /// Seconds of the sum of the first stage's gradients, if it has `n` entries; of the others, which end
    /// before it, none.
    fn summed_secs(&self, stage: usize, n: usize) -> f64 {
        if stage > 0 {
            return 0.0;
        }
        let mut cut = vec![0; self.placement.degrees.stages];
        cut[0] = n;
        self.placement.sum_secs(&cut, 0)
    }
}

/// As many additions of a bound take as long as one replayed task.
const STEPS: usize = 8;

/// A walk over cuts from their last stage on.
struct Visit<'v> {
    bounding: &'v Bounding<'v>,
    paths: Paths<'v>,
    rows: Vec<Row>,
    limit_secs: f64,
    n_left: usize,
    see: &'v mut dyn FnMut(&[usize]) -> f64,
}

impl Visit<'_> {
    /// All ways to share `n` entries among the first stages, if those behind have these sums and terms;
    /// whether there was room for all.
    fn from(&mut self, n_stages: usize, n: usize, behind: [f64; 2], cut: &mut Vec<usize>) -> bool {
        if n_stages == 0 {
            let placement = self.bounding.placement;
            let n_tasks = 2 * placement.degrees.stages * placement.n_microbatches();
            self.limit_secs = (self.see)(cut).min(self.limit_secs);
            let n_learned = self.paths.learn(cut);
            self.n_left = self.n_left.saturating_sub(STEPS * n_tasks + n_learned);
            return self.n_left > 0;
        }
        if self.n_left == 0 {
            return false;
        }
        let stage = n_stages - 1;
        let (factor, kept_secs) = self.bounding.term(stage);
        let placement = self.bounding.placement;
        let (role_bytes, limit_bytes) = (placement.role_bytes(stage), placement.limit_bytes(stage));
        for from in stage..n {
            let secs = self.bounding.times.span_secs(self.bounding.times.kinds[stage], from, n);
            let own_secs = secs + self.bounding.summed_secs(stage, n - from);
            let sums = [behind[0] + own_secs, behind[1].max(factor * secs + kept_secs)];
            cut[stage] = n - from;
            let is_open = self.bounding.holds(&role_bytes, limit_bytes, from, n)
                && self.least(stage, from, sums) < self.limit_secs
                && self.path_secs(stage, from, cut) < self.limit_secs;
            if is_open && !self.from(stage, from, sums, cut) {
                return false;
            }
        }
        true
    }

    /// The least seconds of a cut with these last stages, by the critical paths of others.
    fn path_secs(&mut self, n_stages: usize, n: usize, cut: &[usize]) -> f64 {
        self.n_left = self.n_left.saturating_sub(self.paths.effort(cut.len() - n_stages));
        self.paths.least(n_stages, n, cut)
    }

    /// The least bound of a cut whose last stages have these sums and terms.
    fn least(&self, n_stages: usize, n: usize, [sum_secs, term_secs]: [f64; 2]) -> f64 {
        let whole = |start: &Start| start.sum_secs + sum_secs + start.term_secs.max(term_secs);
        let starts = self.rows[n_stages][n].iter().map(whole);
        starts.fold(f64::INFINITY, f64::min) + self.bounding.fixed_secs()
    }
}

/// Those that no other is as good as in both figures.
fn undominated(mut starts: Vec<Start>) -> Vec<Start> {
    starts.sort_by(|a, b| a.sum_secs.total_cmp(&b.sum_secs).then(a.term_secs.total_cmp(&b.term_secs)));
    let mut least = f64::INFINITY;
    starts.retain(|start| {
        let is_better = start.term_secs < least;
        least = least.min(start.term_secs);
        is_better
    });
    starts
}

/// The entries of each stage, from the last one back.
fn cut(rows: &[Row], n_entries: usize, index: usize) -> Vec<usize> {
    let (mut n, mut index, mut cut) = (n_entries, index, Vec::new());
    for row in rows.iter().skip(1).rev() {
        let start = row[n][index];
        cut.push(start.n_last);
        (n, index) = (n - start.n_last, start.from);
    }
    cut.reverse();
    cut
}
