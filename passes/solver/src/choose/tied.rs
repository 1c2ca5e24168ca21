//! Nodes that must take the same option, as one node.

use super::{Edge, Node, Problem, Star};

impl Problem {
    /// The problem in which each node takes the option of the node `tied` to it, itself for most. A tied node
    /// is left with one option, which costs nothing.
    ///
    /// # Panics
    /// If a node has not as many options as the one that it is tied to.
    #[must_use]
    pub fn tied(mut self, tied: &[u32]) -> Problem {
        for (node, &to) in tied.iter().enumerate().filter(|(node, to)| *node != **to as usize) {
            let own = std::mem::replace(&mut self.nodes[node], Node { cost: vec![0.0], usages: Vec::new() });
            let home = &mut self.nodes[to as usize];
            assert_eq!(own.cost.len(), home.cost.len(), "node {node} has the options of node {to}");
            home.cost.iter_mut().zip(&own.cost).for_each(|(sum, cost)| *sum += cost);
            own.usages.into_iter().for_each(|usage| home.hold(usage));
        }
        let to = |node: u32| tied[node as usize];
        let edges = self.edges.into_iter();
        self.edges = edges.map(|edge| Edge { a: to(edge.a), b: to(edge.b), ..edge }).collect();
        let stars = self.stars.into_iter();
        let members = |star: &Star| star.members.iter().map(|&member| to(member)).collect();
        self.stars = stars.map(|star| Star { members: members(&star), form: star.form }).collect();
        self
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{brute_force, small_problem};
    use super::super::{Limits, choose};

    #[test]
    fn a_tied_problem_is_the_problem_with_equal_options() {
        let mut n_tied = 0;
        for seed in 0..200 {
            let problem = small_problem(seed);
            let last = problem.nodes.len() - 1;
            let same = |node: usize| problem.nodes[node].cost.len() == problem.nodes[last].cost.len();
            let Some(first) = (0..last).find(|&node| same(node)) else { continue };
            let mut tied: Vec<u32> = (0..problem.nodes.len() as u32).collect();
            tied[last] = first as u32;
            let (best, _) = brute_force(&problem.clone().tied(&tied));
            let Ok(mut choice) = choose(&problem.clone().tied(&tied), &Limits::default()) else { continue };
            choice.option[last] = choice.option[first];
            let cost = problem.cost(&choice.option);
            assert!((cost - best).abs() <= 1e-9 * best.abs(), "seed {seed}: {cost} for {best}");
            n_tied += 1;
        }
        assert!(n_tied > 50, "only {n_tied} problems have nodes to tie");
    }
}
