//! FLOP counts of the corpus' programs against XLA's own and against an independent scanner's.

use flate2::read::GzDecoder;
use phzc_ir::flops::{Totals, totals};
use serde_json::Value;
use std::io::Read;
use std::path::{Path, PathBuf};

fn corpus() -> Option<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../shared/corpus");
    folder.join("index.jsonl").is_file().then_some(folder)
}

fn read(path: &Path) -> String {
    let bytes = std::fs::read(path).expect("a file of the index");
    if path.extension().is_some_and(|extension| extension == "gz") {
        let mut text = String::new();
        GzDecoder::new(&bytes[..]).read_to_string(&mut text).expect("gzipped text");
        return text;
    }
    String::from_utf8(bytes).expect("text")
}

fn totals_of(path: &Path) -> Totals {
    let module = phzc_ir::parse(&read(path)).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let problems = phzc_ir::verify(&module);
    assert!(problems.is_empty(), "{}: {} problems, first: {}", path.display(), problems.len(), problems[0]);
    totals(&module)
}

/// `wanted` is a 32-bit float in XLA, summed up in 32 bits.
fn ratio(found: f64, wanted: Option<f64>) -> Option<f64> {
    let wanted = wanted?;
    Some(if wanted == found { 1.0 } else { found / wanted })
}

#[test]
fn flops_of_the_corpus_are_those_of_xla() {
    let Some(folder) = corpus() else {
        eprintln!("SKIPPED: no corpus at ../shared/corpus, 0 programs read");
        return;
    };
    let index = std::fs::read_to_string(folder.join("index.jsonl")).expect("the index");
    let (mut n_programs, mut n_compared) = (0, 0);
    for line in index.lines() {
        let entry: Value = serde_json::from_str(line).expect("a line of JSON");
        let name = entry["name"].as_str().expect("a name");
        let found = totals_of(&folder.join(entry["hlo"].as_str().expect("a file")));
        let xla = &entry["xla_hlo_cost_analysis"];
        let flops = ratio(found.once.flops, xla["flops"].as_f64());
        let transcendentals = ratio(found.once.transcendentals, xla["transcendentals"].as_f64());
        let bytes = ratio(found.once.bytes, xla["bytes accessed"].as_f64());
        eprintln!("{name:28} flops {flops:.5?} transcendentals {transcendentals:.5?} bytes {bytes:.3?}");
        for ratio in [flops, transcendentals].into_iter().flatten() {
            assert!((ratio - 1.0).abs() < 1e-3, "{name}: {ratio}");
        }
        assert_eq!(Some(found.dot_conv_once), entry["dot_conv_flops_each_once"].as_f64(), "{name}");
        assert_eq!(Some(found.dot_conv_with_trips), entry["dot_conv_flops_with_trips"].as_f64(), "{name}");
        assert_eq!(Some(found.unknown_trips.len() as u64), entry["whiles_unknown_trip"].as_u64(), "{name}");
        n_programs += 1;
        n_compared += usize::from(flops.is_some());
    }
    eprintln!("{n_programs} programs read, {n_compared} compared with XLA");
    assert!(n_programs >= 20);
}
