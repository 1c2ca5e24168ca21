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

/// The program of microbatches of a run, with so many of its layers.
///
/// # Errors
/// When `gen` writes no such model, or not in that precision.
pub(super) fn program(job: &Job, choice: Choice, n_layers: usize) -> Result<GenArgs, Reason> {
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
            batch: (choice.n_microbatches * job.layout.data * job.layout.micro_batch) as i64,
            dtype,
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

/// What the degrees of a run leave open.
#[derive(Clone, Copy, Debug)]
pub(super) struct Choice {
    /// Whether each copy stores its weights whole.
    is_whole: bool,
    /// Microbatches that are planned: two show what is done once per step.
    pub n_microbatches: usize,
}

/// The choices that a run leaves: per storage of its weights, numbers of microbatches in the order in which
/// they are tried.
///
/// Where copies share out the optimizer's state only, weights are whole or in parts: the weights of these
/// programs are the optimizer's 32-bit ones. Only copies have something to do once. Layouts that split the
/// batch further than the copies do leave nothing to cut in two.
pub(super) fn choices(job: &Job) -> Vec<Vec<Choice>> {
    let storages: &[bool] = match job.layout.sharding {
        Sharding::Nothing => &[true],
        Sharding::Optimizer | Sharding::Gradients => &[true, false],
        Sharding::Parameters => &[false],
    };
    let has_copies = job.layout.data * job.layout.context > 1 && job.layout.n_microbatches > 1;
    let counts: &[usize] = if has_copies { &[2, 1] } else { &[1] };
    let of =
        |&is_whole: &bool| counts.iter().map(|&n_microbatches| Choice { is_whole, n_microbatches }).collect();
    storages.iter().map(of).collect()
}

/// The passes that keep to the degrees of a run within a stage.
pub(super) fn passes(job: &Job, choice: Choice) -> String {
    let attention = if job.stack.fuses_attention { "flash" } else { "as-written" };
    let recompute = match job.recompute {
        Recompute::Nothing => "never",
        Recompute::Layers(1.0) => "all",
        _ => "auto",
    };
    let (sharding, n_microbatches) = (sharding(job, choice), choice.n_microbatches);
    format!(
        "fuse{{attention={attention}}},shard{{{sharding}}},\
         place{{stages=1,microbatches={n_microbatches},recompute={recompute}}},check"
    )
}

/// The mesh, the layouts of batch and weights on it, and what data-parallel copies may not share.
fn sharding(job: &Job, choice: Choice) -> String {
    let layout = &job.layout;
    let axes = [("data", layout.data), ("context", layout.context), ("tensor", layout.tensor)];
    let axes: Vec<(&str, usize)> = axes.into_iter().filter(|(_, size)| *size > 1).collect();
    if axes.is_empty() {
        return String::new();
    }
    let axis = |name: &'static str| axes.iter().find(|(own, _)| *own == name).map_or("-", |_| name);
    let mesh = axes.iter().map(|(name, size)| format!("{name}={size}")).collect::<Vec<_>>().join(",");
    let (data, tensor) = (axis("data"), axis("tensor"));
    let shared = if choice.is_whole { "-" } else { data };
    let [columns, rows, table] = decoder(job).1;
    let pins = [
        format!("^batch\\.(input_ids|labels)$=[{data},{}]", axis("context")),
        format!("^params\\..*{columns}\\.kernel$=[{shared},{tensor}]"),
        format!("^params\\..*{rows}\\.kernel$=[{tensor},{shared}]"),
        format!("^params\\.{table}$=[{tensor},{shared}]"),
    ];
    let forbid = if layout.sharding == Sharding::Nothing { ",forbid=zero1+zero3" } else { "" };
    format!("mesh={{{mesh}}},pin={{{}}}{forbid}", pins.join(";"))
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
        let [tries] = &choices(&job)[..] else { panic!("copies are whole") };
        insta::assert_snapshot!(passes(&job, tries[0]).replace([',', ';'], "\n"), @r#"
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
        forbid=zero1+zero3}
        place{stages=1
        microbatches=2
        recompute=all}
        check
        "#);
        assert_eq!(tries.iter().map(|it| it.n_microbatches).collect::<Vec<_>>(), [2, 1]);
    }

    #[test]
    fn copies_that_share_the_optimizer_store_weights_whole_or_in_parts() {
        let layouts = |sharding: Sharding| -> Vec<bool> {
            let job = job(sharding);
            let is_shared = |choice: &Choice| passes(&job, *choice).contains("kernel$=[data,tensor]");
            choices(&job).iter().map(|tries| is_shared(&tries[0])).collect()
        };
        assert_eq!(layouts(Sharding::Optimizer), [false, true]);
        assert_eq!(layouts(Sharding::Parameters), [true]);
    }

    #[test]
    fn a_program_has_the_dimensions_of_the_run_and_the_batch_of_its_microbatches() {
        let job = job(Sharding::Nothing);
        let made = program(&job, choices(&job)[0][0], 7).expect("a decoder");
        assert_eq!((made.family.name, made.settings.batch), ("opt", 12));
        assert_eq!(made.values[..3], [7, 64, 4]);
    }

    #[test]
    fn what_gen_does_not_write_says_why() {
        let mut job = job(Sharding::Nothing);
        job.model.experts = 8.0;
        let choice = choices(&job)[0][0];
        assert_eq!(program(&job, choice, 2).err().as_deref(), Some("it has experts"));
    }
}
