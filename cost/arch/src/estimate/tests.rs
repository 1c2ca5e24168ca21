//! Layers of the reference, read from Phaze's graphs, have the reference's cycles.

use super::*;
use crate::testing::{llama_layer, reference};
use serde_json::Value;

/// The accelerator whose cycles the reference has: 4 tensor cores of 256 by 256, 2 vector cores.
fn wide() -> Template {
    Template::preset("wide-4x256").expect("a preset")
}

fn secs(mode: Mode, layer: &Layer) -> LayerSecs {
    let technology = Technology::cacti_22nm();
    let estimator = Estimator::new(&technology, mode, Cache::default());
    let floor = estimator.floor_secs(&wide(), layer).expect("it can be priced");
    let priced = estimator.layer_secs(&wide(), layer).expect("it can be priced");
    assert!(floor.forward <= priced.forward && floor.backward <= priced.backward, "{floor:?}, {priced:?}");
    priced
}

/// A layer of Phaze's fused graph of Llama-2-7B, and per operator the cycles that the reference has for it.
fn phaze_layer(name: &str) -> Option<(Layer, Vec<Value>)> {
    let graph = reference("llama2_7b_1layer_mbs1_sl4096_graph.json")?;
    let fused = reference(&format!("llama2_mbs1_layer{name}_fused_graph.json"))?;
    let cycles = reference(&format!("llama2_mbs1_layer{name}_op_cycles_tc4x256_vc2.json"))?;
    let kinds: Vec<(&String, &str)> = {
        let nodes = fused["nodes"].as_object().expect("nodes");
        nodes.iter().map(|(id, kind)| (id, kind.as_str().expect("a kind"))).collect()
    };
    let at =
        |id: &Value| kinds.iter().position(|(known, _)| known.parse() == Ok(id.as_i64().expect("an id")));
    let edges = fused["edges"].as_array().expect("edges").iter();
    let edges = edges.map(|edge| (at(&edge[0]).expect("a node"), at(&edge[1]).expect("a node"))).collect();
    let node = |id: &str| {
        let nodes = graph["nodes"].as_array().expect("nodes");
        nodes.iter().find(|node| id.parse() == Ok(node["id"].as_i64().expect("an id"))).expect("a node")
    };
    let timed = |id: &str| cycles.get(id).is_some();
    let ops = kinds.iter().map(|(id, kind)| timed(id).then(|| work(kind, node(id)))).collect();
    Some((
        Layer { ops, edges, kernels: None },
        kinds.iter().filter_map(|(id, _)| cycles.get(*id).cloned()).collect(),
    ))
}

fn elements(shape: &Value) -> u64 {
    shape.as_array().expect("a shape").iter().map(|size| size.as_u64().expect("a size")).product()
}

fn rank(shape: &Value) -> usize {
    shape.as_array().expect("a shape").len()
}

/// What Phaze's graph calls by a name, by its shapes.
fn work(kind: &str, node: &Value) -> Work {
    let parts: Vec<&str> = kind.trim_start_matches("fused ~~ ").split(['|', '~']).map(str::trim).collect();
    let behind: Vec<&str> =
        parts[1..].iter().copied().filter(|part| part.starts_with(char::is_alphabetic)).collect();
    let fused: Vec<Function> =
        behind.iter().filter(|name| **name != "Transpose").map(|it| function(it)).collect();
    let is_moved = behind.contains(&"Transpose");
    let (output, sizes) = (elements(&node["out"][0]), node["out"][0].as_array().expect("a shape"));
    let last = |shape: &Value| {
        shape.as_array().expect("a shape").last().map_or(1, |size| size.as_u64().expect("a size"))
    };
    let columns = last(&node["out"][0]);
    let saved = node["saved"]
        .as_array()
        .expect("shapes")
        .iter()
        .filter(|it| !it.as_array().expect("a shape").is_empty());
    match parts[0] {
        "Linear" => {
            let rows = sizes[sizes.len() - 2].as_u64().expect("a size");
            Work::Contraction { nest: Nest::product(rows, columns, last(&node["saved"][0])), fused, is_moved }
        }
        "Mm" => Work::Contraction {
            nest: Nest::product(output / columns, columns, last(&node["saved"][0])),
            fused,
            is_moved,
        },
        "Softmax" => Work::Softmax { rows: output / columns, columns },
        head if !fused.is_empty() => {
            let functions = std::iter::once(function(head)).chain(fused).collect();
            Work::Chain { functions, output }
        }
        // The gradient of a selection has the result's size, whatever the sizes of what is selected from.
        "MaskedFill" => Work::Elementwise { function: Function::Simple, output, inputs: vec![output] },
        // Phaze broadcasts an operand of the result's rank before it counts its elements.
        name => {
            let counted = |shape: &Value| match rank(shape) == sizes.len() {
                true => output,
                false => elements(shape),
            };
            Work::Elementwise { function: function(name), output, inputs: saved.map(counted).collect() }
        }
    }
}

fn function(name: &str) -> Function {
    match name {
        "Div" => Function::Divide,
        "NativeDropout" => Function::Dropout,
        "Silu" => Function::Sigmoid,
        "Cos" | "Sin" => Function::Sine,
        "Pow" | "Sqrt" => Function::Power,
        "Mean" => Function::Mean,
        _ => Function::Simple,
    }
}

/// Operators on vector cores have the reference's cycles; contractions have our own mappings.
#[test]
fn vector_operators_of_phaze_s_layers_have_the_reference_s_cycles() {
    let technology = Technology::cacti_22nm();
    let estimator = Estimator::new(&technology, Mode::Phaze, Cache::default());
    let all = Machine::new(&wide(), &technology, Mode::Phaze).expect("sizes are known");
    let one = Machine { grid: [1, 1], ..all.clone() };
    for (layer, cycles) in ["0", "-1"].into_iter().filter_map(phaze_layer) {
        for (work, cycles) in layer.ops.iter().flatten().zip(&cycles) {
            let ops = estimator.op(&wide(), [&one, &all], work, Effort::Price).expect("it can be priced");
            for (op, pass) in ops.iter().zip(["fwd", "bwd"]) {
                let expected = [0, 1].map(|at| cycles[pass][at].as_f64().expect("a number"));
                if op.units == Units::Vector {
                    assert_eq!([op.one_core_cycles, op.all_cores_cycles], expected, "{pass} {work:?}");
                }
            }
        }
    }
}

/// Makespans with Sunstone's mappings, of `reference/phaze.md`, section 8.
#[test]
fn phaze_s_layer_takes_no_longer_than_with_sunstone_s_mappings() {
    let Some((layer, _)) = phaze_layer("0") else { return };
    let ours = secs(Mode::Phaze, &layer);
    eprintln!("layer 0: {} and {} cycles", ours.forward * 1.05e9, ours.backward * 1.05e9);
    assert!(ours.forward <= 149_772_332.0 / 1.05e9 && ours.backward <= 128_233_530.0 / 1.05e9, "{ours:?}");
}

/// Nine accelerators, four microbatches and both modes took Phaze 4,189 seconds (`reference/phaze.md`,
/// section 8), most of them for estimates.
#[test]
fn more_samples_take_longer_on_each_accelerator_of_the_student_s_sweep() {
    let technology = Technology::cacti_22nm();
    let small = [(1, 128, 128), (1, 128, 32), (2, 128, 32), (4, 128, 32), (8, 128, 128)];
    let large = [(1, 256, 128), (1, 256, 256), (2, 256, 128), (4, 256, 256)];
    let start = std::time::Instant::now();
    for mode in [Mode::Phaze, Mode::Native] {
        let estimator = Estimator::new(&technology, mode, Cache::default());
        for (n_tensor, side, mib) in small.into_iter().chain(large) {
            let cores = Cores { n_tensor, n_vector: 2, width: side, depth: side, global_bytes: mib << 20 };
            let template = Template { cores, ..wide() };
            let secs = |layer| estimator.layer_secs(&template, &layer).expect("it can be priced");
            let times = [1, 2, 4, 8].map(|n_samples| secs(llama_layer(n_samples)));
            let is_rising = times.is_sorted_by(|a, b| a.forward < b.forward && a.backward < b.backward);
            assert!(is_rising, "{mode:?} {cores:?}: {times:?}");
        }
        eprintln!("{mode:?}: the sweep is estimated after {:?}", start.elapsed());
    }
}

#[test]
fn native_mode_has_both_gradients_and_a_feed_per_core() {
    let product =
        Work::Contraction { nest: Nest::product(4096, 4096, 4096), fused: Vec::new(), is_moved: false };
    let layer = Layer { ops: vec![Some(product)], edges: Vec::new(), kernels: None };
    let [native, phaze] = [Mode::Native, Mode::Phaze].map(|mode| secs(mode, &layer));
    assert!(native.forward < phaze.forward, "{native:?}, {phaze:?}");
    assert!(native.backward > 1.9 * native.forward && phaze.backward < 1.1 * phaze.forward);
}

#[test]
fn a_layer_of_an_accelerator_without_vector_cores_is_an_error() {
    let technology = Technology::cacti_22nm();
    let estimator = Estimator::new(&technology, Mode::Phaze, Cache::default());
    let template = Template { cores: Cores { n_vector: 0, ..wide().cores }, ..wide() };
    assert!(estimator.layer_secs(&template, &llama_layer(1)).is_err());
}
