//! How much memory a plan needs, by liveness.

mod asynchronous;
mod by_instr;
mod in_flight;

use super::*;
use phzc_ir::parse;

const PLANNED: &str = "frontend_attributes={phzc.mesh=\"x=2\",phzc.plan=\"{}\"}";

/// Peak bytes per stage of a program on the mesh `x=2`; every instruction that says nothing is whole.
fn peaks(header: &str, text: &str) -> Vec<f64> {
    let header = format!("HloModule m, {header}\n");
    let text: Vec<String> = text
        .lines()
        .map(|line| match line.contains('=') && !line.contains("sharding=") {
            true => format!("{line}, sharding={{replicated}}"),
            false => line.to_owned(),
        })
        .collect();
    let module = parse(&(header + &text.join("\n"))).expect("legal");
    let cluster = Cluster::named("a100-8").expect("a known cluster");
    memory(&module, &cluster).expect("a legal header").stages.iter().map(|stage| stage.peak_bytes).collect()
}

#[test]
fn a_value_lives_to_its_last_reader() {
    // a and d1, then d1 and d2, then d1 dies.
    let text = "ENTRY e {
        a = f32[16,16] parameter(0)
        d1 = f32[16,16] dot(a, a), lhs_contracting_dims={1}, rhs_contracting_dims={0}
        d2 = f32[16,16] dot(d1, a), lhs_contracting_dims={1}, rhs_contracting_dims={0}
        ROOT d3 = f32[16,16] dot(d2, a), lhs_contracting_dims={1}, rhs_contracting_dims={0}
        }";
    assert_eq!(peaks(PLANNED, text), [3.0 * 1024.0]);
}

#[test]
fn a_tile_counts_as_a_tile() {
    let text = "ENTRY e {
        a = f32[16,16] parameter(0), sharding={devices=[2,1]<=[2]}
        ROOT g = f32[16,16] custom-call(a), custom_call_target=\"Sharding\", sharding={replicated}
        }";
    assert_eq!(peaks(PLANNED, text), [512.0 + 1024.0]);
}

#[test]
fn fused_values_have_no_memory_but_keep_their_makers_alive() {
    // n and the broadcast stay in registers; d lives until r.
    let text = "ENTRY e {
        a = f32[16,16] parameter(0)
        c = f32[] constant(2)
        d = f32[16,16] dot(a, a), lhs_contracting_dims={1}, rhs_contracting_dims={0}
        n = f32[16,16] negate(d)
        u = f32[16,16] dot(a, a), lhs_contracting_dims={1}, rhs_contracting_dims={1}
        b = f32[16,16] broadcast(c), dimensions={}
        m = f32[16,16] multiply(n, b)
        r = f32[16,16] add(m, u)
        ROOT v = f32[16,16] dot(r, a), lhs_contracting_dims={1}, rhs_contracting_dims={0}
        }";
    assert_eq!(peaks(PLANNED, text), [3.0 * 1024.0]);
}

#[test]
fn an_output_over_a_dead_parameter_costs_nothing() {
    let text = "ENTRY e {
        w = f32[16,16] parameter(0)
        g = f32[16,16] parameter(1)
        ROOT r = f32[16,16] subtract(w, g)
        }";
    let header = format!("input_output_alias={{ {{}}: (0, {{}}, may-alias) }}, {PLANNED}");
    assert_eq!((peaks(&header, text), peaks(PLANNED, text)), (vec![2048.0], vec![3072.0]));
}

#[test]
fn an_output_that_is_made_before_a_parameter_is_read_for_the_last_time_has_memory_of_its_own() {
    let text = |first: &str, second: &str| {
        format!(
            "ENTRY e {{
            w = f32[16,16] parameter(0)
            g = f32[16,16] parameter(1)
            {first}
            {second}
            ROOT t = (f32[16,16], f32[16,16]) tuple(r, d)
            }}"
        )
    };
    let header = format!("input_output_alias={{ {{0}}: (0, {{}}, may-alias) }}, {PLANNED}");
    let (reads, makes) = (
        "d = f32[16,16] dot(w, g), lhs_contracting_dims={1}, rhs_contracting_dims={0}",
        "r = f32[16,16] subtract(w, g)",
    );
    assert_eq!(peaks(&header, &text(reads, makes)), [3.0 * 1024.0]);
    assert_eq!(peaks(&header, &text(makes, reads)), [4.0 * 1024.0]);
}

#[test]
fn the_second_output_reuses_the_second_part_of_a_parameter() {
    let text = "ENTRY e {
        p = (f32[32,16], f32[16,16]) parameter(0), sharding={{replicated}, {replicated}}
        a = f32[32,16] get-tuple-element(p), index=0
        b = f32[16,16] get-tuple-element(p), index=1
        d = f32[32,16] dot(a, b), lhs_contracting_dims={1}, rhs_contracting_dims={0}
        r = f32[16,16] negate(b)
        ROOT t = (f32[32,16], f32[16,16]) tuple(d, r), sharding={{replicated}, {replicated}}
        }";
    let header = |alias: &str| format!("input_output_alias={{ {alias} }}, {PLANNED}");
    assert_eq!(peaks(PLANNED, text), [6.0 * 1024.0]);
    assert_eq!(peaks(&header("{1}: (0, {1}, may-alias)"), text), [5.0 * 1024.0]);
}

#[test]
fn what_a_branch_makes_takes_room() {
    let text = "yes { p = f32[16,16] parameter(0)
        ROOT n = f32[16,16] negate(p)
        }
        no { q = f32[16,16] parameter(0)
        ROOT m = f32[16,16] tanh(q)
        }
        ENTRY e {
        k = pred[] parameter(0)
        a = f32[16,16] parameter(1)
        c = f32[16,16] conditional(k, a, a), true_computation=yes, false_computation=no
        ROOT d = f32[16,16] dot(c, a), lhs_contracting_dims={1}, rhs_contracting_dims={0}
        }";
    // `k`, `a`, `c`, and what a branch makes or `d`.
    assert_eq!(peaks(PLANNED, text), [1.0 + 3.0 * 1024.0]);
}

#[test]
fn what_is_there_at_the_peak_has_bytes() {
    let text = "HloModule m
        ENTRY e { a = f32[16,16] parameter(0) b = f32[8] parameter(1)
        early = f32[4,4] parameter(2)
        gone = f32[4,4] dot(early, early), lhs_contracting_dims={1}, rhs_contracting_dims={0}
        done = f32[4,4] dot(gone, early), lhs_contracting_dims={1}, rhs_contracting_dims={0}
        c = f32[] constant(2) n = f32[16,16] negate(a)
        d = f32[16,16] dot(n, a), lhs_contracting_dims={1}, rhs_contracting_dims={0}
        s = f32[16,16] tanh(d)
        r = f32[16,16] dot(s, d), lhs_contracting_dims={1}, rhs_contracting_dims={0}
        ROOT t = (f32[16,16], f32[4,4]) tuple(r, done) }";
    let module = parse(text).expect("legal");
    let facts = derive(&module).expect("no notes");
    let found: Vec<(&str, f64)> = at_peak(&module, &facts, 0)
        .iter()
        .map(|&(id, bytes)| (&*module.entry().instr(id).name, bytes))
        .collect();
    // Parameters are there to the end, `gone` is not, and `n` stays in registers.
    let all = [
        ("a", 1024.0),
        ("d", 1024.0),
        ("s", 1024.0),
        ("r", 1024.0),
        ("early", 64.0),
        ("done", 64.0),
        ("b", 32.0),
    ];
    assert_eq!(found, all);
}

#[test]
fn a_loop_adds_the_peak_of_its_body_to_what_it_carries() {
    // Carried: a (passed on) and x; inside: d1 and d2 beside x.
    let text = "b {
        p = (f32[16,16], f32[16,16]) parameter(0), sharding={{replicated}, {replicated}}
        a = f32[16,16] get-tuple-element(p), index=0
        x = f32[16,16] get-tuple-element(p), index=1
        d1 = f32[16,16] dot(x, a), lhs_contracting_dims={1}, rhs_contracting_dims={0}
        d2 = f32[16,16] dot(d1, x), lhs_contracting_dims={1}, rhs_contracting_dims={0}
        ROOT t = (f32[16,16], f32[16,16]) tuple(a, d2), sharding={{replicated}, {replicated}}
        }
        c {
        p = (f32[16,16], f32[16,16]) parameter(0), sharding={{replicated}, {replicated}}
        ROOT k = pred[] constant(true)
        }
        ENTRY e {
        a = f32[16,16] parameter(0)
        t = (f32[16,16], f32[16,16]) tuple(a, a), sharding={{replicated}, {replicated}}
        ROOT w = (f32[16,16], f32[16,16]) while(t), condition=c, body=b, sharding={{replicated}, {replicated}}
        }";
    assert_eq!(peaks(PLANNED, text), [(2.0 + 2.0) * 1024.0]);
}

#[test]
fn a_loop_that_carries_one_array_makes_it_anew() {
    let text = "b {
        p = f32[16,16] parameter(0)
        ROOT d = f32[16,16] dot(p, p), lhs_contracting_dims={1}, rhs_contracting_dims={0}
        }
        c {
        p = f32[16,16] parameter(0)
        ROOT k = pred[] constant(true)
        }
        ENTRY e {
        a = f32[16,16] parameter(0)
        d = f32[16,16] dot(a, a), lhs_contracting_dims={1}, rhs_contracting_dims={0}
        w = f32[16,16] while(d), condition=c, body=b
        f = f32[16,16] dot(w, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}
        g = f32[16,16] dot(f, f), lhs_contracting_dims={1}, rhs_contracting_dims={0}
        ROOT h = f32[16,16] dot(g, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}
        }";
    // `a`, `d`, `w` and `d` inside; then `a`, `w`, `f` and `g`.
    assert_eq!(peaks(PLANNED, text), [4.0 * 1024.0]);
}

#[test]
fn stages_hold_what_they_receive_and_activations_of_the_microbatches_in_flight() {
    let header = "frontend_attributes={phzc.stages=\"0:;1:\",phzc.plan=\"{\\\"n_microbatches\\\":4}\"}";
    let stage = |stage: usize, phase: &str| {
        format!(
            "sharding={{replicated}}, frontend_attributes={{phzc.stage=\"{stage}\",phzc.phase=\"{phase}\"}}"
        )
    };
    let (f0, f1, b1, b0) = (stage(0, "fwd"), stage(1, "fwd"), stage(1, "bwd"), stage(0, "bwd"));
    let text = format!(
        "ENTRY e {{
        x = f32[16,16] parameter(0), {f0}
        h = f32[16,16] dot(x, x), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}}, {f0}
        y = f32[16,16] dot(h, h), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}}, {f1}
        g = f32[16,16] dot(y, h), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}}, {b1}
        ROOT d = f32[16,16] dot(g, h), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}}, {b0}
        }}"
    );
    // Stage 0: x and h for 2 of 4 microbatches, g received for 1, and the whole d. Stage 1: h and y of 1, g
    // of 1.
    assert_eq!(peaks(header, &text), [1024.0 * (0.25 + 0.5 + 0.25 + 1.0), 1024.0 * 0.75]);
}

/// Two stages, each with a forward product and one for its weight.
fn split_step(schedule: &str, n_microbatches: usize) -> Vec<f64> {
    let plan = format!("{{\\\"n_microbatches\\\":{n_microbatches},\\\"schedule\\\":\\\"{schedule}\\\"}}");
    let header = format!("frontend_attributes={{phzc.stages=\"0:;1:\",phzc.plan=\"{plan}\"}}");
    let line = |text: &str, operands: &str, stage: usize, phase: &str| {
        format!(
            "{text} = f32[16,16] dot({operands}), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}}, sharding={{replicated}}, frontend_attributes={{phzc.stage=\"{stage}\",phzc.phase=\"{phase}\"}}\n"
        )
    };
    let lines = [
        line("h", "x, x", 0, "fwd"),
        line("k", "h, h", 1, "fwd"),
        line("dk", "k, k", 1, "bwd"),
        line("wk", "k, dk", 1, "bwd"),
        line("dh", "dk, dk", 1, "bwd"),
        line("wh", "h, dh", 0, "bwd"),
        "ROOT both = (f32[16,16], f32[16,16]) tuple(wk, wh)\n".to_owned(),
    ]
    .concat();
    let x = "x = f32[16,16] parameter(0), sharding={replicated}, frontend_attributes={phzc.stage=\"0\",phzc.phase=\"fwd\"}";
    peaks(&header, &format!("ENTRY e {{\n{x}\n{lines}}}"))
}

#[test]
fn what_gradients_of_weights_read_is_held_until_they_are_made() {
    // A quarter each: the stages have x and h, and k; then dh, and dk and dh. Products for weights are whole.
    let (quarter, whole) = (256.0, 1024.0);
    assert_eq!(split_step("1f1b", 4), [(1.0 + 2.0 + 1.0) * quarter + whole, 2.0 * quarter + whole]);
    // One microbatch is put off: h and dh are there for both, and k and dk beside dh of the other.
    assert_eq!(
        split_step("zero-bubble", 4),
        [(1.0 + 2.0 + 2.0) * quarter + whole, (4.0 + 1.0) * quarter + whole]
    );
    // Of one alone k and dk wait for the weight's product, and dh has been made by then: it may still be
    // under way.
    assert_eq!(split_step("1f1b", 1), [4.0 * whole, 3.0 * whole]);
    assert_eq!(split_step("zero-bubble", 1), [4.0 * whole, 4.0 * whole]);
}
