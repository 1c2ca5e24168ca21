//! Plans whose stages have different numbers of devices: found where they are faster, legal, and equal to the
//! program.

use super::plans::{planned, slow_8};
use phzc_cost::Cluster;
use phzc_ir::eval::{Options, inputs, run};
use phzc_ir::{Module, print};
use phzc_passes::derive::derive;
use phzc_passes::report::{Plan, plan};
use phzc_passes::stages::{execute::execute, stages};
use phzc_passes::verify::{Settings, verify};

/// A step of layers that go from one of these widths to the next.
fn step(widths: &[usize], optimizer: &str) -> Module {
    let mut lines = vec![format!("x = f32[64,{}] parameter(0)", widths[0])];
    for (at, pair) in widths.windows(2).enumerate() {
        lines.push(format!("w{at} = f32[{},{}] parameter({})", pair[0], pair[1], at + 1));
    }
    let mut last = "x".to_owned();
    for (at, width) in widths[1..].iter().enumerate() {
        lines.push(format!(
            "d{at} = f32[64,{width}] dot({last}, w{at}), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}}"
        ));
        lines.push(format!("h{at} = f32[64,{width}] tanh(d{at})"));
        last = format!("h{at}");
    }
    let size = widths[widths.len() - 1];
    let text = format!(
        "HloModule net
add {{ a = f32[] parameter(0)  b = f32[] parameter(1)  ROOT c = f32[] add(a, b) }}
ENTRY e {{
  {}
  s = f32[64,{size}] multiply({last}, {last})
  zero = f32[] constant(0)
  ROOT loss = f32[] reduce(s, zero), dimensions={{0,1}}, to_apply=add
}}",
        lines.join("\n  ")
    );
    planned(&text, &format!("grad,optimizer{{kind={optimizer}}}"), &slow_8())
}

/// A first layer that takes as long as all others, or twice as long.
const HALF_FIRST: &[usize] = &[768, 64, 64, 64, 64, 64, 64, 64, 64];
const HEAVY_FIRST: &[usize] = &[768, 64, 64, 64, 64];

/// Devices that compute slowly, talk slowly, and read and write fast.
fn far(n_devices: usize) -> Cluster {
    let toml = include_str!("../clusters/slow-8.toml");
    let toml = toml.replace("per_node = 8", &format!("per_node = {n_devices}"));
    let toml = toml.replace("hbm_bytes_per_sec = 1e9", "hbm_bytes_per_sec = 1e12");
    Cluster::from_toml(&toml.replace("bytes_per_sec = 20e9", "bytes_per_sec = 3e7")).expect("a legal cluster")
}

fn placed(step: &Module, options: &str, cluster: &Cluster) -> (Module, Plan) {
    let placed = planned(&print(step), &format!("fuse,shard,place{{{options}}}"), cluster);
    let plan = plan(&placed, cluster).expect("a placed module");
    (placed, plan)
}

fn sizes(plan: &Plan) -> Vec<usize> {
    plan.stages.iter().map(|stage| stage.devices[1] + 1 - stage.devices[0]).collect()
}

/// Legal, equal to the program by `verify`, and by its stages' programs.
fn assert_sound(step: &Module, placed: &Module, what: &str) {
    let facts = derive(placed).expect("a placed module");
    assert!(facts.problems.is_empty(), "{what}: {:?}", facts.problems);
    let verified = verify(step, placed, &Settings::default())
        .unwrap_or_else(|failed| panic!("{what}: {:?}", failed.error));
    assert!(verified.is_replayed && verified.outputs.iter().all(|output| output.is_equal()), "{what}");
    let cut = stages(placed).unwrap_or_else(|error| panic!("{what}: {error:?}"));
    let given = inputs(step, 1).expect("inputs");
    let wanted = run(step, &given, &Options::default()).expect("it runs");
    let made = execute(&cut, &given, &Options::default()).expect("it runs");
    for (wanted, made) in wanted.leaves().iter().zip(&made) {
        let (wanted, made) = (wanted.to_f64_vec(), made.leaves()[0].to_f64_vec());
        let largest = wanted.iter().fold(1e-30, |most: f64, it| most.max(it.abs()));
        let worst = wanted.iter().zip(&made).map(|(a, b)| (a - b).abs()).fold(0.0, f64::max);
        assert!(wanted.len() == made.len() && worst < 1e-4 * largest, "{what}: {worst} of {largest}");
    }
}

#[test]
fn a_heavy_first_layer_gets_more_devices_than_light_ones() {
    for (n_devices, widths, optimizer) in [(8, HALF_FIRST, "sgd"), (6, HEAVY_FIRST, "adamw")] {
        let step = step(widths, optimizer);
        let cluster = far(n_devices);
        let (_, by_equal) = placed(&step, "groups=equal", &cluster);
        let (mixed, by_any) = placed(&step, "", &cluster);
        let sizes = sizes(&by_any);
        assert_eq!(sizes.iter().sum::<usize>(), n_devices);
        assert!(sizes.iter().any(|size| *size != sizes[0]), "{n_devices}: {sizes:?}");
        assert!(by_any.time_secs < by_equal.time_secs, "{} {}", by_any.time_secs, by_equal.time_secs);
        assert_sound(&step, &mixed, &format!("{n_devices} devices"));
    }
}

#[test]
fn as_many_stages_as_asked_for_share_devices_that_they_do_not_divide() {
    for (n_devices, options) in [
        (8, "stages=3"),
        (8, "stages=3,microbatches=4,schedule=zero-bubble"),
        (6, "stages=2,groups=4+2"),
        (8, "stages=5,recompute=all"),
    ] {
        for widths in [HALF_FIRST, &[64; 9], &[64; 17]] {
            let step = step(widths, "adamw");
            let (mixed, plan) = placed(&step, options, &far(n_devices));
            assert_eq!(sizes(&plan).iter().sum::<usize>(), n_devices, "{options}");
            assert_sound(&step, &mixed, &format!("{n_devices} devices, {options}"));
        }
    }
}
