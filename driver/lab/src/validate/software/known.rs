//! The programs that are known, each difference from the one that it came from with its source.

use super::{Microbatches, Reports, Software};
use phzc_cost::training::{Recompute, Sharding};

/// Programs whose names begin alike: the longer name first.
pub(super) const KNOWN: [Software; 15] = [
    // Its layers have no dropout on scores (eth-easl/sailor@494eaa5, megatron/model/gpt_neo_model.py); its
    // pipeline engine asks `nvidia-smi` for the memory (deepspeed/pipe_engine.py).
    Software {
        name: "Megatron-DeepSpeed (Sailor)",
        overlaps_gradients: true,
        fuses_accumulation: false,
        bucket_params: 5e8,
        has_dropout: false,
        reports: Reports::Device,
        ..MEGATRON
    },
    // Gradients in 16 bits are summed in the type that they have (DeepSpeed engine; Megatron's fp16 optimizer
    // keeps a 32-bit copy).
    Software {
        name: "Megatron-DeepSpeed",
        gradient_bytes: 2.0,
        overlaps_gradients: true,
        fuses_accumulation: false,
        // `MEMORY_OPT_ALLREDUCE_SIZE`, DeepSpeed runtime/engine.py.
        bucket_params: 5e8,
        // `fp32_groups_gradients_flat`, DeepSpeed runtime/bf16_optimizer.py.
        sum_bytes: 4.0,
        ..MEGATRON
    },
    // Its gate is `F.silu(x[0]) * x[1]` in eager mode (kwai/Megatron-Kwai@b2646e4,
    // megatron/model/transformer.py).
    Software { name: "Megatron-LM (Kwai", fuses_gate: false, ..MEGATRON_CORE },
    // Its recipes dispatch with DeepEP or HybridEP (NVIDIA-NeMo/Megatron-Bridge, docs/training/optimization).
    Software { name: "Megatron-Bridge", sends_once: true, ..NEMO_24 },
    // The same core as NeMo 24, by other names.
    Software { name: "Megatron-Core", ..NEMO_24 },
    Software { name: "Primus", ..NEMO_24 },
    Software { name: "MaxText", has_sequence: false, sharding: Sharding::Parameters, ..NEMO_24 },
    // NeMo 24 with userbuffers (`ub_tp_comm_overlap`) and overlapped distributed optimizer; NVIDIA/NeMo
    // performance guide.
    Software { name: "NeMo/Megatron", ..NEMO_24 },
    // `use_flash_attention` and `gradient_accumulation_fusion` are off in the configurations that were
    // shipped to mid 2023.
    Software {
        name: "NeMo 23",
        fuses_attention: false,
        n_passes: 1.5,
        fuses_accumulation: false,
        data_efficiency: MEGATRON.data_efficiency,
        ..NEMO
    },
    NEMO_24,
    MEGATRON_CORE,
    MEGATRON,
    // PyTorch without a compiler: each elementwise operation is a kernel, norms are computed in 32 bits; the
    // loss (`fused_crossentropy`) turns logits into gradients in place.
    Software { name: "llm-foundry", logit_bytes: 4.0, n_passes: EAGER_PASSES, ..FSDP },
    // `metrics.py` reports the allocator's peak; `pipelining_utils.py` cuts a batch into as many microbatches
    // as there are stages; `parallelize_llama.py` keeps every other product.
    Software {
        name: "torchtitan",
        reports: Reports::Reserved,
        microbatches: Microbatches::PerStage,
        selective: Recompute::Products,
        ..FSDP
    },
    // PyTorch FSDP: flash attention, parameters gathered ahead.
    FSDP,
];

/// Megatron-LM to 2022: scores in memory, data parallelism after the last backward part.
pub(super) const MEGATRON: Software = Software {
    name: "Megatron",
    fuses_attention: false,
    has_portable_attention: false,
    overlaps_gradients: false,
    keeps_order: true,
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
    // Fitted to vtrain_a100_single_part.csv: layers of width 1024 take 3.1 ms for 56 operators, and 0.33 ms
    // more for 6 collectives.
    issue_secs: 5.5e-5,
    fuses_gate: true,
    sends_once: false,
    fuses_experts: false,
    sum_bytes: 0.0,
    gradient_bytes: 4.0,
    has_dropout: true,
    reports: Reports::Tensors,
    microbatches: Microbatches::Fastest,
    // Every other layer; of each layer every other product is about the same.
    selective: Recompute::Layers(0.5),
    keeps_gathered: false,
    bucket_params: 0.0,
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
    ..MEGATRON
};

/// Megatron-LM from 2023 on: gradients are added up in 32 bits (`accumulate_allreduce_grads_in_fp32`, the
/// default with bf16: Megatron-LM, megatron/training/arguments.py).
pub(super) const MEGATRON_CORE: Software = Software { name: "Megatron-LM", gradient_bytes: 4.0, ..NEMO };

/// NeMo from 24 on.
const NEMO_24: Software =
    Software { overlaps_tensor: true, overlaps_data: true, overlaps_sends: true, ..NEMO };

/// PyTorch FSDP and whatever is not known: what programs of 2024 do.
pub(super) const FSDP: Software = Software {
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
    // `cross_entropy(logits.float(), …)`: the product (2), the loss (4), its gradient (4) and that of its
    // input (4).
    logit_bytes: 14.0,
    n_passes: 1.0,
    issue_secs: 2e-5,
    gradient_bytes: 4.0,
    keeps_gathered: true,
    ..MEGATRON
};

/// How often elementwise chains pass through memory where nothing fuses them. Fitted to
/// mosaicml_mpt_fsdp.csv.
pub(super) const EAGER_PASSES: f64 = 2.5;
