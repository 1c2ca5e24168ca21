//! The samples of a step and the places of one: of its data, or, where no update says what is data, of what
//! the step gets done.

use phzc_passes::batch::{batch_size, data};
use phzc_passes::graph::Graph;
use phzc_passes::report::Throughput;

/// How large a step is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Sample {
    /// Samples.
    pub batch: usize,
    /// Places of a sample, where data have them.
    pub places: Option<i64>,
    /// Whether the batch can be had in microbatches: the forward part alone is one.
    pub has_microbatches: bool,
}

/// The size of a step that gets something done.
pub(crate) fn sample(graph: &Graph, done: Option<&Throughput>) -> Sample {
    let tokens = done.and_then(|it| it.tokens_per_step);
    let inputs = graph.tensors.iter().filter(|tensor| tensor.param.is_some() && tensor.dims.len() > 1);
    let n_elements = |dims: &[i64]| dims.iter().product::<i64>() as u64;
    let given = inputs.map(|tensor| &tensor.dims[..]).find(|dims| Some(n_elements(dims)) == tokens);
    let samples = given.map(|dims| dims[0] as u64).or_else(|| done.and_then(|it| it.samples_per_step));
    Sample {
        batch: batch_size(graph).max(samples.unwrap_or(1) as usize),
        places: given.map(|dims| dims[1]).or_else(|| widest(graph).filter(|_| tokens.is_some())),
        has_microbatches: data(graph).next().is_some(),
    }
}

/// The most places that data have.
pub(crate) fn widest(graph: &Graph) -> Option<i64> {
    data(graph).filter_map(|id| graph.tensors[id as usize].dims.get(1).copied()).max()
}
