//! Orders of nodes: all where these are few, else kinds as blocks and the rotations of nodes by kind.

use phzc_cost::fasop::{Fleet, NodeKind};
use std::collections::BTreeSet;

/// Orders are all tried up to this number of them.
const MAX_ORDERS: usize = 200;

/// Orders to be tried.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Orders {
    /// Per order and node, its kind.
    pub list: Vec<Vec<usize>>,
    /// Whether there are no others, but for nodes that only cost another price.
    pub is_whole: bool,
}

/// Orders of so many nodes of each kind; nodes that differ in nothing but price, availability and power are
/// not told apart.
pub(super) fn orders(counts: &[usize], fleet: &Fleet) -> Orders {
    let alike: Vec<usize> = (0..counts.len()).map(|kind| first_alike(fleet, kind)).collect();
    let mut merged = vec![0; counts.len()];
    counts.iter().zip(&alike).for_each(|(n, first)| merged[*first] += n);
    let Orders { list, is_whole } = of_counts(&merged);
    let list = list.into_iter().map(|order| told_apart(&order, counts, &alike)).collect();
    Orders { list, is_whole }
}

/// The first kind that is as fast in all as this one.
fn first_alike(fleet: &Fleet, kind: usize) -> usize {
    let rest = |one: &NodeKind| NodeKind { usd_per_hour: 0.0, availability: 1.0, watts: 0.0, ..one.clone() };
    let own = rest(&fleet.kinds[kind]);
    fleet.kinds.iter().position(|other| rest(other) == own).unwrap_or(kind)
}

/// Gives each place of a merged kind one of those that were merged, in their order.
fn told_apart(order: &[usize], counts: &[usize], alike: &[usize]) -> Vec<usize> {
    let mut left = counts.to_vec();
    let own = |first: &usize| {
        let kind = (0..left.len()).find(|kind| alike[*kind] == *first && left[*kind] > 0).unwrap_or(*first);
        left[kind] = left[kind].saturating_sub(1);
        kind
    };
    order.iter().map(own).collect()
}

fn of_counts(counts: &[usize]) -> Orders {
    if n_orders(counts) <= MAX_ORDERS as f64 {
        let mut list = Vec::new();
        permute(&mut counts.to_vec(), &mut Vec::new(), &mut list);
        return Orders { list, is_whole: true };
    }
    let used: Vec<usize> = (0..counts.len()).filter(|kind| counts[*kind] > 0).collect();
    let sorted: Vec<usize> = blocks(&used, counts);
    let mut list: BTreeSet<Vec<usize>> =
        block_orders(&used).iter().map(|order| blocks(order, counts)).collect();
    if sorted.len() <= MAX_ORDERS {
        list.extend((0..sorted.len()).map(|by| [&sorted[by..], &sorted[..by]].concat()));
    }
    Orders { list: list.into_iter().collect(), is_whole: false }
}

/// All nodes of one kind after those of another.
fn blocks(order: &[usize], counts: &[usize]) -> Vec<usize> {
    order.iter().flat_map(|kind| std::iter::repeat_n(*kind, counts[*kind])).collect()
}

/// Orders of kinds: all, or the rotations of both directions.
fn block_orders(kinds: &[usize]) -> Vec<Vec<usize>> {
    let ones = vec![1; kinds.len()];
    if n_orders(&ones) <= MAX_ORDERS as f64 {
        let mut all = Vec::new();
        permute(&mut ones.clone(), &mut Vec::new(), &mut all);
        return all.iter().map(|order| order.iter().map(|place| kinds[*place]).collect()).collect();
    }
    let back: Vec<usize> = kinds.iter().rev().copied().collect();
    let both = [kinds.to_vec(), back];
    let rotated = |order: &Vec<usize>| {
        let order = order.clone();
        (0..order.len()).map(move |by| [&order[by..], &order[..by]].concat())
    };
    both.iter().flat_map(rotated).collect()
}

/// Orders with two blocks of a kind exchanged.
pub(super) fn exchanged(order: &[usize]) -> Vec<Vec<usize>> {
    let blocks: Vec<&[usize]> = order.chunk_by(|a, b| a == b).collect();
    let pairs = (0..blocks.len()).flat_map(|a| (a + 1..blocks.len()).map(move |b| (a, b)));
    let other = |(a, b)| {
        let mut blocks = blocks.clone();
        blocks.swap(a, b);
        blocks.concat()
    };
    pairs.map(other).collect()
}

/// The number of distinct orders.
fn n_orders(counts: &[usize]) -> f64 {
    let factorial = |n: usize| (1..=n).map(|it| it as f64).product::<f64>();
    let ordered = |counts: &[usize]| -> f64 { counts.iter().map(|n| factorial(*n)).product() };
    let n: usize = counts.iter().sum();
    // Beyond that factorials are infinite, and orders too many unless all nodes are alike.
    let n_kinds = counts.iter().filter(|n| **n > 0).count();
    match n {
        _ if n_kinds < 2 => 1.0,
        0..=170 => factorial(n) / ordered(counts),
        _ => f64::INFINITY,
    }
}

fn permute(left: &mut Vec<usize>, order: &mut Vec<usize>, all: &mut Vec<Vec<usize>>) {
    if left.iter().all(|n| *n == 0) {
        return all.push(order.clone());
    }
    for kind in 0..left.len() {
        if left[kind] > 0 {
            left[kind] -= 1;
            order.push(kind);
            permute(left, order, all);
            order.pop();
            left[kind] += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use phzc_cost::fasop::Zones;

    fn fleet(devices: &[&str]) -> Fleet {
        let kind = |device: &&str| NodeKind::plain(device, [1e9, 1e10], 1.0, 16.0);
        Fleet { kinds: devices.iter().map(kind).collect(), per_node: 2, zones: Zones::default() }
    }

    #[test]
    fn orders_are_all_or_rotations() {
        let fleet = fleet(&["a", "b"]);
        assert_eq!(orders(&[1, 2], &fleet).list, [vec![0, 1, 1], vec![1, 0, 1], vec![1, 1, 0]]);
        let many = orders(&[8, 8], &fleet);
        assert_eq!((many.list.len(), many.is_whole), (16, false));
    }

    #[test]
    fn offers_of_one_device_are_not_told_apart() {
        let mut fleet = fleet(&["a", "a", "b"]);
        fleet.kinds[1].usd_per_hour = 0.5;
        let few = orders(&[1, 1, 1], &fleet);
        assert_eq!(few.list, [vec![0, 1, 2], vec![0, 2, 1], vec![2, 0, 1]]);
        assert!(few.is_whole);
    }

    #[test]
    fn many_kinds_of_many_nodes_are_blocks() {
        let fleet = fleet(&["a", "b", "c", "d", "e", "f"]);
        let many = orders(&[50; 6], &fleet);
        assert_eq!((many.list.len(), many.is_whole), (12, false));
        assert_eq!(exchanged(&[0, 0, 1, 2]), [vec![1, 0, 0, 2], vec![2, 1, 0, 0], vec![0, 0, 2, 1]]);
        assert_eq!(orders(&[300, 0, 0, 0, 0, 0], &fleet).list.len(), 1);
    }
}
