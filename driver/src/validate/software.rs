//! What training software does, as far as time and memory tell: facts about programs, by the name that a row gives.

use phzc_cost::training::{Layout, Sharding, Stack};

/// What one program does where a row says nothing else.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Software {
    /// How its name begins.
    name: &'static str,
    /// Whether it has an attention kernel that keeps no scores.
    fuses_attention: bool,
    /// Whether that kernel is one for all generations of cores.
    has_portable_attention: bool,
    /// Whether it runs backward collectives of tensor parallelism beside gradients of weights.
    overlaps_gradients: bool,
    /// Whether it runs collectives of tensor parallelism beside products.
    overlaps_tensor: bool,
    /// Whether it runs collectives of data parallelism beside forward and backward.
    overlaps_data: bool,
    /// Whether tensor-parallel ranks share the sequence.
    pub has_sequence: bool,
    /// Whether it interleaves stages where it can.
    pub is_interleaved: bool,
    /// Whether it sends between stages beside computation.
    overlaps_sends: bool,
    /// What data-parallel ranks share out.
    pub sharding: Sharding,
    /// Fraction of the network's rate that its sums of gradients reach.
    data_efficiency: f64,
    /// Whether its products add up gradients of weights.
    fuses_accumulation: bool,
    /// Whether its products keep their operands in their own, narrow type.
    keeps_narrow: bool,
    /// How often elementwise chains pass through memory.
    n_passes: f64,
    /// Bytes of an entry of the logits when the loss is at its peak.
    logit_bytes: f64,
    /// Bytes of a gradient that is summed.
    gradient_bytes: f64,
}

/// Programs whose names begin alike: the longer name first.
const KNOWN: [Software; 11] = [
    // Gradients in 16 bits are summed in the type that they have (DeepSpeed engine; Megatron's fp16 optimizer keeps a 32-bit copy).
    Software {
        name: "Megatron-DeepSpeed",
        gradient_bytes: 2.0,
        overlaps_gradients: true,
        fuses_accumulation: false,
        ..MEGATRON
    },
    // The same core as NeMo 24, by other names.
    Software { name: "Megatron-Bridge", ..NEMO_24 },
    Software { name: "Megatron-Core", ..NEMO_24 },
    Software { name: "Primus", ..NEMO_24 },
    Software { name: "MaxText", has_sequence: false, ..NEMO_24 },
    // NeMo 24 with userbuffers (`ub_tp_comm_overlap`) and overlapped distributed optimizer; NVIDIA/NeMo performance guide.
    Software { name: "NeMo/Megatron", ..NEMO_24 },
    // `use_flash_attention` and `gradient_accumulation_fusion` are off in the configurations that were shipped to mid 2023.
    Software {
        name: "NeMo 23",
        fuses_attention: false,
        n_passes: 1.5,
        fuses_accumulation: false,
        data_efficiency: MEGATRON.data_efficiency,
        ..NEMO
    },
    NEMO_24,
    MEGATRON,
    // PyTorch without a compiler: each elementwise operation is a kernel, norms are computed in 32 bits; the loss
    // (`fused_crossentropy`) turns logits into gradients in place.
    Software { name: "llm-foundry", logit_bytes: 4.0, n_passes: EAGER_PASSES, ..FSDP },
    // PyTorch FSDP: flash attention, parameters gathered ahead.
    FSDP,
];

/// Megatron-LM to 2022: scores in memory, data parallelism after the last backward part.
const MEGATRON: Software = Software {
    name: "Megatron",
    fuses_attention: false,
    has_portable_attention: false,
    overlaps_gradients: false,
    overlaps_tensor: false,
    overlaps_data: false,
    has_sequence: false,
    is_interleaved: false,
    overlaps_sends: false,
    sharding: Sharding::Nothing,
    // Narayanan et al. 2021, section 5.9: 12.9 TB/s of a bisection of 38; gradients are packed and unpacked.
    data_efficiency: 0.5,
    fuses_accumulation: true,
    keeps_narrow: false,
    // `vocab_parallel_cross_entropy`: the product in 16 bits, logits and their exponentials in 32.
    logit_bytes: 10.0,
    n_passes: 1.0,
    gradient_bytes: 4.0,
};

/// NeMo 23.05: flash attention, sequence parallelism, distributed optimizer.
const NEMO: Software = Software {
    name: "NeMo",
    fuses_attention: true,
    has_portable_attention: false,
    overlaps_gradients: true,
    overlaps_tensor: false,
    overlaps_data: false,
    has_sequence: true,
    is_interleaved: true,
    overlaps_sends: false,
    sharding: Sharding::Optimizer,
    data_efficiency: 1.0,
    fuses_accumulation: true,
    keeps_narrow: true,
    logit_bytes: 10.0,
    n_passes: 1.0,
    gradient_bytes: 2.0,
};

/// NeMo from 24 on.
const NEMO_24: Software =
    Software { overlaps_tensor: true, overlaps_data: true, overlaps_sends: true, ..NEMO };

/// PyTorch FSDP and whatever is not known: what programs of 2024 do.
const FSDP: Software = Software {
    name: "",
    fuses_attention: true,
    has_portable_attention: true,
    overlaps_gradients: false,
    overlaps_tensor: false,
    overlaps_data: true,
    has_sequence: true,
    is_interleaved: false,
    overlaps_sends: true,
    sharding: Sharding::Optimizer,
    data_efficiency: 1.0,
    fuses_accumulation: false,
    keeps_narrow: false,
    // `cross_entropy(logits.float(), …)`: the product (2), the loss (4), its gradient (4) and that of its input (4).
    logit_bytes: 14.0,
    n_passes: 1.0,
    gradient_bytes: 4.0,
};

/// The program of that name, with what remarks say about its options.
pub(crate) fn of(framework: &str, notes: &str, has_f8: bool) -> Software {
    // On devices with 8-bit products Megatron-LM is one of 2023 or later.
    let framework = if has_f8 && framework.starts_with("Megatron-LM") { "NeMo" } else { framework };
    let known = KNOWN.into_iter().find(|software| framework.starts_with(software.name)).unwrap_or(FSDP);
    let notes = notes.to_lowercase().replace(' ', "");
    Software {
        overlaps_tensor: known.overlaps_tensor || notes.contains("asynctp"),
        n_passes: if notes.contains("eager") { EAGER_PASSES } else { known.n_passes },
        ..known
    }
}

/// How often elementwise chains pass through memory where nothing fuses them. Fitted to mosaicml_mpt_fsdp.csv.
const EAGER_PASSES: f64 = 2.5;

impl Software {
    /// What it does with operands of `dtype`.
    pub fn stack(&self, dtype: &str, recompute: &str, layout: &Layout) -> Result<Stack, String> {
        let (dtype, product_dtype) = types(dtype)?;
        let is_wide = dtype == "f32";
        // Recomputing attention alone is what programs do that keep its scores.
        let keeps_scores = recompute.starts_with("selective(attn");
        Ok(Stack {
            fuses_attention: self.fuses_attention && !keeps_scores,
            has_portable_attention: self.has_portable_attention,
            // Sequence parallelism asks for it (`CUDA_DEVICE_MAX_CONNECTIONS=1`).
            overlaps_gradients: self.overlaps_gradients || layout.has_sequence,
            overlaps_sends: self.overlaps_sends,
            overlaps_tensor: self.overlaps_tensor && layout.has_sequence,
            overlaps_data: self.overlaps_data,
            data_efficiency: self.data_efficiency,
            fuses_accumulation: self.fuses_accumulation,
            logit_bytes: self.logit_bytes,
            keeps_narrow: self.keeps_narrow,
            n_passes: self.n_passes,
            product_dtype,
            dtype,
            gradient_bytes: if is_wide { 4.0 } else { self.gradient_bytes },
            weight_bytes: if is_wide { 8.0 } else { 2.0 + self.gradient_bytes },
            optimizer_bytes: if is_wide { 8.0 } else { 12.0 },
        })
    }
}

/// The general type and that of the layers' products, for what a row calls its precision.
fn types(text: &str) -> Result<(&'static str, &'static str), String> {
    let text = text.trim().to_lowercase();
    let has = |part: &str| text.contains(part);
    match () {
        () if text.is_empty() => Err("its precision is not stated".to_owned()),
        // Where two are named, the one that was asked for stands first; libraries run products of it in tf32.
        () if text.starts_with("fp32") || text.starts_with("tf32") => Ok(("f32", "tf32")),
        () if has("fp4") => Ok(("bf16", "f4e2m1fn")),
        () if has("fp8") || has("float8") => Ok(("bf16", "f8e4m3fn")),
        () if has("int8") => Ok(("bf16", "s8")),
        () if has("bf16") || has("bfloat16") => Ok(("bf16", "bf16")),
        () if has("fp16") || has("float16") => Ok(("f16", "f16")),
        () => Err(format!("its precision is `{text}`")),
    }
}
