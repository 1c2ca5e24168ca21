//! Nodes that follow another: where each option of one node allows one option of another at most, and the
//! other way round, the two are one node.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::{Edge, Form, Node, Problem, Star, Table, Usage, allowed};

/// A problem in which no node follows another, and what the nodes of the whole problem follow.
pub(super) struct Contracted {
    pub problem: Problem,
    /// Per node of the whole problem.
    follows: Vec<Follower>,
}

/// A node that takes what its leader says.
#[derive(Clone)]
struct Follower {
    leader: u32,
    /// Per option of the leader: the node's own, or `NONE`.
    option: Arc<Vec<u32>>,
}

/// The leader's option leaves the follower none.
const NONE: u32 = u32::MAX;

impl Contracted {
    /// Makes one node of all that follow one another; `None` where no node does.
    pub fn new(problem: &Problem) -> Option<Contracted> {
        let mut follows = followers(problem);
        let is_leader = |node: usize| follows[node].leader as usize == node;
        let leaders: Vec<u32> = (0..follows.len() as u32).filter(|&node| is_leader(node as usize)).collect();
        if leaders.len() == follows.len() {
            return None;
        }
        for it in &mut follows {
            it.leader = leaders.binary_search(&it.leader).expect("a leader follows nobody") as u32;
        }
        let mut made = Contracted { problem: Problem::default(), follows };
        made.problem.memory_limit = problem.memory_limit;
        let free = |&leader: &u32| Node {
            cost: vec![0.0; problem.nodes[leader as usize].cost.len()],
            usages: Vec::new(),
        };
        made.problem.nodes = leaders.iter().map(free).collect();
        made.add_nodes(problem);
        made.add_edges(problem);
        made.add_stars(problem);
        Some(made)
    }

    /// A choice of the whole problem.
    pub fn expand(&self, option: &[u32]) -> Vec<u32> {
        self.follows.iter().map(|it| it.option[option[it.leader as usize] as usize]).collect()
    }

    /// Costs and memory of followers, as their leaders'; what is held at the same times is one usage.
    fn add_nodes(&mut self, problem: &Problem) {
        let mut usages: Vec<BTreeMap<[u32; 2], Vec<f64>>> = vec![BTreeMap::new(); self.problem.nodes.len()];
        for (node, it) in problem.nodes.iter().zip(&self.follows) {
            let costs = &mut self.problem.nodes[it.leader as usize].cost;
            add(costs, &node.cost, &it.option, f64::INFINITY);
            for usage in &node.usages {
                let alive = [usage.alive.start, usage.alive.end];
                let sums = usages[it.leader as usize].entry(alive).or_insert_with(|| vec![0.0; costs.len()]);
                add(sums, &usage.bytes, &it.option, 0.0);
            }
        }
        for (node, usages) in self.problem.nodes.iter_mut().zip(usages) {
            let usages = usages.into_iter();
            node.usages = usages.map(|([start, end], bytes)| Usage { alive: start..end, bytes }).collect();
        }
    }

    fn add_edges(&mut self, problem: &Problem) {
        let mut made: BTreeMap<[*const (); 3], Arc<Table>> = BTreeMap::new();
        for edge in &problem.edges {
            let [a, b] = [&self.follows[edge.a as usize], &self.follows[edge.b as usize]];
            let at = |row: usize, col: usize| match [a.option[row], b.option[col]] {
                [row, col] if row == NONE || col == NONE => f64::INFINITY,
                [row, col] => edge.cost.at(row as usize, col as usize),
            };
            if a.leader == b.leader {
                let costs = self.problem.nodes[a.leader as usize].cost.iter_mut().enumerate();
                costs.for_each(|(option, cost)| *cost += at(option, option));
                continue;
            }
            let key = [
                Arc::as_ptr(&edge.cost).cast(),
                Arc::as_ptr(&a.option).cast(),
                Arc::as_ptr(&b.option).cast(),
            ];
            let table = || Arc::new(Table::from_fn(a.option.len(), b.option.len(), at));
            let cost = made.entry(key).or_insert_with(table).clone();
            self.problem.edges.push(Edge { a: a.leader, b: b.leader, cost });
        }
    }

    fn add_stars(&mut self, problem: &Problem) {
        let mut made: BTreeMap<(*const Form, Vec<*const Vec<u32>>), Arc<Form>> = BTreeMap::new();
        for star in &problem.stars {
            let follows: Vec<&Follower> =
                star.members.iter().map(|&node| &self.follows[node as usize]).collect();
            let maps = follows.iter().map(|it| Arc::as_ptr(&it.option)).collect();
            let form = || {
                let place = star.form.place.iter().zip(&follows).map(|(place, it)| it.place(place)).collect();
                Arc::new(Form { place, ..Form::clone(&star.form) })
            };
            let form = made.entry((Arc::as_ptr(&star.form), maps)).or_insert_with(form).clone();
            self.problem.stars.push(Star { members: follows.iter().map(|it| it.leader).collect(), form });
        }
    }
}

impl Follower {
    /// Per option of the leader: the follower's place in a star; any where it has no option.
    fn place(&self, place: &[u16]) -> Vec<u16> {
        self.option.iter().map(|&at| if at == NONE { 0 } else { place[at as usize] }).collect()
    }
}

/// Adds a follower's values to its leader's, `none` where it has no option.
fn add(sums: &mut [f64], values: &[f64], option: &[u32], none: f64) {
    for (sum, &at) in sums.iter_mut().zip(option) {
        *sum += if at == NONE { none } else { values[at as usize] };
    }
}

/// Per node: whom it follows, itself if nobody.
fn followers(problem: &Problem) -> Vec<Follower> {
    let mut maps = Maps::default();
    let near = matched(problem, &mut maps);
    let mut follows: Vec<Option<Follower>> = vec![None; problem.nodes.len()];
    for leader in 0..problem.nodes.len() as u32 {
        let itself = (0..problem.nodes[leader as usize].cost.len() as u32).collect();
        let mut open = vec![(leader, maps.only(itself))];
        while let Some((node, option)) = open.pop() {
            if follows[node as usize].is_some() {
                continue;
            }
            for (next, map) in &near[node as usize] {
                let through = |&at: &u32| if at == NONE { NONE } else { map[at as usize] };
                open.push((*next, maps.only(option.iter().map(through).collect())));
            }
            follows[node as usize] = Some(Follower { leader, option });
        }
    }
    follows.into_iter().map(|it| it.expect("every node leads if it does not follow")).collect()
}

/// Per node: those that it decides, with their option for each of its own.
fn matched(problem: &Problem, maps: &mut Maps) -> Vec<Vec<(u32, Arc<Vec<u32>>)>> {
    let mut known: BTreeMap<*const Table, Option<[Arc<Vec<u32>>; 2]>> = BTreeMap::new();
    let mut near = vec![Vec::new(); problem.nodes.len()];
    for edge in problem.edges.iter().filter(|edge| edge.a != edge.b) {
        let both = known.entry(Arc::as_ptr(&edge.cost)).or_insert_with(|| partners(&edge.cost, maps));
        if let Some([forth, back]) = both {
            near[edge.a as usize].push((edge.b, forth.clone()));
            near[edge.b as usize].push((edge.a, back.clone()));
        }
    }
    near
}

/// Per row the column that it allows, and the other way round; `None` where a row or column allows two.
fn partners(table: &Table, maps: &mut Maps) -> Option<[Arc<Vec<u32>>; 2]> {
    // A side of one option has its costs folded away; it decides nothing.
    if table.rows < 2 || table.cols < 2 {
        return None;
    }
    let mut both = [vec![NONE; table.rows], vec![NONE; table.cols]];
    for (at, _) in table.values.iter().enumerate().filter(|(_, cost)| allowed(**cost) < f64::INFINITY) {
        let (row, col) = (at / table.cols, at % table.cols);
        if both[0][row] != NONE || both[1][col] != NONE {
            return None;
        }
        (both[0][row], both[1][col]) = (col as u32, row as u32);
    }
    Some(both.map(|map| maps.only(map)))
}

/// Equal maps, once.
#[derive(Default)]
struct Maps(BTreeMap<Vec<u32>, Arc<Vec<u32>>>);

impl Maps {
    fn only(&mut self, map: Vec<u32>) -> Arc<Vec<u32>> {
        match self.0.get(&map) {
            Some(known) => known.clone(),
            None => self.0.entry(map.clone()).or_insert(Arc::new(map)).clone(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{brute_force, timed_problem};
    use super::super::{MicroLp, choose_by_ilp};
    use super::*;

    #[test]
    fn what_follows_costs_as_much_as_before() {
        let mut n_contracted = 0;
        for seed in 0..1000 {
            let problem = timed_problem(seed);
            let Some(contracted) = Contracted::new(&problem) else { continue };
            n_contracted += 1;
            let (best, _) = brute_force(&problem);
            let Ok(choice) = choose_by_ilp(&contracted.problem, &MicroLp::default()) else {
                assert_eq!(best, f64::INFINITY, "seed {seed}");
                continue;
            };
            let option = contracted.expand(&choice.option);
            let cost = problem.cost(&option);
            assert!((cost - best).abs() < 1e-6, "seed {seed}: {cost} for {best}");
            assert!(Some(problem.memory(&option)) <= problem.memory_limit, "seed {seed}");
        }
        assert!(n_contracted > 250, "only {n_contracted} problems have followers");
    }

    #[test]
    fn of_a_chain_of_followers_the_first_node_is_left() {
        let turn = Table::from_fn(3, 3, |row, col| if (row + 1) % 3 == col { 1.0 } else { f64::INFINITY });
        let edge = |a: u32| Edge { a, b: a + 1, cost: Arc::new(turn.clone()) };
        let node = |at: usize| Node::new(vec![0.0, at as f64, 10.0], vec![at as f64; 3]);
        let problem = Problem {
            nodes: (0..3).map(node).collect(),
            edges: vec![edge(0), edge(1)],
            ..Problem::default()
        };
        let contracted = Contracted::new(&problem).expect("two nodes follow");
        // Of each option: what the three nodes cost, and two edges.
        assert_eq!(contracted.problem.nodes[0].cost, [0.0 + 1.0 + 10.0 + 2.0, 12.0, 14.0]);
        assert_eq!(contracted.problem.nodes[0].usages, [Usage { alive: 0..1, bytes: vec![3.0; 3] }]);
        assert_eq!(contracted.expand(&[2]), [2, 0, 1]);
    }
}
