//! Which inputs are data, how many samples there are, and which dimensions run over them.

use super::*;
use phzc_ir::parse;

const ADD: &str = "add { a = f32[] parameter(0)  b = f32[] parameter(1)  ROOT c = f32[] add(a, b) }";

fn graph(comps: &str, body: &str) -> (phzc_ir::Module, Graph) {
    let text = format!(
        "HloModule m, input_output_alias={{ {{}}: (1, {{}}, may-alias) }}\n{ADD}\n{comps}\nENTRY e {{\n{body}\n}}\n"
    );
    let module = parse(&text).unwrap_or_else(|error| panic!("{error}\n{text}"));
    let graph = Graph::build(&module);
    (module, graph)
}

/// The names of a whole program's data.
fn data_of(text: &str) -> Vec<String> {
    let module = parse(text).expect("a legal program");
    let graph = Graph::build(&module);
    let name = |id: TensorId| module.entry().instr(graph.tensors[id as usize].home.1).name.to_string();
    data(&graph).map(name).collect()
}

/// Names of the instructions whose values have batch dimensions, with these.
fn check(comps: &str, body: &str) -> String {
    let (module, graph) = graph(comps, body);
    let name = |tensor: &crate::graph::Tensor| &*module.comp(tensor.home.0).instr(tensor.home.1).name;
    let all = graph.tensors.iter().zip(batch_dims(&graph)).filter(|(_, dims)| *dims != 0);
    let bits =
        |dims: u64| (0..64).filter(|dim| dims >> dim & 1 == 1).map(|dim| dim.to_string()).collect::<String>();
    all.map(|(tensor, dims)| format!("{}:{}", name(tensor), bits(dims))).collect::<Vec<_>>().join(" ")
}

#[test]
fn the_batch_goes_through_reshapes_and_ends_where_it_is_summed_up() {
    let body = "x = f32[4,8,16]{2,1,0} parameter(0)
        w = f32[16]{0} parameter(1)
        rows = f32[32,16]{1,0} reshape(x)
        scale = f32[32,16]{1,0} broadcast(w), dimensions={1}
        y = f32[32,16]{1,0} multiply(rows, scale)
        turned = f32[16,32]{1,0} transpose(y), dimensions={1,0}
        back = f32[16,32]{1,0} negate(turned)
        zero = f32[] constant(0)
        sum = f32[16]{0} reduce(back, zero), dimensions={1}, to_apply=add
        ROOT new = f32[16]{0} add(w, sum)";
    assert_eq!(check("", body), "x:0 rows:0 scale:0 y:0 turned:1 back:1");
}

#[test]
fn what_is_spread_over_the_batch_has_it_and_its_weights_do_not() {
    let body = "x = f32[4,16] parameter(0)
        w = f32[16] parameter(1)
        places = f32[4] iota(), iota_dimension=0
        spread = f32[4,16] broadcast(places), dimensions={0}
        y = f32[4,16] multiply(x, spread)
        ROOT new = f32[16] negate(w)";
    assert_eq!(check("", body), "x:0 places:0 spread:0 y:0");
}

#[test]
fn a_dimension_that_has_to_be_whole_is_no_batch() {
    let body = "x = f32[4,16] parameter(0)
        w = f32[16] parameter(1)
        both = f32[8,16] concatenate(x, x), dimensions={0}
        back = f32[4,16] reverse(x), dimensions={0}
        y = f32[4,16] negate(back)
        ROOT new = f32[16] negate(w)";
    assert_eq!(check("", body), "x:0");
}

#[test]
fn a_loop_carries_the_batch_to_the_values_before_it() {
    let comps = "body { p = (s32[], f32[4,8]) parameter(0)
        i = s32[] get-tuple-element(p), index=0
        v = f32[4,8] get-tuple-element(p), index=1
        n = f32[4,8] negate(v)
        o = s32[] constant(1)
        j = s32[] add(i, o)
        ROOT r = (s32[], f32[4,8]) tuple(j, n) }
        cond { p = (s32[], f32[4,8]) parameter(0)
        i = s32[] get-tuple-element(p), index=0
        n = s32[] constant(3)
        ROOT l = pred[] compare(i, n), direction=LT }";
    let body = "x = f32[4,8] parameter(0)
        w = f32[8] parameter(1)
        z = s32[] constant(0)
        s = (s32[], f32[4,8]) tuple(z, x)
        l = (s32[], f32[4,8]) while(s), condition=cond, body=body
        y = f32[4,8] get-tuple-element(l), index=1
        q = f32[4,8] tanh(y)
        ROOT new = f32[8] negate(w)";
    let found = check(comps, body);
    assert!(found.contains("x:0") && found.contains("n:0") && found.ends_with("q:0"), "{found}");
}

#[test]
fn data_are_the_arrays_that_no_output_replaces() {
    let body = "x = f32[12,4] parameter(0)
        w = f32[16] parameter(1)
        step = f32[] parameter(2)
        wave = c64[8] parameter(3)
        y = s32[8] parameter(4)
        ROOT new = f32[16] negate(w)";
    let (module, graph) = graph("", body);
    let name = |id: TensorId| &*module.entry().instr(graph.tensors[id as usize].home.1).name;
    assert_eq!(data(&graph).map(name).collect::<Vec<_>>(), ["x", "y"]);
    assert_eq!(batch_size(&graph), 4);
    assert_eq!(has_batch(&graph).iter().filter(|has| **has).count(), 2);
    // Where nothing is replaced, nothing is known to be data.
    let module = parse("ENTRY e { x = f32[12,4] parameter(0) ROOT y = f32[12,4] negate(x) }").expect("legal");
    let graph = Graph::build(&module);
    assert_eq!((data(&graph).count(), batch_size(&graph)), (0, 1));
}

#[test]
fn the_greatest_common_divisor_of_nothing_is_the_other() {
    assert_eq!([gcd(12, 18), gcd(0, 5), gcd(5, 0), gcd(7, 3)], [6, 5, 5, 1]);
}

#[test]
fn running_averages_are_no_data_whether_they_are_donated_or_not() {
    let text = "HloModule m, input_output_alias={ {0}: (1, {}, may-alias) }
add { a = f32[] parameter(0)  b = f32[] parameter(1)  ROOT c = f32[] add(a, b) }
ENTRY e {
  x = f32[4,16]{1,0} parameter(0)
  w = f32[16]{0} parameter(1)
  mean = f32[16]{0} parameter(2)
  zero = f32[] constant(0)
  sum = f32[16]{0} reduce(x, zero), dimensions={0}, to_apply=add
  decay = f32[] constant(0.9)
  decays = f32[16]{0} broadcast(decay), dimensions={}
  old = f32[16]{0} multiply(mean, decays)
  new = f32[16]{0} add(old, sum)
  next = f32[16]{0} add(w, sum)
  ROOT out = (f32[16]{0}, f32[16]{0}) tuple(next, new)
}";
    assert_eq!(data_of(text), ["x"]);
}

#[test]
fn frozen_weights_are_no_data() {
    let text = "HloModule m, input_output_alias={ {}: (0, {}, may-alias) }
ENTRY e {
  w = f32[16,16] parameter(0)
  ids = s32[8] parameter(1)
  table = f32[64,16] parameter(2)
  frozen = f32[16,32] parameter(3)
  scale = f32[32] parameter(4)
  torch = f32[16,32] parameter(5)
  x = f32[8,16] gather(table, ids), offset_dims={1}, collapsed_slice_dims={0}, start_index_map={0}, index_vector_dim=1, slice_sizes={1,16}
  h = f32[8,32] dot(x, frozen), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  scales = f32[8,32] broadcast(scale), dimensions={1}
  s = f32[8,32] multiply(h, scales)
  back = f32[32,16] transpose(torch), dimensions={1,0}
  y = f32[8,16] dot(s, back), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  g = f32[16,16] dot(x, y), lhs_contracting_dims={0}, rhs_contracting_dims={0}
  ROOT new = f32[16,16] subtract(w, g)
}";
    assert_eq!(data_of(text), ["ids"]);
}

#[test]
fn samples_on_the_right_of_a_product_are_data() {
    let text = "HloModule m, input_output_alias={ {}: (0, {}, may-alias) }
ENTRY e {
  w = f32[32,16] parameter(0)
  x = f32[8,16] parameter(1)
  h = f32[32,8] dot(w, x), lhs_contracting_dims={1}, rhs_contracting_dims={1}
  g = f32[32,16] dot(h, x), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  ROOT new = f32[32,16] subtract(w, g)
}";
    assert_eq!(data_of(text), ["x"]);
}

#[test]
fn a_loop_that_takes_parts_of_the_data_is_over_microbatches() {
    let comps = |update: &str| {
        format!(
            "body {{ p = (s32[], f32[8], f32[4,8]) parameter(0)
        i = s32[] get-tuple-element(p), index=0
        w = f32[8] get-tuple-element(p), index=1
        x = f32[4,8] get-tuple-element(p), index=2
        z = s32[] constant(0)
        part = f32[1,8] dynamic-slice({update}, i, z), dynamic_slice_sizes={{1,8}}
        row = f32[8] reshape(part)
        n = f32[8] add(w, row)
        o = s32[] constant(1)
        j = s32[] add(i, o)
        ROOT r = (s32[], f32[8], f32[4,8]) tuple(j, n, x) }}
        cond {{ p = (s32[], f32[8], f32[4,8]) parameter(0)
        i = s32[] get-tuple-element(p), index=0
        n = s32[] constant(4)
        ROOT l = pred[] compare(i, n), direction=LT }}"
        )
    };
    let body = "x = f32[4,8] parameter(0)
        w = f32[8] parameter(1)
        z = s32[] constant(0)
        s = (s32[], f32[8], f32[4,8]) tuple(z, w, x)
        l = (s32[], f32[8], f32[4,8]) while(s), condition=cond, body=body
        ROOT new = f32[8] get-tuple-element(l), index=1";
    let found = |comps: &str| {
        let (module, graph) = graph(comps, body);
        accumulation(&module, &graph).map(|it| (module.comp(it.body).name.to_string(), it.n_microbatches))
    };
    assert_eq!(found(&comps("x")), Some(("body".to_owned(), 4)));
    let stack = comps("x")
        .replace("dynamic-slice(x", "dynamic-slice(stack")
        .replace("z = s32[]", "stack = f32[4,8] broadcast(w), dimensions={1}\n        z = s32[]");
    assert_eq!(found(&stack), None);
    let turned = body.replace("tuple(z, w, x)", "tuple(z, w, t)").replace(
        "z = s32[]",
        "a = f32[8,4] negate(y)\n        t = f32[4,8] transpose(a), dimensions={1,0}\n        z = s32[]",
    );
    let turned = turned
        .replace("w = f32[8] parameter(1)", "w = f32[8] parameter(1)\n        y = f32[8,4] parameter(2)");
    let (module, graph) = graph(&comps("x"), &turned);
    assert_eq!(accumulation(&module, &graph), None, "positions of samples that come first");
}

#[test]
fn targets_and_cotangents_that_only_gradients_sum_over_are_data() {
    let text = "HloModule m, input_output_alias={ {}: (1, {}, may-alias) }
ENTRY e {
  x = f32[8,16] parameter(0)
  w = f32[16,32] parameter(1)
  dy = f32[8,32] parameter(2)
  ids = s32[8] parameter(3)
  pairs = s32[8,8] broadcast(ids), dimensions={1}
  others = s32[8,8] broadcast(ids), dimensions={0}
  same = pred[8,8] compare(pairs, others), direction=EQ
  ones = f32[8,8] convert(same)
  h = f32[8,32] dot(x, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  near = f32[8,32] dot(ones, h), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  dh = f32[8,32] multiply(dy, near)
  dw = f32[16,32] dot(x, dh), lhs_contracting_dims={0}, rhs_contracting_dims={0}
  ROOT new = f32[16,32] subtract(w, dw)
}";
    assert_eq!(data_of(text), ["x", "dy", "ids"]);
}
