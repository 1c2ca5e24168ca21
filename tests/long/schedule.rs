//! The schedules that `place` takes: the fastest for which there is memory, and none beats the bound.

use super::plans::{DENSE, cluster, peak_bytes, placed, slow_8, with_memory};

#[test]
fn a_schedule_that_is_asked_for_is_the_one_that_is_taken() {
    for (name, program) in DENSE {
        for (schedule, in_flight) in [("1f1b", [2, 1]), ("gpipe", [4, 4]), ("zero-bubble", [2, 2])] {
            let options = format!("stages=2,microbatches=4,schedule={schedule}");
            let plan = placed(program, &options, &cluster());
            let held: Vec<usize> = plan.stages.iter().map(|stage| stage.n_in_flight).collect();
            assert_eq!((&*plan.schedule, &*held), (schedule, &in_flight[..]), "{name}");
        }
    }
}

#[test]
fn the_fastest_schedule_is_taken_where_memory_allows() {
    for (name, program) in DENSE {
        let secs = |schedule: &str| {
            let options = format!("stages=4,microbatches=4,schedule={schedule}");
            placed(program, &options, &slow_8()).time_secs
        };
        let [auto, one, zero] = ["auto", "1f1b", "zero-bubble"].map(secs);
        assert!(auto <= one * (1.0 + 1e-9), "{name}: auto {auto}, 1f1b {one}");
        // A loop over layers cannot be taken apart: nothing of it is put off.
        assert!(auto < one || name.ends_with("scan"), "{name}: auto {auto}, zero-bubble {zero}");
    }
}

#[test]
fn a_cut_of_which_the_schedule_needs_too_much_memory_is_not_taken() {
    let (program, options) = (DENSE[0].1, "stages=2,microbatches=4,recompute=never");
    let free = |schedule: &str| placed(program, &format!("{options},schedule={schedule}"), &with_memory(1e9));
    let [one, zero] = ["1f1b", "zero-bubble"].map(free);
    let [lean, large] = [&one, &zero].map(peak_bytes);
    assert!(lean < large, "1f1b {lean}, zero-bubble {large}");
    let between = placed(program, options, &with_memory(0.5 * (lean + large)));
    assert!(peak_bytes(&between) <= 0.5 * (lean + large));
    // Another cut may leave room for zero-bubble: it takes longer than the one that needs too much.
    let [between, one, zero] = [between, one, zero].map(|plan| plan.time_secs);
    assert!(zero < between && between <= one * (1.0 + 1e-9), "{zero} {between} {one}");
}

#[test]
fn where_memory_is_short_1f1b_is_no_faster_than_what_is_taken() {
    for (name, program) in DENSE {
        let free = placed(program, "schedule=1f1b", &with_memory(1e9));
        let tight = with_memory(0.8 * peak_bytes(&free));
        let secs = |schedule: &str| placed(program, &format!("schedule={schedule}"), &tight).time_secs;
        let [auto, one] = ["auto", "1f1b"].map(secs);
        assert!(auto <= one * (1.0 + 1e-9), "{name}: auto {auto}, 1f1b {one}");
    }
}

#[test]
fn no_plan_by_any_schedule_beats_the_bound() {
    for (name, program) in DENSE {
        for cluster in [slow_8(), cluster()] {
            let bound = |options: &str| placed(program, options, &cluster).lower_bound_secs;
            let bound = bound("").expect("it has a bound");
            for options in ["stages=2,microbatches=2", "stages=2,microbatches=4", "stages=4,microbatches=8"] {
                for schedule in ["1f1b", "gpipe", "zero-bubble", "interleaved:2"] {
                    // A loop over layers cannot be cut, and the perceptron has seven kernels forward.
                    let is_fine = schedule.starts_with("interleaved")
                        && (name.ends_with("scan") || *name == "mlp" && options.starts_with("stages=4"));
                    if is_fine {
                        continue;
                    }
                    let plan = placed(program, &format!("{options},schedule={schedule}"), &cluster);
                    let own = plan.lower_bound_secs.expect("it has a bound");
                    let secs = plan.time_secs * (1.0 + 1e-9);
                    assert!(
                        own <= secs && bound <= secs,
                        "{name}, {options}, {schedule}: {bound} {own} {secs}"
                    );
                }
            }
        }
    }
}
