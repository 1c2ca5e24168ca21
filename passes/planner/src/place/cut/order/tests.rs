//! Steps of two stages, worked out by hand.

use super::*;

fn times(secs: f64, forward_secs: f64, weight_secs: f64, send_secs: f64, update_secs: f64) -> Times {
    Times { secs, forward_secs, weight_secs, send_secs, update_secs }
}

/// Backward takes 4 s of the first and 7 s of the second, the update 3 s.
fn two() -> [Times; 2] {
    [times(10.0, 5.0, 3.0, 1.0, 1.0), times(9.0, 2.0, 4.0, 0.0, 3.0)]
}

#[test]
fn every_schedule_has_its_closed_form() {
    // Three microbatches: once all stages, then twice the slowest of both ways or of each.
    assert_eq!(step_secs(&two(), 3, Schedule::OneFOneB), 19.0 + 2.0 * 10.0 + 3.0);
    assert_eq!(step_secs(&two(), 3, Schedule::GPipe), 19.0 + 2.0 * (5.0 + 7.0) + 3.0);
    // Deferred are 3 s and, no longer than its forward, 2 s: those of the other stage fill bubbles twice.
    assert_eq!(step_secs(&two(), 3, Schedule::ZeroBubble), 19.0 + 2.0 * 10.0 - 2.0 * 2.0 + 3.0);
}

#[test]
fn no_bubble_is_filled_beyond_the_work_of_the_slowest_stage() {
    let stages = [times(10.0, 3.0, 3.0, 0.0, 0.0), times(1.0, 0.9, 0.9, 0.0, 0.0)];
    assert_eq!(step_secs(&stages, 3, Schedule::ZeroBubble), 31.0 - 2.0 * 0.9 + 0.8);
}

#[test]
fn one_stage_in_one_microbatch_takes_its_own_time_by_every_schedule() {
    for schedule in Schedule::ALL {
        assert_eq!(step_secs(&two()[..1], 1, schedule), 11.0, "{schedule}");
    }
}

#[test]
fn a_replay_sends_each_way_for_half_of_the_time() {
    // Forward 5 s, half a second on the way, forward and backward 9 s, back in half a second, backward 4 s.
    assert_eq!(replayed_secs(&two(), 1, Schedule::OneFOneB), 5.0 + 0.5 + 9.0 + 0.5 + 4.0);
    let never = [times(f64::INFINITY, 5.0, 3.0, 1.0, 1.0), two()[1]];
    assert_eq!(replayed_secs(&never, 1, Schedule::OneFOneB), f64::INFINITY);
}

#[test]
fn a_replay_puts_all_of_the_first_stages_backward_off() {
    // No stage waits for it: 28 s, were it not put off 32 s.
    let three = |late_secs| {
        [times(6.0, 1.0, late_secs, 0.0, 0.0), times(4.0, 1.0, 2.0, 0.0, 0.0), times(4.0, 1.0, 0.0, 0.0, 0.0)]
    };
    assert_eq!([1.0, 5.0].map(|secs| replayed_secs(&three(secs), 4, Schedule::ZeroBubble)), [28.0; 2]);
}

#[test]
fn a_device_group_has_what_all_its_stages_have() {
    let of = |schedule| of_groups([1.0, 2.0, 4.0, 8.0].into_iter(), 4, schedule);
    assert_eq!((of(Schedule::OneFOneB), of(Schedule::Interleaved(2))), (8.0, 10.0));
}

#[test]
fn all_but_the_slowest_fill_bubbles_twice_with_what_they_defer() {
    let stages =
        [times(10.0, 3.0, 3.0, 0.0, 0.0), times(9.0, 2.0, 1.0, 0.0, 0.0), times(4.0, 1.0, 2.0, 0.0, 0.0)];
    // Deferred are 3, 1 and, no longer than a forward, 1 s: 2 s of the others, twice.
    assert_eq!(step_secs(&stages, 2, Schedule::ZeroBubble), 23.0 + 10.0 - 2.0 * 2.0);
    let stages = [stages[0], times(9.0, 2.0, 3.0, 0.0, 0.0), times(9.0, 4.0, 3.0, 0.0, 0.0)];
    assert_eq!(step_secs(&stages, 2, Schedule::ZeroBubble), 28.0 + 10.0 - 2.0 * 5.0);
}
