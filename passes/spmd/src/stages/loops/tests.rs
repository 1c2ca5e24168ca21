//! Which sums leave their loop, and what is written then.

use super::*;
use insta::assert_snapshot;
use phzc_ir::{parse, print};

/// A loop that carries `g`, zeros at first; its body adds up `d` over microbatches as `s` and makes `n`, the
/// new `g`, by these lines.
fn looping(lines: &str) -> String {
    format!(
        "HloModule m
        add {{ p = f32[] parameter(0) q = f32[] parameter(1) ROOT r = f32[] add(p, q) }}
        max {{ p = f32[] parameter(0) q = f32[] parameter(1) ROOT r = f32[] maximum(p, q) }}
        body {{ p = (s32[], f32[2,2], f32[2,2]) parameter(0)
        i = s32[] get-tuple-element(p), index=0
        c = f32[2,2] get-tuple-element(p), index=1
        g = f32[2,2] get-tuple-element(p), index=2
        z = f32[] constant(0)
        one = f32[] constant(1)
        k = pred[2,2] compare(c, c), direction=GT
        d = f32[2,2] negate(c)
        s = f32[2,2] all-reduce(d), replica_groups={{{{0,1}}}}, to_apply=add
        {lines}
        o = s32[] constant(1)
        j = s32[] add(i, o)
        ROOT r = (s32[], f32[2,2], f32[2,2]) tuple(j, c, n) }}
        cond {{ p = (s32[], f32[2,2], f32[2,2]) parameter(0)
        i = s32[] get-tuple-element(p), index=0
        n = s32[] constant(2)
        ROOT l = pred[] compare(i, n), direction=LT }}
        ENTRY e {{ x = f32[2,2] parameter(0)
        first = s32[] constant(0)
        zero = f32[] constant(0)
        zeros = f32[2,2] broadcast(zero), dimensions={{}}
        t = (s32[], f32[2,2], f32[2,2]) tuple(first, x, zeros)
        l = (s32[], f32[2,2], f32[2,2]) while(t), condition=cond, body=body, frontend_attributes={{phzc.phase=\"bwd\",phzc.of_stage=\"3\"}}
        y = f32[2,2] get-tuple-element(l), index=1
        a = f32[2,2] get-tuple-element(l), index=2
        ROOT u = (f32[2,2], f32[2,2]) tuple(y, a) }}"
    )
}

fn lifted(text: &str) -> Module {
    let mut module = parse(text).unwrap_or_else(|error| panic!("{error}\n{text}"));
    lift(&mut module);
    assert_eq!(phzc_ir::verify(&module), []);
    module
}

/// Whether the loop's sum has left it.
fn leaves(text: &str) -> bool {
    let module = lifted(text);
    let is_left = |comp: &Computation| sums(comp).next().is_some();
    let (inside, outside) = (module.comps.iter().find(|comp| &*comp.name == "body"), module.entry());
    let [inside, outside] = [inside.expect("it is there"), outside].map(is_left);
    assert_ne!(inside, outside, "{}", print(&module));
    outside
}

#[test]
fn a_sum_goes_behind_what_the_loop_returns_with_its_name_phase_and_stage() {
    let module = lifted(&looping("n = f32[2,2] add(g, s)"));
    let text = print(&module);
    let (_, entry) = text.split_once("ENTRY").expect("an entry");
    let body = text.lines().skip_while(|line| !line.starts_with("body")).take_while(|line| *line != "}");
    let body: Vec<&str> = body.filter(|line| line.contains(" n = ") || line.contains("all-reduce")).collect();
    assert_snapshot!(format!("{}\n{entry}", body.join("\n")), @r#"
      n = f32[2,2] add(g, d)
     e {
      x = f32[2,2] parameter(0)
      first = s32[] constant(0)
      zero = f32[] constant(0)
      zeros = f32[2,2] broadcast(zero), dimensions={}
      t = (s32[], f32[2,2], f32[2,2]) tuple(first, x, zeros)
      l = (s32[], f32[2,2], f32[2,2]) while(t), condition=cond, body=body, frontend_attributes={phzc.phase="bwd",phzc.of_stage="3"}
      y = f32[2,2] get-tuple-element(l), index=1
      a.part = f32[2,2] get-tuple-element(l), index=2
      a = f32[2,2] all-reduce(a.part), replica_groups={{0,1}}, to_apply=add, frontend_attributes={phzc.phase="bwd",phzc.of_stage="3"}
      ROOT u = (f32[2,2], f32[2,2]) tuple(y, a)
    }
    "#);
}

#[test]
fn what_is_linear_in_a_sum_lets_it_leave() {
    for line in [
        "m = f32[2,2] negate(s)",
        "m = f32[2,2] copy(s)",
        "m = f32[2,2] transpose(s), dimensions={1,0}",
        "m = f32[2,2] reverse(s), dimensions={0}",
        "m = f32[2,2] multiply(s, c)",
        "m = f32[2,2] multiply(c, s)",
        "m = f32[2,2] divide(s, c)",
        "m = f32[2,2] add(s, s)",
        "m = f32[2,2] subtract(g, s)",
        "m = f32[2,2] dot(s, c), lhs_contracting_dims={1}, rhs_contracting_dims={0}",
        "m = f32[2,2] dot(c, s), lhs_contracting_dims={1}, rhs_contracting_dims={0}",
        "m = f32[2,2] select(k, s, g)",
        "f = f32[4] reshape(s)\nh = f32[2] slice(f), slice={[0:2]}\nm = f32[2,2] broadcast(h), dimensions={0}",
        "f = f32[4,2] concatenate(s, g), dimensions={0}\nm = f32[2,2] slice(f), slice={[1:3], [0:2]}",
        "h = f32[2] reduce(s, z), dimensions={0}, to_apply=add\nm = f32[2,2] broadcast(h), dimensions={0}",
        "b = bf16[2,2] convert(s)\nm = f32[2,2] convert(b)",
        "h = f32[1,2] dynamic-slice(s, i, i), dynamic_slice_sizes={1,2}\nm = f32[2,2] dynamic-update-slice(g, h, i, i)",
    ] {
        assert!(leaves(&looping(&format!("{line}\nn = f32[2,2] add(g, m)"))), "{line}");
    }
}

#[test]
fn what_is_not_keeps_it_inside() {
    for line in [
        "m = f32[2,2] tanh(s)",
        "m = f32[2,2] multiply(s, s)",
        "m = f32[2,2] multiply(s, g)",
        "m = f32[2,2] divide(c, s)",
        "m = f32[2,2] divide(s, s)",
        "m = f32[2,2] add(s, c)",
        "m = f32[2,2] subtract(c, s)",
        "m = f32[2,2] maximum(s, g)",
        "m = f32[2,2] dot(s, s), lhs_contracting_dims={1}, rhs_contracting_dims={0}",
        "m = f32[2,2] select(k, s, c)",
        "m = f32[2,2] select(k, c, s)",
        "q = pred[2,2] compare(s, s), direction=GT\nm = f32[2,2] select(q, g, g)",
        "q = pred[2,2] compare(s, c), direction=GT\nm = f32[2,2] convert(q)",
        "f = f32[4,2] concatenate(s, c), dimensions={0}\nm = f32[2,2] slice(f), slice={[1:3], [0:2]}",
        "h = f32[2] reduce(s, one), dimensions={0}, to_apply=add\nm = f32[2,2] broadcast(h), dimensions={0}",
        "h = f32[2] reduce(s, z), dimensions={0}, to_apply=max\nm = f32[2,2] broadcast(h), dimensions={0}",
        "h = f32[1,2] dynamic-slice(s, i, i), dynamic_slice_sizes={1,2}\nm = f32[2,2] dynamic-update-slice(c, h, i, i)",
        "h = f32[1,2] dynamic-slice(c, i, i), dynamic_slice_sizes={1,2}\nm = f32[2,2] dynamic-update-slice(s, h, i, i)",
        "f = f32[1,1] slice(s), slice={[0:1], [0:1]}\nv = s32[1,1] convert(f)\nw = s32[] reshape(v)\n\
         h = f32[1,2] dynamic-slice(c, w, i), dynamic_slice_sizes={1,2}\nm = f32[2,2] dynamic-update-slice(g, h, i, i)",
    ] {
        assert!(!leaves(&looping(&format!("{line}\nn = f32[2,2] add(g, m)"))), "{line}");
    }
}

#[test]
fn a_carried_sum_that_something_else_needs_or_that_starts_otherwise_stays() {
    let text = looping("n = f32[2,2] add(g, s)");
    assert!(leaves(&text));
    // It starts as ones, or as an input.
    assert!(!leaves(&text.replace("zero = f32[] constant(0)", "zero = f32[] constant(1)")));
    assert!(!leaves(&text.replace("tuple(first, x, zeros)", "tuple(first, x, x)")));
    // Zeros of another kind are zeros.
    let copied = "zeroes = f32[2,2] copy(zeros)\n t = (s32[], f32[2,2], f32[2,2]) tuple(first, x, zeroes)";
    assert!(leaves(&text.replace("t = (s32[], f32[2,2], f32[2,2]) tuple(first, x, zeros)", copied)));
    // The largest is no sum.
    assert!(!leaves(&text.replace("to_apply=add\n        n =", "to_apply=max\n        n =")));
    // The condition asks for it.
    let asking = "h = f32[2,2] get-tuple-element(p), index=2\n q = f32[1,1] slice(h), slice={[0:1], [0:1]}\n \
                  v = s32[1,1] convert(q)\n n = s32[] reshape(v)";
    assert!(!leaves(&text.replace("n = s32[] constant(2)", asking)));
    // Somebody takes the loop's tuple whole, or the program ends with it.
    let whole = "ROOT u = (f32[2,2], f32[2,2], (s32[], f32[2,2], f32[2,2])) tuple(y, a, l)";
    assert!(!leaves(&text.replace("ROOT u = (f32[2,2], f32[2,2]) tuple(y, a)", whole)));
    let root =
        text.replace("l = (s32[], f32[2,2], f32[2,2]) while", "ROOT l = (s32[], f32[2,2], f32[2,2]) while");
    assert!(!leaves(&root.replace("ROOT u", "u")));
}

#[test]
fn a_sum_that_leaves_an_inner_loop_leaves_the_outer_one_too() {
    let inner =
        looping("n = f32[2,2] add(g, s)").replace("body ", "inner ").replace("body=body", "body=inner");
    let (comps, entry) = inner.split_once("ENTRY e").expect("an entry");
    let as_body = entry
        .replace("x = f32[2,2] parameter(0)", "p = (s32[], f32[2,2], f32[2,2]) parameter(0)\n i = s32[] get-tuple-element(p), index=0\n x = f32[2,2] get-tuple-element(p), index=1\n g = f32[2,2] get-tuple-element(p), index=2")
        .replace("ROOT u = (f32[2,2], f32[2,2]) tuple(y, a)", "b = f32[2,2] add(g, a)\n o = s32[] constant(1)\n j = s32[] add(i, o)\n ROOT r = (s32[], f32[2,2], f32[2,2]) tuple(j, y, b)");
    let outer = looping("n = f32[2,2] add(g, s)");
    let (_, end) = outer.split_once("ENTRY e").expect("an entry");
    let text = format!("{comps}body {as_body}\nENTRY e{end}");
    let module = lifted(&text);
    let n_sums: Vec<usize> = module.comps.iter().map(|comp| sums(comp).count()).filter(|n| *n > 0).collect();
    assert_eq!(n_sums, [1], "{}", print(&module));
    assert_eq!(sums(module.entry()).count(), 1);
}
