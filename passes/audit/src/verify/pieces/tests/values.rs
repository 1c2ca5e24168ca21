//! Which instructions of a program are one value, which are views, which are free, and which count as made.

use super::*;
use crate::verify::pieces::text::{comp_texts, signature};
use crate::verify::pieces::values::is_view;
use phzc_ir::{ArrayShape, DType};

const ADD: &str = "add { a = f32[] parameter(0) b = f32[] parameter(1) ROOT c = f32[] add(a, b) }
    plus { p = f32[] parameter(0) q = f32[] parameter(1) ROOT s = f32[] add(p, q) }
    most { p = f32[] parameter(0) q = f32[] parameter(1) ROOT s = f32[] maximum(p, q) }\n";

fn parsed(body: &str) -> Module {
    let module = phzc_ir::parse(&format!("HloModule m\n{ADD}ENTRY e {{ {body} }}")).expect("legal");
    assert_eq!(phzc_ir::verify(&module), []);
    module
}

/// The entry's instructions for which this holds.
fn which(body: &str, holds: impl Fn(&Values, CompId, InstrId) -> bool) -> String {
    let module = parsed(body);
    let values = Values::of(&module);
    let found = module.entry().iter().filter(|(id, _)| holds(&values, module.entry, *id));
    found.map(|(_, instr)| &*instr.name).collect::<Vec<_>>().join(" ")
}

/// Instructions of the entry whose value another makes, as `b=a`; `b=a.1` for a leaf of several.
fn alike(body: &str) -> String {
    let module = parsed(body);
    let values = Values::of(&module);
    let comp = module.entry();
    let twin = |(id, instr): (InstrId, &Instr)| {
        let (maker, leaf) = values.value(module.entry, id, 0);
        let leaf = if leaf > 0 { format!(".{leaf}") } else { String::new() };
        (maker != id).then(|| format!("{}={}{leaf}", instr.name, comp.instr(maker).name))
    };
    comp.iter().filter_map(twin).collect::<Vec<_>>().join(" ")
}

#[test]
fn the_same_of_the_same_is_one_value_whatever_it_is_called() {
    let body = "x = f32[8,8] parameter(0) y = f32[8,8] parameter(1)
        a = f32[8,8] tanh(x) b = f32[8,8]{1,0} tanh(x), metadata={op_name=\"b\"}, sharding={replicated}
        c = f32[8,8] tanh(y) d = f32[8,8] subtract(a, c) e = f32[8,8] subtract(b, c) f = f32[8,8] subtract(c, a)
        ROOT t = (f32[8,8], f32[8,8], f32[8,8]) tuple(d, e, f)";
    assert_eq!(alike(body), "b=a e=d t=d");
}

#[test]
fn tuples_barriers_and_markers_of_layouts_make_no_value() {
    let body = "x = f32[8,8] parameter(0) y = f32[8,8] parameter(1)
        t = (f32[8,8], f32[8,8]) tuple(x, y) b = (f32[8,8], f32[8,8]) opt-barrier(t)
        g = f32[8,8] get-tuple-element(b), index=1 s = f32[8,8] custom-call(g), custom_call_target=\"Sharding\"
        u = f32[8,8] custom-call(s), custom_call_target=\"Sharding\" ROOT n = f32[8,8] negate(u)";
    assert_eq!(alike(body), "t=x b=x g=y s=y u=y");
}

#[test]
fn two_results_of_one_instruction_are_two_values() {
    let sort = "x = f32[8] parameter(0) y = f32[8] parameter(1)
        s = (f32[8], f32[8]) sort(x, y), dimensions={0}, to_apply=less
        first = f32[8] get-tuple-element(s), index=0 second = f32[8] get-tuple-element(s), index=1
        ROOT d = f32[8] subtract(second, first)";
    let less =
        "less { a = f32[] parameter(0) b = f32[] parameter(1) c = f32[] parameter(2) d = f32[] parameter(3)
        ROOT l = pred[] compare(a, b), direction=LT }";
    let module = phzc_ir::parse(&format!("HloModule m\n{less} ENTRY e {{ {sort} }}")).expect("legal");
    let values = Values::of(&module);
    let id = |name: &str| values.named(module.entry, name).expect("it is there");
    assert_eq!(values.value(module.entry, id("second"), 0), (id("s"), 1));
    assert_eq!(values.value(module.entry, id("first"), 0), (id("s"), 0));
}

#[test]
fn reshapes_of_one_value_to_one_shape_are_one_value() {
    let body =
        "x = f32[8,6] parameter(0) a = f32[48] reshape(x) b = f32[4,12] reshape(a) c = f32[48] reshape(b)
        d = f32[8,6] reshape(c) e = f32[4,12] reshape(x) f = f32[6,8] transpose(x), dimensions={1,0}
        g = f32[48] reshape(f) ROOT t = (f32[48], f32[4,12], f32[8,6], f32[48]) tuple(c, e, d, g)";
    assert_eq!(alike(body), "c=a d=x e=b t=a");
}

#[test]
fn computations_that_are_called_are_compared_by_what_they_do() {
    let body = "x = f32[8,8] parameter(0) z = f32[] constant(0)
        a = f32[8] reduce(x, z), dimensions={0}, to_apply=add
        b = f32[8] reduce(x, z), dimensions={0}, to_apply=plus
        c = f32[8] reduce(x, z), dimensions={0}, to_apply=most
        d = f32[8] reduce(x, z), dimensions={1}, to_apply=add
        ROOT t = (f32[8], f32[8], f32[8], f32[8]) tuple(a, b, c, d)";
    assert_eq!(alike(body), "b=a t=a");
}

#[test]
fn numbers_drawn_and_elements_left_out_are_no_one_elses() {
    let body = "l = f32[] constant(0) h = f32[] constant(1)
        a = f32[8] rng(l, h), distribution=rng_uniform b = f32[8] rng(l, h), distribution=rng_uniform
        c = f32[8] constant({...}) d = f32[8] constant({...})
        e = f32[2] constant({1, 2}) f = f32[2] constant({1, 2}) g = f32[2] constant({1, 3})
        ROOT t = (f32[8], f32[8], f32[8], f32[8], f32[2], f32[2]) tuple(a, b, c, d, f, g)";
    assert_eq!(alike(body), "f=e t=a");
}

#[test]
fn the_notes_of_a_backend_mean_something_to_custom_calls_alone() {
    let body = "x = f32[8] parameter(0) a = f32[8] tanh(x), backend_config=\"1\" b = f32[8] tanh(x), backend_config=\"2\"
        c = f32[8] custom-call(x), custom_call_target=\"f\", backend_config=\"1\"
        d = f32[8] custom-call(x), custom_call_target=\"f\", backend_config=\"2\"
        e = f32[8] custom-call(x), custom_call_target=\"f\", backend_config=\"1\"
        ROOT t = (f32[8], f32[8], f32[8], f32[8]) tuple(b, c, d, e)";
    assert_eq!(alike(body), "b=a e=c t=a");
}

#[test]
fn a_view_has_its_operands_elements_in_their_order() {
    let body = "x = f32[8,6] parameter(0) r = f32[48] reshape(x) t = f32[6,8] transpose(x), dimensions={1,0}
        o = f32[8,1,6] reshape(x) s = f32[1,8,6] transpose(o), dimensions={1,0,2}
        u = f32[8,6,1] transpose(o), dimensions={0,2,1} b = f32[8,6] broadcast(x), dimensions={0,1}
        m = f32[2,8,6] broadcast(x), dimensions={1,2} q = f32[8,8] parameter(1)
        v = f32[8,8] broadcast(q), dimensions={1,0} w = u32[8,6] bitcast(x) i = f32[1] iota(), iota_dimension=0
        n = f32[8,6] negate(x) k = f32[8,6] add(x, n) j = f32[8,6] copy(k)
        ROOT z = (f32[8,6], f32[8,8], f32[2,8,6], u32[8,6], f32[8,6]) tuple(b, v, m, w, j)";
    let found = which(body, |values, comp, id| is_view(&View::new(values.module, comp, id)));
    assert_eq!(found, "r o s u b");
}

#[test]
fn what_few_instructions_make_of_constants_is_free() {
    let body = "x = f32[8] parameter(0) z = f32[] constant(0) b = f32[8] broadcast(z), dimensions={}
        i = f32[8] iota(), iota_dimension=0 s = f32[8] add(i, b) n = f32[8] negate(x) e = f32[8] constant({...})
        r = f32[] reduce(i, z), dimensions={0}, to_apply=add g = f32[8] rng(z, z), distribution=rng_uniform
        t = (f32[8], f32[8]) tuple(i, s) o = f32[8] get-tuple-element(t), index=1 m = f32[8] multiply(s, n)
        ROOT q = (f32[8], f32[8], f32[], f32[8], f32[8], f32[8]) tuple(n, e, r, g, o, m)";
    let found = which(body, |values, comp, id| values.is_free(comp, (id, 0)));
    assert_eq!(found, "z b i s o");
}

#[test]
fn long_ways_and_long_literals_are_not_free() {
    let chain = (1..14).map(|n| format!("n{n} = s32[8] negate(n{}) ", n - 1)).collect::<String>();
    // 4096 characters and 4100; chains of 6 and of 5 are 12 with their sum.
    let numbers = |n: usize| format!("{{{}}}", vec!["10"; n].join(", "));
    let body = format!(
        "n0 = s32[8] iota(), iota_dimension=0 {chain} a = s32[8] add(n5, n4) b = s32[8] add(n5, n5)
        short = s32[1024] constant({}) long = s32[1025] constant({})
        ROOT t = (s32[8], s32[8], s32[8], s32[1024], s32[1025]) tuple(n13, a, b, short, long)",
        numbers(1024),
        numbers(1025)
    );
    let found = which(&body, |values, comp, id| values.is_free(comp, (id, 0)));
    assert_eq!(found, "n0 n1 n2 n3 n4 n5 n6 n7 n8 n9 n10 n11 a short");
}

#[test]
fn loops_and_what_depends_on_them_count_as_made_once() {
    let module = phzc_ir::parse(
        "HloModule m
        more { p = (s32[], f32[8]) parameter(0) i = s32[] get-tuple-element(p), index=0 n = s32[] constant(4)
          ROOT c = pred[] compare(i, n), direction=LT }
        step { p = (s32[], f32[8]) parameter(0) i = s32[] get-tuple-element(p), index=0 one = s32[] constant(1)
          j = s32[] add(i, one) x = f32[8] get-tuple-element(p), index=1 y = f32[8] tanh(x) dead = f32[8] sine(x)
          ROOT t = (s32[], f32[8]) tuple(j, y) }
        ENTRY e { x = f32[8] parameter(0) zero = s32[] constant(0) a = f32[8] negate(x) b = f32[8] negate(x)
          r = f32[2,4] reshape(a) back = f32[8] reshape(r) s = (s32[], f32[8]) tuple(zero, back)
          w = (s32[], f32[8]) while(s), condition=more, body=step g = f32[8] get-tuple-element(w), index=1
          m = f32[8] custom-call(g), custom_call_target=\"Sharding\" unread = f32[8] cosine(x)
          ROOT z = f32[8] add(m, b) }",
    );
    let module = module.expect("legal");
    let made = Values::of(&module).made();
    let names = made.iter().map(|&(comp, id)| &*module.comp(comp).instr(id).name);
    assert_eq!(names.collect::<Vec<_>>().join(" "), "n c one j y zero a r z");
}

#[test]
fn loops_are_found_by_their_type_and_what_they_start_from() {
    let state = "(s32[], f32[8])";
    let module = phzc_ir::parse(&format!(
        "HloModule m
        more {{ p = {state} parameter(0) i = s32[] get-tuple-element(p), index=0 ROOT c = pred[] compare(i, i), direction=LT }}
        step {{ p = {state} parameter(0) ROOT o = {state} opt-barrier(p) }}
        ENTRY e {{ x = f32[8] parameter(0) y = f32[8] parameter(1) k = s32[] constant(0)
          s = {state} tuple(k, x) t = {state} tuple(k, y)
          a = {state} while(s), condition=more, body=step b = {state} while(t), condition=more, body=step
          c = {state} while(s), condition=more, body=step
          ROOT r = ({state}, {state}, {state}) tuple(a, b, c) }}"
    ));
    let module = module.expect("legal");
    let (values, comp) = (Values::of(&module), module.entry());
    let loops = |name: &str| {
        let instr = comp.instr(values.named(module.entry, name).expect("it is there"));
        let operands = values.operands(module.entry, instr);
        let found = values.find_control(module.entry, instr, &operands).iter();
        found.map(|&id| &*comp.instr(id).name).collect::<Vec<_>>().join(" ")
    };
    assert_eq!([loops("a"), loops("b"), loops("x")], ["a c", "b", ""]);
}

#[test]
fn what_computes_this_of_these_values_is_found_and_so_are_its_views() {
    let body = "x = f32[8,6] parameter(0) y = f32[8,6] parameter(1) a = f32[8,6] subtract(x, y)
        r = f32[48] reshape(a) n = f32[48] negate(r) ROOT t = (f32[48], f32[8,6]) tuple(n, a)";
    let module = parsed(body);
    let (values, comp, texts) = (Values::of(&module), module.entry, comp_texts(&module));
    let id = |name: &str| values.named(comp, name).expect("it is there");
    let text = |name: &str| signature(&module, module.entry().instr(id(name)), &texts);
    let leaf = |name: &str| (id(name), 0);
    assert_eq!(values.find(comp, &text("a"), &[leaf("x"), leaf("y")]), Some(id("a")));
    assert_eq!(values.find(comp, &text("a"), &[leaf("y"), leaf("x")]), None);
    assert_eq!(values.find(comp, &text("n"), &[leaf("r")]), Some(id("n")));
    let view =
        |name: &str, dims: &[i64]| values.view_of(comp, leaf(name), &ArrayShape::new(DType::F32, dims));
    assert_eq!([view("a", &[48]), view("r", &[48])], [Some(leaf("r")); 2]);
    assert_eq!([view("a", &[8, 6]), view("r", &[8, 6])], [Some(leaf("a")); 2]);
    assert_eq!([view("a", &[6, 8]), view("x", &[48])], [None; 2]);
}

#[test]
fn branches_of_another_type_are_others() {
    let module = phzc_ir::parse(
        "HloModule m
        zero { x = f32[8] parameter(0) ROOT n = f32[8] negate(x) }
        one { x = f32[8] parameter(0) ROOT n = s32[8] convert(x) }
        ENTRY e { k = pred[] parameter(0) x = f32[8] parameter(1)
        a = f32[8] conditional(k, x, x), true_computation=zero, false_computation=zero
        b = s32[8] conditional(k, x, x), true_computation=one, false_computation=one
        ROOT t = (f32[8], s32[8]) tuple(a, b) }",
    );
    let module = module.expect("legal");
    let (values, comp) = (Values::of(&module), module.entry());
    let found = ["a", "b"].map(|name| {
        let instr = comp.instr(values.named(module.entry, name).expect("it is there"));
        let found = values.find_control(module.entry, instr, &values.operands(module.entry, instr));
        found.iter().map(|&id| &*comp.instr(id).name).collect::<Vec<_>>()
    });
    assert_eq!(found, [["a"], ["b"]]);
}
