//! Models with experts: what a row does not say of their widths follows from published configurations, from
//! its number of parameters, or not at all.

use super::csv::Record;
use super::job::{Expressed, Numbers};
use phzc_cost::training::{Latent, Model};

/// A published configuration (`config.json` on huggingface.co), found by its numbers: the width, experts and
/// experts of a token are those of one family only.
struct Published {
    name: &'static str,
    layers: usize,
    hidden: f64,
    experts: f64,
    top_k: f64,
    /// `moe_intermediate_size`.
    expert_ffn: f64,
    /// `n_shared_experts` times their width, or `shared_expert_intermediate_size`.
    shared_ffn: f64,
    /// `first_k_dense_replace`.
    dense_layers: usize,
    /// `head_dim`, or both parts of it; zero: the width over the heads.
    head_dim: f64,
    latent: Option<Latent>,
}

const fn published(
    name: &'static str,
    layers: usize,
    [hidden, experts, top_k]: [f64; 3],
    expert_ffn: f64,
) -> Published {
    Published {
        name,
        layers,
        hidden,
        experts,
        top_k,
        expert_ffn,
        shared_ffn: 0.0,
        dense_layers: 0,
        head_dim: 0.0,
        latent: None,
    }
}

/// `q_lora_rank`, `kv_lora_rank` 512, `qk_rope_head_dim` 64, `v_head_dim` 128 of all DeepSeek-V2 and V3.
const fn latent(query_rank: f64) -> Option<Latent> {
    Some(Latent { query_rank, kv_rank: 512.0, rotated: 64.0, value_dim: 128.0 })
}

static PUBLISHED: [Published; 17] = [
    Published {
        shared_ffn: 3072.0,
        dense_layers: 1,
        head_dim: 192.0,
        latent: latent(1536.0),
        ..published("DeepSeek-V2", 60, [5120.0, 160.0, 6.0], 1536.0)
    },
    Published {
        shared_ffn: 2816.0,
        dense_layers: 1,
        head_dim: 192.0,
        latent: latent(0.0),
        ..published("DeepSeek-V2-Lite", 27, [2048.0, 64.0, 6.0], 1408.0)
    },
    Published {
        shared_ffn: 2816.0,
        dense_layers: 1,
        ..published("DeepSeekMoE-16B", 28, [2048.0, 64.0, 6.0], 1408.0)
    },
    Published {
        shared_ffn: 2048.0,
        dense_layers: 3,
        head_dim: 192.0,
        latent: latent(1536.0),
        ..published("DeepSeek-V3", 61, [7168.0, 256.0, 8.0], 2048.0)
    },
    Published {
        shared_ffn: 2048.0,
        dense_layers: 1,
        head_dim: 192.0,
        latent: latent(1536.0),
        ..published("Kimi-K2", 61, [7168.0, 384.0, 8.0], 2048.0)
    },
    Published { head_dim: 128.0, ..published("Qwen3-30B-A3B", 48, [2048.0, 128.0, 8.0], 768.0) },
    Published { head_dim: 128.0, ..published("Qwen3-235B-A22B", 94, [4096.0, 128.0, 8.0], 1536.0) },
    Published { shared_ffn: 20480.0, ..published("Qwen2-57B-A14B", 28, [3584.0, 64.0, 8.0], 2560.0) },
    Published { shared_ffn: 5632.0, ..published("Qwen1.5-MoE-A2.7B", 24, [2048.0, 60.0, 4.0], 1408.0) },
    published("Mixtral-8x7B", 32, [4096.0, 8.0, 2.0], 14336.0),
    published("Mixtral-8x22B", 56, [6144.0, 8.0, 2.0], 16384.0),
    Published { head_dim: 64.0, ..published("gpt-oss-120b", 36, [2880.0, 128.0, 4.0], 2880.0) },
    Published { head_dim: 64.0, ..published("gpt-oss-20b", 24, [2880.0, 32.0, 4.0], 2880.0) },
    Published {
        shared_ffn: 1408.0,
        dense_layers: 1,
        head_dim: 128.0,
        ..published("GLM-4.5-Air", 46, [4096.0, 128.0, 8.0], 1408.0)
    },
    Published {
        shared_ffn: 1536.0,
        dense_layers: 3,
        head_dim: 128.0,
        ..published("GLM-4.5", 92, [5120.0, 160.0, 8.0], 1536.0)
    },
    published("OLMoE-1B-7B", 16, [2048.0, 64.0, 8.0], 1024.0),
    published("DBRX", 40, [6144.0, 16.0, 4.0], 10752.0),
];

/// How far a stated number of parameters may be from that of the dimensions.
const PARAMS_TOLERANCE: f64 = 0.05;
/// Widths are multiples of it.
const WIDTH_STEP: f64 = 64.0;
/// Experts of a token up to which an expert is as wide as the dense part that it replaces (GShard, Switch,
/// Mixtral); more experts of a token are narrower (Dai et al., "DeepSeekMoE", 2024).
const MOST_WIDE: f64 = 2.0;

/// Widths of experts, dense layers and attention of a model with experts: what the row states, a published
/// configuration of the same numbers, or the width that gives `params_b`.
pub(super) fn complete(
    row: Record,
    numbers: &Numbers,
    model: &mut Model,
    assumed: &mut Vec<String>,
) -> Expressed<()> {
    if model.top_k > model.experts {
        return Err(format!("a token visits {} of {} experts", model.top_k, model.experts));
    }
    let known = same(model);
    if let Some(known) = known {
        (model.expert_ffn, model.shared_ffn) = (known.expert_ffn, known.shared_ffn);
        (model.dense_layers, model.latent) = (known.dense_layers, known.latent);
        model.head_dim = if known.head_dim > 0.0 { known.head_dim } else { model.head_dim };
    }
    state(numbers, model);
    if row.text("arch").contains("mla") && model.latent.is_none() {
        return Err("the widths of its latent attention are not stated".to_owned());
    }
    match (numbers.expert_ffn, known, numbers.params_b) {
        (Some(_), ..) => {}
        (None, Some(known), _) => {
            assumed.push(format!("experts {} wide as in {}", model.expert_ffn, known.name))
        }
        (None, None, Some(billions)) => solve(model, 1e9 * billions, assumed)?,
        (None, None, None) if model.top_k <= MOST_WIDE => {
            assumed.push(format!("experts {} wide as `ffn`", model.expert_ffn));
        }
        (None, None, None) => return Err("the width of its experts is not stated: `expert_ffn`".to_owned()),
    }
    check(model, numbers)
}

/// The published model of the same numbers; among several of the same depth.
fn same(model: &Model) -> Option<&'static Published> {
    let key = [model.hidden, model.experts, model.top_k];
    let alike = || PUBLISHED.iter().filter(move |it| [it.hidden, it.experts, it.top_k] == key);
    alike().find(|it| it.layers == model.layers).or_else(|| alike().next())
}

/// What the row states itself.
fn state(numbers: &Numbers, model: &mut Model) {
    model.expert_ffn = numbers.expert_ffn.unwrap_or(model.expert_ffn);
    model.shared_ffn = numbers.shared_experts.map_or(model.shared_ffn, |n| n * model.expert_ffn);
    model.dense_layers = numbers.dense_layers.map_or(model.dense_layers, |n| n as usize);
    model.head_dim = numbers.head_dim.unwrap_or(model.head_dim);
}

/// The experts' width: `ffn` where that gives the parameters, else the one that does.
fn solve(model: &mut Model, params: f64, assumed: &mut Vec<String>) -> Expressed<()> {
    if miss(model, params) <= PARAMS_TOLERANCE {
        return Ok(());
    }
    let of = |width: f64| Model { expert_ffn: width, ..model.clone() }.params();
    let width = (params - of(0.0)) / (of(1.0) - of(0.0));
    let width = WIDTH_STEP * (width / WIDTH_STEP).round();
    if width < WIDTH_STEP {
        return Err(contradiction(model, params));
    }
    model.expert_ffn = width;
    assumed.push(format!("experts {width} wide by `params_b`"));
    Ok(())
}

fn check(model: &Model, numbers: &Numbers) -> Expressed<()> {
    match numbers.params_b.map(|billions| 1e9 * billions) {
        Some(params) if miss(model, params) > PARAMS_TOLERANCE => Err(contradiction(model, params)),
        _ => Ok(()),
    }
}

/// How far that many parameters are from those of the model, with a head of its own or the embedding's.
fn miss(model: &Model, params: f64) -> f64 {
    let whole = model.params();
    let counts = [whole, whole - model.embedding_params()];
    counts.into_iter().map(|count| (count / params - 1.0).abs()).fold(f64::INFINITY, f64::min)
}

fn contradiction(model: &Model, params: f64) -> String {
    let given = model.params() / 1e9;
    format!("its dimensions give {given:.1} billion parameters, `params_b` says {}", params / 1e9)
}

#[cfg(test)]
mod tests {
    use super::super::csv::Table;
    use super::super::model;
    use super::*;

    const HEADER: &str = "arch,params_b,layers,hidden,ffn,heads,kv_heads,seq,vocab,experts,topk,expert_ffn,shared_experts,dense_layers";

    fn read(row: &str) -> Expressed<(Model, Vec<String>)> {
        let table = Table::parse(&format!("{HEADER}\n{row}\n")).expect("a table");
        let row = table.records().next().expect("a row");
        model::model(row, &Numbers::read(row).expect("numbers"))
    }

    #[test]
    fn widths_are_stated_or_those_of_a_published_model_of_the_same_numbers() {
        let (model, assumed) = read("moe,,4,5120,12288,128,128,4096,102400,160,6,,,").expect("a model");
        assert_eq!((model.expert_ffn, model.shared_ffn, model.dense_layers), (1536.0, 3072.0, 1));
        assert!(model.latent.is_some() && model.head_dim == 192.0);
        assert_eq!(assumed, ["experts 1536 wide as in DeepSeek-V2"]);
        let (model, assumed) = read("moe,,4,5120,12288,128,128,4096,102400,160,6,640,3,2").expect("a model");
        assert_eq!((model.expert_ffn, model.shared_ffn, model.dense_layers), (640.0, 1920.0, 2));
        assert_eq!(assumed, Vec::<String>::new());
    }

    #[test]
    fn a_width_that_nobody_states_is_the_one_that_gives_the_parameters() {
        let row = |params: &str| read(&format!("moe,{params},48,2048,6144,16,4,4096,151936,96,8,,,"));
        let (model, assumed) = row("23").expect("a model");
        assert_eq!((model.expert_ffn, assumed), (768.0, vec!["experts 768 wide by `params_b`".to_owned()]));
        assert_eq!(
            row("0.2").unwrap_err(),
            "its dimensions give 175.1 billion parameters, `params_b` says 0.2"
        );
        assert!(row("").unwrap_err().contains("`expert_ffn`"));
        // One or two experts of a token are as wide as the dense part.
        let (model, _) = read("moe,,48,2048,6144,16,4,4096,151936,96,2,,,").expect("a model");
        assert_eq!(model.expert_ffn, 6144.0);
    }

    #[test]
    fn what_the_parameters_contradict_is_refused() {
        let row = |params: &str| read(&format!("moe,{params},32,4096,14336,32,8,4096,32000,8,2,,,"));
        assert!(row("46.7").is_ok() && row("48").is_ok());
        assert_eq!(row("60").unwrap_err(), "its dimensions give 46.7 billion parameters, `params_b` says 60");
        let unknown = read("moe-mla,,4,5000,12288,128,128,4096,102400,160,2,,,").unwrap_err();
        assert!(unknown.contains("latent attention"), "{unknown}");
    }
}
