//! FLOP counts of the corpus' programs against XLA's own and against an independent scanner's.

use flate2::read::GzDecoder;
use phzc_ir::flops::{Totals, totals, work};
use phzc_ir::{CompId, InstrId, Key, Module, Opcode, View, attr};
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

fn module_of(path: &Path) -> Module {
    let module = phzc_ir::parse(&read(path)).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let problems = phzc_ir::verify(&module);
    assert!(problems.is_empty(), "{}: {} problems, first: {}", path.display(), problems.len(), problems[0]);
    module
}

/// FLOPs and transcendentals, summed up as XLA does: in 32 bits, operands before their readers from the root
/// up, after what the root does not need (`HloComputation::Accept`, `HloCostAnalysis::Postprocess`).
fn xla_sums(module: &Module, comp: CompId) -> [f32; 2] {
    let mut sums = [0.0f32; 2];
    for id in post_order(module, comp) {
        let own = match called(module, comp, id) {
            Some(callees) => {
                callees.into_iter().fold([0.0; 2], |sum, callee| add(sum, xla_sums(module, callee)))
            }
            None => {
                let work = work(&View::new(module, comp, id));
                [work.flops as f32, work.transcendentals as f32]
            }
        };
        sums = add(sums, own);
    }
    sums
}

fn add(a: [f32; 2], b: [f32; 2]) -> [f32; 2] {
    [a[0] + b[0], a[1] + b[1]]
}

/// The computations whose sums are the instruction's own, in XLA's order; no corpus program has a
/// conditional.
fn called(module: &Module, comp: CompId, id: InstrId) -> Option<Vec<CompId>> {
    let instr = module.comp(comp).instr(id);
    let callee = |key| match instr.attr(key) {
        Some(attr::Value::Comp(callee)) => *callee,
        other => panic!("{}: {other:?}", instr.name),
    };
    match instr.op {
        Opcode::Call => Some(vec![callee(Key::ToApply)]),
        Opcode::Fusion => Some(vec![callee(Key::Calls)]),
        Opcode::While => Some(vec![callee(Key::Body), callee(Key::Condition)]),
        Opcode::Conditional => panic!("{}: which branch counts is not modelled here", instr.name),
        _ => None,
    }
}

fn post_order(module: &Module, comp: CompId) -> Vec<InstrId> {
    let comp = module.comp(comp);
    let mut is_read = vec![false; comp.instrs.len()];
    comp.instrs.iter().flat_map(|instr| &instr.operands).for_each(|operand| is_read[operand.index()] = true);
    let dead = (0..comp.instrs.len()).map(InstrId::new).filter(|&id| !is_read[id.index()] && id != comp.root);
    let (mut order, mut is_done) = (Vec::new(), vec![false; comp.instrs.len()]);
    for root in dead.chain([comp.root]) {
        // An instruction is on the stack once to be opened, then once more below its operands.
        let mut stack = vec![(root, false)];
        while let Some((id, is_open)) = stack.pop() {
            if is_done[id.index()] {
                continue;
            }
            if is_open {
                is_done[id.index()] = true;
                order.push(id);
            } else {
                stack.push((id, true));
                stack.extend(comp.instr(id).operands.iter().rev().map(|&operand| (operand, false)));
            }
        }
    }
    order
}

/// `found` is summed up in 64 bits, XLA's in 32.
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
        let module = module_of(&folder.join(entry["hlo"].as_str().expect("a file")));
        let (found, sums): (Totals, _) = (totals(&module), xla_sums(&module, module.entry));
        let xla = &entry["xla_hlo_cost_analysis"];
        let flops = ratio(found.once.flops, xla["flops"].as_f64());
        let transcendentals = ratio(found.once.transcendentals, xla["transcendentals"].as_f64());
        let bytes = ratio(found.once.bytes, xla["bytes accessed"].as_f64());
        eprintln!("{name:28} flops {flops:.5?} transcendentals {transcendentals:.5?} bytes {bytes:.3?}");
        for ratio in [flops, transcendentals].into_iter().flatten() {
            assert!((ratio - 1.0).abs() < 1e-4, "{name}: {ratio}");
        }
        for (key, sum) in ["flops", "transcendentals"].into_iter().zip(sums) {
            let wanted = xla[key].as_f64();
            assert!(
                wanted.is_none_or(|wanted| wanted == f64::from(sum)),
                "{name}: {key} {sum}, not {wanted:?}"
            );
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
