//! Which spellings are attentions, and what they are.

use super::*;

/// What the programs of these tests have beside their entry's lines.
const COMPS: &str = "HloModule m
sum { a = f32[] parameter(0) b = f32[] parameter(1) ROOT c = f32[] add(a, b) }
max { a = f32[] parameter(0) b = f32[] parameter(1) ROOT c = f32[] maximum(a, b) }";

const HEADS: &str = "
  q = f32[2,4,6,8] parameter(0)
  k = f32[2,4,10,8] parameter(1)
  v = f32[2,4,10,8] parameter(2)
  zero = f32[] constant(0)
  low = f32[] constant(-inf)
  s = f32[2,4,6,10] dot(q, k), lhs_batch_dims={0,1}, rhs_batch_dims={0,1}, lhs_contracting_dims={3}, rhs_contracting_dims={3}";

const SOFTMAX: &str = "
  m = f32[2,4,6] reduce(x, low), dimensions={3}, to_apply=max
  mb = f32[2,4,6,10] broadcast(m), dimensions={0,1,2}
  d = f32[2,4,6,10] subtract(x, mb)
  e = f32[2,4,6,10] exponential(d)
  z = f32[2,4,6] reduce(e, zero), dimensions={3}, to_apply=sum
  zb = f32[2,4,6,10] broadcast(z), dimensions={0,1,2}
  p = f32[2,4,6,10] divide(e, zb)";

const OUTPUT: &str = "
  ROOT o = f32[2,4,6,8] dot(p, v), lhs_batch_dims={0,1}, rhs_batch_dims={0,1}, lhs_contracting_dims={3}, rhs_contracting_dims={2}";

fn module(lines: &str) -> Module {
    phzc_ir::parse(&format!("{COMPS}\nENTRY main {{{lines}\n}}")).unwrap_or_else(|error| panic!("{error}"))
}

/// A line per attention: its members, products with their notes; then what else there is to say.
fn found_in(module: &Module, comp: CompId, backward: &[&str]) -> String {
    let instrs = &module.comp(comp).instrs;
    let phase = |name: &str| if backward.contains(&name) { Phase::Backward } else { Phase::Forward };
    let phases: Vec<Phase> = instrs.iter().map(|instr| phase(&instr.name)).collect();
    let line = |it: &Attention| {
        let member = |member: &Member| {
            let note = it.note(member, 0, phases[member.id.index()]).to_string();
            format!("{}{}", instrs[member.id.index()].name, note.trim_start_matches('0'))
        };
        let members: Vec<String> = it.members.iter().map(member).collect();
        members.join(" ") + &it.left.as_ref().map(|left| format!("; {left}")).unwrap_or_default()
    };
    attentions(module, comp, &phases).iter().map(line).collect::<Vec<_>>().join("\n")
}

fn check(lines: &str) -> String {
    let module = module(lines);
    found_in(&module, module.entry, &[])
}

#[test]
fn plain() {
    let text = format!("{HEADS}{}{OUTPUT}", SOFTMAX.replace("(x, ", "(s, "));
    assert_eq!(check(&text), "s:qkd m mb d e z zb p o:qdk");
}

#[test]
fn without_a_maximum_and_with_keys_first() {
    let text = "
  q = f32[2,6,8] parameter(0)
  k = f32[2,6,8] parameter(1)
  v = f32[2,6,8] parameter(2)
  zero = f32[] constant(0)
  s = f32[2,6,6] dot(k, q), lhs_batch_dims={0}, rhs_batch_dims={0}, lhs_contracting_dims={2}, rhs_contracting_dims={2}
  e = f32[2,6,6] exponential(s)
  z = f32[2,6] reduce(e, zero), dimensions={1}, to_apply=sum
  zb = f32[2,6,6] broadcast(z), dimensions={0,2}
  p = f32[2,6,6] divide(e, zb)
  ROOT o = f32[2,8,6] dot(v, p), lhs_batch_dims={0}, rhs_batch_dims={0}, lhs_contracting_dims={1}, rhs_contracting_dims={1}";
    assert_eq!(check(text), "s:kqd e z zb p o:dqk");
}

#[test]
fn scaled_masked_and_with_dropout_in_other_types() {
    let text = format!(
        "{HEADS}
  half = f32[] constant(0.5)
  scale = f32[2,4,6,10] broadcast(half), dimensions={{}}
  t = f32[2,4,6,10] multiply(s, scale)
  seen = pred[2,10] parameter(3)
  mask = pred[2,4,6,10] broadcast(seen), dimensions={{0,3}}
  least = f32[2,4,6,10] broadcast(low), dimensions={{}}
  x = f32[2,4,6,10] select(mask, t, least){}
  bits = f32[2,4,6,10] parameter(4)
  keep = pred[2,4,6,10] compare(bits, scale), direction=GT
  none = f32[2,4,6,10] broadcast(zero), dimensions={{}}
  dropped = f32[2,4,6,10] select(keep, p, none)
  narrow = bf16[2,4,6,10] convert(dropped)
  vn = bf16[2,4,10,8] convert(v)
  ROOT o = bf16[2,4,6,8] dot(narrow, vn), lhs_batch_dims={{0,1}}, rhs_batch_dims={{0,1}}, lhs_contracting_dims={{3}}, rhs_contracting_dims={{2}}",
        SOFTMAX
    );
    assert_eq!(check(&text), "s:qkd t x m mb d e z zb p keep dropped narrow o:qdk");
}

#[test]
fn causal_by_positions_that_are_compared() {
    let mask = "
  i = s32[6,10] iota(), iota_dimension=0
  j = s32[10] iota(), iota_dimension=0
  jb = s32[6,10] broadcast(j), dimensions={1}
  seen = pred[6,10] compare(i, jb), direction=GE
  mask = pred[2,4,6,10] broadcast(seen), dimensions={2,3}
  least = f32[2,4,6,10] broadcast(low), dimensions={}";
    let with = |mask: &str, how: &str| check(&format!("{HEADS}{mask}{how}{SOFTMAX}{OUTPUT}"));
    let select = "\n  x = f32[2,4,6,10] select(mask, s, least)";
    assert_eq!(with(mask, select), "s:qkd:causal x m mb d e z zb p o:qdk:causal");
    let bias = "
  none = f32[2,4,6,10] broadcast(zero), dimensions={}
  bias = f32[2,4,6,10] select(mask, none, least)
  x = f32[2,4,6,10] add(s, bias)";
    assert_eq!(with(mask, bias), "s:qkd:causal x m mb d e z zb p o:qdk:causal");
    // Each key is compared with itself.
    let other =
        mask.replace("i = s32[6,10] iota(), iota_dimension=0", "i = s32[6,10] iota(), iota_dimension=1");
    assert_eq!(with(&other, select), "s:qkd x m mb d e z zb p o:qdk");
}

#[test]
fn grouped_with_heads_side_by_side_for_the_softmax() {
    let text = format!(
        "
  q = f32[2,6,2,2,8] parameter(0)
  k = f32[2,10,2,8] parameter(1)
  v = f32[2,10,2,8] parameter(2)
  zero = f32[] constant(0)
  low = f32[] constant(-inf)
  s = f32[2,2,6,2,10] dot(q, k), lhs_batch_dims={{0,2}}, rhs_batch_dims={{0,2}}, lhs_contracting_dims={{4}}, rhs_contracting_dims={{3}}
  g = f32[2,2,2,6,10] transpose(s), dimensions={{0,1,3,2,4}}
  x = f32[2,4,6,10] reshape(g){SOFTMAX}
  pg = f32[2,2,2,6,10] reshape(p)
  ROOT o = f32[2,2,2,6,8] dot(pg, v), lhs_batch_dims={{0,1}}, rhs_batch_dims={{0,2}}, lhs_contracting_dims={{4}}, rhs_contracting_dims={{1}}"
    );
    assert_eq!(check(&text), "s:qkd g x m mb d e z zb p pg o:qdk");
}

const GRADIENTS: &str = "
  o = f32[2,4,6,8] dot(p, v), lhs_batch_dims={0,1}, rhs_batch_dims={0,1}, lhs_contracting_dims={3}, rhs_contracting_dims={2}
  do = f32[2,4,6,8] parameter(3)
  dv = f32[2,4,10,8] dot(p, do), lhs_batch_dims={0,1}, rhs_batch_dims={0,1}, lhs_contracting_dims={2}, rhs_contracting_dims={2}
  dp = f32[2,4,6,10] dot(do, v), lhs_batch_dims={0,1}, rhs_batch_dims={0,1}, lhs_contracting_dims={3}, rhs_contracting_dims={3}
  two = f32[2,4,6,10] add(dp, dp)
  pdp = f32[2,4,6,10] multiply(two, p)
  row = f32[2,4,6] reduce(pdp, zero), dimensions={3}, to_apply=sum
  neg = f32[2,4,6] negate(row)
  rows = f32[2,4,6,10] broadcast(neg), dimensions={0,1,2}
  less = f32[2,4,6,10] add(two, rows)
  ds = f32[2,4,6,10] multiply(less, p)
  dq = f32[2,4,6,8] dot(ds, k), lhs_batch_dims={0,1}, rhs_batch_dims={0,1}, lhs_contracting_dims={3}, rhs_contracting_dims={2}
  dk = f32[2,4,8,10] dot(q, ds), lhs_batch_dims={0,1}, rhs_batch_dims={0,1}, lhs_contracting_dims={2}, rhs_contracting_dims={2}
  ROOT out = (f32[2,4,6,8], f32[2,4,10,8], f32[2,4,6,8], f32[2,4,8,10]) tuple(o, dv, dq, dk)";

#[test]
fn gradients_are_of_the_same_attention() {
    let module = module(&format!("{HEADS}{}{GRADIENTS}", SOFTMAX.replace("(x, ", "(s, ")));
    let backward = ["dv", "dp", "two", "pdp", "row", "neg", "rows", "less", "ds", "dq", "dk"];
    assert_eq!(
        found_in(&module, module.entry, &backward),
        "s:qkd m mb d e z zb p o:qdk dv:kdq:gradient dp:qkd:gradient two pdp row neg rows less ds \
         dq:qdk:gradient dk:dkq:gradient"
    );
}

#[test]
fn a_chunk_of_keys_per_trip_with_a_running_maximum_and_sum() {
    let carried = "(s32[], f32[2,4,6,8], f32[2,4,30,8], f32[2,4,6], f32[2,4,6], f32[2,4,6,8])";
    let text = format!(
        "{COMPS}
body {{
  c = {carried} parameter(0)
  i = s32[] get-tuple-element(c), index=0
  q = f32[2,4,6,8] get-tuple-element(c), index=1
  all = f32[2,4,30,8] get-tuple-element(c), index=2
  old = f32[2,4,6] get-tuple-element(c), index=3
  l = f32[2,4,6] get-tuple-element(c), index=4
  acc = f32[2,4,6,8] get-tuple-element(c), index=5
  nil = s32[] constant(0)
  ten = s32[] constant(10)
  at = s32[] multiply(i, ten)
  k = f32[2,4,10,8] dynamic-slice(all, nil, nil, at, nil), dynamic_slice_sizes={{2,4,10,8}}
  zero = f32[] constant(0)
  low = f32[] constant(-inf)
  s = f32[2,4,6,10] dot(q, k), lhs_batch_dims={{0,1}}, rhs_batch_dims={{0,1}}, lhs_contracting_dims={{3}}, rhs_contracting_dims={{3}}
  m = f32[2,4,6] reduce(s, low), dimensions={{3}}, to_apply=max
  new = f32[2,4,6] maximum(m, old)
  mb = f32[2,4,6,10] broadcast(new), dimensions={{0,1,2}}
  d = f32[2,4,6,10] subtract(s, mb)
  p = f32[2,4,6,10] exponential(d)
  z = f32[2,4,6] reduce(p, zero), dimensions={{3}}, to_apply=sum
  gone = f32[2,4,6] subtract(old, new)
  alpha = f32[2,4,6] exponential(gone)
  ls = f32[2,4,6] multiply(l, alpha)
  ln = f32[2,4,6] add(ls, z)
  o = f32[2,4,6,8] dot(p, k), lhs_batch_dims={{0,1}}, rhs_batch_dims={{0,1}}, lhs_contracting_dims={{3}}, rhs_contracting_dims={{2}}
  ab = f32[2,4,6,8] broadcast(alpha), dimensions={{0,1,2}}
  accs = f32[2,4,6,8] multiply(acc, ab)
  accn = f32[2,4,6,8] add(accs, o)
  one = s32[] constant(1)
  next = s32[] add(i, one)
  ROOT r = {carried} tuple(next, q, all, new, ln, accn)
}}
condition {{
  c = {carried} parameter(0)
  i = s32[] get-tuple-element(c), index=0
  n = s32[] constant(3)
  ROOT go = pred[] compare(i, n), direction=LT
}}
ENTRY main {{
  c = {carried} parameter(0)
  ROOT w = {carried} while(c), condition=condition, body=body
}}"
    );
    let module = phzc_ir::parse(&text).unwrap_or_else(|error| panic!("{error}"));
    let body = module.comps.iter().position(|comp| &*comp.name == "body").expect("it is there");
    assert_eq!(found_in(&module, CompId::new(body), &[]), "s:qkd m new mb d p z o:qdk");
}

#[test]
fn scores_that_something_else_reads_leave_it_as_it_is_written() {
    let text = format!("{HEADS}{}{OUTPUT}", SOFTMAX.replace("(x, ", "(s, "));
    let text = text.replace("ROOT o", "o") + "\n  ROOT out = (f32[2,4,6,8], f32[2,4,6,10]) tuple(o, p)";
    assert_eq!(check(&text), "s:qkd m mb d e z zb p o:qdk; its scores are read by `out`");
}

#[test]
fn what_waits_for_another_kernel_is_left_as_it_is_written() {
    let text = format!("{HEADS}{SOFTMAX}{OUTPUT}").replace(
        "\n  m = ",
        "
  top = f32[2,4,6] reduce(s, low), dimensions={3}, to_apply=max
  sorted = f32[2,4,6] sort(top), dimensions={2}, to_apply=less
  tb = f32[2,4,6,10] broadcast(sorted), dimensions={0,1,2}
  x = f32[2,4,6,10] add(s, tb)
  m = ",
    );
    let less =
        "less { a = f32[] parameter(0) b = f32[] parameter(1) ROOT c = pred[] compare(a, b), direction=LT }";
    let module = phzc_ir::parse(&format!("{COMPS}\n{less}\nENTRY main {{{text}\n}}")).expect("legal");
    let found = found_in(&module, module.entry, &[]);
    assert!(found.ends_with("; `sorted` is made of its values and read by it"), "{found}");
}

#[test]
fn other_products_around_exponentials_are_none() {
    // The output layer: no batches.
    let logits = "
  x = f32[6,8] parameter(0)
  w = f32[10,8] parameter(1)
  zero = f32[] constant(0)
  s = f32[6,10] dot(x, w), lhs_contracting_dims={1}, rhs_contracting_dims={1}
  e = f32[6,10] exponential(s)
  z = f32[6] reduce(e, zero), dimensions={1}, to_apply=sum
  zb = f32[6,10] broadcast(z), dimensions={0}
  p = f32[6,10] divide(e, zb)
  ROOT dx = f32[6,8] dot(p, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}";
    assert_eq!(check(logits), "");
    // No sum over the keys.
    let text = format!("{HEADS}\n  p = f32[2,4,6,10] exponential(s){OUTPUT}");
    assert_eq!(check(&text), "");
    // Nothing is multiplied by it.
    let text = format!("{HEADS}{}", SOFTMAX.replace("(x, ", "(s, ").replace("p = ", "ROOT p = "));
    assert_eq!(check(&text), "");
}

#[test]
fn rows_that_are_summed_over_one_element_are_rows() {
    // As JAX writes a gradient of the softmax's sum: with keys in a dimension of size 1, then without.
    let text = format!("{HEADS}{}{OUTPUT}", SOFTMAX.replace("(x, ", "(s, ")).replace(
        "\n  zb = f32[2,4,6,10] broadcast(z), dimensions={0,1,2}",
        "
  z1 = f32[2,4,6,1] reshape(z)
  n1 = f32[2,4,6,1] negate(z1)
  n = f32[2,4,6] reduce(n1, zero), dimensions={3}, to_apply=sum
  zb = f32[2,4,6,10] broadcast(n), dimensions={0,1,2}",
    );
    assert_eq!(check(&text), "s:qkd m mb d e z z1 n1 n zb p o:qdk");
}
