//! Why a tensor lies as it does, as `shard` tells it: data for the driver's table.

use phzc_analysis::graph::TensorId;

/// What is known about one instruction's layout.
#[derive(Clone, Debug)]
pub struct Explanation {
    /// The instruction.
    pub name: String,
    /// The mesh that was chosen.
    pub mesh: String,
    /// How many other instructions its block lays out at once.
    pub n_others: usize,
    /// Every strategy, the winner first, then by time; those that are forbidden last.
    pub strategies: Vec<Considered>,
    /// The loops of the block, and where they cannot be split.
    pub loops: Vec<LoopFact>,
}

/// A strategy of a block, given what its neighbours were given.
#[derive(Clone, Debug)]
pub struct Considered {
    /// Alpa's name of it, for a contraction.
    pub name: Option<String>,
    /// The layouts of the instruction's operands.
    pub operands: Vec<String>,
    /// The layout of its first result.
    pub result: String,
    /// What it takes, the parts that take no time left out.
    pub terms: Vec<Term>,
    /// Bytes per device of the block's tensors that are alive at the peak.
    pub memory_bytes: f64,
    /// What became of it.
    pub verdict: Verdict,
}

/// What became of a strategy.
#[derive(Clone, Debug, PartialEq)]
pub enum Verdict {
    /// It is in the plan.
    Chosen,
    /// Whatever the neighbours do, the strategy at this position is no dearer and needs no more memory.
    Dominated(usize),
    /// It takes so many seconds more than the chosen one, the neighbours being as they are; infinitely many
    /// where a value cannot be brought into the layout that it needs.
    Dearer(f64),
    /// It would take so many seconds less, but needs so many bytes more on each device.
    TooLarge(f64, f64),
    /// The user forbids it, by this word.
    Forbidden(&'static str),
}

impl Considered {
    /// Seconds of all its parts.
    pub fn secs(&self) -> f64 {
        self.terms.iter().map(|term| term.secs).sum()
    }
}

/// One part.
#[derive(Clone, Debug)]
pub struct Term {
    /// What takes the time, as a reader knows it.
    pub what: String,
    /// Which part of the price it is.
    pub part: Part,
    /// The collectives, in order.
    pub moves: Vec<Movement>,
    /// Seconds of all executions in one step.
    pub secs: f64,
    /// Executions in one step.
    pub times: f64,
}

/// What takes time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// The block's kernels.
    Kernels,
    /// Bringing a value that the block makes into the layout in which others find it.
    Inside,
    /// Bringing a value into the layout that the block reads.
    Read(TensorId),
    /// Bringing a value of the block into the layout that another block reads.
    Written,
}

/// A collective.
#[derive(Clone, Debug)]
pub struct Movement {
    /// HLO's name.
    pub kind: &'static str,
    /// The mesh axes.
    pub axes: Vec<String>,
    /// Message bytes on one device.
    pub bytes: f64,
    /// Seconds of one time.
    pub secs: f64,
}

impl Term {
    /// Whether it is kernels, not communication.
    pub fn is_kernels(&self) -> bool {
        self.part == Part::Kernels
    }

    /// Whether it is listed under another block too, which reads the value.
    pub fn is_written(&self) -> bool {
        self.part == Part::Written
    }
}

/// A loop of a block.
#[derive(Clone, Debug)]
pub struct LoopFact {
    /// A tensor's dimension that runs over it: `dimension 0 of h`.
    pub place: String,
    /// Its size.
    pub size: i64,
    /// Per mesh axis: its name, and why it cannot split the loop.
    pub refused: Vec<(String, String)>,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn term(part: Part, secs: f64) -> Term {
        Term { what: String::new(), part, moves: Vec::new(), secs, times: 1.0 }
    }

    #[test]
    fn a_strategy_takes_what_its_parts_take_together() {
        let terms = vec![term(Part::Kernels, 2.0), term(Part::Inside, 3.0)];
        let (operands, verdict) = (Vec::new(), Verdict::Chosen);
        let result = String::new();
        let it = Considered { name: None, operands, result, terms, memory_bytes: 0.0, verdict };
        assert_eq!(it.secs(), 5.0);
    }

    #[test]
    fn kernels_and_what_others_read_are_told_apart() {
        let all = [Part::Kernels, Part::Inside, Part::Read(3), Part::Written].map(|part| term(part, 1.0));
        assert_eq!(all.each_ref().map(Term::is_kernels), [true, false, false, false]);
        assert_eq!(all.each_ref().map(Term::is_written), [false, false, false, true]);
    }
}
