//! The most probable factors of one site: rows that share device, software and network.
//!
//! The logarithm of predicted over measured is Laplace distributed, each term normal about what is known of
//! it (maximum a posteriori). Terms enter one by one, the one that helps most first, as long as one makes
//! rows more probable that it was not fitted to (cross-validation over blocks of rows: Hastie et al., The
//! Elements of Statistical Learning, section 7.10): what the rows do not decide stays as it was.

use super::terms::{Factors, Term, secs};
use crate::validate::Run;
use rayon::prelude::*;

/// The width of the errors that stay, as a logarithm: what the model is off by on rows that its constants
/// were fitted to.
const RESIDUAL: f64 = 0.05;

/// What a term has to explain of rows that it was not fitted to, in natural logarithms of probability.
const LEAST_GAIN: f64 = 2.0;

/// Into how many blocks of neighbours rows are cut: neighbours are often one configuration.
const N_BLOCKS: usize = 5;

/// The finest step of a term, in widths.
const FINEST: f64 = 1.0 / 16.0;

/// What is known of the terms of one site before its rows: the logarithms about which they lie.
pub(super) struct Site<'a> {
    /// The rows.
    pub runs: Vec<&'a Run>,
    /// What its upper levels say.
    pub known: Factors,
}

/// A site's factors, and which of them its rows decide.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Fitted {
    pub factors: Factors,
    pub decided: Decided,
}

/// Which terms are free.
pub(super) type Decided = [bool; 6];

impl Site<'_> {
    /// The factors that are most probable.
    pub(super) fn fitted(&self) -> Fitted {
        let mut decided: Decided = [false; 6];
        let mut loss = self.loss_of_others(decided);
        loop {
            let open = Term::ALL.into_iter().filter(|term| !decided[*term as usize]);
            let tries = open.map(|term| {
                let mut more = decided;
                more[term as usize] = true;
                (self.loss_of_others(more), more)
            });
            match tries.min_by(|a, b| a.0.total_cmp(&b.0)) {
                Some((lower, more)) if lower < loss - LEAST_GAIN => (loss, decided) = (lower, more),
                _ => return Fitted { factors: self.polished(&self.runs, decided), decided },
            }
        }
    }

    /// The loss of each block of rows with factors fitted to the others.
    fn loss_of_others(&self, decided: Decided) -> f64 {
        let n_rows = self.runs.len();
        let n_blocks = N_BLOCKS.min(n_rows);
        let of_block = |block: usize| {
            let [first, end] = [block, block + 1].map(|at| at * n_rows / n_blocks);
            let others = [&self.runs[..first], &self.runs[end..]].concat();
            errors(&self.runs[first..end], &self.polished(&others, decided))
        };
        (0..n_blocks).into_par_iter().map(of_block).collect::<Vec<f64>>().iter().sum()
    }

    /// The factors of least loss over the decided terms, by steps along each that are halved when none helps.
    fn polished(&self, runs: &[&Run], decided: Decided) -> Factors {
        let free: Vec<Term> = Term::ALL.into_iter().filter(|term| decided[*term as usize]).collect();
        let mut best = self.known;
        if free.is_empty() {
            return best;
        }
        let mut loss = self.loss(runs, &best);
        let mut scale = 1.0;
        while scale > FINEST {
            let moves = free.iter().flat_map(|term| [(*term, scale), (*term, -scale)]);
            let tried = moves.filter_map(|(term, by)| {
                let mut factors = best;
                factors[term as usize] += by * term.widths()[0];
                term.admits(factors[term as usize]).then(|| (self.loss(runs, &factors), factors))
            });
            match tried.min_by(|a, b| a.0.total_cmp(&b.0)).filter(|(lower, _)| *lower < loss) {
                Some((lower, factors)) => (loss, best) = (lower, factors),
                None => scale /= 2.0,
            }
        }
        best
    }

    /// The negative logarithm of the probability of rows and factors, up to a constant.
    fn loss(&self, runs: &[&Run], factors: &Factors) -> f64 {
        let prior = Term::ALL.into_iter().map(|term| {
            let at = term as usize;
            ((factors[at] - self.known[at]) / term.widths()[0]).powi(2) / 2.0
        });
        errors(runs, factors) + prior.sum::<f64>()
    }
}

/// The negative logarithm of the probability of rows with these factors, up to a constant.
fn errors(runs: &[&Run], factors: &Factors) -> f64 {
    let error =
        |run: &&Run| run.measured_secs.map_or(0.0, |measured| (secs(run, factors) / measured).ln().abs());
    runs.iter().map(error).sum::<f64>() / RESIDUAL
}
