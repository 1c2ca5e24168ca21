//! Whose buffers values are, who needs them last, and on which stage.

use super::*;
use crate::derive::derive;
use crate::testing::staged_with;

/// A loop that adds the second value that it carries to the first.
const LOOP: &str = "body { p = (s32[], f32[8], f32[8]) parameter(0)
    i = s32[] get-tuple-element(p), index=0
    a = f32[8] get-tuple-element(p), index=1
    b = f32[8] get-tuple-element(p), index=2
    n = f32[8] add(a, b)
    o = s32[] constant(1)
    j = s32[] add(i, o)
    ROOT r = (s32[], f32[8], f32[8]) tuple(j, n, b) }
    cond { q = (s32[], f32[8], f32[8]) parameter(0)
    k = s32[] get-tuple-element(q), index=0
    m = s32[] constant(3)
    ROOT l = pred[] compare(k, m), direction=LT }";

/// Names and barriers around a loop; stage 1 reads what stage 0 has made.
const LINES: [(&str, &str, usize); 16] = [
    ("x = f32[2,4] parameter(0)", "fwd", 0),
    ("w = f32[8] parameter(1)", "fwd", 0),
    ("r = f32[8] reshape(x)", "fwd", 0),
    ("t = (f32[8], f32[8]) tuple(w, r)", "fwd", 0),
    ("b = (f32[8], f32[8]) opt-barrier(t)", "fwd", 0),
    ("g = f32[8] get-tuple-element(b), index=1", "fwd", 0),
    ("k = token[] after-all()", "fwd", 0),
    ("d = f32[8] add-dependency(g, k)", "fwd", 0),
    ("z = s32[] constant(0)", "fwd", 0),
    ("s = (s32[], f32[8], f32[8]) tuple(z, w, d)", "fwd", 0),
    ("l = (s32[], f32[8], f32[8]) while(s), condition=cond, body=body", "fwd", 0),
    ("c = f32[8] get-tuple-element(l), index=2", "fwd", 0),
    ("e = f32[8] get-tuple-element(l), index=1", "fwd", 0),
    ("n = f32[8] negate(c)", "fwd", 0),
    ("h = f32[8] tanh(n)", "fwd", 0),
    ("ROOT o = f32[8] multiply(h, e)", "fwd", 1),
];

fn with_live<T>(then: impl Fn(&Module, &Live, &[InstrFacts]) -> T) -> T {
    let module = staged_with(LOOP, "", "0:;1:", "{}", &LINES);
    let facts = derive(&module).expect("a legal header");
    let own = &facts.comps[module.entry.index()];
    then(&module, &live(&module, module.entry, own), own)
}

/// `x`, or `t.1` for a leaf of several.
fn name(module: &Module, live: &Live, value: usize) -> String {
    let (maker, values) = (live.maker(value), live.values(live.maker(value)));
    let leaf = if values.len() > 1 { format!(".{}", value - values.start) } else { String::new() };
    format!("{}{leaf}", module.entry().instr(maker).name)
}

#[test]
fn a_value_is_of_the_instruction_that_has_its_number() {
    with_live(|module, live, _| {
        for (id, instr) in module.entry().iter() {
            assert_eq!(live.values(id).len(), instr.shape.n_leaves());
            assert!(live.values(id).all(|value| live.maker(value) == id));
        }
        assert_eq!(live.values(module.entry().root).end, live.ends.len());
    });
}

#[test]
fn names_views_and_what_loops_pass_on_are_their_operands_buffers() {
    let found = with_live(|module, live, _| {
        let all = (0..live.ends.len()).filter(|&value| live.buffer(value) != value);
        let pair =
            |value| format!("{}={}", name(module, live, value), name(module, live, live.buffer(value)));
        all.map(pair).collect::<Vec<_>>().join(" ")
    });
    assert_eq!(found, "r=x t.0=w t.1=x b.0=w b.1=x g=x d=x s.0=z s.1=w s.2=x l.2=x c=x e=l.1");
}

#[test]
fn a_value_lives_to_the_last_reader_of_its_names() {
    let found = with_live(|module, live, _| {
        let last = |value: usize| {
            let end = module.entry().iter().nth(live.ends[value]);
            format!("{}:{}", name(module, live, value), end.map_or("end", |(_, instr)| &*instr.name))
        };
        (0..live.ends.len()).map(last).collect::<Vec<_>>().join(" ")
    });
    // `n` stays in registers: who reads `h` reads `c`. An element keeps no other part of its tuple.
    let wanted = "x:h w:l r:h t.0:b t.1:h b.0:b b.1:h g:h k:d d:h z:l s.0:l s.1:l s.2:h \
                  l.0:l l.1:o l.2:h c:h e:o n:h h:o o:end";
    assert_eq!(found, wanted);
}

#[test]
fn what_an_instruction_reads_it_reads_by_all_its_names() {
    let read_by = |reader: &str| {
        with_live(|module, live, facts| {
            let is_reader: Vec<bool> = module.entry().instrs.iter().map(|it| &*it.name == reader).collect();
            let found = live.read_by(module, module.entry, facts, &is_reader);
            let all = (0..found.len()).filter(|&value| found[value]);
            all.map(|value| name(module, live, value)).collect::<Vec<_>>().join(" ")
        })
    };
    assert_eq!(read_by("n"), "x r t.1 b.1 g d s.2 l.2 c");
    assert_eq!(read_by("h"), "x r t.1 b.1 g d s.2 l.2 c n");
    // On another stage.
    assert_eq!(read_by("o"), "");
}

#[test]
fn each_part_of_what_a_loop_of_another_stage_starts_from_arrives_once() {
    let lines = [
        ("x = f32[8] parameter(0)", "fwd", 0),
        ("v = f32[8] negate(x)", "fwd", 0),
        ("w = f32[8] tanh(v)", "fwd", 0),
        ("z = s32[] constant(0)", "fwd", 0),
        ("s = (s32[], f32[8], f32[8]) tuple(z, v, w)", "fwd", 0),
        ("l = (s32[], f32[8], f32[8]) while(s), condition=cond, body=body", "fwd", 1),
        ("e = f32[8] get-tuple-element(l), index=1", "fwd", 1),
        ("ROOT o = f32[8] multiply(v, e)", "fwd", 1),
    ];
    let module = staged_with(LOOP, "", "0:;1:", "{}", &lines);
    let facts = derive(&module).expect("a legal header");
    let live = live(&module, module.entry, &facts.comps[module.entry.index()]);
    let comp = module.entry();
    let arrival = |it: &Arrival| {
        let names = (&*comp.instr(it.maker).name, &*comp.instrs[it.last].name);
        format!("{}.{} {} to {} of {}", names.0, it.leaf, it.bytes, names.1, it.stage)
    };
    let found: Vec<String> = live.arrivals.iter().map(arrival).collect();
    // Under whatever name: `v` once.
    assert_eq!(found, ["v.0 32 to o of 1", "w.0 32 to l of 1"]);
}

/// A stage of a hundred layers shares one array of zeros with all others.
#[test]
fn what_each_stage_makes_of_constants_in_registers_does_not_arrive() {
    let lines = [
        ("x = f32[8] parameter(0)", "fwd", 0),
        ("z = f32[] constant(0)", "fwd", 0),
        ("b = f32[8] broadcast(z), dimensions={}", "fwd", 0),
        ("v = f32[8] maximum(x, b)", "fwd", 0),
        ("ROOT w = f32[8] maximum(v, b)", "fwd", 1),
    ];
    let module = staged_with("", "", "0:;1:", "{}", &lines);
    let facts = derive(&module).expect("a legal header");
    let live = live(&module, module.entry, &facts.comps[module.entry.index()]);
    let names: Vec<&str> = live.arrivals.iter().map(|it| &*module.entry().instr(it.maker).name).collect();
    assert_eq!(names, ["v"]);
}

/// Whether a loop passes on each of the values that it carries, whose body ends with these lines.
fn passes_on(lines: &str) -> Vec<bool> {
    let text = format!(
        "HloModule m
        body {{ p = (f32[8], f32[8]) parameter(0)
        a = f32[8] get-tuple-element(p), index=0
        b = f32[8] get-tuple-element(p), index=1
        {lines} }}
        cond {{ q = (f32[8], f32[8]) parameter(0) ROOT k = pred[] constant(false) }}
        ENTRY e {{ s = (f32[8], f32[8]) parameter(0)
        ROOT l = (f32[8], f32[8]) while(s), condition=cond, body=body }}"
    );
    let module = phzc_ir::parse(&text).expect("legal");
    (0..3).map(|leaf| is_passed_on(&module, module.entry().root(), leaf)).collect()
}

#[test]
fn a_loop_passes_on_what_its_body_returns_in_its_own_place_as_it_got_it() {
    let root = |parts: &str| format!("ROOT r = (f32[8], f32[8]) tuple({parts})");
    assert_eq!(passes_on(&root("a, b")), [true, true, false]);
    assert_eq!(passes_on(&root("b, a")), [false; 3]);
    assert_eq!(passes_on(&format!("n = f32[8] negate(a) {}", root("n, b"))), [false, true, false]);
    // Of another tuple, and through a barrier.
    let again = "t = (f32[8], f32[8]) tuple(b, a) c = f32[8] get-tuple-element(t), index=0";
    assert_eq!(passes_on(&format!("{again} {}", root("c, b"))), [false, true, false]);
    assert_eq!(passes_on("ROOT r = (f32[8], f32[8]) opt-barrier(p)"), [false; 3]);
}
