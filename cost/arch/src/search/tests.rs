//! The search against one that estimates and places every accelerator.

use super::*;
use crate::mapping::{Cache, Mode};
use crate::space::Exponents;
use crate::technology::Technology;
use crate::testing::llama_layer;

/// One layer of Llama on a small space of accelerators.
fn question(technology: &Technology) -> Question {
    let space = Space {
        n_tensor: Exponents { most: 3, least: 0 },
        n_vector: Exponents { most: 1, least: 0 },
        width: Exponents { most: 8, least: 6 },
        depth: Exponents { most: 8, least: 7 },
        global_bytes: Exponents { most: 27, least: 25 },
        ..Space::phaze(technology).expect("sizes are known")
    };
    let microbatches = vec![(1, vec![llama_layer(1)])];
    let models = vec![Model { name: "llama".to_owned(), weight: 1.0, microbatches }];
    Question { space, models, hbm_bytes: vec![32 << 30, 80 << 30], recompute: vec![false, true] }
}

/// A pipeline of equal layers: more memory is faster, recomputing takes another forward pass and less memory.
struct Equal;

impl Place for Equal {
    fn samples_per_sec(&self, run: &Run, layers: &[LayerSecs]) -> Option<f64> {
        let fits = run.recompute || run.hbm_bytes >= 80 << 30;
        fits.then(|| self.most_samples_per_sec(run, layers))
    }

    fn most_samples_per_sec(&self, run: &Run, layers: &[LayerSecs]) -> f64 {
        let again = if run.recompute { layers[0].forward } else { 0.0 };
        1.0 / (layers[0].forward + layers[0].backward + again)
    }
}

#[test]
fn bounds_exclude_no_accelerator_of_the_front() {
    let technology = Technology::cacti_22nm();
    let question = question(&technology);
    let points = question.space.points(&technology).expect("sizes are known");
    for mode in [Mode::Phaze, Mode::Native] {
        let estimator = Estimator::new(&technology, mode, Cache::default());
        let found = logged(&question, &points, &estimator, Vec::new()).0;
        let all = points.iter().map(|point| {
            let template = question.space.template(point.cores);
            let times = estimator.layer_secs(&template, &llama_layer(1)).expect("it can be priced");
            candidate(&question, &Equal, *point, &[times])
        });
        assert_eq!(found.front, front(all.collect()));
        assert!(found.n_estimated < found.n_points && found.n_points == points.len());
        let most = found.front.iter().filter_map(|it| it.samples_per_sec).fold(0.0, f64::max);
        assert_eq!(found.best[0].as_ref().and_then(|best| best.samples_per_sec), Some(most));
        let counts = [found.n_points, found.n_estimated, found.n_placed, found.front.len()];
        eprintln!("{mode:?}: accelerators, estimated, placed, in the front: {counts:?}");
    }
}

#[test]
fn the_widest_limit_of_a_grid_holds_every_accelerator() {
    let technology = Technology::cacti_22nm();
    let points = question(&technology).space.points(&technology).expect("sizes are known");
    for n in 1..=64 {
        let limits = Limit::grid(&points, n);
        let is_widest = |limit: &Limit| points.iter().all(|point| limit.allows(point));
        assert!(limits.iter().any(is_widest), "{n}");
    }
}

#[test]
fn the_best_alone_are_those_of_the_whole_search() {
    let technology = Technology::cacti_22nm();
    let mut question = question(&technology);
    let points = question.space.points(&technology).expect("sizes are known");
    let other =
        Model { name: "small".to_owned(), weight: 2.0, microbatches: vec![(1, vec![llama_layer(4)])] };
    question.models.push(other);
    let limits = Limit::grid(&points, 3);
    for mode in [Mode::Phaze, Mode::Native] {
        let estimator = Estimator::new(&technology, mode, Cache::default());
        let whole = logged(&question, &points, &estimator, Vec::new()).0;
        let visits = best_first(&question, (&points, &limits), &estimator, &Equal, &mut |_, _| {});
        let alone = found_best(visits.expect("it can be priced"), question.models.len(), &limits);
        // What is best within a limit is the best of the whole front there.
        for limit in limits.iter() {
            let rates = [&whole, &alone].map(|it| limit.best(&it.front).and_then(|it| it.samples_per_sec));
            assert_eq!(rates[0], rates[1], "{limit:?}");
        }
        assert_eq!((&alone.best, &alone.near[0]), (&whole.best, &whole.near[0]));
        // Those of two halves are the same together.
        let half = |at: usize| ordered(&points).into_iter().skip(at).step_by(2).collect::<Vec<Point>>();
        let of_half = |at| best_first(&question, (&half(at), &limits), &estimator, &Equal, &mut |_, _| {});
        let halves = [0, 1].map(|at| of_half(at).expect("it can be priced"));
        let together = found_best(halves.into_iter().flatten(), question.models.len(), &limits);
        assert_eq!((&together.best, &together.front), (&alone.best, &alone.front));
        assert!(alone.n_placed < whole.n_placed, "{} of {}", alone.n_placed, whole.n_placed);
    }
}

#[test]
fn parts_find_together_what_the_whole_finds() {
    let technology = Technology::cacti_22nm();
    let question = question(&technology);
    let points = question.space.points(&technology).expect("sizes are known");
    let estimator = Estimator::new(&technology, Mode::Phaze, Cache::default());
    let whole = logged(&question, &points, &estimator, Vec::new()).0;
    let parts = (0..3).flat_map(|at| {
        let part: Vec<Point> = ordered(&points).into_iter().skip(at).step_by(3).collect();
        logged(&question, &part, &estimator, Vec::new()).1
    });
    let written: Vec<String> =
        parts.map(|visit| serde_json::to_string(&visit).expect("it is written")).collect();
    let together = found(written.iter().map(|text| serde_json::from_str(text).expect("it is read")), 1);
    assert_eq!((together.front, together.best), (whole.front, whole.best));
}

#[test]
fn a_search_that_goes_on_behind_what_was_visited_visits_the_rest_alike() {
    let technology = Technology::cacti_22nm();
    let question = question(&technology);
    let points = question.space.points(&technology).expect("sizes are known");
    let estimator = Estimator::new(&technology, Mode::Native, Cache::default());
    let (whole, visits) = logged(&question, &points, &estimator, Vec::new());
    for n_visited in [1, CHUNK - 1, CHUNK, points.len() - 1, points.len()] {
        let (again, rest) = logged(&question, &points, &estimator, visits[..n_visited].to_vec());
        assert_eq!((&again, &rest[..]), (&whole, &visits[n_visited..]), "after {n_visited}");
    }
}

/// A search behind what was visited, and what it visits.
fn logged(
    question: &Question,
    points: &[Point],
    estimator: &Estimator,
    visited: Vec<Visit>,
) -> (Found, Vec<Visit>) {
    let mut visits = Vec::new();
    let mut record = |_: &Point, visit: &Visit| {
        visits.push(visit.clone());
        Ok(())
    };
    let log = Log { visited, record: &mut record, progress: &mut |_, _| {} };
    let found = search(question, points, estimator, &Equal, log).expect("it can be priced");
    (found, visits)
}

/// Minutes of work; only prints what a search of Phaze's whole space takes.
#[test]
#[ignore = "the whole space takes minutes"]
fn the_whole_space_for_a_layer_of_llama() {
    let technology = Technology::cacti_22nm();
    let space = Space::phaze(&technology).expect("sizes are known");
    let question = Question { space, ..question(&technology) };
    let points = question.space.points(&technology).expect("sizes are known");
    for mode in [Mode::Phaze, Mode::Native] {
        let start = std::time::Instant::now();
        let estimator = Estimator::new(&technology, mode, Cache::default());
        let found = logged(&question, &points, &estimator, Vec::new()).0;
        let counts = [found.n_points, found.n_estimated, found.n_placed, found.front.len()];
        eprintln!("{mode:?}: {counts:?} in {:?}: {:?}", start.elapsed(), found.best[0]);
    }
}
