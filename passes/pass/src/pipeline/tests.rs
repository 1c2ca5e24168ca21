//! Tests of pipelines as text, on a pass of their own: the registry's passes come and go.

use super::*;
use insta::assert_snapshot;

static SAMPLE: Pass = Pass {
    name: "sample",
    summary: "for tests",
    options: &[
        OptionInfo { name: "n", kind: OptionKind::Int { min: 1, max: 8 }, default: "2", help: "" },
        OptionInfo { name: "exact", kind: OptionKind::Flag, default: "false", help: "" },
        OptionInfo { name: "goal", kind: OptionKind::Choice(&["time", "price"]), default: "time", help: "" },
        OptionInfo { name: "mesh", kind: OptionKind::Text("a mesh such as `x=2`"), default: "", help: "" },
    ],
    run: |_, _, _| Ok(Changed::No),
};

static WORDY: Pass = Pass {
    name: "wordy",
    summary: "for tests",
    options: &[OptionInfo {
        name: "word",
        kind: OptionKind::Checked("letters", letters),
        default: "",
        help: "",
    }],
    run: |_, _, _| Ok(Changed::No),
};

/// The first character that is no letter is wrong.
fn letters(text: &str) -> phzc_ir::Result<()> {
    match text.find(|it: char| !it.is_ascii_alphabetic()) {
        Some(at) => Err(Diagnostic::error("no letter").at(Span::new(at, at + 1))),
        None => Ok(()),
    }
}

static REGISTRY: Registry = Registry { passes: &[&DCE], aliases: &[] };

static DCE: Pass = Pass { name: "dce", summary: "for tests", options: &[], run: |_, _, _| Ok(Changed::No) };

/// The options in braces, printed back; or the errors, one per line, with the place of each.
fn check(text: &str) -> String {
    let raw = match syntax::parse(&format!("sample{{{text}}}")) {
        Ok(raw) => raw,
        Err(error) => return error.to_string(),
    };
    let (mut step, mut errors) = (Step::new(&SAMPLE), Vec::new());
    for (index, option) in raw[0].options.iter().enumerate() {
        let is_repeated = raw[0].options[..index].iter().any(|earlier| earlier.key == option.key);
        errors.extend(set(&mut step, option, is_repeated).err().map(|error| error.to_string()));
    }
    if errors.is_empty() { step.to_string() } else { errors.join("\n") }
}

#[test]
fn prints_only_what_is_not_the_default() {
    assert_snapshot!(check("n=2, exact=true , goal=price"), @"sample{exact=true,goal=price}");
    assert_snapshot!(check("n=+3,exact=false"), @"sample{n=3}");
    assert_snapshot!(check(""), @"sample");
}

#[test]
fn values_may_hold_equals_signs_commas_braces_and_quotes() {
    assert_snapshot!(check("mesh=x=2"), @"sample{mesh=x=2}");
    assert_snapshot!(check("mesh={x=2,y=4},n=3"), @"sample{n=3,mesh={x=2,y=4}}");
    assert_snapshot!(check(r#"mesh="x=2,y=4""#), @"sample{mesh={x=2,y=4}}");
    assert_snapshot!(check(r#"mesh="a\"}b\\""#), @r#"sample{mesh="a\"}b\\"}"#);
    assert_snapshot!(check("mesh={{a},{b}}"), @"sample{mesh={{a},{b}}}");
}

#[test]
fn what_is_printed_reads_back_as_the_same() {
    for value in ["", "x", "x=2", "a,b", "}{", "{", "\"", "\\", "\\\"}", " ", "é,ü", "{a}b"] {
        let text = format!("mesh={}", syntax::quoted(value));
        let printed = check(&text);
        let inside = printed.trim_start_matches("sample").strip_prefix('{').and_then(|s| s.strip_suffix('}'));
        assert_eq!(check(inside.unwrap_or("")), printed, "{value:?}");
    }
}

#[test]
fn every_wrong_option_is_reported() {
    assert_snapshot!(check("n=9,exat=true,goal=fast,n=1,zzzzzz=1"), @r"
    option `n` of `sample` needs an integer from 1 to 8, got `9`
    unknown option `exat` of `sample`; did you mean `exact`? known: n, exact, goal, mesh
    option `goal` of `sample` needs one of `time`, `price`, got `fast`
    option `n` of `sample` is given twice
    unknown option `zzzzzz` of `sample`; known: n, exact, goal, mesh
    ");
}

#[test]
fn syntax_errors_say_what_was_expected() {
    assert_snapshot!(check("n"), @"expected `=` after an option's name, found `}`");
    assert_snapshot!(check("=3"), @"expected an option such as `key=value`, found `=`");
    assert_snapshot!(check("n=1 mesh=2"), @"expected `,` or `}` after an option, found `m`");
    assert_snapshot!(check("mesh={a"), @"expected `,` or `}` after an option, found the end");
    assert_snapshot!(check("mesh=\"a"), @"this string is never closed");
}

#[test]
fn unknown_passes_are_all_reported_with_the_nearest_name() {
    let errors = REGISTRY.pipeline("dcee,dce,frobnicate{a=1}").expect_err("two are unknown");
    let places: Vec<_> = errors.iter().map(|error| error.span.map(|span| (span.start, span.end))).collect();
    assert_eq!(places, [Some((0, 4)), Some((9, 19))]);
    assert!(errors[0].to_string().contains("did you mean `dce`?"), "{}", errors[0]);
}

#[test]
fn a_pipeline_prints_back_as_the_same_text() {
    let text = "dce,dce";
    assert_eq!(REGISTRY.pipeline(text).expect("both exist").to_string(), text);
    assert!(REGISTRY.pipeline(" ").expect("nothing is a pipeline").steps.is_empty());
}

/// What is wrong with a pipeline, and the words that the errors point at.
fn pointed_at(text: &str) -> String {
    static ALL: Registry = Registry { passes: &[&DCE, &SAMPLE, &WORDY], aliases: &[] };
    let errors = ALL.pipeline(text).expect_err("it is wrong");
    let word = |error: &Diagnostic| {
        let span = error.span.expect("errors in a text have a place");
        format!("{}: {:?}", error.message, &text[span.start as usize..span.end as usize])
    };
    errors.iter().map(word).collect::<Vec<_>>().join("\n")
}

#[test]
fn an_error_inside_a_value_is_shown_where_it_is() {
    assert_eq!(pointed_at("dce,wordy{word=ab1c}"), r#"no letter: "1""#);
    assert_eq!(pointed_at("dce,wordy{word={ab1c}}"), r#"no letter: "1""#);
    // With escapes, the whole value.
    assert_eq!(pointed_at(r#"dce,wordy{word="a\\1"}"#), r#"no letter: "\"a\\\\1\"""#);
}

#[test]
fn options_may_differ_but_not_repeat() {
    assert_eq!(pointed_at("sample{n=2,exact=true,n=3}"), r#"option `n` of `sample` is given twice: "n""#);
}

#[test]
fn what_was_expected_instead_is_shown_as_one_character() {
    assert_eq!(pointed_at("dce é"), r#"expected `,` between two passes, found `é`: "é""#);
    assert_eq!(pointed_at("sample{n"), r#"expected `=` after an option's name, found the end: """#);
}

#[test]
fn an_option_reads_as_its_kind() {
    let mut step = Step::new(&SAMPLE);
    assert_eq!((step.options.int("n"), step.options.flag("exact")), (2, false));
    step.options.values.insert("n", "7".into());
    step.options.values.insert("exact", "true".into());
    assert_eq!((step.options.int("n"), step.options.flag("exact")), (7, true));
}
