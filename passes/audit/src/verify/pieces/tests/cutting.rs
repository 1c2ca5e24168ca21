//! What stands in a piece, how far back it goes, and what becomes an input.

use super::*;
use crate::verify::pieces::cut::{is_copied, is_given};

/// The two modules of the plan's piece that makes this instruction, with what it reads up to `levels` further
/// back.
fn both(program: &str, plan: &str, name: &str, levels: usize) -> Option<[Module; 2]> {
    cut_out(&flat(&format!("HloModule m\n{program}")), &flat(&plan_text(plan)), name, levels)
}

fn cut_out(program: &Module, plan: &Module, name: &str, levels: usize) -> Option<[Module; 2]> {
    let timed = lowerable(plan).expect("it keeps the rules");
    let (facts, program) = (derive(&timed).expect("a header"), Values::of(program));
    let claims = Claims::of(&timed, &program);
    let whole = Whole { plan: &timed, facts: &facts, program: &program, claims: &claims };
    let makes = |piece: &&Piece| *timed.entry().instr(piece.made[0].0).name == *name;
    let piece = claims.pieces.iter().find(makes).expect("it is proven on its own");
    cut(whole, piece, levels)
}

/// How many operations the pieces of program and plan have.
fn n_ops(program: &str, plan: &str, name: &str, levels: usize) -> [usize; 2] {
    let is_op = |instr: &&Instr| {
        !matches!(instr.op, phzc_ir::Opcode::Parameter | phzc_ir::Opcode::Tuple)
            && !phzc_plan::derive::is_move(instr)
    };
    let count = |module: Module| module.entry().instrs.iter().filter(is_op).count();
    both(program, plan, name, levels).expect("it can be cut out").map(count)
}

/// The lines of the entry of a module.
fn entry(module: &Module) -> String {
    phzc_ir::print(module).split_once("ENTRY").expect("an entry").1.trim().to_owned()
}

#[test]
fn control_flow_tuples_and_effects_stand_in_no_piece() {
    let state = "(s32[], f32[8])";
    let text = format!(
        "HloModule m
        more {{ p = {state} parameter(0) i = s32[] get-tuple-element(p), index=0 ROOT c = pred[] compare(i, i), direction=LT }}
        step {{ p = {state} parameter(0) ROOT o = {state} opt-barrier(p) }}
        less {{ a = f32[] parameter(0) b = f32[] parameter(1) c = s32[] parameter(2) d = s32[] parameter(3)
          ROOT l = pred[] compare(a, b), direction=LT }}
        ENTRY e {{ x = f32[8] parameter(0) i = s32[8] iota(), iota_dimension=0 k = s32[] constant(0) l = f32[] constant(0)
          s = {state} tuple(k, x) w = {state} while(s), condition=more, body=step b = {state} opt-barrier(s)
          sorted = (f32[8], s32[8]) sort(x, i), dimensions={{0}}, to_apply=less
          g = f32[8] get-tuple-element(sorted), index=0 drawn = f32[8] rng(l, l), distribution=rng_uniform
          move = f32[8] custom-call(g), custom_call_target=\"Sharding\"
          loud = f32[8] custom-call(g), custom_call_target=\"Sharding\", custom_call_has_side_effect=true
          token = token[] after-all() fed = (f32[8], token[]) infeed(token)
          late = f32[8] add-dependency(x, token)
          ROOT r = f32[8] add(drawn, x) }}"
    );
    let module = phzc_ir::parse(&text).expect("legal");
    let comp = module.entry();
    let names = |holds: &dyn Fn(&Instr) -> bool| {
        let found = comp.instrs.iter().filter(|instr| holds(instr));
        found.map(|instr| &*instr.name).collect::<Vec<_>>().join(" ")
    };
    assert_eq!(names(&|instr| is_copied(comp, instr)), "i k l s sorted move loud r");
    assert_eq!(names(&is_given), "x w");
}

/// A chain of so many tangents that ends in `y`.
fn tangents(n: usize) -> String {
    let all = (1..n).map(|at| format!("t{at} = f32[8,8] tan(t{})\n", at - 1)).collect::<String>();
    format!("ENTRY e {{ t0 = f32[8,8] parameter(0) {all} ROOT y = f32[8,8] negate(t{}) }}", n - 1)
}

#[test]
fn a_programs_piece_goes_further_back_where_a_name_alone_says_what_it_is() {
    // The plan has fewer instructions than the program: its piece is `y` of t0, the other's as many as the
    // budget.
    let plan = "ENTRY e { t0 = f32[8,8] parameter(0), ROWS ROOT y = f32[8,8] abs(t0), ROWS }";
    assert_eq!(n_ops(&tangents(100), plan, "y", 0), [16 + 2, 1]);
    assert_eq!(n_ops(&tangents(100), plan, "y", 2), [3 * 16 + 2, 1]);
    // Two that no claim is about are in it.
    let plan =
        "ENTRY e { t0 = f32[8,8] parameter(0), ROWS u = f32[8,8] sine(t0), ROWS v = f32[8,8] sine(u), ROWS
        ROOT y = f32[8,8] abs(v), ROWS }";
    assert_eq!(n_ops(&tangents(100), plan, "y", 0), [16 + 6, 3]);
}

#[test]
fn a_piece_of_the_same_text_reads_what_the_plans_does() {
    let plan =
        "ENTRY e { t0 = f32[8,8] parameter(0), ROWS t1 = f32[8,8] tan(t0), ROWS t2 = f32[8,8] tan(t1), ROWS
        ROOT y = f32[8,8] negate(t2), ROWS }";
    assert_eq!(n_ops(&tangents(3), plan, "y", 0), [1, 1]);
    assert_eq!(n_ops(&tangents(3), plan, "y", 1), [2, 2]);
    assert_eq!(n_ops(&tangents(3), plan, "y", 2), [3, 3]);
}

#[test]
fn a_piece_has_at_most_400_instructions_that_no_claim_is_about() {
    let program = "ENTRY e { u0 = f32[2] parameter(0) ROOT y = f32[2] tanh(u0) }";
    let open = |n: usize| {
        let all =
            (1..=n).map(|at| format!("u{at} = f32[2] negate(u{}), WHOLE\n", at - 1)).collect::<String>();
        let plan =
            format!("ENTRY e {{ u0 = f32[2] parameter(0), WHOLE {all} ROOT y = f32[2] tanh(u{n}), WHOLE }}");
        let found = check(program, &plan);
        assert_eq!(found.differing, []);
        found.open.into_iter().map(|open| format!("{}: {}", open.name, open.why)).collect::<Vec<_>>()
    };
    assert_eq!(open(400), [""; 0]);
    assert_eq!(open(402), ["y: it cannot be cut out of the plan"]);
}

const LESS: &str =
    "less { a = f32[] parameter(0) b = f32[] parameter(1) c = s32[] parameter(2) d = s32[] parameter(3)
    ROOT l = pred[] compare(a, b), direction=LT }\n";

#[test]
fn results_of_a_sort_are_elements_of_its_copy() {
    let body = |layout: &str, tuple: &str, direction: &str| {
        format!(
            "{} ENTRY e {{ x = f32[8] parameter(0){layout} i = s32[8] parameter(1){layout}
            s = (f32[8], s32[8]) sort(x, i), dimensions={{0}}, to_apply=less{tuple}
            f = f32[8] get-tuple-element(s), index=0{layout} g = s32[8] get-tuple-element(s), index=1{layout}
            ROOT r = (f32[8], s32[8]) tuple(f, g){tuple} }}",
            LESS.replace("LT", direction)
        )
    };
    let tuple = ", sharding={{replicated}, {replicated}}";
    let (program, plan) = (body("", "", "LT"), body(", WHOLE", tuple, "LT"));
    assert_eq!(differing(&program, &plan), [""; 0]);
    assert_eq!(differing(&program, &body(", WHOLE", tuple, "GT")), ["s"]);
    let [of_program, _] = both(&program, &plan, "s", 0).expect("it can be cut out");
    insta::assert_snapshot!(entry(&of_program), @"
    piece {
      p0 = f32[8] parameter(0)
      p1 = s32[8] parameter(1)
      n0 = (f32[8], s32[8]) sort(p0, p1), dimensions={0}, to_apply=f0
      n0.0 = f32[8] get-tuple-element(n0), index=0
      n0.1 = s32[8] get-tuple-element(n0), index=1
      ROOT root = (f32[8], s32[8]) tuple(n0.0, n0.1)
    }
    ");
}

#[test]
fn computations_that_are_called_are_copied_without_their_names() {
    let body = |comp: &str, layout: &str| {
        format!(
            "add {{ {comp} }}
            ENTRY e {{ x = f32[8,8] parameter(0){layout} z = f32[] constant(0){layout}
            ROOT r = f32[8] reduce(x, z), dimensions={{0}}, to_apply=add{layout} }}"
        )
    };
    let add = "a = f32[] parameter(0) b = f32[] parameter(1) ROOT c = f32[] add(a, b)";
    let [_, plan] = both(&body(add, ""), &body(add, ", WHOLE"), "r", 0).expect("it can be cut out");
    insta::assert_snapshot!(phzc_ir::print(&plan).split_once("\n").expect("lines").1.trim(), @"
    f0 {
      s0 = f32[] parameter(0)
      s1 = f32[] parameter(1)
      ROOT s2 = f32[] add(s0, s1)
    }

    ENTRY piece {
      p0 = f32[8,8] parameter(0), sharding={replicated}
      n1 = f32[] constant(0), sharding={replicated}
      n0 = f32[8] reduce(p0, n1), dimensions={0}, to_apply=f0, sharding={replicated}
      ROOT root = (f32[8]) tuple(n0), sharding={{replicated}}
    }
    ");
}

#[test]
fn computations_in_a_list_are_copied_too() {
    let body = |layout: &str| {
        format!(
            "f {{ a = f32[8] parameter(0) ROOT b = f32[8] negate(a) }}
            ENTRY e {{ x = f32[8] parameter(0){layout}
            ROOT r = f32[8] custom-call(x), custom_call_target=\"q\", called_computations={{f}}{layout} }}"
        )
    };
    let [_, plan] = both(&body(""), &body(", WHOLE"), "r", 0).expect("it can be cut out");
    insta::assert_snapshot!(entry(&plan), @r#"
    piece {
      p0 = f32[8] parameter(0), sharding={replicated}
      n0 = f32[8] custom-call(p0), custom_call_target="q", called_computations={f0}, sharding={replicated}
      ROOT root = (f32[8]) tuple(n0), sharding={{replicated}}
    }
    "#);
}

#[test]
fn a_sum_over_one_axis_is_read_as_its_summands_split_over_the_other() {
    let program = "ENTRY e { x = f32[8,8] parameter(0) w = f32[8,8] parameter(1)
        h = f32[8,8] dot(x, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}
        ROOT y = f32[8,8] negate(h) }";
    let four =
        "HloModule m, num_partitions=4, frontend_attributes={phzc.mesh=\"x=2,y=2\",phzc.plan=\"{}\"}\n";
    // Rows over x, summands over y.
    let rows = "sharding={devices=[2,1,2]<=[4] last_tile_dim_replicate}";
    let tiles = "sharding={devices=[2,2]<=[4]}";
    let swapped = "sharding={devices=[2,1,2]<=[2,2]T(1,0) last_tile_dim_replicate}";
    let sum = format!("{rows}, frontend_attributes={{phzc.partial=\"y\"}}");
    let plan = format!(
        "{four}ENTRY e {{ x = f32[8,8] parameter(0), {tiles} w = f32[8,8] parameter(1), {swapped}
        h = f32[8,8] dot(x, w), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}}, {sum}
        y = f32[8,8] negate(h), {sum}
        ROOT s = f32[8,8] custom-call(y), custom_call_target=\"Sharding\", {rows} }}"
    );
    let found = prove(&flat(&format!("HloModule m\n{program}")), &flat(&plan), &Settings::default());
    let found = found.unwrap_or_else(|failed| panic!("{failed:?}"));
    assert_eq!((found.differing, found.open), (vec![], vec![]));
    let [_, cut] =
        cut_out(&flat(&format!("HloModule m\n{program}")), &flat(&plan), "s", 0).expect("it can be cut out");
    insta::assert_snapshot!(entry(&cut), @r#"
    piece {
      p0 = f32[2,8,8] parameter(0), sharding={devices=[2,2,1]<=[2,2]T(1,0)}
      p0.zero = f32[] constant(0), sharding={replicated}
      p0.sum = f32[8,8] reduce(p0, p0.zero), dimensions={0}, to_apply=f0, sharding={devices=[2,1,2]<=[4] last_tile_dim_replicate}, frontend_attributes={phzc.partial="y"}
      n1 = f32[8,8] negate(p0.sum), sharding={devices=[2,1,2]<=[4] last_tile_dim_replicate}, frontend_attributes={phzc.partial="y"}
      n0 = f32[8,8] custom-call(n1), custom_call_target="Sharding", sharding={devices=[2,1,2]<=[4] last_tile_dim_replicate}
      ROOT root = (f32[8,8]) tuple(n0), sharding={{devices=[2,1,2]<=[4] last_tile_dim_replicate}}
    }
    "#);
}

#[test]
fn one_value_in_two_layouts_is_one_input_and_a_movement_of_it() {
    let dot = "dot(a, a), lhs_contracting_dims={1}, rhs_contracting_dims={0}";
    let program = format!(
        "ENTRY e {{ x = f32[8,8] parameter(0) w = f32[8,8] parameter(1) b = f32[8,8] sine(w) a = f32[8,8] tanh(x)
        h = f32[8,8] {dot} ROOT y = f32[8,8] add(h, b) }}"
    );
    let plan = format!(
        "ENTRY e {{ x = f32[8,8] parameter(0), ROWS w = f32[8,8] parameter(1), ROWS b = f32[8,8] sine(w), ROWS
        a = f32[8,8] tanh(x), ROWS g = f32[8,8] custom-call(a), custom_call_target=\"Sharding\", WHOLE
        h = f32[8,8] {}, ROWS ROOT y = f32[8,8] add(h, b), ROWS }}",
        dot.replace("a, a", "a, g")
    );
    insta::assert_snapshot!(piece(&program, &plan, "h"), @r#"
    piece {
      p0 = f32[8,8] parameter(0), sharding={devices=[2,1]<=[2]}
      p0.move1 = f32[8,8] custom-call(p0), custom_call_target="Sharding"
      n0 = f32[8,8] dot(p0, p0.move1), lhs_contracting_dims={1}, rhs_contracting_dims={0}, sharding={devices=[2,1]<=[2]}
      ROOT root = (f32[8,8]) tuple(n0), sharding={{devices=[2,1]<=[2]}}
    }
    "#);
    assert_eq!(differing(&program, &plan), [""; 0]);
}
