//! What a person meant otherwise: words that are no programs, files that are none of the kind, places where
//! nothing can be written.

use super::cases::{Case, command, text};

/// A command line that names no good program.
fn other(name: &'static str, says: &'static str, args: &[&'static str]) -> Case {
    let good = "ENTRY e { x = f32[2] parameter(0) ROOT y = f32[2] negate(x) }";
    Case { args: args.to_vec(), ..text(name, says, good) }
}

pub fn bad() -> Vec<Case> {
    vec![
        command(
            "plan file in no directory",
            1,
            "cannot write `no/x.json`",
            &["--passes", "dce", "--plan", "no/x.json"],
        ),
        command(
            "output in no directory",
            1,
            "cannot write `no/where/x.ir`",
            &["--passes", "dce", "-o", "no/where/x.ir"],
        ),
        other("generated into no directory", "make `no` first", &["gen", "mlp", "-o", "no/x.ir"]),
        other("converted into no directory", "make `no` first", &["convert", "input", "-o", "no/x.ir"]),
        other("evaluated into no directory", "make `no` first", &["eval", "input", "-o", "no/x.npz"]),
        other("a full device", "no space is left on the device", &["convert", "input", "-o", "/dev/full"]),
        command("a gap below none", 2, "expected percent from 0 to 100, found `-5`", &["--gap", "-5"]),
        command("output is a directory", 1, "it is a directory", &["--passes", "dce", "-o", "."]),
        command(
            "dumps into a file",
            1,
            "cannot create the directory `input`",
            &["--passes", "dce", "--dump-dir", "input"],
        ),
        command("figures over the program", 2, "would write over", &["-o", "a.ir", "--plan", "a.ir"]),
        command("figures to a stream", 2, "would write over", &["--plan", "-"]),
        other("a pass as a subcommand", "`phzc MODEL --passes estimate`", &["estimate"]),
        other("a misspelt subcommand", "did you mean `phzc verify`?", &["verfy"]),
        other("no subcommand", "`phzc MODEL` plans a program", &["plann"]),
        other("what no subcommand is like", "subcommands: arch, calibrate", &["xyzzy"]),
        other("hardware", "`phzc MODEL --cluster h100-8x2` plans for two nodes of 8", &["h100x8"]),
        other("Python", "`t.py` is Python, no lowered program", &["t.py"]),
        other("figures as a plan", "`phzc MODEL -o plan.ir` writes", &["verify", "input", "plan.json"]),
        command("letters for numbers of nodes", 1, "as in `f.toml[2,1]`", &["--cluster", "f.toml[a,b]"]),
        command("counts without a dash", 1, "did you mean `h100-8x4`?", &["--cluster", "h100x8x4"]),
    ]
}
