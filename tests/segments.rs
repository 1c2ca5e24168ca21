//! `fuse` finds in the zoo's programs the repeated segments that it finds in JAX programs of the same
//! dimensions.

use crate::common::{corpus, phzc, scratch};
use std::fs;
use std::path::Path;

/// What `fuse` says of a program, without names.
#[derive(Debug, PartialEq)]
struct Segments {
    /// The lines that say which runs of blocks repeat which: `(7, 13) mapped to  (1, 7)`.
    repeats: Vec<String>,
    /// Per block of the segment that is repeated: the sizes of its contractions' results, in ascending order.
    blocks: Vec<Vec<Vec<i64>>>,
}

fn segments(test: &str, model: &Path) -> Segments {
    let dir = scratch(test);
    let (model, dumps) = (model.to_string_lossy(), dir.to_string_lossy());
    let outcome = phzc(
        &[&*model, "--passes", "fuse", "--dump-dir", &*dumps, "-q", "-o", &format!("{dumps}/o.ir")],
        b"",
    );
    assert_eq!(outcome.code, 0, "{model}: {}", outcome.stderr);
    let text = fs::read_to_string(dir.join("blocks.txt")).expect("fuse writes it");
    let lines = text.lines().filter_map(|line| line.strip_prefix("ParallelBlocks sequence: "));
    let repeats: Vec<String> = lines.map(str::to_owned).collect();
    let (first, end) = repeated(repeats.first().expect("layers repeat"));
    let bodies: Vec<&str> = text.split("Parallel Block ").skip(1 + first).take(end - first).collect();
    Segments { repeats, blocks: bodies.into_iter().map(contractions).collect() }
}

/// `(7, 13) mapped to  (1, 7)`: 1 and 7.
fn repeated(line: &str) -> (usize, usize) {
    let pair = line.rsplit_once('(').and_then(|(_, pair)| pair.strip_suffix(')')?.split_once(", "));
    let (first, end) = pair.expect("a pair");
    (first.parse().expect("a number"), end.parse().expect("a number"))
}

/// `3 dot.1 = f32[8,4]{1,0} dot(…)`: the sizes in ascending order, for every contraction.
fn contractions(block: &str) -> Vec<Vec<i64>> {
    let sizes = |line: &str| -> Option<Vec<i64>> {
        let (_, rest) = line.split_once(" = ")?;
        let (dims, _) = rest.split_once('[')?.1.split_once(']')?;
        let mut dims: Vec<i64> = dims.split(',').filter_map(|size| size.parse().ok()).collect();
        dims.sort_unstable();
        rest.contains(" dot(").then_some(dims)
    };
    let mut found: Vec<Vec<i64>> = block.lines().filter_map(sizes).collect();
    found.sort();
    found
}

/// Asserts that the zoo's program has the segments of the corpus program.
fn check(name: &str, generate: &[&str]) {
    let Some(real) = corpus().into_iter().find(|path| path.file_name().is_some_and(|file| file == name))
    else {
        eprintln!("SKIPPED: no {name} in ../shared/corpus");
        return;
    };
    let own = scratch(&format!("segments_own_{name}")).join("own.ir");
    let outcome = phzc(&[&["gen"], generate, &["-o", &*own.to_string_lossy()]].concat(), b"");
    assert_eq!(outcome.code, 0, "{}", outcome.stderr);
    let found = segments(&format!("segments_found_{name}"), &own);
    assert_eq!(found, segments(&format!("segments_wanted_{name}"), &real), "{name}");
    eprintln!("{name}: {} repeats of {} blocks in both", found.repeats.len(), found.blocks.len());
}

#[test]
fn gpt_has_the_segments_of_the_jax_program() {
    check("gpt2_small.hlo.gz", &["gpt", "--size", "gpt2-small", "--dtype", "f32"]);
    check("gpt_1p3b.hlo.gz", &["gpt", "--size", "1.3b", "--heads", "32"]);
}

#[test]
fn llama_has_the_segments_of_the_jax_program() {
    let size = ["llama", "--size", "7b", "--kv-heads", "8", "--seq", "2048", "--global-batch", "4"];
    check("llama_7b_gqa.hlo.gz", &size);
    check("llama_tiny.hlo", &["llama", "--size", "tiny", "--dtype", "f32"]);
}
