//! A model as a search sees it: kinds of layers, and the chain that they form, for each microbatch.
//!
//! Written as JSON, one object per model: docs/arch.md has the keys.

use crate::estimate::Layer;
use crate::program::Kernels;
use phzc_ir::{Diagnostic, Result};

/// The name and version of the format.
pub const FORMAT: &str = "phzc-arch-graph 1";

/// A model, extracted.
#[derive(Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ModelGraph {
    /// [`FORMAT`].
    pub format: String,
    /// As it is shown.
    pub name: String,
    /// By size, in rising order.
    pub microbatches: Vec<Microbatch>,
}

/// A model for one microbatch.
#[derive(Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Microbatch {
    /// Samples of it.
    pub samples: u64,
    /// The layers that differ.
    pub kinds: Vec<LayerKind>,
    /// By layer of the chain: position of its kind.
    pub chain: Vec<usize>,
    /// What layers hand on to later ones.
    pub edges: Vec<Edge>,
}

/// A layer that may occur several times.
#[derive(Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LayerKind {
    /// As it is shown.
    pub name: String,
    /// Weights.
    pub parameter_bytes: f64,
    /// All results of its operators.
    pub activation_bytes: f64,
    /// Its operators.
    pub layer: Layer,
}

/// Bytes from one layer of the chain to a later one.
#[derive(Clone, Copy, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Edge {
    /// Position in the chain.
    pub from: usize,
    /// Position in the chain.
    pub to: usize,
    /// Per microbatch, the same ones forward and backward.
    pub bytes: f64,
}

impl ModelGraph {
    /// Whether it can be searched over.
    ///
    /// # Errors
    /// For another format, no microbatch, a chain that is none, and numbers that are none.
    pub fn check(&self) -> Result<()> {
        if self.format != FORMAT {
            let message = format!("expected a graph of format `{FORMAT}`, found `{}`", self.format);
            return Err(Diagnostic::error(message).help("extract it again: `phzc arch --until extract`"));
        }
        if self.microbatches.is_empty() {
            return Err(Diagnostic::error(format!("model `{}` has no microbatch", self.name)));
        }
        let wrong = self.microbatches.iter().find_map(|it| Some((it.samples, it.fault()?)));
        wrong.map_or(Ok(()), |(samples, fault)| {
            Err(Diagnostic::error(format!("model `{}`, microbatch of {samples}: {fault}", self.name)))
        })
    }
}

impl Microbatch {
    /// What is wrong with it, if anything.
    fn fault(&self) -> Option<&'static str> {
        let n = self.chain.len();
        let is_linked = |at: usize| self.edges.iter().any(|edge| edge.from == at && edge.to == at + 1);
        let is_size = |bytes: f64| bytes.is_finite() && bytes >= 0.0;
        let sizes = self.kinds.iter().flat_map(|kind| [kind.parameter_bytes, kind.activation_bytes]);
        let mut kernels = self.kinds.iter().filter_map(|kind| kind.layer.kernels.as_ref());
        let rules = [
            (self.samples > 0, "it has no samples"),
            (n > 0, "it has no layers"),
            (self.chain.iter().all(|kind| *kind < self.kinds.len()), "a layer is of no kind"),
            (self.edges.iter().all(|edge| edge.from < edge.to && edge.to < n), "an edge leads backward"),
            ((1..n).all(|at| is_linked(at - 1)), "a layer does not read the one before it"),
            (kernels.all(Kernels::is_sound), "a kernel has a size that is no number"),
            (sizes.chain(self.edges.iter().map(|edge| edge.bytes)).all(is_size), "a size is no number"),
        ];
        rules.into_iter().find(|rule| !rule.0).map(|rule| rule.1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn graph() -> ModelGraph {
        let layer = Layer { ops: Vec::new(), edges: Vec::new(), kernels: None };
        let kind = LayerKind { name: "0".to_owned(), parameter_bytes: 1.0, activation_bytes: 2.0, layer };
        let edges = vec![Edge { from: 0, to: 1, bytes: 3.0 }];
        let one = Microbatch { samples: 1, kinds: vec![kind], chain: vec![0, 0], edges };
        ModelGraph { format: FORMAT.to_owned(), name: "m".to_owned(), microbatches: vec![one] }
    }

    #[track_caller]
    fn wrong(edit: impl FnOnce(&mut ModelGraph), message: &str) {
        let mut graph = graph();
        edit(&mut graph);
        assert_eq!(graph.check().expect_err("it is wrong").message, message);
    }

    #[test]
    fn a_graph_reads_back_as_it_was() {
        let text = serde_json::to_string(&graph()).expect("it is written");
        let again: ModelGraph = serde_json::from_str(&text).expect("it is read");
        assert_eq!(again, graph());
        again.check().expect("it is sound");
    }

    #[test]
    fn a_graph_that_is_no_chain_is_an_error() {
        wrong(|it| it.microbatches.clear(), "model `m` has no microbatch");
        let at = "model `m`, microbatch of 1: ";
        wrong(|it| it.microbatches[0].edges.clear(), &format!("{at}a layer does not read the one before it"));
        wrong(|it| it.microbatches[0].chain[1] = 7, &format!("{at}a layer is of no kind"));
        wrong(|it| it.microbatches[0].edges[0].bytes = f64::NAN, &format!("{at}a size is no number"));
    }
}
