//! What a plan expects of slow devices: said in the plan's note, by which the report has it.

use phzc_cost::Straggler;
use phzc_ir::{Diagnostic, Module, Result, Span};
use phzc_pass::pass::{OptionInfo, OptionKind, Options};
use phzc_plan::plan_note;

pub const OPTION: OptionInfo = OptionInfo {
    name: "straggler",
    kind: OptionKind::Checked("a slowdown and a probability, such as 1.2x@5%", |text| {
        straggler(text).map(drop)
    }),
    default: "none",
    help: "plans for the least expected time where each device is so many times as slow with such a probability",
};

/// `1.2x@5%`, or `none`.
///
/// # Errors
/// When it is neither.
pub fn straggler(text: &str) -> Result<Option<Straggler>> {
    let read = (text != "none").then(|| text.parse()).transpose();
    read.map_err(|error: String| Diagnostic::error(error).at(Span::new(0, text.len().max(1))))
}

/// Notes of a text what is noted of the one that it is a plan of.
pub fn hand_on(from: &Module, to: &mut Module) {
    if let Some(said) = plan_note::read(from).get(plan_note::STRAGGLER) {
        plan_note::set(to, &[(plan_note::STRAGGLER, said.clone())]);
    }
}

/// Notes what is asked for; whether that is anything.
pub fn note(module: &mut Module, options: &Options) -> Result<bool> {
    let Some(it) = straggler(options.text(OPTION.name))? else { return Ok(false) };
    plan_note::set(module, &[(plan_note::STRAGGLER, it.to_string().into())]);
    Ok(true)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{passed, pipeline};
    use phzc_cost::Cluster;
    use phzc_pass::pass::Context;
    use phzc_plan::report::{self, Plan};

    fn cluster() -> Cluster {
        Cluster::named("a100-8").expect("a cluster")
    }

    fn placed(place: &str) -> Module {
        let text = include_str!("../../../../examples/mlp.ir");
        passed(text, &format!("fuse,shard,place{{{place}}}"), &cluster()).expect("a plan")
    }

    fn reported(module: &Module) -> Plan {
        report::plan(module, &cluster()).expect("a placed module")
    }

    #[test]
    fn every_form_of_a_plan_has_the_note_and_the_planner_compares_what_is_expected() {
        let zero_bubble = "stages=2,microbatches=4,schedule=zero-bubble,";
        for form in ["", "stages=2,", zero_bubble, "stages=2,microbatches=4,schedule=interleaved,"] {
            let plan = reported(&placed(&format!("{form}straggler=1.5x@1%")));
            let it = plan.straggling.as_ref().expect(form);
            assert!(it.even_secs < plan.time_secs, "{form}");
            assert!((plan.planned_secs.expect("noted") / plan.time_secs - 1.0).abs() < 1e-6, "{form}");
        }
    }

    #[test]
    fn the_plan_for_slow_devices_is_expected_to_be_no_slower_than_that_for_even_ones() {
        for straggler in ["1.2x@5%", "3x@0.5%", "2x@50%"] {
            let (own, mut other) = (placed(&format!("straggler={straggler}")), placed(""));
            plan_note::set(&mut other, &[(plan_note::STRAGGLER, straggler.into())]);
            assert!(reported(&own).time_secs <= reported(&other).time_secs, "{straggler}");
        }
    }

    #[test]
    fn a_plan_is_priced_for_slow_devices_as_it_stands() {
        let mut module = placed("");
        let even = reported(&module);
        let (cluster, pipeline) = (cluster(), pipeline("place{straggler=1.2x@5%}").expect("legal"));
        pipeline.steps[0].run(&mut module, &mut Context::new(&cluster)).expect("it is placed");
        assert_eq!(reported(&module).straggling.expect("noted").even_secs, even.time_secs);
    }
}
