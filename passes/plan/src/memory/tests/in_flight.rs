//! What several microbatches keep beside the one under way, by hand: in matrices of 1024 bytes, a quarter of
//! them for each of four microbatches.

use super::*;
use crate::testing::staged_with;

const Q: f64 = 0.25;

/// Peaks per stage; `d = a, b` is a product.
fn matrices(
    comps: &str,
    plan: (&str, usize),
    stages: &str,
    lines: &[(&str, &'static str, usize)],
) -> Vec<f64> {
    let product = |&(line, phase, stage): &(&str, &'static str, usize)| match line.split_once(" = ") {
        Some((name, operands)) if !operands.contains('[') => {
            let sums = "lhs_contracting_dims={1}, rhs_contracting_dims={0}";
            (format!("{name} = f32[16,16] dot({operands}), {sums}"), phase, stage)
        }
        _ => (line.to_owned(), phase, stage),
    };
    let lines: Vec<(String, &str, usize)> = lines.iter().map(product).collect();
    let lines: Vec<_> = lines.iter().map(|(line, phase, stage)| (&**line, *phase, *stage)).collect();
    let aliases = " {0}: (1, {}, may-alias), {1}: (2, {}, may-alias) ";
    let plan = format!("{{\"n_microbatches\":{},\"schedule\":\"{}\"}}", plan.1, plan.0);
    let module = staged_with(comps, aliases, stages, &plan, &lines);
    let cluster = Cluster::named("a100-8").expect("a known cluster");
    let found = memory(&module, &cluster).expect("a legal header").stages;
    found.iter().map(|stage| stage.peak_bytes / 1024.0).collect()
}

/// Two stages: `h` and `k` forward, `dk`, the gradient of `w1` and `dh` on stage 1, that of `w0` on stage 0.
const TWO: [(&str, &str, usize); 12] = [
    ("x = f32[16,16] parameter(0)", "fwd", 0),
    ("w0 = f32[16,16] parameter(1)", "fwd", 0),
    ("w1 = f32[16,16] parameter(2)", "fwd", 1),
    ("h = x, w0", "fwd", 0),
    ("k = h, w1", "fwd", 1),
    ("dk = k, k", "bwd", 1),
    ("g1 = h, dk", "bwd", 1),
    ("dh = dk, w1", "bwd", 1),
    ("g0 = x, dh", "bwd", 0),
    ("n0 = f32[16,16] subtract(w0, g0)", "upd", 0),
    ("n1 = f32[16,16] subtract(w1, g1)", "upd", 1),
    ("ROOT o = (f32[16,16], f32[16,16]) tuple(n0, n1), sharding={{replicated}, {replicated}}", "upd", 0),
];

#[test]
fn accumulators_are_there_beside_the_activations_of_all_microbatches_in_flight() {
    // Stage 0: `w0`, `g0`, `x` of two, `h` of two (stage 1 reads it in its backward part) and `dh`. Stage 1:
    // `w1`, `g1`, and of one `h`, `k`, `dk` and `dh`.
    let found = matrices("", ("1f1b", 4), "0:;1:", &TWO);
    assert_eq!(found, [2.0 + 5.0 * Q, 2.0 + 4.0 * Q - Q]);
}

#[test]
fn forward_parts_have_no_accumulators_where_all_run_first() {
    // Stage 1: `w1` with `h` and `k` of four, `g1` and `dk`.
    assert_eq!(matrices("", ("gpipe", 4), "0:;1:", &TWO)[1], 2.0 + 9.0 * Q);
    // A large value in the forward part, beside which there is no `g1`: `u` is of eight matrices.
    let mut lines = TWO.to_vec();
    lines.insert(5, ("u = f32[128,16] concatenate(k, k, k, k, k, k, k, k), dimensions={0}", "fwd", 1));
    lines.insert(6, ("v = f32[16,128] reshape(u)", "fwd", 1));
    let dot = "y = f32[16,16] dot(v, u), lhs_contracting_dims={1}, rhs_contracting_dims={0}";
    lines.insert(7, (dot, "fwd", 1));
    lines[8] = ("dk = y, k", "bwd", 1);
    // `w1`, `h`, `k` and `y` of four, and `u`.
    assert_eq!(matrices("", ("gpipe", 4), "0:;1:", &lines)[1], 1.0 + 12.0 * Q + 8.0 * Q);
    // Where forward parts come again, `g1` is there too.
    assert_eq!(matrices("", ("1f1b", 4), "0:;1:", &lines)[1], 2.0 + 3.0 * Q + 8.0 * Q);
}

#[test]
fn what_microbatches_make_alike_is_there_while_any_is_in_flight() {
    let mut lines = TWO.to_vec();
    lines[3] = ("h = x, c", "fwd", 0);
    lines[8] = ("g0 = e, dh", "bwd", 0);
    lines.insert(3, ("c = w0, w0", "fwd", 0));
    lines.insert(9, ("e = x, c", "bwd", 0));
    // As above, with `c`; `e` comes when stage 1 has read `h`.
    assert_eq!(matrices("", ("1f1b", 4), "0:;1:", &lines)[0], 3.0 + 5.0 * Q);
}

#[test]
fn a_view_of_what_has_arrived_keeps_it() {
    let mut lines = TWO.to_vec();
    lines[4] = ("k = i, w1", "fwd", 1);
    lines[6] = ("g1 = i, dk", "bwd", 1);
    lines.insert(4, ("r = f32[256] reshape(h)", "fwd", 1));
    lines.insert(5, ("i = f32[16,16] reshape(r)", "fwd", 1));
    for schedule in ["1f1b", "gpipe", "zero-bubble"] {
        let of = |lines: &[(&str, &'static str, usize)]| matrices("", (schedule, 4), "0:;1:", lines)[1];
        assert_eq!(of(&lines), of(&TWO), "{schedule}");
    }
}

#[test]
fn an_accumulator_takes_no_parameters_buffer_that_the_next_microbatch_reads() {
    let mut lines = TWO.to_vec();
    let root = "ROOT o = (f32[16,16], f32[16,16]) tuple(n0, g1), sharding={{replicated}, {replicated}}";
    (lines[10], lines[11]) = (("n1 = f32[256] reshape(g1)", "upd", 1), (root, "upd", 0));
    assert_eq!(matrices("", ("1f1b", 4), "0:;1:", &lines)[1], 2.0 + 3.0 * Q);
}

#[test]
fn parameters_are_there_before_the_text_names_them() {
    let lines = [TWO[0], ("d = x, x", "fwd", 0), ("e = d, d", "fwd", 0), TWO[1], TWO[2]];
    let rest = [("f = w0, w1", "upd", 0), ("g = f, w1", "upd", 0)];
    let root =
        ("ROOT o = (f32[16,16], f32[16,16]) tuple(g, f), sharding={{replicated}, {replicated}}", "upd", 0);
    let lines = [&lines[..], &rest, &[root]].concat();
    assert_eq!(matrices("", ("1f1b", 1), "0:", &lines), [5.0]);
}

#[test]
fn a_branch_leaves_its_operands_to_its_caller_and_writes_where_the_result_is() {
    let comps = "yes { y = f32[16,16] parameter(0)
        d = f32[16,16] dot(y, y), lhs_contracting_dims={1}, rhs_contracting_dims={0}
        e = f32[16,16] dot(d, d), lhs_contracting_dims={1}, rhs_contracting_dims={0}
        ROOT f = f32[16,16] dot(e, e), lhs_contracting_dims={1}, rhs_contracting_dims={0} }
        no { z = f32[16,16] parameter(0) ROOT n = f32[16,16] sine(z) }";
    let choose = "c = f32[16,16] conditional(b, d, d), true_computation=yes, false_computation=no";
    let lines = [TWO[0], TWO[1], TWO[2], ("b = pred[] constant(true)", "fwd", 0), ("d = x, x", "fwd", 0)];
    let root =
        ("ROOT o = (f32[16,16], f32[16,16]) tuple(c, c), sharding={{replicated}, {replicated}}", "fwd", 0);
    let lines = [&lines[..], &[(choose, "fwd", 0), root]].concat();
    // Parameters, of which `c` takes one's buffer, and `d`; `d` and `e` inside.
    assert_eq!(matrices(comps, ("1f1b", 1), "0:", &lines), [6.0]);
}
