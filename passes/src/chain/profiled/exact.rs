//! One mixed stage solved exactly: ways of its operators from the front, those that cannot stay below a time left out.
//!
//! Prices of memory bound what the operators behind take ([`Completion`]); ways of the operators before ([`Label`]) that are no better than another
//! one in anything go, and so do those that with this bound take more than the time that is asked for. Reserves are taken apart into boxes, as
//! in `boxes.rs`; what a recomputed run holds is counted as it is.

use super::super::Span;
use super::boxes::{
    Box, MAX_MOVE_MS, Price, RESERVES, classes, is_allowed, least_reserved_mib, most_reserved_mib, own_values,
};
use super::mixed::{Code, Mixed, Way};

/// More ways of the operators before are not looked at; of more, those that promise most are.
const MAX_LABELS: usize = 1500;
/// By how much more than its bound a stage is first asked to take, relatively, and how the next rise grows.
const RISE: (f64, f64) = (3e-3, 1.5);
/// Times of ways of a stage that are this close, relatively, are told apart no more.
const CLOSE: f64 = 4e-4;

/// What is known of a stage.
pub struct Solved {
    /// No way takes fewer milliseconds.
    pub lower_ms: f64,
    /// A way.
    pub way: Option<(f64, Vec<Code>)>,
}

/// The fastest way of a stage that takes no less than `lower_ms`, if it takes no more than `cap_ms`.
pub fn solve(of: &Mixed, span: &Span, mut lower_ms: f64, cap_ms: f64) -> Solved {
    let searches: Vec<Search> =
        (0..RESERVES).map(|reserve| Search::new(of, span, [reserve, 0], cap_ms)).collect();
    let (mut rise, mut most_ms, mut is_exact) = (RISE.0, lower_ms, true);
    while most_ms < cap_ms {
        most_ms = (most_ms * (1.0 + rise)).min(cap_ms);
        rise *= RISE.1;
        let mut best: Option<(f64, Vec<Code>)> = None;
        for search in &searches {
            let found = search.run(best.as_ref().map_or(most_ms, |best| best.0), &mut is_exact);
            best = found.or(best);
        }
        if is_exact {
            let least_ms = best.as_ref().map_or(most_ms, |best| best.0);
            lower_ms = lower_ms.max(least_ms * (1.0 - CLOSE));
        }
        if best.is_some() {
            return Solved { lower_ms, way: best };
        }
    }
    Solved { lower_ms, way: None }
}

/// Bounds on what follows an operator: milliseconds and priced bytes.
struct Completion {
    prices: Vec<f64>,
    /// The ways by their degrees.
    classes: Vec<Vec<usize>>,
    class_of: Vec<usize>,
    /// Per operator, class and price: what follows if it is recomputed no more, and if it is.
    after: Vec<Vec<[f64; 2]>>,
    /// Per operator: MiB that those behind reserve at least, in the forward and in the backward part.
    reserved_mib: Vec<[f64; 2]>,
}

impl Completion {
    fn new(of: &Mixed, span: &Span, row: Box) -> Completion {
        let ways = of.ways(span.n_devices);
        let classes = classes(ways);
        let class_of =
            (0..ways.len()).filter_map(|way| classes.iter().position(|class| class.contains(&way))).collect();
        let prices = of.prices(span);
        let prices: Vec<f64> =
            prices.iter().filter(|price| !price.is_by_weight).map(|it| it.ms_per_mib).collect();
        let n_ops = span.end - span.start;
        let empty = vec![[0.0; 2]; classes.len() * prices.len()];
        let mut completion = Completion {
            prices,
            classes,
            class_of,
            after: vec![empty; n_ops],
            reserved_mib: vec![[0.0; 2]; n_ops],
        };
        for op in (span.start..span.end - 1).rev() {
            let at = op - span.start;
            completion.reserved_mib[at] = completion.reserved_behind(of, span, op, row);
            completion.after[at] = completion.behind(of, span, op, ways, row);
        }
        completion
    }

    fn reserved_behind(&self, of: &Mixed, span: &Span, op: usize, row: Box) -> [f64; 2] {
        let behind = self.reserved_mib[op + 1 - span.start];
        if op + 2 >= span.end {
            return behind;
        }
        let (ways, most_mib) = (of.ways(span.n_devices), most_reserved_mib(of, row));
        let mut least = [f64::INFINITY; 2];
        for way in ways.iter().filter(|way| is_allowed(way, span, op + 1, most_mib)) {
            let profile = &way.profiles[op + 1];
            least = [least[0].min(profile.forward_reserved_mib), least[1].min(profile.backward_reserved_mib)];
        }
        [behind[0].max(least[0]), behind[1].max(least[1])]
    }

    /// Per class and price: what follows an operator.
    fn behind(&self, of: &Mixed, span: &Span, op: usize, ways: &[Way], row: Box) -> Vec<[f64; 2]> {
        let (n, n_prices, next) = (self.classes.len(), self.prices.len(), op + 1);
        let mut behind = vec![[f64::INFINITY; 2]; n * n_prices];
        let most_mib = most_reserved_mib(of, row);
        for way in ways.iter().enumerate() {
            if !is_allowed(way.1, span, next, most_mib) {
                continue;
            }
            for (at, &ms_per_mib) in self.prices.iter().enumerate() {
                let value = self.value(of, span, next, way, (at, ms_per_mib));
                for class in 0..n {
                    let move_ms = way.1.moves_ms[self.classes[class][0]][next];
                    if move_ms <= MAX_MOVE_MS {
                        let into = &mut behind[class * n_prices + at];
                        *into = [into[0].min(move_ms + value[0]), into[1].min(move_ms + value[1])];
                    }
                }
            }
        }
        behind
    }

    /// What an operator takes with all behind it: not recomputed, and recomputed.
    fn value(
        &self,
        of: &Mixed,
        span: &Span,
        op: usize,
        (at, way): (usize, &Way),
        (price, ms_per_mib): (usize, f64),
    ) -> [f64; 2] {
        let own = own_values(way, span, op, &Price { ms_per_mib, is_by_weight: false });
        let [plain, run] = self.after[op - span.start][self.class_of[at] * self.prices.len() + price];
        if op + 1 == span.end {
            return [own[0], if of.is_free(op) { own[1] } else { f64::INFINITY }];
        }
        let goes_on = if of.ends_run(op + 1) { own[1] } else { own[2] };
        let recomputed = if of.is_free(op) { (own[1] + plain).min(goes_on + run) } else { f64::INFINITY };
        [own[0] + plain.min(run), recomputed]
    }
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
    row: Box,
    completion: Completion,
    /// Milliseconds that are told apart after each operator: what all of them add up to is [`CLOSE`].
    step_ms: f64,
}

impl<'a> Search<'a> {
    fn new(of: &'a Mixed<'a>, span: &'a Span, row: Box, lower_ms: f64) -> Search<'a> {
        let step_ms = CLOSE * lower_ms / (span.end - span.start) as f64;
        Search { of, span, row, completion: Completion::new(of, span, row), step_ms }
    }

    /// The fastest way of the box below a time; `is_exact` no more where some were left out.
    fn run(&self, most_ms: f64, is_exact: &mut bool) -> Option<(f64, Vec<Code>)> {
        let mut layers: Vec<Vec<Label>> = Vec::new();
        for op in self.span.start..self.span.end {
            let made = match layers.last() {
                None => self.first(op),
                Some(last) => {
                    last.iter().enumerate().flat_map(|(at, label)| self.next(op, at, label)).collect()
                }
            };
            let least_ms = |label: &Label| self.least_ms(op, label);
            let possible =
                made.into_iter().map(|label| (least_ms(&label), label)).filter(|(ms, _)| *ms <= most_ms);
            let mut kept = self.undominated(possible.collect());
            if kept.len() > MAX_LABELS {
                *is_exact = false;
                kept.sort_by(|a, b| a.0.total_cmp(&b.0));
                kept.truncate(MAX_LABELS);
            }
            layers.push(kept.into_iter().map(|(_, label)| label).collect());
        }
        self.best(&layers, most_ms)
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

    fn next(&self, op: usize, before: usize, label: &Label) -> Vec<Label> {
        let ways = self.of.ways(self.span.n_devices);
        let from = label.code / 2;
        let moved = |way: usize| (way, ways[way].moves_ms[from][op]);
        let possible = (0..ways.len()).map(moved).filter(|(_, move_ms)| *move_ms <= MAX_MOVE_MS);
        possible
            .flat_map(|(way, move_ms)| self.with(op, way, Label { ms: label.ms + move_ms, before, ..*label }))
            .collect()
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
        let is_allowed = is_allowed(own, span, op, most_reserved_mib(of, self.row));
        let again = of.is_free(op).then_some(again);
        [Some(plain), again].into_iter().flatten().filter(move |_| is_allowed)
    }

    /// No way that begins like this takes fewer milliseconds; infinite where none fits.
    fn least_ms(&self, op: usize, label: &Label) -> f64 {
        let (of, completion, at) = (self.of, &self.completion, op - self.span.start);
        let behind = completion.reserved_mib[at];
        let reserved_mib = label.reserved[0].max(behind[0]) + label.reserved[1].max(behind[1]);
        let spare_mib =
            reserved_mib.max(label.weight_mib).max(least_reserved_mib(of, self.row)) + label.peak_mib;
        let over_mib = label.mib + spare_mib - of.limit_mib();
        let open_mib = label.open_mib * self.span.in_flight as f64;
        if op + 1 == self.span.end {
            return if over_mib + open_mib <= 0.0 { label.ms } else { f64::INFINITY };
        }
        let (is_cut, is_recomputed) = (of.ends_run(op + 1), label.code % 2 == 1);
        let class = completion.class_of[label.code / 2];
        let after = &completion.after[at][class * completion.prices.len()..];
        let by_price = completion.prices.iter().zip(after).map(|(price, &[plain, run])| {
            let open_ms = price * open_mib;
            let rest_ms = match is_recomputed {
                true => (plain + open_ms).min(run + if is_cut { open_ms } else { 0.0 }),
                false => plain.min(run),
            };
            label.ms + rest_ms + price * over_mib
        });
        by_price.fold(0.0, f64::max)
    }

    /// Without those that another one with the same last degrees and recomputation is hardly worse than.
    fn undominated(&self, mut labels: Vec<(f64, Label)>) -> Vec<(f64, Label)> {
        let state = |label: &Label| (self.completion.class_of[label.code / 2], label.code % 2);
        let step = |label: &Label| (label.ms / self.step_ms) as u64;
        labels.sort_by(|(_, a), (_, b)| {
            let in_step = a.mib.total_cmp(&b.mib).then(a.ms.total_cmp(&b.ms)).then(a.code.cmp(&b.code));
            state(a).cmp(&state(b)).then(step(a).cmp(&step(b))).then(in_step)
        });
        let mut kept: Vec<(f64, Label)> = Vec::new();
        let mut first = 0;
        for label in labels {
            if kept.last().is_some_and(|last| state(&last.1) != state(&label.1)) {
                first = kept.len();
            }
            if !kept[first..].iter().any(|other| is_never_worse(&other.1, &label.1)) {
                kept.push(label);
            }
        }
        kept
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

/// Whether one way is no worse than another one in memory.
fn is_never_worse(a: &Label, b: &Label) -> bool {
    a.mib <= b.mib
        && a.peak_mib <= b.peak_mib
        && a.run_mib <= b.run_mib
        && a.open_mib <= b.open_mib
        && a.reserved[0] <= b.reserved[0]
        && a.reserved[1] <= b.reserved[1]
        && a.weight_mib <= b.weight_mib
}
