//! Cases of `phzc verify`.

use super::cases::{Case, command, text};

/// `phzc verify` of a good program called `input`.
pub fn bad() -> Vec<Case> {
    let verify = |name, code, says, args: &[&'static str]| Case {
        args: [&["verify"], args].concat(),
        ..command(name, code, says, &[])
    };
    let noise = Case { args: vec!["verify", "input", "input"], ..text("verify noise", "expected", "noise") };
    vec![
        noise,
        verify("verify nothing", 2, "required arguments", &[]),
        verify("verify without a plan", 2, "<PLAN>", &["input"]),
        verify("verify three", 2, "unexpected argument", &["input", "input", "input"]),
        verify("verify a missing program", 1, "cannot read `no.ir`", &["no.ir", "input"]),
        verify("verify a missing plan", 1, "cannot read `no.ir`", &["input", "no.ir"]),
        verify("verify a directory", 1, "it is a directory", &["input", "."]),
        verify("verify standard input twice", 2, "cannot both be standard input", &["-", "-"]),
        verify("verify within NaN", 2, "a number from 0 up", &["input", "input", "--tolerance", "nan"]),
        verify("verify within less than 0", 2, "a number from 0 up", &["input", "input", "--tolerance=-1"]),
        verify("verify with a seed that is none", 2, "invalid value", &["input", "input", "--seed", "x"]),
    ]
}
