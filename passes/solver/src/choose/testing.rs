//! Random problems and brute force for the tests of this folder.

use std::sync::Arc;

use super::random::Random;
use super::{Edge, Form, Node, Problem, Star, Table, Usage};

impl Random {
    /// In [0, 1).
    pub(super) fn unit(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1u64 << 53) as f64
    }

    /// A cost in [0, 1), now and then infinite, now and then a round number that ties with others.
    fn cost(&mut self) -> f64 {
        match self.below(12) {
            0 => f64::INFINITY,
            1 | 2 => 0.5,
            _ => self.unit(),
        }
    }

    fn table(&mut self, rows: usize, cols: usize) -> Arc<Table> {
        Arc::new(Table::from_fn(rows, cols, |_, _| self.cost()))
    }
}

fn edge(random: &mut Random, nodes: &[Node], a: usize, b: usize) -> Edge {
    let cost = random.table(nodes[a].cost.len(), nodes[b].cost.len());
    Edge { a: a as u32, b: b as u32, cost }
}

fn node(random: &mut Random, options: usize) -> Node {
    let cost = (0..options).map(|_| random.cost()).collect();
    Node::new(cost, (0..options).map(|_| (random.unit() * 100.0).round()).collect())
}

fn small_node(random: &mut Random) -> Node {
    let options = 1 + random.below(4);
    node(random, options)
}

/// A chain of up to 8 nodes with up to 4 options, with skips, repeated edges, a self-edge now and then and
/// perhaps a hub.
pub(super) fn small_problem(seed: u64) -> Problem {
    let mut random = Random(seed);
    let n = 2 + random.below(7);
    let nodes: Vec<Node> = (0..n).map(|_| small_node(&mut random)).collect();
    let mut ends: Vec<(usize, usize)> = (1..n).map(|b| (b - 1, b)).collect();
    let skips = random.below(n);
    ends.extend((0..skips).map(|_| (random.below(n), random.below(n))));
    if random.below(2) == 0 {
        ends.extend((1..n).map(|b| (b, 0)));
    }
    let edges = ends.into_iter().map(|(a, b)| edge(&mut random, &nodes, a, b)).collect();
    let stars = (0..random.below(3)).map(|_| star(&mut random, &nodes)).collect();
    Problem { nodes, edges, stars, memory_limit: None }
}

/// The same with memory that is held for a while, several times by some nodes, nodes that follow others, and
/// a limit that binds.
pub(super) fn timed_problem(seed: u64) -> Problem {
    let (mut problem, mut random) = (small_problem(seed), Random(seed ^ 0x5eed));
    for node in &mut problem.nodes {
        let n_options = node.cost.len();
        let usage = |random: &mut Random| {
            let start = random.below(6) as u32;
            let bytes = (0..n_options).map(|_| random.below(8) as f64).collect();
            Usage { alive: start..start + random.below(5) as u32, bytes }
        };
        node.usages = (0..1 + random.below(3)).map(|_| usage(&mut random)).collect();
    }
    for a in 0..problem.nodes.len() as u32 {
        let b = random.below(problem.nodes.len()) as u32;
        let n = problem.nodes[a as usize].cost.len();
        if a != b && problem.nodes[b as usize].cost.len() == n && random.below(2) == 0 {
            let turn = random.below(n);
            let at = |row: usize, col: usize| (row + turn) % n == col;
            let cost = Arc::new(Table::from_fn(
                n,
                n,
                |row, col| if at(row, col) { row as f64 } else { f64::INFINITY },
            ));
            problem.edges.push(Edge { a, b, cost });
        }
    }
    problem.memory_limit = Some(4.0 + random.below(14) as f64);
    problem
}

/// A maker and up to three readers.
fn star(random: &mut Random, nodes: &[Node]) -> Star {
    let mut members: Vec<u32> = (0..nodes.len() as u32).collect();
    (1..members.len()).for_each(|at| members.swap(at, random.below(at + 1)));
    members.truncate(2 + random.below(3));
    let again = random.below(2 * members.len());
    members.extend(members.get(again).copied());
    let (n_sources, n_wanted) = (1 + random.below(3), 1 + random.below(3));
    let place = |(member, &node): (usize, &u32)| {
        let n_places = if member == 0 { n_sources } else { n_wanted };
        nodes[node as usize].cost.iter().map(|_| random.below(n_places) as u16).collect()
    };
    let place = members.iter().enumerate().map(place).collect();
    let home: Vec<f64> = (0..n_sources).map(|_| random.unit()).collect();
    let each: Vec<f64> = (0..n_sources * n_wanted).map(|_| random.cost()).collect();
    let together = |(at, each): (usize, &f64)| (home[at / n_wanted] + each).min(random.cost());
    let only = each.iter().enumerate().map(together).collect();
    Star { members, form: Arc::new(Form { place, n_wanted, home, each, only }) }
}

/// Every node joined to every other: `n` nodes of `options` options, all costs finite.
pub(super) fn dense_problem(seed: u64, n: usize, options: usize) -> Problem {
    let mut random = Random(seed);
    let mut costs = |count: usize| (0..count).map(|_| random.unit()).collect::<Vec<f64>>();
    let nodes: Vec<Node> = (0..n).map(|_| Node::new(costs(options), costs(options))).collect();
    let mut edges = Vec::new();
    for (a, b) in (0..n as u32).flat_map(|a| (a + 1..n as u32).map(move |b| (a, b))) {
        let cost = Arc::new(Table { rows: options, cols: options, values: costs(options * options) });
        edges.push(Edge { a, b, cost });
    }
    Problem { nodes, edges, stars: Vec::new(), memory_limit: None }
}

/// Layers of 6 nodes in a chain, each layer's ends joined as by a residual, and two hubs read by every layer.
/// All layers share their tables. A node has 20 to 50 options.
pub(super) fn transformer(layers: usize, hub_options: usize) -> Problem {
    const OPTIONS: [usize; 6] = [20, 26, 32, 38, 44, 50];
    let mut random = Random(7);
    let kinds: Vec<Node> = OPTIONS.iter().map(|&options| node(&mut random, options)).collect();
    let hub = |random: &mut Random| {
        Node::new((0..hub_options).map(|_| random.unit()).collect(), vec![0.0; hub_options])
    };
    let mut nodes = vec![hub(&mut random), hub(&mut random)];
    nodes.extend((0..layers).flat_map(|_| kinds.clone()));
    let ends = [(0, 1), (1, 2), (2, 3), (3, 4), (4, 5), (0, 3), (3, 6), (5, 6)];
    let tables: Vec<Arc<Table>> =
        ends.iter().map(|&(a, b)| random.table(OPTIONS[a], OPTIONS[b % 6])).collect();
    let reads =
        [(0, 1), (1, 4)].map(|(hub, reader)| (hub, reader, random.table(hub_options, OPTIONS[reader])));
    let mut edges = Vec::new();
    for first in (0..layers).map(|layer| 2 + 6 * layer) {
        let inside = ends.iter().zip(&tables).filter(|((_, b), _)| first + b < nodes.len());
        edges.extend(inside.map(|(&(a, b), cost)| Edge {
            a: (first + a) as u32,
            b: (first + b) as u32,
            cost: cost.clone(),
        }));
        edges.extend(reads.iter().map(|(hub, reader, cost)| Edge {
            a: *hub,
            b: (first + reader) as u32,
            cost: cost.clone(),
        }));
    }
    Problem { nodes, edges, stars: Vec::new(), memory_limit: None }
}

/// The least cost of any choice within the memory limit, and the least memory of any choice of finite cost.
pub(super) fn brute_force(problem: &Problem) -> (f64, f64) {
    let mut option = vec![0u32; problem.nodes.len()];
    let (mut best, mut least) = (f64::INFINITY, f64::INFINITY);
    loop {
        let (cost, memory) = (problem.cost(&option), problem.memory(&option));
        least = if cost < f64::INFINITY { f64::min(least, memory) } else { least };
        best =
            if memory <= problem.memory_limit.unwrap_or(f64::INFINITY) { f64::min(best, cost) } else { best };
        let Some(node) =
            (0..option.len()).find(|&node| option[node] as usize + 1 < problem.nodes[node].cost.len())
        else {
            return (best, least);
        };
        option[node] += 1;
        option[..node].fill(0);
    }
}
