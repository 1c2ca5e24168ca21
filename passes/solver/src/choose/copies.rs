//! Equal eliminations: repeated layers make the same tables again, so each table is made once.

use std::sync::Arc;

use indexmap::IndexMap;
use rustc_hash::FxBuildHasher;

use super::plan::{Plan, Step};
use super::reduce::Reduced;

/// Which results of a plan are copies of earlier ones; results are numbered as the steps are.
pub(super) struct Copies {
    /// Per result: the first that is equal to it, which may be itself.
    pub first: Vec<u32>,
    /// Per result: how many later ones are copies of it.
    pub n_copies: Vec<u32>,
}

/// A node's own costs, and per input: which table, and where the axes after its first lie in the result.
type Key = (Vec<u64>, Vec<(Table, Vec<usize>)>);

/// A table by identity: one of the problem's, or the first result that is equal to it.
#[derive(PartialEq, Eq, Hash)]
enum Table {
    Input(*const Vec<f64>),
    Result(u32),
}

impl Copies {
    /// Finds them without looking into a table.
    pub(super) fn find(reduced: &Reduced, plan: &Plan) -> Copies {
        let mut seen: IndexMap<Key, u32, FxBuildHasher> = IndexMap::default();
        let mut copies = Copies { first: Vec::new(), n_copies: vec![0; plan.steps.len()] };
        for step in 0..plan.steps.len() as u32 {
            let first = *seen.entry(copies.key(reduced, plan, step as usize)).or_insert(step);
            copies.n_copies[first as usize] += u32::from(first != step);
            copies.first.push(first);
        }
        copies
    }

    fn key(&self, reduced: &Reduced, plan: &Plan, step: usize) -> Key {
        let own = reduced.cost[plan.order[step] as usize].iter().map(|cost| cost.to_bits()).collect();
        let Step { inputs, scope } = &plan.steps[step];
        let axes = |table: &[u32]| {
            table[1..].iter().map(|axis| scope.binary_search(axis).unwrap_or(usize::MAX)).collect()
        };
        let input = |&table: &u32| match plan.tables.get(table as usize) {
            Some(input) => (Table::Input(Arc::as_ptr(&input.values)), axes(&input.scope)),
            None => {
                let result = table as usize - plan.tables.len();
                (Table::Result(self.first[result]), axes(&plan.steps[result].scope))
            }
        };
        (own, inputs.iter().map(input).collect())
    }
}
