//! How what operators read and write lies on a stage's devices, and what a change between two layouts takes
//! (`reference/aceso.md`, section 3).

use super::{Machine, OpChoice};

/// How a value lies on `tensor * data` devices.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Form {
    /// As it comes.
    Any,
    /// The tensor-parallel devices have a replica's samples in full; samples are the first dimension.
    #[default]
    Samples,
    /// The same, samples behind positions.
    Positions,
    /// They share the hidden dimension.
    Hidden,
    /// They share the heads of attention.
    Heads,
}

/// Copies of a value, and parts along its three dimensions.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Layout {
    copies: u32,
    parts: [u32; 3],
}

/// How one layout is made of another one, among how many devices at a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Change {
    /// Parts are gathered forward, and their gradients left out backward.
    Gather(u32),
    /// Parts are left out forward, and their gradients gathered backward.
    Scatter(u32),
    /// Parts along one dimension are exchanged for parts along another one, forward and backward.
    Exchange(u32),
}

impl Form {
    /// Per operator, and per dimension that is split: what it reads and what it writes.
    ///
    /// Aceso's rules go by the names of its profiler, GPT's; where others are among them, samples are all
    /// that is told apart, as in Wide-ResNet.
    pub(super) fn all(names: &[String]) -> Vec<[[Form; 2]; 2]> {
        let known: Option<Vec<_>> =
            names.iter().map(|name| Some([Form::of(name, 0)?, Form::of(name, 1)?])).collect();
        known.unwrap_or_else(|| vec![Default::default(); names.len()])
    }

    fn of(name: &str, algo: u32) -> Option<[Form; 2]> {
        use Form::{Any, Heads, Hidden, Positions, Samples};
        let is_usual = algo == 0;
        Some(match name {
            "encoder-embedding" => [Any, Positions],
            "enc-1st-layernorm" | "enc-2nd-layernorm" => [Positions; 2],
            "enc-post-attention-dropout" | "enc-post-MLP-dropout" => [Positions; 2],
            "enc-attention-qkv" | "enc-MLP-GEMM-1" if is_usual => [Positions, Hidden],
            "enc-attention-qkv" | "enc-MLP-GEMM-1" => [Hidden, Positions],
            "enc-attention-dense" | "enc-MLP-GEMM-2" if is_usual => [Hidden, Positions],
            "enc-attention-dense" | "enc-MLP-GEMM-2" => [Positions, Hidden],
            "enc-attention-score" => [Hidden, Heads],
            "enc-attention-softmax" | "enc-attention-dropout" => [Heads; 2],
            "enc-attention-context" => [Heads, Hidden],
            "enc-MLP-gelu" => [Hidden; 2],
            "final-layernorm" => [Positions, Samples],
            "gpt-post-process" => [Samples, Any],
            _ => return None,
        })
    }

    fn layout(self, choice: &OpChoice) -> Option<Layout> {
        let (tensor, data) = (choice.tensor, choice.data);
        let (copies, parts) = match self {
            Form::Any => return None,
            Form::Samples => (tensor, [data, 1, 1]),
            Form::Positions => (tensor, [1, data, 1]),
            Form::Hidden => (1, [1, data, tensor]),
            Form::Heads => (1, [data, tensor, 1]),
        };
        Some(Layout { copies, parts })
    }
}

impl Layout {
    /// How another layout is made of this one: the first dimension with fewer parts says among how many
    /// devices.
    fn change(&self, to: &Layout) -> Option<Change> {
        let ratio = |more: u32, less: u32| more.div_ceil(less.max(1));
        let pairs = || self.parts.iter().zip(&to.parts);
        let fewer = pairs().find(|(own, to)| own > to).map(|(own, to)| ratio(*own, *to));
        let more = pairs().find(|(own, to)| own < to).map(|(own, to)| ratio(*to, *own));
        if self == to {
            return None;
        }
        Some(match (fewer, more) {
            _ if self.copies > to.copies => Change::Scatter(ratio(self.copies, to.copies)),
            (Some(n), Some(_)) if self.copies == to.copies => Change::Exchange(n),
            (Some(n), _) => Change::Gather(n),
            (None, more) => Change::Scatter(more.unwrap_or(1)),
        })
    }
}

impl Machine {
    /// Milliseconds of bringing an operator's input from where the operator before leaves it, forward and
    /// backward.
    pub fn reshard_ms(&self, op: usize, from: &OpChoice, to: &OpChoice, input_mib: f64) -> f64 {
        let before = op.checked_sub(1).and_then(|before| self.chain.form(before, from)[1].layout(from));
        let own = self.chain.form(op, to)[0].layout(to);
        match before.zip(own).and_then(|(before, own)| before.change(&own)) {
            None => 0.0,
            Some(change) if self.own.is_some() => self.own_change_ms(change, input_mib),
            Some(Change::Gather(n) | Change::Scatter(n)) => self.tables.all_gather_ms(n, input_mib),
            Some(Change::Exchange(n)) => 2.0 * self.tables.all_to_all_ms(n, input_mib),
        }
    }

    /// Whether an operator reads and writes the same under two choices.
    pub fn is_laid_out_alike(&self, op: usize, a: &OpChoice, b: &OpChoice) -> bool {
        let layouts = |choice: &OpChoice| self.chain.form(op, choice).map(|form| form.layout(choice));
        layouts(a) == layouts(b)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::aceso::tests::machine;
    use crate::aceso::{OpChain, Repeat};
    use std::collections::BTreeMap;

    const LAYER: [&str; 14] = [
        "encoder-embedding",
        "enc-1st-layernorm",
        "enc-attention-qkv",
        "enc-attention-score",
        "enc-attention-softmax",
        "enc-attention-dropout",
        "enc-attention-context",
        "enc-attention-dense",
        "enc-post-attention-dropout",
        "enc-2nd-layernorm",
        "enc-MLP-GEMM-1",
        "enc-MLP-gelu",
        "enc-MLP-GEMM-2",
        "enc-post-MLP-dropout",
    ];

    /// One layer of GPT; an all-gather takes 1 ms a device and MiB, an all-to-all 100.
    fn gpt() -> Machine {
        let names: Vec<String> =
            LAYER.into_iter().chain(["final-layernorm", "gpt-post-process"]).map(String::from).collect();
        let mut machine = machine();
        machine.chain = OpChain::new(&names, &[Repeat { first: 1, end: 14, n_layers: 1 }]);
        let table = |ms: f64| {
            let of = |n: u32| (n, BTreeMap::from([(8, ms * 8.0 * f64::from(n))]));
            BTreeMap::from([2, 4].map(of))
        };
        (machine.tables.all_gather_ms, machine.tables.all_to_all_ms) = (table(1.0), table(100.0));
        machine
    }

    fn choice(tensor: u32, data: u32, algo: u32) -> OpChoice {
        OpChoice { tensor, data, algo, ..OpChoice::default() }
    }

    fn ms(op: &str, from: OpChoice, to: OpChoice) -> f64 {
        let at = LAYER.iter().position(|name| *name == op).expect("an operator");
        gpt().reshard_ms(at, &from, &to, 8.0)
    }

    #[test]
    fn operators_split_alike_change_nothing() {
        for op in 1..gpt().chain.len() {
            for (tensor, data) in [(1, 4), (2, 2), (4, 1)] {
                let own = choice(tensor, data, 0);
                assert_eq!(gpt().reshard_ms(op, &own, &own, 8.0), 0.0, "{op}");
            }
        }
    }

    #[test]
    fn another_dimension_is_gathered_after_it_or_before_unless_one_device_has_all() {
        // The layer norm's copies are cut into shares for rows, and what rows give is cut for the scores.
        assert_eq!(ms("enc-attention-qkv", choice(4, 1, 0), choice(4, 1, 1)), 32.0);
        assert_eq!(ms("enc-attention-score", choice(4, 1, 1), choice(4, 1, 0)), 32.0);
        // Columns of the second product leave shares that the dropout needs in full.
        assert_eq!(ms("enc-post-MLP-dropout", choice(2, 2, 1), choice(2, 2, 0)), 16.0);
        assert_eq!(ms("enc-attention-qkv", choice(1, 4, 0), choice(1, 4, 1)), 0.0);
    }

    #[test]
    fn more_replicas_cut_copies_and_exchange_shares() {
        assert_eq!(ms("enc-2nd-layernorm", choice(4, 1, 0), choice(2, 2, 0)), 16.0);
        assert_eq!(ms("enc-2nd-layernorm", choice(1, 4, 0), choice(4, 1, 0)), 32.0);
        assert_eq!(ms("enc-MLP-gelu", choice(4, 1, 0), choice(2, 2, 0)), 2.0 * 1600.0);
        assert_eq!(ms("enc-attention-dropout", choice(1, 4, 0), choice(4, 1, 0)), 2.0 * 3200.0);
    }

    #[test]
    fn what_lies_alike_is_told_from_what_does_not() {
        let is_alike = |op, a, b| gpt().is_laid_out_alike(op, &a, &b);
        assert!(
            is_alike(2, choice(1, 2, 0), choice(1, 2, 1)) && !is_alike(2, choice(2, 1, 0), choice(2, 1, 1))
        );
        assert!(
            is_alike(3, choice(2, 1, 0), choice(2, 1, 1)) && !is_alike(3, choice(2, 1, 0), choice(1, 2, 0))
        );
    }

    #[test]
    fn of_other_models_samples_are_all_that_is_told_apart() {
        let names = ["enc-1st-layernorm", "enc-attention-qkv", "dec-attention-qkv"].map(String::from);
        assert_eq!(Form::all(&names), [[[Form::Samples; 2]; 2]; 3]);
    }
}
