//! Plans of small programs compute what the programs compute: every mesh, every pipeline, every kind of
//! parallelism.

use crate::common::{phzc, plan, root, scratch};
use phzc_cost::Cluster;
use phzc_ir::{Layout, Module, Opcode};
use phzc_passes::derive::{aliased, derive, is_naming, operand_origins};
use phzc_passes::verify::dark::Dark;
use phzc_passes::verify::{Settings, verify};
use std::collections::BTreeSet;

const EXAMPLES: &[&str] = &["mlp", "gpt", "gpt_remat", "gpt_scan", "llama", "moe"];
const CORPUS: &[&str] = &["mlp_tiny.hlo", "llama_tiny.hlo", "moe_gshard_tiny.hlo"];
const PIPELINES: &[&str] = &[
    "fuse,shard{mesh=8},place{stages=1,microbatches=1}",
    "fuse,shard{mesh=2x4},place{stages=1,microbatches=1}",
    "fuse,shard{mesh=2x2x2},place{stages=1,microbatches=1}",
    "fuse,shard,place{stages=2,microbatches=1}",
    "fuse,shard,place{stages=2,microbatches=2}",
    "fuse,shard,place{stages=4,microbatches=4}",
    "fuse,shard,place{stages=3,microbatches=4}",
    "fuse,shard,place{stages=2,microbatches=2,groups=6+2,recompute=all}",
    "fuse,shard,place{stages=2,microbatches=4,schedule=gpipe}",
    "fuse,shard,place{stages=2,microbatches=4,schedule=zero-bubble}",
    "fuse,shard,place{stages=4,microbatches=4,schedule=zero-bubble}",
    "fuse,shard,place{stages=4,microbatches=4,schedule=zero-bubble,recompute=all,groups=equal}",
    "fuse,shard,place{stages=2,microbatches=4,schedule=interleaved:2}",
    "fuse,shard,place{stages=2,microbatches=4,schedule=interleaved:2,recompute=all}",
    "fuse,shard{mesh=2x4},place{stages=1,microbatches=1,recompute=all}",
    "fuse,shard,place{stages=2,microbatches=2,recompute=all}",
];

/// Devices that compute slowly and talk fast: small programs are split in every way.
const CLUSTER: &str = include_str!("../clusters/slow-8.toml");

/// Values go past stages and to several of them: tied heads, an encoder's output, a mixture of experts.
const GENERATED: &[&[&str]] = &[
    &["opt", "--layers", "4"],
    &["gpt", "--layers", "5"],
    &["t5", "--layers", "2", "--head-dim", "8", "--target-seq", "8"],
    &["mixtral", "--layers", "3", "--kv-heads", "2", "--experts", "4"],
];

fn generated(model: &[&str]) -> (String, String) {
    let sizes = "--hidden 32 --heads 4 --ffn 64 --vocab 64 --seq 8 --global-batch 16 --dtype f32";
    let path = scratch("parallelism").join(format!("{}.ir", model[0]));
    let args = [&["gen"], model, &sizes.split(' ').collect::<Vec<_>>(), &["-o", &*path.to_string_lossy()]];
    let outcome = phzc(&args.concat(), b"");
    assert_eq!(outcome.code, 0, "{}", outcome.stderr);
    (model[0].to_owned(), std::fs::read_to_string(path).expect("it was written"))
}

fn programs() -> Vec<(String, String)> {
    let examples = EXAMPLES.iter().map(|name| {
        let text = std::fs::read_to_string(root().join(format!("examples/{name}.ir"))).expect("an example");
        ((*name).to_owned(), text)
    });
    let known = CORPUS.iter().filter_map(|name| {
        Some(((*name).to_owned(), std::fs::read_to_string(root().join("../shared/corpus").join(name)).ok()?))
    });
    examples.chain(known).chain(GENERATED.iter().map(|model| generated(model))).collect()
}

#[test]
fn every_third_plan_of_a_small_program_computes_the_same() {
    proven(3);
}

#[test]
#[ignore = "takes five minutes"]
fn plans_of_small_programs_compute_the_same() {
    proven(1);
}

/// Verifies one of so many pipelines of each program, others for the next program.
fn proven(one_of: usize) {
    let mut kinds = BTreeSet::new();
    let (mut n_plans, mut n_refused) = (0, 0);
    let cluster = Cluster::from_toml(CLUSTER).expect("a legal cluster");
    for (at, (name, text)) in programs().into_iter().enumerate() {
        for pipeline in PIPELINES.iter().skip(at % one_of).step_by(one_of) {
            let original = phzc_ir::parse(&text).expect("a legal program");
            let planned = match plan(&original, pipeline, &cluster) {
                Ok(planned) => planned,
                Err(error) => {
                    eprintln!("{name:18} {pipeline:52} no plan: {}", error.message);
                    n_refused += 1;
                    continue;
                }
            };
            let found = verify(&original, &planned, &Settings::default())
                .unwrap_or_else(|error| panic!("{name} {pipeline}: {error:?}"));
            let wrong = found.outputs.iter().position(|output| !output.is_equal());
            assert_eq!((wrong, found.n_steps), (None, 2), "{name} {pipeline}");
            assert_eq!(found.dark, Dark::default(), "{name} {pipeline}");
            let worst = found.outputs.iter().map(|output| output.error).fold(0.0, f64::max);
            let own = parallelism(&planned);
            eprintln!(
                "{name:18} {pipeline:52} {worst:.1e} {}",
                own.iter().copied().collect::<Vec<_>>().join(", ")
            );
            kinds.extend(own);
            n_plans += 1;
        }
    }
    assert!(n_refused < n_plans / 4, "{n_refused} plans refused, {n_plans} made");
    eprintln!("{n_plans} plans verified, {n_refused} refused; kinds seen: {kinds:?}");
    for kind in ["data", "expert", "fully sharded", "pipeline", "recompute", "sequence", "tensor"] {
        assert!(kinds.contains(kind), "no plan is {kind}-parallel");
    }
}

/// The kinds of parallelism that a plan has.
fn parallelism(planned: &Module) -> BTreeSet<&'static str> {
    let facts = derive(planned).expect("a planned module");
    let (comp, all) = (planned.entry(), &facts.comps[planned.entry.index()]);
    let state: BTreeSet<phzc_ir::InstrId> = aliased(planned).iter().map(|alias| alias.param).collect();
    let is_state = |id: phzc_ir::InstrId| state.contains(&id);
    let layout = |id: phzc_ir::InstrId| -> Layout {
        all[id.index()].leaves.first().map(|leaf| leaf.layout).unwrap_or_default()
    };
    let dims = |id: phzc_ir::InstrId| {
        comp.instr(id).shape.as_array().map(|array| array.dims.to_vec()).unwrap_or_default()
    };
    let mesh = |id: phzc_ir::InstrId| &facts.header.meshes[all[id.index()].stage];
    let is_split = |id, dim| layout(id).tiles(dim, mesh(id)) > 1;
    let mut found = BTreeSet::new();
    let mut lengths = BTreeSet::new();
    for id in comp.params().into_iter().filter(|&id| !is_state(id) && !dims(id).is_empty()) {
        if is_split(id, 0) {
            found.insert("data");
        }
        lengths.extend(dims(id).get(1).copied());
    }
    for (id, instr) in comp.iter().filter(|(_, instr)| !is_naming(instr)) {
        let rank = dims(id).len();
        let reads_state = || {
            operand_origins(comp, instr)
                .filter(|(maker, _)| comp.instr(*maker).op == Opcode::Parameter && is_state(*maker))
        };
        if instr.note("phzc.move") == Some("all-gather") && reads_state().next().is_some() {
            found.insert("fully sharded");
        }
        if instr.op == Opcode::Dot
            && reads_state().any(|(maker, _)| (0..dims(maker).len()).any(|dim| is_split(maker, dim)))
        {
            found.insert("tensor");
        }
        if instr.op == Opcode::Dot
            && rank >= 3
            && reads_state().any(|(maker, _)| dims(maker).len() == 3 && is_split(maker, 0))
        {
            found.insert("expert");
        }
        // What a program computes again, it reads through a barrier: otherwise it would be merged with the
        // first time.
        let is_held_back = |id: phzc_ir::InstrId| {
            let operand = comp.instr(id);
            operand.op == Opcode::GetTupleElement && comp.instr(operand.operands[0]).op == Opcode::OptBarrier
        };
        let mut operands = instr.operands.iter();
        if instr.note("phzc.phase") == Some("bwd") && operands.any(|&id| is_held_back(id)) {
            found.insert("recompute");
        }
        if rank == 3 && is_split(id, 1) && lengths.contains(&dims(id)[1]) {
            found.insert("sequence");
        }
    }
    if facts.header.meshes.len() > 1 {
        found.insert("pipeline");
    }
    found
}
