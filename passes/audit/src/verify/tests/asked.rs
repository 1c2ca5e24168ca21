//! What is no program and its plan, what is too large to run, and what the answers are.

use super::*;

/// Why two programs are not a program and its plan.
fn refusal(program: &str, plan: &str) -> String {
    let [program, plan] = [program, plan].map(|body| {
        phzc_ir::parse(&format!("ENTRY e {{ x = f32[8] parameter(0) {body} }}")).expect("a legal program")
    });
    let failed = verify(&program, &plan, &Settings::default()).expect_err("they differ");
    failed.error.message
}

#[test]
fn a_plan_takes_and_returns_what_its_program_does() {
    let negate = "ROOT y = f32[8] negate(x)";
    let three = "a = f32[8] parameter(1) b = f32[8] parameter(2) ROOT y = f32[8] negate(x)";
    insta::assert_snapshot!(refusal(negate, three), @"the program has 1 parameter, the plan 3");
    insta::assert_snapshot!(refusal(three, negate), @"the program has 3 parameters, the plan 1");
    let of = |second: &str| format!("a = {second} parameter(1) ROOT y = f32[8] negate(x)");
    insta::assert_snapshot!(refusal(&of("f32[4]"), &of("f32[5]")), @"parameter 1 has `f32[4]` in the program where it has `f32[5]` in the plan");
    insta::assert_snapshot!(refusal(&of("(f32[4], s32[2])"), &of("(f32[4], s32[3])")), @"parameter 1 has `s32[2]` in the program where it has `s32[3]` in the plan");
    insta::assert_snapshot!(refusal(&of("f32[4]"), &of("(f32[4], s32[3])")), @"parameter 1 has 1 array in the program, 2 in the plan");
    let wider = "ROOT y = f32[2,8] broadcast(x), dimensions={1}";
    insta::assert_snapshot!(refusal(negate, wider), @"the result has `f32[8]` in the program where it has `f32[2,8]` in the plan");
}

#[test]
fn a_program_is_large_by_its_operations_or_by_its_bytes() {
    let module = phzc_ir::parse("ENTRY e { x = f32[16] parameter(0) ROOT y = f32[16] negate(x) }");
    let module = module.expect("a legal program");
    assert!(exceeds(&module, 15.0, 128.0) && exceeds(&module, 16.0, 127.0));
    assert!(!exceeds(&module, 16.0, 128.0));
}

#[test]
fn an_open_piece_is_not_proven_and_a_differing_one_differs() {
    let open = pieces::Open { name: "a".to_owned(), why: "b".to_owned() };
    let differs = pieces::Different { name: "a".to_owned(), error: 1.0, tolerance: 0.0 };
    let verdict = |differing: &[pieces::Different], open: &[pieces::Open]| {
        let pieces = Pieces { differing: differing.to_vec(), open: open.to_vec(), ..Pieces::default() };
        Verified { pieces: Some(pieces), ..between(MOMENT, MOMENT) }.verdict()
    };
    assert_eq!(verdict(&[], &[]), Verdict::Equal);
    assert_eq!(verdict(&[], std::slice::from_ref(&open)), Verdict::NotProven);
    assert_eq!(verdict(std::slice::from_ref(&differs), &[]), Verdict::Differs);
    assert_eq!(verdict(&[differs], &[open]), Verdict::Differs);
}

#[test]
fn elements_that_were_left_out_are_made_up_if_asked_for() {
    let text = "ENTRY e { x = f32[8] parameter(0) c = f32[8] constant({...}) ROOT y = f32[8] add(x, c) }";
    let module = phzc_ir::parse(text).expect("a legal program");
    let verdict = |fill_elided: bool| {
        let settings = Settings { fill_elided, ..Settings::default() };
        verify(&module, &module, &settings).map(|verified| verified.verdict()).ok()
    };
    assert_eq!([verdict(false), verdict(true)], [None, Some(Verdict::Equal)]);
}

/// A value of these numbers.
fn numbers(of: &[f64]) -> Value {
    Value::Array(Array::from_vec(phzc_ir::DType::F64, &[of.len()], of.to_vec()).expect("its type"))
}

#[test]
fn outputs_that_large_floats_change_are_not_constant() {
    let nan = f64::NAN;
    let both = |a: &[f64], b: &[f64]| Value::Tuple(vec![numbers(a), numbers(b)]);
    assert_eq!(unchanged(&both(&[1.0, nan], &[2.0]), &both(&[1.0, nan], &[3.0])), [0]);
    assert_eq!(unchanged(&both(&[nan], &[1.0]), &both(&[1.0], &[nan])), [0; 0]);
    assert_eq!(unchanged(&both(&[1.0, 2.0], &[2.0]), &both(&[1.0, 3.0], &[2.0])), [1]);
}

#[test]
fn a_plan_is_far_apart_where_it_makes_something_else_or_nothing_of_large_floats() {
    let one = numbers(&[1.0]);
    assert!(!is_far_apart(&one, Ok(numbers(&[1.0])), 1e-12));
    assert!(is_far_apart(&one, Ok(numbers(&[2.0])), 1e-12));
    assert!(is_far_apart(&one, Err(Diagnostic::error("it overflows")), 1e-12));
    assert!(!between(MOMENT, MOMENT).is_far_apart);
}

#[test]
fn a_loop_of_the_plan_that_does_not_end_is_no_matter_of_hours() {
    let program = |step: usize| {
        format!(
            "body {{ p = (s32[], f32[8]) parameter(0) i = s32[] get-tuple-element(p), index=0 v = f32[8] get-tuple-element(p), index=1
               s = s32[] constant({step}) j = s32[] add(i, s) w = f32[8] negate(v) ROOT t = (s32[], f32[8]) tuple(j, w) }}
             cond {{ p = (s32[], f32[8]) parameter(0) i = s32[] get-tuple-element(p), index=0 n = s32[] constant(5)
               ROOT k = pred[] compare(i, n), direction=LT }}
             ENTRY e {{ x = f32[8] parameter(0) z = s32[] constant(0) t = (s32[], f32[8]) tuple(z, x)
               l = (s32[], f32[8]) while(t), condition=cond, body=body ROOT y = f32[8] get-tuple-element(l), index=1 }}"
        )
    };
    let [right, endless] = [1, 0].map(|step| phzc_ir::parse(&program(step)).expect("a legal program"));
    let failed = verify(&right, &endless, &Settings::default()).expect_err("it does not end");
    assert!(failed.error.message.contains("this loop has not ended after 12 trips"), "{:?}", failed.error);
    assert!(verify(&right, &right, &Settings::default()).is_ok());
}
