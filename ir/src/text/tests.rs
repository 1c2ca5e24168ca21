//! Programs that are printed as they were read, and what is said of others.

use crate::text::{print_instr, print_instr_long};
use crate::{parse, print};

/// Asserts that the root of these instructions is printed as it is written.
#[track_caller]
fn same(params: &str, root: &str) {
    let text = format!(
        "HloModule m\nf {{ a = f32[] parameter(0) b = f32[] parameter(1) ROOT c = f32[] add(a, b) }}\nENTRY e {{ {params} ROOT r = {root} }}"
    );
    let printed = print(&parse(&text).unwrap_or_else(|error| panic!("{error}")));
    assert!(printed.contains(&format!("  ROOT r = {root}\n")), "{root}\n{printed}");
}

/// What is said of a root, and where.
fn error(root: &str) -> String {
    let text = format!("e {{ x = f32[8] parameter(0) ROOT r = {root} }}");
    let error = parse(&text).expect_err("an error");
    let place = error.span.map_or("", |span| &text[span.start as usize..span.end as usize]);
    format!("{} @ {place}", error.message)
}

#[test]
fn windows_paddings_and_slices() {
    let (x, z) = ("x = f32[8,8] parameter(0)", "x = f32[8,8] parameter(0) z = f32[] constant(0)");
    same(x, "f32[4,3] slice(x), slice={[0:8:2], [1:4:1]}");
    same(x, "f32[4,3] slice(x), slice={[4:8], [1:4]}");
    same(z, "f32[25,9] pad(x, z), padding=1_2_2x0_1");
    let window = "window={size=2x1 stride=2x1 pad=1_0x0_0 lhs_dilate=2x1 rhs_dilate=3x1 rhs_reversal=1x0}";
    same(z, &format!("f32[7,8] reduce-window(x, z), {window}, to_apply=f"));
    let convolution = "x = f32[1,8,2] parameter(0) k = f32[3,2,4] parameter(1)";
    same(convolution, "f32[1,6,4] convolution(x, k), window={size=3}, dim_labels=b0f_0io->b0f");
}

#[test]
fn notes_groups_and_shardings() {
    let x = "x = f32[8] parameter(0)";
    same(x, "f32[8] negate(x), frontend_attributes={a=\"1, {\",b={c=\"d\"}}");
    for groups in [
        "{{0,1},{2,3}}",
        "[2,2]<=[4]",
        "[2,2]<=[2,2]T(1,0)",
        "{}",
        "mesh['x'=2,'y'=2], device_ids=([4]) {'x'}",
    ] {
        same(x, &format!("f32[8] all-reduce(x), replica_groups={groups}, to_apply=f"));
    }
    for sharding in [
        "{replicated}",
        "{maximal device=3}",
        "{manual}",
        "{devices=[2]<=[2]}",
        "{devices=[2]0,1}",
        "{devices=[2,2]<=[2,2]T(1,0) last_tile_dim_replicate}",
        "{devices=[2,1,2]<=[4] last_tile_dims={manual, replicated}}",
        "{devices=[2]<=[2] shard_as 1}",
    ] {
        same(x, &format!("f32[8] negate(x), sharding={sharding}"));
    }
}

#[test]
fn headers_tables_and_threads() {
    let text = "HloModule m, a={b=1}, c=d

FileNames
1 \"a.py\"

FunctionNames
1 \"f\"

f {
  ROOT x = f32[] parameter(0)
}, execution_thread=\"side\"

ENTRY e {
  x = f32[] parameter(0)
  ROOT y = f32[] call(x), to_apply=f
}
";
    assert_eq!(print(&parse(text).expect("legal")), text);
    let unnamed = parse("ENTRY e { ROOT x = f32[] parameter(0) }").expect("legal");
    assert_eq!(&*unnamed.name, "module_e");
}

#[test]
fn a_body_in_place_is_a_computation_with_a_name() {
    let text = "inline.1 { ROOT x = f32[] parameter(0) } ENTRY e { x = f32[8] parameter(0) z = f32[] constant(0)
        ROOT y = f32[] reduce(x, z), dimensions={0}, to_apply={ a = f32[] parameter(0) b = f32[] parameter(1) ROOT c = f32[] add(a, b) } }";
    let module = parse(text).expect("legal");
    let names: Vec<&str> = module.comps.iter().map(|comp| &*comp.name).collect();
    assert_eq!(names, ["inline.1", "inline.2", "e"]);
    assert_eq!(module.entry().root().comp(crate::Key::ToApply).map(|comp| comp.index()), Some(1));
}

#[test]
fn one_instruction_alone_in_both_forms() {
    let module = parse("e { x = f32[8]{0} parameter(0) ROOT y = f32[8]{0} add(x, x) }").expect("legal");
    let comp = module.entry();
    assert_eq!(print_instr(&module, comp, comp.root()), "y = f32[8]{0} add(x, x)");
    assert_eq!(
        print_instr_long(&module, comp, comp.root()),
        "%y = f32[8]{0} add(f32[8]{0} %x, f32[8]{0} %x)"
    );
}

#[test]
fn remarks_stand_behind_their_instructions() {
    let module = parse("e { x = f32[8] parameter(0) ROOT y = f32[8] negate(x) }").expect("legal");
    let text = crate::print_with(&module, &|_, id| (id == module.entry().root).then(|| "the end".to_owned()));
    assert!(
        text.ends_with("  x = f32[8] parameter(0)\n  ROOT y = f32[8] negate(x) // the end\n}\n"),
        "{text}"
    );
}

#[test]
fn what_is_no_program_is_said() {
    assert_eq!(error("f32[8] negate(y)"), "`y` is not defined before its use @ y");
    assert_eq!(error("f32[] call(x), to_apply=g"), "computation `g` is not defined before its use @ g");
    assert_eq!(
        error("f32[8] negate(x), sharding={devices=[2,4]<=[2,4]}"),
        "a device list of several dimensions needs its transposition @ [2,4]"
    );
    assert_eq!(
        error("f32[8] negate(x), sharding={devices=[8]<=[2,4]T(0,0)}"),
        "`T(…)` must name each dimension of rank 2 once @ [2,4]T(0,0)"
    );
    assert_eq!(error("f32[8] negate(x), sharding={maximal 3}"), "expected `device=n`, found `3` @ 3");
    let labels = |labels: &str| error(&format!("f32[8] convolution(x, x), dim_labels={labels}"));
    for wrong in ["b0f_0io", "b0f_0io->bf", "b0f_01io->b0f", "bbf_0io->b0f", "b1f_0io->b0f"] {
        assert!(labels(wrong).contains("labels such as `b01f_01io->b01f`"), "{wrong}: {}", labels(wrong));
    }
    let two = parse("ENTRY a { ROOT x = f32[] parameter(0) } ENTRY b { ROOT x = f32[] parameter(0) }");
    assert_eq!(two.expect_err("two").message, "a module has one `ENTRY` computation");
}

#[test]
fn signatures_and_operands_in_the_long_form_are_read() {
    let text = "ENTRY %e (x: f32[8], y: (s8[], pred[])) -> f32[8] { %x = f32[8]{0} parameter(0) %y = (s8[], pred[]) parameter(1)
        ROOT %r = f32[8]{0} add(f32[8]{0} %x, /*index=1*/f32[8]{0} %x) }";
    let module = parse(text).expect("legal");
    assert_eq!(print_instr(&module, module.entry(), module.entry().root()), "r = f32[8]{0} add(x, x)");
    assert!(parse("ENTRY e (x: f33[8]) -> f32[8] { ROOT x = f32[8] parameter(0) }").is_err());
}

/// The entry's lines as they are printed, or what is said.
fn lines(body: &str) -> Vec<String> {
    match parse(&format!("ENTRY e {{\n{body}\n}}")) {
        Ok(module) => {
            let text = print(&module);
            let body = text.lines().skip_while(|line| !line.starts_with("ENTRY")).skip(1);
            body.take_while(|line| *line != "}").map(|line| line.trim().to_owned()).collect()
        }
        Err(error) => vec![error.message],
    }
}

#[test]
fn operands_may_be_written_in_place() {
    assert_eq!(
        lines("ROOT r = f32[4] add(f32[4] abs(f32[4] parameter(1)), f32[4] parameter(0))"),
        [
            "parameter.anon = f32[4] parameter(1)",
            "abs.anon = f32[4] abs(parameter.anon)",
            "parameter.anon.1 = f32[4] parameter(0)",
            "ROOT r = f32[4] add(abs.anon, parameter.anon.1)"
        ]
    );
    assert_eq!(
        lines("abs.anon = f32[4] parameter(0) ROOT r = f32[4] negate(abs(abs.anon))"),
        [
            "abs.anon = f32[4] parameter(0)",
            "abs.anon.1 = f32[4] abs(abs.anon)",
            "ROOT r = f32[4] negate(abs.anon.1)"
        ]
    );
    assert_eq!(lines("ROOT r = f32[4] negate(parameter(0))"), ["`parameter` needs its result shape written"]);
    let deep = format!("ROOT r = f32[] negate({}f32[] parameter(0){})", "abs(".repeat(80), ")".repeat(80));
    assert_eq!(lines(&deep), ["operands may nest 64 deep"]);
}

#[test]
fn commas_and_blanks_are_read_as_xla_reads_them() {
    let sum = ["p = f32[4] parameter(0)", "ROOT r = f32[4] add(p, p)"];
    for list in ["p, p,", ",p,, p", " p , p "] {
        assert_eq!(lines(&format!("p = f32[4] parameter(0) ROOT r = f32[4] add({list})")), sum, "{list}");
    }
    assert_eq!(lines("p = f32[4] parameter(0) ROOT r = f32[4] add(p p)"), ["expected `,` or `)`, found `p`"]);
    let param = ["ROOT p = f32[2,3]{0,1} parameter(0)"];
    for shape in ["f32 [ 2 , 3 ] { 0 , 1 }", "f32[2,3] {0,1}", "f32[2,3]{ 0, 1 }"] {
        assert_eq!(lines(&format!("ROOT p = {shape} parameter(0)")), param, "{shape}");
    }
    assert_eq!(lines("ROOT p = f32[<= 2] parameter(0)"), ["ROOT p = f32[<=2] parameter(0)"]);
}
