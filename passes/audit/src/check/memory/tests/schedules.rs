//! Microbatches in flight under every schedule, by hand. A matrix that depends on `x` counts a quarter for
//! each of four microbatches.

use super::*;

/// The peak per device group of a step of so many microbatches by a schedule.
fn step(stages: &str, n_microbatches: usize, schedule: &str, lines: &[(&str, &str, usize)]) -> Vec<f64> {
    let lines: Vec<(String, &str, usize)> =
        lines.iter().map(|&(line, phase, stage)| (written(line), phase, stage)).collect();
    let lines: Vec<_> = lines.iter().map(|(line, phase, stage)| (&**line, *phase, *stage)).collect();
    let plan = format!("{{\"n_microbatches\":{n_microbatches},\"schedule\":\"{schedule}\"}}");
    peaks("", " {0}: (1, {}, may-alias), {1}: (2, {}, may-alias) ", (stages, &plan), &lines)
}

/// Two stages: `h` and `k` forward, `dk`, the gradient of `w1` and `dh` on stage 1, that of `w0` on stage 0.
const TWO: [(&str, &str, usize); 13] = [
    ("x = f32[16,16] parameter(0)", "fwd", 0),
    ("w0 = f32[16,16] parameter(1)", "fwd", 0),
    ("w1 = f32[16,16] parameter(2)", "fwd", 1),
    ("h = x w0", "fwd", 0),
    ("k = h w1", "fwd", 1),
    ("dk = k k", "bwd", 1),
    ("g1 = h dk", "bwd", 1),
    ("dh = dk w1", "bwd", 1),
    ("g0 = x dh", "bwd", 0),
    ("n0 = f32[16,16] subtract(w0, g0)", "upd", 0),
    ("n1 = f32[16,16] subtract(w1, g1)", "upd", 1),
    ("s = f32[16,16] tanh(g1)", "upd", 1),
    ("ROOT out = (f32[16,16], f32[16,16]) tuple(n0, n1), sharding={{replicated}, {replicated}}", "upd", 0),
];

/// Bytes of one microbatch.
const Q: f64 = 0.25;

#[test]
fn one_f_one_b_holds_fewer_microbatches_on_later_stages() {
    // Stage 0: `w0`, `g0` from the first backward part on, `x` of two and `h` of one, which is sent.
    // Stage 1: `w1`, `g1`, `h` and `k` of one, then `dk` beside them.
    let found = step("0:;1:", 4, "1f1b", &TWO);
    assert_eq!(found, [2.0 + (2.0 + 1.0) * Q, 2.0 + 3.0 * Q]);
}

#[test]
fn gpipe_holds_all_microbatches_before_any_backward_part() {
    // Stage 0: `w0` with `x` of four, `g0` and the `dh` of the first. Stage 1: `h` and `k` of four, and `dk`.
    let found = step("0:;1:", 4, "gpipe", &TWO);
    assert_eq!(found, [2.0 + (4.0 + 1.0) * Q, 2.0 + (8.0 + 1.0) * Q]);
}

#[test]
fn one_microbatch_has_no_accumulators() {
    // In the text's order: `x`, `w0`, and `dh` throughout, with `h` or `g0`.
    // Stage 1: `h`, `w1`, `k`, then `dk` beside `h`; then `g1` and `dh`.
    assert_eq!(step("0:;1:", 1, "1f1b", &TWO), [4.0, 4.0]);
}

#[test]
fn zero_bubble_holds_what_gradients_of_weights_read() {
    // One stage makes all gradients when it is idle: weights and accumulators, `x`, `h` and `k`, then `dk`
    // too.
    let alone: Vec<_> = TWO.iter().map(|&(line, phase, _)| (line, phase, 0)).collect();
    assert_eq!(step("0:", 4, "zero-bubble", &alone), [4.0 + 4.0 * Q]);
    // Of two the order is that of the tasks' times. Stage 0 has `x` of two at least, of each with `dh` at
    // most; stage 1 puts off `g1` of one microbatch at most, for which `h` and `dk` wait.
    let found = step("0:;1:", 4, "zero-bubble", &TWO);
    assert!(found[0] >= 2.0 + 3.0 * Q && found[0] <= 2.0 + 4.0 * Q, "{found:?}");
    assert!(found[1] >= 2.0 + 3.0 * Q && found[1] <= 2.0 + 5.0 * Q, "{found:?}");
}

#[test]
fn an_interleaved_group_holds_all_its_stages() {
    // One group of both stages runs a microbatch of each in turn: weights and accumulators; `x` of the first
    // waits for stage 1, which has `h`, `k` and `dk`.
    assert_eq!(step("0:;1:", 4, "interleaved:2", &TWO), [4.0 + 4.0 * Q]);
}

#[test]
fn a_sum_that_another_stage_reads_is_there_once() {
    let mut lines = TWO.to_vec();
    lines[10] = ("n1 = f32[16,16] subtract(w1, w1)", "upd", 1);
    lines[11] = ("s = f32[16,16] tanh(g1)", "upd", 0);
    // `w1`, `g1`, `h` and `k` of one, then `dk` beside them: as where stage 1 reads `g1` itself.
    assert_eq!(step("0:;1:", 4, "1f1b", &lines)[1], 2.0 + 3.0 * Q);
}

#[test]
fn what_microbatches_make_alike_is_there_once() {
    // `c` depends on `w0` alone and backward reads it: one buffer for all microbatches in flight.
    let mut lines = TWO.to_vec();
    lines[3] = ("h = x c", "fwd", 0);
    lines[8] = ("g0 = e dh", "bwd", 0);
    lines.insert(3, ("c = w0 w0", "fwd", 0));
    lines.insert(9, ("e = x c", "bwd", 0));
    // `w0`, `c`, `g0`; `x` of two, `dh` and `e`.
    assert_eq!(step("0:;1:", 4, "1f1b", &lines)[0], 3.0 + 4.0 * Q);
}

#[test]
fn what_a_view_of_a_received_value_names_stays_until_the_view_is_read() {
    let mut lines = TWO.to_vec();
    lines[4] = ("k = i w1", "fwd", 1);
    lines.insert(4, ("r = f32[256] reshape(h)", "fwd", 1));
    lines.insert(5, ("i = f32[16,16] reshape(r)", "fwd", 1));
    lines[8] = ("g1 = i dk", "bwd", 1);
    // As without the views.
    assert_eq!(step("0:;1:", 4, "1f1b", &lines), step("0:;1:", 4, "1f1b", &TWO));
}

#[test]
fn an_accumulator_takes_no_parameters_buffer_before_the_update() {
    // `g1` itself is handed out in place of `w1`, which the next microbatch reads.
    let mut lines = TWO.to_vec();
    lines[10] = ("n1 = f32[256] reshape(g1)", "upd", 1);
    let root = "ROOT out = (f32[16,16], f32[16,16]) tuple(n0, g1), sharding={{replicated}, {replicated}}";
    lines[12] = (root, "upd", 0);
    assert_eq!(step("0:;1:", 4, "1f1b", &lines)[1], 2.0 + 3.0 * Q);
}
