//! The chain of two products and their gradients on one device, worked out by hand.

use super::*;
use crate::testing::passed;
use phzc_plan::derive::derive;

const PROGRAM: &str = include_str!("../../../../../tests/golden/place/two_stages.ir");
/// A product of 64 by 64 by 64 at a billion operations a second, and its launch.
const PRODUCT_SECS: f64 = 2.0 * 64.0 * 64.0 * 64.0 / 1e9 + 1e-9;
/// Three matrices to read and write at a billion bytes a second, and the launch.
const UPDATE_SECS: f64 = 3.0 * MATRIX_BYTES / 1e9 + 1e-9;
const MATRIX_BYTES: f64 = 64.0 * 64.0 * 4.0;

fn close(found: &[f64], wanted: &[f64]) {
    let is_close = found.iter().zip(wanted).all(|(a, b)| (a - b).abs() <= 1e-9 * b.abs());
    assert!(found.len() == wanted.len() && is_close, "{found:?} {wanted:?}");
}

fn with_layers(property: impl FnOnce(&mut Layers)) {
    let cluster = Cluster::from_toml(include_str!("../../../../../tests/clusters/small-memory-4.toml"));
    let cluster = cluster.expect("a legal cluster");
    let one = cluster.submesh(1);
    let module = passed(PROGRAM, "fuse,shard", &one).expect("a plan");
    property(&mut Layers::new(&module, derive(&module).expect("a planned module"), &cluster, None));
}

#[test]
fn a_layer_takes_its_products_and_their_gradients() {
    with_layers(|layers| {
        let chain = layers.chain(1);
        // The gradient of the second product's input is passed on, that of each weight is not.
        close(&chain.forward_secs, &[PRODUCT_SECS; 2]);
        close(&chain.secs, &[2.0 * PRODUCT_SECS, 3.0 * PRODUCT_SECS]);
        close(&chain.weight_secs, &[PRODUCT_SECS; 2]);
        close(&chain.update_secs, &[UPDATE_SECS; 2]);
        assert_eq!((chain.kind, chain.runs), (vec![0, 1], vec![(0..1, 0), (1..2, 1)]));
        assert_eq!((chain.devices, layers.n_layers()), ([4, 4], 2));
    });
}

#[test]
fn a_microbatch_takes_its_share_and_the_update_is_done_once() {
    with_layers(|layers| {
        let chain = layers.chain(2);
        let half_secs = 0.5 * (PRODUCT_SECS - 1e-9) + 1e-9;
        close(&chain.secs, &[2.0 * half_secs, 3.0 * half_secs]);
        close(&chain.update_secs, &[UPDATE_SECS; 2]);
    });
}

#[test]
fn weights_and_their_gradients_stay_and_what_backward_reads_is_there_per_microbatch() {
    with_layers(|layers| {
        for (n_microbatches, share) in [(1, 1.0), (2, 0.5)] {
            let chain = layers.chain(n_microbatches);
            // An input too: the batch of a step is there from its start.
            close(&chain.fixed_bytes, &[3.0 * MATRIX_BYTES; 2]);
            close(&chain.flight_bytes, &[share * MATRIX_BYTES, 0.0]);
            // One gradient on its way, or the result that is handed over.
            close(&[layers.passing_bytes(n_microbatches)], &[share * MATRIX_BYTES]);
        }
    });
}

#[test]
fn what_the_next_layer_reads_is_sent_on_and_its_gradient_back() {
    with_layers(|layers| {
        for (n_microbatches, share) in [(1, 1.0), (4, 0.25)] {
            let send_secs = layers.cluster.send_secs(share * MATRIX_BYTES, false);
            let chain = layers.chain(n_microbatches);
            close(&chain.send_secs, &[0.0, 2.0 * send_secs]);
            close(&chain.near_secs, &[0.0, 2.0 * send_secs]);
        }
    });
}

#[test]
fn a_layer_is_in_the_stage_that_has_its_start() {
    with_layers(|layers| {
        let module = layers.module;
        let stage = |name: &str| {
            let at =
                module.entry().instrs.iter().position(|instr| &*instr.name == name).expect("it is there");
            layers.stages(&[0, 1])[module.entry.index()][at]
        };
        assert_eq!(["x", "h", "w1", "dw1", "v1"].map(stage), [0; 5]);
        assert_eq!(["y", "w2", "dy", "dh", "dw2", "v2"].map(stage), [1; 6]);
        assert_eq!(layers.stages(&[0])[module.entry.index()], vec![0; module.entry().instrs.len()]);
    });
}

#[test]
fn a_gradient_of_a_weight_that_is_put_off_keeps_what_it_reads() {
    with_layers(|layers| {
        let chain = layers.chain(2);
        // The second one's reads `h`, the first one's `dh`; what is given is there in any case.
        close(&chain.late_bytes, &[0.5 * MATRIX_BYTES; 2]);
        close(&chain.gradient_bytes, &[0.0, 0.5 * MATRIX_BYTES]);
    });
}
