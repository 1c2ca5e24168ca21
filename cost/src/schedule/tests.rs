//! Closed forms against the replay.

use super::{Part, Pipeline, Schedule, comes_before};
use proptest::prelude::*;

fn uniform(n_stages: usize, n_microbatches: usize) -> Pipeline {
    Pipeline {
        forward_secs: vec![1.0; n_stages],
        backward_secs: vec![2.0; n_stages],
        weight_secs: vec![0.0; n_stages],
        send_secs: vec![0.0; n_stages - 1],
        n_microbatches,
    }
}

#[test]
fn equal_stages_take_microbatches_plus_stages_minus_one_slots() {
    for schedule in Schedule::ALL {
        let pipeline = uniform(4, 8);
        assert_eq!(pipeline.step_secs(schedule), 33.0);
        assert_eq!(pipeline.simulate(schedule).step_secs(), 33.0);
        assert_eq!(pipeline.simulate(schedule).bubble(), 3.0 / 11.0);
    }
}

#[test]
fn an_empty_pipeline_takes_no_time() {
    for schedule in Schedule::ALL {
        assert_eq!(Pipeline::default().simulate(schedule).step_secs(), 0.0);
        assert_eq!(Pipeline::default().simulate(schedule).bubble(), 0.0);
        assert_eq!(uniform(3, 0).step_secs(schedule), 0.0);
    }
}

/// The long backward waits for the second forward of the stage before: both long ones are in the way of the
/// step.
#[test]
fn one_f_one_b_can_take_longer_than_its_closed_form() {
    let mut pipeline = uniform(3, 2);
    (pipeline.forward_secs[0], pipeline.backward_secs[1]) = (10.0, 20.0);
    let schedule = Schedule::OneFOneB;
    assert_eq!(pipeline.step_secs(schedule), 57.0);
    assert_eq!(pipeline.simulate(schedule).step_secs(), 63.0);
}

#[test]
fn one_f_one_b_holds_fewer_activations() {
    assert_eq!(uniform(4, 8).in_flight(Schedule::OneFOneB), [4, 3, 2, 1]);
    assert_eq!(uniform(4, 2).in_flight(Schedule::OneFOneB), [2, 2, 2, 1]);
    assert_eq!(uniform(4, 8).in_flight(Schedule::GPipe), [8, 8, 8, 8]);
}

#[test]
fn schedules_parse_their_own_names() {
    for schedule in Schedule::ALL {
        assert_eq!(schedule.to_string().parse(), Ok(schedule));
    }
    assert!("2f2b".parse::<Schedule>().is_err());
}

prop_compose! {
    fn any_pipeline()(n_stages in 1_usize..7)(
        forward_secs in prop::collection::vec(0.1..2.0, n_stages),
        backward_secs in prop::collection::vec(0.1..4.0, n_stages),
        shares in prop::collection::vec(0.0..1.0, n_stages),
        send_secs in prop::collection::vec(0.0..1.0, n_stages - 1),
        n_microbatches in 1_usize..20,
    ) -> Pipeline {
        let weight_secs = backward_secs.iter().zip(shares).map(|(secs, share): (&f64, f64)| secs * share).collect();
        Pipeline { forward_secs, backward_secs, weight_secs, send_secs, n_microbatches }
    }
}

/// The pipeline with backwards twice as long as forwards, as dense networks have them.
fn proportional(mut pipeline: Pipeline) -> Pipeline {
    pipeline.backward_secs = pipeline.forward_secs.iter().map(|secs| 2.0 * secs).collect();
    pipeline
}

/// The work of all stages, forward and backward, of all microbatches.
fn work_secs(pipeline: &Pipeline) -> [f64; 2] {
    [&pipeline.forward_secs, &pipeline.backward_secs]
        .map(|secs| secs.iter().sum::<f64>() * pipeline.n_microbatches as f64)
}

#[test]
fn equal_stages_of_1f1b_take_the_least_that_any_stages_take() {
    let pipeline = uniform(4, 8);
    let least = |schedule: Schedule| schedule.least_secs(4, 8, work_secs(&pipeline));
    assert_eq!(Schedule::ALL.map(least), [33.0, 33.0, 24.0 + 1.5]);
    // Two microbatches pass eight stages one after the other.
    assert_eq!(Schedule::Interleaved(2).least_secs(4, 2, work_secs(&uniform(8, 2))), 24.0);
}

/// Sizes of stages whose step takes least for its work, by descent from equal ones: the step's seconds, and
/// those that no step takes less than.
fn worst_sizes(schedule: Schedule, n_groups: usize, n_microbatches: usize) -> (f64, f64) {
    let n_stages = n_groups * schedule.n_chunks();
    let mut best = uniform(n_stages, n_microbatches);
    best.weight_secs = vec![1.0; n_stages];
    let least = |it: &Pipeline| schedule.least_secs(n_groups, n_microbatches, work_secs(it));
    let ratio = |it: &Pipeline| it.step_secs(schedule) / least(it);
    let mut state = 1_u64;
    // Lehmer's generator (Park and Miller, CACM 1988).
    let mut random = |n: u64| {
        state = state * 48_271 % 2_147_483_647;
        (state % n) as usize
    };
    for _ in 0..3000 {
        let mut next = best.clone();
        let (stage, factor) = (random(n_stages as u64), [0.0, 0.5, 0.9, 1.1, 2.0][random(5)]);
        match random(3) {
            0 => next.forward_secs[stage] *= factor,
            1 => next.backward_secs[stage] *= factor,
            _ => next.weight_secs[stage] *= factor,
        }
        next.weight_secs[stage] = next.weight_secs[stage].min(next.backward_secs[stage]);
        best = if ratio(&next) < ratio(&best) { next } else { best };
    }
    (best.step_secs(schedule), least(&best))
}

#[test]
fn no_sizes_of_stages_wait_less_than_the_least() {
    let interleaved = [2, 3, 4].map(Schedule::Interleaved);
    for schedule in interleaved.into_iter().chain(Schedule::ALL) {
        for (n_groups, n_microbatches) in [(2, 1), (2, 2), (2, 8), (4, 2), (4, 4), (3, 9)] {
            let (secs, least) = worst_sizes(schedule, n_groups, n_microbatches);
            let what = format!("{schedule}, {n_groups} groups, {n_microbatches} microbatches");
            assert!(least <= secs * (1.0 + 1e-9), "{what}: {secs} for {least}");
            assert!(secs < 1.6 * least, "{what}: {secs} for {least} is no bound worth its name");
        }
    }
}

proptest! {
    #[test]
    fn no_step_takes_less_than_its_work_allows(pipeline in any_pipeline(), n_chunks in 2_usize..5) {
        let work = work_secs(&pipeline);
        for schedule in Schedule::ALL {
            let least = schedule.least_secs(pipeline.n_stages(), pipeline.n_microbatches, work);
            prop_assert!(least <= pipeline.step_secs(schedule) * (1.0 + 1e-9), "{schedule}");
        }
        if pipeline.n_stages().is_multiple_of(n_chunks) {
            let schedule = Schedule::Interleaved(n_chunks);
            let n_groups = schedule.n_groups(pipeline.n_stages());
            let least = schedule.least_secs(n_groups, pipeline.n_microbatches, work);
            prop_assert!(least <= pipeline.step_secs(schedule) * (1.0 + 1e-9), "{schedule}");
        }
    }

    #[test]
    fn the_closed_form_of_gpipe_is_exact(pipeline in any_pipeline()) {
        let (closed, replayed) = (pipeline.step_secs(Schedule::GPipe), pipeline.simulate(Schedule::GPipe).step_secs());
        prop_assert!((closed - replayed).abs() < 1e-9 * closed, "{closed} {replayed}");
    }

    #[test]
    fn the_closed_form_bounds_one_f_one_b_from_above_where_backward_is_proportional(pipeline in any_pipeline()) {
        let (pipeline, schedule) = (proportional(pipeline), Schedule::OneFOneB);
        let (closed, replayed) = (pipeline.step_secs(schedule), pipeline.simulate(schedule).step_secs());
        prop_assert!(replayed <= closed * (1.0 + 1e-9), "{closed} {replayed}");
    }

    #[test]
    fn no_replay_beats_the_busiest_stage_or_link_or_one_microbatch(pipeline in any_pipeline()) {
        let compute = pipeline.forward_secs.iter().zip(&pipeline.backward_secs).map(|(f, b)| f + b);
        let busiest = compute.clone().fold(0.0, f64::max) * pipeline.n_microbatches as f64;
        let once = compute.sum::<f64>() + 2.0 * pipeline.send_secs.iter().sum::<f64>();
        let link = pipeline.send_secs.iter().copied().fold(0.0, f64::max) * pipeline.n_microbatches as f64;
        let busiest = busiest.max(link);
        for schedule in Schedule::ALL {
            let put_off: f64 = pipeline.weight_secs.iter().sum();
            let once = if schedule == Schedule::ZeroBubble { once - put_off } else { once };
            let replayed = pipeline.simulate(schedule).step_secs();
            prop_assert!(replayed >= busiest.max(once) * (1.0 - 1e-9), "{replayed} {busiest} {once}");
        }
    }

    #[test]
    fn the_replay_holds_as_many_activations_as_the_formula_says(pipeline in any_pipeline()) {
        for schedule in [Schedule::GPipe, Schedule::OneFOneB] {
            prop_assert_eq!(pipeline.simulate(schedule).in_flight(), pipeline.in_flight(schedule));
        }
    }

    #[test]
    fn no_stage_of_a_zero_bubble_replay_holds_more_than_the_formulas_say(pipeline in any_pipeline()) {
        let (schedule, n_stages) = (Schedule::ZeroBubble, pipeline.n_stages());
        let timeline = pipeline.simulate(schedule);
        let formula = pipeline.in_flight(schedule);
        prop_assert!(timeline.in_flight().iter().zip(&formula).all(|(held, most)| held <= most));
        let mut waiting = vec![0_i64; n_stages];
        for event in &timeline.events {
            let own = &mut waiting[event.stage];
            *own += match event.phase { Part::Forward => 1, Part::Backward => -1, Part::WeightGradient => 0 };
            let most = schedule.n_waiting(event.stage, n_stages, pipeline.n_microbatches);
            prop_assert!(*own >= 0 && *own <= most as i64);
        }
    }

    #[test]
    fn a_zero_bubble_replay_runs_every_task_once_after_what_it_waits_for(pipeline in any_pipeline()) {
        let (n_stages, close) = (pipeline.n_stages(), 1e-9);
        let events = pipeline.simulate(Schedule::ZeroBubble).events;
        let mut ends = std::collections::BTreeMap::new();
        for event in &events {
            prop_assert!(ends.insert((event.phase, event.stage, event.microbatch), event.end_secs).is_none());
        }
        prop_assert_eq!(ends.len(), 3 * n_stages * pipeline.n_microbatches);
        for event in &events {
            let of = |phase, stage: usize| ends[&(phase, stage, event.microbatch)];
            let ready = match (event.phase, event.stage) {
                (Part::Forward, 0) => 0.0,
                (Part::Forward, stage) => of(Part::Forward, stage - 1) + pipeline.send_secs[stage - 1],
                (Part::Backward, stage) if stage + 1 == n_stages => of(Part::Forward, stage),
                (Part::Backward, stage) => of(Part::Backward, stage + 1) + pipeline.send_secs[stage],
                (Part::WeightGradient, stage) => of(Part::Backward, stage),
            };
            prop_assert!(event.start_secs >= ready - close, "{event:?}: {ready}");
        }
    }

    #[test]
    fn a_stage_of_a_zero_bubble_replay_does_one_thing_at_a_time(pipeline in any_pipeline()) {
        let mut free_secs = vec![0.0; pipeline.n_stages()];
        for event in pipeline.simulate(Schedule::ZeroBubble).events {
            prop_assert!(event.start_secs >= free_secs[event.stage]);
            free_secs[event.stage] = event.end_secs;
        }
    }

    #[test]
    fn many_microbatches_cost_what_the_slowest_stage_costs(pipeline in any_pipeline()) {
        let mut pipeline = proportional(pipeline);
        pipeline.send_secs.fill(0.0);
        pipeline.n_microbatches += 2000;
        let (closed, replayed) =
            (pipeline.step_secs(Schedule::OneFOneB), pipeline.simulate(Schedule::OneFOneB).step_secs());
        prop_assert!((closed - replayed).abs() < 0.005 * closed, "{closed} {replayed}");
    }
}

/// The order in which a schedule runs the tasks of one microbatch of four stages.
fn order_of_one(schedule: Schedule, pipeline: &Pipeline, microbatch: usize) -> Vec<(Part, usize)> {
    let events = pipeline.simulate(schedule).events.into_iter();
    events.filter(|event| event.microbatch == microbatch).map(|event| (event.phase, event.stage)).collect()
}

#[test]
fn tasks_of_a_microbatch_are_in_one_order_but_for_gradients_of_weights() {
    let (n_stages, pipeline) = (4, Pipeline { weight_secs: vec![1.0; 4], ..uniform(4, 5) });
    for schedule in Schedule::ALL.into_iter().chain([Schedule::Interleaved(2)]) {
        for order in (0..5).map(|one| order_of_one(schedule, &pipeline, one)) {
            for (at, &task) in order.iter().enumerate() {
                assert!(
                    !order[..=at].iter().any(|&before| comes_before(task, before)),
                    "{schedule} {order:?}"
                );
                let is_first = |phase: Part| phase != Part::WeightGradient && task.0 != Part::WeightGradient;
                for &later in order[at + 1..].iter().filter(|later| is_first(later.0)) {
                    assert!(comes_before(task, later), "{schedule}: {task:?} {later:?}");
                }
            }
        }
    }
    for (stage, other) in (0..n_stages).flat_map(|stage| (0..n_stages).map(move |other| (stage, other))) {
        let before = |phase| comes_before((phase, stage), (Part::WeightGradient, other));
        let found = [Part::Forward, Part::Backward, Part::WeightGradient].map(before);
        assert_eq!(found, [true, stage >= other, false], "{stage} {other}");
    }
}
