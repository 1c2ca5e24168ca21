//! The model of a row: its dimensions, and what follows from them where the row does not say it.

use super::csv::Record;
use super::experts;
use super::job::{Expressed, Numbers};
use phzc_cost::training::Model;

/// Families that are no stack of transformer layers.
const OTHERS: [&str; 9] = ["resnet", "unet", "dit", "vit", "whisper", "clip", "mamba", "hybrid", "rwkv"];
/// Families whose feed-forward part has two products and no gate. Asked only where a row's numbers leave it
/// open.
const UNGATED: [&str; 11] =
    ["gpt", "mpt", "bert", "bloom", "opt", "palm", "falcon", "nemotron", "megatron", "turing", "phi"];
/// Families that have a gate. Asked where `UNGATED` is.
const GATED: [&str; 10] =
    ["llama", "mistral", "mixtral", "gemma", "qwen", "deepseek", "grok", "t5", "mt5", "yi"];
/// Families that were trained with dropout.
const DROPOUT: [&str; 7] = ["gpt", "bert", "opt", "megatron", "turing", "t5", "mt5"];
/// Families with an encoder: positions see those after them.
const ENCODERS: [&str; 4] = ["bert", "roberta", "t5", "mt5"];
/// Positions of the decoder that NeMo's and Megatron's configurations of T5 have (`seq_length_dec`,
/// `--decoder-seq-length`).
const DECODER_SEQ: f64 = 128.0;
/// Rank of NeMo's adapters (`lora_tuning.adapter_dim`), which lie beside the projection into attention.
const ADAPTER_RANK: f64 = 32.0;
/// How far from the stated number of parameters, rounded as it is, a model that has them may be.
const PARAMS_TOLERANCE: f64 = 0.1;

/// The model of a row, and what was assumed of it.
pub(super) fn model(row: Record, numbers: &Numbers) -> Expressed<(Model, Vec<String>)> {
    let family = row.text("arch").to_lowercase();
    let is_of = |families: &[&str]| families.iter().any(|name| family.starts_with(name));
    if is_of(&OTHERS) {
        return Err(format!("its family is `{family}`"));
    }
    let known = |value: Option<f64>, name: &str| {
        value.filter(|v| *v > 0.0).ok_or_else(|| format!("its {name} is not stated"))
    };
    let (hidden, heads) = (known(numbers.hidden, "hidden size")?, known(numbers.heads, "number of heads")?);
    let mut assumed = Vec::new();
    let (layers, decoder_seq) = layers(row, numbers, &mut assumed)?;
    let has_lora = ["model", "notes"].iter().any(|column| row.text(column).contains("LoRA"));
    let vocab = numbers.vocab.or(noted(row, "k vocab").map(|thousands| 1e3 * thousands)).unwrap_or(0.0);
    let vocab = padded(vocab, numbers.tp.unwrap_or(1.0));
    let gpt = Model::gpt(layers, hidden, heads, known(numbers.seq, "sequence length")?, vocab);
    let ffn = numbers.ffn.unwrap_or(gpt.ffn);
    let mut model = Model {
        ffn,
        kv_heads: numbers.kv_heads.unwrap_or(heads),
        experts: numbers.experts.unwrap_or(1.0).max(1.0),
        top_k: numbers.top_k.unwrap_or(1.0).max(1.0),
        expert_ffn: ffn,
        is_causal: !is_of(&ENCODERS),
        has_dropout: is_of(&DROPOUT),
        decoder_seq,
        adapter_rank: if has_lora { ADAPTER_RANK } else { 0.0 },
        ..gpt
    };
    if model.is_frozen() {
        assumed.push(format!("adapters of rank {ADAPTER_RANK} beside the projections into attention"));
    }
    let family = is_of(&GATED).then_some(true).or(is_of(&UNGATED).then_some(false));
    if model.experts > 1.0 {
        model.is_gated = family.unwrap_or(true);
        experts::complete(row, numbers, &mut model, &mut assumed)?;
    } else {
        gate(&mut model, numbers, family, &mut assumed);
    }
    Ok((model, assumed))
}

/// Layers, and positions of the decoder if there is one: `24+24` are an encoder's and a decoder's.
fn layers(row: Record, numbers: &Numbers, assumed: &mut Vec<String>) -> Expressed<(usize, f64)> {
    let text = row.text("layers");
    let Some((encoder, decoder)) = text.split_once('+') else {
        return match numbers.layers.filter(|n| *n > 0.0) {
            Some(layers) => Ok((layers as usize, 0.0)),
            None => Ok((by_params(numbers, assumed).ok_or("its number of layers is not stated")?, 0.0)),
        };
    };
    let count = |text: &str| text.trim().parse::<usize>().ok().filter(|n| *n > 0);
    match (count(encoder), count(decoder)) {
        (Some(encoder), Some(decoder)) if encoder == decoder => {
            let seq = noted(row, "decoder positions");
            if seq.is_none() {
                assumed.push(format!("{DECODER_SEQ} positions of the decoder"));
            }
            Ok((encoder, seq.unwrap_or(DECODER_SEQ)))
        }
        _ => Err(format!("its layers are `{text}`: one number, or an encoder and a decoder alike")),
    }
}

/// A vocabulary that tensor-parallel devices cannot share in aligned parts is padded to 128 words a device
/// (Megatron-LM, `--make-vocab-size-divisible-by`).
fn padded(vocab: f64, tensor: f64) -> f64 {
    let is_shared = tensor <= 1.0 || vocab % (8.0 * tensor) == 0.0;
    if is_shared { vocab } else { 128.0 * tensor * (vocab / (128.0 * tensor)).ceil() }
}

/// The layers that give `params_b`, as many in each stage, beside one embedding: of layers without a gate
/// unless `ffn` is not four times the width.
fn by_params(numbers: &Numbers, assumed: &mut Vec<String>) -> Option<usize> {
    let (params, hidden, heads) = (1e9 * numbers.params_b?, numbers.hidden?, numbers.heads?);
    if numbers.experts.is_some_and(|n| n > 1.0) {
        return None;
    }
    let gpt = Model::gpt(1, hidden, heads, 1.0, numbers.vocab.unwrap_or(0.0));
    let ffn = numbers.ffn.unwrap_or(gpt.ffn);
    let kv_heads = numbers.kv_heads.unwrap_or(heads);
    let one = Model { is_gated: ffn != 4.0 * hidden, ffn, kv_heads, ..gpt };
    let n_stages = numbers.pp.unwrap_or(1.0).max(1.0);
    let layers = (params - one.embedding_params()) / one.layer_params();
    let layers = n_stages * (layers / n_stages).round();
    assumed.push(format!("{layers} layers by `params_b`"));
    (layers >= 1.0).then_some(layers as usize)
}

/// The number before a word of the remarks: `250k vocab`.
fn noted(row: Record, word: &str) -> Option<f64> {
    let before = row.text("notes").split_once(word)?.0.trim_end();
    let digits = before.rsplit(|c: char| !c.is_ascii_digit()).next()?;
    digits.parse().ok().filter(|value: &f64| *value > 0.0)
}

/// Whether the feed-forward part has a gate: what gives the stated number of parameters; else as wide as four
/// times the model means none, for a third product makes it narrower (Shazeer, "GLU variants", 2020); else
/// what the family has.
fn gate(model: &mut Model, numbers: &Numbers, family: Option<bool>, assumed: &mut Vec<String>) {
    let params = numbers.params_b.map(|billions| 1e9 * billions);
    if let Some(is_gated) = params.and_then(|params| gate_of_params(model, params)) {
        model.is_gated = is_gated;
    } else if let Some(ffn) = numbers.ffn.filter(|ffn| *ffn > 0.0) {
        model.is_gated = ffn != 4.0 * model.hidden;
        if family.is_some_and(|family| family != model.is_gated) {
            assumed.push(format!("{} by its width", with_gate(model.is_gated)));
        }
    } else {
        model.is_gated = family.unwrap_or(true);
        // Three products as large as two of four times the width.
        model.ffn = if model.is_gated { 8.0 / 3.0 * model.hidden } else { model.ffn };
        assumed.push(format!("inner width {:.0} {}", model.ffn, with_gate(model.is_gated)));
    }
}

fn with_gate(is_gated: bool) -> &'static str {
    if is_gated { "with a gate" } else { "without a gate" }
}

/// With or without: what comes nearer to that many parameters, if it is near. The head may be the embedding's
/// transpose.
fn gate_of_params(model: &Model, params: f64) -> Option<bool> {
    let miss = |is_gated: bool| {
        let whole = Model { is_gated, ..model.clone() }.params();
        let tied = whole - model.embedding_params();
        [whole, tied].map(|count| (count / params).ln().abs()).into_iter().fold(f64::INFINITY, f64::min)
    };
    let (without, with) = (miss(false), miss(true));
    (without.min(with) < PARAMS_TOLERANCE && without != with).then_some(with < without)
}

#[cfg(test)]
mod tests {
    use super::super::csv::Table;
    use super::*;

    fn read(arch: &str, params: &str, layers: &str, ffn: &str) -> Expressed<(Model, Vec<String>)> {
        let header = "arch,params_b,layers,hidden,ffn,heads,kv_heads,seq,vocab";
        let text = format!("{header}\n{arch},{params},{layers},4096,{ffn},32,32,2048,32000\n");
        let table = Table::parse(&text).expect("a table");
        let row = table.records().next().expect("a row");
        model(row, &Numbers::read(row).expect("numbers"))
    }

    fn is_gated(arch: &str, params: &str, ffn: &str) -> bool {
        read(arch, params, "32", ffn).expect("a model").0.is_gated
    }

    #[test]
    fn numbers_tell_whether_there_is_a_gate_and_the_family_only_where_they_do_not() {
        assert!(is_gated("gpt", "6.7", "11008") && !is_gated("llama", "5.3", "11008"), "by parameters");
        assert!(is_gated("novel", "", "11008") && !is_gated("novel", "", "16384"), "by the width");
        assert!(!is_gated("gpt", "", "") && is_gated("llama", "", ""), "by the family");
        assert!(!is_gated("gpt", "600", "16384"), "parameters that do not fit are not believed");
    }

    #[test]
    fn what_numbers_leave_open_is_said() {
        let assumed = |arch: &str, ffn: &str| read(arch, "", "32", ffn).expect("a model").1;
        assert_eq!(assumed("llama", "11008"), Vec::<String>::new());
        assert_eq!(assumed("novel", ""), ["inner width 10923 with a gate"]);
        assert_eq!(assumed("gpt", "11008"), ["with a gate by its width"]);
    }

    #[test]
    fn layers_follow_from_parameters_where_they_are_blank() {
        let (model, assumed) = read("gpt", "6.7", "", "16384").expect("a model");
        assert_eq!((model.layers, assumed), (33, vec!["33 layers by `params_b`".to_owned()]));
        assert!(read("gpt", "", "", "16384").is_err());
    }

    #[test]
    fn a_vocabulary_is_padded_where_devices_share_it_unevenly() {
        assert_eq!([padded(50257.0, 1.0), padded(50257.0, 8.0)], [50257.0, 51200.0]);
        assert_eq!([padded(50304.0, 2.0), padded(0.0, 8.0)], [50304.0, 0.0]);
    }

    #[test]
    fn an_encoder_and_a_decoder_have_to_be_alike() {
        let (model, assumed) = read("t5", "", "24+24", "16384").expect("a model");
        assert_eq!((model.layers, model.decoder_seq), (24, 128.0));
        assert!(assumed.contains(&"128 positions of the decoder".to_owned()));
        assert!(read("t5", "", "24+12", "16384").is_err() && read("t5", "", "+", "16384").is_err());
    }
}
