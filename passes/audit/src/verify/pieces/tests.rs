//! What pieces are, prove and find, on programs of a few lines.

mod cutting;
mod shares;
mod values;

use super::*;
use crate::testing::{EXAMPLES, passed, slow_8};
use phzc_ir::Instr;
use phzc_opt::inline;

/// The header of a plan for two devices.
const TWO: &str = "HloModule m, num_partitions=2, frontend_attributes={phzc.mesh=\"x=2\",phzc.plan=\"{}\"}\n";
/// Layouts on two devices.
const WHOLE: &str = "sharding={replicated}";
const ROWS: &str = "sharding={devices=[2,1]<=[2]}";
const COLUMNS: &str = "sharding={devices=[1,2]<=[2]}";
const SUMMANDS: &str = "sharding={replicated}, frontend_attributes={phzc.partial=\"x\"}";

fn flat(text: &str) -> Module {
    let mut module = phzc_ir::parse(text).expect("a legal program");
    assert_eq!(phzc_ir::verify(&module), []);
    inline::flatten(&mut module).expect("it is small");
    module
}

fn plan_text(body: &str) -> String {
    let body = body.replace("WHOLE", WHOLE).replace("ROWS", ROWS).replace("COLUMNS", COLUMNS);
    format!("{TWO}{}", body.replace("SUMMANDS", SUMMANDS))
}

/// What the pieces of a plan on two devices show.
fn check(program: &str, plan: &str) -> Pieces {
    let found =
        prove(&flat(&format!("HloModule m\n{program}")), &flat(&plan_text(plan)), &Settings::default());
    found.unwrap_or_else(|failed| panic!("{failed:?}"))
}

/// The names of the pieces that differ.
fn differing(program: &str, plan: &str) -> Vec<String> {
    let found = check(program, plan);
    assert_eq!(found.open, []);
    found.differing.into_iter().map(|piece| piece.name).collect()
}

/// The entry of the plan's piece that makes this instruction, without layouts that are whole.
fn piece(program: &str, plan: &str, name: &str) -> String {
    let (program, plan) = (flat(&format!("HloModule m\n{program}")), flat(&plan_text(plan)));
    let timed = lowerable(&plan).expect("it keeps the rules");
    let (facts, program) = (derive(&timed).expect("a header"), Values::of(&program));
    let claims = Claims::of(&timed, &program);
    let whole = Whole { plan: &timed, facts: &facts, program: &program, claims: &claims };
    let makes = |piece: &&Piece| *timed.entry().instr(piece.made[0].0).name == *name;
    let piece = claims.pieces.iter().find(makes).expect("it is proven on its own");
    let [_, plan] = cut(whole, piece, 0).expect("it can be cut out");
    let text = phzc_ir::print(&plan).replace(", sharding={replicated}", "");
    text.split_once("ENTRY").expect("an entry").1.trim().to_owned()
}

const ADD: &str = "add { a = f32[] parameter(0) b = f32[] parameter(1) ROOT c = f32[] add(a, b) }\n";

#[test]
fn what_a_piece_reads_lies_as_its_maker_says() {
    let program = "ENTRY e { x = f32[8,8] parameter(0) a = f32[8,8] tanh(x) ROOT b = f32[8,8] negate(a) }";
    let plan = "ENTRY e { x = f32[8,8] parameter(0), ROWS a = f32[8,8] tanh(x), ROWS ROOT b = f32[8,8] negate(a), ROWS }";
    insta::assert_snapshot!(piece(program, plan, "b"), @"
    piece {
      p0 = f32[8,8] parameter(0), sharding={devices=[2,1]<=[2]}
      n0 = f32[8,8] negate(p0), sharding={devices=[2,1]<=[2]}
      ROOT root = (f32[8,8]) tuple(n0), sharding={{devices=[2,1]<=[2]}}
    }
    ");
    assert_eq!(differing(program, plan), [""; 0]);
}

#[test]
fn a_sum_that_is_still_to_be_done_is_read_as_its_summands() {
    let program = "ENTRY e { x = f32[8,8] parameter(0) w = f32[8,8] parameter(1)
        h = f32[8,8] dot(x, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}
        ROOT y = f32[8,8] negate(h) }";
    let plan = "ENTRY e { x = f32[8,8] parameter(0), COLUMNS w = f32[8,8] parameter(1), ROWS
        h = f32[8,8] dot(x, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}, SUMMANDS
        y = f32[8,8] negate(h), SUMMANDS
        ROOT s = f32[8,8] custom-call(y), custom_call_target=\"Sharding\", WHOLE }";
    insta::assert_snapshot!(piece(program, plan, "s"), @r#"
    piece {
      p0 = f32[2,8,8] parameter(0), sharding={devices=[2,1,1]<=[2]}
      p0.zero = f32[] constant(0)
      p0.sum = f32[8,8] reduce(p0, p0.zero), dimensions={0}, to_apply=f0, frontend_attributes={phzc.partial="x"}
      n1 = f32[8,8] negate(p0.sum), frontend_attributes={phzc.partial="x"}
      n0 = f32[8,8] custom-call(n1), custom_call_target="Sharding"
      ROOT root = (f32[8,8]) tuple(n0), sharding={{replicated}}
    }
    "#);
    assert_eq!(differing(program, plan), [""; 0]);
}

#[test]
fn a_recomputed_copy_has_the_value_that_it_copies() {
    let program = "ENTRY e { x = f32[8,8] parameter(0) a = f32[8,8] tanh(x) b = f32[8,8] negate(a)
        ROOT c = f32[8,8] multiply(b, a) }";
    let plan = |op: &str| {
        format!(
            "ENTRY e {{ x = f32[8,8] parameter(0), ROWS a = f32[8,8] tanh(x), ROWS
        b = f32[8,8] negate(a), ROWS q = f32[8,8] opt-barrier(x), ROWS r = f32[8,8] {op}(q), ROWS
        ROOT c = f32[8,8] multiply(b, r), ROWS }}"
        )
    };
    assert_eq!(differing(program, &plan("tanh")), [""; 0]);
    assert_eq!(differing(program, &plan("sine")), ["c"]);
}

const LOOP: &str = "
less4 { p = (s32[], f32[8,8]) parameter(0) i = s32[] get-tuple-element(p), index=0
  n = s32[] constant(4) ROOT c = pred[] compare(i, n), direction=LT }
step { p = (s32[], f32[8,8]) parameter(0) i = s32[] get-tuple-element(p), index=0
  x = f32[8,8] get-tuple-element(p), index=1 one = s32[] constant(1) j = s32[] add(i, one)
  y = f32[8,8] tanh(x) z = f32[8,8] add(y, x)
  ROOT t = (s32[], f32[8,8]) tuple(j, z) }
ENTRY e { x = f32[8,8] parameter(0) zero = s32[] constant(0) s = (s32[], f32[8,8]) tuple(zero, x)
  w = (s32[], f32[8,8]) while(s), condition=less4, body=step
  ROOT r = f32[8,8] get-tuple-element(w), index=1 }";

#[test]
fn loops_are_proven_by_their_bodies() {
    let planned = passed(
        &format!("HloModule m\n{LOOP}"),
        "fuse,shard{mesh=2x4},place{stages=1,microbatches=1}",
        &slow_8(),
    );
    let plan = phzc_ir::print(&planned.expect("a plan"));
    let original = flat(&format!("HloModule m\n{LOOP}"));
    let names = |plan: &str| -> Vec<String> {
        let found = prove(&original, &flat(plan), &Settings::default()).expect("it can be lowered");
        assert_eq!(found.open, []);
        found.differing.into_iter().map(|piece| piece.name).collect()
    };
    assert_eq!(names(&plan), [""; 0]);
    assert_eq!(names(&plan.replace("add(y, x)", "subtract(y, x)")), ["z"]);
    assert_eq!(names(&plan.replace("constant(4)", "constant(5)")), ["n"]);
}

#[test]
fn equal_pieces_are_run_once() {
    let body = |layout: &str| {
        let ops = (0..20).map(|n| format!("x{} = f32[8,8] tanh(x{n}){layout}\n", n + 1)).collect::<String>();
        format!(
            "ENTRY e {{ x0 = f32[8,8] parameter(0){layout}\n{ops} ROOT r = f32[8,8] negate(x20){layout} }}"
        )
    };
    let found = check(&body(""), &body(", ROWS"));
    assert_eq!((found.n_pieces, found.n_unlike, found.differing), (21, 2, vec![]));
}

#[test]
fn a_piece_grows_where_the_plan_lacks_an_instruction() {
    let program = "ENTRY e { x = f32[8,8] parameter(0) n = f32[8,8] negate(x) m = f32[8,8] negate(n)
        ROOT b = f32[8,8] tanh(m) }";
    let plan = |operand: &str| {
        format!(
            "ENTRY e {{ x = f32[8,8] parameter(0), ROWS
        n = f32[8,8] negate(x), ROWS ROOT b = f32[8,8] tanh({operand}), ROWS }}"
        )
    };
    assert_eq!(differing(program, &plan("x")), [""; 0]);
    assert_eq!(differing(program, &plan("n")), ["b"]);
}

#[test]
fn what_a_piece_reads_may_depend_on_each_other() {
    // Without `a` being the absolute value of something `b` is not `a`.
    let program = "ENTRY e { x = f32[8,8] parameter(0) a = f32[8,8] abs(x) b = f32[8,8] abs(a)
        ROOT c = f32[8,8] multiply(b, x) }";
    let plan = "ENTRY e { x = f32[8,8] parameter(0), ROWS a = f32[8,8] abs(x), ROWS
        ROOT c = f32[8,8] multiply(a, x), ROWS }";
    assert_eq!(differing(program, plan), [""; 0]);
}

#[test]
fn a_wrong_reduction_is_named() {
    let program = format!(
        "{ADD} ENTRY e {{ x = f32[8,8] parameter(0) zero = f32[] constant(0)
        r = f32[8] reduce(x, zero), dimensions={{0}}, to_apply=add ROOT b = f32[8] negate(r) }}"
    );
    let plan = |dim: &str| {
        format!(
            "{ADD} ENTRY e {{ x = f32[8,8] parameter(0), ROWS zero = f32[] constant(0), WHOLE
        r = f32[8] reduce(x, zero), dimensions={{{dim}}}, to_apply=add, sharding={{DIM}}
        ROOT b = f32[8] negate(r), sharding={{DIM}} }}"
        )
    };
    assert_eq!(differing(&program, &plan("0").replace("DIM", "replicated")), [""; 0]);
    assert_eq!(differing(&program, &plan("1").replace("DIM", "devices=[2]<=[2]")), ["r"]);
}

#[test]
fn stages_and_sums_over_microbatches_are_proven_in_pieces() {
    let (name, text) = EXAMPLES[0];
    let pipeline = "fuse,shard,place{stages=2,microbatches=4,schedule=1f1b}";
    let planned = passed(text, pipeline, &slow_8()).expect("it has a plan");
    let names = |planned: &Module| {
        let found = prove(&flat(text), planned, &Settings::default());
        let found = found.unwrap_or_else(|failed| panic!("{name}: {failed:?}"));
        assert_eq!(found.open, vec![], "{name}");
        found.differing.into_iter().map(|piece| piece.name).collect::<Vec<_>>()
    };
    assert_eq!(names(&planned), [""; 0]);
    let text = phzc_ir::print(&planned);
    let line = text.lines().find(|line| line.contains(" subtract(")).expect("an update");
    let wrong = text.replace(line, &line.replace(" subtract(", " add("));
    let line_name = line.trim().split(' ').next().expect("a name");
    assert_eq!(names(&phzc_ir::parse(&wrong).expect("legal")), [line_name]);
}

/// On one input the few elements of a small mask may all be true.
#[test]
fn a_mask_that_is_left_out_is_missed_in_no_size() {
    for n in 1..=4 {
        let sum = |of: &str, layout: &str| {
            let lines = [
                format!("x = f32[{n}] parameter(0)"),
                format!("y = f32[{n}] parameter(1)"),
                "zero = f32[] constant(0)".to_owned(),
                format!("zeros = f32[{n}] broadcast(zero), dimensions={{}}"),
                format!("is = pred[{n}] compare(x, zeros), direction=GT"),
                format!("kept = f32[{n}] select(is, y, zeros)"),
                format!("ROOT r = f32[] reduce({of}, zero), dimensions={{0}}, to_apply=add"),
            ];
            format!("{ADD}ENTRY e {{ {} }}", lines.map(|line| line + layout).join("\n"))
        };
        assert_eq!(differing(&sum("kept", ""), &sum("y", ", WHOLE")), ["r"], "{n}");
    }
}

#[test]
fn pieces_are_judged_by_the_order_of_their_tasks_too() {
    let plan = |stage: usize| {
        let note = |stage: usize| {
            format!("{WHOLE}, frontend_attributes={{phzc.stage=\"{stage}\",phzc.phase=\"fwd\"}}")
        };
        let text = format!(
            "HloModule m, frontend_attributes={{phzc.stages=\"0:;1:\",phzc.plan=\"{{}}\"}}
             ENTRY e {{ x = f32[4] parameter(0), {} y = f32[4] tanh(x), {}
             z = f32[4] negate(y), {} ROOT r = f32[4] sine(z), {} }}",
            note(0),
            note(stage),
            note(0),
            note(1)
        );
        let program = "HloModule m\nENTRY e { x = f32[4] parameter(0) y = f32[4] tanh(x)
            z = f32[4] negate(y) ROOT r = f32[4] sine(z) }";
        prove(&flat(program), &flat(&text), &Settings::default())
    };
    assert!(plan(0).is_ok_and(|found| found.differing.is_empty() && found.open.is_empty()));
    let message = plan(1).expect_err("stage 0 runs first").error.message;
    assert!(message.contains("`z` (stage 0, forward) reads `y` (stage 1, forward)"), "{message}");
}
