//! Tests of how diagnostics look.

use super::*;
use insta::assert_snapshot;

fn draw(text: &str, found: Diagnostic) -> String {
    let source = Source { name: "a.ir".to_owned(), text: text.to_owned() };
    render(Some(&source), &[found], false)
}

#[test]
fn shows_the_line_with_a_caret_notes_and_help() {
    let error =
        Diagnostic::error("`y` is not `x`").at(Span::new(6, 7)).note(Some(Span::new(0, 1)), "defined here");
    let error = error.note(None, "in pass `p`").help("say `x`");
    assert_snapshot!(draw("x = 1\ny = 2\n", error), @r"
    error: `y` is not `x`
     --> a.ir:2:1
      |
    1 | x = 1
      | - defined here
    2 | y = 2
      | ^
      |
      = note: in pass `p`
      = help: say `x`
    ");
}

#[test]
fn shows_the_end_of_a_file() {
    assert_snapshot!(draw("x = 1\n", Diagnostic::error("too short").at(Span::new(6, 6))), @r"
    error: too short
     --> a.ir:1:7
      |
    1 | x = 1
      |      ^
    ");
    assert_snapshot!(draw("x =", Diagnostic::error("too short").at(Span::new(3, 3))), @r"
    error: too short
     --> a.ir:1:4
      |
    1 | x =
      |    ^
    ");
}

#[test]
fn clips_long_lines_around_the_span() {
    let line = format!("{}BAD{}", "é,".repeat(1_000_000), "x,".repeat(1_000_000));
    let at = line.find("BAD").expect("it is there");
    assert_snapshot!(draw(&line, Diagnostic::error("bad").at(Span::new(at, at + 3))), @r"
    error: bad
     --> a.ir:1:2000001
      |
    1 | ...é,é,é,é,é,é,é,é,é,é,é,é,é,é,é,é,é,é,é,é,é,é,é,é,BADx,x,x,x,x,x,x,x,x,x,x,x,x,x,x,x,x,x,x,x,x,x,x,x,x...
      |                                                    ^^^
    ");
}

#[test]
fn marks_the_beginning_of_a_long_span_only() {
    let line = "x,".repeat(100_000);
    let shown = draw(&line, Diagnostic::error("bad").at(Span::new(6, line.len())));
    assert!(shown.len() < 500, "{} bytes", shown.len());
    assert!(shown.contains(&"^".repeat(MAX_MARK)) && !shown.contains(&"^".repeat(MAX_MARK + 1)), "{shown}");
}

#[test]
fn spans_that_make_no_sense_do_no_harm() {
    for (start, end) in [(0, 0), (1, 2), (9, 3), (2, 99), (99, 100)] {
        draw("é\n\u{1b}[31m\t", Diagnostic::warning("odd").at(Span::new(start, end)));
        draw("", Diagnostic::warning("odd").at(Span::new(start, end)));
    }
}

#[test]
fn counts_what_it_does_not_show() {
    let many = vec![Diagnostic::error("same"); MAX_SHOWN + 3];
    assert!(render(None, &many, false).ends_with("error: same\n\nand 3 more\n\n"));
}
