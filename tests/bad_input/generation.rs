//! Cases of `phzc gen`.

use super::cases::{Case, command};

/// `phzc gen` of what cannot be.
pub fn bad() -> Vec<Case> {
    let generate = |name, code, says, args: &[&'static str]| Case {
        args: [&["gen"], args, &["-o", "out.ir"]].concat(),
        ..command(name, code, says, &[])
    };
    vec![
        Case { args: vec!["gen"], ..command("gen nothing", 2, "requires a subcommand", &[]) },
        generate("gen an unknown family", 2, "unrecognized subcommand 'gtp'", &["gtp"]),
        generate("gen an unknown size", 2, "invalid value 'huge'", &["gpt", "--size", "huge"]),
        generate("gen no layers", 2, "0 is not in 1..", &["gpt", "--layers", "0"]),
        generate("gen layers without end", 2, "is not in 1..=16384", &["gpt", "--layers", "1000000"]),
        generate("gen half a head", 1, "multiple of `--heads`", &["gpt", "--hidden", "100", "--heads", "3"]),
        generate("gen an odd pair", 1, "even `--hidden` / `--heads`", &["llama", "--hidden", "60"]),
        generate("gen shared heads", 1, "multiple of `--kv-heads`", &["llama", "--kv-heads", "3"]),
        generate("gen half a patch", 1, "multiple of `--patch`", &["vit", "--patch", "7"]),
        generate("gen an odd layer", 1, "`--layers` has to be even", &["gshard", "--layers", "3"]),
        generate("gen too few experts", 1, "more than 4 `--experts`", &["mixtral", "--top-k", "5"]),
        generate("gen half a microbatch", 2, "multiple of `--microbatch`", &["mlp", "--microbatch", "3"]),
        generate("gen all dropped", 2, "from 0 to below 1", &["gpt", "--dropout", "1"]),
        generate("gen a loop of unequal layers", 2, "unexpected argument '--scan'", &["resnet", "--scan"]),
        generate("gen in integers", 2, "invalid value 's32'", &["gpt", "--dtype", "s32"]),
        generate(
            "gen a step and none",
            2,
            "cannot be used with",
            &["gpt", "--forward", "--optimizer", "sgd"],
        ),
        generate(
            "gen what 64 bits cannot count",
            1,
            "more elements than 64 bits count",
            &["gpt", "--seq", "1000000", "--vocab", "1000000", "--global-batch", "1000000"],
        ),
        Case {
            args: vec!["gen", "mlp", "--forward", "-o", "no/x.ir"],
            ..command("gen into a directory that is not there", 1, "cannot write", &[])
        },
    ]
}
