//! Sums that are still to be done: the rules L1, L2, L3 and L5 of reference/cfp-alpa.md 7.4, by the values
//! that devices compute, and what none of them allows.

use super::compare::{difference, values};
use super::{Random, WHOLE, XY, joined, lowered};
use crate::spmd::parts;
use phzc_ir::{Module, Opcode, parse};
use phzc_plan::derive::{Facts, derive};

const COLS_X: &str = "{devices=[1,2,4]<=[8] last_tile_dim_replicate}";
const ROWS_X: &str = "{devices=[2,1,4]<=[8] last_tile_dim_replicate}";

/// A program in which `p` and `q` are partial over `x`, `w` is whole, `z` is zero.
fn program(body: &str) -> (Module, Facts) {
    let dot = "lhs_contracting_dims={1}, rhs_contracting_dims={0}";
    let partial = format!("sharding={WHOLE}, frontend_attributes={{phzc.partial=\"x\"}}");
    let text = format!(
        "HloModule m, num_partitions=8, {XY}
        sum {{ u = f32[] parameter(0) v = f32[] parameter(1) ROOT s = f32[] add(u, v) }}
        ENTRY e {{
        a = f32[8,8] parameter(0), sharding={COLS_X}
        b = f32[8,8] parameter(1), sharding={ROWS_X}
        c = f32[8,8] parameter(2), sharding={COLS_X}
        w = f32[8,8] parameter(3), sharding={WHOLE}
        i = s32[] parameter(4), sharding={WHOLE}
        o = f32[] constant(0), sharding={WHOLE}
        z = f32[8,8] broadcast(o), dimensions={{}}, sharding={WHOLE}
        k = pred[8,8] compare(w, z), direction=GT, sharding={WHOLE}
        p = f32[8,8] dot(a, b), {dot}, {partial}
        q = f32[8,8] dot(c, b), {dot}, {partial}
        {}
        }}",
        body.replace("PARTIAL", &partial).replace("SHARDED", &format!("sharding={WHOLE}")),
    );
    let module = parse(&text).unwrap_or_else(|error| panic!("{error}\n{text}"));
    let facts = derive(&module).expect("a legal header");
    (module, facts)
}

/// The sum of what an op makes of sums that are still to be done.
fn deferred(op: &str) -> String {
    let (shape, _) = op.split_once(' ').expect("a shape and an op");
    format!(
        "r = {op}, PARTIAL
        ROOT t = {shape} custom-call(r), custom_call_target=\"Sharding\", SHARDED"
    )
}

/// Whether devices that sum at the end compute what the program does, with the collectives that are priced.
fn assert_equal(body: &str) {
    let (module, facts) = program(body);
    assert_eq!(facts.problems, [], "{body}");
    let local = parts(&module, &facts, phzc_ir::ops::split_rule).expect("legal");
    assert_eq!(difference(&module, (&module, &facts), &local, &mut Random(7)), None, "{body}");
}

/// The reason why a program is refused, which computes something else were it lowered.
fn refused(body: &str) -> String {
    let (module, facts) = program(body);
    let local = parts(&module, &facts, phzc_ir::ops::split_rule).expect("lowered all the same");
    let found = values(&module, (&module, &facts), &local, &mut Random(7));
    assert!(!matches!(found, Ok(None)), "devices compute the same: {body}");
    facts.problems.iter().map(|problem| problem.message.as_str()).collect::<Vec<_>>().join("; ")
}

#[test]
fn what_is_linear_in_one_sum_needs_no_sum_before() {
    for op in [
        "f32[8,8] negate(p)",
        "f32[8,8] copy(p)",
        "f32[8,8] multiply(p, w)",
        "f32[8,8] multiply(w, p)",
        "f32[8,8] transpose(p), dimensions={1,0}",
        "f32[64] reshape(p)",
        "f32[4,8,8] broadcast(p), dimensions={1,2}",
        "f32[2,8] slice(p), slice={[1:5:2], [0:8]}",
        "f32[12,8] pad(p, o), padding=2_2x0_0",
        "f32[8,8] reverse(p), dimensions={0}",
        "f32[8] reduce(p, o), dimensions={0}, to_apply=sum",
        "f32[8,8] dot(p, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}",
        "f32[8,8] dot(w, p), lhs_contracting_dims={0}, rhs_contracting_dims={0}",
        "f32[1,8] dynamic-slice(p, i, i), dynamic_slice_sizes={1,8}",
        "f64[8,8] convert(p)",
    ] {
        assert_equal(&deferred(op));
    }
}

#[test]
fn what_joins_several_sums_needs_one_sum_after() {
    for op in [
        "f32[8,8] add(p, q)",
        "f32[8,8] subtract(p, q)",
        "f32[8,16] concatenate(p, q), dimensions={1}",
        "f32[8,8] select(k, p, q)",
        "f32[8,8] add(z, p)",
        "f32[8,8] select(k, p, z)",
    ] {
        assert_equal(&deferred(op));
    }
    assert_equal(&format!(
        "u = f32[1,8] slice(q), slice={{[0:1], [0:8]}}, PARTIAL\n{}",
        deferred("f32[8,8] dynamic-update-slice(p, u, i, i)")
    ));
}

#[test]
fn a_sum_that_is_done_late_may_be_scattered() {
    let scattered = format!(
        "r = f32[8,8] add(p, q), PARTIAL
        ROOT t = f32[8,8] custom-call(r), custom_call_target=\"Sharding\", sharding={ROWS_X}"
    );
    assert_equal(&scattered);
    let (module, facts) = program(&scattered);
    let steps = &facts.comps[module.entry.index()][module.entry().root.index()].steps;
    assert_eq!(steps.iter().map(|step| step.kind.as_str()).collect::<Vec<_>>(), ["reduce-scatter"]);
}

#[test]
fn what_is_not_linear_is_refused_and_differs() {
    let before = "cannot work on operand 0, which is partial over `x`: the sum has to be done before";
    for op in [
        // Counted once per device.
        "f32[8,8] add(p, w)",
        "f32[8,8] subtract(p, w)",
        // Products of sums are not sums of products.
        "f32[8,8] multiply(p, q)",
        "f32[8,8] dot(p, q), lhs_contracting_dims={1}, rhs_contracting_dims={0}",
        "f32[8,8] maximum(p, q)",
        "f32[8,8] abs(p)",
        "f32[12,8] pad(p, n), padding=2_2x0_0",
    ] {
        let body = format!("n = f32[] constant(3), SHARDED\n{}", deferred(op));
        assert_eq!(refused(&body), format!("`r` {before}"), "{op}");
    }
}

#[test]
fn rounding_may_not_come_before_the_sum() {
    let (_, facts) = program(&deferred("bf16[8,8] convert(p)"));
    assert_eq!(facts.problems.len(), 1);
    let (_, facts) = program(&deferred("s32[8,8] convert(p)"));
    assert_eq!(facts.problems.len(), 1);
}

#[test]
fn a_sum_that_is_not_done_has_to_be_said() {
    let lost = "r = f32[8,8] add(p, q), SHARDED\nROOT t = f32[8,8] negate(r), SHARDED";
    assert_eq!(refused(lost), "`r` reads operand 0, which is partial over `x`, but its result is not");
    let (_, facts) = program("ROOT r = f32[8,8] negate(w), PARTIAL");
    let found: Vec<&str> = facts.problems.iter().map(|problem| &*problem.message).collect();
    assert_eq!(
        found,
        [
            "`r` is said to be partial over `x`, along which it sums nothing up",
            "`r` is the program's result, but partial over `x`"
        ]
    );
    let (_, facts) = program("ROOT t = f32[8,8] custom-call(w), custom_call_target=\"Sharding\", PARTIAL");
    assert_eq!(facts.problems[0].message, "`t` cannot make a value partial over `x`");
}

/// A loop that adds up `p`, which every iteration makes anew, from a first value; the sum is done after it.
fn accumulated(first: &str) -> (Module, Facts) {
    let state = "(s32[], f32[8,8], f32[8,8], f32[8,8])";
    let layouts = format!("sharding={{{WHOLE}, {WHOLE}, {COLS_X}, {ROWS_X}}}");
    let carried = format!("{layouts}, frontend_attributes={{phzc.partial=\",x,,\"}}");
    let partial = format!("sharding={WHOLE}, frontend_attributes={{phzc.partial=\"x\"}}");
    let text = format!(
        "HloModule m, num_partitions=8, {XY}
        body {{
        s = {state} parameter(0), {carried}
        i = s32[] get-tuple-element(s), index=0, sharding={WHOLE}
        g = f32[8,8] get-tuple-element(s), index=1, {partial}
        a = f32[8,8] get-tuple-element(s), index=2, sharding={COLS_X}
        b = f32[8,8] get-tuple-element(s), index=3, sharding={ROWS_X}
        one = s32[] constant(1), sharding={WHOLE}
        j = s32[] add(i, one), sharding={WHOLE}
        p = f32[8,8] dot(a, b), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}}, {partial}
        h = f32[8,8] add(g, p), {partial}
        ROOT t = {state} tuple(j, h, a, b), {carried}
        }}
        condition {{
        s = {state} parameter(0), {carried}
        i = s32[] get-tuple-element(s), index=0, sharding={WHOLE}
        n = s32[] constant(3), sharding={WHOLE}
        ROOT l = pred[] compare(i, n), direction=LT, sharding={WHOLE}
        }}
        ENTRY e {{
        a = f32[8,8] parameter(0), sharding={COLS_X}
        b = f32[8,8] parameter(1), sharding={ROWS_X}
        w = f32[8,8] parameter(2), sharding={WHOLE}
        i = s32[] constant(0), sharding={WHOLE}
        o = f32[] constant(0), sharding={WHOLE}
        z = f32[8,8] broadcast(o), dimensions={{}}, sharding={WHOLE}
        f = {state} tuple(i, {first}, a, b), {layouts}
        l = {state} while(f), condition=condition, body=body, {carried}
        g = f32[8,8] get-tuple-element(l), index=1, {partial}
        ROOT r = f32[8,8] custom-call(g), custom_call_target=\"Sharding\", sharding={WHOLE}
        }}"
    );
    let module = parse(&text).unwrap_or_else(|error| panic!("{error}\n{text}"));
    let facts = derive(&module).expect("a legal header");
    (module, facts)
}

#[test]
fn what_a_loop_adds_up_from_zero_is_summed_after_it() {
    let (module, facts) = accumulated("z");
    assert_eq!(facts.problems, []);
    let local = parts(&module, &facts, phzc_ir::ops::split_rule).expect("legal");
    assert_eq!(difference(&module, (&module, &facts), &local, &mut Random(7)), None);
    let body = local.comps.iter().find(|comp| &*comp.name == "body").expect("the loop's");
    assert!(body.instrs.iter().all(|instr| instr.op != Opcode::AllReduce));
}

#[test]
fn what_a_loop_adds_up_from_another_value_is_not() {
    let (_, facts) = accumulated("w");
    let found: Vec<&str> = facts.problems.iter().map(|problem| &*problem.message).collect();
    assert_eq!(found, ["`l` is whole and partial over `x` in part 1, but its first value whole"]);
}

#[test]
fn a_sum_that_slices_scatter_is_scattered_after_its_other_axes_are_summed_up() {
    let text = format!(
        "s {{ p = f32[] parameter(0) q = f32[] parameter(1) ROOT r = f32[] add(p, q) }}
        ENTRY e {{
        a = f32[16,8,4] parameter(0), sharding={{devices=[1,2,4]<=[8]}}
        zero = f32[] constant(0), sharding={WHOLE}
        d = f32[16] reduce(a, zero), dimensions={{1,2}}, to_apply=s, sharding={WHOLE}
        m = f32[16] custom-call(d), custom_call_target=\"Sharding\", sharding={{devices=[2,4]<=[8] last_tile_dim_replicate}}
        ROOT n = f32[16] negate(m), sharding={{devices=[2,4]<=[8] last_tile_dim_replicate}}
        }}"
    );
    joined(&text);
    let text = lowered(&text);
    let at = |op: &str| text.find(op).unwrap_or_else(|| panic!("{text}"));
    assert!(at(" all-reduce(") < at(" reduce-scatter("), "{text}");
}

#[test]
fn a_sum_scattered_along_the_major_part_of_a_dimension_is_scattered_as_it_lies() {
    let scattered = |to: &str| {
        let text = format!(
            "ENTRY e {{
            a = f32[16,32] parameter(0), sharding={{devices=[1,8]<=[8]}}
            b = f32[32,64] parameter(1), sharding={{devices=[8,1]<=[8]}}
            ROOT d = f32[16,64] dot(a, b), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}}, sharding={to}
            }}"
        );
        joined(&text);
        lowered(&text)
    };
    let rows = scattered("{devices=[8,1]<=[8]}");
    assert!(rows.contains("reduce-scatter(d.dot)") && !rows.contains("transpose("), "{rows}");
}
