//! Programs in other forms are read as what XLA makes of them: StableHLO text and HLO protobufs.
//!
//! `tests/frontends/` holds programs that `tests/xla/frontends.py` lowered with JAX: StableHLO (`.mlir`), and
//! XLA's text (`.hlo`) and protobuf (`.pb`) of the same.

use crate::common::program;
use phzc_driver::frontend::{hlo_proto, stablehlo};
use phzc_ir::eval::{Array, Options, inputs, run};
use phzc_ir::flops::totals;
use phzc_ir::{Module, Shape, parse, print, verify};
use std::fs;
use std::path::{Path, PathBuf};

/// Results may differ by this much of the largest: XLA merges and moves roundings.
const TOLERANCE: f64 = 1e-5;
/// XLA's text has fewer FLOPs by up to this much: it merges repeated expressions, and applies sums of scalars
/// before it broadcasts them.
const CLEANED_UP: f64 = 3e-3;

/// StableHLO texts below `dir`, each with the HLO text that XLA made of it.
fn pairs(dir: &Path) -> Vec<(PathBuf, PathBuf)> {
    let partner = |path: PathBuf| {
        let file = path.file_name()?.to_str()?;
        let name = file.split(".mlir").next()?.trim_end_matches(".stablehlo");
        let name = name.trim_end_matches(".debug_info").trim_end_matches(".generic");
        let hlo = ["hlo", "hlo.gz"].map(|extension| path.with_file_name(format!("{name}.{extension}")));
        let hlo = hlo.into_iter().find(|path| path.is_file())?;
        file.contains(".mlir").then_some((path, hlo))
    };
    crate::common::files(dir).into_iter().filter_map(partner).collect()
}

/// The pairs of this repository and, where it is there, of the corpus.
fn all_pairs() -> Vec<(PathBuf, PathBuf)> {
    let own = pairs(&crate::common::root().join("tests/frontends"));
    let corpus = pairs(&crate::common::root().join("../shared/corpus"));
    assert!(own.len() >= 10, "tests/frontends has {} programs", own.len());
    if corpus.is_empty() {
        eprintln!("SKIPPED: no corpus at ../shared/corpus, its 0 StableHLO programs are not read");
    }
    [own, corpus].concat()
}

fn checked(path: &Path, read: phzc_ir::Result<Module>) -> Module {
    let module = read.unwrap_or_else(|error| panic!("{}: {:?}: {error}", path.display(), error.span));
    let errors = verify(&module);
    assert!(errors.is_empty(), "{}: {} errors: {}", path.display(), errors.len(), errors[0]);
    module
}

fn both((mlir, hlo): &(PathBuf, PathBuf)) -> (Module, Module) {
    (checked(mlir, stablehlo::read(&program(mlir))), checked(hlo, parse(&program(hlo))))
}

/// The types of parameters and result.
fn signature(module: &Module) -> Vec<&Shape> {
    let entry = module.entry();
    entry.params().into_iter().chain([entry.root]).map(|id| &entry.instr(id).shape).collect()
}

#[test]
fn stablehlo_has_the_types_and_the_work_of_its_hlo() {
    for pair in all_pairs() {
        let (name, (found, wanted)) = (pair.0.display(), both(&pair));
        let types = [signature(&found), signature(&wanted)];
        assert_eq!(types[0].len(), types[1].len(), "{name}");
        assert!(types[0].iter().zip(&types[1]).all(|(a, b)| a.same_type(b)), "{name}");
        let (a, b) = (totals(&found), totals(&wanted));
        assert_eq!(a.dot_conv_with_trips, b.dot_conv_with_trips, "{name}");
        let more = a.with_trips.flops / b.with_trips.flops - 1.0;
        eprintln!("{name}: {more:.1e} more FLOPs");
        let is_large = b.with_trips.flops > 1e6;
        assert!(!is_large || (0.0..CLEANED_UP).contains(&more), "{name}: {more}");
    }
}

#[test]
fn stablehlo_keeps_donations() {
    for pair in all_pairs() {
        let (found, wanted) = both(&pair);
        for key in ["input_output_alias", "buffer_donor"] {
            assert_eq!(found.attr(key), wanted.attr(key), "{}: {key}", pair.0.display());
        }
    }
}

#[test]
fn stablehlo_keeps_the_shardings_of_parameters_and_results() {
    let sharded = all_pairs().into_iter().filter(|(mlir, _)| mlir.to_string_lossy().contains("jit2x4"));
    for pair in sharded {
        let (found, wanted) = both(&pair);
        let [a, b] = [&found, &wanted].map(|module| {
            let entry = module.entry();
            let all = entry.params().into_iter().chain([entry.root]);
            all.map(|id| entry.instr(id).sharding().cloned()).collect::<Vec<_>>()
        });
        assert!(a.iter().flatten().count() > 10, "{}", pair.0.display());
        assert_eq!(a, b, "{}", pair.0.display());
    }
}

#[test]
fn stablehlo_computes_what_its_hlo_computes() {
    let small = |(mlir, _): &(PathBuf, PathBuf)| {
        fs::metadata(mlir).is_ok_and(|meta| meta.len() < 40_000) && !program(mlir).contains("__elided__")
    };
    let mut n_compared = 0;
    for pair in all_pairs().into_iter().filter(small) {
        let (found, wanted) = both(&pair);
        if totals(&wanted).with_trips.flops > 1e9 {
            continue;
        }
        let given = inputs(&wanted, 7).expect("inputs");
        let [a, b] =
            [&found, &wanted].map(|module| run(module, &given, &Options::default()).expect("it runs"));
        assert_eq!(a.leaves().len(), b.leaves().len());
        for (index, (a, b)) in a.leaves().into_iter().zip(b.leaves()).enumerate() {
            let worst = difference(a, b);
            assert!(worst <= TOLERANCE, "{}: result {index} differs by {worst:e}", pair.0.display());
        }
        n_compared += 1;
    }
    assert!(n_compared >= 9, "{n_compared} programs are compared");
}

/// The largest difference over the largest value; NaN equals NaN.
fn difference(a: &Array, b: &Array) -> f64 {
    let (a, b) = (a.to_f64_vec(), b.to_f64_vec());
    let finite = b.iter().filter(|x| x.is_finite()).fold(1e-30f64, |most, x| most.max(x.abs()));
    let pairs = a.iter().zip(&b).filter(|(x, y)| x != y && !(x.is_nan() && y.is_nan()));
    pairs.map(|(x, y)| (x - y).abs() / finite).fold(0.0, f64::max)
}

#[test]
fn protobufs_are_read_as_xlas_text_is() {
    // Of the compiler's configuration, which the protobuf lacks.
    let config = ["replica_count", "num_partitions", "allow_spmd_sharding_propagation_to_output"];
    let files = crate::common::files(&crate::common::root().join("tests/frontends"));
    let protos: Vec<_> =
        files.iter().filter(|path| path.extension().is_some_and(|end| end == "pb")).collect();
    assert!(protos.len() >= 8);
    for path in protos {
        let found = checked(path, hlo_proto::read(&fs::read(path).expect("it was listed")));
        let hlo = path.with_extension("hlo");
        let mut wanted = checked(&hlo, parse(&program(&hlo)));
        wanted.attrs.retain(|attr| !config.contains(&&*attr.key));
        assert!(print(&found) == print(&wanted), "{}", path.display());
    }
}

#[test]
fn locations_name_parameters() {
    let text = program(&crate::common::root().join("tests/frontends/mlp.debug_info.mlir"));
    let module = stablehlo::read(&text).expect("it is legal");
    let entry = module.entry();
    let names: Vec<&str> = entry.params().into_iter().map(|id| &*entry.instr(id).name).collect();
    assert_eq!(names, ["params__b1__", "params__w1__", "params__w2__", "x", "y"]);
}

/// The message about a function with this body, and the text that it points at.
fn complaint(body: &str) -> (String, String) {
    let text = format!(
        "module {{\n  func.func @main(%a: tensor<2x3xf32>) -> tensor<2x3xf32> {{\n    {body}\n  }}\n}}"
    );
    let error = stablehlo::read(&text).expect_err("it is not legal");
    let span = error.span.expect("a place");
    (error.to_string(), text[span.start as usize..span.end as usize].to_owned())
}

#[test]
fn messages_say_what_is_wrong_and_where() {
    let check = |body: &str, message: &str, place: &str| {
        assert_eq!(complaint(body), (message.to_owned(), place.to_owned()));
    };
    check(
        "%0 = stablehlo.tanhh %a : tensor<2x3xf32>\n return %0 : tensor<2x3xf32>",
        "unknown operation `stablehlo.tanhh`; did you mean `stablehlo.tanh`?",
        "%0 = stablehlo.tanhh %a ",
    );
    check(
        "%0 = stablehlo.add %a, %b : tensor<2x3xf32>\n return %0 : tensor<2x3xf32>",
        "`%b` is not defined before its use",
        "%b",
    );
    check(
        "%0 = stablehlo.transpose %a, dims = [1, 0] : (tensor<2x3xf32>) -> tensor<2x3xf32>",
        "`transpose` makes f32[3,2], which is not what was stated",
        "%0 = stablehlo.transpose %a, dims = [1, 0] ",
    );
    check(
        "%0 = stablehlo.dynamic_reshape %a, %a : (tensor<2x3xf32>, tensor<2x3xf32>) -> tensor<2x3xf32>",
        "`stablehlo.dynamic_reshape` is not read; shapes that are known at run time only are not read; lower the \
         program for inputs of fixed sizes",
        "%0 = stablehlo.dynamic_reshape %a, %a ",
    );
    check(
        "return %a : tensor<?x3xf32>",
        "dynamic shapes are not read; lower the program for inputs of fixed sizes",
        "<?",
    );
    check("%0 = stablehlo.add %a, : ", "expected a type such as `tensor<2x3xf32>`, found `}`", "}");
    check(
        "%0 = call @f(%a) : (tensor<2x3xf32>) -> tensor<2x3xf32>",
        "the function `@f` is not defined",
        "%0 = call @f(%a) ",
    );
}

#[test]
fn no_mutation_of_a_program_does_harm() {
    let files = crate::common::files(&crate::common::root().join("tests/frontends"));
    let mut random = crate::common::Random(11);
    let mut n_read = 0;
    for path in files.iter().filter(|path| path.extension().is_some_and(|end| end == "mlir" || end == "pb")) {
        let bytes = fs::read(path).expect("it was listed");
        for _ in 0..300 {
            let mutated = mutate(&bytes, &mut random);
            let read = match path.extension().is_some_and(|end| end == "pb") {
                true => hlo_proto::read(&mutated),
                false => stablehlo::read(&String::from_utf8_lossy(&mutated)),
            };
            if let Ok(module) = read {
                n_read += 1;
                if verify(&module).is_empty() {
                    parse(&print(&module)).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
                }
            }
        }
    }
    eprintln!("{n_read} mutated programs are still read");
    assert!(n_read > 100, "mutations that are never read test little: {n_read}");
}

/// One to three edits: bytes changed, removed, repeated, or moved.
fn mutate(bytes: &[u8], random: &mut crate::common::Random) -> Vec<u8> {
    let mut out = bytes.to_vec();
    for _ in 0..=random.below(3) {
        let at = random.below(out.len());
        let length = random.below(12).min(out.len() - at);
        match random.below(4) {
            0 => out[at] = b"(){}[]<>%@#:,=-x0129\"\xff"[random.below(22)],
            1 => drop(out.drain(at..at + length)),
            2 => {
                let part = out[at..at + length].to_vec();
                out.splice(at..at, part);
            }
            _ => {
                let part: Vec<u8> = out.drain(at..at + length).collect();
                let to = random.below(out.len());
                out.splice(to..to, part);
            }
        }
        if out.is_empty() {
            return bytes.to_vec();
        }
    }
    out
}
