//! Small placed programs on the axis of their microbatches, and what comes after all of these.

use super::*;
use crate::testing::staged;
use insta::assert_snapshot;
use phzc_ir::notes;
use phzc_ir::parse;

const ALIAS: &str = " {0}: (1, {}, may-alias) ";
const ROWS: &str = "sharding={devices=[2,1]<=[2]}";

/// A product of data and a weight on two devices, in two stages, whose gradient `s` is summed over the batch.
fn step(plan: &str) -> Module {
    staged(
        ALIAS,
        "0:x=2;1:x=2",
        plan,
        &[
            (&format!("x = f32[8,4] parameter(0), {ROWS}"), "fwd", 0),
            ("w = f32[4] parameter(1)", "fwd", 0),
            ("zero = f32[] constant(0)", "fwd", 0),
            ("all = f32[8,4] broadcast(w), dimensions={1}", "fwd", 0),
            (&format!("h = f32[8,4] multiply(x, all), {ROWS}"), "fwd", 1),
            ("s = f32[4] reduce(h, zero), dimensions={0}, to_apply=add", "bwd", 1),
            ("v = f32[4] add(w, s)", "upd", 1),
            (
                "ROOT t = (f32[4], f32[8,4]) tuple(v, h), sharding={{replicated}, {devices=[2,1]<=[2]}}",
                "upd",
                0,
            ),
        ],
    )
}

const FOUR: &str = r#"{"n_microbatches":4,"n_stages":2,"schedule":"gpipe"}"#;

/// Name, layout and stage of the entry's instructions.
fn lines(module: &Module) -> String {
    let line = |instr: &phzc_ir::Instr| {
        let sharding = instr.sharding().map(ToString::to_string).unwrap_or_default();
        format!("{} {sharding} {}", instr.name, instr.note(notes::OF_STAGE).unwrap_or("-"))
    };
    let notes = [notes::MESH, notes::PLAN, notes::STAGES];
    let header: Vec<String> =
        notes.iter().filter_map(|note| Some(format!("{note} {}", module.note(note)?))).collect();
    let partitions = module.attr("num_partitions").unwrap_or("-");
    let body: Vec<String> = module.entry().instrs.iter().map(line).collect();
    format!("{}\n{partitions} partitions\n{}", header.join("\n"), body.join("\n"))
}

#[test]
fn microbatches_are_the_outermost_axis_of_what_runs_over_the_batch() {
    let timed = on_time_axis(&step(FOUR)).expect("it has one mesh");
    assert_snapshot!(lines(&timed), @r#"
    phzc.mesh x=4,y=2
    phzc.plan {"n_microbatches":1,"n_stages":1}
    8 partitions
    x {devices=[8,1]<=[8]} 0
    w {replicated} 0
    zero {replicated} 0
    all {devices=[4,1,2]<=[8] last_tile_dim_replicate} 0
    h {devices=[8,1]<=[8]} 1
    s {replicated} 1
    v {replicated} 1
    t {{replicated}, {devices=[8,1]<=[8]}} 0
    "#);
    let facts = derive(&timed).expect("a planned module");
    assert_eq!(facts.header.meshes, [Mesh::new(&[4, 2])]);
    let steps: Vec<_> = facts.comps[timed.entry.index()].iter().flat_map(|own| &own.steps).collect();
    // The one sum is over microbatches and devices.
    assert_eq!(
        steps.iter().map(|step| (step.kind, step.axes)).collect::<Vec<_>>(),
        [(Collective::AllReduce, 0b11)]
    );
}

#[test]
fn one_microbatch_is_no_axis() {
    let timed = on_time_axis(&step(r#"{"n_stages":2}"#)).expect("it has one mesh");
    assert_snapshot!(lines(&timed), @r#"
    phzc.plan {"n_microbatches":1,"n_stages":1}
    - partitions
    x {devices=[2,1]<=[2]} 0
    w {replicated} 0
    zero {replicated} 0
    all {replicated} 0
    h {devices=[2,1]<=[2]} 1
    s {replicated} 1
    v {replicated} 1
    t {{replicated}, {devices=[2,1]<=[2]}} 0
    "#);
}

#[test]
fn without_its_devices_a_program_has_the_axis_of_its_microbatches_alone() {
    let timed = on_time_axis_alone(&step(FOUR)).expect("a legal header");
    assert_snapshot!(lines(&timed), @r#"
    phzc.mesh x=4
    phzc.plan {"n_microbatches":1,"n_stages":1}
    4 partitions
    x {devices=[4,1]<=[4]} 0
    w {replicated} 0
    zero {replicated} 0
    all {devices=[4,1]<=[4]} 0
    h {devices=[4,1]<=[4]} 1
    s {replicated} 1
    v {replicated} 1
    t {{replicated}, {devices=[4,1]<=[4]}} 0
    "#);
    let whole = on_time_axis_alone(&step(r#"{"n_stages":2}"#)).expect("a legal header");
    assert!(!lines(&whole).contains("devices="), "{}", lines(&whole));
}

#[test]
fn stages_of_different_meshes_and_too_many_axes_are_refused() {
    let error = |stages: &str, plan: &str| {
        let module = staged("", stages, plan, &[("ROOT x = f32[8] parameter(0)", "fwd", 0)]);
        on_time_axis(&module).map(|_| ()).map_err(|error| error.message)
    };
    let other = "the stages of the plan have different meshes";
    assert_eq!(error("0:x=2;1:x=4", "{}"), Err(other.to_owned()));
    let many = "microbatches and the mesh have more than four axes together";
    assert_eq!(error("0:x=2,y=2,z=2,w=2", "{}"), Ok(()));
    assert_eq!(error("0:x=2,y=2,z=2,w=2", r#"{"n_microbatches":2}"#), Err(many.to_owned()));
    assert_eq!(error("0:x=2,y=2,z=2", r#"{"n_microbatches":2}"#), Ok(()));
}

/// The names of what comes after all microbatches, or why they cannot be had.
fn after(lines: &[(&str, &str, usize)]) -> Result<Vec<String>> {
    let module = staged(ALIAS, "0:", r#"{"n_microbatches":2}"#, lines);
    let timed = on_time_axis_alone(&module)?;
    let facts = derive(&timed)?;
    let after = after_all(&timed, &facts)?.expect("there are no loops");
    let all = timed.entry().instrs.iter().zip(after).filter(|(_, after)| *after);
    Ok(all.map(|(instr, _)| instr.name.to_string()).collect())
}

const SUM: &[(&str, &str, usize)] = &[
    ("x = f32[8,4] parameter(0)", "fwd", 0),
    ("w = f32[4] parameter(1)", "fwd", 0),
    ("zero = f32[] constant(0)", "fwd", 0),
    ("h = f32[8,4] negate(x)", "fwd", 0),
    ("s = f32[4] reduce(h, zero), dimensions={0}, to_apply=add", "bwd", 0),
    ("r = f32[4] negate(s)", "bwd", 0),
];

#[test]
fn a_sum_over_the_batch_and_what_depends_on_it_and_updates_come_after_all() {
    let rest = [
        ("u = f32[4] negate(w)", "upd", 0),
        ("v = f32[4] add(u, r)", "upd", 0),
        ("ROOT t = (f32[4], f32[8,4]) tuple(v, h)", "upd", 0),
    ];
    assert_eq!(after(&[SUM, &rest].concat()).expect("legal"), ["s", "r", "u", "v"]);
}

#[test]
fn what_every_microbatch_needs_cannot_be_a_sum_over_all() {
    let rest = [
        ("b = f32[8,4] broadcast(r), dimensions={1}", "bwd", 0),
        ("y = f32[8,4] multiply(h, b)", "bwd", 0),
        ("ROOT t = (f32[4], f32[8,4]) tuple(r, y)", "upd", 0),
    ];
    let error = after(&[SUM, &rest].concat()).expect_err("a mean over the batch is needed");
    assert_eq!(error.message, "the program cannot run in microbatches because of `b`");
    assert!(format!("{error}").contains("every microbatch needs a sum over all of them"), "{error}");
}

#[test]
fn what_mixes_samples_cannot_be_had_in_parts() {
    let rest = [
        ("z = f32[8,4] reverse(x), dimensions={0}", "fwd", 0),
        ("y = f32[8,4] multiply(h, z)", "fwd", 0),
        ("ROOT t = (f32[4], f32[8,4]) tuple(r, y)", "upd", 0),
    ];
    let error = after(&[SUM, &rest].concat()).expect_err("samples change places");
    assert!(error.message.starts_with("the program cannot run in microbatches because of"), "{error}");
}

#[test]
fn a_sum_inside_of_a_loop_leaves_open_what_comes_after_it() {
    let text = "HloModule m, input_output_alias={ {0}: (1, {}, may-alias) }, frontend_attributes={phzc.mesh=\"x=2\"}
        add { p = f32[] parameter(0) q = f32[] parameter(1) ROOT r = f32[] add(p, q) }
        body { p = (s32[], f32[4,4]) parameter(0), sharding={{replicated}, {devices=[2,1]<=[2]}}
        i = s32[] get-tuple-element(p), index=0, sharding={replicated}
        h = f32[4,4] get-tuple-element(p), index=1, sharding={devices=[2,1]<=[2]}
        z = f32[] constant(0), sharding={replicated}
        s = f32[4] reduce(h, z), dimensions={0}, to_apply=add, sharding={replicated}
        o = s32[] constant(1), sharding={replicated}
        j = s32[] add(i, o), sharding={replicated}
        ROOT r = (s32[], f32[4,4]) tuple(j, h), sharding={{replicated}, {devices=[2,1]<=[2]}} }
        cond { p = (s32[], f32[4,4]) parameter(0), sharding={{replicated}, {devices=[2,1]<=[2]}}
        i = s32[] get-tuple-element(p), index=0, sharding={replicated}
        n = s32[] constant(3), sharding={replicated}
        ROOT l = pred[] compare(i, n), direction=LT, sharding={replicated} }
        ENTRY e { x = f32[4,4] parameter(0), sharding={devices=[2,1]<=[2]}
        w = f32[4] parameter(1), sharding={replicated}
        z = s32[] constant(0), sharding={replicated}
        t = (s32[], f32[4,4]) tuple(z, x), sharding={{replicated}, {devices=[2,1]<=[2]}}
        l = (s32[], f32[4,4]) while(t), condition=cond, body=body, sharding={{replicated}, {devices=[2,1]<=[2]}}
        ROOT r = (f32[4]) tuple(w), sharding={{replicated}} }";
    let timed = parse(text).expect("legal");
    let facts = derive(&timed).expect("a planned module");
    assert_eq!(facts.problems, []);
    assert_eq!(after_all(&timed, &facts).expect("legal"), None);
}

#[test]
fn every_device_has_a_whole_sample_of_each_microbatch() {
    const X: &str = "sharding={devices=[2,1,2]<=[4] last_tile_dim_replicate}";
    const XY: &str = "sharding={devices=[4,1]<=[4]}";
    let most = |aliases: &str, layout: &str, n_rows: i64| {
        let module = staged(
            aliases,
            "0:x=2,y=2",
            "{}",
            &[
                (&format!("x = f32[{n_rows},4] parameter(0), {layout}"), "fwd", 0),
                ("w = f32[4] parameter(1)", "fwd", 0),
                (&format!("h = f32[{n_rows},4] negate(x), {layout}"), "fwd", 0),
                (&format!("f = f32[{}] reshape(h), sharding={{replicated}}", 4 * n_rows), "fwd", 0),
                (&format!("ROOT t = (f32[4], f32[{}]) tuple(w, f)", 4 * n_rows), "upd", 0),
            ],
        );
        most_parts(&module, &derive(&module).expect("a legal header"))
    };
    assert_eq!(most(ALIAS, X, 8), 4);
    assert_eq!(most(ALIAS, XY, 8), 2);
    assert_eq!(most(ALIAS, XY, 24), 6);
    // What no output replaces may be state.
    assert_eq!(most("", XY, 8), 0);
}

#[test]
fn axes_of_sums_move_with_the_mesh_and_tuples_of_one_stay_tuples() {
    let sum = "sharding={replicated}, frontend_attributes={phzc.partial=\"x\"}";
    let text = format!(
        "HloModule m, input_output_alias={{ {{0}}: (1, {{}}, may-alias) }}, num_partitions=2,
        frontend_attributes={{phzc.mesh=\"x=2\",phzc.plan=\"{{\\\"n_microbatches\\\":4}}\"}}
        ENTRY e {{ x = f32[8,4] parameter(0), sharding={{devices=[1,2]<=[2]}}
        w = f32[4] parameter(1), sharding={{devices=[2]<=[2]}}
        p = f32[8] dot(x, w), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}}, {sum}
        q = f32[8] custom-call(p), custom_call_target=\"Sharding\", sharding={{replicated}}
        n = f32[4] negate(w), sharding={{devices=[2]<=[2]}} ROOT t = (f32[4]) tuple(n), sharding={{{{devices=[2]<=[2]}}}} }}"
    );
    let timed = on_time_axis(&parse(&text).expect("legal")).expect("it has one mesh");
    let instr =
        |name: &str| timed.entry().instrs.iter().find(|instr| *instr.name == *name).expect("it is there");
    assert_eq!(instr("p").note("phzc.partial"), Some("y"));
    let sharding = |name: &str| instr(name).sharding().map(ToString::to_string);
    assert_eq!(sharding("p").as_deref(), Some("{devices=[4,2]<=[8] last_tile_dim_replicate}"));
    assert_eq!(sharding("t").as_deref(), Some("{{devices=[2,4]<=[4,2]T(1,0) last_tile_dim_replicate}}"));
}

#[test]
fn a_sum_over_microbatches_and_devices_comes_after_all_and_one_over_devices_does_not() {
    let timed = on_time_axis(&step(FOUR)).expect("it has one mesh");
    let after = after_all(&timed, &derive(&timed).expect("a header")).expect("it can").expect("no loops");
    let names = timed.entry().iter().filter(|(id, _)| after[id.index()]).map(|(_, instr)| &*instr.name);
    assert_eq!(names.collect::<Vec<_>>(), ["s", "v"]);
}

/// It is no task of its own in the program of one device: nothing else would notice.
#[test]
fn a_change_of_layout_of_what_comes_later_is_refused() {
    let timed = |stage: usize| {
        let moved = "m = f32[8,4] custom-call(y), custom_call_target=\"Sharding\"";
        let lines = [
            ("x = f32[8,4] parameter(0)", "fwd", 0),
            ("w = f32[4] parameter(1)", "fwd", 0),
            ("y = f32[8,4] tanh(x)", "fwd", 1),
            (moved, "fwd", stage),
            ("ROOT t = (f32[4], f32[8,4]) tuple(w, m), sharding={{replicated}, {replicated}}", "fwd", 1),
        ];
        on_time_axis(&staged(ALIAS, "0:x=2;1:x=2", FOUR, &lines))
    };
    assert!(timed(1).is_ok());
    let message = timed(0).expect_err("stage 0 runs first").message;
    assert!(message.starts_with("`m` (stage 0, forward) reads `y` (stage 1, forward)"), "{message}");
}
