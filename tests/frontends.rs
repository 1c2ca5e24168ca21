//! Programs in other forms are read as what XLA makes of them: StableHLO text and HLO protobufs.

mod common;

use common::program;
use phzc_driver::frontend::stablehlo;
use phzc_ir::eval::{Options, Value, inputs, run};
use phzc_ir::flops::totals;
use phzc_ir::{Module, parse, verify};
use std::path::{Path, PathBuf};
use std::time::Instant;

/// StableHLO texts of the corpus, each with the HLO text that XLA made of it.
fn pairs() -> Vec<(String, PathBuf, PathBuf)> {
    let dir = common::root().join("../shared/corpus");
    let found = common::files(&dir).into_iter().filter_map(|path| {
        let file = path.file_name()?.to_str()?;
        let name = file.split(".stablehlo.mlir").next().filter(|name| *name != file)?.to_owned();
        let hlo = ["hlo", "hlo.gz"].map(|extension| dir.join(format!("{name}.{extension}")));
        Some((name, path, hlo.into_iter().find(|path| path.is_file())?))
    });
    let found: Vec<_> = found.collect();
    if found.is_empty() {
        eprintln!("SKIPPED: no corpus at ../shared/corpus, its 0 StableHLO programs are not read");
    }
    found
}

fn checked(path: &Path, module: Module) -> Module {
    let errors = verify(&module);
    assert!(errors.is_empty(), "{}: {} errors: {}", path.display(), errors.len(), errors[0]);
    module
}

fn stablehlo_of(path: &Path) -> Module {
    let text = program(path);
    let start = Instant::now();
    let module = stablehlo::read(&text).unwrap_or_else(|error| {
        let at = error.span.map_or(0, |span| span.start as usize);
        let line = text[..at.min(text.len())].lines().count();
        panic!("{}:{line}: {error}", path.display())
    });
    eprintln!("{:40} {:6} KiB in {:.1?}", path.display(), text.len() >> 10, start.elapsed());
    checked(path, module)
}

fn shapes(module: &Module) -> Vec<String> {
    let entry = module.entry();
    let ids = entry.params().into_iter().chain([entry.root]);
    let plain = |text: String| text.split('{').map(|part| part.split_once('}').map_or(part, |p| p.1)).collect();
    ids.map(|id| plain(phzc_ir::text::shape_text(&entry.instr(id).shape))).collect()
}

#[test]
fn stablehlo_of_the_corpus_has_the_shapes_and_flops_of_its_hlo() {
    for (name, stablehlo, hlo) in pairs() {
        let found = stablehlo_of(&stablehlo);
        let wanted = checked(&hlo, parse(&program(&hlo)).expect("the corpus parses"));
        assert_eq!(shapes(&found), shapes(&wanted), "{name}");
        let (a, b) = (totals(&found), totals(&wanted));
        eprintln!("{name:30} {:e} {:e}", a.with_trips.flops, b.with_trips.flops);
        assert_eq!(a.dot_conv_with_trips, b.dot_conv_with_trips, "{name}");
        assert!((a.with_trips.flops / b.with_trips.flops - 1.0).abs() < 1e-6, "{name}");
    }
}
