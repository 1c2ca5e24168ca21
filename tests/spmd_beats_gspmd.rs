//! What data parallelism sends: each gradient is reduced once per step, after all that adds to it.
//!
//! GSPMD reduces where a value is made: tied embeddings twice, in loops once per iteration. Prints what the
//! devices' programs send (`-- --nocapture`).

use crate::common::{phzc, root, scratch};
use flate2::read::GzDecoder;
use phzc_cost::Collective;
use phzc_ir::{CompId, Instr, Key, Layout, Mesh, Module, Opcode, Sharding, Value};
use phzc_passes::batch::{data, has_batch};
use phzc_passes::derive::{derive, planned_comps};
use phzc_passes::graph::Graph;
use std::fs;
use std::io::Read;

/// A program of the corpus; `None`, said loudly, where the corpus is not there.
fn corpus(name: &str) -> Option<Module> {
    let path = root().join("../shared/corpus").join(name);
    let Ok(bytes) = fs::read(&path) else {
        eprintln!("SKIPPED: there is no {}", path.display());
        return None;
    };
    let mut text = String::new();
    match name.ends_with(".gz") {
        true => GzDecoder::new(&bytes[..]).read_to_string(&mut text).map(drop).expect("a gzipped text"),
        false => text = String::from_utf8(bytes).expect("a text"),
    }
    Some(phzc_ir::parse(&text).expect("a legal program"))
}

/// A program of `phzc gen`.
fn generated(args: &[&str]) -> Module {
    let made = phzc(&[&["gen"], args].concat(), b"");
    assert_eq!(made.code, 0, "{}", made.stderr);
    phzc_ir::parse(&made.stdout).expect("a legal program")
}

/// The program with its data split over `n` devices and all else on every one: data parallelism, and nothing
/// else given.
fn with_data_split(mut module: Module, n: i64) -> Module {
    let graph = Graph::build(&module);
    let batch: Vec<_> = data(&graph).map(|tensor| graph.tensors[tensor as usize].home.1).collect();
    let (entry, mesh) = (module.entry, Mesh::new(&[n]));
    for id in module.entry().params() {
        let instr = &mut module.comps[entry.index()].instrs[id.index()];
        let rank = instr.shape.as_array().map_or(0, |array| array.rank());
        let layout = Layout::REPLICATED.with(0, batch.contains(&id).then_some(0));
        let sharding = Sharding::Single(layout.to_tiling(rank, &mesh));
        instr.set_attr(Key::Sharding, Value::Sharding(Box::new(sharding)));
    }
    module
}

/// The plan of a program on `n` devices in a row.
fn planned(name: &str, module: Module, cluster: &str, n: i64) -> Module {
    let dir = scratch(&format!("spmd_beats_gspmd_{name}"));
    let (from, to) = (dir.join(format!("{name}.ir")), dir.join(format!("{name}.planned.ir")));
    fs::write(&from, phzc_ir::print(&with_data_split(module, n))).expect("the scratch directory is writable");
    let passes = format!("fuse,shard{{mesh={n}}},check");
    let made = phzc(
        &[
            &from.display().to_string(),
            "--cluster",
            cluster,
            "--passes",
            &passes,
            "-o",
            &to.display().to_string(),
        ],
        b"",
    );
    assert_eq!(made.code, 0, "{}", made.stderr);
    phzc_ir::parse(&fs::read_to_string(to).expect("a plan")).expect("a plan is a program")
}

/// A reduction of a value that does not run over the batch.
struct Reduced {
    name: String,
    comp: CompId,
    bytes: f64,
    times: f64,
}

/// Every reduction of a gradient, and of other arrays without a batch dimension.
fn reduced(planned: &Module) -> Vec<Reduced> {
    let (graph, facts) = (Graph::build(planned), derive(planned).expect("a plan"));
    let has_batch = has_batch(&graph);
    let mut found = Vec::new();
    for comp in planned_comps(planned) {
        let is_array = |instr: &Instr| instr.shape.as_array().is_none_or(|it| it.rank() > 0);
        let arrays = planned.comp(comp).iter().filter(|(_, instr)| is_array(instr));
        for (id, instr) in arrays {
            let of_batch = graph.values[comp.index()][id.index()].iter().any(|&it| has_batch[it as usize]);
            let steps = facts.comps[comp.index()][id.index()].steps.iter();
            let sums =
                steps.filter(|it| matches!(it.kind, Collective::AllReduce | Collective::ReduceScatter));
            found.extend(sums.filter(|_| !of_batch).map(|step| Reduced {
                name: instr.name.to_string(),
                comp,
                bytes: step.bytes,
                times: facts.executions[comp.index()],
            }));
        }
    }
    found
}

/// Bytes that are reduced per step; none of them in a loop.
fn bytes_outside_of_loops(name: &str, planned: &Module) -> f64 {
    let found = reduced(planned);
    let inside: Vec<&str> =
        found.iter().filter(|it| it.comp != planned.entry).map(|it| it.name.as_str()).collect();
    let bytes: f64 = found.iter().map(|it| it.bytes * it.times).sum();
    println!(
        "{name}: {} reductions of gradients, {:.1} MB per step, {} in loops",
        found.len(),
        bytes / 1e6,
        inside.len()
    );
    assert_eq!(inside, Vec::<&str>::new(), "{name}");
    bytes
}

#[test]
fn gradients_of_a_tied_embedding_are_added_before_they_are_reduced() {
    let Some(module) = corpus("gpt2_small.hlo.gz") else { return };
    let planned = planned("gpt2_small", module, "h100-8", 8);
    let n_parameters = 124_439_808.0;
    let bytes = bytes_outside_of_loops("gpt2_small", &planned);
    assert_eq!(bytes, 4.0 * n_parameters);
    let add = planned.entry().instrs.iter().filter(|instr| instr.op == Opcode::Add);
    assert_eq!(add.filter(|instr| instr.note("phzc.partial") == Some("x")).count(), 1);
}

#[test]
fn gradients_of_scanned_layers_are_reduced_after_the_loop() {
    for (name, cluster, n) in [("gpt2_small_scan", "a100-8", 8), ("llama_7b_scan", "mi300x-4", 4)] {
        let Some(module) = corpus(&format!("{name}.hlo")) else { return };
        bytes_outside_of_loops(name, &planned(name, module, cluster, n));
    }
}

#[test]
fn gradients_of_microbatches_are_reduced_once_per_step() {
    let size = ["gpt", "--size", "gpt2-small", "--seq", "512", "--global-batch", "16", "--microbatch", "4"];
    let bytes = |more: &[&str]| {
        let name = format!("microbatches{}", more.concat());
        bytes_outside_of_loops(&name, &planned(&name, generated(&[&size, more].concat()), "h100-4", 4))
    };
    bytes(&[]);
    bytes(&["--scan"]);
}

/// What one step of the GShard model sends and needs under Google's own shardings on 2x4 devices, by XLA
/// (../shared/oracle/README.md): bytes of all-reduces, all-gathers, all-to-alls; arguments and temporaries.
const GSHARD: ([f64; 3], f64) = ([4.34e9, 6.38e9, 0.64e9], 1.16e9 + 6.56e9);

#[test]
fn experts_send_no_more_than_under_shardings_written_by_hand() {
    let Some(_) = corpus("moe_gshard.hlo") else { return };
    let dir = scratch("spmd_beats_gspmd_experts");
    let (from, json) = (root().join("../shared/corpus/moe_gshard.hlo"), dir.join("plan.json"));
    let passes = "fuse,shard{mesh=2x4},place{stages=1,microbatches=1},check";
    let args = [
        from.display().to_string(),
        "--passes".into(),
        passes.into(),
        "-o".into(),
        dir.join("plan.ir").display().to_string(),
    ];
    let made = phzc(&[&args[..], &["--plan".into(), json.display().to_string()]].concat(), b"");
    assert_eq!(made.code, 0, "{}", made.stderr);
    let text = fs::read_to_string(json).expect("a plan's figures");
    let plan: serde_json::Value = serde_json::from_str(&text).expect("JSON");
    let sent = |kinds: &[&str]| {
        let uses = plan["collectives"].as_array().expect("a list").iter();
        let own = uses.filter(|it| kinds.contains(&it["kind"].as_str().unwrap_or_default()));
        own.map(|it| it["bytes"].as_f64().expect("a number")).sum::<f64>()
    };
    let own = [&["all-reduce", "reduce-scatter"][..], &["all-gather"], &["all-to-all", "collective-permute"]]
        .map(sent);
    let memory_bytes = plan["stages"][0]["memory_bytes"].as_f64().expect("a number");
    println!("moe_gshard: all-reduce, all-gather, all-to-all {own:?} bytes, memory {memory_bytes:.3e} bytes");
    println!("   by hand: {:?} bytes, memory {:.3e} bytes", GSHARD.0, GSHARD.1);
    assert!(own.iter().zip(GSHARD.0).all(|(own, by_hand)| *own <= by_hand) && memory_bytes <= GSHARD.1);
}
