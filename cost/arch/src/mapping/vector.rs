//! What vector cores take for operators without a contraction.
//!
//! Source: the closed forms of WHAM's estimator as Phaze uses them, `reference/phaze.md`, section 2b.

/// An elementwise function.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Function {
    /// Addition, subtraction, multiplication, negation, comparison, selection, normalization.
    Simple,
    /// Dropout.
    Dropout,
    /// Division.
    Divide,
    /// Logistic function, also times its argument.
    Sigmoid,
    /// Sine or cosine.
    Sine,
    /// Powers and roots.
    Power,
    /// Hyperbolic tangent.
    Tanh,
    /// Mean over rows that are reduced already.
    Mean,
}

/// Cycles of a forward and of a backward pass.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Passes {
    /// Forward.
    pub forward: f64,
    /// Backward.
    pub backward: f64,
}

impl Function {
    /// Cycles per element, forward and backward.
    pub fn cycles(self) -> Passes {
        let (forward, backward) = match self {
            Function::Simple => (1.0, 1.0),
            Function::Dropout => (2.0, 1.0),
            Function::Divide => (10.0, 10.0),
            Function::Sigmoid => (12.0, 2.0),
            Function::Sine => (13.0, 2.0),
            Function::Power => (15.0, 16.0),
            Function::Tanh => (27.0, 2.0),
            Function::Mean => (10.0, 10.0),
        };
        Passes { forward, backward }
    }
}

/// An elementwise operator: forward over its result, backward over each of its inputs (elements of each).
pub fn elementwise(function: Function, output: u64, inputs: &[u64], lanes: u64) -> Passes {
    let Passes { forward, backward } = function.cycles();
    let rounds = inputs.iter().map(|elements| elements.div_ceil(lanes));
    let backward_rounds = rounds.fold(0, u64::saturating_add);
    Passes { forward: output.div_ceil(lanes) as f64 * forward, backward: backward_rounds as f64 * backward }
}

/// Functions fused behind an operator on vector cores: each takes its cycles for every element of the result.
pub fn chain(functions: &[Function], output: u64, lanes: u64) -> Passes {
    let rounds = output.div_ceil(lanes) as f64;
    Passes {
        forward: rounds * functions.iter().map(|function| function.cycles().forward).sum::<f64>(),
        backward: rounds * functions.iter().map(|function| function.cycles().backward).sum::<f64>(),
    }
}

/// Softmax over `rows` rows of `columns`: a sum per row, an exponential and a division per element.
pub fn softmax(rows: u64, columns: u64, lanes: u64) -> Passes {
    let rounds = rows.saturating_mul(columns).div_ceil(lanes) as f64;
    let sums = rows.saturating_mul(columns.div_ceil(lanes)) as f64;
    Passes { forward: sums + 10.0 + rounds * 10.0, backward: rounds * 2.0 }
}

/// Cycles that are also bound by the words that an operator reads and writes in HBM: `native` only, Phaze has
/// no such bound.
pub fn bound_by_bandwidth(cycles: f64, words: u64, words_per_cycle: f64) -> f64 {
    cycles.max(words as f64 / words_per_cycle)
}

/// Cycles of functions for one element.
pub fn latency(functions: &[Function]) -> Passes {
    chain(functions, 1, 1)
}

/// Cycles of functions fused behind a contraction. Phaze adds the latency of one element; `native` adds
/// what the vector cores need beyond the contraction, with which they run side by side.
pub fn fused(contraction_cycles: f64, chain_cycles: f64, latency: f64, is_phaze: bool) -> f64 {
    match is_phaze {
        true => contraction_cycles + latency,
        false => contraction_cycles.max(chain_cycles) + latency,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::reference;

    /// Lanes of one and of both vector cores of the accelerator that the reference's cycles are for.
    const LANES: [u64; 2] = [256, 512];

    fn check(layer: &str, node: &str, ours: impl Fn(u64) -> Passes) {
        let Some(cycles) = reference(&format!("llama2_mbs1_layer{layer}_op_cycles_tc4x256_vc2.json")) else {
            return;
        };
        for (at, lanes) in LANES.into_iter().enumerate() {
            let of = |pass: &str| cycles[node][pass][at].as_f64().expect("a number");
            let expected = Passes { forward: of("fwd"), backward: of("bwd") };
            assert_eq!(ours(lanes), expected, "node {node} with {lanes} lanes");
        }
    }

    #[test]
    fn elementwise_operators_are_those_of_the_reference() {
        let (token, hidden) = (4096, 4096 * 4096);
        check("0", "143", |lanes| elementwise(Function::Simple, hidden, &[hidden; 2], lanes));
        check("0", "57", |lanes| elementwise(Function::Simple, hidden, &[token, hidden], lanes));
        check("0", "119", |lanes| elementwise(Function::Dropout, 32 * hidden, &[32 * hidden], lanes));
        check("-1", "40", |lanes| elementwise(Function::Sine, token * 128, &[token * 128], lanes));
    }

    #[test]
    fn softmax_is_that_of_the_reference() {
        check("0", "116", |lanes| softmax(32 * 4096, 4096, lanes));
    }

    #[test]
    fn a_chain_is_that_of_the_reference() {
        let chain_of_norm = [Function::Mean, Function::Simple, Function::Power];
        check("0", "129", |lanes| chain(&chain_of_norm, 4096 * 4096, lanes));
    }

    #[test]
    fn a_fused_function_costs_phaze_one_element_and_native_what_exceeds_the_contraction() {
        let of = |is_phaze| fused(100.0, 300.0, 12.0, is_phaze);
        assert_eq!([of(true), of(false)], [112.0, 312.0]);
    }
}
