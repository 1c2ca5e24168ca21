//! Which family of `gen` a model is, and how tensor parallelism splits its weights.

use phzc_cost::training::Job;

/// A family of `gen`, with the layouts of its weights in tensor parallelism (Shoeybi et al., "Megatron-LM",
/// 2019, section 3).
pub(super) struct Kind {
    pub family: &'static str,
    /// Weights that are split by columns.
    pub columns: &'static str,
    /// Those that are split by rows.
    pub rows: &'static str,
    /// The table of words.
    pub table: &'static str,
    /// Inputs with a row per sample.
    pub inputs: &'static str,
}

const OPT: Kind = Kind {
    family: "opt",
    columns: "(q|k|v|up)",
    rows: "(o|down)",
    table: "embed_tokens",
    inputs: "(input_ids|labels)",
};
pub(super) const LLAMA: Kind = Kind {
    family: "llama",
    columns: "(q|k|v|gate_proj|up_proj|lm_head)",
    rows: "(o|down_proj)",
    table: "embed_tokens",
    inputs: "(input_ids|labels)",
};
pub(super) const MIXTRAL: Kind = Kind { family: "mixtral", columns: "(q|k|v|lm_head)", rows: "o", ..LLAMA };
const BERT: Kind =
    Kind { family: "bert", table: "embeddings\\.word", inputs: "(input_ids|token_type_ids|labels)", ..OPT };
const T5: Kind = Kind {
    family: "t5",
    columns: "(q|k|v|up|gate_proj|up_proj)",
    rows: "(o|down|down_proj)",
    table: "shared",
    inputs: "(input_ids|decoder_input_ids|labels)",
};
/// Of latent attention what leads to and from the heads is split.
pub(super) const DEEPSEEK: Kind =
    Kind { family: "deepseek", columns: "(q|q_b|k|v|kv_b|gate_proj|up_proj|lm_head)", ..LLAMA };

/// What `gen` writes for a model.
pub(super) fn kind(job: &Job) -> Kind {
    let model = &job.model;
    let is_odd = model.head_dim * model.heads != model.hidden;
    let has_parts = model.shared_ffn > 0.0 || model.dense_layers > 0;
    match model {
        _ if model.decoder_seq > 0.0 => T5,
        _ if !model.is_causal => BERT,
        _ if model.latent.is_some() || has_parts || is_odd && model.is_gated => DEEPSEEK,
        _ if model.experts > 1.0 => MIXTRAL,
        _ if model.is_gated => LLAMA,
        _ => OPT,
    }
}
