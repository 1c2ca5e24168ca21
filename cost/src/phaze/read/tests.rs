//! Problems as Phaze writes them, and what is wrong with others.

use super::super::PlanStage;
use super::*;

/// Nodes 5, 7 and 6 in that order, at widths 1 and 2; the last is split.
const TEXT: &str = r#"{
  "maxMemoryPerDevice": 200, "maxDevices": 8, "bandwidth": 10, "mbsInBatch": 10.5,
  "nodes": {
    "1": [
      {"id": 6, "parameterSize": 30, "activationSize": 7, "optimalLatencyFw": 4, "optimalLatencyBw": 8, "isTensorParallelized": false},
      {"id": 5, "parameterSize": 10, "activationSize": 5, "optimalLatencyFw": 1, "optimalLatencyBw": 2, "isTensorParallelized": false},
      {"id": 7, "parameterSize": 20, "activationSize": 6, "optimalLatencyFw": 2, "optimalLatencyBw": 4, "isTensorParallelized": false}
    ],
    "2": [
      {"id": 5, "parameterSize": 10, "activationSize": 5, "optimalLatencyFw": 1, "optimalLatencyBw": 2, "isTensorParallelized": false},
      {"id": 7, "parameterSize": 20, "activationSize": 6, "optimalLatencyFw": 2, "optimalLatencyBw": 4, "isTensorParallelized": false},
      {"id": 6, "parameterSize": 0, "activationSize": 3, "optimalLatencyFw": 2, "optimalLatencyBw": 4, "isTensorParallelized": true}
    ]
  },
  "edges": {
    "1": [{"sourceId": 7, "destId": 6, "communicationCost": 60}, {"sourceId": 5, "destId": 7, "communicationCost": 30}, {"sourceId": 5, "destId": 6, "communicationCost": 0}],
    "2": [{"sourceId": 5, "destId": 7, "communicationCost": 30}, {"sourceId": 7, "destId": 6, "communicationCost": 60}]
  },
  "activationRecomputation": true, "optimizerAlgorithm": "Adam",
  "fixedPP": 2, "fixedTMPC": 1, "fixedDP": 3, "numTransformerLayers": 2
}"#;

fn read(text: &str) -> std::result::Result<Instance, String> {
    let text: InstanceText = serde_json::from_str(text).map_err(|error| error.to_string())?;
    text.instance().map_err(|Misfit { path, error }| {
        let steps = path.iter().map(|step| match step {
            super::Step::Key(key) => key.clone(),
            super::Step::At(at) => at.to_string(),
        });
        format!("{}: {error}", steps.collect::<Vec<_>>().join("/"))
    })
}

/// The error of the text with one part replaced.
fn error(from: &str, to: &str) -> String {
    assert!(TEXT.contains(from), "{from}");
    read(&TEXT.replacen(from, to, 1)).expect_err("an error")
}

#[test]
fn layers_follow_each_other_as_the_edges_say() {
    let instance = read(TEXT).expect("a problem");
    let ids = |chain: &Chain| chain.layers.iter().map(|layer| layer.id).collect::<Vec<_>>();
    assert_eq!(instance.chains.iter().map(ids).collect::<Vec<_>>(), [[5, 7, 6], [5, 7, 6]]);
    let edge = |layer, bytes| Edge { layer, bytes };
    let one = &instance.chains[0];
    assert_eq!(one.inputs, [vec![], vec![edge(0, 30.0)], vec![edge(1, 60.0), edge(0, 0.0)]]);
    assert_eq!(one.outputs, [vec![edge(1, 30.0), edge(2, 0.0)], vec![edge(2, 60.0)], vec![]]);
    let last = Layer {
        id: 6,
        parameter_bytes: 30.0,
        activation_bytes: 7.0,
        forward_secs: 4.0,
        backward_secs: 8.0,
        update_secs: 0.0,
        is_tensor_parallel: false,
    };
    assert_eq!(one.layers[2], last);
    assert_eq!(instance.chains.iter().map(|chain| chain.width).collect::<Vec<_>>(), [1, 2]);
}

#[test]
fn a_problem_has_its_numbers_and_its_expert() {
    let instance = read(TEXT).expect("a problem");
    assert_eq!([instance.memory_bytes, instance.bytes_per_sec], [200.0, 10.0]);
    // Half a microbatch is left off.
    assert_eq!((instance.n_devices, instance.n_microbatches), (8, 10));
    assert_eq!((instance.recompute, instance.parameter_copies), (true, Copies::Adam));
    let stages = instance.expert_plan().expect("an expert").stages;
    assert_eq!(stages, [0..1, 1..3].map(|layers| PlanStage { layers, n_devices: 1 }));
    assert_eq!(instance.expert.expect("an expert").data_parallel, 3);
    let (without, _) = TEXT.split_once(",\n  \"fixedPP\"").expect("an expert");
    assert_eq!(read(&format!("{without}}}")).expect("a problem").expert, None);
}

#[test]
fn numbers_have_their_ranges() {
    let found =
        |from: &str, to: &str| error(from, to).split(" at line").next().unwrap_or_default().to_owned();
    insta::assert_snapshot!(found("Devices\": 8", "Devices\": 0"), @"expected from 1 to 1048576 devices, found `0`");
    insta::assert_snapshot!(found("Batch\": 10.5", "Batch\": 0.5"), @"expected at least one microbatch, found `0.5`");
    insta::assert_snapshot!(found("Size\": 30", "Size\": -1"), @"expected a number from 0 up, found `-1`");
    insta::assert_snapshot!(found("Cost\": 60", "Cost\": -60"), @"expected a number from 0 up, found `-60`");
}

#[test]
fn an_expert_is_whole_or_absent() {
    insta::assert_snapshot!(error("\"fixedTMPC\": 1,", ""), @": missing field `fixedTMPC`; give all of fixedPP, fixedTMPC, fixedDP, numTransformerLayers, or none");
}

#[test]
fn widths_have_nodes_and_edges() {
    insta::assert_snapshot!(error("\"2\": [{\"s", "\"3\": [{\"s"), @"nodes/2: no edges for width 2; `nodes` and `edges` have one list for each tensor-parallel width");
    insta::assert_snapshot!(error("\"edges\": {", "\"edges\": {\"4\": [],"), @"edges/4: no nodes for width 4; `nodes` and `edges` have one list for each tensor-parallel width");
    let zero = TEXT.replace("\"2\": [", "\"0\": [");
    insta::assert_snapshot!(read(&zero).expect_err("an error"), @"nodes/0: a tensor-parallel width of 0; give 1 to 1048576");
    let (head, tail) =
        (TEXT.split_once("\"1\"").expect("nodes").0, TEXT.split_once("\"activationR").expect("a tail").1);
    let none = format!("{head}}}, \"edges\": {{}}, \"activationR{tail}");
    insta::assert_snapshot!(read(&none).expect_err("an error"), @"nodes: there are no nodes; `nodes` and `edges` have one list for each tensor-parallel width");
}

#[test]
fn nodes_have_ids_of_their_own_and_no_part_on_one_device() {
    insta::assert_snapshot!(error("\"id\": 7", "\"id\": 5"), @"nodes/1/2: two nodes have the id 5; give each layer an id of its own");
    insta::assert_snapshot!(error("\"isTensorParallelized\": false", "\"isTensorParallelized\": true"), @"nodes/1/0: node 6 is tensor-parallel on one device; at width 1 no layer is `isTensorParallelized`");
}

#[test]
fn edges_join_two_nodes_once() {
    insta::assert_snapshot!(error("\"sourceId\": 7", "\"sourceId\": 8"), @"edges/1/0: no node has the id 8; list it in `nodes`");
    insta::assert_snapshot!(error("\"sourceId\": 7", "\"sourceId\": 6"), @"edges/1/0: node 6 is its own successor; leave the edge out");
    insta::assert_snapshot!(error("\"sourceId\": 7, \"destId\": 6", "\"sourceId\": 5, \"destId\": 7"), @"edges/1/1: two edges go from 5 to 7; make them one edge with the bytes of both");
}

#[test]
fn layers_are_a_chain_and_the_same_at_every_width() {
    let edge = "\"sourceId\": 7, \"destId\": 6";
    insta::assert_snapshot!(error(edge, "\"sourceId\": 7, \"destId\": 5"), @"edges/1: the edges go in a circle; an edge goes from a layer to a later one");
    insta::assert_snapshot!(error(edge, "\"sourceId\": 6, \"destId\": 7"), @"nodes/2: the layers of widths 1 and 2 differ; the same ids follow each other at every width");
    let whole = format!("{{{edge}, \"communicationCost\": 60}},");
    insta::assert_snapshot!(error(&whole, ""), @"nodes/1/2: branching not supported: nodes 6 and 7 do not depend on each other; merge the branches into one layer");
}
