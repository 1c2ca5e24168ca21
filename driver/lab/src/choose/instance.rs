//! The JSON of one instance of the contest on intra-operator parallelism, as a problem for the solver.

use std::collections::BTreeMap;
use std::sync::Arc;

use phzc_io::json;
use phzc_ir::{Diagnostic, Result};
use phzc_solver::choose::{Edge, Node, Problem, Table, Usage};
use serde::Deserialize;

/// A cost from here on forbids.
const FORBIDDEN: f64 = 1e18;
/// The solver counts a node's strategies in 16 bits.
const MAX_STRATEGIES: usize = 1 << 16;

#[derive(Deserialize)]
struct File {
    problem: Text,
}

#[derive(Deserialize)]
struct Text {
    name: String,
    nodes: Nodes,
    edges: Edges,
    usage_limit: Option<f64>,
}

#[derive(Deserialize)]
struct Nodes {
    intervals: Vec<[u32; 2]>,
    costs: Vec<Vec<f64>>,
    usages: Vec<Vec<f64>>,
}

#[derive(Deserialize)]
struct Edges {
    nodes: Vec<[u32; 2]>,
    costs: Vec<Vec<f64>>,
}

/// An instance's name and its problem.
///
/// # Errors
/// Where the text is no instance: a list is too short, an edge leads nowhere, a number is no cost.
pub fn read(text: &str) -> Result<(String, Problem)> {
    let help = "docs/choose.md lists the keys";
    let File { problem } = json::read(text, "the instance", help)?;
    check(&problem).map_err(|message| Diagnostic::error(message).help(help))?;
    let nodes = &problem.nodes;
    let node = |((costs, bytes), [start, end]): ((&Vec<f64>, &Vec<f64>), &[u32; 2])| {
        let usages = vec![Usage { alive: *start..*end, bytes: bytes.clone() }];
        Node { cost: costs.iter().copied().map(cost).collect(), usages }
    };
    let nodes = nodes.costs.iter().zip(&nodes.usages).zip(&nodes.intervals).map(node).collect();
    let edges = edges(&problem);
    Ok((problem.name, Problem { nodes, edges, stars: Vec::new(), memory_limit: problem.usage_limit }))
}

/// Equal tables are one.
fn edges(problem: &Text) -> Vec<Edge> {
    let mut tables: BTreeMap<(usize, Vec<u64>), Arc<Table>> = BTreeMap::new();
    let mut edges = Vec::new();
    for (&[a, b], costs) in problem.edges.nodes.iter().zip(&problem.edges.costs) {
        let [rows, cols] = [a, b].map(|node| problem.nodes.costs[node as usize].len());
        let values: Vec<f64> = costs.iter().copied().map(cost).collect();
        let key = (rows, values.iter().map(|value| value.to_bits()).collect());
        let table = tables.entry(key).or_insert_with(|| Arc::new(Table { rows, cols, values }));
        edges.push(Edge { a, b, cost: table.clone() });
    }
    edges
}

fn cost(value: f64) -> f64 {
    if value >= FORBIDDEN { f64::INFINITY } else { value }
}

/// What is wrong with the lists, if anything.
fn check(problem: &Text) -> std::result::Result<(), String> {
    let Nodes { intervals, costs, usages } = &problem.nodes;
    if costs.len() != usages.len() || costs.len() != intervals.len() {
        return Err(format!(
            "there are {} lists of costs, {} of usages and {} intervals",
            costs.len(),
            usages.len(),
            intervals.len()
        ));
    }
    let strange = |values: &[f64]| values.iter().any(|value| !value.is_finite() || *value < 0.0);
    for (node, (costs, usages)) in costs.iter().zip(usages).enumerate() {
        if costs.is_empty() || costs.len() != usages.len() {
            return Err(format!("node {node} has {} costs and {} usages", costs.len(), usages.len()));
        }
        if costs.len() > MAX_STRATEGIES {
            return Err(format!(
                "node {node} has {} strategies, at most {MAX_STRATEGIES} can be",
                costs.len()
            ));
        }
        if strange(costs) || strange(usages) {
            return Err(format!("node {node} has a cost or usage below zero"));
        }
        if intervals[node][0] > intervals[node][1] {
            return Err(format!("the interval of node {node} ends before it starts"));
        }
    }
    check_edges(problem)?;
    match problem.usage_limit.filter(|limit| !limit.is_finite() || *limit < 0.0) {
        Some(limit) => Err(format!("the usage limit is {limit}")),
        None => Ok(()),
    }
}

fn check_edges(problem: &Text) -> std::result::Result<(), String> {
    let Edges { nodes, costs } = &problem.edges;
    if nodes.len() != costs.len() {
        return Err(format!("there are {} edges and {} lists of their costs", nodes.len(), costs.len()));
    }
    for (edge, (ends, costs)) in nodes.iter().zip(costs).enumerate() {
        let size = |node: &u32| problem.nodes.costs.get(*node as usize).map(Vec::len);
        let [Some(rows), Some(cols)] = [size(&ends[0]), size(&ends[1])] else {
            return Err(format!(
                "edge {edge} joins nodes {} and {}, there is no such node",
                ends[0], ends[1]
            ));
        };
        if costs.len() != rows * cols {
            return Err(format!("edge {edge} has {} costs instead of {rows} x {cols}", costs.len()));
        }
        if costs.iter().any(|value| !value.is_finite()) {
            return Err(format!("edge {edge} has a cost that is no number"));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    const SMALL: &str = r#"{"problem": {"name": "two", "usage_limit": 5,
        "nodes": {"intervals": [[0, 2], [1, 3]], "costs": [[1, 2], [3]], "usages": [[4, 1], [2]]},
        "edges": {"nodes": [[0, 1]], "costs": [[0, 1000000000000000000]]}}}"#;

    fn error(from: &str, to: &str) -> String {
        read(&SMALL.replace(from, to)).expect_err("the instance is wrong").message
    }

    #[test]
    fn an_instance_is_a_problem_whose_largest_costs_forbid() {
        let (name, problem) = read(SMALL).expect("the instance is whole");
        assert_eq!((name.as_str(), problem.memory_limit), ("two", Some(5.0)));
        assert_eq!(problem.edges[0].cost.values, [0.0, f64::INFINITY]);
        assert_eq!(problem.nodes[1].usages[0].alive, 1..3);
    }

    #[test]
    fn what_is_wrong_with_an_instance_is_said() {
        assert_eq!(error("[[1, 2], [3]]", "[[1, 2], []]"), "node 1 has 0 costs and 1 usages");
        assert_eq!(error("[[0, 1]]", "[[0, 7]]"), "edge 0 joins nodes 0 and 7, there is no such node");
        assert_eq!(error("[[0, 1000000000000000000]]", "[[0]]"), "edge 0 has 1 costs instead of 2 x 1");
        assert_eq!(error("[1, 3]", "[4, 3]"), "the interval of node 1 ends before it starts");
        assert_eq!(error("\"usage_limit\": 5", "\"usage_limit\": -5"), "the usage limit is -5");
    }
}
