//! Programs that a partitioner has partitioned already: what shows it, their devices and their collectives.

use super::*;
use crate::partitioned::partitioned;

/// The collectives of a program of matrices of 1024 bytes on one device.
fn of(header: &str, lines: &str) -> String {
    facts(
        header,
        &format!(
            "sum {{ a = f32[] parameter(0) b = f32[] parameter(1) ROOT c = f32[] add(a, b) }}
            gather {{ p = f32[4,16] parameter(0) ROOT g = f32[16,16] all-gather(p), dimensions={{0}}, {FLAT}, replica_groups=[2,4]<=[8] }}
            ENTRY e {{ x = f32[16,16] parameter(0)\n s = f32[4,16] parameter(1)\n{lines} }}"
        ),
    )
}

const FLAT: &str = "channel_id=1, use_global_device_ids=true";

fn reduce(groups: &str) -> String {
    format!("y = f32[16,16] all-reduce(x), to_apply=sum, {FLAT}, replica_groups={groups}")
}

#[test]
fn groups_are_read_in_every_form() {
    for (groups, axes) in [
        ("{{0,4},{1,5},{2,6},{3,7}}", "x"),
        ("[4,2]<=[2,4]T(1,0)", "x"),
        ("mesh['data'=2,'model'=4] {'data'}", "x"),
        ("[2,4]<=[8]", "y"),
        ("{}", "xy"),
    ] {
        // The gather makes the second axis.
        let gather =
            format!("g = f32[16,16] all-gather(s), dimensions={{0}}, {FLAT}, replica_groups=[2,4]<=[8]");
        let found = of("num_partitions=8", &format!("{gather}\n{}", reduce(groups)));
        let expected = format!(
            "g: all-gather over y, 1024 bytes, 1 times\ny: all-reduce over {axes}, 1024 bytes, 1 times"
        );
        assert_eq!(found, expected, "{groups}");
    }
}

#[test]
fn all_operands_of_a_collective_are_sent_and_starts_send_what_they_begin() {
    let list = [
        format!("t = (f32[16,16], f32[4,16]) all-reduce(x, s), to_apply=sum, {FLAT}, replica_groups=[1,8]<=[8]"),
        format!("a = (f32[4,16], f32[32,16]) all-gather-start(s), dimensions={{0}}, {FLAT}, replica_groups=[1,8]<=[8]"),
        "b = ((f32[4,16]), f32[16,16]) async-start(s), calls=gather".to_owned(),
        "c = (f32[16,16], f32[16,16]) collective-permute-start(x), channel_id=4, source_target_pairs={{0,1},{1,0}}"
            .to_owned(),
    ];
    assert_snapshot!(of("num_partitions=8", &list.join("\n")), @r"
    t: all-reduce over xy, 1280 bytes, 1 times
    a: all-gather over xy, 2048 bytes, 1 times
    b: all-gather over y, 1024 bytes, 1 times
    c: collective-permute over y, 1024 bytes, 1 times
    ");
}

/// How many devices a program is partitioned for, if it is.
fn n_devices(header: &str, lines: &str) -> Option<usize> {
    let text = format!(
        "HloModule m{header}\nsum {{ a = f32[] parameter(0) b = f32[] parameter(1) ROOT c = f32[] add(a, b) }}
        ENTRY e {{ {lines} }}"
    );
    let module = parse(&text).unwrap_or_else(|error| panic!("{error}"));
    partitioned(&module).map(|it| it.devices.n_devices())
}

#[test]
fn devices_are_those_of_the_header_the_groups_and_the_parameters() {
    let x = "x = f32[16,16] parameter(0)";
    assert_eq!(n_devices("", &format!("{x} {}", reduce("[2,4]<=[8]"))), Some(8));
    assert_eq!(n_devices(", num_partitions=16", &format!("{x} {}", reduce("[2,4]<=[8]"))), Some(16));
    assert_eq!(n_devices(", num_partitions=4, replica_count=2", &format!("{x} {}", reduce("{}"))), Some(8));
    let sharded = "x = f32[16,16] parameter(0), sharding={devices=[4,1]<=[4]}";
    assert_eq!(n_devices("", &format!("{sharded} {}", reduce("{{0,1}}"))), Some(4));
    assert_eq!(n_devices(", num_partitions=4", "ROOT p = u32[] partition-id()"), Some(4));
    let alone = "y = f32[16,16] all-reduce(x), to_apply=sum, replica_groups={{0,1,2}}";
    assert_eq!(n_devices("", &format!("{x} {alone}")), Some(3));
}

#[test]
fn manual_parameters_are_one_device_s_even_where_devices_never_talk() {
    let manual = "x = f32[16,16] parameter(0), sharding={manual} y = f32[16,16] tanh(x)";
    assert_eq!(n_devices(", num_partitions=4", manual), Some(4));
    assert_eq!(n_devices("", manual), None);
}

#[test]
fn global_programs_are_not_partitioned() {
    let x = "x = f32[16,16] parameter(0), sharding={devices=[8,1]<=[8]}";
    assert_eq!(n_devices(", num_partitions=8", &format!("{x} y = f32[16,16] tanh(x)")), None);
    // A region that is manual, of a program that is not.
    let border =
        "m = f32[2,16] custom-call(x), custom_call_target=\"SPMDFullToShardShape\", sharding={manual}";
    let inside = format!("r = f32[2,16] all-reduce(m), to_apply=sum, {FLAT}, replica_groups=[1,8]<=[8]");
    assert_eq!(n_devices(", num_partitions=8", &format!("{x} {border} {inside}")), None);
    // Devices that are alone in their groups do not talk.
    assert_eq!(
        n_devices(", num_partitions=2", &format!("{x} {}", reduce("{{0},{1}}")).replace('8', "2")),
        None
    );
    let inner =
        format!("{x} t = f32[16,16] tanh(x), sharding={{devices=[8,1]<=[8]}} {}", reduce("[1,8]<=[8]"));
    assert_eq!(n_devices(", num_partitions=8", &format!("{inner} ROOT z = f32[16,16] negate(y)")), None);
}

#[test]
fn layouts_of_global_parameters_say_nothing_of_local_shapes() {
    let text = format!(
        "HloModule m, num_partitions=8
        sum {{ a = f32[] parameter(0) b = f32[] parameter(1) ROOT c = f32[] add(a, b) }}
        ENTRY e {{ x = f32[16,16] parameter(0), sharding={{devices=[8,1]<=[8]}}\n ROOT {} }}",
        reduce("[1,8]<=[8]")
    );
    let module = parse(&text).expect("legal");
    let facts = derive(&module).expect("a legal header");
    let param = &facts.comps[module.entry.index()][0];
    assert_eq!((param.bytes[0], param.leaves[0].layout.is_replicated()), (1024.0, true));
    assert!(facts.problems.is_empty(), "{:?}", facts.problems);
}
