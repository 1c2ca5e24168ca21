//! What the header says: aliases, donors, meshes, devices.

use super::untimely;
use insta::assert_snapshot;

/// What `check` says of a plan with these header attributes; both outputs may be written over any of the
/// three arrays.
fn aliased(attrs: &str) -> String {
    let text = "ENTRY e {
        a = f32[4] parameter(0)
        b = (f32[4], f32[8]) parameter(1)
        p = f32[4] get-tuple-element(b), index=0
        x = f32[4] negate(a)
        y = f32[4] negate(p)
        ROOT t = (f32[4], f32[4]) tuple(x, y)
        }";
    untimely(&format!("{attrs}, frontend_attributes={{phzc.plan=\"{{}}\"}}"), text)
}

#[test]
fn aliases_are_as_xla_has_them() {
    let alias = |entries: &str| aliased(&format!("input_output_alias={{ {entries} }}"));
    assert_eq!(alias("{0}: (0, {}, may-alias), {1}: (1, {0}, must-alias)"), "ok");
    assert_eq!(alias("{0}: (0, {})"), "ok");
    assert_snapshot!(alias("{0}: (0, {}, may-alias), {1}: (0, {}, may-alias)"), @"error: output 1 reuses the buffer of `a`, as another output does: leave one of them out of `input_output_alias`");
    assert_snapshot!(alias("{0}: (0, {}, may-alias), {0}: (1, {0}, may-alias)"), @"error: output 0 reuses the buffer of part 0 of `b` and that of another parameter: leave one of them out of `input_output_alias`");
    assert_snapshot!(alias("{2}: (0, {}, may-alias)"), @"error: `input_output_alias` has `{2}: (0, {}, may-alias)`, but the result has no such array");
    assert_snapshot!(alias("{}: (0, {}, may-alias)"), @"error: `input_output_alias` has `{}: (0, {}, may-alias)`, but the result has no such array");
    assert_snapshot!(alias("{0}: (1, {}, may-alias)"), @"error: `input_output_alias` has `{0}: (1, {}, may-alias)`, but there is no such parameter or no such array in it");
    assert!(alias("{0}: (2, {}, may-alias)").contains("there is no such parameter"));
    assert_snapshot!(alias("{0}: (1, {1}, may-alias)"), @"error: output 0 reuses the buffer of part 1 of `b`, which is `f32[8]`, but is `f32[4]`");
}

#[test]
fn aliases_that_cannot_be_read_are_errors() {
    for entry in [
        "{0}: 0",
        "{0} (0, {}, may-alias)",
        "{x}: (0, {}, may-alias)",
        "{0}: (0, {}, alias)",
        "{0}: (-1, {}, may-alias)",
    ] {
        let found = aliased(&format!("input_output_alias={{ {entry} }}"));
        assert!(
            found.contains("is no `{output}: (parameter, {index}, may-alias)`")
                || found.contains("list in braces"),
            "{entry}: {found}"
        );
    }
}

#[test]
fn a_buffer_is_given_away_once() {
    assert_eq!(aliased("buffer_donor={ (0, {}), (1, {1}) }"), "ok");
    assert_snapshot!(aliased("buffer_donor={ (0, {}) }, input_output_alias={ {0}: (0, {}, may-alias) }"), @"error: `buffer_donor` gives away `a`, which is given away already: leave it out");
    assert_snapshot!(aliased("buffer_donor={ (3, {}) }"), @"error: `buffer_donor` has `(3, {})`, but there is no such parameter or no such array in it");
    assert_snapshot!(aliased("buffer_donor={ 3 }"), @"error: `buffer_donor` has `3`, which is no `(parameter, {index})`");
}

#[test]
fn an_output_is_where_the_buffer_is_that_it_reuses() {
    let text = |stage: usize| {
        format!(
            "ENTRY e {{
        w = f32[4] parameter(0), sharding={{replicated}}, frontend_attributes={{phzc.stage=\"0\"}}
        ROOT v = f32[4] negate(w), sharding={{replicated}}, frontend_attributes={{phzc.stage=\"{stage}\"}}
        }}"
        )
    };
    let found = |plan: &str, stage: usize| {
        let notes = format!("phzc.stages=\"0:;1:;2:;3:\",phzc.plan=\"{plan}\"");
        untimely(
            &format!("input_output_alias={{ {{}}: (0, {{}}, may-alias) }}, frontend_attributes={{{notes}}}"),
            &text(stage),
        )
    };
    assert_snapshot!(found("{}", 2), @"error: output 0 reuses the buffer of `w`, which is whole in stage 0, but is whole in stage 2");
    // The stages of a device group have the same devices.
    assert_eq!(found("{\\\"schedule\\\":\\\"interleaved:2\\\"}", 2), "ok");
}

/// What `check` says of one array with this layout.
fn on(header: &str, sharding: &str) -> String {
    untimely(header, &format!("ENTRY e {{ ROOT x = f32[8] parameter(0), sharding={sharding} }}"))
}

#[test]
fn each_device_of_a_mesh_stands_once_in_a_layout() {
    let header = "frontend_attributes={phzc.mesh=\"x=4\",phzc.plan=\"{}\"}";
    assert_eq!(on(header, "{devices=[4]0,1,2,3}"), "ok");
    for devices in ["[4]0,1,1,3", "[4]0,1,2,4", "[2]<=[2]", "[8]<=[8]"] {
        let found = on(header, &format!("{{devices={devices}}}"));
        assert!(found.contains("which is not one of the mesh `x=4`"), "{devices}: {found}");
    }
}

#[test]
fn one_device_has_no_others() {
    let header = "frontend_attributes={phzc.plan=\"{}\"}";
    assert_eq!(on(header, "{replicated}"), "ok");
    assert!(on(header, "{devices=[4]<=[4]}").contains("which is not one of the mesh ``"));
}

#[test]
fn the_header_names_one_mesh() {
    let notes = |attrs: &str, notes: &str| {
        on(&format!("{attrs}frontend_attributes={{{notes},phzc.plan=\"{{}}\"}}"), "{replicated}")
    };
    assert_eq!(notes("num_partitions=4, ", "phzc.mesh=\"x=2\",phzc.stages=\"0:x=2;1:x=4\""), "ok");
    assert_snapshot!(notes("num_partitions=4, ", "phzc.mesh=\"x=2\""), @"error: the header's `num_partitions` is `4`, but by its mesh the plan has `2`; run `shard` and `place` again, or correct the header");
    assert_snapshot!(notes("", "phzc.mesh=\"x=2\",phzc.stages=\"0:x=4;1:x=4\""), @"error: the header's `phzc.mesh` is `x=2`, but by its mesh the plan has `x=4`; run `shard` and `place` again, or correct the header");
}
