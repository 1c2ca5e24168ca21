//! The planner's figure is never below the replay's.

use super::random::placed;
use super::*;
use crate::testing::default_cluster;
use phzc_plan::derive::derive;
use phzc_plan::memory::memory_of;

/// Per device group: the planner's figure and the replay's, in bytes.
fn figures(module: &Module) -> Vec<(f64, f64)> {
    let (cluster, facts) = (default_cluster(), derive(module).expect("a legal header"));
    let planned = memory_of(module, &facts, &cluster).stages;
    let replayed = replay(module, &facts, &cluster);
    replayed
        .iter()
        .zip(planned)
        .map(|(replayed, planned)| (planned.peak_bytes, replayed.peak_bytes))
        .collect()
}

#[test]
fn explore() {
    use std::collections::BTreeMap;
    let mut stats: BTreeMap<String, (usize, usize, usize, f64, f64, u64)> = BTreeMap::new();
    for seed in 0..400 {
        for (n_stages, schedules) in [
            (1, &["1f1b", "gpipe", "zero-bubble"][..]),
            (2, &["1f1b", "gpipe", "zero-bubble", "interleaved:2"]),
            (4, &["1f1b", "gpipe", "zero-bubble", "interleaved:2"]),
        ] {
            for schedule in schedules {
                for n_microbatches in [1, 2, 4, 8] {
                    let module = placed(seed, n_stages, n_microbatches, schedule);
                    for (planned, replayed) in figures(&module) {
                        let own = stats.entry(format!("{schedule} {n_stages} {n_microbatches}")).or_default();
                        own.0 += 1;
                        if (planned - replayed).abs() < 1e-6 {
                            own.1 += 1
                        }
                        if planned < replayed - 1e-6 {
                            own.2 += 1;
                            if planned / replayed < 1.0 - own.3 {
                                own.3 = 1.0 - planned / replayed;
                                own.5 = seed
                            }
                        }
                        own.4 = own.4.max(planned / replayed - 1.0);
                    }
                }
            }
        }
    }
    for (key, (n, equal, below, most_below, most_above, seed)) in stats {
        eprintln!(
            "{key:20} n {n:5} equal {equal:5} below {below:5} by {most_below:.3} above {most_above:.3} seed {seed}"
        );
    }
}
