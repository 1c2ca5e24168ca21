//! A state of a KiB that moves from one plan to another.

use super::{Moving, Side, moving, slots};
use crate::derive::derive;
use phzc_cost::Cluster;
use phzc_ir::parse;

/// A state of a KiB, so laid out on a mesh, and what the plan's stages say if there are several.
fn plan(mesh: &str, sharding: &str, stages: &str) -> String {
    let stages = if stages.is_empty() { String::new() } else { format!(",phzc.stages=\"{stages}\"") };
    format!(
        r#"HloModule m, input_output_alias={{ {{}}: (0, {{}}, may-alias) }}, frontend_attributes={{phzc.mesh="{mesh}",phzc.plan="{{}}"{stages}}}
        ENTRY e {{
            w = f32[16,16] parameter(0){sharding}
            ROOT n = f32[16,16] negate(w){sharding}
        }}"#
    )
}

/// What moves from one plan on a cluster to another, of which the nodes were so many of the first's.
fn moved([before, after]: [&str; 2], cluster: &str, was: &[Option<usize>]) -> Moving {
    let [before, after] = [before, after].map(|text| parse(text).expect("legal"));
    let facts = [&before, &after].map(|module| derive(module).expect("legal"));
    let cluster = Cluster::named(cluster).expect("a name");
    let mut nodes = slots(&cluster);
    nodes.iter_mut().zip(was).for_each(|(slot, was)| slot.was = *was);
    let [old, new] =
        [(&before, &facts[0]), (&after, &facts[1])].map(|(module, facts)| Side { module, facts });
    moving(old, new, &nodes, &cluster)
}

const WHOLE: &str = "";
const ROWS_OF_4: &str = ", sharding={devices=[4,1]<=[4]}";
const ROWS_OF_8: &str = ", sharding={devices=[8,1]<=[8]}";

#[test]
fn what_a_device_held_stays() {
    let same = plan("x=4", ROWS_OF_4, "");
    let same = moved([&same, &same], "a100-4", &[Some(0)]);
    assert_eq!((same.bytes(), same.unheld_bytes, same.time_secs), (0.0, 0.0, 0.0));
    // Of all that it has whole, a device needs a part.
    let split = moved([&plan("x=4", WHOLE, ""), &plan("x=4", ROWS_OF_4, "")], "a100-4", &[Some(0)]);
    assert_eq!((split.bytes(), split.unheld_bytes), (0.0, 0.0));
}

#[test]
fn what_it_lacks_comes_from_its_neighbors() {
    // Each of four has a quarter and needs the rest.
    let whole = moved([&plan("x=4", ROWS_OF_4, ""), &plan("x=4", WHOLE, "")], "a100-4", &[Some(0)]);
    assert_eq!((whole.bytes(), whole.unheld_bytes), (4.0 * 768.0, 0.0));
    let level = &Cluster::named("a100-4").expect("a name").levels()[0].clone();
    assert_eq!(whole.links, [(level.name.clone(), 4.0 * 768.0)]);
    let secs = 768.0 / (level.bytes_per_sec * level.efficiency);
    assert!((whole.time_secs / secs - 1.0).abs() < 1e-9, "{} is not {secs}", whole.time_secs);
}

#[test]
fn what_was_on_a_lost_node_alone_is_read_from_a_checkpoint() {
    // Two nodes of four hold eighths; the first is lost, and the other needs quarters.
    let plans = [plan("x=8", ROWS_OF_8, ""), plan("x=4", ROWS_OF_4, "")];
    let lost = moved([&plans[0], &plans[1]], "a100-4", &[Some(4)]);
    assert_eq!(lost.unheld_bytes, 512.0);
    // The other half is there: of four devices, one keeps an eighth of what it needs.
    assert_eq!(lost.bytes() + 128.0, 512.0);
}

#[test]
fn nodes_take_the_parts_that_they_hold() {
    // Stages on two nodes; the second plan has what was on node 1 on its first.
    let on = |stage: usize| {
        plan(
            "x=4",
            &format!(", sharding={{replicated}}, frontend_attributes={{phzc.stage=\"{stage}\"}}"),
            "0:x=4;1:x=4",
        )
    };
    let swapped = moved([&on(0), &on(1)], "a100-4x2", &[Some(0), Some(4)]);
    assert_eq!((swapped.nodes, swapped.links, swapped.unheld_bytes), (vec![1, 0], Vec::new(), 0.0));
}

#[test]
fn links_of_one_name_are_listed_once() {
    // Of four nodes in two kinds the first holds all: to its neighbor and the other kind it is one network.
    let plans = [plan("x=4", WHOLE, ""), plan("x=16", WHOLE, "")];
    let moved = moved([&plans[0], &plans[1]], "a100-4x2+a100-4x2", &[Some(0)]);
    let network = Cluster::named("a100-4x2").expect("a name").levels()[1].name.clone();
    assert_eq!((moved.links, moved.unheld_bytes), (vec![(network, 12.0 * 1024.0)], 0.0));
}
