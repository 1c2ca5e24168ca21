//! Plans with changes of layout inside a stage, priced on measured tables.

use super::bound_tests::{arguments, machine_of};
use super::*;
use phzc_cost::aceso::{OpChoice, PipelinePlan, StageChoice};

/// One stage of two devices, all operators split alike over both.
fn one_stage(machine: &Machine, microbatch: u32) -> PipelinePlan {
    let op = OpChoice { tensor: 2, data: 1, ..OpChoice::default() };
    let stage = StageChoice { start: 0, n_devices: 2, ops: vec![op; machine.chain.len()] };
    PipelinePlan { microbatch, stages: vec![stage], ..PipelinePlan::default() }
}

fn ms(machine: &Machine, plan: &PipelinePlan) -> f64 {
    machine.price(plan).expect("measured").ms
}

#[test]
fn rows_instead_of_columns_pay_for_gathers_before_and_after() {
    let Some(args) = arguments("--model gpt --size 350M --gpus 2") else { return };
    let machine = machine_of(&args);
    let (plain, mut other) = (one_stage(&machine, 4), one_stage(&machine, 4));
    // The projection behind the attention, from rows to columns.
    other.stages[0].ops[7].algo = 1;
    // Its own times differ by -0.011754 ms; 32 MiB are gathered over two devices in 1.271 ms, twice.
    let more_ms = 256.0 * (2.0 * 1.271 - 0.011_754);
    assert!((ms(&machine, &other) - ms(&machine, &plain) - more_ms).abs() < 1e-6);
}

#[test]
fn a_change_of_degrees_inside_a_stage_is_refused_where_no_rule_is_known() {
    let Some(args) = arguments("--model t5 --size 3B --gpus 2") else { return };
    let (machine, published) = (machine_of(&args), models::published("t5", "3B"));
    let mut plan = one_stage(&machine, 4);
    (plan.stages[0].ops[5].tensor, plan.stages[0].ops[5].data) = (1, 2);
    let path = std::env::temp_dir().join(format!("phzc-lab-mixed-{}.json", std::process::id()));
    std::fs::write(&path, json::write(&args, published, &machine, &plan)).expect("writable");
    let read = |family: &str| json::read(&path, &machine, models::family(family));
    assert!(read("t5").is_err() && read("gpt").is_ok());
    std::fs::remove_file(&path).expect("there");
}
