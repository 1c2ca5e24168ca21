//! Asynchronous ops: one buffer for the result, and the operand's until it is done.

use super::*;

/// The peak of each device of a partitioned program, in matrices of 1024 bytes.
fn matrices(lines: &str) -> f64 {
    let text = format!("HloModule m, num_partitions=2\nENTRY e {{ a = f32[16,16] parameter(0)\n{lines} }}");
    let module = parse(&text).unwrap_or_else(|error| panic!("{error}"));
    let cluster = Cluster::named("a100-2").expect("a known cluster");
    memory(&module, &cluster).expect("a legal header").stages[0].peak_bytes / 1024.0
}

const PAIRS: &str = "channel_id=1, source_target_pairs={{0,1},{1,0}}";

fn dot(name: &str, of: &str) -> String {
    format!("{name} = f32[16,16] dot({of}, {of}), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}}\n")
}

#[test]
fn a_start_makes_its_result_alone_and_its_done_hands_that_out() {
    let moved = format!(
        "{}s = (f32[16,16], f32[16,16]) collective-permute-start(b), {PAIRS}
        p = f32[16,16] collective-permute-done(s)
        ROOT {}",
        dot("b", "a"),
        dot("r", "p")
    );
    // `a`, `b` and the result of the start; then `a`, that and `r`.
    assert_eq!(matrices(&moved), 3.0);
}

#[test]
fn the_operand_of_a_start_is_in_use_until_it_is_done() {
    let beside = format!(
        "{}s = (f32[16,16], f32[16,16]) collective-permute-start(b), {PAIRS}
        {}p = f32[16,16] collective-permute-done(s)
        ROOT t = (f32[16,16], f32[16,16]) tuple(p, c)",
        dot("b", "a"),
        dot("c", "a")
    );
    assert_eq!(matrices(&beside), 4.0);
}
