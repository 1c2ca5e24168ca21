//! What a fused attention reads, writes and keeps.

use super::*;

const WHOLE: &str = "sharding={replicated}";
const DOT: &str = "lhs_batch_dims={0}, rhs_batch_dims={0}";

/// Kernel, bytes between memory and cores, `+` for memory of its own, and what is copied out of the kernel,
/// of each instruction of a plan on two devices: text, phase and note.
fn kernels(lines: &[(String, &str, &str)]) -> Vec<String> {
    let line = |(text, phase, note): &(String, &str, &str)| {
        let whole = if text.contains("sharding=") { String::new() } else { format!(", {WHOLE}") };
        format!("  {text}{whole}, frontend_attributes={{phzc.phase=\"{phase}\"{note}}}\n")
    };
    let lines: String = lines.iter().map(line).collect();
    let sum = "sum { a = f32[] parameter(0) b = f32[] parameter(1) ROOT c = f32[] add(a, b) }";
    let header = "HloModule m, frontend_attributes={phzc.mesh=\"x=2\"}";
    let module =
        parse(&format!("{header}\n{sum}\nENTRY e {{\n{lines}}}")).unwrap_or_else(|error| panic!("{error}"));
    let facts = derive(&module).expect("a legal header");
    let own = module.entry().instrs.iter().zip(&facts.comps[module.entry.index()]);
    let line = |(instr, own): (&phzc_ir::Instr, &InstrFacts)| {
        let kernel = match own.kernel {
            Kernel::Attention(Some(_)) => "product".to_owned(),
            Kernel::Attention(None) => "within".to_owned(),
            other => format!("{other:?}").to_lowercase(),
        };
        let memory = if own.is_allocated { "+" } else { "" };
        let spilled = own.spilled_bytes.map_or(String::new(), |bytes| format!(", copies {bytes:?}"));
        format!("{}{memory} {kernel} {}{spilled}", instr.name, own.work.bytes)
    };
    own.map(line).collect()
}

/// Scores of 2 heads, 4 queries and 8 keys, their softmax, with something between, and the output. Bytes of
/// queries: 64, of keys and values: 128, of scores: 256.
fn attention(
    between: &[(String, &'static str, &'static str)],
    scores: &str,
) -> Vec<(String, &'static str, &'static str)> {
    let part = ",phzc.attention=\"0\"";
    let mut lines = vec![
        ("q = f32[2,4,2] parameter(0)".to_owned(), "fwd", ""),
        ("k = f32[2,8,2] parameter(1)".to_owned(), "fwd", ""),
        ("mask = f32[4,8] parameter(2)".to_owned(), "fwd", ""),
        ("zero = f32[] constant(0)".to_owned(), "fwd", ""),
        (
            format!(
                "s = f32[2,4,8] dot(q, k), {DOT}, lhs_contracting_dims={{2}}, rhs_contracting_dims={{2}}"
            ),
            "fwd",
            ",phzc.attention=\"0:qkd\"",
        ),
    ];
    lines.extend(between.iter().cloned());
    lines.extend([
        ("wide = f32[2,4,8] broadcast(mask), dimensions={1,2}".to_owned(), "fwd", ""),
        (format!("t = f32[2,4,8] add({scores}, wide)"), "fwd", part),
        ("e = f32[2,4,8] exponential(t)".to_owned(), "fwd", part),
        ("z = f32[2,4] reduce(e, zero), dimensions={2}, to_apply=sum".to_owned(), "fwd", part),
        ("zb = f32[2,4,8] broadcast(z), dimensions={0,1}".to_owned(), "fwd", part),
        ("p = f32[2,4,8] divide(e, zb)".to_owned(), "fwd", part),
        (
            format!(
                "o = f32[2,4,2] dot(p, k), {DOT}, lhs_contracting_dims={{2}}, rhs_contracting_dims={{1}}"
            ),
            "fwd",
            ",phzc.attention=\"0:qdk\"",
        ),
    ]);
    lines
}

fn with_root(
    mut lines: Vec<(String, &'static str, &'static str)>,
    root: &str,
    phase: &'static str,
) -> Vec<String> {
    lines.push((format!("ROOT {root}"), phase, ""));
    kernels(&lines)
}

#[test]
fn scores_and_probabilities_have_no_memory_and_masks_are_read() {
    let found = with_root(attention(&[], "s"), "r = f32[2,4,2] negate(o)", "fwd");
    let wanted = [
        "q+ nothing 0",
        "k+ nothing 0",
        "mask+ nothing 0",
        "zero nothing 0",
        "s product 192",
        "wide nothing 0",
        "t within 0",
        "e within 0",
        "z within 0",
        "zb within 0",
        "p within 0",
        "o+ product 192",
        "r+ vector 128",
    ];
    assert_eq!(found, wanted);
}

#[test]
fn what_the_backward_part_reads_is_written() {
    let root = "r = (f32[2,4], f32[2,4,2]) tuple(zn, o)";
    let mut lines = attention(&[], "s");
    lines.push(("zn = f32[2,4] negate(z)".to_owned(), "bwd", ",phzc.attention=\"0\""));
    let found = with_root(lines, root, "bwd");
    assert!(found.contains(&"z+ within 32".to_owned()), "{found:?}");
    assert!(found.contains(&"zn+ within 64".to_owned()), "{found:?}");
}

#[test]
fn what_is_moved_inside_is_copied_out_and_what_is_sliced_inside_is_not() {
    let moved = |note: &str, sharding: &str| {
        let text = format!("m = f32[2,4,8] custom-call(s), custom_call_target=\"Sharding\", {sharding}");
        (text, "fwd", if note == "all-gather" { ",phzc.move=\"all-gather\"" } else { ",phzc.move=\"slice\"" })
    };
    let rows = "sharding={devices=[1,2,1]<=[2]}";
    let mut lines = attention(&[moved("all-gather", WHOLE)], "m");
    let scores = lines.iter_mut().find(|line| line.0.starts_with("s = ")).expect("it is there");
    scores.0 += &format!(", {rows}");
    let found = with_root(lines, "r = f32[2,4,2] negate(o)", "fwd");
    assert!(found.contains(&"m+ nothing 0, copies [128.0, 256.0]".to_owned()), "{found:?}");
    let found = with_root(attention(&[moved("slice", rows)], "m"), "r = f32[2,4,2] negate(o)", "fwd");
    assert!(found.contains(&"m nothing 0".to_owned()), "{found:?}");
    assert!(found.contains(&"s product 192".to_owned()), "{found:?}");
}

#[test]
fn a_note_that_cannot_be_read_is_a_problem() {
    let text = "ENTRY e { ROOT x = f32[2] parameter(0), frontend_attributes={phzc.attention=\"0:abc\"} }";
    assert_eq!(
        facts("frontend_attributes={phzc.passes=\"fuse\"}", text),
        "`x` is in attention `0:abc`: say `3`, or `3:qkd` of a product"
    );
}
