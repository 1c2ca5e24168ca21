//! What is differentiated, by which parameters, and what the program around it becomes.

use super::after;
use crate::testing::check;
use phzc_ir::eval::{Array, Options as Run, Value, run};
use phzc_ir::{DType, Module, notes, parse, print};

/// A program of these float parameters, of one integer `n` and of a loss that depends on all floats.
fn program(params: &[&str]) -> Module {
    let named = |(number, name): (usize, &&str)| format!("{name} = f32[2] parameter({number}) ");
    let lines: String = params.iter().enumerate().map(named).collect();
    let mut sums = format!("s0 = f32[2] sine({}) ", params[0]);
    for (number, name) in params.iter().enumerate().skip(1) {
        sums += &format!("s{number} = f32[2] multiply(s{}, {name}) ", number - 1);
    }
    let (n, last) = (params.len(), params.len() - 1);
    let text = format!(
        "ENTRY e {{ {lines} n = s32[] parameter({n}) {sums}
        ROOT loss = f32[] dot(s{last}, s{last}), lhs_contracting_dims={{0}}, rhs_contracting_dims={{0}} }}"
    );
    parse(&text).unwrap_or_else(|error| panic!("{error}\n{text}"))
}

/// The parameters whose gradients a program returns.
fn by(params: &[&str], wrt: &str) -> String {
    let module = after(&program(params), &format!("grad{{wrt={wrt}}}"));
    let entry = module.entry();
    let noted = entry.root().operands.iter().filter_map(|&id| entry.instr(id).note(notes::GRAD));
    let names = noted.map(|number| params[number.parse::<usize>().expect("a number")]);
    names.collect::<Vec<_>>().join(" ")
}

#[test]
fn parameters_are_chosen_by_name() {
    assert_eq!(by(&["w", "b"], "all"), "w b");
    assert_eq!(by(&["w", "b", "v"], "{b,v}"), "b v");
    assert_eq!(by(&["w1", "b1", "w2"], "w*"), "w1 w2");
    assert_eq!(by(&["a.kernel", "a.bias", "b.kernel"], "*kernel"), "a.kernel b.kernel");
    assert_eq!(by(&["a.x.k", "a.y.k", "a.x.b"], "a*x*"), "a.x.k a.x.b");
    assert_eq!(by(&["w.1", "w.x", "v.1"], "w"), "w.1");
}

#[test]
fn data_are_told_by_their_names() {
    assert_eq!(by(&["w", "x", "labels.3", "tokens__0", "xs"], "params"), "w xs");
    assert_eq!(by(&["params.w", "b", "params.x"], "params"), "params.w params.x");
}

/// Options, the entry's instructions after `x = f32[2]`, `n = s32[]` and `s = f32[]`, and what is said.
#[rustfmt::skip]
const REFUSED: &[(&str, &str, &str)] = &[
    ("", "ROOT y = f32[2] sine(x)", "no output is a scalar float"),
    ("", "ROOT y = s32[] negate(n)", "no output is a scalar float"),
    ("", "t = f32[] sine(s) ROOT y = (f32[], f32[]) tuple(s, t)", "the outputs [0, 1] are scalar floats"),
    ("{loss=y}", "ROOT y = f32[2] sine(x)", "`y` is no scalar float"),
    ("{loss=m}", "m = s32[] negate(n) ROOT y = f32[] sine(s)", "`m` is no scalar float"),
    ("{loss=1}", "ROOT y = f32[] sine(s)", "there is no output 1: the program has 1 output"),
    ("{loss=los}", "ROOT loss = f32[] sine(s)", "did you mean `loss`?"),
    ("{wrt=z}", "ROOT y = f32[] sine(s)", "`wrt` names `z`, which the entry does not have"),
    ("{wrt=n}", "ROOT y = f32[] sine(s)", "`n` is no array of floats"),
    ("{wrt=n*}", "ROOT y = f32[] sine(s)", "there is no parameter to differentiate by"),
];

#[test]
fn what_has_no_gradient_is_refused() {
    for (options, instrs, wanted) in REFUSED {
        let params = "x = f32[2] parameter(0) n = s32[] parameter(1) s = f32[] parameter(2)";
        let said = check(&format!("grad{options}"), &format!("ENTRY e {{ {params} {instrs} }}"));
        assert!(said.contains(wanted), "{instrs}: {said}");
    }
}

#[test]
fn gradients_come_after_the_old_results() {
    let text = "HloModule m, input_output_alias={ {}: (0, {}, may-alias) }, entry_computation_layout={(f32[])->f32[]}
        ENTRY e { s = f32[] parameter(0) ROOT y = f32[] sine(s) }";
    let module = after(&parse(text).expect("a program"), "grad{wrt=all}");
    assert_eq!(module.attr("input_output_alias"), Some("{ {0}: (0, {}, may-alias) }"));
    assert_eq!(module.attr("entry_computation_layout"), None);
    let text = "ENTRY e { s = f32[] parameter(0) y = f32[] sine(s) n = s32[] constant(4) ROOT r = (s32[], f32[]) tuple(n, y) }";
    let module = after(&parse(text).expect("a program"), "grad{wrt=all}");
    let entry = module.entry();
    let results: Vec<&str> = entry.root().operands.iter().map(|&id| &*entry.instr(id).name).collect();
    assert_eq!((results.len(), &results[..2]), (3, &["n", "y"][..]), "{}", print(&module));
}

#[test]
fn a_parameter_that_nothing_depends_on_has_zeros() {
    let text = "ENTRY e { s = f32[] parameter(0) w = f32[2] parameter(1) ROOT y = f32[] sine(s) }";
    let module = after(&parse(text).expect("a program"), "grad{wrt=w}");
    let said = print(&module);
    assert!(said.contains("constant(0)") && !said.contains("cosine"), "{said}");
}

/// The results of a program after `grad{wrt=x}` at `x = 0.5`. Its loops take the sine of their second element
/// three times; its instructions follow `start`, the first state of one.
fn with_loops(instrs: &str) -> Vec<f64> {
    let text = format!(
        "body {{ s = (s32[], f32[]) parameter(0) i = s32[] get-tuple-element(s), index=0 c = f32[] get-tuple-element(s), index=1
          one = s32[] constant(1) n = s32[] add(i, one) d = f32[] sine(c) ROOT r = (s32[], f32[]) tuple(n, d) }}
        condition {{ s = (s32[], f32[]) parameter(0) i = s32[] get-tuple-element(s), index=0 n = s32[] constant(3)
          ROOT r = pred[] compare(i, n), direction=LT }}
        ENTRY e {{ x = f32[] parameter(0) o = s32[] constant(0) start = (s32[], f32[]) tuple(o, x) {instrs} }}"
    );
    let module = after(&parse(&text).expect("a program"), "grad{wrt=x}");
    let half = Array::from_vec(DType::F32, &[], vec![0.5_f32]).expect("a scalar");
    let made = run(&module, &[Value::Array(half)], &Run::default()).expect("it can be run");
    made.leaves().iter().map(|it| it.to_f64_vec()[0]).collect()
}

/// The sine of the sine of the sine of 0.5, and its slope.
fn third_sine() -> [f64; 2] {
    let (first, second) = (0.5f64.sin(), 0.5f64.sin().sin());
    [second.sin(), 0.5f64.cos() * first.cos() * second.cos()]
}

fn is_near(found: &[f64], wanted: [f64; 2]) -> bool {
    found.iter().zip(wanted).all(|(found, wanted)| (found - wanted).abs() < 1e-6)
}

#[test]
fn a_loss_may_be_an_element_of_a_loop() {
    let made = with_loops("ROOT end = (s32[], f32[]) while(start), condition=condition, body=body");
    assert_eq!((made.len(), made[0]), (3, 3.0));
    assert!(is_near(&made[1..], third_sine()), "{made:?}");
}

#[test]
fn a_loss_may_come_after_a_reader_of_a_whole_loop() {
    let made = with_loops(
        "end = (s32[], f32[]) while(start), condition=condition, body=body
        held = (s32[], f32[]) opt-barrier(end) y = f32[] get-tuple-element(held), index=1
        ROOT loss = f32[] negate(y)",
    );
    let [value, slope] = third_sine();
    assert!(made.len() == 2 && is_near(&made, [-value, -slope]), "{made:?}");
}

/// The entry's instructions after `x = f32[2,3]`, and what is said of the one without a derivative.
#[rustfmt::skip]
const UNKNOWN: &[(&str, &str)] = &[
    ("r = f32[2] reduce(x, zero), dimensions={1}, to_apply=twice", "its computation is no sum"),
    ("i = f32[] reduce(x, zero), dimensions={0,1}, to_apply=add r = f32[2] reduce(x, i), dimensions={1}, to_apply=max", "its initial value depends"),
    ("r = f32[2,1] reduce-window(x, zero), window={size=1x3}, to_apply=twice", "its computation is no sum"),
    ("i = f32[] reduce(x, zero), dimensions={0,1}, to_apply=add r = f32[2,1] reduce-window(x, i), window={size=1x3}, to_apply=add", "its initial value depends"),
    ("i = s32[1] constant({0}) u = f32[1,3] slice(x), slice={[0:1],[0:3]} r = f32[2,3] scatter(x, i, u), update_window_dims={1}, inserted_window_dims={0}, scatter_dims_to_operand_dims={0}, index_vector_dim=1, to_apply=max", "its computation is no sum"),
    ("i = s32[1] constant({0}) u = f32[1,3] slice(x), slice={[0:1],[0:3]} r = f32[2,3] scatter(x, i, u), update_window_dims={1}, inserted_window_dims={0}, scatter_dims_to_operand_dims={0}, index_vector_dim=1, to_apply=set", "its computation is no sum"),
];

#[test]
fn ops_without_a_derivative_are_refused() {
    let shared = "add { a = f32[] parameter(0) b = f32[] parameter(1) ROOT r = f32[] add(a, b) }
        max { a = f32[] parameter(0) b = f32[] parameter(1) ROOT r = f32[] maximum(a, b) }
        set { a = f32[] parameter(0) ROOT b = f32[] parameter(1) }
        twice { a = f32[] parameter(0) b = f32[] parameter(1) c = f32[] add(a, b) ROOT r = f32[] add(c, b) }";
    for (instrs, wanted) in UNKNOWN {
        let params = "x = f32[2,3] parameter(0) zero = f32[] constant(0)";
        let loss = "s = f32[] convert(zero) t = f32[6] reshape(r) ROOT l = f32[] reduce(t, s), dimensions={0}, to_apply=add";
        let n = if instrs.contains("f32[2,3] scatter") { 6 } else { 2 };
        let loss = loss.replace("f32[6]", &format!("f32[{n}]"));
        let said = check("grad{wrt=all}", &format!("{shared} ENTRY e {{ {params} {instrs} {loss} }}"));
        assert!(said.contains(wanted), "{instrs}: {said}");
    }
}
