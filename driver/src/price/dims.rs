//! Sizes of the model that a command line repeats, against the program's tensors.

use super::arguments::Arguments;
use phzc_ir::{Diagnostic, Result};
use phzc_passes::graph::{Graph, Tensor};

/// What has a dimension of some size.
#[derive(Clone, Copy, PartialEq)]
enum Of {
    /// An input: a weight.
    Weights,
    /// Any tensor: heads are parts of a dimension of weights.
    All,
}

/// Arguments, what has such a dimension, and how many of it may be in one: gate and up of a gated layer.
const SIZES: [(&str, Of, usize); 5] = [
    ("--hidden-size", Of::Weights, 1),
    ("--ffn-hidden-size", Of::Weights, 2),
    ("--num-experts", Of::All, 1),
    ("--num-attention-heads", Of::All, 1),
    ("--kv-channels", Of::All, 1),
];

/// Errors at an argument that names a size which no tensor of the program has.
pub fn check(asked: &Arguments, graph: &Graph) -> Result<()> {
    for (name, of, most) in SIZES {
        let Some(given) = asked.given(name) else { continue };
        let is_of = |tensor: &&Tensor| of == Of::All || tensor.param.is_some();
        let has = |n: usize| {
            graph.tensors.iter().filter(is_of).any(|tensor| has_size(tensor, (n * given.value) as i64))
        };
        if !(1..=most).any(has) {
            let message = format!("`{name} {}`, but no tensor of the program has that size", given.value);
            let help = "leave it out, or write the program for that size (`phzc gen` has options for it)";
            return Err(Diagnostic::error(message).at(given.span).help(help));
        }
    }
    Ok(())
}

/// Whether a dimension has a size, or two that follow each other: groups of heads and the heads of one.
fn has_size(tensor: &Tensor, size: i64) -> bool {
    tensor.dims.contains(&size)
        || tensor.dims.windows(2).any(|pair| pair[0].checked_mul(pair[1]) == Some(size))
}
