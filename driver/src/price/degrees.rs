//! Degrees of a Megatron command line against a program and a cluster: what fits, and which argument does
//! not.

use super::arguments::Arguments;
use phzc_cost::Schedule;
use phzc_ir::{Diagnostic, Result, counted};

/// Arguments about the stages of a pipeline, besides a layout.
const OF_STAGES: [&str; 4] = [
    "--decoder-first-pipeline-num-layers",
    "--decoder-last-pipeline-num-layers",
    "--num-layers-per-virtual-pipeline-stage",
    "--num-virtual-stages-per-pipeline-rank",
];

/// Characters of a layout, repeats written out.
const MAX_LAYOUT: usize = 1 << 16;

/// The degrees of a run on so many devices.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Degrees {
    pub tensor: usize,
    pub pipeline: usize,
    pub context: usize,
    pub expert: usize,
    /// Copies of the model, those that hold different experts included.
    pub data: usize,
    pub n_microbatches: usize,
}

/// Sizes of the program that a command line repeats.
#[derive(Clone, Copy, Debug)]
pub struct Sizes {
    pub batch: usize,
    pub seq: Option<usize>,
    /// Whether the batch can be had in microbatches.
    pub has_microbatches: bool,
}

/// What stages hold.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stages {
    /// Per stage, first to last.
    pub layers: Vec<usize>,
    pub schedule: Schedule,
}

/// The degrees on `n_devices`.
///
/// # Errors
/// At an argument that contradicts the cluster, the program or another one.
pub fn degrees(asked: &Arguments, n_devices: usize, sizes: Sizes) -> Result<Degrees> {
    let [tensor, pipeline, context, expert] = ["tensor-model", "pipeline-model", "context", "expert-model"]
        .map(|name| asked.number(&format!("--{name}-parallel-size")));
    if let Some(world) = asked.given("--world-size").filter(|world| world.value != n_devices) {
        let message = format!("`--world-size {}`, but the cluster has {n_devices} devices", world.value);
        return Err(Diagnostic::error(message).at(world.span).help("name a cluster of as many: `--cluster`"));
    }
    let model = tensor * pipeline * context;
    if !n_devices.is_multiple_of(model) {
        let message = format!(
            "tensor {tensor} x pipeline {pipeline} x context {context} is {model}, which does not divide {}",
            counted(n_devices, "device")
        );
        let largest =
            ["--tensor-model-parallel-size", "--pipeline-model-parallel-size", "--context-parallel-size"]
                .into_iter()
                .max_by_key(|name| (asked.number(name), name.len()));
        let name = largest.unwrap_or_default();
        let help = format!("lower `{name}`, or name a larger cluster: `--cluster`");
        return Err(asked.at(name, Diagnostic::error(message).help(help)));
    }
    let data = n_devices / model;
    if !data.is_multiple_of(expert) {
        let message = format!("{expert} groups of experts do not divide {data} data-parallel copies");
        let error = Diagnostic::error(message).help("lower `--expert-model-parallel-size`");
        return Err(asked.at("--expert-model-parallel-size", error));
    }
    expert_tensor(asked, tensor)?;
    Ok(Degrees { tensor, pipeline, context, expert, data, n_microbatches: microbatches(asked, data, sizes)? })
}

/// Experts are split as everything else is.
fn expert_tensor(asked: &Arguments, tensor: usize) -> Result<()> {
    match asked.given("--expert-tensor-parallel-size").filter(|own| own.value != tensor) {
        None => Ok(()),
        Some(own) => {
            let message =
                format!("`--expert-tensor-parallel-size {}` beside tensor {tensor} is not priced", own.value);
            Err(Diagnostic::error(message).at(own.span).help("leave it out, or make both equal"))
        }
    }
}

fn microbatches(asked: &Arguments, data: usize, sizes: Sizes) -> Result<usize> {
    let repeated =
        [("--global-batch-size", Some(sizes.batch), "samples"), ("--seq-length", sizes.seq, "places")];
    for (name, size, what) in repeated {
        let Some((given, size)) = asked.given(name).zip(size) else { continue };
        if given.value != size {
            let message = format!("`{name} {}`, but the program has {size} {what}", given.value);
            let help = "leave it out, or write the program for that size (`phzc gen` has options for it)";
            return Err(Diagnostic::error(message).at(given.span).help(help));
        }
    }
    // Without an update all samples go at once.
    let least = if sizes.has_microbatches { 1 } else { (sizes.batch / data).max(1) };
    let micro = asked.given("--micro-batch-size").map_or(least, |number| number.value);
    if sizes.batch.is_multiple_of(micro * data) {
        return at_once(asked, sizes.batch / (micro * data), sizes);
    }
    let message = format!(
        "{} of {data} data-parallel copies each do not divide a batch of {}",
        counted(micro, "sample"),
        sizes.batch
    );
    let help =
        "`--micro-batch-size` times data parallelism has to divide the batch: lower it, or have fewer copies";
    Err(asked.at("--micro-batch-size", Diagnostic::error(message).help(help)))
}

/// The forward part alone has no microbatches: nothing is summed over them.
fn at_once(asked: &Arguments, n_microbatches: usize, sizes: Sizes) -> Result<usize> {
    if sizes.has_microbatches || n_microbatches == 1 {
        return Ok(n_microbatches);
    }
    let message = format!(
        "{n_microbatches} microbatches of a program that no update makes a training step: it runs once"
    );
    let help = "leave `--micro-batch-size` out: all samples go at once";
    Err(asked.at("--micro-batch-size", Diagnostic::error(message).help(help)))
}

/// What each stage holds of so many layers.
///
/// # Errors
/// At an argument that no such stages have.
pub fn stages(asked: &Arguments, pipeline: usize, n_layers: usize) -> Result<Stages> {
    if let Some(given) = asked.given("--num-layers").filter(|given| given.value != n_layers) {
        let message = format!("`--num-layers {}`, but the program has {n_layers}", given.value);
        return Err(Diagnostic::error(message).at(given.span).help("leave it out: the program says it"));
    }
    if pipeline == 1 {
        one_stage(asked)?;
        return Ok(Stages { layers: vec![n_layers], schedule: Schedule::OneFOneB });
    }
    let layers = match &asked.layout {
        Some((text, span)) => listed(text, pipeline).map_err(|error| error.at(*span))?,
        None => split(asked, pipeline, n_layers)?,
    };
    let n_chunks = layers.len() / pipeline;
    let schedule = match n_chunks {
        1 if asked.is_gpipe => Schedule::GPipe,
        1 => Schedule::OneFOneB,
        _ => Schedule::Interleaved(n_chunks),
    };
    Ok(Stages { layers, schedule })
}

/// Without a pipeline nothing can be said of its stages.
fn one_stage(asked: &Arguments) -> Result<()> {
    let given = OF_STAGES.iter().find_map(|name| Some((*name, asked.given(name)?.span)));
    let layout = asked.layout.as_ref().map(|(_, span)| ("--pipeline-model-parallel-layout", *span));
    match given.or(layout) {
        None => Ok(()),
        Some((name, span)) => {
            let error = Diagnostic::error(format!(
                "`{name}` is about the stages of a pipeline, and there is one stage"
            ));
            Err(error.at(span).help("leave it out, or give `--pipeline-model-parallel-size`"))
        }
    }
}

/// Equal stages, but for the first and the last of a pipeline where they are given.
fn split(asked: &Arguments, pipeline: usize, n_layers: usize) -> Result<Vec<usize>> {
    let ends = [OF_STAGES[0], OF_STAGES[1]];
    let [first, last] = ends.map(|name| asked.given(name).map(|number| number.value));
    let n_inner = pipeline - usize::from(first.is_some()) - usize::from(last.is_some());
    let given = first.unwrap_or(0) + last.unwrap_or(0);
    if given > n_layers {
        let name = ends[usize::from(first.is_none())];
        let stages = match (first, last) {
            (Some(_), Some(_)) => "first and last stages hold",
            (Some(_), None) => "a first stage holds",
            _ => "a last stage holds",
        };
        let message = format!("{stages} {}, but the program has {n_layers}", counted(given, "layer"));
        let help = format!("lower `{name}`, or write the program with more layers (`phzc gen --layers`)");
        return Err(asked.at(name, Diagnostic::error(message).help(help)));
    }
    let left = n_layers.checked_sub(given).filter(|left| *left == 0 || n_inner > 0);
    let Some(inner) = left.filter(|left| n_inner == 0 || left.is_multiple_of(n_inner)) else {
        let message = format!(
            "{} do not divide into {}",
            counted(n_layers - given.min(n_layers), "layer"),
            counted(n_inner, "equal stage")
        );
        let name =
            if given > 0 { ends[usize::from(first.is_none())] } else { "--pipeline-model-parallel-size" };
        let help = "`--pipeline-model-parallel-layout` gives each stage a number of its own";
        return Err(asked.at(name, Diagnostic::error(message).help(help)));
    };
    let each = inner.checked_div(n_inner).unwrap_or(0);
    let mut of_ranks = vec![each; pipeline];
    of_ranks[0] = first.unwrap_or(each);
    of_ranks[pipeline - 1] = last.unwrap_or(each);
    chunks(asked, &of_ranks)
}

/// The layers of each rank in virtual stages: those of all ranks' first chunks, then of their second.
fn chunks(asked: &Arguments, of_ranks: &[usize]) -> Result<Vec<usize>> {
    let (per_chunk, per_rank) = (OF_STAGES[2], OF_STAGES[3]);
    let n_chunks = match (asked.given(per_chunk), asked.given(per_rank)) {
        (Some(_), Some(both)) => {
            let error =
                Diagnostic::error(format!("both `{per_chunk}` and `{per_rank}` are given")).at(both.span);
            return Err(error.help("leave one of them out"));
        }
        (Some(layers), None) if of_ranks[0].is_multiple_of(layers.value) => of_ranks[0] / layers.value,
        (Some(layers), None) => {
            let message = format!(
                "{} per virtual stage do not divide the {} of a rank",
                counted(layers.value, "layer"),
                counted(of_ranks[0], "layer")
            );
            let help = "ask for a number that divides each rank's layers";
            return Err(Diagnostic::error(message).at(layers.span).help(help));
        }
        (None, Some(chunks)) => chunks.value,
        (None, None) => 1,
    };
    if of_ranks.iter().all(|layers| layers.is_multiple_of(n_chunks)) {
        return Ok((0..n_chunks)
            .flat_map(|_| of_ranks.iter().map(move |layers| layers / n_chunks))
            .collect());
    }
    let name = if asked.given(per_chunk).is_some() { per_chunk } else { per_rank };
    let message = format!("{of_ranks:?} layers do not divide into {n_chunks} virtual stages per rank");
    Err(asked.at(name, Diagnostic::error(message).help("ask for a number that divides each rank's layers")))
}

/// The layers of each stage of a layout, `Et*2|(tt|)*3tL`.
fn listed(text: &str, pipeline: usize) -> Result<Vec<usize>> {
    let plain = unrolled(&text.replace([',', ' '], ""))?;
    let stages: Vec<&str> = plain.split('|').collect();
    if let Some(wrong) = plain.chars().find(|c| !"EtL|".contains(*c)) {
        let error = Diagnostic::error(format!("`{wrong}` is no part of a layout that is priced"));
        return Err(error.help("E is the embedding, t a layer, L the loss, | the end of a stage"));
    }
    let is_legal = plain.starts_with('E') && plain.ends_with('L') && plain.matches(['E', 'L']).count() == 2;
    if !is_legal || !stages.len().is_multiple_of(pipeline) {
        let message = format!(
            "a layout of {} for {pipeline} ranks has to begin with E, end with L and have a multiple of {pipeline} stages",
            counted(stages.len(), "stage")
        );
        return Err(Diagnostic::error(message).help("for example `Ett|tttL` for two ranks"));
    }
    Ok(stages.iter().map(|stage| stage.matches('t').count()).collect())
}

/// `(ab)*2` and `a*2` written out, as Megatron does.
fn unrolled(text: &str) -> Result<String> {
    let wrong = || Diagnostic::error("a repeat in the layout is `t*4` or `(tt|)*4`").help("`Et*3|t*4L`");
    let mut plain = text.to_owned();
    // A repeat is written out at each turn; no layout has more of them than characters.
    for _ in 0..text.len() {
        let Some(star) = plain.find('*') else { return Ok(plain) };
        let digits = plain[star + 1..].bytes().take_while(u8::is_ascii_digit).count();
        let count: usize =
            plain[star + 1..][..digits].parse().ok().filter(|n| *n <= 4096).ok_or_else(wrong)?;
        let before = &plain[..star];
        let (start, group) = match before.strip_suffix(')') {
            Some(open) => {
                let start = open.rfind('(').ok_or_else(wrong)?;
                (start, open[start + 1..].to_owned())
            }
            None => {
                let last = before.chars().last().filter(char::is_ascii_alphabetic).ok_or_else(wrong)?;
                (star - 1, last.to_string())
            }
        };
        if group.len() * count + plain.len() > MAX_LAYOUT {
            return Err(Diagnostic::error("the layout is too long").help("no model has so many layers"));
        }
        plain = format!("{}{}{}", &plain[..start], group.repeat(count), &plain[star + 1 + digits..]);
    }
    if plain.contains('*') { Err(wrong()) } else { Ok(plain) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(text: &str) -> Arguments {
        Arguments::parse(text).expect("legal arguments")
    }

    fn layers(text: &str, pipeline: usize, n_layers: usize) -> String {
        stages(&asked(text), pipeline, n_layers)
            .map_or_else(|error| error.message.to_string(), |it| format!("{:?} {}", it.layers, it.schedule))
    }

    const SIZES: Sizes = Sizes { batch: 64, seq: Some(1024), has_microbatches: true };

    #[test]
    fn what_is_left_of_the_devices_is_data_parallel() {
        let text = "--tensor-model-parallel-size 2 --pipeline-model-parallel-size 2 --micro-batch-size 4";
        let found = degrees(&asked(text), 16, SIZES).expect("they divide");
        assert_eq!((found.data, found.n_microbatches), (4, 4));
    }

    #[test]
    fn contradictions_name_their_argument() {
        let said = |text: &str| {
            let error = degrees(&asked(text), 16, SIZES).expect_err("a contradiction");
            let span = error.span.expect("a place");
            assert_eq!(&text[span.start as usize..span.end as usize], text);
            error.message
        };
        assert_eq!(
            said("--tensor-model-parallel-size 3"),
            "tensor 3 x pipeline 1 x context 1 is 3, which does not divide 16 devices"
        );
        assert_eq!(
            said("--global-batch-size 65"),
            "`--global-batch-size 65`, but the program has 64 samples"
        );
        assert_eq!(
            said("--expert-model-parallel-size 3"),
            "3 groups of experts do not divide 16 data-parallel copies"
        );
        assert_eq!(said("--seq-length 7"), "`--seq-length 7`, but the program has 1024 places");
        assert_eq!(
            said("--micro-batch-size 3"),
            "3 samples of 16 data-parallel copies each do not divide a batch of 64"
        );
        assert_eq!(said("--world-size 8"), "`--world-size 8`, but the cluster has 16 devices");
    }

    #[test]
    fn layers_are_dealt_out_as_megatron_does() {
        assert_eq!(layers("", 2, 8), "[4, 4] 1f1b");
        assert_eq!(layers("--decoder-first-pipeline-num-layers 2", 4, 8), "[2, 2, 2, 2] 1f1b");
        let both = "--decoder-first-pipeline-num-layers 3 --decoder-last-pipeline-num-layers 5";
        assert_eq!(layers(both, 2, 8), "[3, 5] 1f1b");
        assert_eq!(layers("--num-layers-per-virtual-pipeline-stage 2", 2, 8), "[2, 2, 2, 2] interleaved:2");
        assert_eq!(
            layers("--num-virtual-stages-per-pipeline-rank 4", 2, 8),
            "[1, 1, 1, 1, 1, 1, 1, 1] interleaved:4"
        );
        assert_eq!(
            layers("--pipeline-model-parallel-layout Et*3|(tt|)*2tL", 2, 8),
            "[3, 2, 2, 1] interleaved:2"
        );
    }

    #[test]
    fn stages_that_no_layers_fill_are_refused() {
        let wrong = layers("--pipeline-model-parallel-layout Et|t|tL", 2, 3);
        assert!(wrong.starts_with("a layout of 3 stages for 2 ranks has to begin with E"), "{wrong}");
        let wrong = layers("--pipeline-model-parallel-layout Etx|tL", 2, 3);
        assert_eq!(wrong, "`x` is no part of a layout that is priced");
        let wrong = layers("--num-virtual-stages-per-pipeline-rank 3", 2, 8);
        assert_eq!(wrong, "[4, 4] layers do not divide into 3 virtual stages per rank");
        let wrong = layers("--num-layers-per-virtual-pipeline-stage 3", 2, 8);
        assert_eq!(wrong, "3 layers per virtual stage do not divide the 4 layers of a rank");
        let wrong = layers("--pipeline-model-parallel-layout Et|tL", 1, 8);
        assert!(wrong.starts_with("`--pipeline-model-parallel-layout` is about the stages"), "{wrong}");
        assert_eq!(layers("--num-layers 9", 2, 8), "`--num-layers 9`, but the program has 8");
        assert_eq!(layers("", 3, 8), "8 layers do not divide into 3 equal stages");
    }
}
