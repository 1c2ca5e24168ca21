//! What training software does, as far as time and memory tell: facts about programs, by the name that a row
//! gives.

mod known;

use super::csv::Record;
use super::{choice, version};
use known::{EAGER_PASSES, FSDP, KNOWN, MEGATRON, MEGATRON_CORE};
use phzc_cost::Accelerator;
use phzc_cost::training::{Layout, Recompute, Sharding, Stack};

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
    /// Whether kernels of different streams start in the order in which they are issued.
    keeps_order: bool,
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
    /// Seconds in which its host issues one operator.
    issue_secs: f64,
    /// Whether a gate, its function and their product are one kernel.
    fuses_gate: bool,
    /// Whether its dispatcher sends a token once to each device.
    sends_once: bool,
    /// Whether products of experts do the function between them.
    fuses_experts: bool,
    /// Bytes per parameter of gradients that are added up in 32 bits beside those of the backward part, where
    /// these are of type bf16.
    sum_bytes: f64,
    /// Bytes of an entry of the logits when the loss is at its peak.
    logit_bytes: f64,
    /// Bytes of a gradient that is summed.
    gradient_bytes: f64,
    /// Whether models that were trained with dropout have it here.
    pub has_dropout: bool,
    /// Which memory it reports.
    pub reports: Reports,
    /// How many microbatches a step has where nobody says it.
    pub microbatches: Microbatches,
    /// What its selective recomputation keeps, where attention is fused.
    pub selective: Recompute,
    /// Whether products keep inputs that tensor-parallel ranks gathered.
    keeps_gathered: bool,
    /// The most parameters whose gradients are copied into one buffer.
    bucket_params: f64,
}

/// Which figure a program calls its memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reports {
    /// The tensors at the peak.
    Tensors,
    /// What its allocator took from the device.
    Reserved,
    /// What the driver says that is used: the allocator's, the context's, the communicators'.
    Device,
}

/// How many microbatches a step has where nobody says it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Microbatches {
    /// As many as are fastest.
    Fastest,
    /// One per pipeline stage.
    PerStage,
}

/// Their names; the last, FSDP, has none.
pub(super) static NAMES: [&str; KNOWN.len() - 1] = {
    let (mut names, mut at) = ([""; KNOWN.len() - 1], 0);
    while at < names.len() {
        names[at] = KNOWN[at].name;
        at += 1;
    }
    names
};

/// Whether a program of that name is known, or none is named.
pub(super) fn is_known(framework: &str) -> bool {
    framework.is_empty() || framework.contains("FSDP") || NAMES.iter().any(|name| framework.starts_with(name))
}

/// The program of that name, with what remarks say about its options.
pub(crate) fn of(row: Record, device: &Accelerator) -> Software {
    let (framework, notes, source) = (row.text("framework"), row.text("notes"), row.text("source_ref"));
    let known = of_its_time(row, named(framework), device);
    let is_replayed = known.name == "Megatron-Bridge" && is_replayed(row, device);
    let notes = notes.to_lowercase().replace(' ', "");
    let has_compiled_loss =
        known.name == "torchtitan" && month(source).is_some_and(|month| month >= COMPILED_LOSS);
    Software {
        logit_bytes: match () {
            () if has_compiled_loss => COMPILED_LOGIT_BYTES,
            () if notes.contains("cefusion") => FUSED_LOGIT_BYTES,
            () => known.logit_bytes,
        },
        issue_secs: if is_replayed { 0.0 } else { known.issue_secs },
        fuses_experts: is_replayed,
        // The order of kernels that the overlap rests on (`CUDA_DEVICE_MAX_CONNECTIONS=1`) is not kept from
        // Blackwell on.
        keeps_order: device.peak_flops_per_sec.f4.is_none(),
        overlaps_tensor: known.overlaps_tensor || notes.contains("asynctp"),
        n_passes: if notes.contains("eager") { EAGER_PASSES } else { known.n_passes },
        sharding: if shares_parameters(&notes) { Sharding::Parameters } else { known.sharding },
        ..known
    }
}

/// Whether remarks name a size of FSDP's groups, as Megatron-Bridge's tables do in a column of their own.
fn shares_parameters(notes: &str) -> bool {
    let size = notes.split_once("fsdpcol=").map(|(_, rest)| rest.split(|c: char| !c.is_ascii_digit()).next());
    size.flatten().and_then(|size| size.parse::<usize>().ok()).is_some_and(|size| size > 1)
}

/// The program of that name, without a compiler.
pub(crate) fn eager(framework: &str) -> Software {
    Software { n_passes: EAGER_PASSES, ..named(framework) }
}

fn named(framework: &str) -> Software {
    KNOWN.into_iter().find(|software| framework.starts_with(software.name)).unwrap_or(FSDP)
}

/// Megatron-LM as its release, its source's year, or the device's year say: what is not dated is the newest
/// that the device can have run when it was new.
fn of_its_time(row: Record, known: Software, device: &Accelerator) -> Software {
    if known.name != MEGATRON_CORE.name {
        return known;
    }
    let texts = ["source_id", "source_ref", "notes"].map(|column| row.text(column));
    let year = texts.into_iter().filter_map(version::year).min();
    let has_f8 = device.peak_flops_per_sec.f8.is_some();
    let is_new = match (version::core(row.text("framework")), year) {
        (Some(release), _) => release >= FLASH_RELEASE,
        (None, Some(year)) => has_f8 || year >= FLASH_YEAR,
        (None, None) => has_f8 || device.released.is_some_and(|year| year >= FLASH_PAPER),
    };
    // The kernel asks for cores of 2020 or later.
    if is_new && device.peak_flops_per_sec.bf16.is_some() { known } else { MEGATRON }
}

/// The release and the year from which Megatron-LM has flash attention and its distributed optimizer.
const FLASH_RELEASE: u32 = 2;
const FLASH_YEAR: usize = 2023;
/// The year of FlashAttention: a device of that year is younger than software without it.
const FLASH_PAPER: usize = 2022;

/// What was guessed of a program whose release or date nothing says.
pub(crate) fn guessed(row: Record, device: &Accelerator) -> Option<String> {
    let known = named(row.text("framework"));
    let texts = ["source_id", "source_ref", "notes"].map(|column| row.text(column));
    let is_dated = version::core(row.text("framework")).is_some()
        || texts.into_iter().any(|text| version::year(text).is_some());
    let is_guess = known.name == MEGATRON_CORE.name && !is_dated;
    let is_new = of_its_time(row, known, device).name == MEGATRON_CORE.name;
    is_guess.then(|| format!("Megatron-LM {}", if is_new { "of 2023 or later" } else { "of 2022 or before" }))
}

/// Whether whole iterations are replayed as graphs, with products of experts that do the function between
/// them: from container 26.06 on, on Blackwell (Megatron-Bridge 0.5.1, release notes: "CuTeDSL fused grouped
/// GEMM, and full iteration CUDA graphs", #4606).
fn is_replayed(row: Record, device: &Accelerator) -> bool {
    let texts = [row.text("framework"), row.text("notes")];
    let container = texts.into_iter().find_map(version::container);
    device.peak_flops_per_sec.f4.is_some() && container.is_none_or(|version| version >= [26, 6])
}

/// Bytes of an entry of the logits where the loss is one kernel that turns them into gradients
/// (`cross_entropy_loss_fusion`): the product's result in 16 bits, its exponentials in 32.
const FUSED_LOGIT_BYTES: f64 = 6.0;

/// The month from which torchtitan compiles the loss with the rest at the latest: its pull request 755
/// (2024-12-19) turned that off, 1033 (2025-04-01) has it again.
const COMPILED_LOSS: u32 = 202_504;
/// Bytes of an entry of the logits where the loss is compiled: the product's result and its gradient, in 16
/// bits.
const COMPILED_LOGIT_BYTES: f64 = 4.0;

/// The month in a source's name, as a number: 202506 in `h200_202506.md` and in `2025-06.md`.
fn month(source: &str) -> Option<u32> {
    let source = source.replace('-', "");
    let mut runs = source.split(|c: char| !c.is_ascii_digit());
    let run = runs.find(|run| run.len() == 6 && run.starts_with("20"))?;
    run.parse().ok().filter(|month| (1..=12).contains(&(month % 100)))
}

impl Software {
    /// What it does with operands of `dtype`.
    pub fn stack(&self, dtype: &str, recompute: &str, layout: &Layout) -> Result<Stack, String> {
        let (dtype, product_dtype) = types(dtype)?;
        let is_wide = dtype == "f32";
        let summed = if dtype == "bf16" { self.sum_bytes } else { 0.0 };
        let keeps_scores = choice::keeps_scores(recompute);
        Ok(Stack {
            fuses_attention: self.fuses_attention && !keeps_scores,
            has_portable_attention: self.has_portable_attention,
            // Sequence parallelism asks for it (`CUDA_DEVICE_MAX_CONNECTIONS=1`).
            overlaps_gradients: self.keeps_order && (self.overlaps_gradients || layout.has_sequence),
            overlaps_sends: self.overlaps_sends,
            overlaps_tensor: self.overlaps_tensor && layout.has_sequence,
            overlaps_data: self.overlaps_data,
            data_efficiency: self.data_efficiency,
            fuses_accumulation: self.fuses_accumulation,
            // A product in 32 bits needs no copy in 32 bits.
            logit_bytes: self.logit_bytes - if is_wide { 2.0 } else { 0.0 },
            keeps_gathered: self.keeps_gathered,
            receives_ahead: self.microbatches == Microbatches::PerStage,
            bucket_params: self.bucket_params,
            keeps_narrow: self.keeps_narrow,
            n_passes: self.n_passes,
            issue_secs: self.issue_secs,
            fuses_gate: self.fuses_gate,
            sends_once: self.sends_once,
            fuses_experts: self.fuses_experts,
            product_dtype,
            dtype,
            gradient_bytes: if is_wide { 4.0 } else { self.gradient_bytes.max(summed) },
            weight_bytes: if is_wide { 8.0 } else { 2.0 + self.gradient_bytes + summed },
            optimizer_bytes: if is_wide { 8.0 } else { 12.0 },
        })
    }
}

/// Whether this names a precision, or none is named.
pub(super) fn is_dtype(text: &str) -> bool {
    text.is_empty() || types(text).is_ok()
}

/// The part of its 8-bit rate that a device reaches in products whose operands have a scale per row, by the
/// kernel of its own that these take (`Float8LinearRecipeName.ROWWISE`).
///
/// torchao, torchao/float8/README.md: Llama-3 8B on 8 H100, 10.05 % faster than in bf16 with scales of rows,
/// 25.03 % with scales of tensors (tests/published/torchao_h100.csv).
const ROW_SCALED: f64 = 0.74;

/// Whether a row's precision says that the scales of 8-bit numbers are of rows.
pub(super) fn scales_rows(dtype: &str) -> bool {
    dtype.to_lowercase().contains("row")
}

/// Makes 8-bit products of a device as slow as scales of rows make them.
pub(super) fn slow_scaled_rows(device: &mut Accelerator) {
    let rate = device.tile_flops_per_sec("f8e4m3fn") / device.sustained;
    device.f8_efficiency = Some(ROW_SCALED * rate / device.peak_flops_per_sec.of("f8e4m3fn"));
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

#[cfg(test)]
mod tests {
    use super::super::csv::Table;
    use super::*;

    /// The software of a row with these cells, and the device that it ran on.
    fn software(framework: &str, notes: &str, source: &str, device: &str) -> Software {
        let text = format!("framework,notes,source_ref\n{framework},{notes},{source}\n");
        let table = Table::parse(&text).expect("a table");
        of(table.records().next().expect("a row"), Accelerator::named(device).expect("a device"))
    }

    #[test]
    fn megatron_is_of_its_release_its_year_or_its_device() {
        let is_new = |framework, source, device| software(framework, "", source, device).fuses_attention;
        assert!(!is_new("Megatron-LM", "", "a100") && is_new("Megatron-LM", "", "a800-80"));
        assert!(is_new("Megatron-LM", "", "h100") && is_new("Megatron-LM", "May 2024", "a100"));
        assert!(is_new("Megatron-LM 0.14 + TE 2.11", "", "a100"));
        assert!(!is_new("Megatron-LM", "arXiv 2205.05198", "a100"));
        assert!(!is_new("Megatron-LM 0.14", "", "v100"), "its cores are too old");
    }

    #[test]
    fn graphs_are_replayed_from_the_container_on_that_has_them() {
        let issue_secs = |notes, device| software("Megatron-Bridge", notes, "", device).issue_secs;
        assert_eq!(issue_secs("26.06 NeMo Container", "gb200"), 0.0);
        assert!(issue_secs("26.04.01 NeMo Container", "gb200") > 0.0);
        assert!(issue_secs("26.06 NeMo Container", "h100") > 0.0);
    }

    #[test]
    fn remarks_say_that_parameters_are_shared_out() {
        let sharding = |notes| software("Megatron-Bridge", notes, "", "gb200").sharding;
        assert_eq!(sharding("FSDP col=64; iter derived"), Sharding::Parameters);
        assert_eq!(["", "FSDP col=0", "FSDP col="].map(sharding), [Sharding::Optimizer; 3]);
    }

    #[test]
    fn gradients_are_added_up_in_32_bits_where_the_software_does() {
        let bytes = |framework, dtype| {
            let stack =
                software(framework, "", "", "h100").stack(dtype, "full", &Layout::single()).expect("known");
            [stack.weight_bytes, stack.gradient_bytes]
        };
        assert_eq!(bytes("Megatron-DeepSpeed", "bf16"), [8.0, 4.0]);
        assert_eq!(bytes("Megatron-DeepSpeed", "fp16"), [4.0, 2.0]);
        assert_eq!((bytes("Megatron-LM", "bf16"), bytes("NeMo", "bf16")), ([6.0, 4.0], [4.0, 2.0]));
    }

    #[test]
    fn the_month_of_a_source_is_read_from_its_name() {
        assert_eq!(month("repo@b5bcd76c66 benchmarks/llama3-8b_h200_202506_x.md"), Some(202_506));
        assert_eq!(month("benchmarks/llama3_h100_2025-06_x.md"), Some(202_506));
        assert_eq!(month("repo@b5bcd76c66 docs/performance.md"), None);
        assert_eq!(month("table_209913.md"), None);
    }
}
