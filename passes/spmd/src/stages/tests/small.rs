//! Small placed steps: their modules, their manifest, and what they compute.

use super::*;
use crate::testing::{staged, staged_with};
use insta::assert_snapshot;

const ALIAS: &str = " {0}: (1, {}, may-alias) ";
const ROWS: &str = "sharding={devices=[2,1]<=[2]}";

/// Two stages on two devices and one, two microbatches; `s` is the gradient of `w`.
fn step() -> Module {
    let h = format!("h = f32[4,2] multiply(x, all), {ROWS}");
    staged(
        ALIAS,
        "0:x=2;1:",
        r#"{"n_microbatches":2}"#,
        &[
            (&format!("x = f32[4,2] parameter(0), {ROWS}"), "fwd", 0),
            ("w = f32[2] parameter(1)", "fwd", 0),
            ("zero = f32[] constant(0)", "fwd", 0),
            ("all = f32[4,2] broadcast(w), dimensions={1}", "fwd", 0),
            (&h, "fwd", 0),
            ("k = f32[4,2] negate(h)", "fwd", 1),
            ("g = f32[4,2] multiply(k, h)", "bwd", 1),
            (&format!("d = f32[4,2] multiply(g, x), {ROWS}"), "bwd", 0),
            ("s = f32[2] reduce(d, zero), dimensions={0}, to_apply=add", "bwd", 0),
            ("v = f32[2] add(w, s)", "upd", 0),
            ("c = f32[2] constant({1, 2})", "upd", 0),
            ("ROOT t = (f32[2], f32[4,2], f32[2]) tuple(v, k, c)", "upd", 0),
        ],
    )
}

/// Asserts that the modules, run one after the other, make what the program makes.
pub(super) fn assert_computes(placed: &Module) -> Stages {
    let cut = stages(placed).unwrap_or_else(|error| panic!("{error}\n{}", print(placed)));
    for (name, module) in &cut.modules {
        let again = parse(&print(module)).expect("a module is legal text");
        assert_eq!(verify(&again), [], "{name}");
    }
    let given = inputs(placed, 1).expect("its inputs can be made");
    let wanted = run(placed, &given, &Options::default()).expect("it can be run");
    let made = execute(&cut, &given, &Options::default()).expect("the modules can be run");
    assert_eq!(wanted.leaves().len(), made.len());
    for (index, (wanted, made)) in wanted.leaves().into_iter().zip(&made).enumerate() {
        let (wanted, made) = (wanted.to_f64_vec(), made.leaves()[0].to_f64_vec());
        let is_close = |(a, b): (&f64, &f64)| a == b || (a - b).abs() < 1e-5 * a.abs().max(1e-3);
        assert!(
            wanted.len() == made.len() && wanted.iter().zip(&made).all(is_close),
            "{index}: {wanted:?} {made:?}"
        );
    }
    cut
}

#[test]
fn a_step_s_modules_have_its_instructions_its_layouts_and_its_sums() {
    let cut = assert_computes(&step());
    let texts: Vec<String> = cut.modules.iter().map(|(_, module)| print(module)).collect();
    assert_snapshot!(texts.join("\n"), @r#"
    HloModule m.stage0.forward, frontend_attributes={phzc.task="stage0.forward"}, num_partitions=2

    ENTRY e {
      x = f32[2,2] parameter(0), sharding={devices=[2,1]<=[2]}
      w = f32[2] parameter(1), sharding={replicated}
      all = f32[2,2] broadcast(w), dimensions={1}, frontend_attributes={phzc.phase="fwd"}, sharding={replicated}
      h = f32[2,2] multiply(x, all), frontend_attributes={phzc.phase="fwd"}, sharding={devices=[2,1]<=[2]}
      ROOT outputs.all = (f32[2,2]) tuple(h), sharding={{devices=[2,1]<=[2]}}
    }

    HloModule m.stage0.backward, frontend_attributes={phzc.task="stage0.backward"}, num_partitions=2

    add {
      p = f32[] parameter(0)
      q = f32[] parameter(1)
      ROOT r = f32[] add(p, q)
    }

    ENTRY e {
      x = f32[2,2] parameter(0), sharding={devices=[2,1]<=[2]}
      g = f32[2,2] parameter(1), sharding={replicated}
      s.sum = f32[2] parameter(2), sharding={replicated}
      zero = f32[] constant(0), frontend_attributes={phzc.phase="fwd"}, sharding={replicated}
      d = f32[2,2] multiply(g, x), frontend_attributes={phzc.phase="bwd"}, sharding={devices=[2,1]<=[2]}
      s.reduce = f32[2] reduce(d, zero), dimensions={0}, to_apply=add, frontend_attributes={phzc.phase="bwd"}
      s = f32[2] add(s.sum, s.reduce), sharding={replicated}
      ROOT outputs.all = (f32[2]) tuple(s), sharding={{replicated}}
    }

    HloModule m.stage0.update, frontend_attributes={phzc.task="stage0.update"}, num_partitions=2

    ENTRY e {
      w = f32[2] parameter(0), sharding={replicated}
      s.sum = f32[2] parameter(1), sharding={replicated}
      v = f32[2] add(w, s.sum), frontend_attributes={phzc.phase="upd"}, sharding={replicated}
      c = f32[2] constant({1, 2}), frontend_attributes={phzc.phase="upd"}, sharding={replicated}
      ROOT outputs.all = (f32[2], f32[2]) tuple(v, c), sharding={{replicated}, {replicated}}
    }

    HloModule m.stage1.forward, frontend_attributes={phzc.task="stage1.forward"}

    ENTRY e {
      h = f32[2,2] parameter(0)
      k = f32[2,2] negate(h), frontend_attributes={phzc.phase="fwd"}
      ROOT outputs.all = (f32[2,2]) tuple(k)
    }

    HloModule m.stage1.backward, frontend_attributes={phzc.task="stage1.backward"}

    ENTRY e {
      h = f32[2,2] parameter(0)
      k = f32[2,2] parameter(1)
      g = f32[2,2] multiply(k, h), frontend_attributes={phzc.phase="bwd"}
      ROOT outputs.all = (f32[2,2]) tuple(g)
    }
    "#);
}

#[test]
fn a_step_s_manifest_says_where_everything_comes_from() {
    let manifest = assert_computes(&step()).manifest;
    assert_eq!(
        (manifest.schema, &*manifest.program, manifest.n_microbatches, &*manifest.schedule),
        (1, "m", 2, "1f1b")
    );
    let runs = manifest.order.iter().map(|run| match run.microbatch {
        Some(microbatch) => format!("{} {microbatch}", run.module),
        None => run.module.clone(),
    });
    let order = "stage0.forward 0, stage0.forward 1, stage1.forward 0, stage1.backward 0, stage1.forward 1, stage1.backward 1, stage0.backward 0, stage0.backward 1, stage0.update";
    assert_eq!(runs.collect::<Vec<_>>().join(", "), order);
    let json: serde_json::Value = serde_json::from_str(&to_json(&manifest)).expect("JSON");
    assert_eq!(json["order"].as_array().map(Vec::len), Some(9));
    fn text(items: &[impl serde::Serialize]) -> Vec<String> {
        items.iter().map(|item| serde_json::to_string(item).expect("string keys")).collect()
    }
    let parts = [
        text(&manifest.stages),
        text(&manifest.modules),
        text(&manifest.accumulators),
        text(&manifest.results),
    ];
    assert_snapshot!(parts.concat().join("\n"), @r#"
    {"devices":[0,1],"mesh":"x=2"}
    {"devices":[2,2],"mesh":""}
    {"name":"stage0.forward","file":"stage0.forward.hlo","stage":0,"phase":"forward","parameters":[{"shape":"f32[2,2]","from":"program","parameter":0,"leaf":0,"split_dim":0},{"shape":"f32[2]","from":"program","parameter":1,"leaf":0,"split_dim":null}],"results":[{"name":"h","shape":"f32[2,2]","readers":["stage1.forward","stage1.backward"]}]}
    {"name":"stage0.backward","file":"stage0.backward.hlo","stage":0,"phase":"backward","parameters":[{"shape":"f32[2,2]","from":"program","parameter":0,"leaf":0,"split_dim":0},{"shape":"f32[2,2]","from":"module","module":"stage1.backward","result":0},{"shape":"f32[2]","from":"accumulator","accumulator":0}],"results":[{"name":"s","shape":"f32[2]","accumulator":0}]}
    {"name":"stage0.update","file":"stage0.update.hlo","stage":0,"phase":"update","parameters":[{"shape":"f32[2]","from":"program","parameter":1,"leaf":0,"split_dim":null},{"shape":"f32[2]","from":"accumulator","accumulator":0}],"results":[{"name":"v","shape":"f32[2]"},{"name":"c","shape":"f32[2]"}]}
    {"name":"stage1.forward","file":"stage1.forward.hlo","stage":1,"phase":"forward","parameters":[{"shape":"f32[2,2]","from":"module","module":"stage0.forward","result":0}],"results":[{"name":"k","shape":"f32[2,2]","readers":["stage1.backward"]}]}
    {"name":"stage1.backward","file":"stage1.backward.hlo","stage":1,"phase":"backward","parameters":[{"shape":"f32[2,2]","from":"module","module":"stage0.forward","result":0},{"shape":"f32[2,2]","from":"module","module":"stage1.forward","result":0}],"results":[{"name":"g","shape":"f32[2,2]","readers":["stage0.backward"]}]}
    {"name":"s","shape":"f32[2]","start":"zero","module":"stage0.backward"}
    {"shape":"f32[2]","join_dim":null,"from":"module","module":"stage0.update","result":0}
    {"shape":"f32[2,2]","join_dim":0,"from":"module","module":"stage1.forward","result":0}
    {"shape":"f32[2]","join_dim":null,"from":"module","module":"stage0.update","result":1}
    "#);
}

#[test]
fn every_reduction_over_the_batch_is_accumulated() {
    for (shape, op, of_nothing, start) in [
        ("f32", "add", "0", "zero"),
        ("f32", "multiply", "1", "one"),
        ("f32", "maximum", "-inf", "lowest"),
        ("f32", "minimum", "inf", "highest"),
        ("s32", "maximum", "-2147483648", "lowest"),
        ("u32", "minimum", "4294967295", "highest"),
        ("s32", "and", "-1", "ones"),
        ("s32", "or", "0", "zero"),
        ("pred", "and", "true", "ones"),
    ] {
        let own = format!(
            "own {{ p = {shape}[] parameter(0) q = {shape}[] parameter(1) ROOT r = {shape}[] {op}(p, q) }}"
        );
        let module = staged_with(
            &own,
            ALIAS,
            "0:",
            r#"{"n_microbatches":4}"#,
            &[
                (&format!("x = {shape}[4,3] parameter(0)"), "fwd", 0),
                ("w = f32[2] parameter(1)", "fwd", 0),
                (&format!("z = {shape}[] constant({of_nothing})"), "fwd", 0),
                (&format!("r = {shape}[3] reduce(x, z), dimensions={{0}}, to_apply=own"), "bwd", 0),
                (&format!("ROOT t = (f32[2], {shape}[3]) tuple(w, r)"), "upd", 0),
            ],
        );
        let cut = assert_computes(&module);
        let starts: Vec<&str> = cut.manifest.accumulators.iter().map(|sum| sum.start).collect();
        assert_eq!(starts, [start], "{shape} {op}");
    }
}

#[test]
fn arrays_of_tuples_go_from_module_to_module_one_by_one() {
    let less = "less { p = f32[] parameter(0) q = f32[] parameter(1) r = f32[] parameter(2) s = f32[] parameter(3) \
                ROOT l = pred[] compare(p, q), direction=LT }";
    let module = staged_with(
        less,
        ALIAS,
        "0:;1:",
        r#"{"n_microbatches":2}"#,
        &[
            ("x = f32[4,8] parameter(0)", "fwd", 0),
            ("w = f32[2] parameter(1)", "fwd", 0),
            ("y = f32[4,8] negate(x)", "fwd", 0),
            ("b = (f32[4,8], f32[4,8]) sort(x, y), dimensions={1}, to_apply=less", "fwd", 0),
            ("second = f32[4,8] get-tuple-element(b), index=1", "fwd", 0),
            ("first = f32[4,8] get-tuple-element(b), index=0", "fwd", 1),
            ("u = (f32[4,8], (f32[4,8], f32[4,8])) tuple(x, b)", "fwd", 1),
            ("o = (f32[4,8], (f32[4,8], f32[4,8])) opt-barrier(u)", "fwd", 1),
            ("in = (f32[4,8], f32[4,8]) get-tuple-element(o), index=1", "fwd", 1),
            ("last = f32[4,8] get-tuple-element(in), index=1", "fwd", 1),
            ("z = f32[4,8] subtract(second, first)", "fwd", 1),
            ("q = f32[4,8] multiply(z, last)", "fwd", 1),
            ("ROOT t = (f32[2], f32[4,8], (f32[4,8], f32[4,8])) tuple(w, q, b)", "upd", 0),
        ],
    );
    let cut = assert_computes(&module);
    let last = cut.manifest.modules.iter().find(|entry| entry.name == "stage1.forward").expect("it is there");
    let from: Vec<&From> = last.parameters.iter().map(|given| &given.from).collect();
    let made = |result| From::Module { module: "stage0.forward".to_owned(), result };
    assert_eq!(from, [&made(0), &made(1)]);
}

#[test]
fn a_part_of_the_batch_is_told_by_its_number() {
    let module = staged(
        ALIAS,
        "0:",
        r#"{"n_microbatches":4}"#,
        &[
            ("x = s32[8] parameter(0)", "fwd", 0),
            ("w = f32[2] parameter(1)", "fwd", 0),
            ("places = s32[8] iota(), iota_dimension=0", "fwd", 0),
            ("y = s32[8] add(x, places)", "fwd", 0),
            ("ROOT t = (f32[2], s32[8]) tuple(w, y)", "upd", 0),
        ],
    );
    let cut = assert_computes(&module);
    let parameters = &cut.manifest.modules[0].parameters;
    assert!(
        parameters.iter().any(|given| given.from == From::Microbatch && given.shape == "u32[]"),
        "{parameters:?}"
    );
}

/// Why a program on one device in each of two stages cannot be taken apart.
fn refused(n_microbatches: usize, lines: &[(&str, &str, usize)]) -> String {
    let plan = format!("{{\"n_microbatches\":{n_microbatches}}}");
    stages(&staged(ALIAS, "0:;1:", &plan, lines)).expect_err("it cannot be taken apart").message
}

#[test]
fn an_update_cannot_read_a_part_of_what_microbatches_make() {
    let lines = [
        ("x = f32[4] parameter(0)", "fwd", 0),
        ("w = f32[4] parameter(1)", "fwd", 0),
        ("y = f32[4] negate(x)", "fwd", 0),
        ("v = f32[4] add(w, y)", "upd", 0),
        ("ROOT t = (f32[4]) tuple(v)", "upd", 0),
    ];
    assert_snapshot!(refused(2, &lines), @"the program cannot run in microbatches because of `t`");
    let plan = r#"{"n_microbatches":1}"#;
    assert_computes(&staged(ALIAS, "0:;1:", plan, &lines));
}

#[test]
fn a_sum_that_a_forward_part_reads_is_refused() {
    let lines = [
        ("x = f32[4] parameter(0)", "fwd", 0),
        ("w = f32[4] parameter(1)", "fwd", 0),
        ("zero = f32[] constant(0)", "fwd", 0),
        ("s = f32[] reduce(x, zero), dimensions={0}, to_apply=add", "fwd", 0),
        ("all = f32[4] broadcast(s), dimensions={}", "fwd", 0),
        ("y = f32[4] multiply(x, all)", "fwd", 0),
        ("ROOT t = (f32[4], f32[4]) tuple(w, y)", "upd", 0),
    ];
    assert_snapshot!(refused(2, &lines), @"the program cannot run in microbatches because of `all`");
    assert_computes(&staged(ALIAS, "0:;1:", r#"{"n_microbatches":1}"#, &lines));
}

#[test]
fn a_program_without_a_plan_is_refused() {
    let module = parse("ENTRY e { ROOT x = f32[4] parameter(0) }").expect("legal");
    let error = stages(&module).expect_err("it has no plan");
    assert_eq!(error.message, "the program has no plan to take apart");
}

/// A loop over two layers that negates `x` and adds up `by` in each.
fn looping(by: &str) -> Module {
    let comps = format!(
        "body {{ p = (s32[], f32[4,2], f32[]) parameter(0)
        i = s32[] get-tuple-element(p), index=0
        h = f32[4,2] get-tuple-element(p), index=1
        g = f32[] get-tuple-element(p), index=2
        z = f32[] constant(0)
        n = f32[4,2] negate(h)
        {by}
        a = f32[] add(g, s)
        o = s32[] constant(1)
        j = s32[] add(i, o)
        ROOT r = (s32[], f32[4,2], f32[]) tuple(j, n, a) }}
        cond {{ p = (s32[], f32[4,2], f32[]) parameter(0)
        i = s32[] get-tuple-element(p), index=0
        n = s32[] constant(2)
        ROOT l = pred[] compare(i, n), direction=LT }}"
    );
    staged_with(
        &comps,
        ALIAS,
        "0:",
        r#"{"n_microbatches":2}"#,
        &[
            ("x = f32[4,2] parameter(0)", "fwd", 0),
            ("w = f32[2] parameter(1)", "fwd", 0),
            ("zero = f32[] constant(0)", "fwd", 0),
            ("first = s32[] constant(0)", "fwd", 0),
            ("t = (s32[], f32[4,2], f32[]) tuple(first, x, zero)", "fwd", 0),
            ("l = (s32[], f32[4,2], f32[]) while(t), condition=cond, body=body", "fwd", 0),
            ("y = f32[4,2] get-tuple-element(l), index=1", "fwd", 0),
            ("a = f32[] get-tuple-element(l), index=2", "fwd", 0),
            ("ROOT u = (f32[2], f32[4,2], f32[]) tuple(w, y, a)", "upd", 0),
        ],
    )
}

#[test]
fn a_sum_over_the_batch_leaves_its_loop() {
    let cut = assert_computes(&looping("s = f32[] reduce(n, z), dimensions={0,1}, to_apply=add"));
    assert_eq!(cut.manifest.accumulators.len(), 1);
}

#[test]
fn a_loop_that_needs_its_sum_at_once_or_its_microbatch_s_number_is_refused() {
    let squared = "q = f32[] reduce(n, z), dimensions={0,1}, to_apply=add\ns = f32[] multiply(q, q)";
    let error = stages(&looping(squared)).expect_err("a square of a sum is no sum");
    assert_eq!(error.message, "a loop needs a sum over the microbatches before it ends");
    let numbered = "k = f32[4,2] iota(), iota_dimension=0\nm = f32[4,2] multiply(k, n)\n\
                    s = f32[] reduce(m, z), dimensions={0,1}, to_apply=add";
    let error = stages(&looping(numbered)).expect_err("each microbatch has other rows");
    assert_eq!(error.message, "a loop takes its part of the batch by the number of the microbatch");
}
