//! What becomes longer, what is masked, and that nothing else changes.

use crate::testing::{Random, check, default_cluster, largest_error, passed};
use insta::assert_snapshot;
use phzc_ir::Opcode;
use phzc_ir::eval::{Options, Value, inputs, run};
use std::fmt::Write;

const CALLS: &str = "HloModule m
add { a = f32[] parameter(0) b = f32[] parameter(1) ROOT c = f32[] add(a, b) }
max { a = f32[] parameter(0) b = f32[] parameter(1) ROOT c = f32[] maximum(a, b) }
";

/// The padded entry.
fn padded(passes: &str, entry: &str) -> String {
    let text = check(passes, &format!("{CALLS}ENTRY e {{ {entry} }}"));
    let Some((_, entry)) = text.split_once("ENTRY") else { return text };
    entry.lines().filter(|line| line.starts_with("  ")).map(str::trim).collect::<Vec<_>>().join("\n")
}

#[test]
fn a_sum_over_added_zeros_needs_no_mask() {
    let text = "x = f32[8,39] parameter(0) w = f32[39,16] parameter(1) e = f32[8,39] exponential(x)
        ROOT y = f32[8,16] dot(e, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}";
    assert_snapshot!(padded("pad", text), @"
    x = f32[8,39] parameter(0)
    w = f32[39,16] parameter(1)
    e = f32[8,39] exponential(x)
    partition.constant = f32[] constant(0)
    y.pad = f32[8,40] pad(e, partition.constant), padding=0_0x0_1
    y.pad1 = f32[40,16] pad(w, partition.constant), padding=0_1x0_0
    ROOT y = f32[8,16] dot(y.pad, y.pad1), lhs_contracting_dims={1}, rhs_contracting_dims={0}
    ");
}

#[test]
fn what_lies_between_products_runs_longer_and_is_zero_where_one_sums_it_up() {
    let text = "x = f32[8,16] parameter(0) w = f32[16,39] parameter(1) v = f32[39,16] parameter(2)
        h = f32[8,39] dot(x, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}
        e = f32[8,39] exponential(h)
        ROOT y = f32[8,16] dot(e, v), lhs_contracting_dims={1}, rhs_contracting_dims={0}";
    assert_snapshot!(padded("pad", text), @"
    x = f32[8,16] parameter(0)
    w = f32[16,39] parameter(1)
    v = f32[39,16] parameter(2)
    partition.constant = f32[] constant(0)
    h.pad = f32[16,40] pad(w, partition.constant), padding=0_0x0_1
    h = f32[8,40] dot(x, h.pad), lhs_contracting_dims={1}, rhs_contracting_dims={0}
    e.exponential = f32[8,40] exponential(h)
    partition.constant1 = pred[] constant(true)
    partition.constant2 = pred[] constant(false)
    e.broadcast = pred[39] broadcast(partition.constant1), dimensions={}
    e.pad = pred[40] pad(e.broadcast, partition.constant2), padding=0_1
    e.broadcast1 = pred[8,40] broadcast(e.pad), dimensions={1}
    e.broadcast2 = f32[8,40] broadcast(partition.constant), dimensions={}
    e = f32[8,40] select(e.broadcast1, e.exponential, e.broadcast2)
    y.pad = f32[40,16] pad(v, partition.constant), padding=0_1x0_0
    ROOT y = f32[8,16] dot(e, y.pad), lhs_contracting_dims={1}, rhs_contracting_dims={0}
    ");
}

#[test]
fn a_maximum_of_more_is_the_same_maximum() {
    let text = "x = f32[8,16] parameter(0) w = f32[16,39] parameter(1) low = f32[] constant(-inf)
        h = f32[8,39] dot(x, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}
        ROOT m = f32[8] reduce(h, low), dimensions={1}, to_apply=max";
    assert_snapshot!(padded("pad", text), @"
    x = f32[8,16] parameter(0)
    w = f32[16,39] parameter(1)
    low = f32[] constant(-inf)
    partition.constant = f32[] constant(0)
    h.pad = f32[16,40] pad(w, partition.constant), padding=0_0x0_1
    h = f32[8,40] dot(x, h.pad), lhs_contracting_dims={1}, rhs_contracting_dims={0}
    partition.constant1 = pred[] constant(true)
    partition.constant2 = pred[] constant(false)
    m.broadcast = pred[39] broadcast(partition.constant1), dimensions={}
    m.pad = pred[40] pad(m.broadcast, partition.constant2), padding=0_1
    m.broadcast1 = pred[8,40] broadcast(m.pad), dimensions={1}
    partition.constant3 = f32[] constant(-inf)
    m.broadcast2 = f32[8,40] broadcast(partition.constant3), dimensions={}
    m.select = f32[8,40] select(m.broadcast1, h, m.broadcast2)
    ROOT m = f32[8] reduce(m.select, low), dimensions={1}, to_apply=max
    ");
}

#[test]
fn an_update_of_a_weight_stays_short() {
    let text = "x = f32[39,16] parameter(0) g = f32[16,64] parameter(1) w = f32[39,64] parameter(2)
        d = f32[39,64] dot(x, g), lhs_contracting_dims={1}, rhs_contracting_dims={0}
        ROOT n = f32[39,64] subtract(w, d)";
    assert_snapshot!(padded("pad", text), @"
    x = f32[39,16] parameter(0)
    g = f32[16,64] parameter(1)
    w = f32[39,64] parameter(2)
    partition.constant = f32[] constant(0)
    d.pad = f32[40,16] pad(x, partition.constant), padding=0_1x0_0
    d = f32[40,64] dot(d.pad, g), lhs_contracting_dims={1}, rhs_contracting_dims={0}
    n.slice = f32[39,64] slice(d), slice={[0:39], [0:64]}
    ROOT n = f32[39,64] subtract(w, n.slice)
    ");
}

#[test]
fn a_barrier_hands_on_what_is_longer() {
    let text = "x = f32[8,16] parameter(0) w = f32[16,39] parameter(1) v = f32[39,16] parameter(2)
        h = f32[8,39] dot(x, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}
        t = (f32[8,39], f32[39,16]) tuple(h, v)
        b = (f32[8,39], f32[39,16]) opt-barrier(t)
        h1 = f32[8,39] get-tuple-element(b), index=0 v1 = f32[39,16] get-tuple-element(b), index=1
        e = f32[8,39] negate(h1)
        ROOT y = f32[8,16] dot(e, v1), lhs_contracting_dims={1}, rhs_contracting_dims={0}";
    assert_snapshot!(padded("pad", text), @"
    x = f32[8,16] parameter(0)
    w = f32[16,39] parameter(1)
    v = f32[39,16] parameter(2)
    partition.constant = f32[] constant(0)
    h.pad = f32[16,40] pad(w, partition.constant), padding=0_0x0_1
    h = f32[8,40] dot(x, h.pad), lhs_contracting_dims={1}, rhs_contracting_dims={0}
    b.tuple = (f32[8,40], f32[39,16]) tuple(h, v)
    b.opt-barrier = (f32[8,40], f32[39,16]) opt-barrier(b.tuple)
    b.get-tuple-element = f32[8,40] get-tuple-element(b.opt-barrier), index=0
    b.get-tuple-element1 = f32[39,16] get-tuple-element(b.opt-barrier), index=1
    e.negate = f32[8,40] negate(b.get-tuple-element)
    partition.constant1 = pred[] constant(true)
    partition.constant2 = pred[] constant(false)
    e.broadcast = pred[39] broadcast(partition.constant1), dimensions={}
    e.pad = pred[40] pad(e.broadcast, partition.constant2), padding=0_1
    e.broadcast1 = pred[8,40] broadcast(e.pad), dimensions={1}
    e.broadcast2 = f32[8,40] broadcast(partition.constant), dimensions={}
    e = f32[8,40] select(e.broadcast1, e.negate, e.broadcast2)
    y.pad = f32[40,16] pad(b.get-tuple-element1, partition.constant), padding=0_1x0_0
    ROOT y = f32[8,16] dot(e, y.pad), lhs_contracting_dims={1}, rhs_contracting_dims={0}
    ");
}

#[test]
fn what_would_be_too_long_stays_and_so_does_what_divides() {
    let text = "x = f32[8,13] parameter(0) w = f32[13,16] parameter(1)
        ROOT y = f32[8,16] dot(x, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}";
    assert_snapshot!(padded("pad", text), @"
    x = f32[8,13] parameter(0)
    w = f32[13,16] parameter(1)
    ROOT y = f32[8,16] dot(x, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}
    ");
    assert_snapshot!(padded("pad{waste=25}", text), @"
    x = f32[8,13] parameter(0)
    w = f32[13,16] parameter(1)
    partition.constant = f32[] constant(0)
    y.pad = f32[8,16] pad(x, partition.constant), padding=0_0x0_3
    y.pad1 = f32[16,16] pad(w, partition.constant), padding=0_3x0_0
    ROOT y = f32[8,16] dot(y.pad, y.pad1), lhs_contracting_dims={1}, rhs_contracting_dims={0}
    ");
}

/// A chain of products, of what is not zero at zero, of sums and extremes that are taken off; in odd sizes.
fn chain(random: &mut Random) -> String {
    let sizes = [3, 5, 7, 8, 13];
    let (mut params, mut body) = (String::new(), String::new());
    let mut dims = [random.pick(&sizes), random.pick(&sizes)];
    let _ = writeln!(params, "v0 = f32[{},{}] parameter(0)", dims[0], dims[1]);
    let n_ops = 3 + random.below(8);
    let mut n_params = 1;
    for at in 0..n_ops {
        let (from, to) = (format!("v{at}"), format!("v{}", at + 1));
        let shape = |dims: [i64; 2]| format!("f32[{},{}]", dims[0], dims[1]);
        let now = shape(dims);
        let _ = match random.below(6) {
            0 | 1 => {
                let (dim, new) = (random.below(2), random.pick(&sizes));
                let _ = writeln!(params, "w{at} = f32[{},{new}] parameter({n_params})", dims[dim]);
                n_params += 1;
                dims = [dims[1 - dim], new];
                let sums = format!("lhs_contracting_dims={{{dim}}}, rhs_contracting_dims={{0}}");
                writeln!(body, "{to} = {} dot({from}, w{at}), {sums}", shape(dims))
            }
            2 => writeln!(body, "{to} = {now} cosine({from})"),
            3 => {
                dims.reverse();
                writeln!(body, "{to} = {} transpose({from}), dimensions={{1,0}}", shape(dims))
            }
            _ => {
                let (dim, call) = (random.below(2), random.pick(&["add", "max"]));
                let kept = dims[1 - dim];
                let start = if call == "max" { "low" } else { "zero" };
                let _ = writeln!(
                    body,
                    "r{at} = f32[{kept}] reduce({from}, {start}), dimensions={{{dim}}}, to_apply={call}"
                );
                let _ = writeln!(body, "b{at} = {now} broadcast(r{at}), dimensions={{{}}}", 1 - dim);
                writeln!(body, "{to} = {now} subtract({from}, b{at})")
            }
        };
    }
    let root = format!("ROOT out = (f32[{},{}]) tuple(v{n_ops})", dims[0], dims[1]);
    format!(
        "{CALLS}ENTRY e {{ {params} zero = f32[] constant(0) low = f32[] constant(-inf)\n{body} {root} }}"
    )
}

#[test]
fn what_is_added_changes_no_result() {
    let mut n_masked = 0;
    for seed in 0..300 {
        let text = chain(&mut Random(seed));
        let whole = phzc_ir::parse(&text).unwrap_or_else(|error| panic!("{error}\n{text}"));
        let long = passed(&text, "pad{waste=100}", &default_cluster()).expect("any program may be padded");
        assert_eq!(phzc_ir::verify(&long), [], "{text}");
        n_masked += usize::from(long.entry().instrs.iter().any(|instr| instr.op == Opcode::Select));
        let given = inputs(&whole, seed).expect("fixed shapes");
        let made = |module| run(module, &given, &Options::default()).expect("it runs");
        let parts: Vec<Value> = made(&long).leaves().into_iter().cloned().map(Value::Array).collect();
        let error = largest_error(&made(&whole), &parts);
        assert!(error < 1e-4, "{error}\n{text}\n{}", phzc_ir::print(&long));
    }
    assert!(n_masked > 100, "hardly anything is masked: {n_masked}");
}
