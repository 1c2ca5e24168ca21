//! Programs of `torch.export` against PyTorch's own results: `tests/torch/models`, written by
//! `tests/torch/models.py`.

use crate::common::{Outcome, phzc, root, scratch};
use ndarray::ArrayD;
use ndarray_npy::NpzReader;
use std::fs::{self, File};
use std::io::{Cursor, Read, Write};
use std::path::{Path, PathBuf};
use zip::write::SimpleFileOptions;
use zip::{ZipArchive, ZipWriter};

/// The largest difference over the largest value.
const TOLERANCE: f64 = 1e-5;

fn models() -> Vec<PathBuf> {
    let all = crate::common::files(&root().join("tests/torch/models")).into_iter();
    all.filter(|path| path.extension().is_some_and(|end| end == "pt2")).collect()
}

fn model(name: &str) -> PathBuf {
    root().join("tests/torch/models").join(format!("{name}.pt2"))
}

fn text(path: &Path) -> String {
    path.to_string_lossy().into_owned()
}

/// What `--dim` says of a model's open dimensions: the sizes that they had when it was exported.
fn dims(model: &Path) -> Vec<String> {
    let mut given = Vec::new();
    loop {
        let args = [vec!["convert".to_owned(), text(model)], given.clone()].concat();
        let outcome = phzc(&args, b"");
        let Some((_, help)) = outcome.stderr.split_once("say it: `") else { return given };
        given.extend(help.split('`').next().unwrap_or_default().split(' ').map(str::to_owned));
    }
}

/// Runs a command, which succeeds.
fn done(args: &[impl AsRef<str> + std::fmt::Debug]) -> Outcome {
    let outcome = phzc(args, b"");
    assert_eq!(outcome.code, 0, "{args:?}: {}", outcome.stderr);
    outcome
}

/// An array of whatever type, with its sizes.
fn array(file: &mut NpzReader<File>, name: &str) -> (Vec<usize>, Vec<f64>) {
    macro_rules! tried {
        ($($ty:ty => $of:expr),*) => {$(
            if let Ok(found) = file.by_name::<ndarray::OwnedRepr<$ty>, ndarray::IxDyn>(name) {
                let found: ArrayD<$ty> = found;
                return (found.shape().to_vec(), found.into_iter().map($of).collect());
            }
        )*};
    }
    tried!(f32 => f64::from, f64 => |x| x, i64 => |x| x as f64, i32 => f64::from, bool => |x| f64::from(u8::from(x)));
    panic!("`{name}` is missing, or of another type")
}

/// Asserts that all results in a file are PyTorch's.
fn check(model: &Path, made: &Path) {
    let open = |path: &Path| NpzReader::new(File::open(path).expect("it is there")).expect("an archive");
    let (mut made, mut wanted) = (open(made), open(&model.with_extension("out.npz")));
    let n = wanted.names().expect("names").len();
    assert_eq!(made.names().expect("names").len(), n, "{}", model.display());
    for index in 0..n {
        let (found, wanted) =
            (array(&mut made, &index.to_string()), array(&mut wanted, &format!("arr_{index}")));
        assert_eq!(found.0, wanted.0, "{}: result {index}", model.display());
        let largest = wanted.1.iter().fold(0f64, |largest, x| largest.max(x.abs()));
        let worst = found.1.iter().zip(&wanted.1).map(|(a, b)| (a - b).abs()).fold(0.0, f64::max);
        assert!(worst <= TOLERANCE * largest, "{}: result {index}: {worst} of {largest}", model.display());
        assert!(found.1.iter().all(|x| x.is_finite()), "{}: result {index}", model.display());
    }
}

#[test]
fn models_compute_what_pytorch_does() {
    assert!(models().len() >= 13);
    for model in models() {
        let made = text(&scratch("torch_model").join("out.npz"));
        let (path, given) = (text(&model), text(&model.with_extension("in.npz")));
        let args = ["eval", &path, "--input", &given, "-o", &made].map(str::to_owned);
        done(&[args.to_vec(), dims(&model)].concat());
        check(&model, Path::new(&made));
    }
}

#[test]
fn models_are_planned_and_their_plans_verified() {
    for name in ["mlp_core", "gpt_core", "llama", "resnet_core", "moe_core"] {
        let (path, plan) = (text(&model(name)), text(&scratch("torch_plan").join("plan.ir")));
        let sizes = dims(&model(name));
        done(&[vec![path.clone(), "-q".to_owned(), "-o".to_owned(), plan.clone()], sizes.clone()].concat());
        let outcome = done(&[vec!["verify".to_owned(), path, plan], sizes].concat());
        assert!(outcome.stdout.contains("equal"), "{name}: {}", outcome.stdout);
        assert!(!outcome.stdout.contains("differ"), "{name}: {}", outcome.stdout);
    }
}

/// The program of a model as HLO text.
fn converted(name: &str) -> String {
    done(&[vec!["convert".to_owned(), text(&model(name))], dims(&model(name))].concat()).stdout
}

#[test]
fn names_and_source_lines_are_the_model_s() {
    let text = converted("gpt_core");
    let weight = "layers.1.attention.q.weight = f32[16,16] parameter(";
    assert!(text.contains(weight), "{text}");
    assert!(text.contains("metadata={op_name=\"layers.1.attention.q.weight\"}"), "{text}");
    let line = text.lines().find(|line| line.contains("op_name=\"layers.1.attention.q/")).expect("a product");
    assert!(line.contains("source_file=\"models.py\" source_line="), "{line}");
}

#[test]
fn what_a_step_changes_takes_its_place() {
    let text = converted("cache_core");
    // The count in a buffer behind the inputs and weights, and the second input.
    let header = text.lines().next().unwrap_or_default();
    assert!(
        header.contains("input_output_alias={ {0}: (5, {}, may-alias), {1}: (1, {}, may-alias) }"),
        "{text}"
    );
}

/// Asserts that a command fails and says so.
fn check_error(args: &[&str], archive: &[u8], says: &[&str]) {
    let outcome = phzc(&[&["convert", "-"], args].concat(), archive);
    assert_eq!(outcome.code, 1, "{}", outcome.stdout);
    says.iter().for_each(|says| assert!(outcome.stderr.contains(says), "{says}: {}", outcome.stderr));
}

#[test]
fn an_open_dimension_is_named_with_its_range() {
    let archive = fs::read(model("mlp_core")).expect("it is there");
    let given = dims(&model("mlp_core"));
    let symbol = given[1].split('=').next().expect("a symbol").to_owned();
    let says = format!("input `x`: dimension `{symbol}` has no fixed size; it may be 2 to 64, 4 when");
    check_error(&[], &archive, &[&says, &format!("say it: `--dim {symbol}=4`")]);
    let says = format!("`--dim {symbol}=99`: the dimension may be 2 to 64");
    check_error(&["--dim", &format!("{symbol}=99")], &archive, &[&says]);
    let both = [format!("{symbol}=4"), "seq=2".to_owned()];
    let says = "`--dim seq`: the model has no dimension of this name";
    check_error(&["--dim", &both[0], "--dim", &both[1]], &archive, &[says]);
}

/// The archive with its program changed.
fn changed(name: &str, mut change: impl FnMut(String) -> String) -> Vec<u8> {
    let mut old = ZipArchive::new(File::open(model(name)).expect("it is there")).expect("an archive");
    let mut new = ZipWriter::new(Cursor::new(Vec::new()));
    for index in 0..old.len() {
        let mut entry = old.by_index(index).expect("an entry");
        let (file, mut bytes) = (entry.name().to_owned(), Vec::new());
        entry.read_to_end(&mut bytes).expect("it can be unpacked");
        if file.ends_with("model.json") {
            bytes = change(String::from_utf8(bytes).expect("text")).into_bytes();
        }
        new.start_file(file, SimpleFileOptions::default()).expect("a file");
        new.write_all(&bytes).expect("written");
    }
    new.finish().expect("an archive").into_inner()
}

#[test]
fn older_archives_have_no_weights_that_are_read() {
    let [path, made, weights] = ["old.pt2", "out.npz", "w.npz"].map(|name| scratch("torch_old").join(name));
    let archive = changed("mlp", |text| text);
    fs::write(&path, renamed(&archive)).expect("writable");
    let given = text(&model("mlp").with_extension("in.npz"));
    let outcome = phzc(&["eval", &text(&path), "--input", &given], b"");
    assert!(outcome.stderr.contains("the program takes 6 arrays, the files hold 2"), "{}", outcome.stderr);
    done(&["convert", &text(&model("mlp")), "--write-weights", &text(&weights), "-o", &text(&made)]);
    done(&["eval", &text(&path), "--input", &given, "--input", &text(&weights), "-o", &text(&made)]);
    check(&model("mlp"), &made);
}

/// The program of an archive in the place that PyTorch 2.5 had for it, and nothing else.
fn renamed(archive: &[u8]) -> Vec<u8> {
    let mut old = ZipArchive::new(Cursor::new(archive)).expect("an archive");
    let name =
        old.file_names().find(|name| name.ends_with("models/model.json")).expect("a program").to_owned();
    let mut bytes = Vec::new();
    old.by_name(&name).expect("an entry").read_to_end(&mut bytes).expect("it can be unpacked");
    let mut new = ZipWriter::new(Cursor::new(Vec::new()));
    new.start_file("serialized_exported_program.json", SimpleFileOptions::default()).expect("a file");
    new.write_all(&bytes).expect("written");
    new.finish().expect("an archive").into_inner()
}

#[test]
fn all_operators_that_are_not_read_are_named_at_once() {
    let archive = changed("mlp", |text| {
        text.replace("aten.gelu.", "aten.frob.").replace("aten.mse_loss.", "aten.hinge.")
    });
    let says = [
        "2 nodes have operators that are not read",
        "node `gelu` (`aten.frob.default`, models.py:",
        "node `mse_loss` (`aten.hinge.default`, models.py:",
        "run_decompositions()",
    ];
    check_error(&[], &archive, &says);
}

#[test]
fn a_node_that_cannot_be_read_is_named() {
    let archive = changed("mlp", |text| {
        text.replace(
            "\"mse_loss\":{\"dtype\":7,\"sizes\":[]",
            "\"mse_loss\":{\"dtype\":7,\"sizes\":[{\"as_int\":3}]",
        )
    });
    check_error(
        &[],
        &archive,
        &["node `mse_loss` (`aten.mse_loss.default`, models.py:", "it makes sizes []"],
    );
    let archive = changed("mlp", |text| text.replace("\"major\":8", "\"major\":99"));
    check_error(&[], &archive, &["schema version 99"]);
}

#[test]
fn damaged_programs_never_panic() {
    let mut random = crate::common::Random(1);
    let mut n_legal = 0;
    for name in ["mlp", "operators_core", "cache_core", "resnet_core"] {
        for round in 0..60 {
            let damaged = changed(name, |text| {
                let mut bytes = text.into_bytes();
                for _ in 0..1 + round % 4 {
                    let digits: Vec<usize> =
                        (0..bytes.len()).filter(|&at| bytes[at].is_ascii_digit()).collect();
                    let at = digits[random.below(digits.len())];
                    bytes[at] = b'0' + random.below(10) as u8;
                }
                String::from_utf8(bytes).expect("digits are text")
            });
            let outcome = phzc(&["convert", "-"], &damaged);
            assert!(outcome.code <= 1, "{}", outcome.stderr);
            n_legal += usize::from(outcome.code == 0);
        }
    }
    assert!((1..240).contains(&n_legal), "{n_legal} of 240 are legal");
}
