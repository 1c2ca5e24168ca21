//! Plans of the example programs compute what the programs compute, on every mesh and through every pipeline.

use super::plans::{EXAMPLES, planned, slow_8};
use phzc_ir::eval::{Options, inputs, run};
use phzc_passes::verify::{Settings, Verdict, Verified, verify};
use phzc_testing::program::program;

/// Asserts that the plan computes the same.
fn check(name: &str, text: &str, pipeline: &str) -> Verified {
    let original = phzc_ir::parse(text).expect("a legal program");
    let planned = planned(text, pipeline, &slow_8());
    let verified = verify(&original, &planned, &Settings::default())
        .unwrap_or_else(|error| panic!("{name}, {pipeline}: {error:?}"));
    let wrong = verified.outputs.iter().position(|output| !output.is_equal());
    assert_eq!(wrong, None, "{name}, {pipeline}: {:?}", wrong.map(|at| &verified.outputs[at]));
    let in_pieces = verify(&original, &planned, &Settings { by_pieces: true, ..Settings::default() })
        .unwrap_or_else(|error| panic!("{name}, {pipeline}, in pieces: {error:?}"));
    assert_eq!(in_pieces.verdict(), Verdict::Equal, "{name}, {pipeline}: {:?}", in_pieces.pieces);
    verified
}

#[test]
fn every_mesh_computes_the_same() {
    for (name, text) in EXAMPLES {
        for mesh in ["8", "2x4", "2x2x2"] {
            check(name, text, &format!("fuse,shard{{mesh={mesh}}},place{{stages=1,microbatches=1}}"));
        }
    }
}

#[test]
fn every_pipeline_computes_the_same() {
    for (name, text) in EXAMPLES {
        for (stages, microbatches) in [(1, 2), (2, 2), (2, 4), (4, 4)] {
            let pipeline =
                format!("fuse,shard,place{{stages={stages},microbatches={microbatches},schedule=1f1b}}");
            let verified = check(name, text, &pipeline);
            assert_eq!((verified.n_stages, verified.n_microbatches), (stages, microbatches), "{name}");
        }
    }
}

#[test]
fn every_schedule_computes_the_same() {
    for (name, text) in EXAMPLES {
        for (schedule, stages, microbatches) in
            [("gpipe", 2, 4), ("zero-bubble", 2, 4), ("zero-bubble", 4, 2), ("zero-bubble", 4, 8)]
        {
            let options = format!("stages={stages},microbatches={microbatches},schedule={schedule}");
            let verified = check(name, text, &format!("fuse,shard,place{{{options}}}"));
            // A loop over layers runs in lock-step.
            assert!(verified.is_replayed || name.ends_with("scan"), "{name}, {options}");
        }
    }
}

#[test]
fn stages_that_share_devices_compute_the_same() {
    for (name, text) in EXAMPLES.iter().filter(|(name, _)| !name.ends_with("scan")) {
        for (n_chunks, stages, microbatches) in [(2, 2, 4), (3, 2, 8), (2, 4, 2), (2, 4, 8)] {
            let options =
                format!("stages={stages},microbatches={microbatches},schedule=interleaved:{n_chunks}");
            let verified = check(name, text, &format!("fuse,shard,place{{{options}}}"));
            assert!(verified.is_replayed, "{name}, {options}");
            assert_eq!((verified.n_stages, verified.n_devices), (stages * n_chunks, 8), "{name}, {options}");
        }
    }
}

#[test]
fn clean_ups_and_fuse_keep_what_a_program_computes() {
    let cluster = slow_8();
    for seed in 0..300 {
        let text = program(seed, 12);
        let original = phzc_ir::parse(&text).expect("a legal program");
        let given = inputs(&original, seed).expect("its inputs can be made");
        let wanted = run(&original, &given, &Options::default()).expect("it can be run");
        for pass in ["dce", "inline", "fuse", "dce,fuse,dce"] {
            let module = planned(&text, pass, &cluster);
            let made = run(&module, &given, &Options::default()).expect("it can still be run");
            assert_eq!(wanted.digest(), made.digest(), "{pass} on program {seed}:\n{text}");
        }
    }
}
