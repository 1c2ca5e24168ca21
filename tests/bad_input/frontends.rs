//! Cases of programs in other forms than HLO text.

use super::cases::{Case, Input, command, text};

/// How many levels deep the deep ones are.
const DEEP: usize = 100_000;

/// A StableHLO function with these lines.
fn function(name: &'static str, says: &'static str, lines: &str) -> Case {
    let head = "module {\n  func.func @main(%a: tensor<2xf32>) -> tensor<2xf32> {\n";
    text(name, says, format!("{head}{lines}\n    return %a : tensor<2xf32>\n  }}\n}}\n"))
}

/// Bytes that are called a protobuf.
fn protobuf(name: &'static str, says: &'static str, bytes: &[u8]) -> Case {
    Case { input: Input::Bytes(bytes.to_vec()), ..text(name, says, "") }
}

/// Tables of kernels that are none.
fn kernels() -> [Case; 3] {
    [
        command("missing kernel table", 1, "no such file", &["--kernels", "none.toml"]),
        command("directory as kernel table", 1, "is a directory", &["--kernels", "."]),
        command("program as kernel table", 1, "expected", &["--kernels", "input"]),
    ]
}

/// Everything that must fail.
pub fn bad() -> Vec<Case> {
    kernels().into_iter().chain(programs()).collect()
}

/// Programs that are none.
fn programs() -> Vec<Case> {
    let deep_tuple = format!("%0 = stablehlo.custom_call @f() : () -> {}", "tuple<".repeat(DEEP));
    let deep_list = format!("%0 = stablehlo.transpose %a, dims = {}", "[".repeat(DEEP));
    let deep_region = "\"stablehlo.case\"(%a) ({ ".repeat(DEEP);
    let recursive = "module { func.func @main() { call @main() : () -> () return } }";
    vec![
        text("stablehlo cut off", "expected", "module @m {\n  func.func @main("),
        text("stablehlo without functions", "no function `@main`", "module {\n}\n"),
        text("stablehlo that calls itself", "`@main` calls itself", recursive),
        function("stablehlo deep types", "may nest 64 deep", &deep_tuple),
        function("stablehlo deep lists", "may nest 64 deep", &deep_list),
        function("stablehlo deep regions", "may nest 64 deep", &deep_region),
        function(
            "stablehlo unknown op",
            "unknown operation `stablehlo.frobnicate`",
            "%0 = stablehlo.frobnicate %a : tensor<2xf32>",
        ),
        function(
            "stablehlo unknown dialect",
            "unknown operation `gpu.launch`",
            "%0 = gpu.launch %a : tensor<2xf32>",
        ),
        function(
            "stablehlo huge tensor",
            "too many elements",
            "%0 = stablehlo.constant dense<0.0> : tensor<9223372036854775807x9xf32>",
        ),
        function(
            "stablehlo huge size",
            "does not fit in 64 bits",
            "%0 = stablehlo.constant dense<0.0> : tensor<99999999999999999999xf32>",
        ),
        function(
            "stablehlo short literal",
            "a literal of 3 elements has 2",
            "%0 = stablehlo.constant dense<[1.0, 2.0]> : tensor<3xf32>",
        ),
        function(
            "stablehlo odd literal",
            "is no hexadecimal digit",
            "%0 = stablehlo.constant dense<\"0x123\"> : tensor<3xf32>",
        ),
        function(
            "stablehlo many results",
            "a number of results",
            "%0:1073741824 = stablehlo.add %a, %a : tensor<2xf32>",
        ),
        function(
            "stablehlo value from outside",
            "reads `%a` from outside",
            "%c = stablehlo.constant dense<0.0> : tensor<f32>\n %0 = \"stablehlo.reduce\"(%a, %c) <{dimensions = array<i64: 0>}> ({\n ^bb0(%x: tensor<f32>, %y: tensor<f32>):\n stablehlo.return %a : tensor<2xf32>\n }) : (tensor<2xf32>, tensor<f32>) -> tensor<f32>",
        ),
        protobuf("protobuf of noise", "is no HLO protobuf", &[0x0a, 0x01, 0x00, 0xff, 0xff, 0xff]),
        protobuf(
            "protobuf of nothing",
            "entry computation is missing",
            &[0x0a, 0x01, b'm', 0x30, 0x05, 0x28, 0x01],
        ),
    ]
}
