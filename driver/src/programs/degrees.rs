//! A measured run as a program that `gen` writes, and its published degrees as options of the passes.

use crate::generate::GenArgs;
use phzc_cost::training::{Job, Recompute, Sharding};
use phzc_frontends::zoo::{FAMILIES, Family, Settings};
use phzc_ir::DType;

/// The reason why a run is no program of `gen`, or not one whose degrees can be asked for.
pub(super) type Reason = String;

/// The decoders of `gen`, without a gate in the feed-forward part and with one, with the layouts of their
/// weights in tensor parallelism (Shoeybi et al., "Megatron-LM", 2019, section 3): columns, then rows, then
/// the table of words.
const DECODERS: [(&str, [&str; 3]); 2] = [
    ("opt", ["(q|k|v|up)", "(o|down)", "embed_tokens"]),
    ("llama", ["(q|k|v|gate_proj|up_proj|lm_head)", "(o|down_proj)", "embed_tokens"]),
];

/// The program of a run, with so many of its layers and its whole batch.
///
/// # Errors
/// When `gen` writes no such model, or not in that precision.
pub(super) fn program(job: &Job, n_layers: usize) -> Result<GenArgs, Reason> {
    let model = &job.model;
    let refused = [
        (model.experts > 1.0, "it has experts"),
        (model.decoder_seq > 0.0, "it has an encoder and a decoder"),
        (!model.is_causal, "it is no decoder"),
        (model.latent.is_some(), "its attention is latent"),
        (model.is_frozen(), "its weights are frozen"),
        (model.vocab == 0.0, "it has no vocabulary"),
        (model.head_dim * model.heads != model.hidden, "its heads do not make up its width"),
        (!model.is_gated && model.kv_heads != model.heads, "it shares keys without a gate"),
        (job.stack.product_dtype != job.stack.dtype, "its products are in another type than the rest"),
    ];
    if let Some((_, reason)) = refused.iter().find(|(is_so, _)| *is_so) {
        return Err((*reason).to_owned());
    }
    let dtype = DType::parse(job.stack.dtype).ok_or("its precision is not one of `gen`")?;
    let (name, _) = decoder(job);
    let family = FAMILIES.iter().find(|family| family.name == name).ok_or("its family is not known")?;
    Ok(GenArgs {
        family,
        size: family.sizes[0].name.to_owned(),
        values: values(family, job, n_layers),
        settings: Settings {
            batch: (job.layout.n_microbatches * job.layout.data * job.layout.micro_batch) as i64,
            dtype,
            // What copies share out whole is the optimizer's own 32 bits (FSDP); Megatron's and DeepSpeed's
            // weights are 16-bit copies of these.
            weights: if job.layout.sharding == Sharding::Parameters { DType::F32 } else { dtype },
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

fn decoder(job: &Job) -> (&'static str, [&'static str; 3]) {
    DECODERS[usize::from(job.model.is_gated)]
}

/// The family's dimensions as the run has them, layers apart.
fn values(family: &Family, job: &Job, n_layers: usize) -> Vec<i64> {
    let model = &job.model;
    let value = |name: &str| match name {
        "layers" => Some(n_layers as f64),
        "hidden" => Some(model.hidden),
        "heads" => Some(model.heads),
        "kv-heads" => Some(model.kv_heads),
        "ffn" => Some(model.ffn),
        "vocab" => Some(model.vocab),
        "seq" => Some(model.seq),
        _ => None,
    };
    let usual = family.dims.iter().zip(family.sizes[0].values);
    usual.map(|(dim, own)| value(dim.name).map_or(*own, |it| it as i64)).collect()
}

/// What is computed again in a run, then what may be where that does not fit: kernels that fuse a loss or a
/// norm compute again what is inside, whatever the run says of layers.
pub(super) fn recomputations(job: &Job) -> &'static [&'static str] {
    match job.recompute {
        Recompute::Nothing => &["never", "auto"],
        Recompute::Layers(1.0) => &["all"],
        _ => &["auto"],
    }
}

/// The passes that keep to the degrees of a run within a stage.
pub(super) fn passes(job: &Job, recompute: &str) -> String {
    let attention = if job.stack.fuses_attention { "flash" } else { "as-written" };
    let (sharding, n_microbatches) = (sharding(job), job.layout.n_microbatches);
    format!(
        "fuse{{attention={attention}}},shard{{{sharding}}},\
         place{{stages=1,microbatches={n_microbatches},recompute={recompute}}},check"
    )
}

/// The mesh, the layouts of batch and weights on it, and what data-parallel copies may not share.
fn sharding(job: &Job) -> String {
    let layout = &job.layout;
    let axes = [("data", layout.data), ("context", layout.context), ("tensor", layout.tensor)];
    let axes: Vec<(&str, usize)> = axes.into_iter().filter(|(_, size)| *size > 1).collect();
    if axes.is_empty() {
        return String::new();
    }
    let axis = |name: &'static str| axes.iter().find(|(own, _)| *own == name).map_or("-", |_| name);
    let mesh = axes.iter().map(|(name, size)| format!("{name}={size}")).collect::<Vec<_>>().join(",");
    let (data, tensor) = (axis("data"), axis("tensor"));
    let (shared, forbid) = match job.layout.sharding {
        // Where ranks do not share the sequence, layers sum up what they hand on and scatter nothing.
        Sharding::Nothing if layout.tensor > 1 && !layout.has_sequence => ("-", "zero1+zero3+reduce-scatter"),
        Sharding::Nothing => ("-", "zero1+zero3"),
        Sharding::Optimizer | Sharding::Gradients => ("-", "zero3"),
        Sharding::Parameters => (data, ""),
    };
    let of_weights = |prefix: &str, shared: &str| {
        let [columns, rows, table] = decoder(job).1;
        [
            format!("^{prefix}params\\..*{columns}\\.kernel$=[{shared},{tensor}]"),
            format!("^{prefix}params\\..*{rows}\\.kernel$=[{tensor},{shared}]"),
            format!("^{prefix}params\\.{table}$=[{tensor},{shared}]"),
        ]
    };
    let mut pins = vec![format!("^batch\\.(input_ids|labels)$=[{data},{}]", axis("context"))];
    pins.extend(of_weights("", shared));
    let is_shared = matches!(layout.sharding, Sharding::Optimizer | Sharding::Gradients);
    if is_shared && job.model.hidden % layout.data as f64 == 0.0 {
        pins.extend(of_weights("(master|m|v)\\.", data));
    }
    format!("mesh={{{mesh}}},pin={{{}}},forbid={forbid}", pins.join(";"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use phzc_cost::training::{Layout, Model, Stack};

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

    #[test]
    fn degrees_become_a_mesh_and_layouts_of_batch_and_weights() {
        let job = job(Sharding::Nothing);
        insta::assert_snapshot!(passes(&job, "all").replace([',', ';'], "\n"), @r#"
        fuse{attention=as-written}
        shard{mesh={data=2
        tensor=4}
        pin={^batch\.(input_ids|labels)$=[data
        -]
        ^params\..*(q|k|v|up)\.kernel$=[-
        tensor]
        ^params\..*(o|down)\.kernel$=[tensor
        -]
        ^params\.embed_tokens$=[tensor
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
                passes(&job, "all").contains(&format!("^{of}.*(q|k|v|up)\\.kernel$=[data,tensor]"))
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
        job.model.experts = 8.0;
        assert_eq!(program(&job, 2).err().as_deref(), Some("it has experts"));
    }
}
