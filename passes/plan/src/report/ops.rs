//! What each instruction of the entry takes in each part of the step, loops as one instruction.

use super::price::StagePrice;
use crate::derive::{Facts, planned_comps, put_off_of_plan, with_callees};
use phzc_cost::Cluster;
use phzc_cost::schedule::Part;
use phzc_ir::{InstrId, Module};

/// An instruction of the entry that takes time.
pub struct Op {
    pub id: InstrId,
    pub name: String,
    pub stage: usize,
    /// Seconds in the forward part of one microbatch.
    pub forward_secs: f64,
    /// Seconds in its backward part.
    pub backward_secs: f64,
    /// Seconds in the update.
    pub update_secs: f64,
    /// Whether its backward part can be put off.
    pub is_put_off: bool,
}

impl Op {
    /// Seconds in a task, of a schedule that puts weight gradients off or does not.
    pub fn secs(&self, part: Part, defers: bool) -> f64 {
        match part {
            Part::Forward => self.forward_secs,
            Part::Backward if defers && self.is_put_off => 0.0,
            Part::WeightGradient if !self.is_put_off => 0.0,
            Part::Backward | Part::WeightGradient => self.backward_secs,
        }
    }
}

/// The instructions of the entry that take time, in program order.
pub fn ops(module: &Module, facts: &Facts, cluster: &Cluster) -> Vec<Op> {
    let entry = module.entry;
    let put_off = put_off_of_plan(module, facts);
    // Instructions of loops belong to the entry's instruction that runs them, counted from 1.
    let caller = with_callees(module, (1..=module.entry().instrs.len()).collect());
    let mut prices = vec![StagePrice::default(); module.entry().instrs.len()];
    for comp in planned_comps(module) {
        for (id, instr) in module.comp(comp).iter() {
            if let Some(caller) = caller[comp.index()][id.index()].checked_sub(1) {
                prices[caller].instr(module, facts, cluster, (comp, id, instr));
            }
        }
    }
    let op = |(index, price): (usize, StagePrice)| {
        let is_timed = price.forward_secs + price.backward_secs + price.update_secs > 0.0;
        is_timed.then(|| Op {
            id: InstrId::new(index),
            name: module.entry().instrs[index].name.to_string(),
            stage: facts.comps[entry.index()][index].stage,
            forward_secs: price.forward_secs,
            backward_secs: price.backward_secs,
            update_secs: price.update_secs,
            is_put_off: put_off[index],
        })
    };
    prices.into_iter().enumerate().filter_map(op).collect()
}
