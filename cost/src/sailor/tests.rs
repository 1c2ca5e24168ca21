//! Two kinds of devices and figures worked out by hand.

use super::*;

fn request() -> Request {
    let curve = |gb: f64| Curve { coefficients: [0.0, 0.0, gb], peak_bytes_per_sec: gb * 1e9 };
    let kind = |device: &str, secs: f64| Kind {
        device: device.to_owned(),
        count: 8,
        memory_bytes: 16e9,
        usd_per_hour: 3600.0,
        times: BTreeMap::from([(
            (1, 1),
            LayerTimes { prefix_secs: vec![0.0, secs, 2.0 * secs], update_secs: 0.5 },
        )]),
    };
    let size = LayerSize { params: 1e8, kept: 1e8, handed_on: 2.5e7 };
    let pairs = [[0, 1, 0, 1], [0, 1, 1, 1], [1, 1, 0, 1], [1, 1, 1, 1]];
    Request {
        batch: 8,
        kinds: vec![kind("fast", 1.0), kind("slow", 2.0)],
        sizes: BTreeMap::from([(1, vec![size; 2])]),
        links: pairs.into_iter().zip([4.0, 1.0, 1.0, 2.0].map(curve)).collect(),
    }
}

fn part(kind: usize, copies: usize) -> Part {
    Part { kind, tensor: 1, copies }
}

#[test]
fn a_step_is_its_slowest_stage_and_a_way_through_all() {
    // Longest: 1 + 3 + 0.5; three more microbatches of it.
    assert_eq!(step_secs(&[2.0, 3.0, 1.0], &[1.0, 0.5], 4), 3.0 * 4.5 + 6.0 + 3.0);
    assert_eq!(step_secs(&[2.0], &[], 4), 8.0);
}

#[test]
fn stages_of_unlike_copies_go_at_the_slowest_and_pairs_share_a_number() {
    let request = request();
    let stages = vec![
        Stage { n_layers: 1, parts: vec![part(0, 2)] },
        Stage { n_layers: 1, parts: vec![part(0, 1), part(1, 1)] },
    ];
    let plan = Plan { micro_batch: 1, stages };
    // 4 microbatches, 100 MB at 1 GB/s between fast and slow; 400 MB of gradients by halves, 200 MB each
    // way, at 2 GB/s on the stage with slow ones.
    let cost = request.cost(&plan).expect("all was measured");
    let expected = 3.0 * (2.0 + 0.1) + 3.0 + 0.2 + 0.2;
    assert!((cost.step_secs - expected).abs() < 1e-9 && cost.fits, "{cost:?}");
    assert!((cost.usd - 4.0 * expected).abs() < 1e-9);
    assert_eq!(pairs(&[part(0, 2)], &[part(0, 1), part(1, 1)]).len(), 2);
}

#[test]
fn memory_holds_a_microbatch_per_stage_from_its_own_on() {
    let request = request();
    // 24 x 2e8 + 4 x 2e8 and 2e9 are 7.6e9; eleven more microbatches are too many.
    assert!(request.fits([0, 1], 1, [0, 2], 0));
    assert!(request.fits([0, 1], 1, [0, 2], 10) && !request.fits([0, 1], 1, [0, 2], 11));
}
