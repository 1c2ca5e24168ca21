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
use super::unpartition::{Causes, folded, named};
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
    let n_devices = n_devices(module);
    let mut local = module.clone();
    annotations::drop_idle(&mut local);
    inline::flatten(&mut local)?;
    dce::remove_dead(&mut local);
    let refused = |causes| named(&local, "a region of `shard_map` is not planned", &causes).help(HELP);
    let mut whole = on_whole_arrays(&local, n_devices).map_err(refused)?;
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

/// The program on whole arrays, or what is in the way.
fn on_whole_arrays(local: &Module, n_devices: usize) -> std::result::Result<Module, Causes> {
    let entry = local.entry();
    let params = entry.params().into_iter().flat_map(|id| wholes(&entry.instr(id).shape)).collect();
    let results: Vec<_> = wholes(&entry.root().shape).into_iter().map(Some).collect();
    let nested = |(comp, id)| vec![(comp, id, "begins a region inside of another one".to_owned())];
    let outside = outside(local).map_err(nested)?;
    let devices = Devices { n_replicas: 1, n_partitions: n_devices, first: None };
    folded(local, (devices, &Mesh::new(&[n_devices as i64])), params, &results, outside)
}

const HELP: &str = "write that part on whole arrays, without `shard_map`";

fn is_exit(instr: &Instr) -> bool {
    is_border(instr) && !goes_in(instr)
}

#[cfg(test)]
mod tests {
    use crate::testing::check;
    use insta::assert_snapshot;

    /// The entry of the whole program, or why there is none.
    fn whole(header: &str, entry: &str) -> String {
        let text = check("unmap", &format!("HloModule m{header}\nENTRY e {{ {entry} }}"));
        let Some((_, entry)) = text.split_once("ENTRY") else { return text };
        entry.lines().filter(|line| line.starts_with("  ")).map(str::trim).collect::<Vec<_>>().join("\n")
    }

    const ROWS: &str =
        "xs = f32[8,4] custom-call(x), custom_call_target=\"Sharding\", sharding={devices=[4,1]<=[4]}
        l = f32[2,4] custom-call(xs), custom_call_target=\"SPMDFullToShardShape\", sharding={manual}";

    #[test]
    fn what_devices_do_to_their_rows_is_done_to_all_rows() {
        let text = format!(
            "x = f32[8,4] parameter(0)
            {ROWS}
            t = f32[2,4] tanh(l)
            y = f32[8,4] custom-call(t), custom_call_target=\"SPMDShardToFullShape\", sharding={{devices=[4,1]<=[4]}}
            ROOT z = f32[8,4] negate(y)"
        );
        assert_snapshot!(whole("", &text), @r#"
        x = f32[8,4] parameter(0)
        xs = f32[8,4] custom-call(x), custom_call_target="Sharding", sharding={devices=[4,1]<=[4]}
        t = f32[8,4] tanh(xs)
        y = f32[8,4] custom-call(t), custom_call_target="Sharding", sharding={devices=[4,1]<=[4]}
        ROOT z = f32[8,4] negate(y)
        "#);
    }

    #[test]
    fn shardys_borders_name_the_axes_of_a_mesh() {
        let note = |key: &str, value: &str| {
            format!(
                "frontend_attributes={{xla.sdy.{key}=\"#sdy.sharding_per_value<[<@mesh, [{value}]>]>\",xla.sdy.manual_axes=\"#sdy<manual_axes{{\\\"x\\\"}}>\"}}"
            )
        };
        let rows = "{\\\"x\\\"}, {}";
        let text = format!(
            "x = f32[8,4] parameter(0)
            l = f32[2,4] custom-call(x), custom_call_target=\"xla.sdy.GlobalToLocalShape\", {}
            t = f32[2,4] tanh(l)
            ROOT y = f32[8,4] custom-call(t), custom_call_target=\"xla.sdy.LocalToGlobalShape\", {}",
            note("in_shardings", rows),
            note("out_shardings", rows)
        );
        let mesh = ", frontend_attributes={xla.sdy.meshes={mesh = #sdy.mesh<[\"x\"=4]>}}";
        assert_snapshot!(whole(mesh, &text), @r#"
        x = f32[8,4] parameter(0)
        l = f32[8,4] custom-call(x), custom_call_target="Sharding", sharding={devices=[4,1]<=[4]}
        t = f32[8,4] tanh(l)
        ROOT y = f32[8,4] custom-call(t), custom_call_target="Sharding", sharding={devices=[4,1]<=[4]}
        "#);
    }

    #[test]
    fn what_one_region_hands_to_another_lies_as_it_lay() {
        // The same number on every device, as four copies of it.
        let text = "x = f32[] parameter(0)
            l = f32[] custom-call(x), custom_call_target=\"SPMDFullToShardShape\", sharding={manual}
            t = f32[] tanh(l)
            o = f32[1] reshape(t)
            h = f32[4] custom-call(o), custom_call_target=\"SPMDShardToFullShape\", sharding={devices=[4]<=[4]}
            hs = f32[4] custom-call(h), custom_call_target=\"Sharding\", sharding={devices=[4]<=[4]}
            i = f32[1] custom-call(hs), custom_call_target=\"SPMDFullToShardShape\", sharding={manual}
            s = f32[] reshape(i)
            ROOT y = f32[] custom-call(s), custom_call_target=\"SPMDShardToFullShape\", sharding={replicated}";
        assert_snapshot!(whole("", text), @r#"
        x = f32[] parameter(0)
        ROOT t = f32[] tanh(x)
        "#);
    }

    #[test]
    fn what_every_device_adds_to_its_rows_is_repeated() {
        let text = format!(
            "x = f32[8,4] parameter(0)
            c = f32[2,4] parameter(1)
            {ROWS}
            k = f32[2,4] custom-call(c), custom_call_target=\"SPMDFullToShardShape\", sharding={{manual}}
            s = f32[2,4] add(l, k)
            ROOT y = f32[8,4] custom-call(s), custom_call_target=\"SPMDShardToFullShape\", sharding={{devices=[4,1]<=[4]}}"
        );
        assert_snapshot!(whole("", &text), @r#"
        x = f32[8,4] parameter(0)
        c = f32[2,4] parameter(1)
        xs = f32[8,4] custom-call(x), custom_call_target="Sharding", sharding={devices=[4,1]<=[4]}
        k = f32[2,4] custom-call(c), custom_call_target="Sharding", sharding={replicated}
        s.broadcast = f32[2,2,2,4] broadcast(k), dimensions={2,3}
        s.reshape = f32[8,4] reshape(s.broadcast)
        s = f32[8,4] add(xs, s.reshape)
        ROOT y = f32[8,4] custom-call(s), custom_call_target="Sharding", sharding={devices=[4,1]<=[4]}
        "#);
    }

    #[test]
    fn a_border_is_given_beside_another_constraint() {
        let text = "x = f32[8,4] parameter(0)
            c = f32[8,4] custom-call(x), custom_call_target=\"Sharding\", sharding={devices=[1,4]<=[4]}
            xs = f32[8,4] custom-call(c), custom_call_target=\"Sharding\", sharding={devices=[4,1]<=[4]}
            l = f32[2,4] custom-call(xs), custom_call_target=\"SPMDFullToShardShape\", sharding={manual}
            ROOT y = f32[8,4] custom-call(l), custom_call_target=\"SPMDShardToFullShape\", sharding={devices=[4,1]<=[4]}";
        assert_snapshot!(whole("", text), @r#"
        x = f32[8,4] parameter(0)
        c = f32[8,4] custom-call(x), custom_call_target="Sharding", sharding={devices=[1,4]<=[4]}
        ROOT xs = f32[8,4] custom-call(c), custom_call_target="Sharding", sharding={devices=[4,1]<=[4]}
        "#);
    }

    #[test]
    fn a_region_inside_of_another_one_is_named() {
        let text = format!(
            "x = f32[8,4] parameter(0)
            {ROWS}
            i = f32[2,1] custom-call(l), custom_call_target=\"SPMDFullToShardShape\", sharding={{manual}}
            o = f32[2,4] custom-call(i), custom_call_target=\"SPMDShardToFullShape\", sharding={{devices=[1,4]<=[4]}}
            ROOT y = f32[8,4] custom-call(o), custom_call_target=\"SPMDShardToFullShape\", sharding={{devices=[4,1]<=[4]}}"
        );
        assert_snapshot!(whole("", &text), @"error: a region of `shard_map` is not planned: 1 instruction cannot be folded; `i` begins a region inside of another one; in pass `unmap`; write that part on whole arrays, without `shard_map`");
    }

    #[test]
    fn what_a_device_has_of_its_own_is_named() {
        let text = format!(
            "x = f32[8,4] parameter(0)
            {ROWS}
            next = f32[2,4] collective-permute(l), channel_id=1, source_target_pairs={{{{0,1}},{{1,2}},{{2,3}},{{3,0}}}}
            ROOT y = f32[8,4] custom-call(next), custom_call_target=\"SPMDShardToFullShape\", sharding={{devices=[4,1]<=[4]}}"
        );
        assert_snapshot!(whole("", &text), @"error: a region of `shard_map` is not planned: 1 instruction cannot be folded; `next` rotates tiles; in pass `unmap`; write that part on whole arrays, without `shard_map`");
    }
}
