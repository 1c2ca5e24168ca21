//! A cut that is given in layers: so many in each stage, as training stacks ask for it.
//!
//! The program is laid out on the devices of one stage; of the places between the products of two layers, the
//! boundary is where least crosses. What is before the first layer is in the first stage, what is after the
//! last in the last.

use super::chain::{Crossing, crossings};
use super::recompute::{attention_core, everything};
use super::{materialize_plan, position::positions};
use crate::recomputation::{Marks, rewrite};
use phzc_cost::Schedule;
use phzc_ir::{Diagnostic, InstrId, Module, Result, counted};
use phzc_plan::derive::{Facts, Phase, derive, is_added, with_callees};
use phzc_plan::{plan_note, report};

/// Cuts a program that is planned as one stage: `layers[s]` layers to stage `s`, on equal meshes.
///
/// # Errors
/// When the program has other layers, or none that can be cut; the remedy is in the message.
pub fn cut_at_layers(
    module: &mut Module,
    layers: &[usize],
    n_microbatches: usize,
    schedule: Schedule,
) -> Result<()> {
    let facts = derive(module)?;
    let starts = starts(module, &facts, layers)?;
    let at = positions(module, &facts);
    let entry = at.iter().map(|at| starts.partition_point(|start| start <= at)).collect();
    materialize_plan::write(module, &with_callees(module, entry), layers.len(), n_microbatches);
    if layers.len() > 1 {
        plan_note::set(module, &[("schedule", schedule.to_string().into())]);
        // The planner has claimed these of the program as one stage.
        plan_note::CLAIMS.iter().for_each(|claim| plan_note::remove(module, claim));
    }
    Ok(())
}

/// Has the backward part of each layer compute its forward part again, all but what layers hand on, as
/// training stacks do. What comes after the layers is saved.
///
/// # Errors
/// When the program has no layers that can be told apart; the remedy is in the message.
pub fn recompute_layers(module: &mut Module) -> Result<()> {
    recompute(module, |_, marks| marks)?;
    plan_note::set(module, &[("recompute", "all".into())]);
    Ok(())
}

/// Has the backward part of each layer compute its attention again, from the product of queries and keys to
/// the weights of the values: what training stacks call selective recomputation.
///
/// # Errors
/// As [`recompute_layers`].
pub fn recompute_attention(module: &mut Module) -> Result<()> {
    recompute(module, |attention, mut marks| {
        marks.is_again.iter_mut().zip(attention).for_each(|(is_again, is_core)| *is_again &= is_core);
        marks
    })
}

/// Has layers compute again what is left of the marks, given which instructions are attention's.
fn recompute(module: &mut Module, left: impl FnOnce(Vec<bool>, Marks) -> Marks) -> Result<()> {
    let facts = derive(module)?;
    let n_layers = report::layer_products(module, &facts).map_or(0, |layers| layers.len());
    let mut runs = vec![1; n_layers];
    runs.push(0);
    let starts = starts(module, &facts, &runs)?;
    let at = positions(module, &facts);
    let run_of: Vec<usize> = at.iter().map(|at| starts.partition_point(|start| start <= at)).collect();
    let mut marks = everything(module, &facts, &run_of);
    marks.is_again.iter_mut().zip(&run_of).for_each(|(is_again, run)| *is_again &= *run < n_layers);
    let marks = left(attention_core(module, &facts), marks);
    rewrite(module, &marks);
    Ok(())
}

/// The first position of each stage but the first.
fn starts(module: &Module, facts: &Facts, layers: &[usize]) -> Result<Vec<usize>> {
    let Some(found) = report::layer_products(module, facts) else {
        let error =
            Diagnostic::error("the program has no layers that are alike, so it cannot be cut between them");
        return Err(
            error.help("layers in a loop (`lax.scan`) are cut once they are unrolled: `--passes unroll`")
        );
    };
    let wanted = layers.iter().sum::<usize>();
    if wanted != found.len() {
        let (there, wanted) = (counted(found.len(), "layer"), counted(wanted, "layer"));
        return Err(Diagnostic::error(format!("the program has {there}, the stages hold {wanted}")));
    }
    let at = positions(module, facts);
    let crossing = crossings(module, facts, &at, at.len());
    let (mut first, mut starts) = (0, Vec::new());
    for n in &layers[..layers.len() - 1] {
        first += n;
        let before = first.checked_sub(1).and_then(|layer| found[layer].last().copied());
        let Some(before) = before.or_else(|| embedding(module, facts, found.first()?.first().copied()?))
        else {
            let error = Diagnostic::error("the first stage holds no layer, and there is no embedding");
            return Err(error.help("give it a layer"));
        };
        let after = found.get(first).and_then(|layer| layer.first().copied());
        let after = after.or_else(|| next_product(module, facts, before));
        starts.push(least(&crossing, before.index(), after.map_or(at.len() - 1, |id| id.index())));
    }
    match starts.windows(2).all(|pair| pair[0] < pair[1]) {
        true => Ok(starts),
        false => {
            Err(Diagnostic::error("two stages hold no layer").help("one stage after the layers is possible"))
        }
    }
}

/// The last look-up or product of the forward part before the layers: a stage without layers ends behind it.
fn embedding(module: &Module, facts: &Facts, layers: InstrId) -> Option<InstrId> {
    let is_before = |(id, instr): &(InstrId, &phzc_ir::Instr)| {
        let own = &facts.comps[module.entry.index()][id.index()];
        let is_product = instr.op.def().fusion == phzc_ir::FusionKind::Matrix;
        let is_one = is_product || instr.op.def().touch == phzc_ir::Touch::Part;
        id.index() < layers.index() && is_one && own.phase == Phase::Forward
    };
    module.entry().iter().rfind(is_before).map(|(id, _)| id)
}

/// The first forward product after one.
fn next_product(module: &Module, facts: &Facts, before: InstrId) -> Option<InstrId> {
    let is_next = |(id, instr): &(InstrId, &phzc_ir::Instr)| {
        let own = &facts.comps[module.entry.index()][id.index()];
        let is_product = instr.op.def().fusion == phzc_ir::FusionKind::Matrix;
        id.index() > before.index() && is_product && own.phase == Phase::Forward && !is_added(instr)
    };
    module.entry().iter().find(is_next).map(|(id, _)| id)
}

/// The position after `before`, up to `last`, at whose boundary least crosses; the first of equals.
fn least(crossing: &[Crossing], before: usize, last: usize) -> usize {
    (before + 1..=last).min_by(|a, b| crossing[*a].both().total_cmp(&crossing[*b].both())).unwrap_or(last)
}
