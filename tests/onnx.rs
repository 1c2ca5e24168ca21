//! ONNX models against onnxruntime's outputs: `tests/onnx/models`, written by `tests/onnx/models.py`.

use crate::common::{Outcome, phzc, root, scratch};
use flate2::read::GzDecoder;
use ndarray_npy::NpzReader;
use std::fs::{self, File};
use std::io::Read;
use std::path::{Path, PathBuf};

/// The largest difference over the largest value.
const TOLERANCE: f32 = 1e-4;

fn models() -> Vec<PathBuf> {
    let all = crate::common::files(&root().join("tests/onnx/models")).into_iter();
    all.filter(|path| path.to_string_lossy().ends_with(".onnx.gz")).collect()
}

/// A file beside a model: `gpt2_script.onnx.gz`, `gpt2_script.in.npz`.
fn beside(model: &Path, end: &str) -> PathBuf {
    PathBuf::from(model.to_string_lossy().replace(".onnx.gz", end))
}

fn text(path: &Path) -> String {
    path.to_string_lossy().into_owned()
}

/// The first array of a file; all outputs here are one array of `f32`.
fn first(path: &Path, name: &str) -> Vec<f32> {
    let mut file = NpzReader::new(File::open(path).expect("it is there")).expect("an archive");
    let array: ndarray::ArrayD<f32> = file.by_name(name).expect("an array of f32");
    array.into_iter().collect()
}

/// Runs a command, which succeeds.
fn done(args: &[&str]) -> Outcome {
    let outcome = phzc(args, b"");
    assert_eq!(outcome.code, 0, "{args:?}: {}", outcome.stderr);
    outcome
}

/// Asserts that the results in a file are onnxruntime's.
fn check(model: &Path, made: &Path) {
    let (found, wanted) = (first(made, "0"), first(&beside(model, ".out.npz"), "arr_0"));
    assert_eq!(found.len(), wanted.len(), "{}", model.display());
    let largest = wanted.iter().fold(0f32, |largest, x| largest.max(x.abs()));
    let worst = found.iter().zip(&wanted).map(|(a, b)| (a - b).abs()).fold(0f32, f32::max);
    eprintln!("{}: {:.1e}", model.display(), worst / largest);
    assert!(worst <= TOLERANCE * largest, "{}: {worst} of {largest}", model.display());
    assert!(found.iter().all(|x| x.is_finite()) && largest > 0.0, "{}", model.display());
}

#[test]
fn models_compute_what_onnxruntime_does() {
    assert!(models().len() >= 5);
    for model in models() {
        let made = scratch("onnx_model").join("out.npz");
        done(&["eval", &text(&model), "--input", &text(&beside(&model, ".in.npz")), "-o", &text(&made)]);
        check(&model, &made);
    }
}

#[test]
fn converted_text_and_weights_compute_the_same() {
    let model = root().join("tests/onnx/models/resnet_script.onnx.gz");
    let dir = scratch("onnx_text");
    let [ir, weights, made] = ["a.ir", "w.npz", "out.npz"].map(|name| text(&dir.join(name)));
    done(&["convert", &text(&model), "-o", &ir, "--write-weights", &weights]);
    let given = text(&beside(&model, ".in.npz"));
    done(&["eval", &ir, "--input", &given, "--input", &weights, "-o", &made]);
    check(&model, Path::new(&made));
}

#[test]
fn a_model_is_planned_and_its_plan_verified() {
    let model = text(&root().join("tests/onnx/models/moe_script.onnx.gz"));
    let plan = text(&scratch("onnx_plan").join("plan.ir"));
    done(&[&model, "-q", "-o", &plan]);
    let outcome = done(&["verify", &model, &plan]);
    assert!(outcome.stdout.contains("1 of 1 output equal"), "{}", outcome.stdout);
}

/// A field of a protobuf message: its number, its bytes.
fn field(number: u8, bytes: &[u8]) -> Vec<u8> {
    [&[number << 3 | 2, bytes.len() as u8], bytes].concat()
}

/// A model of one node on one input of `[batch]` floats.
fn one_node(operator: &str, opset: u8) -> Vec<u8> {
    let node = [field(1, b"x"), field(2, b"y"), field(3, b"n"), field(4, operator.as_bytes())].concat();
    let dims = field(2, &field(1, &field(2, b"batch")));
    let input = [field(1, b"x"), field(2, &field(1, &[&[8, 1], &dims[..]].concat()))].concat();
    let graph = [field(1, &node), field(11, &input), field(12, &field(1, b"y"))].concat();
    [vec![8, 8], field(7, &graph), field(8, &[16, opset])].concat()
}

/// Asserts that a model on standard input is refused with these words.
fn check_error(model: &[u8], args: &[&str], says: &str) {
    let outcome = phzc(&[&["convert", "-"], args].concat(), model);
    assert_eq!(outcome.code, 1, "{}", outcome.stdout);
    assert!(outcome.stderr.contains(says), "{}", outcome.stderr);
}

#[test]
fn a_named_dimension_is_set_on_the_command_line() {
    let outcome = phzc(&["convert", "-", "--dim", "batch=8"], &one_node("Relu", 17));
    assert!(outcome.stdout.contains("f32[8] maximum("), "{}{}", outcome.stdout, outcome.stderr);
    let model = one_node("Relu", 17);
    check_error(&model, &[], "`x`: dimension `batch` has no fixed size");
    check_error(&model, &[], "say it: `--dim batch=8`");
    check_error(&model, &["--dim", "batch=8", "--dim", "seq=2"], "`--dim seq`: the model has no dimension");
}

#[test]
fn what_cannot_be_read_is_named() {
    let unknown = one_node("Loop", 17);
    check_error(
        &unknown,
        &["--dim", "batch=8"],
        "node `n` (`Loop`, opset 17): the operator is not supported",
    );
    let misused = one_node("Reshape", 17);
    check_error(&misused, &["--dim", "batch=8"], "node `n` (`Reshape`, opset 17): input 1 is missing");
    let loss = one_node("SoftmaxCrossEntropyLoss", 17);
    check_error(&loss, &["--dim", "batch=8"], "input 0 must have a dimension of samples and one of classes");
    check_error(&one_node("Relu", 11), &["--dim", "batch=8"], "opset 11 is older than 13");
}

#[test]
fn damaged_models_never_panic() {
    let path = root().join("tests/onnx/models/unet_script.onnx.gz");
    let mut bytes = Vec::new();
    GzDecoder::new(File::open(path).expect("it is there")).read_to_end(&mut bytes).expect("gzip");
    let damaged = scratch("onnx_damaged").join("x.onnx");
    let (mut state, mut n_legal) = (1u64, 0);
    let mut random = |below: usize| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) as usize % below
    };
    for round in 0..400 {
        let mut copy = bytes.clone();
        for _ in 0..1 + round % 4 {
            let at = random(copy.len());
            copy[at] = copy[at].wrapping_add(random(255) as u8 + 1);
        }
        fs::write(&damaged, &copy).expect("writable");
        let outcome = phzc(&["convert", &text(&damaged)], b"");
        assert!(outcome.code <= 1, "{}", outcome.stderr);
        n_legal += usize::from(outcome.code == 0);
    }
    assert!((1..400).contains(&n_legal), "{n_legal} of 400 are legal");
}
