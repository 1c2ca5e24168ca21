//! Names, files and their errors.

use super::{Cluster, DEFAULT_CLUSTER, SoftwareFactors};
use crate::Accelerator;
use phzc_ir::Diagnostic;

/// The message and the help, without the list of devices, which grows.
fn error(name: &str) -> String {
    let full = Cluster::named(name).unwrap_err().to_string();
    full.split(" known: ").next().unwrap_or(&full).trim_end_matches(';').to_owned()
}

/// The message and the text that it points at.
fn file_error(text: &str) -> String {
    let Diagnostic { message, span, .. } = Cluster::from_toml(text).unwrap_err();
    let message = message.split(" known: ").next().unwrap_or(&message);
    let place = span.map_or("", |span| &text[span.start as usize..span.end as usize]);
    format!("{message} @ {place}")
}

#[test]
fn names_give_devices_nodes_and_networks() {
    let cluster = Cluster::named("h100-8x64").unwrap();
    assert_eq!((cluster.n_devices(), cluster.per_node(), cluster.n_nodes()), (512, 8, 64));
    assert_eq!(cluster.accelerator.name, "h100-80");
    assert_eq!(Cluster::named("a100-40-8x2").unwrap().accelerator.name, "a100-40");
    assert_eq!(Cluster::named(DEFAULT_CLUSTER).unwrap().accelerator.name, "a100-80");
    assert_eq!(Cluster::named("v100-8x4").unwrap().n_devices(), 32);
}

#[test]
fn a_cluster_file_can_have_other_counts() {
    let usual = Cluster::named("aws-p4d").unwrap();
    let small = Cluster::named("aws-p4d-8x2").unwrap();
    assert_eq!(small.n_devices(), 16);
    assert_eq!(small.levels()[1].bytes_per_sec, usual.levels()[1].bytes_per_sec);
}

#[test]
fn wrong_names_say_what_is_right() {
    insta::assert_snapshot!(error("a10O-8"), @"unknown device `a10O`; did you mean `a100`?");
    insta::assert_snapshot!(error("a100-80"), @"`a100-80` names a device but not how many (NVIDIA A100-SXM4-80GB); `a100-80-8` is one node of 8 of them, `a100-80-8x4` is four such nodes");
    insta::assert_snapshot!(error("a100-0"), @"a cluster needs at least one device, found `a100-0`");
    insta::assert_snapshot!(error("a100-8x"), @"expected `<device>-<per node>x<nodes>` as in `a100-8x4`, found `a100-8x`");
    insta::assert_snapshot!(error("a100-8x99999999999999999999"), @"`a100-8x99999999999999999999` has too many devices, expected at most 1048576");
    insta::assert_snapshot!(error("a100-8x9999999"), @"`a100-8x9999999` has too many devices, expected at most 1048576");
    insta::assert_snapshot!(error("h100-64"), @"a node holds at most 8 devices of `h100-80`, found 64 in `h100-64`; write `h100-80-8x8`, or describe the network in a cluster file");
    insta::assert_snapshot!(error(""), @"unknown device ``");
}

const MINE: &str = r#"
name = "mine"
accelerator = "a100-40"
per_node = 4
nodes = 2
[[levels]]
name = "PCIe"
bytes_per_sec = 16e9
latency_secs = 5e-6
source = "a guess"
[[levels]]
name = "Ethernet"
bytes_per_sec = 1.25e9
latency_secs = 5e-5
source = "a guess"
"#;

#[test]
fn a_file_describes_its_own_network() {
    let cluster = Cluster::from_toml(MINE).unwrap();
    assert_eq!((cluster.n_devices(), cluster.levels()[0].devices, cluster.levels()[1].devices), (8, 4, 8));
    assert_eq!(cluster.levels()[1].source, "a guess");
}

#[test]
fn links_adapters_and_narrow_switches_make_up_the_peak_of_one_device() {
    let peak = |keys: &str| {
        let text = MINE.replace("bytes_per_sec = 1.25e9", &format!("bytes_per_sec = 1.25e9\n{keys}"));
        Cluster::from_toml(&text).unwrap().levels()[1].bytes_per_sec
    };
    assert_eq!(peak("links = 4"), 5e9);
    // Two adapters for four devices.
    assert_eq!(peak("adapters = 2"), 0.625e9);
    assert_eq!(peak("oversubscription = 2.0"), 0.625e9);
}

#[test]
fn wrong_files_say_where() {
    insta::assert_snapshot!(file_error(&MINE.replace("nodes = 2", "nods = 2")), @"unknown field `nods`, expected one of `name`, `accelerator`, `per_node`, `nodes`, `levels`, `software` @ nods");
    insta::assert_snapshot!(file_error(&MINE.replace("16e9", "-16e9")), @"expected a positive finite number, found `-16000000000` @ -16e9");
    insta::assert_snapshot!(file_error(&MINE.replace("16e9", "0.0")), @"expected a positive finite number, found `0` @ 0.0");
    insta::assert_snapshot!(file_error(&MINE.replace("16e9", "inf")), @"expected a positive finite number, found `inf` @ inf");
    insta::assert_snapshot!(file_error(&MINE.replace("per_node = 4", "per_node = 0")), @"expected a count from 1 to 1048576, found `0` @ 0");
    insta::assert_snapshot!(file_error(&MINE.replace("per_node = 4\n", "")), @"missing field `per_node` @ ");
    insta::assert_snapshot!(file_error(&MINE.replace("\"a guess\"", "\"\"")), @r#"expected where the numbers come from, found an empty text @ """#);
    insta::assert_snapshot!(file_error(&MINE.replace("a100-40", "a100-41")), @r#"unknown device `a100-41`; did you mean `a100-40`? @ "a100-41""#);
    insta::assert_snapshot!(file_error(&MINE.replace("per_node = 4", "per_node = four")), @"invalid boolean, expected `false` @ four");
    insta::assert_snapshot!(file_error("name = \"x\"\nper_node = 1\n[accelerator]\nname = \"x\"\nhbm = 1"), @"unknown field `hbm`, expected one of `name`, `aliases`, `base`, `description`, `peak_flops_per_sec`, `vector_flops_per_sec`, `matmul_efficiency`, `n_cores`, `tile_efficiency`, `f8_efficiency`, `attention_efficiency`, `portable_attention_efficiency`, `vector_efficiency`, `sustained`, `f8_sustained`, `f4_sustained`, `released`, `tile_secs`, `attention_tile_secs`, `l2_bytes_per_sec`, `hbm_bytes`, `usable`, `outside_bytes`, `hbm_bytes_per_sec`, `hbm_efficiency`, `launch_secs`, `collective_launch_secs`, `template`, `source`, `sources`, `node` @ hbm");
}

#[test]
fn a_device_takes_from_its_base_what_it_does_not_say() {
    let (without, levels) = MINE.split_once("accelerator = \"a100-40\"\n").unwrap();
    let (counts, levels) = levels.split_once("[[levels]]").unwrap();
    let own = "[accelerator]\nbase = \"a100\"\nname = \"mine\"\nsustained = 0.8\n";
    let cited = "[accelerator.sources]\nsustained = \"my log\"\n";
    let text = format!("{without}{counts}{own}{cited}[[levels]]{levels}");
    let device = Cluster::from_toml(&text).unwrap().accelerator;
    let base = Accelerator::named("a100-80").unwrap();
    assert_eq!((device.name.as_str(), device.sustained, device.aliases.len()), ("mine", 0.8, 0));
    assert_eq!(device.hbm_bytes_per_sec, base.hbm_bytes_per_sec);
    assert_eq!(
        [device.source_of("sustained"), device.source_of("n_cores")],
        ["my log", base.source_of("n_cores")]
    );
    insta::assert_snapshot!(file_error(&text.replace("\"a100\"", "\"a101\"")), @r#"unknown device `a101` @ "a101""#);
    insta::assert_snapshot!(file_error(&text.replace("sustained = 0.8", "sustaind = 0.8")), @"unknown field `sustaind`, expected one of `name`, `aliases`, `base`, `description`, `peak_flops_per_sec`, `vector_flops_per_sec`, `matmul_efficiency`, `n_cores`, `tile_efficiency`, `f8_efficiency`, `attention_efficiency`, `portable_attention_efficiency`, `vector_efficiency`, `sustained`, `f8_sustained`, `f4_sustained`, `released`, `tile_secs`, `attention_tile_secs`, `l2_bytes_per_sec`, `hbm_bytes`, `usable`, `outside_bytes`, `hbm_bytes_per_sec`, `hbm_efficiency`, `launch_secs`, `collective_launch_secs`, `template`, `source`, `sources`, `node` @ sustaind");
    insta::assert_snapshot!(file_error(&text.replace("sustained = 0.8", "hbm_bytes = -5")), @"expected a positive finite number, found `-5` @ -5");
}

#[test]
fn all_keys_that_a_file_lacks_are_named_at_once() {
    insta::assert_snapshot!(file_error("nodes = 2\n[accelerator]\nname = \"x\""), @"missing fields: `name`, `per_node`; of `[accelerator]` `description`, `peak_flops_per_sec`, `matmul_efficiency`, `hbm_bytes`, `usable`, `hbm_bytes_per_sec`, `hbm_efficiency`, `launch_secs`, `collective_launch_secs`, `source` @ [accelerator]");
}

#[test]
fn what_was_measured_of_software_is_read() {
    let cluster = Cluster::from_toml(&format!("{MINE}[software]\nissue = 0.5\nexposed = 0.25\n")).unwrap();
    assert_eq!(cluster.software, SoftwareFactors { issue: 0.5, exposed: 0.25, ..SoftwareFactors::default() });
    insta::assert_snapshot!(file_error(&format!("{MINE}[software]\nexposed = 1.5\n")), @"expected a part from 0 to 1, found `1.5` @ 1.5");
}

#[test]
fn a_part_fills_whole_nodes_first() {
    let cluster = Cluster::named("a100-8x4").unwrap();
    let part = |n_devices| {
        let part = cluster.submesh(n_devices);
        (part.n_devices(), part.per_node(), part.n_nodes())
    };
    assert_eq!(part(4), (4, 4, 1));
    assert_eq!(part(12), (12, 8, 2));
    assert_eq!(part(16), (16, 8, 2));
    assert_eq!(part(99), (32, 8, 4));
    assert_eq!(part(0), (1, 1, 1));
}

#[test]
fn a_part_says_how_much_it_is() {
    assert_eq!(Cluster::named("a100-8x4").unwrap().submesh(12).name, "a100-8x4[12]");
}

#[test]
fn a_file_without_nodes_is_one_and_without_levels_has_its_device_s() {
    let cluster = Cluster::from_toml(&MINE.replace("nodes = 2\n", "")).unwrap();
    assert_eq!((cluster.n_devices(), cluster.n_nodes()), (4, 1));
    let (without, _) = MINE.split_once("[[levels]]").unwrap();
    let cluster = Cluster::from_toml(without).unwrap();
    assert_eq!(
        cluster.levels()[0].bytes_per_sec,
        cluster.accelerator.node.as_ref().unwrap().levels[0].bytes_per_sec
    );
}

/// The file with a level of racks of so many devices between node and all.
fn with_racks(devices: usize, nodes: usize) -> String {
    let rack = format!(
        "[[levels]]\nname = \"rack\"\nbytes_per_sec = 2e9\nlatency_secs = 1e-5\ndevices = {devices}\nsource = \"a guess\"\n"
    );
    let at = MINE.rfind("[[levels]]").unwrap();
    format!("{}{rack}{}", &MINE[..at], &MINE[at..]).replace("nodes = 2", &format!("nodes = {nodes}"))
}

#[test]
fn levels_nest() {
    let devices = |text: &str| {
        Cluster::from_toml(text).unwrap().levels().iter().map(|level| level.devices).collect::<Vec<_>>()
    };
    assert_eq!(devices(&with_racks(8, 4)), [4, 8, 16]);
    assert_eq!(devices(&with_racks(64, 4)), [4, 16, 16]);
    insta::assert_snapshot!(file_error(&with_racks(6, 4)), @"the devices of a level must be a multiple of those of the level inside it, found `6` in `rack` over `4` in `PCIe` @ ");
    insta::assert_snapshot!(file_error(&with_racks(2, 4)), @"the devices of a level must be a multiple of those of the level inside it, found `2` in `rack` over `4` in `PCIe` @ ");
    insta::assert_snapshot!(file_error(&with_racks(8, 3)), @"the devices of a level must be a multiple of those of the level inside it, found `12` in `Ethernet` over `8` in `rack` @ ");
}

#[test]
fn several_nodes_need_a_network_between_them() {
    let (one, _) = MINE.rsplit_once("[[levels]]").unwrap();
    insta::assert_snapshot!(file_error(one), @"a cluster of several nodes needs at least two `[[levels]]`, found one @ ");
    assert_eq!(Cluster::from_toml(&one.replace("nodes = 2", "nodes = 1")).unwrap().n_devices(), 4);
}

#[test]
fn bandwidths_of_the_ends_can_be_replaced() {
    let usual = Cluster::named("v100-8x4").unwrap();
    let outer = usual.clone().with_outer_bytes_per_sec(1e9);
    assert_eq!((outer.levels()[1].bytes_per_sec, &outer.levels()[0]), (1e9, &usual.levels()[0]));
    let inner = usual.clone().with_inner_bytes_per_sec(1e9);
    assert_eq!(inner.levels()[0].reached_bytes_per_sec(2.0, 8.0), 1e9);
    assert_eq!(
        (inner.levels()[0].latency_secs, &inner.levels()[1]),
        (usual.levels()[0].latency_secs, &usual.levels()[1])
    );
}

#[test]
fn an_accelerator_is_a_name_or_a_table() {
    insta::assert_snapshot!(file_error(&MINE.replace("\"a100-40\"", "40")), @"invalid type: integer `40`, expected the name of an accelerator or a table that describes one @ 40");
}
