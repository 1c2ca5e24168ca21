//! One mixed stage solved exactly: ways of its operators from the front, those that cannot stay below a time
//! left out.
//!
//! Prices of memory bound what the operators behind take ([`Completion`]); ways of the operators before
//! ([`Label`]) that are no better than another one in anything go, and so do those that with this bound take
//! more than the time that is asked for. Reserves are taken apart into levels, as in `sweep.rs`; what a
//! recomputed run holds is counted as it is.

use super::super::Span;
use super::completion::{Completion, LEVELS, around, most_reserved_mib};
use super::mixed::{Code, Mixed};
use super::sweep::{MAX_MOVE_MS, is_allowed};
use rayon::prelude::*;

/// By how much more than its bound a stage is first asked to take, relatively, and how the next rise grows.
const RISE: (f64, f64) = (3e-3, 1.5);
/// Times of ways of a stage that are this close, relatively, are told apart no more.
const CLOSE: f64 = 4e-4;

/// Levels that are looked through side by side, whatever the number of threads: the ways found in them cut
/// the next ones short.
const AT_ONCE: usize = 3;

/// Ways of some operators after which a stage is left as it is known.
const MAX_MADE: u64 = 4_000_000;

/// What a level has.
struct Found {
    /// Its fastest way below a time.
    way: Option<(f64, Vec<Code>)>,
    /// Whether no ways were left out that promised less.
    is_exact: bool,
    /// Ways of some operators that were made.
    n_made: u64,
}

/// What is known of a stage.
pub struct Solved {
    /// No way takes fewer milliseconds.
    pub lower_ms: f64,
    /// A way.
    pub way: Option<(f64, Vec<Code>)>,
    /// Ways of some operators that were made.
    pub n_made: u64,
}

/// The fastest way of a stage that takes no less than `lower_ms`, if it takes no more than `cap_ms`.
///
/// Of more than `max_labels` ways of the operators before one, those that promise most are looked at.
pub fn solve(
    of: &Mixed,
    span: &Span,
    [mut lower_ms, cap_ms]: [f64; 2],
    max_labels: usize,
    is_way_wanted: bool,
) -> Solved {
    let searches: Vec<Search> =
        (0..LEVELS.len()).into_par_iter().map(|level| Search::new(of, span, level, lower_ms)).collect();
    let (mut rise, mut most_ms, mut is_exact, mut n_made) = (RISE.0, lower_ms, true, 0);
    while most_ms < cap_ms {
        most_ms = (most_ms * (1.0 + rise)).min(cap_ms);
        rise *= RISE.1;
        let mut best: Option<(f64, Vec<Code>)> = None;
        for some in searches.chunks(AT_ONCE) {
            if n_made > MAX_MADE {
                return Solved { lower_ms, way: best, n_made };
            }
            let most_ms = best.as_ref().map_or(most_ms, |best| best.0);
            let found: Vec<Found> = some.par_iter().map(|search| search.run(most_ms, max_labels)).collect();
            for found in found {
                is_exact &= found.is_exact;
                n_made += found.n_made;
                best = found.way.into_iter().chain(best).min_by(|a, b| a.0.total_cmp(&b.0));
            }
        }
        if is_exact {
            let least_ms = best.as_ref().map_or(most_ms, |best| best.0);
            lower_ms = lower_ms.max(least_ms * (1.0 - CLOSE));
        }
        if best.is_some() || !is_exact && !is_way_wanted {
            return Solved { lower_ms, way: best, n_made };
        }
    }
    Solved { lower_ms, way: None, n_made }
}

/// A way of the operators so far.
#[derive(Clone, Copy, Debug)]
struct Label {
    ms: f64,
    /// MiB of state, and of what is kept by all microbatches in flight.
    mib: f64,
    reserved: [f64; 2],
    weight_mib: f64,
    /// MiB that the largest recomputed run holds, and that the last one does.
    peak_mib: f64,
    run_mib: f64,
    /// MiB of the last operator that are kept unless the next one is recomputed too.
    open_mib: f64,
    code: Code,
    /// Position of the label that it extends, among those of the operator before.
    before: usize,
}

struct Search<'a> {
    of: &'a Mixed<'a>,
    span: &'a Span,
    level: usize,
    completion: Completion,
    /// Per operator: milliseconds that are told apart no more after it; all of them add up to [`CLOSE`].
    step_ms: Vec<f64>,
}

impl<'a> Search<'a> {
    fn new(of: &'a Mixed<'a>, span: &'a Span, level: usize, lower_ms: f64) -> Search<'a> {
        let is_end = |&op: &usize| op + 1 < span.end && of.ends_run(op + 1);
        let n_ends = (span.start..span.end).filter(is_end).count().max(1);
        let step = |op: usize| if is_end(&op) { CLOSE * lower_ms / n_ends as f64 } else { 0.0 };
        let step_ms = (span.start..span.end).map(step).collect();
        let completion = Completion::new(of, span, level, of.prices(span).to_vec());
        let coarse = Search { of, span, level, completion, step_ms };
        Search { completion: Completion::new(of, span, level, coarse.closer_prices()), ..coarse }
    }

    /// Prices around the one by which no way is below most.
    fn closer_prices(&self) -> Vec<f64> {
        let first = self.first(self.span.start);
        let bound_ms = |price: usize| {
            let values = first.iter().map(|label| self.value(self.span.start, label, price));
            values.fold(f64::INFINITY, f64::min)
        };
        // The last one is no neighbour: it only says whether the stage can fit.
        let prices = &self.completion.prices[..self.completion.prices.len() - 1];
        let bounds: Vec<f64> = (0..prices.len()).map(bound_ms).collect();
        around(prices, &bounds)
    }

    /// The fastest way of the level below a time.
    fn run(&self, most_ms: f64, max_labels: usize) -> Found {
        let (mut layers, mut is_exact, mut n_made): (Vec<Vec<Label>>, bool, u64) = (Vec::new(), true, 0);
        for op in self.span.start..self.span.end {
            let mut possible: Vec<(f64, Label)> = Vec::new();
            let mut keep = |label: Label| {
                n_made += 1;
                let least_ms = self.least_ms(op, &label, most_ms);
                possible.extend((least_ms <= most_ms).then_some((least_ms, label)));
            };
            match layers.last() {
                None => self.first(op).into_iter().for_each(keep),
                Some(last) => {
                    last.iter().enumerate().for_each(|(at, label)| self.next(op, at, label, &mut keep));
                }
            }
            if possible.is_empty() {
                return Found { way: None, is_exact, n_made };
            }
            let mut kept = self.undominated(op, &possible);
            if kept.len() > max_labels {
                is_exact = false;
                kept.sort_by(|a, b| a.0.total_cmp(&b.0));
                kept.truncate(max_labels);
            }
            layers.push(kept.into_iter().map(|(_, label)| label).collect());
        }
        Found { way: self.best(&layers, most_ms), is_exact, n_made }
    }

    fn first(&self, op: usize) -> Vec<Label> {
        let start = Label {
            ms: 0.0,
            mib: 0.0,
            reserved: [0.0; 2],
            weight_mib: 0.0,
            peak_mib: 0.0,
            run_mib: 0.0,
            open_mib: 0.0,
            code: 0,
            before: usize::MAX,
        };
        let (ways, in_flight) = (self.of.ways(self.span.n_devices), self.span.in_flight as f64);
        let enter = |way: usize| Label {
            ms: ways[way].send_before_ms(op, self.span),
            mib: ways[way].profiles[op].input_mib * in_flight,
            ..start
        };
        (0..ways.len()).flat_map(|way| self.with(op, way, enter(way))).collect()
    }

    fn next(&self, op: usize, before: usize, label: &Label, keep: &mut impl FnMut(Label)) {
        let ways = self.of.ways(self.span.n_devices);
        for (way, to) in ways.iter().enumerate() {
            let move_ms = to.moves_ms[label.code / 2][op];
            if move_ms <= MAX_MOVE_MS {
                self.with(op, way, Label { ms: label.ms + move_ms, before, ..*label }).for_each(&mut *keep);
            }
        }
    }

    /// An operator added: not recomputed, and recomputed.
    fn with(&self, op: usize, way: usize, mut label: Label) -> impl Iterator<Item = Label> {
        let (of, span) = (self.of, self.span);
        let own = &of.ways(span.n_devices)[way];
        let profile = &own.profiles[op];
        let (was_recomputed, in_flight) =
            (label.before != usize::MAX && label.code % 2 == 1, span.in_flight as f64);
        let (open_mib, is_last) = (label.open_mib, op + 1 == span.end);
        label.ms += profile.both_ms() + if is_last { own.send_after_ms(op, span) } else { 0.0 };
        label.mib += profile.state_mib;
        label.weight_mib += profile.weight_mib;
        if !is_last {
            let [forward, backward] = [profile.forward_reserved_mib, profile.backward_reserved_mib];
            label.reserved = [label.reserved[0].max(forward), label.reserved[1].max(backward)];
        }
        let plain = Label {
            mib: label.mib + (open_mib + own.kept_mib[op]) * in_flight,
            run_mib: 0.0,
            open_mib: 0.0,
            code: 2 * way,
            ..label
        };
        let mut again = Label {
            ms: label.ms + profile.forward_ms,
            open_mib: own.kept_mib[op],
            code: 2 * way + 1,
            ..label
        };
        if was_recomputed {
            let run_mib = label.run_mib + open_mib;
            again.peak_mib = label.peak_mib.max(run_mib);
            let is_cut = of.ends_run(op);
            again.run_mib = if is_cut { 0.0 } else { run_mib };
            again.mib += if is_cut { open_mib * in_flight } else { 0.0 };
        }
        let is_allowed = is_allowed(own, span, op, most_reserved_mib(of, self.level));
        let again = of.is_free(op).then_some(again);
        [Some(plain), again].into_iter().flatten().filter(move |_| is_allowed)
    }

    /// No way that begins like this takes fewer milliseconds, or all take more than `most_ms`.
    fn least_ms(&self, op: usize, label: &Label, most_ms: f64) -> f64 {
        let over_mib = self.over_mib(op, label);
        if op + 1 == self.span.end {
            let open_mib = label.open_mib * self.span.in_flight as f64;
            return if over_mib + open_mib <= 0.0 { label.ms } else { f64::INFINITY };
        }
        let mut least_ms: f64 = 0.0;
        for price in (0..self.completion.prices.len()).rev() {
            least_ms = least_ms.max(self.value_over(op, label, price, over_mib));
            if least_ms > most_ms {
                break;
            }
        }
        least_ms
    }

    /// MiB over the limit of all that is known.
    fn over_mib(&self, op: usize, label: &Label) -> f64 {
        let (of, behind) = (self.of, self.completion.reserved_mib[op - self.span.start]);
        let reserved_mib = label.reserved[0].max(behind[0]) + label.reserved[1].max(behind[1]);
        let level_mib = LEVELS[self.level] * of.limit_mib();
        label.mib + reserved_mib.max(label.weight_mib).max(level_mib) + label.peak_mib - of.limit_mib()
    }

    fn value(&self, op: usize, label: &Label, price: usize) -> f64 {
        self.value_over(op, label, price, self.over_mib(op, label))
    }

    /// What a way takes at least with all that follows, bytes at a price.
    fn value_over(&self, op: usize, label: &Label, price: usize, over_mib: f64) -> f64 {
        let (completion, is_recomputed) = (&self.completion, label.code % 2 == 1);
        let class = completion.class_of[label.code / 2];
        let ms_per_mib = completion.prices[price];
        let open_ms = ms_per_mib * label.open_mib * self.span.in_flight as f64;
        let [plain, run] = completion.after[op - self.span.start][class * completion.prices.len() + price];
        let is_cut = op + 1 < self.span.end && self.of.ends_run(op + 1);
        let rest_ms = match is_recomputed {
            true => (plain + open_ms).min(run + if is_cut { open_ms } else { 0.0 }),
            false => plain.min(run),
        };
        label.ms + rest_ms + ms_per_mib * over_mib
    }

    /// Without those that another one with the same last degrees and recomputation is hardly worse than.
    fn undominated(&self, op: usize, labels: &[(f64, Label)]) -> Vec<(f64, Label)> {
        let step_ms = self.step_ms[op - self.span.start];
        // Keys are far smaller than labels; numbers that are not below nothing are in the order of their
        // bits.
        let key = |(at, (_, label)): (usize, &(f64, Label))| {
            let state = (self.completion.class_of[label.code / 2], label.code % 2);
            let n_steps = if step_ms > 0.0 { (label.ms / step_ms).floor() } else { label.ms };
            let numbers = [n_steps, label.mib, label.ms].map(f64::to_bits);
            (state, numbers, label.code, at)
        };
        let mut keys: Vec<_> = labels.iter().enumerate().map(key).collect();
        keys.sort_unstable();
        let mut kept = Vec::new();
        for keys in keys.chunk_by(|a, b| a.0 == b.0) {
            // What else a way holds takes few values: of each the least MiB so far.
            let mut least: Vec<([f64; 6], f64)> = Vec::new();
            for label in keys.iter().map(|key| &labels[key.3]) {
                let holds = self.holds(&label.1);
                let is_no_more = |(other, mib): &([f64; 6], f64)| {
                    *mib <= label.1.mib && other.iter().zip(&holds).all(|(a, b)| a <= b)
                };
                if !least.iter().any(is_no_more) {
                    least.retain(|(other, _)| *other != holds);
                    least.push((holds, label.1.mib));
                    kept.push(*label);
                }
            }
        }
        kept
    }

    /// What a way holds beside what all microbatches keep.
    fn holds(&self, label: &Label) -> [f64; 6] {
        let weight_mib = label.weight_mib.max(LEVELS[self.level] * self.of.limit_mib());
        [label.reserved[0], label.reserved[1], label.peak_mib, label.run_mib, label.open_mib, weight_mib]
    }

    fn best(&self, layers: &[Vec<Label>], most_ms: f64) -> Option<(f64, Vec<Code>)> {
        let last = layers.last()?;
        let best = (0..last.len()).min_by(|&a, &b| last[a].ms.total_cmp(&last[b].ms))?;
        let (mut codes, mut at) = (Vec::new(), best);
        for layer in layers.iter().rev() {
            codes.push(layer[at].code);
            at = layer[at].before;
        }
        codes.reverse();
        (last[best].ms <= most_ms).then_some((last[best].ms, codes))
    }
}
