//! Memory at every instruction, by hand: in matrices of 1024 bytes.

use super::*;

const SUMS: &str = "lhs_contracting_dims={1}, rhs_contracting_dims={0}";

/// Per instruction, by name: matrices in use.
fn matrices(text: &str) -> Vec<(String, f64)> {
    let module = parse(text).expect("legal");
    let facts = derive(&module).expect("a legal header");
    let found = memory_by_instr(&module, &facts);
    let of = |comp: usize| {
        let named = module.comps[comp].instrs.iter().zip(&found[comp]);
        named.map(|(instr, bytes)| (instr.name.to_string(), bytes / 1024.0)).collect::<Vec<_>>()
    };
    (0..module.comps.len()).flat_map(of).filter(|(name, _)| name.len() == 2).collect()
}

#[test]
fn each_instruction_has_what_is_there_while_it_runs() {
    // `d3` is made beside `d2`, `d1` is dead by then; `n1` stays in registers.
    let text = format!(
        "HloModule m\nENTRY e {{ a0 = f32[16,16] parameter(0) d1 = f32[16,16] dot(a0, a0), {SUMS}
         n1 = f32[16,16] negate(d1) d2 = f32[16,16] add(n1, a0) ROOT d3 = f32[16,16] dot(d2, a0), {SUMS} }}"
    );
    let found: Vec<f64> = matrices(&text).into_iter().map(|(_, bytes)| bytes).collect();
    assert_eq!(found, [1.0, 2.0, 2.0, 2.0, 3.0]);
}

#[test]
fn a_body_s_instructions_have_what_is_there_outside_too_and_the_loop_has_their_most() {
    let text = format!(
        "HloModule m
         b {{ p = f32[16,16] parameter(0) d1 = f32[16,16] dot(p, p), {SUMS} d2 = f32[16,16] dot(d1, p), {SUMS}
           ROOT d3 = f32[16,16] dot(d2, d1), {SUMS} }}
         c {{ p = f32[16,16] parameter(0) ROOT k = pred[] constant(true) }}
         ENTRY e {{ a0 = f32[16,16] parameter(0) u0 = f32[16,16] dot(a0, a0), {SUMS}
           v0 = f32[16,16] dot(u0, a0), {SUMS} w0 = f32[16,16] while(v0), condition=c, body=b
           ROOT z0 = f32[16,16] dot(w0, u0), {SUMS} }}"
    );
    let found = matrices(&text);
    // Outside there are `a0`, `u0` and the carried value, over which the loop writes; inside `d1` and `d2`
    // beside it, then those and `d3` without it.
    let all = [
        ("d1", 4.0),
        ("d2", 5.0),
        ("d3", 5.0),
        ("a0", 1.0),
        ("u0", 2.0),
        ("v0", 3.0),
        ("w0", 5.0),
        ("z0", 4.0),
    ];
    assert_eq!(found, all.map(|(name, bytes)| (name.to_owned(), bytes)));
}
