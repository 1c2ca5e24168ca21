//! What microbatches hold of each stage where gradients of weights are put off, by hand.

use super::*;
use crate::derive::derive;
use crate::memory::live::live;
use crate::testing::{staged, staged_with};

/// A product of two matrices of which a microbatch has a quarter: 256 bytes.
fn dot(name: &str, operands: &str) -> String {
    format!("{name} = f32[16,16] dot({operands}), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}}")
}

/// Two stages; the second keeps `k`, `m` and `n` for its gradients, of which the weight's read `k` alone.
fn step() -> Module {
    let lines = [
        (dot("h", "x, x"), "fwd", 0),
        (dot("k", "h, h"), "fwd", 1),
        (dot("m", "h, k"), "fwd", 1),
        (dot("n", "k, m"), "fwd", 1),
        (dot("dk", "n, m"), "bwd", 1),
        (dot("wk", "k, dk"), "bwd", 1),
        (dot("dh", "dk, dk"), "bwd", 1),
        (dot("wh", "h, dh"), "bwd", 0),
    ];
    let given = [("x = f32[16,16] parameter(0)", "fwd", 0)];
    let root = [("ROOT both = (f32[16,16], f32[16,16]) tuple(wk, wh)", "upd", 0)];
    let lines = lines.iter().map(|(text, phase, stage)| (&**text, *phase, *stage));
    let all: Vec<_> = given.into_iter().chain(lines).chain(root).collect();
    staged("", "0:;1:", r#"{"n_microbatches":4,"schedule":"zero-bubble"}"#, &all)
}

const PART: f64 = 256.0;

fn with_held(then: impl Fn(&Module, &Live, &Held)) {
    let module = step();
    let facts = derive(&module).expect("a legal header");
    let live = live(&module, module.entry, &facts.comps[module.entry.index()]);
    then(&module, &live, &Held::new(&module, &facts, &live).expect("it has a backward part"));
}

#[test]
fn a_microbatch_keeps_what_is_saved_and_what_is_put_off_reads() {
    // `h` and `dh`; `k`, `m`, `n` and `dk`.
    with_held(|_, _, held| assert_eq!([0, 1].map(|stage| held.kept_bytes(stage)), [2.0 * PART, 4.0 * PART]));
}

#[test]
fn others_wait_with_what_is_saved_or_with_what_is_put_off() {
    with_held(|_, _, held| {
        let of = |stage| [0, 1, 2, 3].map(|n_held| held.others_bytes(stage, n_held) / PART);
        // What the first stage puts off reads as much as it saves, and a gradient.
        assert_eq!(of(0), [0.0, 1.0, 3.0, 5.0]);
        // One of the second waits with all three, the others with `k` and `dk`.
        assert_eq!(of(1), [0.0, 1.0, 4.0, 6.0]);
    });
}

#[test]
fn gradients_that_are_put_off_for_are_counted_once() {
    with_held(|module, live, held| {
        let comp = module.entry();
        let is_counted = |id: InstrId| live.values(id).any(|value| held.is_counted(id, value));
        let names = comp.iter().filter(|(id, _)| is_counted(*id)).map(|(_, instr)| &*instr.name);
        assert_eq!(names.collect::<Vec<_>>(), ["dk"]);
        let arrivals = live.arrivals.iter().enumerate().filter(|(index, _)| held.is_arrival_counted(*index));
        let names = arrivals.map(|(_, it)| (&*comp.instr(it.maker).name, it.stage));
        assert_eq!(names.collect::<Vec<_>>(), [("dh", 0)]);
    });
}

#[test]
fn loops_keep_what_they_change_and_branches_what_they_make() {
    let comps = "body { p = (f32[16,16], f32[32,16]) parameter(0)
        a = f32[16,16] get-tuple-element(p), index=0
        b = f32[32,16] get-tuple-element(p), index=1
        n = f32[16,16] tanh(a)
        ROOT r = (f32[16,16], f32[32,16]) tuple(n, b) }
        cond { q = (f32[16,16], f32[32,16]) parameter(0) ROOT k = pred[] constant(false) }
        yes { y = f32[16,16] parameter(0) ROOT n = f32[16,16] tanh(y) }
        no { y = f32[16,16] parameter(0) ROOT n = f32[16,16] sine(y) }";
    let lines = [
        ("x = f32[16,16] parameter(0)".to_owned(), "fwd", 0),
        ("d = f32[32,16] parameter(1)".to_owned(), "fwd", 0),
        ("s = (f32[16,16], f32[32,16]) tuple(x, d)".to_owned(), "fwd", 0),
        ("t = (f32[16,16], f32[32,16]) while(s), condition=cond, body=body".to_owned(), "fwd", 0),
        ("a = f32[16,16] get-tuple-element(t), index=0".to_owned(), "fwd", 0),
        ("b = f32[32,16] get-tuple-element(t), index=1".to_owned(), "fwd", 0),
        ("k = pred[] constant(true)".to_owned(), "fwd", 0),
        (
            "c = f32[16,16] conditional(k, a, a), true_computation=yes, false_computation=no".to_owned(),
            "fwd",
            0,
        ),
        (dot("ga", "a, a"), "bwd", 0),
        (dot("gc", "c, ga"), "bwd", 0),
        (dot("gb", "b, gc").replace("f32[16,16]", "f32[32,16]"), "bwd", 0),
        ("ROOT o = (f32[32,16]) tuple(gb)".to_owned(), "upd", 0),
    ];
    let lines: Vec<_> = lines.iter().map(|(text, phase, stage)| (&**text, *phase, *stage)).collect();
    let plan = r#"{"n_microbatches":4,"schedule":"zero-bubble"}"#;
    let module = staged_with(comps, "", "0:", plan, &lines);
    let facts = derive(&module).expect("a legal header");
    let live = live(&module, module.entry, &facts.comps[module.entry.index()]);
    let held = Held::new(&module, &facts, &live).expect("it has a backward part");
    // Saved `d`, of twice the size, which the loop passes on, `a` and `c`; no other stage waits for `ga` and
    // `gc`, so they are made with what reads them.
    assert_eq!(held.kept_bytes(0), (2.0 + 1.0 + 1.0) * PART);
}
