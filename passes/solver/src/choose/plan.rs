//! Decides, from sizes alone, which tables the elimination of each node reads and writes.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::order::best_order;
use super::reduce::{Pair, Reduced};
use super::star::{Form, Star};
use super::{Limits, Table};

/// Bytes that a run may hold on to until it has decoded the choice.
const MAX_KEPT_BYTES: u64 = 1 << 31;

/// An elimination, step by step. Step `s` eliminates node `order[s]`; scopes list steps, ascending.
pub(super) struct Plan {
    pub order: Vec<u32>,
    /// Options of the node of each step.
    pub sizes: Vec<usize>,
    /// The tables that exist before any step; the result of step `s` is table `tables.len() + s`.
    pub tables: Vec<Input>,
    /// What each step reads and makes.
    pub steps: Vec<Step>,
    /// Table entries evaluated by a run.
    pub evaluations: u64,
}

/// A table of the problem.
pub(super) struct Input {
    pub scope: Vec<u32>,
    pub values: Arc<Vec<f64>>,
}

/// Tables added up and minimised over the step's node.
#[derive(Default)]
pub(super) struct Step {
    /// Numbers of the tables read.
    pub inputs: Vec<u32>,
    /// The result's scope.
    pub scope: Vec<u32>,
}

impl Plan {
    /// A plan within the limits; `None` if no order that is tried has one.
    pub(super) fn new(reduced: &Reduced, limits: &Limits) -> Option<Self> {
        let sizes: Vec<usize> = reduced.kept.iter().map(Vec::len).collect();
        let of_stars = reduced.stars.iter().flat_map(|star| couples(&star.members));
        let order = best_order(&sizes, reduced.pairs.iter().map(|pair| (pair.a, pair.b)).chain(of_stars));
        let mut step_of = vec![0; order.len()];
        (0..).zip(&order).for_each(|(step, &node)| step_of[node as usize] = step);
        let sizes: Vec<usize> = order.iter().map(|&node| sizes[node as usize]).collect();
        let scopes = scopes(reduced, &step_of);
        let is_small = |scope: &Vec<u32>| entries(&sizes, scope) <= limits.max_table as u64;
        if !scopes.iter().all(is_small) {
            return None;
        }
        let (steps, evaluations) = steps(&sizes, &scopes, limits)?;
        let tables = Tables::default().of(reduced, &step_of, &sizes, &scopes);
        Some(Plan { order, sizes, tables, steps, evaluations })
    }
}

/// Every two of some nodes.
fn couples(members: &[u32]) -> impl Iterator<Item = (u32, u32)> {
    let all = members.iter().enumerate().flat_map(|(at, &a)| members[at + 1..].iter().map(move |&b| (a, b)));
    all.filter(|(a, b)| a != b)
}

/// The scopes of the problem's tables, those of pairs first.
fn scopes(reduced: &Reduced, step_of: &[u32]) -> Vec<Vec<u32>> {
    let scope = |nodes: &[u32]| {
        let mut scope: Vec<u32> = nodes.iter().map(|&node| step_of[node as usize]).collect();
        scope.sort_unstable();
        scope.dedup();
        scope
    };
    let pairs = reduced.pairs.iter().map(|pair| scope(&[pair.a, pair.b]));
    pairs.chain(reduced.stars.iter().map(|star| scope(&star.members))).collect()
}

/// The steps, and the table entries that they evaluate; `None` beyond a limit.
fn steps(sizes: &[usize], inputs: &[Vec<u32>], limits: &Limits) -> Option<(Vec<Step>, u64)> {
    let mut scopes = inputs.to_vec();
    let mut waiting = vec![Vec::new(); sizes.len()];
    (0..).zip(&scopes).for_each(|(table, scope)| waiting[scope[0] as usize].push(table));
    let (mut steps, mut evaluations, mut kept_bytes) = (Vec::new(), 0u64, 0u64);
    for step in 0..sizes.len() {
        let inputs: Vec<u32> = std::mem::take(&mut waiting[step]);
        let scope =
            inputs.iter().fold(Vec::new(), |scope, &table| union(&scope, &scopes[table as usize][1..]));
        let n_entries = entries(sizes, &scope);
        evaluations = evaluations.saturating_add(n_entries.saturating_mul(sizes[step] as u64));
        kept_bytes = kept_bytes.saturating_add(2 * n_entries);
        if n_entries > limits.max_table as u64
            || evaluations > limits.max_evaluations
            || kept_bytes > MAX_KEPT_BYTES
        {
            return None;
        }
        if let Some(&next) = scope.first() {
            waiting[next as usize].push(scopes.len() as u32);
        }
        scopes.push(scope.clone());
        steps.push(Step { inputs, scope });
    }
    Some((steps, evaluations))
}

fn union(scope: &[u32], other: &[u32]) -> Vec<u32> {
    let mut union: Vec<u32> = scope.iter().chain(other).copied().collect();
    union.sort_unstable();
    union.dedup();
    union
}

fn entries(sizes: &[usize], scope: &[u32]) -> u64 {
    scope.iter().fold(1, |entries: u64, &step| entries.saturating_mul(sizes[step as usize] as u64))
}

/// The problem's tables with the axes in the order of steps; equal ones are one.
#[derive(Default)]
struct Tables {
    pairs: BTreeMap<(*const Table, bool), Arc<Vec<f64>>>,
    stars: BTreeMap<(*const Form, Vec<usize>), Arc<Vec<f64>>>,
}

impl Tables {
    fn of(mut self, reduced: &Reduced, step_of: &[u32], sizes: &[usize], scopes: &[Vec<u32>]) -> Vec<Input> {
        let (of_pairs, of_stars) = scopes.split_at(reduced.pairs.len());
        let mut inputs = Vec::with_capacity(scopes.len());
        for (pair, scope) in reduced.pairs.iter().zip(of_pairs) {
            inputs.push(Input { scope: scope.clone(), values: self.pair(pair, step_of) });
        }
        for (star, scope) in reduced.stars.iter().zip(of_stars) {
            inputs.push(Input { scope: scope.clone(), values: self.star(star, step_of, sizes, scope) });
        }
        inputs
    }

    fn pair(&mut self, pair: &Pair, step_of: &[u32]) -> Arc<Vec<f64>> {
        let (is_turned, table) = (step_of[pair.a as usize] > step_of[pair.b as usize], &pair.table);
        let values = || match is_turned {
            true => Arc::new(Table::from_fn(table.cols, table.rows, |row, col| table.at(col, row)).values),
            false => Arc::new(table.values.clone()),
        };
        self.pairs.entry((Arc::as_ptr(table), is_turned)).or_insert_with(values).clone()
    }

    fn star(&mut self, star: &Star, step_of: &[u32], sizes: &[usize], scope: &[u32]) -> Arc<Vec<f64>> {
        let axis = |node: &u32| scope.partition_point(|&step| step < step_of[*node as usize]);
        let axes: Vec<usize> = star.members.iter().map(axis).collect();
        let sizes: Vec<usize> = scope.iter().map(|&step| sizes[step as usize]).collect();
        let values = || Arc::new(star.form.dense(&sizes, &axes));
        self.stars.entry((Arc::as_ptr(&star.form), axes.clone())).or_insert_with(values).clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_chain_is_eliminated_within_limits_that_its_tables_just_keep() {
        // Two, three and four options: tables of three and four entries, and the cost.
        let of = |max_table: usize, max_evaluations: u64| {
            let limits = Limits { max_table, max_evaluations, ..Limits::default() };
            steps(&[2, 3, 4], &[vec![0, 1], vec![1, 2]], &limits).map(|(steps, evaluations)| {
                (steps.into_iter().map(|step| (step.inputs, step.scope)).collect::<Vec<_>>(), evaluations)
            })
        };
        let wanted = vec![(vec![0], vec![1]), (vec![1, 2], vec![2]), (vec![3], vec![])];
        assert_eq!(of(4, 22), Some((wanted, 2 * 3 + 3 * 4 + 4)));
        assert_eq!([of(3, 22), of(4, 21)], [None, None]);
    }

    #[test]
    fn every_two_members_are_a_couple_but_one_with_itself() {
        assert_eq!(couples(&[1, 2, 1]).collect::<Vec<_>>(), [(1, 2), (2, 1)]);
        assert_eq!(couples(&[4, 5, 6]).collect::<Vec<_>>(), [(4, 5), (4, 6), (5, 6)]);
    }
}
