//! Closed forms against the replay.

use super::{Pipeline, Schedule};
use proptest::prelude::*;

fn uniform(n_stages: usize, n_microbatches: usize) -> Pipeline {
    Pipeline {
        forward_secs: vec![1.0; n_stages],
        backward_secs: vec![2.0; n_stages],
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
        assert_eq!(uniform(3, 0).step_secs(schedule), 0.0);
    }
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
        assert_eq!(schedule.as_str().parse(), Ok(schedule));
    }
    assert!("2f2b".parse::<Schedule>().is_err());
}

prop_compose! {
    fn any_pipeline()(n_stages in 1_usize..7)(
        forward_secs in prop::collection::vec(0.1..2.0, n_stages),
        backward_secs in prop::collection::vec(0.1..4.0, n_stages),
        send_secs in prop::collection::vec(0.0..1.0, n_stages - 1),
        n_microbatches in 1_usize..20,
    ) -> Pipeline {
        Pipeline { forward_secs, backward_secs, send_secs, n_microbatches }
    }
}

/// The pipeline with backwards twice as long as forwards, as dense networks have them.
fn proportional(mut pipeline: Pipeline) -> Pipeline {
    pipeline.backward_secs = pipeline.forward_secs.iter().map(|secs| 2.0 * secs).collect();
    pipeline
}

proptest! {
    #[test]
    fn the_closed_form_of_gpipe_is_exact(pipeline in any_pipeline()) {
        let (closed, replayed) = (pipeline.step_secs(Schedule::GPipe), pipeline.simulate(Schedule::GPipe).step_secs());
        prop_assert!((closed - replayed).abs() < 1e-9 * closed, "{closed} {replayed}");
    }

    #[test]
    fn the_closed_form_bounds_one_f_one_b_from_above(pipeline in any_pipeline()) {
        let schedule = Schedule::OneFOneB;
        let (closed, replayed) = (pipeline.step_secs(schedule), pipeline.simulate(schedule).step_secs());
        prop_assert!(replayed <= closed * (1.0 + 1e-9), "{closed} {replayed}");
    }

    #[test]
    fn no_replay_beats_the_busiest_stage_or_one_microbatch(pipeline in any_pipeline()) {
        let compute = pipeline.forward_secs.iter().zip(&pipeline.backward_secs).map(|(f, b)| f + b);
        let busiest = compute.clone().fold(0.0, f64::max) * pipeline.n_microbatches as f64;
        let once = compute.sum::<f64>() + 2.0 * pipeline.send_secs.iter().sum::<f64>();
        for schedule in Schedule::ALL {
            let replayed = pipeline.simulate(schedule).step_secs();
            prop_assert!(replayed >= busiest.max(once) * (1.0 - 1e-9), "{replayed} {busiest} {once}");
        }
    }

    #[test]
    fn the_replay_holds_as_many_activations_as_the_formula_says(pipeline in any_pipeline()) {
        for schedule in Schedule::ALL {
            prop_assert_eq!(pipeline.simulate(schedule).in_flight(), pipeline.in_flight(schedule));
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
