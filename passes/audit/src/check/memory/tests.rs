//! The replay by hand: matrices are of 1024 bytes, a microbatch has its share of those that depend on `x`.

mod agree;
mod random;
mod schedules;

use super::*;
use crate::testing::{default_cluster, staged_with};
use phzc_plan::derive::derive;

/// Per device group: the peak in matrices.
fn peaks(
    comps: &str,
    aliases: &str,
    (stages, plan): (&str, &str),
    lines: &[(&str, &str, usize)],
) -> Vec<f64> {
    let module = staged_with(comps, aliases, stages, plan, lines);
    let facts = derive(&module).expect("a legal header");
    replay(&module, &facts, &default_cluster()).iter().map(|it| it.peak_bytes / 1024.0).collect()
}

/// `name = dot(a, b)` of two matrices.
fn dot(name: &str, operands: &str) -> String {
    format!("{name} = f32[16,16] dot({operands}), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}}")
}

/// The peak of a program of one device; lines are instructions, `dot:` ones products.
fn alone(comps: &str, aliases: &str, lines: &[&str]) -> f64 {
    let lines: Vec<String> = lines.iter().map(|line| written(line)).collect();
    let lines: Vec<_> = lines.iter().map(|line| (&**line, "fwd", 0)).collect();
    peaks(comps, aliases, ("0:", "{}"), &lines)[0]
}

/// `d = a b` is a product of matrices; other lines are as they are.
fn written(line: &str) -> String {
    let (root, text) = line.strip_prefix("ROOT ").map_or(("", line), |text| ("ROOT ", text));
    match text.split_once(" = ") {
        Some((name, operands)) if !operands.contains('[') => {
            format!("{root}{}", dot(name, &operands.replace(' ', ", ")))
        }
        _ => line.to_owned(),
    }
}

const A: &str = "a = f32[16,16] parameter(0)";
const B: &str = "b = f32[16,16] parameter(1)";

#[test]
fn a_buffer_is_freed_after_its_last_reader() {
    // `a` throughout; `d` and `e`, then `e` and `f`.
    assert_eq!(alone("", "", &[A, "d = a a", "e = d a", "ROOT f = e a"]), 3.0);
    // `d` has a reader at the end.
    assert_eq!(alone("", "", &[A, "d = a a", "e = d a", "ROOT f = e d"]), 4.0);
}

#[test]
fn the_operand_of_asynchronous_work_is_in_use_until_it_is_done_and_its_result_is_one_buffer() {
    let beside = |work: &str| {
        let text = format!(
            "HloModule m, num_partitions=2\nENTRY e {{ {A}\n{}\n
            s = (f32[16,16], f32[16,16]) collective-permute-start(b), channel_id=1, source_target_pairs={{{{0,1}},{{1,0}}}}
            {work}\np = f32[16,16] collective-permute-done(s)\nROOT t = (f32[16,16], f32[16,16]) tuple(p, b) }}",
            dot("b", "a, a")
        );
        let module = phzc_ir::parse(&text).unwrap_or_else(|error| panic!("{error}"));
        let facts = derive(&module).expect("a legal header");
        replay(&module, &facts, &default_cluster())[0].peak_bytes / 1024.0
    };
    assert_eq!([beside(""), beside(&dot("c", "a, a"))], [3.0, 4.0]);
}

#[test]
fn parameters_are_there_before_the_text_names_them() {
    assert_eq!(alone("", "", &[A, "d = a a", "e = d d", "f = e e", B, "ROOT g = f b"]), 4.0);
}

#[test]
fn a_view_and_a_tuple_keep_the_buffer_that_they_name() {
    let view = ["r = f32[256] reshape(d)", "s = f32[16,16] reshape(r)"];
    // `a`, `d` (as `s`), and two of the products.
    assert_eq!(alone("", "", &[A, "d = a a", view[0], view[1], "e = a a", "f = e a", "ROOT g = s f"]), 4.0);
    let whole = "sharding={{replicated}, {replicated}}";
    let tuple = format!("t = (f32[16,16], f32[16,16]) tuple(d, e), {whole}");
    let element = "u = f32[16,16] get-tuple-element(t), index=1";
    // `d` has no reader after the tuple: `a`, `e`, `f` and `g`.
    assert_eq!(alone("", "", &[A, "d = a a", "e = a a", &tuple, element, "f = a a", "ROOT g = u f"]), 4.0);
}

#[test]
fn what_stays_in_registers_keeps_what_it_is_made_of() {
    // `n` is made where `r` is: `d` waits for it beside `a` and `u`.
    let lines =
        [A, "d = a a", "n = f32[16,16] negate(d)", "u = a a", "r = f32[16,16] add(n, u)", "ROOT v = r a"];
    assert_eq!(alone("", "", &lines), 3.0);
}

#[test]
fn an_elementwise_op_writes_over_an_operand_that_dies() {
    assert_eq!(alone("", "", &[A, "d = a a", "n = f32[16,16] tanh(d)", "ROOT e = n n"]), 3.0);
    assert_eq!(
        alone("", "", &[A, "d = a a", "n = f32[16,16] tanh(d)", "e = n n", "ROOT f = e d"]),
        5.0 - 1.0
    );
}

#[test]
fn an_output_reuses_a_parameter_that_nothing_reads_later() {
    let alias = " {0}: (0, {}, may-alias) ";
    let root = "ROOT t = (f32[16,16], f32[16,16]) tuple(r, d), sharding={{replicated}, {replicated}}";
    let (makes, reads) = ("r = f32[16,16] subtract(a, b)", "d = a b");
    assert_eq!(alone("", alias, &[A, B, reads, makes, root]), 3.0);
    assert_eq!(alone("", alias, &[A, B, makes, reads, root]), 4.0);
    assert_eq!(alone("", "", &[A, B, reads, makes, root]), 4.0);
}

#[test]
fn a_loop_carries_what_it_changes_and_adds_its_bodys_peak() {
    let comps = "body { p = (f32[16,16], f32[16,16]) parameter(0)
        u = f32[16,16] get-tuple-element(p), index=0
        v = f32[16,16] get-tuple-element(p), index=1
        d = f32[16,16] dot(v, u), lhs_contracting_dims={1}, rhs_contracting_dims={0}
        e = f32[16,16] dot(d, v), lhs_contracting_dims={1}, rhs_contracting_dims={0}
        ROOT r = (f32[16,16], f32[16,16]) tuple(u, e) }
        cond { q = (f32[16,16], f32[16,16]) parameter(0) ROOT k = pred[] constant(true) }";
    let whole = "sharding={{replicated}, {replicated}}";
    let start = format!("t = (f32[16,16], f32[16,16]) tuple(a, a), {whole}");
    let run = format!("ROOT w = (f32[16,16], f32[16,16]) while(t), condition=cond, body=body, {whole}");
    // `a`, which is passed on; the changed one; `d` and `e`.
    assert_eq!(alone(comps, "", &[A, &start, &run]), 4.0);
}

#[test]
fn a_branch_writes_where_the_conditional_has_its_result() {
    let comps = "yes { y = f32[16,16] parameter(0)
        d = f32[16,16] dot(y, y), lhs_contracting_dims={1}, rhs_contracting_dims={0}
        e = f32[16,16] dot(d, d), lhs_contracting_dims={1}, rhs_contracting_dims={0}
        ROOT f = f32[16,16] dot(e, e), lhs_contracting_dims={1}, rhs_contracting_dims={0} }
        no { z = f32[16,16] parameter(0) ROOT n = f32[16,16] sine(z) }";
    let choose = "c = f32[16,16] conditional(k, d, d), true_computation=yes, false_computation=no";
    let k = "k = pred[1024] parameter(1)";
    let choose = choose.replace("(k, d", "(o, d");
    let one = "o = pred[] constant(true)";
    // `a`, `k`, `d` (its caller's, though the branch reads it no more), `c`, and `d` and `e` inside.
    assert_eq!(alone(comps, "", &[A, k, one, "d = a a", &choose, "ROOT e = c a"]), 6.0);
}
