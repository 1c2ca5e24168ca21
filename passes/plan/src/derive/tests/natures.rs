//! How values relate to microbatches: `p`art of each, `s`tate, or a `S`um over all.

use super::*;
use crate::testing::staged_with;

fn natures(comps: &str, lines: &[(&str, &str, usize)]) -> String {
    let plan = r#"{"n_microbatches":2}"#;
    let module = staged_with(comps, " {0}: (1, {}, may-alias) ", "0:", plan, lines);
    let facts = derive(&module).expect("a legal header");
    let letter = |nature: &Nature| match nature {
        Nature::Part => 'p',
        Nature::State => 's',
        Nature::Sum => 'S',
    };
    let of = |(instr, own): (&phzc_ir::Instr, &InstrFacts)| {
        format!("{}:{}", instr.name, own.natures.iter().map(letter).collect::<String>())
    };
    let comps = planned_comps(&module).into_iter();
    let all = comps.flat_map(|comp| module.comp(comp).instrs.iter().zip(&facts.comps[comp.index()]));
    all.map(of).collect::<Vec<_>>().join(" ")
}

#[test]
fn data_is_in_parts_and_what_updates_read_or_the_program_returns_is_summed_up() {
    let found = natures(
        "",
        &[
            ("x = f32[4,2] parameter(0)", "fwd", 0),
            ("w = f32[2] parameter(1)", "fwd", 0),
            ("rate = f32[2] parameter(2)", "fwd", 0),
            ("given = f32[2] parameter(3)", "fwd", 0),
            ("k = f32[2] negate(w)", "fwd", 0),
            ("h = f32[4,2] broadcast(k), dimensions={1}", "fwd", 0),
            ("y = f32[4,2] multiply(x, h)", "fwd", 0),
            ("q = f32[4,2] negate(y)", "fwd", 0),
            ("r = f32[4,2] negate(q)", "fwd", 0),
            ("zero = f32[] constant(0)", "fwd", 0),
            ("g = f32[2] reduce(y, zero), dimensions={0}, to_apply=add", "bwd", 0),
            ("e = f32[2] add(g, g)", "bwd", 0),
            ("m = f32[2] multiply(e, rate)", "upd", 0),
            ("v = f32[2] add(w, m)", "upd", 0),
            ("ROOT t = (f32[2], f32[4,2], f32[4,2], f32[2]) tuple(v, q, r, given)", "upd", 0),
        ],
    );
    let wanted = "x:p w:s rate:s given:p k:s h:s y:p q:S r:S zero:s g:p e:S m:S v:S t:SSSp";
    assert_eq!(found, wanted);
}

#[test]
fn tuples_barriers_and_elements_hand_on_what_they_hold() {
    let found = natures(
        "",
        &[
            ("x = f32[2] parameter(0)", "fwd", 0),
            ("w = f32[2] parameter(1)", "fwd", 0),
            ("a = (f32[2], f32[2]) tuple(w, x)", "fwd", 0),
            ("b = ((f32[2], f32[2]), f32[2]) tuple(a, w)", "fwd", 0),
            ("c = ((f32[2], f32[2]), f32[2]) opt-barrier(b)", "fwd", 0),
            ("d = (f32[2], f32[2]) get-tuple-element(c), index=0", "fwd", 0),
            ("e = f32[2] get-tuple-element(c), index=1", "fwd", 0),
            ("f = f32[2] get-tuple-element(d), index=1", "fwd", 0),
            ("g = f32[2] add(e, f)", "fwd", 0),
            ("h = f32[2] negate(e)", "fwd", 0),
            ("i = f32[2] negate(g)", "upd", 0),
            ("ROOT t = (f32[2], f32[2]) tuple(h, i)", "upd", 0),
        ],
    );
    assert_eq!(found, "x:p w:s a:sp b:sps c:sps d:sp e:s f:p g:S h:s i:S t:sS");
}

/// A loop that adds `x` to what it carries, `w` at first.
const LOOP: &str = "body { p = (s32[], f32[2], f32[2]) parameter(0)
    i = s32[] get-tuple-element(p), index=0
    a = f32[2] get-tuple-element(p), index=1
    b = f32[2] get-tuple-element(p), index=2
    n = f32[2] add(a, b)
    o = s32[] constant(1)
    j = s32[] add(i, o)
    ROOT r = (s32[], f32[2], f32[2]) tuple(j, n, b) }
    cond { q = (s32[], f32[2], f32[2]) parameter(0)
    k = s32[] get-tuple-element(q), index=0
    m = s32[] constant(3)
    ROOT l = pred[] compare(k, m), direction=LT }";

fn looping(reader: &str) -> String {
    natures(
        LOOP,
        &[
            ("x = f32[2] parameter(0)", "fwd", 0),
            ("w = f32[2] parameter(1)", "fwd", 0),
            ("z = s32[] constant(0)", "fwd", 0),
            ("s = (s32[], f32[2], f32[2]) tuple(z, w, x)", "fwd", 0),
            ("t = (s32[], f32[2], f32[2]) while(s), condition=cond, body=body", "fwd", 0),
            ("y = f32[2] get-tuple-element(t), index=1", "fwd", 0),
            ("u = f32[2] negate(y)", reader, 0),
            ("ROOT v = (f32[2]) tuple(u)", "upd", 0),
        ],
    )
}

#[test]
fn what_a_loop_carries_is_a_part_where_an_iteration_makes_it_one() {
    let found = looping("fwd");
    assert!(found.contains("p:spp i:s a:p b:p n:p o:s j:s r:spp"), "{found}");
    assert!(found.contains("q:spp k:s m:s l:s"), "{found}");
    assert!(found.ends_with("x:p w:s z:s s:ssp t:spp y:p u:S v:S"), "{found}");
}

#[test]
fn what_an_update_reads_of_a_loop_is_summed_up_inside() {
    let found = looping("upd");
    assert!(found.contains("a:S b:p n:S") && found.contains("t:sSp y:S u:S"), "{found}");
}

#[test]
fn a_branch_that_data_chooses_makes_parts() {
    let comps = "yes { p = f32[2] parameter(0) ROOT r = f32[2] negate(p) }
        no { p = f32[2] parameter(0) ROOT r = f32[2] copy(p) }";
    let chosen = |data: &str, passed: &str, reader: &str| {
        natures(
            comps,
            &[
                ("x = pred[4] parameter(0)", "fwd", 0),
                ("w = f32[2] parameter(1)", "fwd", 0),
                ("d = f32[2] parameter(2)", "fwd", 0),
                ("two = pred[] constant(true)", "fwd", 0),
                ("s = pred[1] slice(x), slice={[0:1]}", "fwd", 0),
                ("one = pred[] reshape(s)", "fwd", 0),
                (
                    &format!(
                        "c = f32[2] conditional({data}, {passed}, w), true_computation=yes, false_computation=no"
                    ),
                    "fwd",
                    0,
                ),
                ("u = f32[2] negate(c)", reader, 0),
                ("ROOT v = (f32[2], f32[2]) tuple(u, d)", "upd", 0),
            ],
        )
    };
    assert!(chosen("one", "w", "fwd").contains(" c:p u:S"));
    assert!(chosen("two", "w", "fwd").contains(" c:s u:s"));
    assert!(chosen("two", "d", "fwd").contains(" c:p u:S"));
    assert!(chosen("one", "w", "upd").contains(" c:S u:S"));
}

#[test]
fn what_a_branch_makes_of_what_it_is_passed_is_found_inside_it() {
    let comps = "yes { p = f32[2] parameter(0) r = f32[2] negate(p) ROOT t = (f32[2], f32[2]) tuple(p, r) }
        no { q = f32[2] parameter(0) k = f32[2] constant({1, 2}) ROOT u = (f32[2], f32[2]) tuple(k, q) }";
    let found = natures(
        comps,
        &[
            ("x = f32[2] parameter(0)", "fwd", 0),
            ("w = f32[2] parameter(1)", "fwd", 0),
            ("two = pred[] constant(true)", "fwd", 0),
            (
                "c = (f32[2], f32[2]) conditional(two, w, x), true_computation=yes, false_computation=no",
                "fwd",
                0,
            ),
            ("a = f32[2] get-tuple-element(c), index=0", "fwd", 0),
            ("b = f32[2] get-tuple-element(c), index=1", "fwd", 0),
            ("n = f32[2] negate(b)", "fwd", 0),
            ("ROOT v = (f32[2], f32[2]) tuple(a, n)", "upd", 0),
        ],
    );
    assert_eq!(found, "p:s r:s t:ss q:p k:s u:sp x:p w:s two:s c:sp a:s b:p n:S v:sS");
}

#[test]
fn what_the_update_makes_of_state_alone_is_made_once() {
    let found = natures(
        "",
        &[
            ("x = f32[2] parameter(0)", "fwd", 0),
            ("w = f32[2] parameter(1)", "fwd", 0),
            ("k = f32[2] negate(w)", "fwd", 0),
            ("d = f32[2] negate(w)", "upd", 0),
            ("y = f32[2] add(x, k)", "fwd", 0),
            ("ROOT t = (f32[2], f32[2]) tuple(d, y)", "upd", 0),
        ],
    );
    assert_eq!(found, "x:p w:s k:s d:S y:S t:SS");
}
