//! A lower bound by passing messages: every node's cost is split over its tables so that their separate
//! minima add up to the most.
//!
//! Sequential tree-reweighted message passing (TRW-S; Kolmogorov, "Convergent tree-reweighted message passing
//! for energy minimization", PAMI 2006). It rises towards the bound of the linear program with one-hot
//! options whose pairs are tied by row and column sums (`reference/cfp-alpa.md` 2.3, (f) and (g) as
//! equalities).

use std::collections::BTreeMap;
use std::sync::Arc;

use super::Table;
use super::reduce::{Reduced, pick};
use super::star::{Form, Parts};

/// The bound under way: what is left at the nodes, and what their costs in common were given.
#[derive(Clone)]
pub(super) struct Dual<'r> {
    reduced: &'r Reduced,
    /// Per node: its options that are still in, as positions in `reduced`.
    pub kept: Vec<Vec<u32>>,
    /// Per node: the costs that it has in common with others.
    near: Vec<Vec<End>>,
    commons: Vec<Common>,
    /// Per node: cost per option at the price, less what was given away.
    left: Vec<Vec<f64>>,
    /// Per cost in common: what each member gave it, per option.
    given: Vec<Vec<Vec<f64>>>,
    /// Per node and option of `reduced`: what its bytes cost.
    added: Vec<Vec<f64>>,
    /// Per node and option still in: by what a choice with it costs more than others, as last seen.
    pub marginals: Vec<Vec<f64>>,
    /// Table entries evaluated.
    pub evaluations: u64,
}

/// Messages to go back to.
pub(super) struct State {
    left: Vec<Vec<f64>>,
    given: Vec<Vec<Vec<f64>>>,
    added: Vec<Vec<f64>>,
}

/// A cost of several nodes; infinity is replaced by a cost that no choice worth having has.
#[derive(Clone)]
enum Common {
    /// The table with the second member's options as columns, and with the first's.
    Pair([Arc<Table>; 2]),
    Star(Arc<Form>),
}

/// A cost in common, as one of its nodes sees it.
#[derive(Clone, Copy)]
struct End {
    common: u32,
    /// Which member the node is.
    member: u32,
    /// The first and the last node among the members.
    ends: [u32; 2],
}

impl<'r> Dual<'r> {
    /// Nothing is given away yet. `most` is more than the cost of any choice worth having.
    pub fn new(reduced: &'r Reduced, most: f64) -> Self {
        let mut near = vec![Vec::new(); reduced.cost.len()];
        let mut given = Vec::new();
        for members in members(reduced) {
            let ends = [members.iter().min(), members.iter().max()].map(|end| *end.unwrap_or(&0));
            for (&node, member) in members.iter().zip(0..) {
                near[node as usize].push(End { common: given.len() as u32, member, ends });
            }
            given.push(members.iter().map(|&node| vec![0.0; reduced.cost[node as usize].len()]).collect());
        }
        Self {
            reduced,
            kept: reduced.cost.iter().map(|cost| (0..cost.len() as u32).collect()).collect(),
            near,
            commons: commons(reduced, most),
            left: reduced.cost.clone(),
            given,
            added: reduced.cost.iter().map(|cost| vec![0.0; cost.len()]).collect(),
            marginals: reduced.cost.clone(),
            evaluations: 0,
        }
    }

    /// Gives the options' memory other prices: per node and option of `reduced`, what its bytes cost.
    pub fn set_prices(&mut self, added: Vec<Vec<f64>>) {
        for (node, left) in self.left.iter_mut().enumerate() {
            let more =
                self.kept[node].iter().map(|&o| added[node][o as usize] - self.added[node][o as usize]);
            left.iter_mut().zip(more).for_each(|(left, more)| *left += more);
        }
        self.added = added;
    }

    /// What was given so far, at which prices.
    pub fn state(&self) -> State {
        State { left: self.left.clone(), given: self.given.clone(), added: self.added.clone() }
    }

    /// Goes back to a state that had the same options.
    pub fn restore(&mut self, state: &State) {
        self.left.clone_from(&state.left);
        self.given.clone_from(&state.given);
        self.added.clone_from(&state.added);
    }

    /// Options of each node of `reduced`.
    pub fn sizes(&self) -> Vec<usize> {
        self.reduced.cost.iter().map(Vec::len).collect()
    }

    /// One pass forth and one back; returns the bound that they reach, bytes at their price included.
    pub fn pass(&mut self) -> f64 {
        (0..self.left.len()).for_each(|node| self.visit(node, |end| end.ends));
        (0..self.left.len()).rev().for_each(|node| self.visit(node, |end| [end.ends[1], end.ends[0]]));
        // The least of every cost in common is zero now, with what it was given.
        self.left.iter().map(|left| least(left)).sum()
    }

    /// Takes back from costs in common with nodes behind all that they can spare, and gives equal shares to
    /// those with nodes ahead; `ends` are the outermost nodes, from behind to ahead.
    fn visit(&mut self, node: usize, ends: impl Fn(&End) -> [u32; 2]) {
        let near = std::mem::take(&mut self.near[node]);
        let behind: Vec<End> = near.iter().copied().filter(|end| ends(end)[0] as usize != node).collect();
        let ahead: Vec<End> = near.iter().copied().filter(|end| ends(end)[1] as usize != node).collect();
        behind.iter().for_each(|&end| self.take(node, end));
        self.marginals[node].clone_from(&self.left[node]);
        let share = 1.0 / ahead.len().max(behind.len()).max(1) as f64;
        for end in &ahead {
            let given = &mut self.given[end.common as usize][end.member as usize];
            given.iter_mut().zip(&self.left[node]).for_each(|(given, left)| *given += share * left);
        }
        let rest = 1.0 - share * ahead.len() as f64;
        self.left[node].iter_mut().for_each(|left| *left *= rest);
        self.near[node] = near;
    }

    /// Moves what a node's options cost in common at least to the node.
    fn take(&mut self, node: usize, end: End) {
        let given = std::mem::take(&mut self.given[end.common as usize]);
        let own: Vec<&[f64]> = given.iter().map(Vec::as_slice).collect();
        let least = self.least(end, &own);
        self.given[end.common as usize] = given;
        let given = &mut self.given[end.common as usize][end.member as usize];
        for ((left, given), least) in self.left[node].iter_mut().zip(given).zip(least) {
            *left += *given + least;
            *given = -least;
        }
    }

    /// Per option of a member: the least cost in common, with what `own` says that the options of other
    /// members cost.
    fn least(&mut self, end: End, own: &[&[f64]]) -> Vec<f64> {
        let (common, far) = (&self.commons[end.common as usize], 1 - end.member.min(1) as usize);
        match common {
            Common::Star(form) => {
                self.evaluations += (form.each.len() << form.place.len()) as u64;
                form.least(end.member as usize, own)
            }
            Common::Pair(tables) => {
                self.evaluations += tables[far].values.len() as u64;
                least_of_columns(&tables[far], own[far])
            }
        }
    }

    /// Per node and option: by how much every choice that takes it is above the bound. After a pass only.
    pub fn excess(&mut self) -> Vec<Vec<f64>> {
        (0..self.left.len()).map(|node| self.excess_at(node)).collect()
    }

    fn excess_at(&mut self, node: usize) -> Vec<f64> {
        let lowest = least(&self.left[node]);
        let mut excess: Vec<f64> = self.left[node].iter().map(|left| left - lowest).collect();
        // Where the node is the first, what can be spared is at the node already.
        let others = |end: &&End| end.ends[0] as usize != node;
        let behind: Vec<End> = self.near[node].iter().filter(others).copied().collect();
        for end in behind {
            let given = std::mem::take(&mut self.given[end.common as usize]);
            let own: Vec<&[f64]> = given.iter().map(Vec::as_slice).collect();
            let least = self.least(end, &own);
            let mine = &given[end.member as usize];
            excess.iter_mut().zip(mine).zip(least).for_each(|((sum, given), least)| *sum += given + least);
            self.given[end.common as usize] = given;
        }
        excess
    }

    /// Per node and option still in: its cost, with what pairs were given, and without its bytes'.
    pub fn node_costs(&self) -> Vec<Vec<f64>> {
        let mut costs = self.left.clone();
        for (node, costs) in costs.iter_mut().enumerate() {
            let added = self.kept[node].iter().map(|&option| self.added[node][option as usize]);
            costs.iter_mut().zip(added).for_each(|(cost, added)| *cost -= added);
        }
        for (star, given) in self.reduced.stars.iter().zip(&self.given[self.reduced.pairs.len()..]) {
            for (&node, given) in star.members.iter().zip(given) {
                costs[node as usize].iter_mut().zip(given).for_each(|(cost, given)| *cost += given);
            }
        }
        costs
    }

    /// The table of a pair with what it was given, on the options still in. With `node_costs` the choices
    /// cost what they cost before; after a pass no entry is negative, and no choice that takes an entry is
    /// closer to the bound than that.
    pub fn pair_costs(&self, pair: usize) -> Table {
        let it = &self.reduced.pairs[pair];
        let [rows, cols] = [&self.kept[it.a as usize], &self.kept[it.b as usize]];
        let [a, b] = [&self.given[pair][0], &self.given[pair][1]];
        let cost = |row: usize, col: usize| it.table.at(rows[row] as usize, cols[col] as usize);
        Table::from_fn(rows.len(), cols.len(), |row, col| cost(row, col) + a[row] + b[col])
    }

    /// Goes on with some of the options only: per node, positions in `kept`.
    pub fn restrict(&mut self, keep: &[Vec<u32>]) {
        for (node, keep) in keep.iter().enumerate() {
            self.marginals[node] = pick(&self.marginals[node], keep);
            self.left[node] = pick(&self.left[node], keep);
            self.kept[node] = pick(&self.kept[node], keep);
        }
        let (mut tables, mut forms) = (BTreeMap::new(), Parts::default());
        for (index, members) in members(self.reduced).enumerate() {
            let keep: Vec<&[u32]> = members.iter().map(|&node| &*keep[node as usize]).collect();
            let given = self.given[index].iter().zip(&keep);
            self.given[index] = given.map(|(given, keep)| pick(given, keep)).collect();
            self.commons[index] = match &self.commons[index] {
                Common::Star(form) => Common::Star(forms.part(form, &keep)),
                Common::Pair([table, _]) => {
                    let at = |row: usize, col: usize| table.at(keep[0][row] as usize, keep[1][col] as usize);
                    let part = || both_ways(&Table::from_fn(keep[0].len(), keep[1].len(), at), f64::INFINITY);
                    let key = (Arc::as_ptr(table), keep[0].to_vec(), keep[1].to_vec());
                    Common::Pair(tables.entry(key).or_insert_with(part).clone())
                }
            };
        }
    }

    /// A choice among `reduced`'s options: each node in turn takes what suits those before it and, by their
    /// messages, those after it. After a pass only.
    pub fn decode(&mut self) -> Vec<u32> {
        let mut fixed: Vec<Option<u32>> = vec![None; self.left.len()];
        for node in 0..self.left.len() {
            let own =
                |&option: &u32| self.reduced.cost[node][option as usize] + self.added[node][option as usize];
            let mut cost: Vec<f64> = self.kept[node].iter().map(own).collect();
            for end in self.near[node].clone() {
                let least = self.least_given(end, &fixed);
                cost.iter_mut().zip(least).for_each(|(cost, least)| *cost += least);
            }
            fixed[node] =
                (0..cost.len() as u32).min_by(|&p, &q| cost[p as usize].total_cmp(&cost[q as usize]));
        }
        fixed.iter().zip(&self.kept).map(|(at, kept)| kept[at.unwrap_or(0) as usize]).collect()
    }

    /// Per option of a member: the least cost in common, where some nodes' options are fixed.
    fn least_given(&mut self, end: End, fixed: &[Option<u32>]) -> Vec<f64> {
        let given = std::mem::take(&mut self.given[end.common as usize]);
        let only = |given: &Vec<f64>, at: u32| {
            (0..given.len() as u32).map(|other| if other == at { 0.0 } else { f64::INFINITY }).collect()
        };
        let nodes = members_of(self.reduced, end.common as usize);
        let own: Vec<std::borrow::Cow<[f64]>> = given
            .iter()
            .zip(nodes)
            .map(|(given, node)| match fixed[node as usize] {
                Some(at) => std::borrow::Cow::Owned(only(given, at)),
                None => std::borrow::Cow::Borrowed(&**given),
            })
            .collect();
        let least = self.least(end, &own.iter().map(|own| &**own).collect::<Vec<_>>());
        drop(own);
        self.given[end.common as usize] = given;
        least
    }
}

/// The members of every cost in common, pairs first.
fn members(reduced: &Reduced) -> impl Iterator<Item = Vec<u32>> {
    (0..reduced.pairs.len() + reduced.stars.len()).map(|index| members_of(reduced, index))
}

fn members_of(reduced: &Reduced, index: usize) -> Vec<u32> {
    match reduced.pairs.get(index) {
        Some(pair) => vec![pair.a, pair.b],
        None => reduced.stars[index - reduced.pairs.len()].members.clone(),
    }
}

fn commons(reduced: &Reduced, most: f64) -> Vec<Common> {
    let mut tables: BTreeMap<*const Table, [Arc<Table>; 2]> = BTreeMap::new();
    let mut forms: BTreeMap<*const Form, Arc<Form>> = BTreeMap::new();
    let pairs = reduced.pairs.iter().map(|pair| {
        let both = tables.entry(Arc::as_ptr(&pair.table)).or_insert_with(|| both_ways(&pair.table, most));
        Common::Pair(both.clone())
    });
    let stars = reduced.stars.iter().map(|star| {
        let form = forms.entry(Arc::as_ptr(&star.form));
        Common::Star(form.or_insert_with(|| Arc::new(star.form.at_most(most))).clone())
    });
    pairs.chain(stars).collect()
}

/// The table as it is and turned; costs from `most` on count as `most`.
fn both_ways(table: &Table, most: f64) -> [Arc<Table>; 2] {
    let finite = |cost: f64| if cost < most { cost } else { most };
    let straight = Table::from_fn(table.rows, table.cols, |row, col| finite(table.at(row, col)));
    let turned = Table::from_fn(table.cols, table.rows, |row, col| finite(table.at(col, row)));
    [Arc::new(straight), Arc::new(turned)]
}

/// Per column: the least cost, with what the rows cost.
fn least_of_columns(table: &Table, rows: &[f64]) -> Vec<f64> {
    let mut least = vec![f64::INFINITY; table.cols];
    for (costs, row) in
        table.values.chunks_exact(table.cols).zip(rows).filter(|(_, row)| **row < f64::INFINITY)
    {
        for (least, cost) in least.iter_mut().zip(costs) {
            let cost = cost + row;
            *least = if cost < *least { cost } else { *least };
        }
    }
    least
}

fn least(costs: &[f64]) -> f64 {
    costs.iter().copied().fold(f64::INFINITY, f64::min)
}
