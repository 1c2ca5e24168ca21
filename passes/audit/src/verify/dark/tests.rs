//! What a run says nothing about is named, and nothing else.

use super::*;
use crate::verify::{Settings, verify};

/// What is dark in a comparison of a program with itself.
fn dark(text: &str) -> Dark {
    let module = phzc_ir::parse(&format!("HloModule m\n{text}")).expect("a legal program");
    verify(&module, &module, &Settings::default()).expect("it runs").dark
}

/// The chain of the first input.
fn chain(text: &str) -> Vec<String> {
    let module = phzc_ir::parse(&format!("HloModule m\n{text}")).expect("a legal program");
    let chain = &Chains::of(&module).chains[0];
    chain.iter().map(|&id| module.entry().instr(id).name.to_string()).collect()
}

/// Numbers and reasons of the idle inputs.
fn idle(text: &str) -> Vec<(usize, Idleness)> {
    dark(text).idle_inputs.iter().map(|input| (input.index, input.why)).collect()
}

#[test]
fn an_input_that_nothing_reads_or_that_is_masked_is_named() {
    let text = "ENTRY e { x = f32[4] parameter(0) unread = f32[4] parameter(1) masked = f32[4] parameter(2)
        z = f32[] constant(0) zs = f32[4] broadcast(z), dimensions={} m = f32[4] multiply(masked, zs)
        y = f32[4] add(x, m) ROOT r = f32[4] tanh(y) }";
    assert_eq!(idle(text), [(1, Idleness::Unread), (2, Idleness::NoEffect)]);
    assert_eq!(dark(text).idle_inputs[1].name, "masked");
}

#[test]
fn a_part_that_is_cut_off_has_no_effect() {
    let text = "ENTRY e { x = f32[4] parameter(0) y = f32[4] parameter(1) c = f32[8] concatenate(x, y), dimensions={0}
        s = f32[4] slice(c), slice={[0:4]} ROOT r = f32[4] tanh(s) }";
    assert_eq!(idle(text), [(1, Idleness::NoEffect)]);
}

#[test]
fn an_input_that_one_reader_loses_may_have_an_effect_by_another() {
    let text =
        "ENTRY e { x = f32[4] parameter(0) z = f32[] constant(0) zs = f32[4] broadcast(z), dimensions={}
        lost = f32[4] multiply(x, zs) a = f32[4] tanh(x) b = f32[4] sine(a)
        ROOT t = (f32[4], f32[4]) tuple(lost, b) }";
    assert_eq!(dark(text), Dark { constant_outputs: vec![0], idle_inputs: vec![] });
}

#[test]
fn an_output_of_constants_alone_is_constant() {
    let text = "ENTRY e { x = f32[4] parameter(0) n = f32[4] parameter(1) d = f32[4] subtract(n, n)
        i = s32[4] iota(), iota_dimension=0 ROOT t = (f32[4], s32[4], f32[4]) tuple(d, i, x) }";
    let found = dark(text);
    assert_eq!(found.constant_outputs, [0, 1]);
    assert_eq!(found.idle_inputs.len(), 1, "{found:?}");
}

#[test]
fn an_input_of_a_loop_is_followed_through_it() {
    let state = "(s32[], f32[4], f32[4])";
    let text = format!(
        "body {{ p = {state} parameter(0) i = s32[] get-tuple-element(p), index=0 one = s32[] constant(1)
         j = s32[] add(i, one) x = f32[4] get-tuple-element(p), index=1 y = f32[4] tanh(x)
         w = f32[4] get-tuple-element(p), index=2 ROOT o = {state} tuple(j, y, w) }}
         more {{ p = {state} parameter(0) i = s32[] get-tuple-element(p), index=0 n = s32[] constant(3)
         ROOT c = pred[] compare(i, n), direction=LT }}
         ENTRY e {{ x = f32[4] parameter(0) w = f32[4] parameter(1) i = s32[] constant(0) s = {state} tuple(i, x, w)
         l = {state} while(s), condition=more, body=body ROOT r = f32[4] get-tuple-element(l), index=1 }}"
    );
    assert_eq!(idle(&text), [(1, Idleness::NoEffect)]);
}

/// Look-ups compare an index with 0 before they use it.
#[test]
fn a_comparison_is_the_last_reader_that_is_asked() {
    let text = "ENTRY e { x = s32[4] parameter(0) table = f32[8] parameter(1) z = s32[] constant(0) n = s32[] constant(8)
        zs = s32[4] broadcast(z), dimensions={} ns = s32[4] broadcast(n), dimensions={}
        below = pred[4] compare(x, zs), direction=LT wrapped = s32[4] add(x, ns)
        at = s32[4] select(below, wrapped, x) ROOT r = f32[4] gather(table, at), offset_dims={}, collapsed_slice_dims={0}, start_index_map={0}, index_vector_dim=1, slice_sizes={1} }";
    assert_eq!(chain(text), ["at", "r"]);
}

#[test]
fn a_chain_goes_through_a_tuple_by_the_part_that_it_is() {
    let text = "ENTRY e { x = f32[4] parameter(0) y = f32[4] parameter(1) t = (f32[4], f32[4]) tuple(y, x)
        b = (f32[4], f32[4]) opt-barrier(t) near = f32[4] get-tuple-element(b), index=0
        far = f32[4] get-tuple-element(b), index=1 tanh = f32[4] tanh(far) ROOT r = f32[4] add(near, tanh) }";
    assert_eq!(chain(text), ["t", "b", "far", "tanh", "r"]);
}

#[test]
fn a_tuple_s_second_part_has_a_chain() {
    let text = "ENTRY e { p = (f32[4], f32[4]) parameter(0) y = f32[4] parameter(1) z = f32[] constant(0)
        zs = f32[4] broadcast(z), dimensions={} b = f32[4] get-tuple-element(p), index=1
        m = f32[4] multiply(b, zs) ROOT r = f32[4] add(m, y) }";
    assert_eq!(chain(text), ["b", "m", "r"]);
    assert_eq!(idle(text), [(0, Idleness::NoEffect)]);
}

/// A counter takes few values, and another seed may draw the same one.
#[test]
fn a_counter_has_an_effect_with_every_seed() {
    let text = "HloModule m\nENTRY e { n = s32[] parameter(0) x = f32[4] parameter(1) f = f32[] convert(n)
        fs = f32[4] broadcast(f), dimensions={} ROOT y = f32[4] multiply(x, fs) }";
    let module = phzc_ir::parse(text).expect("a legal program");
    for seed in 0..20 {
        let found = verify(&module, &module, &Settings { seed, ..Settings::default() }).expect("it runs");
        assert_eq!(found.dark, Dark::default(), "{seed}");
    }
}

#[test]
fn of_two_ways_the_cheaper_is_taken_whichever_comes_first() {
    let ways = |first: &str, second: &str| {
        chain(&format!(
            "ENTRY e {{ x = f32[4] parameter(0) w = f32[4,64] parameter(1) {first} {second}
            ROOT t = (f32[4], f32[64]) tuple(b, d) }}"
        ))
    };
    // What a way costs is the sum of its steps: that of `q` starts cheaper.
    let short = "b = f32[4] add(x, x)";
    let long =
        "q = f32[4] negate(x) d = f32[64] dot(q, w), lhs_contracting_dims={0}, rhs_contracting_dims={0}";
    assert_eq!([ways(short, long), ways(long, short)], [["b"], ["b"]]);
}

#[test]
fn a_part_of_a_tuple_in_a_tuple_is_found_again() {
    let text = "ENTRY e { x = f32[4] parameter(0) y = f32[4] parameter(1) p = (f32[4], f32[4]) tuple(y, x)
        t = (f32[4], (f32[4], f32[4])) tuple(y, p) g = (f32[4], f32[4]) get-tuple-element(t), index=1
        far = f32[4] get-tuple-element(g), index=1 ROOT r = f32[4] tanh(far) }";
    assert_eq!(chain(text), ["p", "t", "g", "far", "r"]);
}

#[test]
fn a_way_costs_a_step_its_operations_its_bytes_and_a_detour_through_loops_and_comparisons() {
    let text = "HloModule m
        more { p = f32[4] parameter(0) ROOT c = pred[] constant(false) }
        body { p = f32[4] parameter(0) ROOT n = f32[4] negate(p) }
        ENTRY e { x = f32[4] parameter(0) n = f32[4] negate(x) w = f32[4] while(n), condition=more, body=body
        c = pred[4] compare(w, x), direction=LT ROOT t = (f32[4], pred[4]) tuple(w, c) }";
    let module = phzc_ir::parse(text).expect("a legal program");
    let work = |name: &str| {
        let found = module.entry().iter().find(|(_, instr)| &*instr.name == name).expect("it is there");
        own_work(&module, found.0)
    };
    assert_eq!(work("n"), 1.0 + 4.0 + 32.0);
    assert_eq!(work("c"), 1.0 + 4.0 + 36.0 + DETOUR_WORK);
    assert!(work("w") >= 1.0 + DETOUR_WORK);
}

#[test]
fn of_several_inputs_that_one_reader_loses_those_with_another_effect_are_told_apart() {
    // The shortest way of each is its difference from itself.
    let lost = |name: &str| format!("{name}z = f32[4] subtract({name}, {name})");
    let other = |name: &str| format!("{name}t = f32[4] tanh({name}) {name}s = f32[4] sine({name}t)");
    let text = format!(
        "ENTRY e {{ x = f32[4] parameter(0) m = f32[4] parameter(1) y = f32[4] parameter(2)
        {} {} {} {} {}
        ROOT t = (f32[4], f32[4], f32[4], f32[4], f32[4]) tuple(xz, mz, yz, xs, ys) }}",
        lost("x"),
        lost("m"),
        lost("y"),
        other("x"),
        other("y")
    );
    assert_eq!(idle(&text), [(1, Idleness::NoEffect)]);
}
