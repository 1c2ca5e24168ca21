//! Reading the models of `phzc arch`, and what is known of them already.

use super::Extract;
use super::args::ArchArgs;
use super::estimates::{self, Estimate};
use super::phaze_graph::PhazeGraph;
use super::planned::is_chain;
use phzc_arch::mapping::Cache;
use phzc_arch::model::{FORMAT, ModelGraph};
use phzc_io::render::Source;
use phzc_io::{Failure, Io, files, json};
use phzc_ir::{Diagnostic, Result};
use std::path::Path;

/// No graph is larger.
const MAX_BYTES: u64 = 1 << 30;

/// The models, and estimates of their operators.
pub(super) struct Inputs {
    /// In the order of the command line.
    pub models: Vec<ModelGraph>,
    /// By model: its part in the common figure.
    pub weights: Vec<f64>,
    /// From elsewhere.
    pub estimates: Vec<Estimate>,
    /// Mappings that were found in earlier runs.
    pub cache: Cache,
}

impl Inputs {
    /// Reads what the command line names.
    pub(super) fn read(
        args: &ArchArgs,
        extract: &Extract,
        io: &mut Io,
    ) -> std::result::Result<Inputs, Failure> {
        let weights = weights(args)?;
        let (mut models, mut graphs) = (Vec::new(), Vec::new());
        for path in &args.models {
            if is_chain(path) {
                let text = files::read(path, MAX_BYTES)?;
                let read = models_of(&text, args, &mut graphs);
                models.extend(read.map_err(|error| failure(path, text, error))?);
            } else {
                models.push(extract(path, &args.samples(), io)?);
            }
        }
        if models.len() != weights.len() {
            return Err(Diagnostic::error("there are several models in a file")
                .help("give `--weights`")
                .into());
        }
        let estimates = match &args.estimates {
            Some(path) => known(path, &graphs)?,
            None => Vec::new(),
        };
        Ok(Inputs { models, weights, estimates, cache: cache(args)? })
    }
}

fn failure(path: &Path, text: String, error: Diagnostic) -> Failure {
    Failure::new(Some(Source { name: path.display().to_string(), text }), error)
}

/// The models of a JSON file; graphs of Phaze are kept besides.
fn models_of(text: &str, args: &ArchArgs, graphs: &mut Vec<PhazeGraph>) -> Result<Vec<ModelGraph>> {
    let help = "docs/arch.md has the keys of a chain of layers";
    if text.contains(FORMAT.split(' ').next().unwrap_or(FORMAT)) {
        let lines = text.lines().filter(|line| !line.trim().is_empty());
        let models = lines.map(|line| json::read::<ModelGraph>(line, "the chain of layers", help));
        let mut models = models.collect::<Result<Vec<_>>>()?;
        models.iter().try_for_each(ModelGraph::check)?;
        models.iter_mut().try_for_each(|model| keep_only(model, &args.microbatches))?;
        return Ok(models);
    }
    let graph: PhazeGraph = json::read(text, "the graph", help)?;
    let model = graph.model(args.layers as usize, &args.samples())?;
    graphs.push(graph);
    Ok(vec![model])
}

/// Of a chain of layers, the microbatches that are asked for; all where none are.
fn keep_only(model: &mut ModelGraph, asked: &[u64]) -> Result<()> {
    let known: Vec<u64> = model.microbatches.iter().map(|it| it.samples).collect();
    if let Some(samples) = asked.iter().find(|samples| !known.contains(samples)) {
        let known = known.iter().map(u64::to_string).collect::<Vec<String>>().join(", ");
        let message = format!("`{}` has microbatches of {known} samples, and none of {samples}", model.name);
        return Err(Diagnostic::error(message)
            .help("leave `--microbatches` out, or extract the chain from the program with it"));
    }
    model.microbatches.retain(|it| asked.is_empty() || asked.contains(&it.samples));
    Ok(())
}

fn weights(args: &ArchArgs) -> Result<Vec<f64>> {
    let n = args.models.len();
    match args.weights.len() {
        0 => Ok(vec![1.0; n]),
        given if given == n => Ok(args.weights.clone()),
        given => Err(Diagnostic::error(format!("{given} weights for {n} models")).help("give one per model")),
    }
}

/// Estimates of the graph of Phaze, of which there has to be one.
fn known(path: &Path, graphs: &[PhazeGraph]) -> std::result::Result<Vec<Estimate>, Failure> {
    let [graph] = graphs else {
        let error = Diagnostic::error("`--estimates` are of one graph of Phaze");
        return Err(error.help("give one `.json` graph with `op` names as the only model").into());
    };
    let text = files::read(path, MAX_BYTES)?;
    estimates::read(&text, |samples, node| graph.work(samples, node))
        .map_err(|error| failure(path, text, error))
}

fn cache(args: &ArchArgs) -> std::result::Result<Cache, Failure> {
    match args.cache.as_deref().filter(|path| path.exists()) {
        None => Ok(Cache::default()),
        Some(path) => {
            let text = files::read(path, MAX_BYTES)?;
            Cache::from_text(&text).map_err(|error| failure(path, text, error))
        }
    }
}
