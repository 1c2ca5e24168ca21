//! Device groups that hold several stages each: as many as are asked for, or as is best.

use super::plans::{DENSE, cluster, peak_bytes, perceptron, placed, slow_8, with_memory};
use phzc_cost::Cluster;
use phzc_passes::report::Plan;

#[test]
fn device_groups_hold_as_many_stages_as_are_asked_for() {
    for (name, program) in &DENSE[..3] {
        for n_chunks in [2, 3] {
            let options = format!("stages=2,microbatches=4,schedule=interleaved:{n_chunks}");
            let plan = placed(program, &options, &cluster());
            assert_eq!((plan.schedule, plan.n_devices), (format!("interleaved:{n_chunks}"), 4), "{name}");
            for (stage, own) in plan.stages.iter().enumerate() {
                let group = stage % 2;
                assert_eq!((own.group, own.devices), (Some(group), [2 * group, 2 * group + 1]), "{name}");
                assert_eq!(own.memory_bytes, plan.stages[group].memory_bytes, "{name}");
            }
            assert_eq!(plan.stages.len(), 2 * n_chunks, "{name}");
        }
    }
}

/// Equal layers, as many as there are stages of any cut that is tried.
fn layers() -> String {
    phzc_ir::print(&perceptron(16))
}

#[test]
fn the_best_number_of_stages_per_group_is_taken() {
    let secs = |schedule: &str| {
        let options = format!("stages=4,microbatches=8,schedule={schedule}");
        placed(&layers(), &options, &slow_8()).time_secs
    };
    let any = secs("interleaved");
    for schedule in ["interleaved:2", "interleaved:3", "interleaved:4"] {
        let other = secs(schedule);
        assert!(any <= other * 1.01, "interleaved {any}, {schedule} {other}");
    }
    let one = secs("1f1b");
    assert!(any < 0.95 * one, "interleaved {any}, 1f1b {one}");
}

#[test]
fn several_stages_per_group_are_taken_where_they_are_fastest() {
    let plan = |schedule: &str| {
        placed(&layers(), &format!("stages=4,microbatches=4,schedule={schedule}"), &slow_8())
    };
    let schedules = ["1f1b", "gpipe", "zero-bubble", "interleaved"];
    let fastest =
        schedules.map(|schedule| plan(schedule).time_secs).into_iter().fold(f64::INFINITY, f64::min);
    let auto = plan("auto");
    assert!(auto.time_secs <= fastest * 1.01, "auto {}, fastest {fastest}", auto.time_secs);
    assert!(auto.schedule.starts_with("interleaved:"), "{}", auto.schedule);
}

#[test]
fn a_group_with_too_little_memory_has_a_plan_that_is_no_slower_than_all_again() {
    // Activations are larger than weights.
    let program = layers().replace("[64,256]", "[4096,256]");
    let plan = |recompute: &str, cluster: &Cluster| {
        let options = "stages=2,microbatches=4,schedule=interleaved:2";
        placed(&program, &format!("{options},recompute={recompute}"), cluster)
    };
    let [free, all] = ["never", "all"].map(|recompute| plan(recompute, &with_memory(1e9)));
    let [large, lean] = [&free, &all].map(peak_bytes);
    assert!(lean < large, "all computed again {lean}, nothing {large}");
    let tight = with_memory(lean + 0.4 * (large - lean));
    let between = plan("auto", &tight);
    assert!(peak_bytes(&between) <= tight.accelerator.usable_bytes());
    assert!(between.time_secs <= all.time_secs, "{} s, all again {} s", between.time_secs, all.time_secs);
    let again = |plan: &Plan| plan.stages.iter().map(|stage| stage.recompute_secs).sum::<f64>();
    assert!(again(&free) == 0.0 && again(&between) < again(&all));
}
