//! Equal eliminations: repeated layers make the same tables again, so each table is made once.

use std::sync::Arc;

use indexmap::IndexMap;
use rustc_hash::FxBuildHasher;

use super::plan::Plan;
use super::reduce::Reduced;

/// Which results of a plan are copies of earlier ones; results are numbered in the order of steps, then buckets.
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
    Input(*const super::Table),
    Result(u32),
}

impl Copies {
    /// Finds them without looking into a table. A step that was split has no copies.
    pub(super) fn find(reduced: &Reduced, plan: &Plan) -> Copies {
        let mut seen: IndexMap<Key, u32, FxBuildHasher> = IndexMap::default();
        let mut copies = Copies { first: Vec::new(), n_copies: vec![0; plan.results.len()] };
        for (step, buckets) in plan.steps.iter().enumerate() {
            for _ in buckets {
                let own = copies.first.len() as u32;
                let first = match buckets.len() {
                    1 => *seen.entry(copies.key(reduced, plan, step)).or_insert(own),
                    _ => own,
                };
                copies.n_copies[first as usize] += u32::from(first != own);
                copies.first.push(first);
            }
        }
        copies
    }

    fn key(&self, reduced: &Reduced, plan: &Plan, step: usize) -> Key {
        let own = reduced.cost[plan.order[step] as usize].iter().map(|cost| cost.to_bits()).collect();
        let bucket = &plan.steps[step][0];
        let axes = |scope: &[u32]| {
            let place = |axis| bucket.scope.binary_search(axis).unwrap_or(usize::MAX);
            scope[1..].iter().map(place).collect()
        };
        let input = |&table: &u32| match plan.tables.get(table as usize) {
            Some(input) => (Table::Input(Arc::as_ptr(&input.table)), axes(&input.scope)),
            None => {
                let result = table as usize - plan.tables.len();
                (Table::Result(self.first[result]), axes(&plan.results[result]))
            }
        };
        (own, bucket.inputs.iter().map(input).collect())
    }
}
