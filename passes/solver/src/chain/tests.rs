//! The search against all plans of small chains.

mod effort;

use super::*;
use proptest::prelude::*;

/// A chain whose stages take what they are told.
#[derive(Debug)]
struct Told {
    work: Vec<f64>,
    n_devices: usize,
    groups: Vec<usize>,
    /// Seeds what a stage takes beyond its work.
    seed: u64,
    /// In-flight microbatches times units that fit.
    memory: usize,
    rounds: f64,
}

impl Told {
    fn stage_ms(&self, span: &Span) -> f64 {
        if (span.end - span.start) * span.in_flight > self.memory * span.n_devices {
            return f64::INFINITY;
        }
        let work: f64 = self.work[span.start..span.end].iter().sum();
        let key =
            [span.start, span.end, span.n_devices, span.in_flight].iter().fold(self.seed, |key, &part| {
                (key ^ part as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(29)
            });
        work / span.n_devices as f64 + (key % 97) as f64 / 20.0
    }

    /// The least cost of all plans of what is left, the slowest and the sum so far given.
    fn least(&self, start: usize, first: usize, left: usize, longest: f64, sum: f64) -> f64 {
        if start == self.work.len() && first == self.n_devices && left == 0 {
            return longest * self.rounds + sum;
        }
        let mut least = f64::INFINITY;
        if left == 0 {
            return least;
        }
        for end in start + 1..=self.work.len() {
            for &n_devices in self.groups.iter().filter(|&&group| first + group <= self.n_devices) {
                let ms = self.stage_ms(&Span { start, end, n_devices, links: 0, in_flight: left });
                least = least.min(self.least(end, first + n_devices, left - 1, longest.max(ms), sum + ms));
            }
        }
        least
    }
}

impl Stages for Told {
    fn n_units(&self) -> usize {
        self.work.len()
    }
    fn n_devices(&self) -> usize {
        self.n_devices
    }
    fn groups(&self) -> &[usize] {
        &self.groups
    }
    fn max_stages(&self) -> usize {
        self.n_devices
    }
    fn is_allowed(&self, _: usize, _: usize) -> bool {
        true
    }
    fn links(&self, _: usize, _: usize) -> u8 {
        0
    }
    fn busy_before(&self, unit: usize) -> f64 {
        self.work[..unit].iter().sum()
    }
    fn kind(&self, unit: usize) -> usize {
        unit
    }
    fn is_better_end(&self, _: usize, _: usize) -> bool {
        false
    }
    fn lower_ms(&self, span: &Span) -> f64 {
        self.stage_ms(span)
    }
    fn upper_ms(&self, span: &Span) -> f64 {
        self.stage_ms(span)
    }
    fn rounds(&self) -> f64 {
        self.rounds
    }
}

fn chain() -> impl Strategy<Value = Told> {
    let sizes = prop_oneof![Just(vec![1]), Just(vec![1, 2]), Just(vec![1, 2, 4])];
    (
        prop::collection::vec(1u32..9, 2..7),
        1usize..6,
        sizes,
        any::<u64>(),
        2usize..9,
        prop_oneof![0u32..4, 0u32..40],
    )
        .prop_map(|(work, n_devices, groups, seed, memory, rounds)| Told {
            work: work.into_iter().map(f64::from).collect(),
            n_devices,
            groups,
            seed,
            memory,
            rounds: f64::from(rounds),
        })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn no_plan_is_better_than_the_one_found(chain in chain()) {
        let least = (1..=chain.n_devices).map(|left| chain.least(0, 0, left, 0.0, 0.0)).fold(f64::INFINITY, f64::min);
        let exact = Effort { tolerance: 0.0, ..Effort::default() };
        let found = search(&[Solver::new(&chain)], None, exact);
        if least.is_finite() {
            prop_assert!((found.cost / least - 1.0).abs() < 1e-9, "found {}, least {least}", found.cost);
            let again = Solver::new(&chain).cost(&found.spans, Side::Upper);
            prop_assert!((again / least - 1.0).abs() < 1e-9, "the spans take {again}");
            prop_assert!(found.bound <= least * (1.0 + 1e-9), "bound {}", found.bound);
        } else {
            prop_assert!(found.cost.is_infinite() && found.spans.is_empty());
        }
    }
}

#[test]
fn a_known_plan_that_nothing_beats_is_told_by_no_problem() {
    let chain = Told { work: vec![4.0, 4.0], n_devices: 2, groups: vec![1], seed: 1, memory: 9, rounds: 7.0 };
    let found = search(&[Solver::new(&chain)], None, Effort::default());
    let again = search(&[Solver::new(&chain)], Some(found.cost * 0.5), Effort::default());
    assert_eq!(found.problem, Some(0));
    assert_eq!(again.problem, None);
}

impl Told {
    /// The least cost of every number of stages and devices of each, of what is left.
    fn classes(&self, start: usize, groups: &[usize], (longest, sum): (f64, f64), found: &mut Classes) {
        let (left, first) = (groups[0], groups[1..].iter().sum::<usize>());
        if left == 0 {
            if start == self.work.len() && first == self.n_devices {
                let least = found.entry(groups[1..].to_vec()).or_insert(f64::INFINITY);
                *least = least.min(longest * self.rounds + sum);
            }
            return;
        }
        for end in start + 1..=self.work.len() {
            for &n_devices in self.groups.iter().filter(|&&group| first + group <= self.n_devices) {
                let ms = self.stage_ms(&Span { start, end, n_devices, links: 0, in_flight: left });
                let groups = [&[left - 1], &groups[1..], &[n_devices]].concat();
                self.classes(end, &groups, (longest.max(ms), sum + ms), found);
            }
        }
    }
}

/// Per devices of the stages the least cost.
type Classes = std::collections::BTreeMap<Vec<usize>, f64>;

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]

    #[test]
    fn the_k_best_plans_are_those_of_all_numbers_of_stages_and_devices(chain in chain(), k in 1usize..6) {
        let mut classes = Classes::new();
        (1..=chain.n_devices).for_each(|left| chain.classes(0, &[left], (0.0, 0.0), &mut classes));
        let mut least: Vec<f64> = classes.values().copied().filter(|cost| cost.is_finite()).collect();
        least.sort_by(f64::total_cmp);
        let exact = Effort { tolerance: 0.0, ..Effort::default() };
        let found = top(&[Solver::new(&chain)], k, exact);
        prop_assert_eq!(found.len(), least.len().min(k));
        for (found, least) in found.iter().zip(least) {
            prop_assert!((found.cost / least - 1.0).abs() < 1e-9, "found {}, least {least}", found.cost);
            prop_assert!(found.bound <= least * (1.0 + 1e-9), "bound {} of {least}", found.bound);
        }
        let groups = |best: &Best| best.spans.iter().map(|span| span.n_devices).collect::<Vec<_>>();
        let distinct: std::collections::BTreeSet<Vec<usize>> = found.iter().map(groups).collect();
        prop_assert_eq!(distinct.len(), found.len());
    }
}

#[test]
fn a_search_that_may_make_no_plan_says_so_and_bounds_what_it_did_not_look_at() {
    let chain =
        Told { work: vec![4.0; 6], n_devices: 4, groups: vec![1, 2], seed: 17, memory: 9, rounds: 7.0 };
    let best = search(&[Solver::new(&chain)], None, Effort::default());
    let limited = search(&[Solver::new(&chain)], None, Effort { max_plans: 1, ..Effort::default() });
    assert_eq!((best.stop, limited.stop), (Stop::Done, Stop::Limit));
    assert!(limited.bound <= best.cost && best.cost <= limited.cost);
    assert!(
        search(&[Solver::new(&chain)], None, Effort { max_plans: 0, ..Effort::default() }).spans.is_empty()
    );
}
