//! Plans for one kind of devices alone, and what is noted of the best plan.

use super::super::search_control::End;
use super::{Known, Said};
use crate::place::{self, Worth, materialize_plan};
use crate::shard;
use crate::shard::control::asked_again;
use phzc_ir::{Module, Result, notes};
use phzc_pass::pass::{Context, Options};
use phzc_plan::derive::derive;
use phzc_plan::{plan_note, report};

/// Plans a program for equal devices as `shard` was asked to plan another text of it.
pub(super) fn plan_on(
    program: &mut Module,
    options: &Options,
    (asked, worth): (&Module, Worth),
    cx: &mut Context,
) -> Result<()> {
    [notes::MESH, notes::PLAN, notes::CLUSTER].into_iter().for_each(|key| program.remove_note(key));
    (shard::PASS.run)(program, &asked_again(asked), cx)?;
    place::run_for(program, options, cx, worth)?;
    Ok(())
}

/// The search over plans on one kind alone.
pub(super) struct Alone<'a> {
    /// The program in `shard`'s layouts for the first kind.
    pub module: &'a Module,
    /// The same without layouts.
    pub program: &'a Module,
    /// What is asked of `place`.
    pub options: &'a Options,
    /// The first device of each kind.
    pub first_devices: Vec<usize>,
}

impl Alone<'_> {
    /// The best plan on a kind, which is the cluster of `cx`, if it is of use.
    ///
    /// # Errors
    /// Why there is none.
    pub fn planned(&self, kind: usize, worth: Worth, cx: &mut Context) -> Result<Known> {
        let mut text;
        if kind > 0 {
            text = self.program.clone();
            plan_on(&mut text, self.options, (self.module, worth), cx)?;
        } else {
            text = self.module.clone();
            place::run_for(&mut text, self.options, cx, worth)?;
        }
        let facts = derive(&text)?;
        let time_secs = report::figures_of(&text, &facts, cx.cluster).time_secs;
        let first = self.first_devices[kind];
        let firsts: Vec<usize> = facts.header.firsts.iter().map(|it| it + first).collect();
        materialize_plan::put_on(&mut text, &firsts);
        let said = Said {
            alternatives: std::mem::take(&mut cx.alternatives),
            stage_counts: std::mem::take(&mut cx.stage_counts),
        };
        Ok(Known { text, time_secs, end: None, said })
    }
}

impl Known {
    /// The text, with what no plan on the cluster takes less than and what was asked for.
    pub fn noted(self, bound_secs: f64, recompute: &str) -> Module {
        let Known { mut text, time_secs, end, .. } = self;
        if recompute != "auto" {
            plan_note::set(&mut text, &[("recompute", recompute.into())]);
        }
        let bound_secs = bound_secs.min(time_secs);
        let figures = [
            ("planned_secs", time_secs.into()),
            ("lower_bound_secs", bound_secs.into()),
            ("gap", ((time_secs - bound_secs) / time_secs).into()),
            ("stop", end.map_or("stages-open", End::as_str).into()),
            ("fits", true.into()),
        ];
        plan_note::set(&mut text, &figures);
        text
    }
}
