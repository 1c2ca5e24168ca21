//! A measured run as a program that `gen` writes, and its published degrees as options of the passes.

mod columns;
mod kinds;
mod scores;

use crate::generate::GenArgs;
use kinds::{DEEPSEEK, Kind, LLAMA, MIXTRAL, kind};
use phzc_cost::training::{Job, Layout, Recompute, Sharding};
use phzc_frontends::zoo::{FAMILIES, Family, Settings};
use phzc_ir::{DType, Module};

/// Words of a model whose vocabulary is not stated.
const LEAST_VOCAB: f64 = 1024.0;

/// The reason why a run is no program of `gen`, or not one whose degrees can be asked for.
pub(super) type Reason = String;

/// The program of a run, with so many of its layers and its whole batch.
///
/// # Errors
/// When `gen` writes no such model, or not in that precision.
pub(super) fn program(job: &Job, n_layers: usize) -> Result<GenArgs, Reason> {
    let kind = kind(job);
    let family =
        FAMILIES.iter().find(|family| family.name == kind.family).ok_or("its family is not known")?;
    if let Some(reason) = refusal(job, family) {
        return Err(reason.to_owned());
    }
    let [dtype, products] = [job.stack.dtype, job.stack.product_dtype].map(DType::parse);
    let dtype = dtype.ok_or("its precision is not one of `gen`")?;
    Ok(GenArgs {
        family,
        size: family.sizes[0].name.to_owned(),
        values: values(family, job, n_layers),
        settings: Settings {
            batch: (job.layout.n_microbatches * job.layout.data * job.layout.micro_batch) as i64,
            dtype,
            // Products of 32-bit numbers in 19 bits have no type of their own.
            products: products.unwrap_or(dtype),
            // What copies share out whole is the optimizer's own 32 bits (FSDP); Megatron's and DeepSpeed's
            // weights are 16-bit copies of these.
            weights: if job.layout.sharding == Sharding::Parameters { DType::F32 } else { dtype },
            adapters: job.model.adapter_rank as i64,
            // The random bits of a whole batch come from one stream, which microbatches would divide.
            dropout: 0.0,
            scan: false,
        },
        n_microbatches: 1,
        optimizer: Some("adamw".to_owned()),
        describe: false,
        output: None,
    })
}

/// Why `gen` does not write a model, if it does not.
fn refusal(job: &Job, family: &Family) -> Option<&'static str> {
    let (model, layout) = (&job.model, &job.layout);
    let has_dim = |name: &str| family.dims.iter().any(|dim| dim.name == name);
    let is_odd = model.head_dim * model.heads != model.hidden;
    let is_gated = [LLAMA, MIXTRAL, DEEPSEEK].iter().any(|kind| kind.family == family.name);
    let refused = [
        (
            model.is_gated != is_gated && !has_dim("gated"),
            "its feed-forward part has a gate where `gen` has none, or none",
        ),
        (is_odd && !has_dim("head-dim"), "its heads do not make up its width"),
        (model.kv_heads != model.heads && !has_dim("kv-heads"), "it shares keys without a gate"),
        (layout.data % layout.expert != 0, "its experts are not shared out among its copies"),
        (job.stack.product_dtype == "s8", "its products are of whole numbers"),
    ];
    refused.into_iter().find(|(is_so, _)| *is_so).map(|(_, reason)| reason)
}

/// The family's dimensions as the run has them, layers apart.
fn values(family: &Family, job: &Job, n_layers: usize) -> Vec<i64> {
    let model = &job.model;
    let value = |name: &str| match name {
        "layers" => Some(n_layers as f64),
        "hidden" => Some(model.hidden),
        "heads" => Some(model.heads),
        "kv-heads" => Some(if model.latent.is_some() { model.heads } else { model.kv_heads }),
        "head-dim" => Some(model.head_dim),
        "query-rank" => Some(model.latent.map_or(0.0, |latent| latent.query_rank)),
        "kv-rank" => Some(model.latent.map_or(0.0, |latent| latent.kv_rank)),
        "rotated" => Some(model.latent.map_or(0.0, |latent| latent.rotated)),
        "value-dim" => Some(model.latent.map_or(model.head_dim, |latent| latent.value_dim)),
        "ffn" => Some(if family.name == MIXTRAL.family { model.expert_ffn } else { model.ffn }),
        "expert-ffn" => Some(model.expert_ffn),
        "shared-ffn" => Some(model.shared_ffn),
        "gated" => Some(f64::from(u8::from(model.is_gated))),
        "dense-layers" if model.experts == 1.0 => Some(n_layers as f64),
        // Of several stages the first one has them.
        "dense-layers" if job.layout.stages > 1 => Some(0.0),
        "dense-layers" => Some(model.dense_layers.min(n_layers) as f64),
        "experts" => Some(model.experts),
        "top-k" => Some(model.top_k),
        // No token is dropped, and on average experts have as many.
        "capacity" => Some(100.0),
        "target-seq" => Some(model.decoder_seq),
        // A table so small stands for none.
        "vocab" => Some(if model.vocab > 0.0 { model.vocab } else { LEAST_VOCAB }),
        "seq" => Some(model.seq),
        _ => None,
    };
    let usual = family.dims.iter().zip(family.sizes[0].values);
    usual.map(|(dim, own)| value(dim.name).map_or(*own, |it| it as i64)).collect()
}

/// What is computed again in a run: kernels that fuse a loss, a norm or a function of elements compute again
/// what is inside, whatever the run says of layers.
pub(super) fn recomputation(job: &Job) -> &'static str {
    if job.recompute == Recompute::Layers(1.0) { "all" } else { "auto" }
}

/// The passes that keep to the degrees of a run within a stage, for its program.
pub(super) fn passes(job: &Job, module: &Module) -> String {
    let attention = if job.stack.fuses_attention { "flash" } else { "as-written" };
    let (sharding, n_microbatches) = (sharding(job, module), job.layout.n_microbatches);
    format!(
        "fuse{{attention={attention}}},shard{{{sharding}}},\
         place{{stages=1,microbatches={n_microbatches},recompute={}}},check",
        recomputation(job)
    )
}

/// The axes of the mesh, outermost first.
pub(super) fn axes(layout: &Layout) -> [(&'static str, usize); 4] {
    [
        ("data", layout.data / layout.expert),
        ("expert", layout.expert),
        ("context", layout.context),
        ("tensor", layout.tensor),
    ]
}

/// The mesh, the layouts of batch and weights on it, and what data-parallel copies may not share.
fn sharding(job: &Job, module: &Module) -> String {
    let (layout, kind) = (&job.layout, kind(job));
    let axes: Vec<(&str, usize)> = axes(layout).into_iter().filter(|(_, size)| *size > 1).collect();
    if axes.is_empty() {
        return String::new();
    }
    let axis = |name: &'static str| axes.iter().find(|(own, _)| *own == name).map_or("-", |_| name);
    let mesh = axes.iter().map(|(name, size)| format!("{name}={size}")).collect::<Vec<_>>().join(",");
    let over = |names: &[&'static str]| {
        let found: Vec<&str> = names.iter().map(|name| axis(name)).filter(|name| *name != "-").collect();
        if found.is_empty() { "-".to_owned() } else { found.join("+") }
    };
    // Devices that share a sequence hold copies of the weights as those of other batches do.
    let copies = over(&["data", "expert"]);
    let [holders, of_expert] = [over(&["data", "expert", "context"]), over(&["data", "context"])];
    let (is_whole, forbid) = match job.layout.sharding {
        // Where ranks do not share the sequence, layers sum up what they hand on and scatter nothing.
        Sharding::Nothing if layout.tensor > 1 && !layout.has_sequence => {
            (true, "zero1+zero3+reduce-scatter")
        }
        Sharding::Nothing => (true, "zero1+zero3"),
        Sharding::Optimizer | Sharding::Gradients => (true, "zero3"),
        Sharding::Parameters => (false, ""),
    };
    let mut pins = vec![format!("^batch\\.{}$=[{copies},{}]", kind.inputs, axis("context"))];
    let shared = if is_whole { ["-", "-"] } else { [&*holders, &*of_expert] };
    let weights = if job.model.is_frozen() { "frozen" } else { "params" };
    let split = [axis("expert"), axis("tensor")];
    pins.extend(of_columns(job, weights, shared, split));
    pins.extend(of_rows(job, weights, shared, split));
    let is_shared = matches!(layout.sharding, Sharding::Optimizer | Sharding::Gradients);
    if is_shared && !job.model.is_frozen() && job.model.hidden % (layout.data * layout.context) as f64 == 0.0
    {
        // A sum of gradients is not scattered along the second dimension: states of rows are left open.
        pins.extend(of_columns(job, "(master|m|v)\\.params", [&holders, &of_expert], split));
    }
    if !is_whole && layout.tensor > 1 {
        pins.extend(columns::pin(module, &kind, [&copies, axis("context"), axis("tensor")]));
    }
    if layout.context > 1 {
        pins.extend(scores::pin(module, [&copies, axis("tensor"), axis("context")]));
    }
    format!("mesh={{{mesh}}},pin={{{}}},forbid={forbid}", pins.join(";"))
}

/// Layouts of column-split weights and of the table of words, or of the optimizer's states of these: over the
/// copies that share them out, of the model and of an expert, and over those that share the experts and their
/// products.
fn of_columns(
    job: &Job,
    group: &str,
    [shared, of_expert]: [&str; 2],
    [expert, tensor]: [&str; 2],
) -> Vec<String> {
    let Kind { columns, table, .. } = kind(job);
    let mut pins = vec![
        format!("^{group}\\.(.*\\.)?{columns}\\.kernel$=[{shared},{tensor}]"),
        format!("^{group}\\.{table}$=[{tensor},{shared}]"),
    ];
    if job.model.experts > 1.0 {
        pins.push(format!("^{group}\\..*\\.experts\\.(up|gate)$=[{expert},{of_expert},{tensor}]"));
    }
    pins
}

/// The same of row-split weights.
fn of_rows(
    job: &Job,
    group: &str,
    [shared, of_expert]: [&str; 2],
    [expert, tensor]: [&str; 2],
) -> Vec<String> {
    let rows = kind(job).rows;
    let mut pins = vec![format!("^{group}\\.(.*\\.)?{rows}\\.kernel$=[{tensor},{shared}]")];
    if job.model.experts > 1.0 {
        pins.push(format!("^{group}\\..*\\.experts\\.down$=[{expert},{tensor},{of_expert}]"));
    }
    pins
}

#[cfg(test)]
mod tests {
    use super::*;
    use phzc_cost::training::{Model, Stack};

    /// GPT on two copies of four devices each, that share what `sharding` says.
    fn job(sharding: Sharding) -> Job {
        Job {
            model: Model::gpt(2, 64.0, 4.0, 32.0, 256.0),
            layout: Layout {
                tensor: 4,
                data: 2,
                sharding,
                micro_batch: 3,
                n_microbatches: 5,
                ..Layout::single()
            },
            recompute: Recompute::Layers(1.0),
            stack: Stack::plain("bf16"),
        }
    }

    fn nothing() -> Module {
        phzc_ir::parse("ENTRY e { ROOT x = f32[] constant(0) }").expect("legal")
    }

    #[test]
    fn degrees_become_a_mesh_and_layouts_of_batch_and_weights() {
        let job = job(Sharding::Nothing);
        insta::assert_snapshot!(passes(&job, &nothing()).replace([',', ';'], "\n"), @r#"
        fuse{attention=as-written}
        shard{mesh={data=2
        tensor=4}
        pin={^batch\.(input_ids|labels)$=[data
        -]
        ^params\.(.*\.)?(q|k|v|up)\.kernel$=[-
        tensor]
        ^params\.embed_tokens$=[tensor
        -]
        ^params\.(.*\.)?(o|down)\.kernel$=[tensor
        -]}
        forbid=zero1+zero3+reduce-scatter}
        place{stages=1
        microbatches=5
        recompute=all}
        check
        "#);
    }

    #[test]
    fn copies_that_share_the_optimizer_hold_16_bit_weights_whole() {
        let of = |sharding: Sharding| {
            let job = job(sharding);
            let weights = program(&job, 2).expect("a decoder").settings.weights;
            let is_shared = |of: &str| {
                passes(&job, &nothing()).contains(&format!("^{of}(.*\\.)?(q|k|v|up)\\.kernel$=[data,tensor]"))
            };
            (weights.as_str(), is_shared("params\\."), is_shared("(master|m|v)\\.params\\."))
        };
        assert_eq!(of(Sharding::Nothing), ("bf16", false, false));
        assert_eq!(of(Sharding::Optimizer), ("bf16", false, true));
        assert_eq!(of(Sharding::Parameters), ("f32", true, false));
    }

    #[test]
    fn a_program_has_the_dimensions_of_the_run_and_the_batch_of_its_microbatches() {
        let job = job(Sharding::Nothing);
        let made = program(&job, 7).expect("a decoder");
        assert_eq!((made.family.name, made.settings.batch), ("opt", 30));
        assert_eq!(made.values[..3], [7, 64, 4]);
    }

    #[test]
    fn what_gen_does_not_write_says_why() {
        let mut job = job(Sharding::Nothing);
        (job.model.experts, job.model.shared_ffn) = (8.0, 64.0);
        let reason = Some("its feed-forward part has a gate where `gen` has none, or none");
        assert_eq!(program(&job, 2).err().as_deref(), reason);
    }

    #[test]
    fn experts_lie_on_an_axis_of_their_own_among_the_copies() {
        let mut job = job(Sharding::Parameters);
        (job.model.experts, job.model.top_k, job.model.expert_ffn) = (8.0, 2.0, 96.0);
        (job.model.is_gated, job.layout.data, job.layout.expert) = (true, 8, 2);
        assert_eq!(program(&job, 2).expect("Mixtral").family.name, "mixtral");
        let asked = passes(&job, &nothing());
        assert!(asked.contains("mesh={data=4,expert=2,tensor=4}"), "{asked}");
        assert!(asked.contains(r"^batch\.(input_ids|labels)$=[data+expert,-]"), "{asked}");
        assert!(asked.contains(r"\.experts\.(up|gate)$=[expert,data,tensor]"), "{asked}");
        assert!(asked.contains(r"(q|k|v|lm_head)\.kernel$=[data+expert,tensor]"), "{asked}");
    }

    #[test]
    fn encoders_are_programs_too() {
        let mut job = job(Sharding::Nothing);
        (job.model.is_causal, job.model.decoder_seq) = (false, 16.0);
        assert_eq!(program(&job, 2).expect("T5").family.name, "t5");
        job.model.decoder_seq = 0.0;
        assert_eq!(program(&job, 2).expect("BERT").family.name, "bert");
    }

    #[test]
    fn latent_attention_shared_experts_and_adapters_are_written_by_gen() {
        let mut job = job(Sharding::Optimizer);
        (job.model.is_gated, job.model.experts, job.model.top_k) = (true, 8.0, 2.0);
        (job.model.shared_ffn, job.model.dense_layers) = (32.0, 1);
        job.stack.product_dtype = "f8e4m3fn";
        let made = program(&job, 4).expect("a DeepSeek");
        assert_eq!((made.family.name, made.settings.products), ("deepseek", DType::F8e4m3fn));
        let value = |name: &str| {
            let at = made.family.dims.iter().position(|dim| dim.name == name).expect("a dimension");
            made.values[at]
        };
        assert_eq!(["dense-layers", "shared-ffn", "kv-rank", "kv-heads"].map(value), [1, 32, 0, 4]);
        job.model.adapter_rank = 16.0;
        assert_eq!(program(&job, 4).expect("frozen").settings.adapters, 16);
        assert!(
            passes(&job, &nothing()).contains(r"^frozen\.(.*\.)?(o|down_proj)\.kernel"),
            "no weight that trains"
        );
    }

    #[test]
    fn where_copies_share_weights_out_results_say_which_devices_share_a_product() {
        let module = phzc_ir::parse(
            "ENTRY e {
            x = bf16[6,32,64] parameter(0)
            params.layers.0.q.kernel = f32[64,64] parameter(1)
            w = bf16[64,64] convert(params.layers.0.q.kernel)
            params.layers.0.o.kernel = f32[64,64] parameter(2)
            into.1 = bf16[6,32,64] dot(x, w), lhs_contracting_dims={2}, rhs_contracting_dims={0}
            ROOT out = bf16[6,32,64] dot(into.1, w), lhs_contracting_dims={2}, rhs_contracting_dims={0}
        }",
        );
        let module = module.expect("legal");
        assert!(passes(&job(Sharding::Parameters), &module).contains(r"^(into\.1)$=[data,-,tensor]"));
        assert!(!passes(&job(Sharding::Nothing), &module).contains("into"));
    }
}
