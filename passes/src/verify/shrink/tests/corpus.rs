//! `shrink` on plans of the corpus, where it is there: small enough to run.

use super::*;
use flate2::read::GzDecoder;
use phzc_cost::DEFAULT_CLUSTER;
use phzc_ir::flops;
use std::io::Read;
use std::path::Path;

fn read(name: &str) -> Option<String> {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../shared/corpus");
    if let Ok(text) = std::fs::read_to_string(dir.join(format!("{name}.hlo"))) {
        return Some(text);
    }
    let bytes = std::fs::read(dir.join(format!("{name}.hlo.gz"))).ok()?;
    let mut text = String::new();
    GzDecoder::new(&bytes[..]).read_to_string(&mut text).ok()?;
    Some(text)
}

/// FLOPs of one run, and bytes of all values, those of loops once.
fn size(module: &Module) -> (f64, f64) {
    let instrs = module.comps.iter().flat_map(|comp| &comp.instrs);
    (flops::totals(module).with_trips.flops, instrs.map(|instr| instr.shape.bytes()).sum())
}

fn check(name: &str, pipeline: &str) {
    let Some(text) = read(name) else {
        eprintln!("SKIPPED: no {name} in ../shared/corpus");
        return;
    };
    let original = parse(&text).expect("a legal program");
    let mut planned = original.clone();
    let cluster = Cluster::named(DEFAULT_CLUSTER).expect("a built-in cluster");
    plan(&mut planned, pipeline, &cluster);
    let before = size(&planned);
    let started = std::time::Instant::now();
    let both = shrink_plan(&original, &planned, 4).expect("the notes are phzc's");
    let took = started.elapsed().as_secs_f64();
    for shrunk in &both {
        let after = size(shrunk);
        eprintln!(
            "{name}: {:.3e} flops and {:.3e} bytes shrink to {:.3e} and {:.3e} in {took:.2} s",
            before.0, before.1, after.0, after.1
        );
        assert!(after.0 < 2e9 && after.1 < 5e8, "{name} is too large to run");
    }
}

#[test]
fn a_forward_pass_becomes_small() {
    check("gpt2_small_fwd", "fuse,shard{mesh=2x4}");
}

#[test]
fn a_training_step_becomes_small() {
    check("bert_large", "fuse,shard{mesh=2x4}");
}

#[test]
fn a_loop_over_layers_becomes_small() {
    check("llama_7b_scan", "fuse,shard{mesh=2x4}");
}

const NAMES: [&str; 22] = [
    "bert_large",
    "gpt2_small",
    "gpt2_small_fwd",
    "gpt2_small_scan",
    "gpt_1p3b",
    "llama_7b_gqa",
    "llama_7b_scan",
    "llama_tiny",
    "llama_tiny.after_spmd",
    "llama_tiny.cpu_opt",
    "llama_tiny.jit2x4_gspmd",
    "llama_tiny.spmd_opt",
    "llama_tiny.jit2x4_shardy",
    "mlp_tiny",
    "mlp_tiny.cpu_opt",
    "moe_gshard",
    "moe_gshard_mesh2x4",
    "moe_gshard_tiny",
    "resnet50",
    "t5_base",
    "vit_b16",
    "wide_resnet50_2",
];

#[test]
fn zz_temp() {
    for name in ["llama_7b_gqa", "gpt_1p3b"] {
        let Some(text) = read(name) else { continue };
        let original = parse(&text).expect("a legal program");
        let shrunk = shrink(&[&original], |_| Cut::default(), 4).remove(0);
        eprintln!(
            "ALONE {name}: {:?} -> {:?} changed {}",
            size(&original),
            size(&shrunk),
            original.comps != shrunk.comps
        );
        for pipeline in ["fuse,shard{mesh=2x4}", "fuse,shard,place{stages=2,microbatches=4}"] {
            let cluster = Cluster::named(DEFAULT_CLUSTER).expect("a built-in cluster");
            let pipeline = Pipeline::parse(pipeline).unwrap();
            let mut cx = Context::new(&cluster);
            let mut planned = original.clone();
            let mut ok = true;
            for step in &pipeline.steps {
                if let Err(error) = (step.pass.run)(&mut planned, &step.options, &mut cx) {
                    eprintln!("  NOPLAN {name} {error}");
                    ok = false;
                    break;
                }
            }
            if !ok {
                continue;
            }
            let both = shrink_plan(&original, &planned, 4).expect("notes");
            if size(&both[1]).0 > 2e9 || size(&both[1]).1 > 5e8 {
                let mut big: Vec<_> = both[1]
                    .comps
                    .iter()
                    .flat_map(|comp| &comp.instrs)
                    .map(|i| (i.shape.bytes() as i64, i))
                    .collect();
                big.sort_by_key(|(bytes, _)| -bytes);
                for (b, i) in big.iter().filter(|(_, i)| i.shape.as_array().is_some()).take(6) {
                    eprintln!(
                        "   {b} {} {} {:?}",
                        i.name,
                        i.op.as_str(),
                        i.shape.as_array().map(|a| a.dims.clone())
                    );
                }
            }
            eprintln!(
                "  PLANNED {name}: {:?} {:?} changed {} problems {:?}",
                size(&both[0]),
                size(&both[1]),
                planned.comps != both[1].comps,
                problems(&planned).map(|p| p.len())
            );
        }
    }
}
