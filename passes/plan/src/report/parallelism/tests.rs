//! Each word on a small program that is what the word says.

use super::*;
use crate::report::plan;
use crate::testing::{one_byte_a_second, staged};

const WHOLE: &str = "{replicated}";
const ROWS: &str = "{devices=[4,1]<=[4]}";
const COLUMNS: &str = "{devices=[1,4]<=[4]}";

fn found(aliases: &str, stages: &str, lines: &[(String, &str, usize)]) -> Vec<Parallelism> {
    let lines: Vec<(&str, &str, usize)> =
        lines.iter().map(|(line, phase, stage)| (&**line, *phase, *stage)).collect();
    let module = staged(aliases, stages, "{}", &lines);
    let plan = plan(&module, &one_byte_a_second()).expect("a legal header");
    plan.stages.into_iter().map(|stage| stage.parallelism.expect("there are products")).collect()
}

/// Layouts of a perceptron with two weights, of which momentum updates the first.
struct Perceptron {
    x: &'static str,
    w0: &'static str,
    /// The first weight as the product reads it.
    used: &'static str,
    h: &'static str,
    w1: &'static str,
    y: &'static str,
    gradient: &'static str,
    momentum: &'static str,
}

const DATA: Perceptron = Perceptron {
    x: ROWS,
    w0: WHOLE,
    used: WHOLE,
    h: ROWS,
    w1: WHOLE,
    y: ROWS,
    gradient: WHOLE,
    momentum: WHOLE,
};

fn dot(name: &str, dims: &str, operands: &str, sums: (u8, u8), layout: &str) -> String {
    let sums = format!("lhs_contracting_dims={{{}}}, rhs_contracting_dims={{{}}}", sums.0, sums.1);
    format!("{name} = f32[{dims}] dot({operands}), {sums}, sharding={layout}")
}

fn step(it: &Perceptron) -> Parallelism {
    let moved = |name: &str, of: &str, layout: &str| {
        format!("{name} = f32[32,128] custom-call({of}), custom_call_target=\"Sharding\", sharding={layout}")
    };
    let op = |text: &str, layout: &str| format!("{text}, sharding={layout}");
    let lines = [
        (op("x = f32[64,32] parameter(0)", it.x), "fwd", 0),
        (op("w0 = f32[32,128] parameter(1)", it.w0), "fwd", 0),
        (op("w1 = f32[128,32] parameter(2)", it.w1), "fwd", 0),
        (op("m = f32[32,128] parameter(3)", it.momentum), "upd", 0),
        (moved("used", "w0", it.used), "fwd", 0),
        (dot("h", "64,128", "x, used", (1, 0), it.h), "fwd", 0),
        (dot("y", "64,32", "h, w1", (1, 0), it.y), "fwd", 0),
        (dot("dh", "64,128", "y, w1", (1, 1), it.h), "bwd", 0),
        (dot("g", "32,128", "x, dh", (0, 0), it.gradient), "bwd", 0),
        (moved("part", "g", it.momentum), "upd", 0),
        (op("n = f32[32,128] add(m, part)", it.momentum), "upd", 0),
        (moved("old", "w0", it.momentum), "upd", 0),
        (op("u = f32[32,128] subtract(old, n)", it.momentum), "upd", 0),
        (moved("new", "u", it.w0), "upd", 0),
        (
            format!(
                "ROOT t = (f32[32,128], f32[128,32], f32[32,128]) tuple(new, w1, n), sharding={{{}, {}, {}}}",
                it.w0, it.w1, it.momentum
            ),
            "upd",
            0,
        ),
    ];
    let aliases = " {0}: (1, {}, may-alias), {1}: (2, {}, may-alias), {2}: (3, {}, may-alias) ";
    found(aliases, "0:x=4", &lines).remove(0)
}

#[test]
fn a_perceptron_whose_rows_are_split_is_data_parallel() {
    let it = step(&DATA);
    assert_eq!((it.data, it.tensor, it.context, it.expert, it.pipeline), (4, 1, 1, 1, 1));
    assert_eq!((it.replicas, it.flops_share, it.zero_stage, it.recompute_share), (1, 1.0, Some(0), 0.0));
}

#[test]
fn megatron_s_perceptron_is_tensor_parallel() {
    let (w1, h) = (ROWS, COLUMNS);
    let it = Perceptron { x: WHOLE, w0: COLUMNS, used: COLUMNS, h, w1, y: WHOLE, ..DATA };
    let it = step(&Perceptron { gradient: COLUMNS, momentum: COLUMNS, ..it });
    assert_eq!((it.data, it.tensor, it.sequence, it.zero_stage), (1, 4, 1, None));
}

#[test]
fn what_is_not_split_is_replicated() {
    let it = step(&Perceptron { x: WHOLE, h: WHOLE, y: WHOLE, ..DATA });
    assert_eq!((it.data, it.tensor, it.replicas), (1, 1, 4));
}

#[test]
fn zero_s_stage_is_what_of_states_gradients_and_parameters_is_split_over_the_data() {
    let one = Perceptron { momentum: ROWS, ..DATA };
    let two = Perceptron { gradient: ROWS, momentum: ROWS, ..DATA };
    let three = Perceptron { w0: ROWS, gradient: ROWS, momentum: ROWS, ..DATA };
    assert_eq!([one, two, three].map(|it| step(&it).zero_stage), [Some(1), Some(2), Some(3)]);
}

/// Products of `x`, 2 samples of 32 places, with a weight that is updated.
fn sequences(lines: &[(&str, &str)], weight: &str) -> Parallelism {
    let mut all = vec![(format!("w = f32[16,64] parameter(1), sharding={weight}"), "fwd", 0)];
    all.extend(lines.iter().map(|&(line, layout)| (format!("{line}, sharding={layout}"), "fwd", 0)));
    all.push((format!("v = f32[16,64] add(w, w), sharding={weight}"), "upd", 0));
    let root = format!(
        "ROOT t = (f32[16,64], f32[2,32,64]) tuple(v, h), sharding={{{weight}, {}}}",
        lines[lines.len() - 1].1
    );
    all.push((root, "upd", 0));
    found(" {0}: (1, {}, may-alias) ", "0:x=4", &all).remove(0)
}

const SUMS: &str = "lhs_contracting_dims={2}, rhs_contracting_dims={0}";

#[test]
fn a_sequence_split_while_weights_are_whole_is_context_parallel() {
    let places = "{devices=[1,4,1]<=[4]}";
    let product = format!("h = f32[2,32,64] dot(x, w), {SUMS}");
    let it = sequences(&[("x = f32[2,32,16] parameter(0)", places), (&product, places)], WHOLE);
    assert_eq!((it.data, it.tensor, it.context, it.sequence), (1, 1, 4, 1));
}

#[test]
fn a_sequence_split_between_tensor_parallel_products_is_sequence_parallel() {
    let product = format!("h = f32[2,32,64] dot(a, w), {SUMS}");
    let lines = |places| {
        [
            ("x = f32[2,32,16] parameter(0)", places),
            ("n = f32[2,32,16] tanh(x)", places),
            ("a = f32[2,32,16] custom-call(n), custom_call_target=\"Sharding\"", WHOLE),
            (&*product, "{devices=[1,1,4]<=[4]}"),
        ]
    };
    let split = sequences(&lines("{devices=[1,4,1]<=[4]}"), COLUMNS);
    let whole = sequences(&lines(WHOLE), COLUMNS);
    assert_eq!([&split, &whole].map(|it| (it.tensor, it.context, it.sequence)), [(4, 1, 4), (4, 1, 1)]);
}

#[test]
fn heads_are_tensor_parallel_and_the_keys_of_attention_context_parallel() {
    let scores = |heads: &str, scores: &str| {
        let lines = [
            (format!("x = f32[2,32,8] parameter(0), sharding={WHOLE}"), "fwd", 0),
            (format!("w = f32[8,4,8] parameter(1), sharding={WHOLE}"), "fwd", 0),
            (
                format!(
                    "q = f32[2,32,4,8] dot(x, w), lhs_contracting_dims={{2}}, rhs_contracting_dims={{0}}, sharding={WHOLE}"
                ),
                "fwd",
                0,
            ),
            (
                format!(
                    "k = f32[2,32,4,8] custom-call(q), custom_call_target=\"Sharding\", sharding={heads}"
                ),
                "fwd",
                0,
            ),
            (
                format!(
                    "s = f32[2,4,32,32] dot(q, k), lhs_batch_dims={{0,2}}, rhs_batch_dims={{0,2}}, lhs_contracting_dims={{3}}, rhs_contracting_dims={{3}}, sharding={scores}"
                ),
                "fwd",
                0,
            ),
            (format!("v = f32[8,4,8] add(w, w), sharding={WHOLE}"), "upd", 0),
            (
                format!("ROOT t = (f32[8,4,8], f32[2,4,32,32]) tuple(v, s), sharding={{{WHOLE}, {scores}}}"),
                "upd",
                0,
            ),
        ];
        let it = found(" {0}: (1, {}, may-alias) ", "0:x=4", &lines).remove(0);
        (it.tensor, it.context, it.flops_share)
    };
    // The scores have 2 * 2 * 4 * 32 * 32 * 8 operations, `q` a quarter of that.
    let (split, keys) = ("{devices=[1,1,4,1]<=[4]}", "{devices=[1,4,1,1]<=[4]}");
    assert_eq!(scores(split, keys), (4, 1, 0.8));
    assert_eq!(scores(keys, "{devices=[1,1,1,4]<=[4]}"), (1, 4, 0.8));
}

#[test]
fn products_with_weights_of_their_own_are_experts() {
    let experts = "{devices=[4,1,1]<=[4]}";
    let product =
        "lhs_batch_dims={0}, rhs_batch_dims={0}, lhs_contracting_dims={2}, rhs_contracting_dims={1}";
    let lines = [
        (format!("x = f32[8,16] parameter(0), sharding={ROWS}"), "fwd", 0),
        (format!("a = f32[16,16] parameter(1), sharding={WHOLE}"), "fwd", 0),
        (format!("w = f32[4,16,32] parameter(2), sharding={experts}"), "fwd", 0),
        (dot("q", "8,16", "x, a", (1, 0), ROWS), "fwd", 0),
        (
            format!("all = f32[8,16] custom-call(q), custom_call_target=\"Sharding\", sharding={WHOLE}"),
            "fwd",
            0,
        ),
        (format!("b = f32[4,8,16] broadcast(all), dimensions={{1,2}}, sharding={experts}"), "fwd", 0),
        (format!("h = f32[4,8,32] dot(b, w), {product}, sharding={experts}"), "fwd", 0),
        (
            format!(
                "ROOT t = (f32[16,16], f32[4,16,32], f32[4,8,32]) tuple(a, w, h), sharding={{{WHOLE}, {experts}, {experts}}}"
            ),
            "upd",
            0,
        ),
    ];
    let it = found(" {0}: (1, {}, may-alias), {1}: (2, {}, may-alias) ", "0:x=4", &lines).remove(0);
    assert_eq!((it.data, it.tensor, it.expert, it.replicas), (4, 1, 4, 1));
}

#[test]
fn layers_are_counted_where_they_are() {
    let layer = |index: usize, stage: usize| {
        let name = format!("h{index}");
        (dot(&name, "8,16", &format!("h{}, w", index - 1), (1, 0), WHOLE), "fwd", stage)
    };
    let mut lines = vec![
        (format!("h0 = f32[8,16] parameter(0), sharding={WHOLE}"), "fwd", 0),
        (format!("w = f32[16,16] parameter(1), sharding={WHOLE}"), "fwd", 0),
    ];
    lines.extend([layer(1, 0), layer(2, 1), layer(3, 1)]);
    lines.push((
        format!("ROOT t = (f32[16,16], f32[8,16]) tuple(w, h3), sharding={{{WHOLE}, {WHOLE}}}"),
        "upd",
        1,
    ));
    let found = found(" {0}: (1, {}, may-alias) ", "0:;1:", &lines);
    let layers: Vec<_> = found.iter().map(|it| (it.pipeline, it.layers)).collect();
    assert_eq!(layers, [(2, Some(1.0)), (2, Some(2.0))]);
    let one = step(&DATA);
    assert_eq!((one.pipeline, one.layers), (1, None));
}

#[test]
fn query_key_and_value_are_no_layers() {
    let line = |text: &str, layout: &str| (format!("{text}, sharding={layout}"), "fwd", 0);
    let mut lines = vec![
        line("x = f32[8,16] parameter(0)", WHOLE),
        line("w = f32[16,16] parameter(1)", WHOLE),
        line("v = f32[16,64] parameter(2)", WHOLE),
    ];
    lines.extend(["q", "k"].map(|name| (dot(name, "8,16", "x, w", (1, 0), WHOLE), "fwd", 0)));
    lines.push((dot("s", "8,8", "q, k", (1, 1), WHOLE), "fwd", 0));
    lines.push((dot("a", "8,16", "s, q", (1, 0), WHOLE), "fwd", 0));
    lines.push((dot("o", "8,64", "a, v", (1, 0), WHOLE), "fwd", 0));
    let root = format!("ROOT t = (f32[16,16], f32[8,64]) tuple(w, o), sharding={{{WHOLE}, {WHOLE}}}");
    lines.push((root, "upd", 0));
    assert_eq!(found(" {0}: (1, {}, may-alias) ", "0:", &lines)[0].layers, None);
}
