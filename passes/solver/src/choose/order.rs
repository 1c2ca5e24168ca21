//! Orders in which to eliminate the nodes of a graph so that the tables stay small.

use std::collections::BTreeSet;

/// Nodes with more neighbours wait until the others are gone; their exact score would cost more than it
/// tells.
const MANY: usize = 40;

/// The order that evaluates the fewest table entries among three greedy ones.
///
/// `sizes` are the nodes' option counts.
pub(super) fn best_order(sizes: &[usize], pairs: impl Iterator<Item = (u32, u32)>) -> Vec<u32> {
    let mut near = vec![Vec::new(); sizes.len()];
    for (a, b) in pairs {
        near[a as usize].push(b);
        near[b as usize].push(a);
    }
    near.iter_mut().for_each(|list| {
        list.sort_unstable();
        list.dedup();
    });
    let mut best = (Vec::new(), f64::INFINITY);
    for rule in [Rule::Weight, Rule::Fill, Rule::Sweep] {
        // A poor order makes ever larger cliques: it is given up once it costs more than the best.
        if let Some(order) = greedy(sizes, near.clone(), rule, best.1) {
            best = order;
        }
    }
    best.0
}

#[derive(Clone, Copy)]
enum Rule {
    /// The smallest table first.
    Weight,
    /// The fewest new edges first, weighted by table size.
    Fill,
    /// By id, which on a chain is a sweep along it.
    Sweep,
}

/// An order and the table entries that it evaluates; `None` if they are not fewer than `most`.
fn greedy(sizes: &[usize], near: Vec<Vec<u32>>, rule: Rule, most: f64) -> Option<(Vec<u32>, f64)> {
    let late = near.iter().map(|list| list.len() > MANY).collect();
    let mut graph = Graph { sizes, near, late };
    let mut scores: Vec<Score> = (0..sizes.len() as u32).map(|node| graph.score(node, rule)).collect();
    let mut queue: BTreeSet<(Score, u32)> = scores.iter().copied().zip(0..).collect();
    let (mut order, mut work) = (Vec::with_capacity(sizes.len()), 0.0);
    while let Some((_, node)) = queue.pop_first() {
        work += graph.table_entries(node);
        if work >= most && most.is_finite() {
            return None;
        }
        for changed in graph.eliminate(node) {
            let score = graph.score(changed, rule);
            queue.remove(&(scores[changed as usize], changed));
            queue.insert((score, changed));
            scores[changed as usize] = score;
        }
        order.push(node);
    }
    Some((order, work))
}

type Score = (u64, u64);

struct Graph<'s> {
    sizes: &'s [usize],
    /// Sorted neighbours.
    near: Vec<Vec<u32>>,
    /// Nodes that began with many neighbours.
    late: Vec<bool>,
}

impl Graph<'_> {
    fn score(&self, node: u32, rule: Rule) -> Score {
        let near = &self.near[node as usize];
        // The bits of positive floats sort as the floats do.
        match rule {
            Rule::Sweep => (u64::from(self.late[node as usize]), u64::from(node)),
            _ if near.len() > MANY => (u64::MAX, near.len() as u64),
            Rule::Weight => (self.table_entries(node).to_bits(), near.len() as u64),
            Rule::Fill => (self.fill(near).to_bits(), self.table_entries(node).to_bits()),
        }
    }

    /// Entries evaluated to eliminate the node now.
    fn table_entries(&self, node: u32) -> f64 {
        let near = self.near[node as usize].iter().map(|&other| self.sizes[other as usize] as f64);
        near.product::<f64>() * self.sizes[node as usize] as f64
    }

    fn fill(&self, near: &[u32]) -> f64 {
        let mut fill = 0.0;
        for (index, &a) in near.iter().enumerate() {
            for &b in &near[index + 1..] {
                if self.near[a as usize].binary_search(&b).is_err() {
                    fill += (self.sizes[a as usize] * self.sizes[b as usize]) as f64;
                }
            }
        }
        fill
    }

    /// Joins the node's neighbours to each other, and returns them.
    fn eliminate(&mut self, node: u32) -> Vec<u32> {
        let near = std::mem::take(&mut self.near[node as usize]);
        for &mine in &near {
            let list = &mut self.near[mine as usize];
            *list = merge(list, &near, |other| other != mine && other != node);
        }
        near
    }
}

/// The union of two sorted lists, less what is not wanted.
fn merge(p: &[u32], q: &[u32], wanted: impl Fn(u32) -> bool) -> Vec<u32> {
    let (mut i, mut j) = (0, 0);
    let mut union = Vec::with_capacity(p.len() + q.len());
    while i < p.len() || j < q.len() {
        let next = match (p.get(i), q.get(j)) {
            (Some(&a), Some(&b)) => a.min(b),
            (Some(&a), None) | (None, Some(&a)) => a,
            (None, None) => break,
        };
        i += usize::from(p.get(i) == Some(&next));
        j += usize::from(q.get(j) == Some(&next));
        if wanted(next) {
            union.push(next);
        }
    }
    union
}

#[cfg(test)]
mod tests {
    use super::*;

    fn work(sizes: &[usize], pairs: &[(u32, u32)]) -> f64 {
        let mut near = vec![Vec::new(); sizes.len()];
        for &(a, b) in pairs {
            near[a as usize].push(b);
            near[b as usize].push(a);
        }
        let mut graph = Graph { sizes, near, late: vec![false; sizes.len()] };
        let order = best_order(sizes, pairs.iter().copied());
        order.iter().map(|&node| (graph.table_entries(node), graph.eliminate(node)).0).sum()
    }

    #[test]
    fn a_chain_never_needs_a_table_of_three_nodes() {
        let pairs: Vec<_> = (0..9).map(|a| (a, a + 1)).collect();
        assert_eq!(work(&[4; 10], &pairs), 9.0 * 16.0 + 4.0);
    }

    #[test]
    fn a_hub_of_a_chain_goes_last() {
        let mut pairs: Vec<_> = (0..99).map(|a| (a, a + 1)).collect();
        pairs.extend((0..100).map(|a| (a, 100)));
        let order = best_order(&[4; 101], pairs.into_iter());
        assert!(order.iter().position(|&node| node == 100) >= Some(98));
    }
}
