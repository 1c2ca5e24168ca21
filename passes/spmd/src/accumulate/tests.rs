//! The loop over the microbatches computes what the program does.

use super::*;
use crate::testing::{EXAMPLES, largest_error, passed, slow_8, staged_with};
use phzc_ir::eval::{Options, inputs, run};
use phzc_ir::{Opcode, parse, print, verify};

const ALIAS: &str = " {0}: (1, {}, may-alias) ";

/// The program of a placed one, read back from its text, and the largest relative error of its results.
fn accumulated(placed: &Module, original: &Module) -> (Module, f64) {
    let made = program(placed).expect("it can be written out");
    let again = parse(&print(&made)).expect("legal text");
    assert_eq!(verify(&again), []);
    assert_eq!(derive(&again).expect("a planned module").problems, []);
    let given = inputs(original, 1).expect("its inputs can be made");
    let wanted = run(original, &given, &Options::default()).expect("it can be run");
    let found = run(&again, &given, &Options::default()).expect("it can be run");
    let leaves = found.leaves().into_iter().cloned().map(phzc_ir::eval::Value::Array);
    let error = largest_error(&wanted, &leaves.collect::<Vec<_>>());
    (again, error)
}

/// A placed program on two devices in four microbatches.
fn small(lines: &[(&str, &str, usize)]) -> Module {
    let max = "max { p = f32[] parameter(0) q = f32[] parameter(1) ROOT r = f32[] maximum(p, q) }";
    staged_with(max, ALIAS, "0:x=2", r#"{"n_microbatches":4}"#, lines)
}

#[test]
fn examples_in_64_bit_floats_compute_the_same_but_for_rounding() {
    for (name, text) in &EXAMPLES[..2] {
        let wide = text.replace("f32[", "f64[");
        let pipeline = "fuse,shard{mesh=2x4},place{stages=1,microbatches=4}";
        let placed = passed(&wide, pipeline, &slow_8()).expect("it has a plan");
        let (made, error) = accumulated(&placed, &parse(&wide).expect("legal"));
        assert!(error < 1e-12, "{name}: {error}");
        assert_eq!(made.attr("input_output_alias"), placed.attr("input_output_alias"));
        assert!(made.entry().instrs.iter().any(|instr| instr.op == Opcode::While));
    }
}

#[test]
fn parts_of_results_are_put_together_and_places_looked_up() {
    let rows = "sharding={devices=[2,1]<=[2]}";
    let placed = small(&[
        (&format!("x = f32[8,4] parameter(0), {rows}"), "fwd", 0),
        ("w = f32[4] parameter(1)", "fwd", 0),
        ("low = f32[] constant(-inf)", "fwd", 0),
        (&format!("n = f32[8,4] iota(), iota_dimension=0, {rows}"), "fwd", 0),
        (&format!("h = f32[8,4] multiply(x, n), {rows}"), "fwd", 0),
        ("most = f32[4] reduce(h, low), dimensions={0}, to_apply=max", "fwd", 0),
        ("v = f32[4] add(w, most)", "upd", 0),
        (
            "ROOT t = (f32[4], f32[8,4], f32[8,4]) tuple(v, h, x), sharding={{replicated}, {devices=[2,1]<=[2]}, {devices=[2,1]<=[2]}}",
            "upd",
            0,
        ),
    ]);
    let (made, error) = accumulated(&placed, &placed);
    assert_eq!(error, 0.0, "{}", print(&made));
}

#[test]
fn a_gradient_is_summed_over_devices_once() {
    let rows = "sharding={devices=[2,1]<=[2]}";
    let placed = small(&[
        (&format!("x = f32[8,4] parameter(0), {rows}"), "fwd", 0),
        ("w = f32[4] parameter(1)", "fwd", 0),
        ("zero = f32[] constant(0)", "fwd", 0),
        (&format!("h = f32[8,4] tanh(x), {rows}"), "fwd", 0),
        ("g = f32[4] reduce(h, zero), dimensions={0}, to_apply=add", "bwd", 0),
        ("v = f32[4] add(w, g)", "upd", 0),
        ("ROOT t = (f32[4]) tuple(v), sharding={{replicated}}", "upd", 0),
    ]);
    let (made, error) = accumulated(&placed, &placed);
    assert!(error < 1e-6, "{error}");
    let facts = derive(&made).expect("a planned module");
    let sums: Vec<f64> = facts
        .comps
        .iter()
        .zip(&facts.executions)
        .flat_map(|(comp, runs)| comp.iter().flat_map(|own| &own.steps).map(|_| *runs))
        .collect();
    assert_eq!(sums, [1.0]);
}

#[test]
fn an_update_that_reads_samples_is_refused() {
    let placed = small(&[
        ("x = f32[8,4] parameter(0)", "fwd", 0),
        ("w = f32[4] parameter(1)", "fwd", 0),
        ("zero = f32[] constant(0)", "fwd", 0),
        ("g = f32[4] reduce(x, zero), dimensions={0}, to_apply=add", "bwd", 0),
        ("v = f32[4] add(w, g)", "upd", 0),
        ("all = f32[8,4] broadcast(v), dimensions={1}", "upd", 0),
        ("y = f32[8,4] multiply(x, all)", "upd", 0),
        ("ROOT t = (f32[4], f32[8,4]) tuple(v, y), sharding={{replicated}, {replicated}}", "upd", 0),
    ]);
    let error = program(&placed).expect_err("`y` needs the sum over all samples");
    assert!(error.message.contains("microbatches because of"), "{}", error.message);
}
