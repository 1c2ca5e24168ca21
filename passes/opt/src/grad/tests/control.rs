//! Loops and branches against central differences.

use super::check_program;
use crate::testing::check;
use phzc_ir::build::Builder;
use phzc_ir::trip::trip_count;
use phzc_ir::{CompId, DType, InstrId, Module, Opcode, Shape, print};

/// The gradients of a program with a loop of three trips over `x`, `p` and the body's values.
///
/// State: `i`, `c` (starts as `x`), `w`, `ys = f64[3,2,3]` (starts as zeros), `xs = f64[3,2,3]`.
fn check_loop(body: &str) -> Module {
    let state = "(s32[], f64[2,3], f64[3,2], f64[3,2,3], f64[3,2,3])";
    let elements = format!(
        "s = {state} parameter(0) i = s32[] get-tuple-element(s), index=0 c = f64[2,3] get-tuple-element(s), index=1
        w = f64[3,2] get-tuple-element(s), index=2 ys = f64[3,2,3] get-tuple-element(s), index=3
        xs = f64[3,2,3] get-tuple-element(s), index=4 one = s32[] constant(1) o = s32[] constant(0) next = s32[] add(i, one)"
    );
    check_program(&format!(
        "body {{ {elements} {body} }}
        condition {{ s = {state} parameter(0) i = s32[] get-tuple-element(s), index=0 n = s32[] constant(3)
          ROOT r = pred[] compare(i, n), direction=LT }}
        ENTRY e {{ x = f64[2,3] parameter(0) w = f64[3,2] parameter(1) xs = f64[3,2,3] parameter(2)
          o = s32[] constant(0) zero = f64[] constant(0) none = f64[3,2,3] broadcast(zero), dimensions={{}}
          start = {state} tuple(o, x, w, none, xs) end = {state} while(start), condition=condition, body=body
          c = f64[2,3] get-tuple-element(end), index=1 ys = f64[3,2,3] get-tuple-element(end), index=3
          v = f64[3,2] get-tuple-element(end), index=2 ROOT r = (f64[2,3], f64[3,2,3], f64[3,2]) tuple(c, ys, v) }}"
    ))
}

/// Whether all loops of a program still have known numbers of trips, and how many there are.
fn n_loops(module: &Module) -> usize {
    let loops = module.comps.iter().enumerate().flat_map(|(index, comp)| {
        let found = comp.iter().filter(|(_, instr)| instr.op == Opcode::While);
        found.map(move |(id, _)| (CompId::new(index), id))
    });
    loops.inspect(|&(comp, id)| assert!(trip_count(module, comp, id).is_some())).count()
}

/// What the forward loops stack for the backward ones.
fn stacks(module: &Module) -> Vec<&str> {
    let names = module.comps.iter().flat_map(|comp| comp.instrs.iter().map(|instr| &*instr.name));
    names.filter_map(|name| Some(name.split_once(".stack.")?.0)).collect()
}

#[test]
fn loops_over_a_carry() {
    let module = check_loop(
        "t = f64[2,3] tanh(c) d = f64[2,2] dot(t, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}
        e = f64[2,3] dot(d, w), lhs_contracting_dims={1}, rhs_contracting_dims={1} f = f64[2,3] sine(e)
        ROOT r = (s32[], f64[2,3], f64[3,2], f64[3,2,3], f64[3,2,3]) tuple(next, f, w, ys, xs)",
    );
    assert_eq!(n_loops(&module), 2);
}

#[test]
fn loops_over_slices() {
    let module = check_loop(
        "a = f64[1,2,3] dynamic-slice(xs, i, o, o), dynamic_slice_sizes={1,2,3} b = f64[2,3] reshape(a)
        t = f64[2,3] multiply(c, b) f = f64[2,3] sine(t) g = f64[2,3] multiply(f, b) h = f64[1,2,3] reshape(g)
        ms = f64[3,2,3] dynamic-update-slice(ys, h, i, o, o)
        ROOT r = (s32[], f64[2,3], f64[3,2], f64[3,2,3], f64[3,2,3]) tuple(next, f, w, ms, xs)",
    );
    assert_eq!(n_loops(&module), 2);
    assert_eq!(stacks(&module), ["f", "t", "c"], "b is read again");
}

#[test]
fn what_is_cheap_is_computed_again_and_another_form_is_not_stacked() {
    let module = check_loop(
        "n = f64[] convert(i) k = f64[2,3] broadcast(n), dimensions={} t = f64[2,3] tanh(c) u = f64[3,2] transpose(t), dimensions={1,0}
        q = f64[3,2] multiply(u, u) v = f64[2,3] reshape(q) f = f64[2,3] multiply(v, k)
        ROOT r = (s32[], f64[2,3], f64[3,2], f64[3,2,3], f64[3,2,3]) tuple(next, f, w, ys, xs)",
    );
    assert_eq!(stacks(&module), ["t"]);
}

#[test]
fn loops_that_never_run_or_run_too_often_are_refused() {
    let said = |n: i64| {
        check(
            "grad{wrt=x}",
            &format!(
                "body {{ s = (s32[], f32[4294967296]) parameter(0) i = s32[] get-tuple-element(s), index=0 c = f32[4294967296] get-tuple-element(s), index=1
                  one = s32[] constant(1) n = s32[] add(i, one) d = f32[4294967296] sine(c) ROOT r = (s32[], f32[4294967296]) tuple(n, d) }}
                condition {{ s = (s32[], f32[4294967296]) parameter(0) i = s32[] get-tuple-element(s), index=0 n = s32[] constant({n})
                  ROOT r = pred[] compare(i, n), direction=LT }}
                ENTRY e {{ x = f32[4294967296] parameter(0) o = s32[] constant(0) start = (s32[], f32[4294967296]) tuple(o, x)
                  end = (s32[], f32[4294967296]) while(start), condition=condition, body=body c = f32[4294967296] get-tuple-element(end), index=1
                  ROOT loss = f32[] dot(c, c), lhs_contracting_dims={{0}}, rhs_contracting_dims={{0}} }}"
            ),
        )
    };
    assert!(said(0).contains("it never runs"), "{}", said(0));
    assert!(said(1).contains("stack"), "{}", said(1));
    let many = said(2_000_000_000);
    assert!(many.contains("what its trips make cannot be stacked"), "{many}");
}

#[test]
fn loops_that_write_one_place_twice() {
    check_loop(
        "g = f64[2,3] sine(c) h = f64[1,2,3] reshape(g) ms = f64[3,2,3] dynamic-update-slice(ys, h, one, o, o)
        a = f64[1,2,3] dynamic-slice(xs, one, o, o), dynamic_slice_sizes={1,2,3} b = f64[2,3] reshape(a)
        f = f64[2,3] multiply(c, b) ROOT r = (s32[], f64[2,3], f64[3,2], f64[3,2,3], f64[3,2,3]) tuple(next, f, w, ms, xs)",
    );
}

#[test]
fn loops_whose_elements_change_places() {
    check_loop(
        "m = f64[3,2,3] sine(xs) k = f64[2,3] cosine(c)
        ROOT r = (s32[], f64[2,3], f64[3,2], f64[3,2,3], f64[3,2,3]) tuple(next, k, w, m, ys)",
    );
}

#[test]
fn the_taken_branch_is_differentiated() {
    for taken in [0, 1] {
        check_program(&format!(
            "one {{ t = (f64[2,3], f64[3]) parameter(0) a = f64[2,3] get-tuple-element(t), index=0 b = f64[3] get-tuple-element(t), index=1
              c = f64[2,3] broadcast(b), dimensions={{1}} d = f64[2,3] multiply(a, c) ROOT r = f64[2,3] sine(d) }}
            two {{ a = f64[2,3] parameter(0) ROOT r = f64[2,3] multiply(a, a) }}
            ENTRY e {{ x = f64[2,3] parameter(0) b = f64[3] parameter(1) i = s32[] constant({taken}) y = f64[2,3] tanh(x)
              t = (f64[2,3], f64[3]) tuple(y, b)
              ROOT r = f64[2,3] conditional(i, t, y), branch_computations={{one, two}} }}"
        ));
    }
}

/// A program made by the builder from `x = f64[2,3]` and `w = f64[3,3]`.
fn check_built(build: impl FnOnce(&mut Builder, InstrId, InstrId) -> InstrId) -> Module {
    let mut b = Builder::new("m");
    let x = b.parameter("x", Shape::array(DType::F64, &[2, 3]));
    let w = b.parameter("w", Shape::array(DType::F64, &[3, 3]));
    let root = build(&mut b, x, w);
    check_program(&print(&b.finish(root)))
}

#[test]
fn loops_in_loops() {
    let module = check_built(|b, x, w| {
        let outer = |b: &mut Builder, _: InstrId, state: &[InstrId]| {
            let inner = |b: &mut Builder, _: InstrId, state: &[InstrId]| {
                let y = b.einsum("ab,bc->ac", state[0], state[1]);
                let shifted = b.add(y, state[2]);
                vec![b.sin(shifted), state[1], state[2]]
            };
            let start = b.tanh(state[0]);
            let made = b.for_loop(2, &[start, state[1], state[0]], inner);
            let scaled = b.mul(made[0], start);
            vec![scaled, state[1]]
        };
        b.for_loop(3, &[x, w], outer)[0]
    });
    assert_eq!(n_loops(&module), 4);
}
