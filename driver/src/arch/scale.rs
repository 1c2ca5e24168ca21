//! Sizes at another number of samples: dimensions that run over the batch grow with it.

use phzc_ir::rule::Rule;
use phzc_ir::{DType, Diagnostic, Result};
use phzc_passes::batch::{batch_dims_of, data, gcd};
use phzc_passes::graph::{Graph, Node, Tensor, TensorId};

/// Which dimensions run over the batch, and the program's own number of samples.
pub(super) struct Batch {
    /// By tensor: a bit per dimension.
    dims: Vec<u64>,
    samples: i64,
    /// By tensor: whether it depends on data.
    pub has_data: Vec<bool>,
}

impl Batch {
    /// Finds the batch: of inputs that no output replaces, or else of those that are integers, or else of the
    /// first one.
    ///
    /// # Errors
    /// Where there is no input.
    pub fn find(graph: &Graph) -> Result<Batch> {
        let data = data_of(graph);
        let samples = data.iter().map(|id| graph.tensors[*id as usize].dims[0]).fold(0, gcd).max(1);
        if data.is_empty() {
            let error =
                Diagnostic::error("the program has no input whose first dimension could be the batch");
            return Err(error.help("give a program that takes its data as an array"));
        }
        let has_data = has_data(graph, &data);
        Ok(Batch { dims: batch_dims_of(graph, data.into_iter()), samples, has_data })
    }

    /// The program's own number of samples.
    pub fn samples(&self) -> u64 {
        self.samples.unsigned_abs()
    }

    /// So many samples as a part of the program's own.
    pub fn share(&self, samples: u64) -> f64 {
        samples as f64 / self.samples as f64
    }

    /// A dimension's size for so many samples.
    fn size(&self, size: i64, samples: u64) -> i64 {
        let scaled = i128::from(size) * i128::from(samples) / i128::from(self.samples);
        i64::try_from(scaled.max(1)).unwrap_or(i64::MAX)
    }

    /// Elements of a tensor for so many samples.
    pub fn n_elements(&self, graph: &Graph, id: TensorId, samples: u64) -> u64 {
        let bits = self.dims[id as usize];
        let sizes = graph.tensors[id as usize].dims.iter().enumerate().map(|(dim, size)| {
            let is_batch = dim < 64 && bits >> dim & 1 == 1;
            if is_batch { self.size(*size, samples) } else { *size }
        });
        sizes.fold(1, |all, size| all.saturating_mul(u64::try_from(size).unwrap_or(0)))
    }

    /// Bytes of a tensor for so many samples.
    pub fn bytes(&self, graph: &Graph, id: TensorId, samples: u64) -> f64 {
        let tensor = &graph.tensors[id as usize];
        let n_elements: i64 = tensor.dims.iter().product();
        match n_elements {
            0 => 0.0,
            n => tensor.bytes / n as f64 * self.n_elements(graph, id, samples) as f64,
        }
    }

    /// The rule of a node for so many samples.
    pub fn rule(&self, node: &Node, samples: u64) -> Rule {
        let mut rule = node.rule.clone();
        let mut is_scaled = vec![false; rule.factors.len()];
        let made = node.results.iter().zip(&node.rule.results);
        for (tensor, map) in node.operands.iter().zip(&node.rule.operands).chain(made) {
            let bits = self.dims[*tensor as usize];
            let dims = map.iter().enumerate().take(64).filter(|(dim, _)| bits >> dim & 1 == 1);
            for loops in dims.map(|(_, loops)| loops) {
                let outermost = loops.iter().find(|id| node.rule.factors[**id as usize].size > 1);
                outermost.or(loops.first()).into_iter().for_each(|id| is_scaled[*id as usize] = true);
            }
        }
        for (factor, _) in rule.factors.iter_mut().zip(is_scaled).filter(|(_, is_scaled)| *is_scaled) {
            factor.size = self.size(factor.size, samples);
        }
        rule
    }
}

fn data_of(graph: &Graph) -> Vec<TensorId> {
    let replaced: Vec<TensorId> = data(graph).collect();
    let is_input = |tensor: &Tensor| tensor.param.is_some() && !tensor.is_scalar();
    let inputs = graph.tensors.iter().enumerate().filter(|(_, tensor)| is_input(tensor));
    let mut inputs: Vec<TensorId> = inputs.map(|(id, _)| id as TensorId).collect();
    let is_integer = |id: &TensorId| matches!(graph.tensors[*id as usize].dtype, DType::S32 | DType::S64);
    let integers: Vec<TensorId> = inputs.iter().copied().filter(is_integer).collect();
    inputs.truncate(1);
    [replaced, integers, inputs].into_iter().find(|some| !some.is_empty()).unwrap_or_default()
}

/// By tensor: whether it depends on data.
fn has_data(graph: &Graph, data: &[TensorId]) -> Vec<bool> {
    let mut has_data = vec![false; graph.tensors.len()];
    data.iter().for_each(|id| has_data[*id as usize] = true);
    for node in &graph.nodes {
        if node.operands.iter().any(|id| has_data[*id as usize]) {
            node.results.iter().for_each(|id| has_data[*id as usize] = true);
        }
    }
    has_data
}
