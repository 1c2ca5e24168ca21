//! Two choices mixed: where a large and a small one differ in parts that do not touch each other, each part
//! is taken for itself.

use super::reduce::Reduced;

/// The small choice with parts of the large one, those that save most per byte first, as many as fit into
/// `limit` bytes.
pub(super) fn mix(reduced: &Reduced, large: &[u32], small: &[u32], limit: f64) -> Vec<u32> {
    let memory = |option: &[u32]| -> f64 {
        reduced.memory.iter().zip(option).map(|(memory, &o)| memory[o as usize]).sum()
    };
    let (cost, bytes) = (reduced.total(small), memory(small));
    let mut parts: Vec<(f64, Vec<u32>)> = Vec::new();
    for part in parts_of(reduced, large, small) {
        let mut option = small.to_vec();
        part.iter().for_each(|&node| option[node as usize] = large[node as usize]);
        let (saved, more) = (cost - reduced.total(&option), memory(&option) - bytes);
        if saved > 0.0 {
            parts.push((if more > 0.0 { saved / more } else { f64::INFINITY }, part));
        }
    }
    parts.sort_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(&b.1)));
    let mut mixed = small.to_vec();
    for (_, part) in parts {
        let before = mixed.clone();
        part.iter().for_each(|&node| mixed[node as usize] = large[node as usize]);
        if memory(&mixed) > limit {
            mixed = before;
        }
    }
    mixed
}

/// The nodes that two choices differ in, in sets that have no cost in common.
fn parts_of(reduced: &Reduced, a: &[u32], b: &[u32]) -> Vec<Vec<u32>> {
    let differs = |node: u32| a[node as usize] != b[node as usize];
    let mut root: Vec<u32> = (0..a.len() as u32).collect();
    let mut join = |members: &[u32]| {
        let mut differing = members.iter().copied().filter(|&node| differs(node));
        let Some(first) = differing.next() else { return };
        for node in differing {
            let (p, q) = (find(&root, first), find(&root, node));
            root[p.max(q) as usize] = p.min(q);
        }
    };
    reduced.pairs.iter().for_each(|pair| join(&[pair.a, pair.b]));
    reduced.stars.iter().for_each(|star| join(&star.members));
    let mut parts: std::collections::BTreeMap<u32, Vec<u32>> = std::collections::BTreeMap::new();
    for node in (0..a.len() as u32).filter(|&node| differs(node)) {
        parts.entry(find(&root, node)).or_default().push(node);
    }
    parts.into_values().collect()
}

fn find(root: &[u32], mut node: u32) -> u32 {
    while root[node as usize] != node {
        node = root[node as usize];
    }
    node
}

#[cfg(test)]
mod tests {
    use super::super::reduce::reduce;
    use super::super::{Node, Problem};
    use super::*;

    #[test]
    fn what_saves_most_per_byte_is_taken_while_it_fits() {
        let node = |saved: f64, bytes: f64| Node::new(vec![10.0, 10.0 - saved], vec![0.0, bytes]);
        let problem = Problem {
            nodes: vec![node(1.0, 4.0), node(3.0, 4.0), node(4.0, 8.0), node(-1.0, 1.0)],
            memory_limit: Some(9.0),
            ..Problem::default()
        };
        let mut reduced = reduce(&problem).expect("all costs are finite");
        // The last one's second option is beaten; the others keep both.
        reduced.cost[3] = vec![10.0];
        assert_eq!(mix(&reduced, &[1, 1, 1, 0], &[0, 0, 0, 0], 9.0), [1, 1, 0, 0]);
    }
}
