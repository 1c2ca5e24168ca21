//! Shrinks a problem without changing its optimum: edges merged, options that another beats dropped, constant
//! tables folded away.

mod profile;

use std::collections::BTreeMap;
use std::sync::Arc;

use rayon::prelude::*;
use smallvec::SmallVec;

use super::star::{Parts, Star};
use super::{Edge, Infeasible, Node, Problem, Table, Usage, allowed};
use profile::Profile;

/// A problem on the options that can matter; options are indices into `kept`.
#[derive(Clone)]
pub(super) struct Reduced {
    /// The surviving options of each node, ascending.
    pub kept: Vec<Vec<u32>>,
    /// Cost per surviving option, folded edges included.
    pub cost: Vec<Vec<f64>>,
    /// What the surviving options need, when.
    pub usages: Vec<Vec<Usage>>,
    /// Per surviving option, the bytes of all usages together: what counts where all are held all the time.
    pub memory: Vec<Vec<f64>>,
    /// At most one per two nodes; each table is at least 2 by 2.
    pub pairs: Vec<Pair>,
    /// Costs of more than two nodes, on the surviving options.
    pub stars: Vec<Star>,
}

/// A table between nodes `a < b`.
#[derive(Clone)]
pub(super) struct Pair {
    pub a: u32,
    pub b: u32,
    pub table: Arc<Table>,
}

impl Reduced {
    /// The same without what was dropped, as a problem to choose from again.
    pub fn problem(&self) -> Problem {
        let node =
            |(cost, usages): (&Vec<f64>, &Vec<Usage>)| Node { cost: cost.clone(), usages: usages.clone() };
        let edge = |pair: &Pair| Edge { a: pair.a, b: pair.b, cost: pair.table.clone() };
        Problem {
            nodes: self.cost.iter().zip(&self.usages).map(node).collect(),
            edges: self.pairs.iter().map(edge).collect(),
            stars: self.stars.clone(),
            memory_limit: None,
        }
    }

    /// The same problem with the other options forbidden: `kept` has those of each node.
    pub fn on(&self, kept: &[Vec<u32>]) -> Problem {
        let mut problem = self.problem();
        for (node, kept) in problem.nodes.iter_mut().zip(kept) {
            let mut cost = vec![f64::INFINITY; node.cost.len()];
            kept.iter().for_each(|&option| cost[option as usize] = node.cost[option as usize]);
            node.cost = cost;
        }
        problem
    }

    /// The cost of a choice among surviving options.
    pub fn total(&self, option: &[u32]) -> f64 {
        let nodes = self.cost.iter().zip(option).map(|(cost, &o)| cost[o as usize]);
        let pair =
            |pair: &Pair| pair.table.at(option[pair.a as usize] as usize, option[pair.b as usize] as usize);
        let star = |star: &Star| star.form.cost(|member| option[star.members[member] as usize]);
        nodes.chain(self.pairs.iter().map(pair)).chain(self.stars.iter().map(star)).sum()
    }

    /// Per node and option: what its bytes cost, at a price per byte.
    pub fn priced(&self, price: impl Fn(usize) -> f64) -> Vec<Vec<f64>> {
        let of = |(node, bytes): (usize, &Vec<f64>)| bytes.iter().map(|bytes| price(node) * bytes).collect();
        self.memory.iter().enumerate().map(of).collect()
    }

    /// A choice among the problem's options as one among the surviving; `None` if it takes another.
    pub fn restrict(&self, option: &[u32]) -> Option<Vec<u32>> {
        let place = |(kept, o): (&Vec<u32>, &u32)| Some(kept.binary_search(o).ok()? as u32);
        self.kept.iter().zip(option).map(place).collect()
    }

    /// A choice among surviving options as one among the problem's.
    pub fn expand(&self, option: &[u32]) -> Vec<u32> {
        self.kept.iter().zip(option).map(|(kept, &o)| kept[o as usize]).collect()
    }
}

/// Drops what no best choice needs; fails if a node has no option left.
pub(super) fn reduce(problem: &Problem) -> Result<Reduced, Infeasible> {
    let mut work = Work::new(problem);
    work.drop_beaten();
    match work.kept.iter().any(Vec::is_empty) {
        true => Err(Infeasible { least_memory: f64::INFINITY, proved: true }),
        false => Ok(work.finish()),
    }
}

/// All edges between two nodes; a part's flag says that its rows belong to `b`.
struct Link<'p> {
    a: u32,
    b: u32,
    parts: SmallVec<[(&'p Arc<Table>, bool); 1]>,
}

impl Link<'_> {
    fn other(&self, node: usize) -> usize {
        if self.a as usize == node { self.b as usize } else { self.a as usize }
    }

    /// Appends the costs when `node` takes `mine` and the other end takes each of `theirs`.
    fn append(&self, node: usize, mine: u32, theirs: &[u32], costs: &mut Vec<f64>) {
        let is_a = self.a as usize == node;
        let start = costs.len();
        for (index, &(table, flipped)) in self.parts.iter().enumerate() {
            let (first, step) = match is_a != flipped {
                true => (mine as usize * table.cols, 1),
                false => (mine as usize, table.cols),
            };
            let values = &table.values[first..];
            let part = theirs.iter().map(|&other| allowed(values[other as usize * step]));
            match index {
                0 => costs.extend(part),
                _ => costs[start..].iter_mut().zip(part).for_each(|(sum, cost)| *sum += cost),
            }
        }
    }
}

struct Work<'p> {
    problem: &'p Problem,
    kept: Vec<Vec<u32>>,
    cost: Vec<Vec<f64>>,
    links: Vec<Link<'p>>,
    links_of: Vec<Vec<u32>>,
    /// Per node: its stars, and which member of them it is.
    stars_of: Vec<Vec<(u32, usize)>>,
}

impl<'p> Work<'p> {
    fn new(problem: &'p Problem) -> Self {
        let links = merge_edges(problem);
        let mut links_of = vec![Vec::new(); problem.nodes.len()];
        for (index, link) in links.iter().enumerate() {
            links_of[link.a as usize].push(index as u32);
            links_of[link.b as usize].push(index as u32);
        }
        let mut cost: Vec<Vec<f64>> = problem.nodes.iter().map(|node| node.cost.clone()).collect();
        for edge in problem.edges.iter().filter(|edge| edge.a == edge.b) {
            let node = cost[edge.a as usize].iter_mut().enumerate();
            node.for_each(|(option, cost)| *cost += edge.cost.at(option, option));
        }
        let finite =
            |cost: &Vec<f64>| (0..cost.len() as u32).filter(|&o| cost[o as usize] < f64::INFINITY).collect();
        let kept = cost.iter().map(finite).collect();
        Self { problem, kept, cost, links, links_of, stars_of: stars_of(&problem.stars, problem.nodes.len()) }
    }

    /// Repeats at a node whenever a neighbour loses options, until nothing changes or a node has no option
    /// left.
    ///
    /// Each round looks at all its nodes at once: what one node drops leaves the others' reasons to drop
    /// valid.
    fn drop_beaten(&mut self) {
        let mut round: Vec<u32> = (0..self.kept.len() as u32).collect();
        while !round.is_empty() && !self.kept.iter().any(Vec::is_empty) {
            let survivors: Vec<_> = round.par_iter().map(|&node| self.survivors(node as usize)).collect();
            let mut dirty = vec![false; self.kept.len()];
            for (&node, survivors) in round.iter().zip(survivors) {
                let node = node as usize;
                if survivors.len() < self.kept[node].len() {
                    self.kept[node] = survivors;
                    let links = self.links_of[node].iter().map(|&link| &self.links[link as usize]);
                    links.for_each(|link| dirty[link.other(node)] = true);
                }
            }
            round.clear();
            round.extend((0..).zip(dirty).filter(|&(_, dirty)| dirty).map(|(node, _)| node));
        }
    }

    fn survivors(&self, node: usize) -> Vec<u32> {
        let profile = Profile::new(self, node);
        let mut alive = vec![true; self.kept[node].len()];
        for i in (0..alive.len()).rev() {
            let beaten = (0..alive.len()).any(|j| j != i && alive[j] && profile.beats(j, i));
            alive[i] = !beaten && profile.possible(i);
        }
        self.kept[node].iter().zip(alive).filter_map(|(&option, alive)| alive.then_some(option)).collect()
    }

    /// What the options of a node that are kept hold on to.
    fn usages(&self, node: usize, kept: &[u32]) -> Vec<Usage> {
        let of = |usage: &Usage| Usage { alive: usage.alive.clone(), bytes: pick(&usage.bytes, kept) };
        self.problem.nodes[node].usages.iter().map(of).collect()
    }

    fn finish(self) -> Reduced {
        let nodes = || self.kept.iter().enumerate();
        let cost: Vec<Vec<f64>> = nodes().map(|(node, kept)| pick(&self.cost[node], kept)).collect();
        let usages: Vec<Vec<Usage>> = nodes().map(|(node, kept)| self.usages(node, kept)).collect();
        let memory = cost.iter().zip(&usages).map(|(cost, usages)| together(usages, cost.len())).collect();
        let mut tables = Tables::default();
        let shrunk: Vec<_> =
            self.links.iter().map(|link| (link.a, link.b, tables.shrink(&self, link))).collect();
        let mut parts = Parts::default();
        let star = |star: &Star| {
            let kept: Vec<&[u32]> = star.members.iter().map(|&node| &*self.kept[node as usize]).collect();
            Star { members: star.members.clone(), form: parts.part(&star.form, &kept) }
        };
        let stars = self.problem.stars.iter().map(star).collect();
        let mut reduced = Reduced { kept: self.kept, cost, usages, memory, pairs: Vec::new(), stars };
        for (a, b, table) in shrunk {
            if !fold(&mut reduced.cost, a as usize, b as usize, &table.values) {
                reduced.pairs.push(Pair { a, b, table });
            }
        }
        reduced
    }
}

/// The values of the options that are kept.
pub(super) fn pick<T: Copy>(values: &[T], kept: &[u32]) -> Vec<T> {
    kept.iter().map(|&option| values[option as usize]).collect()
}

/// Per option of a node: the bytes of all its usages.
pub(super) fn together(usages: &[Usage], n_options: usize) -> Vec<f64> {
    let mut sums = vec![0.0; n_options];
    for usage in usages {
        sums.iter_mut().zip(&usage.bytes).for_each(|(sum, bytes)| *sum += bytes);
    }
    sums
}

/// Per node: the stars that it is a member of, and which.
pub(super) fn stars_of(stars: &[Star], n_nodes: usize) -> Vec<Vec<(u32, usize)>> {
    let mut of = vec![Vec::new(); n_nodes];
    for (index, star) in (0..).zip(stars) {
        star.members.iter().enumerate().for_each(|(member, &node)| of[node as usize].push((index, member)));
    }
    of
}

fn merge_edges(problem: &Problem) -> Vec<Link<'_>> {
    let mut links: BTreeMap<(u32, u32), Link> = BTreeMap::new();
    for edge in problem.edges.iter().filter(|edge| edge.a != edge.b) {
        let (a, b) = (edge.a.min(edge.b), edge.a.max(edge.b));
        let link = links.entry((a, b)).or_insert_with(|| Link { a, b, parts: SmallVec::new() });
        link.parts.push((&edge.cost, edge.a > edge.b));
    }
    links.into_values().collect()
}

/// Which tables a link sums, and which options are kept on its two sides.
type TableKey = (SmallVec<[(*const Table, bool); 1]>, u32, u32);

/// Tables on the kept options, one per distinct combination: repeated layers share theirs.
#[derive(Default)]
struct Tables {
    kept: BTreeMap<Vec<u32>, u32>,
    made: BTreeMap<TableKey, Arc<Table>>,
}

impl Tables {
    fn shrink(&mut self, work: &Work, link: &Link) -> Arc<Table> {
        let (a, b) = (&work.kept[link.a as usize], &work.kept[link.b as usize]);
        if let [(table, false)] = link.parts[..]
            && (table.rows, table.cols) == (a.len(), b.len())
            && !table.values.iter().any(|cost| cost.is_nan())
        {
            return table.clone();
        }
        let parts = link.parts.iter().map(|&(table, flipped)| (Arc::as_ptr(table), flipped)).collect();
        let key = (parts, self.number(a), self.number(b));
        let make = || {
            let mut values = Vec::with_capacity(a.len() * b.len());
            a.iter().for_each(|&mine| link.append(link.a as usize, mine, b, &mut values));
            Arc::new(Table { rows: a.len(), cols: b.len(), values })
        };
        self.made.entry(key).or_insert_with(make).clone()
    }

    fn number(&mut self, kept: &[u32]) -> u32 {
        let next = self.kept.len() as u32;
        match self.kept.get(kept) {
            Some(&number) => number,
            None => *self.kept.entry(kept.to_vec()).or_insert(next),
        }
    }
}

/// Moves a table that is a sum of a row cost and a column cost into the nodes.
fn fold(cost: &mut [Vec<f64>], a: usize, b: usize, values: &[f64]) -> bool {
    let (rows, cols) = (cost[a].len(), cost[b].len());
    let separable = |corner: f64| {
        (0..rows * cols).all(|at| values[at] - values[at % cols] == values[at / cols * cols] - corner)
    };
    // A table of one row or column is separable even where it holds infinities.
    if rows > 1 && cols > 1 && !separable(values[0]) {
        return false;
    }
    let corner = if rows > 1 && cols > 1 { values[0] } else { 0.0 };
    if cols > 1 {
        (0..cols).for_each(|col| cost[b][col] += values[col] - corner);
    }
    if rows > 1 || cols == 1 {
        (0..rows).for_each(|row| cost[a][row] += values[row * cols]);
    }
    true
}
