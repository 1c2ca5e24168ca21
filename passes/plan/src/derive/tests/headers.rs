//! What the header's notes say, and what is wrong with them.

use super::*;
use phzc_cost::Schedule;
use phzc_ir::Mesh;

fn read(attrs: &str) -> std::result::Result<Header, String> {
    let text = format!("HloModule m{attrs}\nENTRY e {{ ROOT a = f32[] parameter(0) }}");
    header(&parse(&text).expect("legal")).map_err(|error| error.message)
}

fn noted(stages: &str, plan: &str) -> std::result::Result<Header, String> {
    let plan = plan.replace('"', "\\\"");
    read(&format!(", frontend_attributes={{phzc.stages=\"{stages}\",phzc.plan=\"{plan}\"}}"))
}

#[test]
fn a_mesh_is_the_one_noted_or_all_partitions() {
    let meshes = |attrs: &str| read(attrs).expect("legal").meshes;
    assert_eq!(meshes(""), [Mesh::default()]);
    assert_eq!(meshes(", num_partitions=6"), [Mesh::new(&[6])]);
    assert_eq!(
        meshes(", num_partitions=6, frontend_attributes={phzc.mesh=\"x=2,y=3\"}"),
        [Mesh::new(&[2, 3])]
    );
    assert_eq!(noted("0:x=4;1:x=2,y=2", "{}").expect("legal").meshes, [Mesh::new(&[4]), Mesh::new(&[2, 2])]);
    for wrong in ["0", "-2", "two"] {
        let error = read(&format!(", num_partitions={wrong}"));
        assert_eq!(error.err().as_deref(), Some("`num_partitions` must be a positive integer"));
    }
}

#[test]
fn figures_microbatches_and_schedule_are_the_plan_s() {
    let none = read("").expect("legal");
    assert_eq!((none.n_microbatches, none.schedule, none.is_local), (1, Schedule::OneFOneB, false));
    let own =
        noted("0:", r#"{"n_microbatches":4,"schedule":"gpipe","gap":0.5,"stop":"time"}"#).expect("legal");
    assert_eq!((own.n_microbatches, own.schedule), (4, Schedule::GPipe));
    assert_eq!((own.figure("gap"), own.figure("stop"), own.figure("cost")), (Some(0.5), None, None));
    let local = read(
        ", frontend_attributes={phzc.spmd=\"x=2\",phzc.mesh=\"x=2\",phzc.plan=\"{\\\"n_microbatches\\\":4}\"}",
    );
    let local = local.expect("legal");
    assert_eq!((local.is_local, local.n_microbatches), (true, 1));
    let planned = |attrs: &str| {
        is_planned(
            &parse(&format!("HloModule m{attrs}\nENTRY e {{ ROOT a = f32[] parameter(0) }}")).expect("legal"),
        )
    };
    assert_eq!([planned(""), planned(", frontend_attributes={phzc.plan=\"{}\"}")], [false, true]);
}

#[test]
fn stages_have_devices_one_after_the_other_or_share_them() {
    let apart = noted("0:x=4;1:;2:x=2", "{}").expect("legal");
    assert_eq!([0, 1, 2].map(|stage| apart.devices(stage)), [[0, 3], [4, 4], [5, 6]]);
    assert_eq!((apart.n_devices(), apart.n_groups(), apart.interleaving()), (7, 3, None));
    let shared =
        noted("0:x=4;1:;2:x=2,y=2;3:", r#"{"n_microbatches":4,"schedule":"interleaved:2"}"#).expect("legal");
    assert_eq!([0, 1, 2, 3].map(|stage| shared.devices(stage)), [[0, 3], [4, 4], [0, 3], [4, 4]]);
    assert_eq!([0, 1, 2, 3].map(|stage| shared.group(stage)), [0, 1, 0, 1]);
    assert_eq!(shared.stages_of(1).collect::<Vec<_>>(), [1, 3]);
    assert_eq!((shared.n_devices(), shared.n_groups()), (5, 2));
    let interleaving = shared.interleaving().expect("groups hold two stages");
    assert_eq!((interleaving.n_stages, interleaving.n_groups, interleaving.n_microbatches), (4, 2, 4));
}

#[test]
fn what_cannot_be_read_is_named_with_its_note() {
    let error = |stages: &str, plan: &str| noted(stages, plan).expect_err("it cannot be read");
    let cannot = |note: &str, what: &str| format!("the header's note `{note}` cannot be read: {what}");
    assert_eq!(error("0", "{}"), cannot("phzc.stages", "a stage is `0:x=4`"));
    assert_eq!(error("1:x=2", "{}"), cannot("phzc.stages", "stages are numbered 0, 1, … in order"));
    assert_eq!(error("0:;0:", "{}"), cannot("phzc.stages", "stages are numbered 0, 1, … in order"));
    assert_eq!(error(";", "{}"), cannot("phzc.stages", "there is no stage"));
    assert!(error("0:", "{").starts_with("the header's note `phzc.plan` cannot be read: EOF"));
    for wrong in ["0", "-1", "2.5", "\"4\""] {
        let what = format!("expected 1 to 1048576 microbatches, found `{wrong}`");
        let plan = format!("{{\"n_microbatches\":{wrong}}}");
        assert_eq!(error("0:", &plan), cannot("phzc.plan", &what));
    }
    assert_eq!(error("0:", "3"), cannot("phzc.plan", "it is no object"));
    let wrong = "expected the name of a schedule, found `3`";
    assert_eq!(error("0:", r#"{"schedule":3}"#), cannot("phzc.plan", wrong));
    assert!(error("0:", r#"{"schedule":"late"}"#).starts_with(&cannot("phzc.plan", "")));
    assert_eq!(error("0:x=1048576,y=2", "{}"), "the plan's mesh has more than 1048576 devices");
    assert!(noted("0:x=1048576", "{}").is_ok());
    assert_eq!(
        error("0:x=1048576,y=1048576,z=1048576,w=1048576", "{}"),
        "the plan's mesh has more than 1048576 devices"
    );
}

#[test]
fn groups_that_do_not_share_evenly_are_refused() {
    let error = |stages: &str| noted(stages, r#"{"schedule":"interleaved:2"}"#).expect_err("it is uneven");
    let odd = "the schedule `interleaved:2` needs 2 stages per device group, the plan has 3 stages";
    assert_eq!(error("0:;1:;2:"), odd);
    let unlike = "stages 1 and 3 share devices by the schedule `interleaved:2`, but the one has 2 devices, the other 4";
    assert_eq!(error("0:;1:x=2;2:;3:x=4"), unlike);
}

#[test]
fn a_phase_is_forward_unless_it_is_noted() {
    let all = [None, Some("fwd"), Some("bwd"), Some("upd"), Some("late")].map(Phase::parse);
    use Phase::{Backward, Forward, Update};
    assert_eq!(all, [Forward, Forward, Backward, Update, Forward]);
}
