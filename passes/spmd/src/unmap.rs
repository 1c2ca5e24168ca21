//! `unmap`: regions of one device's part (`shard_map`) as the whole arrays that they compute.
//!
//! ```text
//! l = f32[8,16] custom-call(x), custom_call_target="SPMDFullToShardShape", …
//! d = f32[8,64] dot(l, w), …                                           →     d = f32[32,64] dot(x, w), …
//! y = f32[32,64] custom-call(d), custom_call_target="SPMDShardToFullShape", …
//! ```
//!
//! What is inside is read as `unpartition` reads a partitioned program; around it everything is whole already
//! and stays as it is. The layouts at the borders are given: constraints keep them, so that a region is laid
//! out as its author wrote it unless `--ignore-shardings` says otherwise. What cannot be folded is named.

use super::unpartition::border::{outside, wholes};
use super::unpartition::{folded, named};
use phzc_ir::annotations::{self, is_border};
use phzc_ir::border::{goes_in, has_regions, n_devices};
use phzc_ir::device_groups::Devices;
use phzc_ir::{Diagnostic, Instr, Mesh, Module, Result, counted};
use phzc_opt::{dce, inline};
use phzc_pass::pass::{Changed, Context, Options, Pass};

/// The pass.
pub static PASS: Pass = Pass {
    name: "unmap",
    summary: "writes regions of one device's part (`shard_map`) as the whole arrays that they compute",
    options: &[],
    run,
};

fn run(module: &mut Module, _: &Options, cx: &mut Context) -> Result<Changed> {
    if !has_regions(module) {
        return Ok(Changed::No);
    }
    let n_devices = n_devices(module).ok_or_else(|| {
        Diagnostic::error("the borders of its `shard_map` do not say over which devices it is")
    })?;
    let mut local = module.clone();
    annotations::drop_idle(&mut local);
    inline::flatten(&mut local)?;
    dce::remove_dead(&mut local);
    let entry = local.entry();
    let of_all = |instrs: &mut dyn Iterator<Item = &Instr>| instrs.flat_map(|it| wholes(&it.shape)).collect();
    let params: Vec<_> = of_all(&mut entry.params().into_iter().map(|id| entry.instr(id)));
    let results: Vec<_> = wholes(&entry.root().shape).into_iter().map(Some).collect();
    let devices = Devices { n_replicas: 1, n_partitions: n_devices, first: None };
    let mesh = Mesh::new(&[n_devices as i64]);
    let folded = folded(&local, (devices, &mesh), params, &results, outside(&local));
    let refused = |causes| named(&local, "a region of `shard_map` is not planned", &causes).help(HELP);
    let mut whole = folded.map_err(refused)?;
    dce::remove_dead(&mut whole);
    if let Some(error) = phzc_ir::verify(&whole).into_iter().next() {
        let message =
            format!("a region of `shard_map` is not planned: what was folded is not legal: {error}");
        return Err(Diagnostic::error(message).help(HELP));
    }
    let n_regions = local.comps.iter().flat_map(|comp| &comp.instrs).filter(|it| is_exit(it)).count();
    cx.warn_once(Diagnostic::warning(format!(
        "regions of `shard_map` with {} are planned as the whole arrays that they compute, laid out at their \
         borders as given",
        counted(n_regions, "result")
    )));
    *module = whole;
    Ok(Changed::Yes)
}

const HELP: &str = "plan the program without its `shard_map`, or price it as it is: `--passes estimate`";

fn is_exit(instr: &Instr) -> bool {
    is_border(instr) && !goes_in(instr)
}
