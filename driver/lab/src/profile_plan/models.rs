//! What is known of published models besides their tables: layers, samples of a step, and what the runtime's
//! JSON repeats of them.
//!
//! From `reference/aceso.md`, sections 1 and 6. Another model needs `--layers` and `--global-batch`.

use phzc_cost::aceso::{OpChain, Repeat};
use phzc_ir::{Diagnostic, Result};

/// A published size of a model.
pub(crate) struct Published {
    pub model: &'static str,
    pub size: &'static str,
    /// The size whose tables hold for it.
    pub tables: &'static str,
    /// Layers of each stack that repeats.
    pub n_layers: Option<usize>,
    /// Further numbers of the runtime's JSON.
    pub shape: &'static [(&'static str, u64)],
}

/// What the sizes of a model have in common.
pub(crate) struct Family {
    model: &'static str,
    pub global_batch: u32,
    /// Copies of the parameters in memory, in units of their own precision.
    pub state_copies: f64,
    /// Whether operators of one stage are split each its own way under the own cost too, unless the options
    /// say otherwise.
    pub is_mixed: bool,
    /// Whether a rule says how its operators' inputs and outputs lie on devices.
    pub has_layouts: bool,
    /// Operators that share one parameter.
    pub tied: &'static [&'static str],
}

/// Parameters and gradients in 16 bits, master weights and two moments in 32.
pub(crate) const MIXED_PRECISION_COPIES: f64 = 8.0;
/// Parameters, gradients and two moments in one precision.
const ONE_PRECISION_COPIES: f64 = 4.0;
/// The most devices of a stage, and of a sample.
pub(crate) const MAX_GROUP: usize = 8;

/// Longer chains are refused.
const MAX_LAYERS: usize = 100_000;

const FAMILIES: [Family; 3] = [
    Family {
        model: "gpt",
        global_batch: 1024,
        state_copies: MIXED_PRECISION_COPIES,
        is_mixed: false,
        has_layouts: true,
        tied: &["encoder-embedding", "gpt-post-process"],
    },
    Family {
        model: "t5",
        global_batch: 1024,
        state_copies: MIXED_PRECISION_COPIES,
        is_mixed: false,
        has_layouts: false,
        tied: &["encoder-embedding", "decoder-embedding", "t5-post-process"],
    },
    Family {
        model: "resnet",
        global_batch: 1536,
        state_copies: ONE_PRECISION_COPIES,
        is_mixed: true,
        has_layouts: true,
        tied: &[],
    },
];

macro_rules! gpt {
    ($size:literal, $layers:expr, $hidden:literal, $heads:literal) => {
        Published {
            model: "gpt",
            size: $size,
            tables: $size,
            n_layers: $layers,
            shape: &[
                ("seq_length", 2048),
                ("max_position_embeddings", 2048),
                ("num_attention_heads", $heads),
                ("hidden_size", $hidden),
            ],
        }
    };
}

macro_rules! t5 {
    ($size:literal, $tables:literal, $layers:literal, $ffn:literal, $heads:literal, $kv:literal) => {
        Published {
            model: "t5",
            size: $size,
            tables: $tables,
            n_layers: Some($layers),
            shape: &[
                ("encoder_seq_length", 2048),
                ("decoder_seq_length", 512),
                ("max_position_embeddings", 2048),
                ("num_attention_heads", $heads),
                ("kv_channels", $kv),
                ("hidden_size", 1024),
                ("ffn_hidden_size", $ffn),
            ],
        }
    };
}

macro_rules! resnet {
    ($size:literal, $channels:literal, $width:literal) => {
        Published {
            model: "resnet",
            size: $size,
            tables: $size,
            n_layers: None,
            shape: &[("in_channels", $channels), ("width_factor", $width)],
        }
    };
}

const PUBLISHED: [Published; 17] = [
    gpt!("350M", Some(24), 1024, 16),
    gpt!("1_3B", Some(24), 2048, 32),
    gpt!("2_6B", Some(32), 2560, 32),
    gpt!("6_7B", Some(32), 4096, 32),
    gpt!("13B", Some(40), 5120, 40),
    gpt!("scale-layer", None, 512, 8),
    t5!("770M", "770M", 24, 4096, 16, 64),
    t5!("3B", "3B", 24, 16384, 32, 128),
    t5!("6B", "6B", 24, 32768, 64, 128),
    t5!("11B", "11B", 24, 65536, 128, 128),
    t5!("22B", "11B", 48, 65536, 128, 128),
    resnet!("500M", 224, 2),
    resnet!("1B", 320, 2),
    resnet!("2B", 448, 2),
    resnet!("4B", 640, 2),
    resnet!("6_8B", 320, 16),
    resnet!("13B", 320, 16),
];

/// What is known of a size.
pub(crate) fn published(model: &str, size: &str) -> Option<&'static Published> {
    PUBLISHED.iter().find(|it| it.model == model && it.size == size)
}

/// What is known of a model.
pub(crate) fn family(model: &str) -> Option<&'static Family> {
    FAMILIES.iter().find(|it| it.model == model)
}

/// The chain of a table's operators. A stack of layers begins with the operator `enc-1st-layernorm` or
/// `dec-1st-layernorm`, and ends before the next one whose name ends with `final-layernorm`.
///
/// # Errors
/// When layers repeat and their number is not known, or where they end; and when a number is given and none
/// repeats.
pub(crate) fn chain(names: &[String], n_layers: Option<usize>) -> Result<OpChain> {
    let mut repeats = Vec::new();
    for first in ["enc-1st-layernorm", "dec-1st-layernorm"] {
        let Some(first) = names.iter().position(|name| name == first) else { continue };
        let Some(n_layers) = n_layers.filter(|n_layers| (1..=MAX_LAYERS).contains(n_layers)) else {
            return Err(Diagnostic::error("the number of layers is not known")
                .help(format!("give --layers, from 1 to {MAX_LAYERS}")));
        };
        let Some(length) = names[first..].iter().position(|name| name.ends_with("final-layernorm")) else {
            return Err(Diagnostic::error(format!(
                "no operator ends the layers that begin with `{}`",
                names[first]
            ))
            .help("name the operator after the last layer `final-layernorm`"));
        };
        repeats.push(Repeat { first, end: first + length, n_layers });
    }
    if repeats.is_empty() && n_layers.is_some() {
        return Err(Diagnostic::error("--layers is given, but no operator begins a layer that repeats")
            .help("name a layer's first operator `enc-1st-layernorm` or `dec-1st-layernorm`"));
    }
    Ok(OpChain::new(names, &repeats))
}
