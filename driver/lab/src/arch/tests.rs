//! Phaze's own rows, from its own graph and estimates.

use super::args::ArchArgs;
use super::estimates;
use super::phaze_graph::PhazeGraph;
use super::place::{Fleet, Placer, plan};
use clap::Parser;
use phzc_arch::estimate::Estimator;
use phzc_arch::mapping::{Cache, Mode};
use phzc_arch::search::{Model, Place, Question, Run, times};
use phzc_arch::space::Point;
use phzc_arch::{Cores, Space, Technology};
use phzc_cost::phaze::Copies;
use std::fs;

#[derive(Parser)]
struct Line {
    #[command(flatten)]
    args: ArchArgs,
}

fn args(words: &[&str]) -> ArchArgs {
    let words = ["arch", "m.json"].iter().chain(words);
    Line::try_parse_from(words).expect("a sound command line").args
}

/// A file of `../shared/data/phaze`; says loudly when it is not there.
fn reference(name: &str) -> Option<String> {
    let path = format!("{}/../../../shared/data/phaze/{name}", env!("CARGO_MANIFEST_DIR"));
    let text = fs::read_to_string(path).ok();
    if text.is_none() {
        eprintln!("SKIPPED: no ../shared/data/phaze/{name}, nothing is compared with it");
    }
    text
}

fn graph() -> Option<PhazeGraph> {
    Some(serde_json::from_str(&reference("llama2_7b_1layer_mbs1_sl4096_graph.json")?).expect("a graph"))
}

fn fleet() -> Fleet {
    Fleet { n_devices: 1024, link_bytes_per_sec: 4_294_967_296.0, batch: 4096, copies: Copies::Sgd }
}

/// Stages, pipelines, samples per second, and cycles of the last layer, with recomputation and 80 GiB.
fn row(cores: [u64; 5], samples: u64, is_phaze_s_mapping: bool) -> Option<(usize, usize, f64, [f64; 2])> {
    let [n_tensor, n_vector, width, depth, mib] = cores;
    let cores = Cores { n_tensor, n_vector, width, depth, global_bytes: mib << 20 };
    let (graph, technology) = (graph()?, Technology::cacti_22nm());
    let models = vec![graph.model(32, &[samples]).expect("a model")];
    let space = Space::phaze(&technology).expect("sizes are known");
    let estimator = Estimator::new(&technology, Mode::Phaze, Cache::default());
    if is_phaze_s_mapping {
        let table = reference("llama2_7b_sl4096_sunstone_lablog.csv")?;
        let known = estimates::read(&table, |samples, node| graph.work(samples, node)).expect("estimates");
        estimates::teach(&estimator, &known, &space.base, &technology).expect("sizes are known");
    }
    let layers = models[0].microbatches[0].kinds.iter().map(|kind| kind.layer.clone()).collect();
    let model = Model { name: "llama".to_owned(), weight: 1.0, microbatches: vec![(samples, layers)] };
    let question = Question { space, models: vec![model], hbm_bytes: vec![80 << 30], recompute: vec![true] };
    let times = times(&question, &estimator, &Point { cores, um2: 0.0, watts: 0.0 }).expect("priced");
    let run = Run { model: 0, microbatch: 0, hbm_bytes: 80 << 30, recompute: true };
    let (plan, secs) = plan(&fleet(), &models, &run, &times)?;
    let placer = Placer { fleet: &fleet(), models: &models, is_placed: true };
    let (rate, most) = (4096.0 / secs, placer.most_samples_per_sec(&run, &times));
    assert!((0.8 * most..=most).contains(&rate), "{rate} of at most {most}");
    let cycles = [times[1].forward, times[1].backward].map(|secs| (secs * 1.05e9).round());
    Some((plan.stages.len(), plan.data_parallel, 4096.0 / secs, cycles))
}

/// Rows of `reference/phaze.md`, section 8, and of section 9.2 for 8 samples: stages, pipelines, samples per
/// second.
#[test]
fn phaze_s_end_to_end_rows_come_out_of_its_graph_and_its_estimates() {
    let (wide, proxy, small) = ([4, 2, 256, 256, 256], [8, 2, 128, 128, 128], [1, 1, 128, 128, 128]);
    let rows = [
        (wide, 1, 6, 164, 63.3322),
        (wide, 2, 16, 64, 83.170164),
        (wide, 4, 16, 64, 88.612217),
        (wide, 8, 32, 32, 4096.0 / 55.7048),
        (proxy, 1, 6, 164, 52.5674),
        (proxy, 2, 16, 64, 65.5585),
        (proxy, 4, 16, 64, 66.6512),
        (small, 2, 8, 128, 48.4861),
    ];
    for (cores, samples, n_stages, n_pipelines, rate) in rows {
        let Some(ours) = row(cores, samples, true) else { return };
        eprintln!("{cores:?} microbatch {samples}: {ours:?}, Phaze {n_stages} x {n_pipelines}, {rate}");
        assert!(ours.2 >= rate * (1.0 - 1e-5) && ours.2 <= rate * 1.005, "{ours:?}, not {rate}");
        assert_eq!((ours.0, ours.1), (n_stages, n_pipelines), "{cores:?}, {samples}");
    }
}

#[test]
fn mappings_of_our_own_are_at_least_as_fast_as_phaze_s() {
    for samples in [1, 8] {
        let of = |is_phaze_s| row([4, 2, 256, 256, 256], samples, is_phaze_s);
        let (Some(ours), Some(theirs)) = (of(false), of(true)) else { return };
        assert!(ours.2 >= theirs.2, "{ours:?}, not {theirs:?}");
    }
}

/// Bytes of the reference's placement problems (`dp/*.json`), for 1 and 8 samples.
#[test]
fn bytes_are_those_of_phaze_s_placement_problems() {
    let Some(graph) = graph() else { return };
    let model = graph.model(32, &[1, 8]).expect("a model");
    let bytes = model.microbatches.iter().map(|it| {
        let of = |at: usize| [it.kinds[at].parameter_bytes, it.kinds[at].activation_bytes];
        (of(0), of(1), it.edges[0].bytes, it.chain.len())
    });
    let layer = 666_918_912.0;
    let expected = [
        ([262_144_000.0, 444_744_342.0], [layer, 9_074_450_476.0], 33_554_432.0, 33),
        ([262_144_000.0, 2_324_079_254.0], [layer, 72_580_751_404.0], 268_435_456.0, 33),
    ];
    assert_eq!(bytes.collect::<Vec<_>>(), expected);
}

#[test]
fn the_command_line_says_what_is_searched() {
    let given = args(&["--microbatches", "4,1,4", "--hbm-gib", "80,32", "--recompute", "always"]);
    assert_eq!((given.samples(), given.hbm_bytes()), (vec![1, 4], vec![32 << 30, 80 << 30]));
    assert_eq!(given.recompute(), [true]);
    assert!(args(&["--batch", "4"]).fleet().is_err());
}
