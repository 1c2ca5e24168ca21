//! What the searches find and what they ask for. The other tests say that a plan is right; a bound that
//! closes less or a tie that falls otherwise shows here alone. Plans are reproducible, so every line is
//! exact: one that changes is a change of behaviour, to be read before it is taken over.

use super::super::*;
use insta::assert_snapshot;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Layers of `LAYER` units, whose stages take what their units do and a little for where they are cut; both
/// figures of a stage are off by some percent.
struct Layered {
    n_layers: usize,
    n_devices: usize,
    /// Units times microbatches that fit on a device.
    memory: usize,
    rounds: f64,
    is_swept: bool,
    n_lower: AtomicU64,
    n_upper: AtomicU64,
    n_refined: AtomicU64,
}

const LAYER: usize = 5;
const WORK: [f64; LAYER] = [3.0, 1.0, 4.0, 1.5, 2.0];
const CUT_MS: [f64; LAYER] = [0.1, 0.9, 0.3, 0.7, 0.2];

fn layered(n_layers: usize, n_devices: usize, memory: usize, rounds: f64) -> Layered {
    let none = || AtomicU64::new(0);
    Layered {
        n_layers,
        n_devices,
        memory,
        rounds,
        is_swept: false,
        n_lower: none(),
        n_upper: none(),
        n_refined: none(),
    }
}

impl Layered {
    fn ms(&self, span: &Span) -> f64 {
        let n_units = span.end - span.start;
        if n_units * span.in_flight > self.memory * span.n_devices {
            return f64::INFINITY;
        }
        let work = self.busy_before(span.end) - self.busy_before(span.start);
        let cuts = CUT_MS[span.start % LAYER] + CUT_MS[span.end % LAYER];
        work / span.n_devices as f64 + cuts + 1.7 * (span.n_devices - 1) as f64 + 0.2 * f64::from(span.links)
    }
}

impl Stages for Layered {
    fn n_units(&self) -> usize {
        self.n_layers * LAYER
    }
    fn n_devices(&self) -> usize {
        self.n_devices
    }
    fn groups(&self) -> &[usize] {
        &[1, 2, 4]
    }
    fn max_stages(&self) -> usize {
        self.n_devices
    }
    fn is_allowed(&self, first_device: usize, n_devices: usize) -> bool {
        first_device.is_multiple_of(n_devices)
    }
    fn links(&self, first_device: usize, _: usize) -> u8 {
        u8::from(first_device.is_multiple_of(4))
    }
    fn busy_before(&self, unit: usize) -> f64 {
        (0..unit).map(|unit| WORK[unit % LAYER]).sum()
    }
    fn kind(&self, unit: usize) -> usize {
        unit % LAYER
    }
    fn is_better_end(&self, a: usize, b: usize) -> bool {
        a == 0 && b == 1
    }
    fn lower_ms(&self, span: &Span) -> f64 {
        self.n_lower.fetch_add(1, Relaxed);
        0.97 * self.ms(span)
    }
    fn upper_ms(&self, span: &Span) -> f64 {
        self.n_upper.fetch_add(1, Relaxed);
        1.04 * self.ms(span)
    }
    fn quick_ms(&self, span: &Span) -> f64 {
        (self.busy_before(span.end) - self.busy_before(span.start)) / (2 * span.n_devices) as f64
    }
    fn is_coarse(&self, unit: usize) -> bool {
        unit.is_multiple_of(LAYER)
    }
    fn is_swept(&self) -> bool {
        self.is_swept
    }
    fn refined(&self, span: &Span, cap: f64, _: usize) -> [f64; 2] {
        self.n_refined.fetch_add(1, Relaxed);
        let ms = self.ms(span);
        [ms, if ms < cap { ms } else { f64::INFINITY }]
    }
    fn rounds(&self) -> f64 {
        self.rounds
    }
}

/// The stages that were found, and what was asked for: one thread, for what is asked for in a race is asked
/// for twice.
fn searched(chains: &[Layered], known: Option<f64>, effort: Effort) -> String {
    let solvers: Vec<Solver<Layered>> = chains.iter().map(Solver::new).collect();
    let pool = rayon::ThreadPoolBuilder::new().num_threads(1).build().expect("a thread");
    let best = pool.install(|| search(&solvers, known, effort));
    described(chains, std::slice::from_ref(&best))
}

fn described(chains: &[Layered], found: &[Best]) -> String {
    let asked = chains.iter().map(|it| [&it.n_lower, &it.n_upper, &it.n_refined].map(|n| n.load(Relaxed)));
    let asked = asked.fold([0; 3], |sum, more| std::array::from_fn(|at| sum[at] + more[at]));
    let line = |best: &Best| {
        let stages = best.spans.iter().map(|span| format!("{}x{}", span.end - span.start, span.n_devices));
        let stages = stages.collect::<Vec<_>>().join(" ");
        format!("{:.6} >= {:.6} {:?} {:?}: {stages}; ", best.cost, best.bound, best.problem, best.stop)
    };
    found.iter().map(line).collect::<String>() + &format!("asked {asked:?}")
}

#[test]
fn chains_of_layers() {
    let of = |chain: Layered| searched(&[chain], None, Effort::default());
    assert_snapshot!(of(layered(3, 4, 99, 7.0)), @"106.964000 >= 99.755277 Some(0) Done: 7x2 8x2; asked [78, 43, 0]");
    assert_snapshot!(of(layered(6, 8, 9, 15.0)), @"248.196000 >= 231.478154 Some(0) Done: 12x4 8x2 10x2; asked [1742, 142, 0]");
    assert_snapshot!(of(layered(6, 8, 6, 3.0)), @"80.340000 >= 74.543021 Some(0) Done: 12x4 18x4; asked [2122, 147, 0]");
    assert_snapshot!(of(layered(16, 8, 40, 31.0)), @"913.224000 >= 851.543573 Some(0) Done: 20x2 20x2 20x2 20x2; asked [802, 132, 0]");
    assert_snapshot!(of(layered(6, 8, 1, 3.0)), @"inf >= inf None Done: ; asked [1697, 0, 0]");
    assert_snapshot!(of(Layered { is_swept: true, ..layered(6, 8, 9, 15.0) }), @"238.650000 >= 238.609800 Some(0) Done: 12x4 8x2 10x2; asked [1195, 0, 5]");
    assert_snapshot!(of(Layered { is_swept: true, ..layered(16, 8, 40, 0.0) }), @"57.000000 >= 56.994300 Some(0) Done: 35x4 45x4; asked [6299, 0, 160]");
}

#[test]
fn several_problems_and_limits() {
    let chains = || [1.0, 7.0, 31.0].map(|rounds| layered(5, 8, 12, rounds));
    let of = |known, effort| searched(&chains(), known, effort);
    assert_snapshot!(of(None, Effort::default()), @"40.664000 >= 37.536584 Some(0) Done: 12x4 13x4; asked [2213, 779, 0]");
    assert_snapshot!(of(Some(40.0), Effort::default()), @"40.000000 >= 37.537201 None Done: ; asked [2085, 605, 0]");
    assert_snapshot!(of(None, Effort { max_plans: 2, ..Effort::default() }), @"47.216000 >= 24.842763 Some(0) Limit: 3x2 1x1 1x1 20x4; asked [1802, 645, 0]");
    assert_snapshot!(of(None, Effort { tolerance: 0.05, ..Effort::default() }), @"40.664000 >= 37.534935 Some(0) Done: 12x4 13x4; asked [2201, 778, 0]");
    assert_snapshot!(of(None, Effort { tolerance: 0.0, ..Effort::default() }), @"40.664000 >= 37.537354 Some(0) Done: 12x4 13x4; asked [2205, 779, 0]");
}

#[test]
fn the_next_best_plans() {
    let chains = [7.0, 8.0].map(|rounds| layered(4, 4, 20, rounds));
    let solvers: Vec<Solver<Layered>> = chains.iter().map(Solver::new).collect();
    let pool = rayon::ThreadPoolBuilder::new().num_threads(1).build().expect("a thread");
    let found = pool.install(|| top(&solvers, 4, Effort::default()));
    assert_snapshot!(described(&chains, &found), @"127.088000 >= 118.528767 Some(0) Done: 10x2 10x2; 135.512000 >= 126.787361 Some(0) Done: 5x1 5x1 5x1 5x1; 136.032000 >= 126.854726 Some(0) Done: 5x1 5x1 10x2; 137.488000 >= 128.219708 Some(0) Done: 10x2 5x1 5x1; asked [118, 49, 0]");
}
