//! Decides, from sizes alone, which tables the elimination of each node reads and writes.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::order::best_order;
use super::reduce::{Pair, Reduced};
use super::{Limits, Table};

/// Bytes that a run may hold on to until it has decoded the choice.
const MAX_KEPT_BYTES: u64 = 1 << 31;

/// An elimination, step by step. Step `s` eliminates node `order[s]`; scopes list steps, ascending.
pub(super) struct Plan {
    pub order: Vec<u32>,
    /// Options of the node of each step.
    pub sizes: Vec<usize>,
    /// The tables that exist before any step; a step's results are numbered on from them.
    pub tables: Vec<Input>,
    /// What each step does: one bucket, or several where one would be too large.
    pub steps: Vec<Vec<Bucket>>,
    /// The scope of each bucket's result, in the order of steps, then buckets.
    pub results: Vec<Vec<u32>>,
    /// Table entries evaluated by a run.
    pub evaluations: u64,
    /// Whether no step was split.
    pub exact: bool,
    kept_bytes: u64,
}

/// A table between two steps.
pub(super) struct Input {
    pub scope: [u32; 2],
    pub table: Arc<Table>,
}

/// Tables added up and minimised over the step's node.
#[derive(Default)]
pub(super) struct Bucket {
    /// Numbers of the tables read.
    pub inputs: Vec<u32>,
    /// The result's scope.
    pub scope: Vec<u32>,
}

impl Plan {
    /// A plan whose last step, if it matters, eliminates `last`.
    pub(super) fn new(reduced: &Reduced, limits: &Limits, last: Option<u32>) -> Self {
        let sizes: Vec<usize> = reduced.kept.iter().map(Vec::len).collect();
        let order = best_order(&sizes, reduced.pairs.iter().map(|pair| (pair.a, pair.b)), last);
        let mut step_of = vec![0; order.len()];
        (0..).zip(&order).for_each(|(step, &node)| step_of[node as usize] = step);
        let sizes: Vec<usize> = order.iter().map(|&node| sizes[node as usize]).collect();
        let mut max_table = limits.max_table as u64;
        loop {
            let mut planner = Planner::new(&sizes, &reduced.pairs, &step_of, max_table);
            (0..sizes.len() as u32).for_each(|step| planner.eliminate(step));
            let plan = planner.plan;
            let fits = plan.evaluations <= limits.max_evaluations && plan.kept_bytes <= MAX_KEPT_BYTES;
            if fits || max_table <= 1 {
                let tables = orient(&reduced.pairs, &step_of);
                return Plan { order, sizes, tables, ..plan };
            }
            max_table /= 4;
        }
    }
}

/// The problem's tables with the earlier step's options as rows.
fn orient(pairs: &[Pair], step_of: &[u32]) -> Vec<Input> {
    let mut turned: BTreeMap<*const Table, Arc<Table>> = BTreeMap::new();
    let orient = |pair: &Pair| {
        let (a, b) = (step_of[pair.a as usize], step_of[pair.b as usize]);
        if a < b {
            return Input { scope: [a, b], table: pair.table.clone() };
        }
        let turn =
            || Arc::new(Table::from_fn(pair.table.cols, pair.table.rows, |row, col| pair.table.at(col, row)));
        Input { scope: [b, a], table: turned.entry(Arc::as_ptr(&pair.table)).or_insert_with(turn).clone() }
    };
    pairs.iter().map(orient).collect()
}

struct Planner {
    plan: Plan,
    max_table: u64,
    scopes: Vec<Vec<u32>>,
    /// Per step, the tables whose first node it eliminates.
    waiting: Vec<Vec<u32>>,
}

impl Planner {
    fn new(sizes: &[usize], pairs: &[Pair], step_of: &[u32], max_table: u64) -> Self {
        let ends = |pair: &Pair| [step_of[pair.a as usize], step_of[pair.b as usize]];
        let scopes: Vec<Vec<u32>> = pairs.iter().map(ends).map(|[a, b]| vec![a.min(b), a.max(b)]).collect();
        let mut waiting = vec![Vec::new(); sizes.len()];
        (0..).zip(&scopes).for_each(|(table, scope)| waiting[scope[0] as usize].push(table));
        let plan = Plan {
            order: Vec::new(),
            sizes: sizes.to_vec(),
            tables: Vec::new(),
            steps: Vec::new(),
            results: Vec::new(),
            evaluations: 0,
            exact: true,
            kept_bytes: 0,
        };
        Self { plan, max_table, scopes, waiting }
    }

    fn eliminate(&mut self, step: u32) {
        let inputs = std::mem::take(&mut self.waiting[step as usize]);
        let whole = inputs.iter().fold(Vec::new(), |scope, &table| self.union(&scope, table));
        let buckets = match self.entries(&whole) <= self.max_table {
            true => vec![Bucket { inputs, scope: whole }],
            false => self.split(inputs),
        };
        self.plan.exact &= buckets.len() == 1;
        for bucket in &buckets {
            let entries = self.entries(&bucket.scope);
            self.plan.evaluations += entries.saturating_mul(self.plan.sizes[step as usize] as u64);
            self.plan.kept_bytes += match buckets.len() {
                1 => 2 * entries,
                _ => bucket.inputs.iter().map(|&table| 8 * self.entries(&self.scopes[table as usize])).sum(),
            };
            if let Some(&next) = bucket.scope.first() {
                self.waiting[next as usize].push(self.scopes.len() as u32);
            }
            self.scopes.push(bucket.scope.clone());
            self.plan.results.push(bucket.scope.clone());
        }
        self.plan.steps.push(buckets);
    }

    /// Largest tables first, each into the first bucket that stays within the limit.
    fn split(&self, mut inputs: Vec<u32>) -> Vec<Bucket> {
        inputs.sort_by_key(|&table| (std::cmp::Reverse(self.entries(&self.scopes[table as usize])), table));
        let mut buckets: Vec<Bucket> = Vec::new();
        for table in inputs {
            let fits =
                |bucket: &&mut Bucket| self.entries(&self.union(&bucket.scope, table)) <= self.max_table;
            let bucket = match buckets.iter_mut().find(fits) {
                Some(bucket) => bucket,
                None => buckets.push_mut(Bucket::default()),
            };
            bucket.scope = self.union(&bucket.scope, table);
            bucket.inputs.push(table);
        }
        buckets
    }

    /// A scope and a table's, less the step that eliminates the table's first node.
    fn union(&self, scope: &[u32], table: u32) -> Vec<u32> {
        let mut union: Vec<u32> = scope.iter().chain(&self.scopes[table as usize][1..]).copied().collect();
        union.sort_unstable();
        union.dedup();
        union
    }

    fn entries(&self, scope: &[u32]) -> u64 {
        scope
            .iter()
            .fold(1, |entries: u64, &step| entries.saturating_mul(self.plan.sizes[step as usize] as u64))
    }
}
