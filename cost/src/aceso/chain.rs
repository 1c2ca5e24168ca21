//! The flat chain of operators of a model whose layers repeat.

use super::OpChoice;
use super::layout::Form;

/// A part of the table's operators that the model has several times.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Repeat {
    /// Its first row.
    pub first: usize,
    /// The row after its last.
    pub end: usize,
    /// How many layers it stands for.
    pub n_layers: usize,
}

/// How much of what an operator is measured to keep it does keep: buffers that it shares with others are
/// counted there.
///
/// The rules are Aceso's (`reference/aceso.md`, section 4) and go by the names of its profiler.
#[derive(Clone, Copy, Debug, Default)]
pub struct Corrections;

impl Corrections {
    /// The factor of an operator.
    pub fn factor(name: &str) -> f64 {
        let is_shared = name == "enc-attention-softmax"
            || name == "bn1"
            || name.ends_with("-bn3")
            || (name.ends_with("-downsample") && !name.starts_with("block-0-0-"));
        match name {
            "enc-attention-dropout" => 1.5,
            _ if is_shared => 0.0,
            _ => 1.0,
        }
    }
}

/// A model as a chain.
#[derive(Clone, Debug, Default)]
pub struct OpChain {
    /// Per operator: its row in the tables.
    pub rows: Vec<usize>,
    /// Per operator: the part of its measured activations that it keeps.
    pub kept: Vec<f64>,
    /// Per operator: whether a run of recomputed operators ends before it, because a layer begins.
    pub ends_runs: Vec<bool>,
    /// Per operator: whether a layer that repeats, or what comes after the last one, begins with it.
    pub starts_layer: Vec<bool>,
    /// Per operator, and per dimension that is split: what it reads and what it writes.
    pub forms: Vec<[[Form; 2]; 2]>,
}

impl OpChain {
    /// The chain of a table's operators, some of them repeated.
    pub fn new(names: &[String], repeats: &[Repeat]) -> OpChain {
        let mut chain = OpChain::default();
        let mut row = 0;
        while row < names.len() {
            let repeat = repeats.iter().find(|repeat| repeat.first == row);
            let (end, n_layers) = repeat.map_or((row + 1, 1), |repeat| (repeat.end, repeat.n_layers));
            let follows = repeats.iter().any(|repeat| repeat.end == row);
            for _ in 0..n_layers {
                (row..end)
                    .for_each(|at| chain.push(at, &names[at], at == row && (repeat.is_some() || follows)));
            }
            row = end;
        }
        let forms = Form::all(names);
        chain.forms = chain.rows.iter().map(|&row| forms[row]).collect();
        chain
    }

    fn push(&mut self, row: usize, name: &str, starts_layer: bool) {
        let ends_runs = name == "enc-1st-layernorm" || name.ends_with("-conv1");
        self.rows.push(row);
        self.kept.push(Corrections::factor(name));
        self.ends_runs.push(ends_runs);
        self.starts_layer.push(starts_layer || ends_runs);
    }

    /// What an operator reads and what it writes.
    pub(super) fn form(&self, op: usize, choice: &OpChoice) -> [Form; 2] {
        let forms = self.forms.get(op).copied().unwrap_or_default();
        forms[choice.algo.min(1) as usize]
    }

    /// How many operators there are.
    pub fn len(&self) -> usize {
        self.rows.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn layers_repeat_and_what_follows_them_begins_anew() {
        let names = ["in", "enc-1st-layernorm", "b", "out"].map(String::from);
        let chain = OpChain::new(&names, &[Repeat { first: 1, end: 3, n_layers: 2 }]);
        assert_eq!(chain.rows, [0, 1, 2, 1, 2, 3]);
        assert_eq!(chain.starts_layer, [false, true, false, true, false, true]);
        assert_eq!(chain.ends_runs, [false, true, false, true, false, false]);
        assert_eq!((chain.len(), chain.is_empty(), OpChain::default().is_empty()), (6, false, true));
    }

    #[test]
    fn buffers_that_others_share_are_counted_there() {
        let shared = ["enc-attention-softmax", "bn1", "block-1-0-bn3", "block-1-0-downsample"];
        assert_eq!(shared.map(Corrections::factor), [0.0; 4]);
        let own = ["bn2", "block-0-0-downsample", "enc-1st-layernorm"];
        assert_eq!(own.map(Corrections::factor), [1.0; 3]);
        assert_eq!(Corrections::factor("enc-attention-dropout"), 1.5);
        let names = ["bn1", "enc-attention-dropout", "block-1-0-conv1"].map(String::from);
        let chain = OpChain::new(&names, &[]);
        assert_eq!(chain.kept, [0.0, 1.5, 1.0]);
        assert_eq!(chain.ends_runs, [false, false, true]);
    }
}
