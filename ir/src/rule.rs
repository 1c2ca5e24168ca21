//! Factor rules: the loops of an op, and which dimension of which tensor each loop runs over.
//!
//! `dot` of `[b,i,k]` and `[b,k,j]` is the rule `([b,i,k],[b,k,j])->([b,i,j])` in which `k` reduces.
//! Blocks, strategies, legality, collectives and FLOPs all read this one rule (the notation is
//! Shardy's; reference/cfp-alpa.md 1.2, 4.3, 4.4).

use crate::opcode::Opcode;
use smallvec::SmallVec;
use std::fmt;

/// A loop of an op.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Factor {
    /// Iterations.
    pub size: i64,
    /// What splitting it over devices takes.
    pub kind: FactorKind,
}

/// What splitting a loop over devices takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum FactorKind {
    /// Nothing: every device works on its part.
    Pass,
    /// A reduction: every device holds a partial result.
    Reduce(Reducer),
    /// An exchange between neighbours (windows, slices, reversals): split where
    /// [`split_rule`](crate::ops::split_rule) knows which elements.
    Permute,
    /// All of the dimension on every device.
    Replicate,
}

/// An associative, commutative way to combine partial results.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[allow(missing_docs, reason = "the names are the operations")]
pub enum Reducer {
    Add,
    Mul,
    Max,
    Min,
    And,
    Or,
    Xor,
}

impl Reducer {
    /// The elementwise op that combines two. (On truth values addition is `or`, multiplication `and`.)
    pub fn opcode(self) -> Opcode {
        match self {
            Reducer::Add => Opcode::Add,
            Reducer::Mul => Opcode::Multiply,
            Reducer::Max => Opcode::Maximum,
            Reducer::Min => Opcode::Minimum,
            Reducer::And => Opcode::And,
            Reducer::Or => Opcode::Or,
            Reducer::Xor => Opcode::Xor,
        }
    }
}

/// What the tiles of an operand lack along a loop that splits it: the edges of their neighbours.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Halo {
    /// The operand's leaf.
    pub operand: usize,
    /// The loop, the outermost of its dimension.
    pub factor: FactorId,
    /// Elements of the tile before.
    pub low: i64,
    /// Elements of the tile behind.
    pub high: i64,
}

/// A factor's position in [`Rule::factors`].
pub type FactorId = u32;

/// The factors of one tensor: per dimension, major to minor.
pub type TensorMap = SmallVec<[SmallVec<[FactorId; 2]>; 5]>;

/// The factor rule of one instruction.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Rule {
    /// The loops.
    pub factors: Vec<Factor>,
    /// One map per leaf of each operand, in operand order.
    pub operands: Vec<TensorMap>,
    /// One map per leaf of the result.
    pub results: Vec<TensorMap>,
    /// What is exchanged along the loops that need their neighbours' elements.
    pub halos: SmallVec<[Halo; 2]>,
    /// Whether this is the all-replicated rule of an op without a rule of its own.
    pub is_fallback: bool,
}

impl Rule {
    /// Adds a factor.
    pub fn factor(&mut self, size: i64, kind: FactorKind) -> FactorId {
        self.factors.push(Factor { size, kind });
        (self.factors.len() - 1) as FactorId
    }

    /// Adds a factor of its own kind per dimension and returns the map.
    pub fn fresh(&mut self, dims: &[i64], kind: FactorKind) -> TensorMap {
        dims.iter().map(|&size| SmallVec::from_slice(&[self.factor(size, kind)])).collect()
    }

    /// The all-replicated rule: nothing is split.
    pub fn replicated(operands: &[&[i64]], results: &[&[i64]]) -> Rule {
        let mut rule = Rule { is_fallback: true, ..Rule::default() };
        rule.operands = operands.iter().map(|dims| rule.fresh(dims, FactorKind::Replicate)).collect();
        rule.results = results.iter().map(|dims| rule.fresh(dims, FactorKind::Replicate)).collect();
        rule
    }

    /// Elements of an operand, along the dimension of a halo, in so many iterations of its loop.
    pub fn n_elements(&self, halo: &Halo, n_iterations: i64) -> i64 {
        let mut dims = self.operands[halo.operand].iter();
        let dim = dims.find(|dim| dim.first() == Some(&halo.factor));
        let inner = dim.into_iter().flatten().skip(1);
        inner.map(|&id| self.factors[id as usize].size).product::<i64>() * n_iterations
    }

    /// The fewest iterations of a loop that have all that the neighbours need; none where that is nothing.
    pub fn least_tile(&self, factor: FactorId) -> Option<i64> {
        let own = self.halos.iter().filter(|halo| halo.factor == factor);
        let wanted = own.map(|halo| {
            let (reach, size) = (halo.low.max(halo.high), self.n_elements(halo, 1).max(1));
            reach / size + i64::from(reach % size != 0)
        });
        wanted.max().filter(|&least| least > 0)
    }

    /// Product of the factor sizes, the op's iteration count.
    pub fn n_iterations(&self) -> f64 {
        self.factors.iter().map(|factor| factor.size as f64).product()
    }
}

impl fmt::Display for Rule {
    /// `([a,b],[b,c])->([a,c]) {a=2, b=3+, c=4}`: `+` reduces, `~` permutes, `!` replicates.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_maps(f, &self.operands)?;
        f.write_str("->")?;
        write_maps(f, &self.results)?;
        f.write_str(" {")?;
        for (id, factor) in self.factors.iter().enumerate() {
            let mark = match factor.kind {
                FactorKind::Pass => "",
                FactorKind::Reduce(_) => "+",
                FactorKind::Permute => "~",
                FactorKind::Replicate => "!",
            };
            let comma = if id > 0 { ", " } else { "" };
            write!(f, "{comma}{}={}{mark}", factor_name(id), factor.size)?;
        }
        f.write_str("}")
    }
}

fn write_maps(f: &mut fmt::Formatter<'_>, maps: &[TensorMap]) -> fmt::Result {
    let dim = |factors: &SmallVec<[FactorId; 2]>| -> String {
        factors.iter().map(|&id| factor_name(id as usize)).collect()
    };
    let tensor = |map: &TensorMap| format!("[{}]", map.iter().map(dim).collect::<Vec<_>>().join(","));
    write!(f, "({})", maps.iter().map(tensor).collect::<Vec<_>>().join(","))
}

fn factor_name(id: usize) -> String {
    let letter = char::from(b'a' + (id % 26) as u8);
    if id < 26 { letter.to_string() } else { format!("{letter}{}", id / 26) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_op_iterates_over_all_of_its_loops() {
        let rule = Rule::replicated(&[&[2, 3]], &[&[5]]);
        assert_eq!(rule.n_iterations(), 30.0);
        assert_eq!(Rule::default().n_iterations(), 1.0);
    }

    #[test]
    fn loops_beyond_the_alphabet_are_numbered() {
        let mut rule = Rule::default();
        let dims = rule.fresh(&[7; 28], FactorKind::Pass);
        rule.results.push(dims);
        assert!(rule.to_string().ends_with("z=7, a1=7, b1=7}"), "{rule}");
    }
}
