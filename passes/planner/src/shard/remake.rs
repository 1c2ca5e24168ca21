//! Values that are made again where they are needed in another layout: what is made of little is moved
//! before it is made.
//!
//! ```text
//! wide = f32[64,512,1024] broadcast(scale)     →     scale.ag = all-gather(scale)
//! wide.a2a = all-to-all(wide)                        wide.again = broadcast(scale.ag)
//! ```
//!
//! An op without a loop that it reduces commutes with every movement (rule P1 of [`super::rules`]), so of a
//! row of such ops each operand is a place to move at, and the cheapest is a minimum over these. Only what is
//! larger than what it is made of is worth it: broadcasts, conversions to wider types.

use super::decision::through;
use super::model::{Input, Model};
use super::move_price::SLICE_SECS;
use super::reshard_cost::Source;
use super::sharding_request::Want;
use phzc_analysis::graph::{NodeId, NodeKind, TensorId, is_shaped};
use phzc_analysis::phase::Phase;
use phzc_ir::{FactorKind, FusionKind, Layout, Opcode};
use std::sync::Arc;

/// How many ops in a row: a norm's scale is converted, given a dimension and spread.
const MAX_OPS: usize = 4;

/// What a tensor can be made again of.
#[derive(Clone, Copy, Debug)]
pub struct MadeOf {
    /// The operand that would be moved.
    pub tensor: TensorId,
    /// The op that reads it.
    pub reader: NodeId,
}

/// The cheapest way to make a tensor again.
pub(super) struct Remade {
    pub secs: f64,
    /// The operand that is moved, as a position in `Model::made_of`.
    pub at: usize,
}

/// Per tensor: what it can be made again of, as far as something of that is smaller.
pub(super) fn made_of(input: &Input) -> Vec<Arc<[MadeOf]>> {
    let bytes = |tensor: TensorId| input.graph.tensors[tensor as usize].bytes;
    let rows = rows(input);
    let worth = |(tensor, row): (TensorId, &Vec<MadeOf>)| -> Arc<[MadeOf]> {
        let last = row.iter().rposition(|it| bytes(it.tensor) < bytes(tensor));
        row[..last.map_or(0, |last| last + 1)].into()
    };
    (0..).zip(&rows).map(worth).collect()
}

/// Per tensor: the row of cheap ops that it is made by, the nearest first.
fn rows(input: &Input) -> Vec<Vec<MadeOf>> {
    let mut found: Vec<Vec<MadeOf>> = vec![Vec::new(); input.graph.tensors.len()];
    // Makers stand before readers, so what an operand is made of is known.
    for (reader, node) in (0..).zip(&input.graph.nodes).filter(|(reader, _)| is_cheap(input, *reader)) {
        let tensor = node.operands[0];
        let is_near = input.blocks.block_of[reader as usize] == block_of(input, tensor)
            && input.blocks.def_map(tensor) == input.blocks.use_map(reader, 0);
        let further = if is_near { &found[tensor as usize][..] } else { &[] };
        let all = [MadeOf { tensor, reader }].into_iter().chain(further.iter().copied());
        found[node.results[0] as usize] = all.take(MAX_OPS).collect();
    }
    found
}

fn block_of(input: &Input, tensor: TensorId) -> Option<u32> {
    input.blocks.block_of[input.graph.tensors[tensor as usize].def as usize]
}

/// Whether an op can be done again for next to nothing: it fuses with its readers and makes one value of
/// another, loop by loop. No update may work on sums of its results over microbatches, which would become
/// sums of its operands.
fn is_cheap(input: &Input, id: NodeId) -> bool {
    let (graph, node) = (input.graph, &input.graph.nodes[id as usize]);
    let phase = |id: NodeId| input.blocks.phases[id as usize];
    let ([operand], [result]) = (&node.operands[..], &node.results[..]) else { return false };
    let made = &graph.tensors[*result as usize];
    let fuses =
        |op: Opcode| matches!(op.def().fusion, FusionKind::Free | FusionKind::View | FusionKind::Loop);
    let last = made.uses.iter().map(|&(reader, _)| phase(reader)).max();
    let is_summed = last == Some(Phase::Update) && phase(id) != Phase::Update;
    node.kind == NodeKind::Op
        && input.ops[id as usize].op.is_some_and(fuses)
        && input.ops[id as usize].attention.is_none()
        && !input.forbid.forbids_remaking()
        && node.work.transcendentals == 0.0
        && is_shaped(graph, *operand)
        && input.pinned[*result as usize].is_none()
        && !node.rule.is_fallback
        && node.rule.factors.iter().all(|factor| factor.kind == FactorKind::Pass)
        && !is_summed
}

impl Model<'_> {
    /// The cheapest way to make a tensor again in another layout, if it takes less than `moved_secs`.
    pub(super) fn remade(
        &mut self,
        tensor: TensorId,
        source: Source,
        target: Want,
        moved_secs: f64,
    ) -> Option<Remade> {
        if moved_secs <= SLICE_SECS || source.partial | target.partial != 0 {
            return None;
        }
        let (made_of, mut best) = (self.made_of[tensor as usize].clone(), None);
        let (mut from, mut to, mut least) = (source.layout, target.layout, moved_secs);
        for (at, it) in made_of.iter().enumerate() {
            (from, to) = (self.through(it, from), self.through(it, to));
            let secs = SLICE_SECS
                + self.moved_secs(it.tensor, from.into(), to.into())
                + self.kept_secs(it, from, to);
            if secs < least {
                (least, best) = (secs, Some(Remade { secs, at }));
            }
        }
        best
    }

    /// Seconds to keep an operand in memory that would else stay in registers: a copy that is no part of who
    /// reads it wherever that is, as a broadcast is, reads it there. What is moved is in memory anyway.
    fn kept_secs(&self, it: &MadeOf, from: Layout, to: Layout) -> f64 {
        match self.is_part(it) || from != to || self.input.is_stored[it.tensor as usize] {
            true => 0.0,
            false => self.spill_secs(it.tensor, from, to),
        }
    }

    /// Whether a copy is a part of whoever reads it.
    fn is_part(&self, it: &MadeOf) -> bool {
        self.input.ops[it.reader as usize].op.is_some_and(|op| op.def().fusion == FusionKind::Free)
    }

    /// The layout of an operand with which its reader makes a result in this layout.
    pub(super) fn through(&self, it: &MadeOf, layout: Layout) -> Layout {
        through(&self.input.graph.nodes[it.reader as usize].rule, 0, layout)
    }

    /// All that the price of making a tensor again depends on beside its layouts.
    pub(super) fn figures_made_of(&self, tensor: TensorId) -> Vec<u64> {
        let figures = |it: &MadeOf| {
            let rule = &self.input.graph.nodes[it.reader as usize].rule;
            let dims = rule.operands[0].iter().chain(&rule.results[0]);
            let first = dims.map(|dim| dim.first().map_or(0, |&factor| u64::from(factor) + 1));
            let own = first.chain([u64::from(self.is_part(it))]);
            own.chain(self.figures_moved(it.tensor)).collect::<Vec<_>>()
        };
        self.made_of[tensor as usize].iter().flat_map(figures).collect()
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::check;

    /// What a plan adds for a reader along rows of `wide`, which another one reads along columns, as
    /// `narrow` is: what it moves and what it makes again.
    fn added(dtype: &str, made: &str, narrow: &str, forbid: &str) -> String {
        let made = made.replacen("parameter(1)", &format!("parameter(1), sharding={{devices={narrow}}}"), 1);
        let (rows, columns) = ("sharding={devices=[8,1]<=[8]}", "sharding={devices=[1,8]<=[8]}");
        let program = format!(
            "ENTRY e {{
            x = {dtype}[4096,512] parameter(0), {rows}
            narrow = {made}
            y = {dtype}[4096,512] add(x, wide), {rows}
            v = {dtype}[4096,512] multiply(wide, wide), {columns}
            ROOT t = ({dtype}[4096,512], {dtype}[4096,512]) tuple(y, v)
        }}"
        );
        let plan = check(&format!("shard{{mesh=8{forbid}}}"), &program);
        let name = |line: &str| line.trim().split(" = ").next().unwrap_or_default().to_owned();
        let is_added = |line: &&str| line.contains("phzc.move") || line.contains("phzc.remade");
        plan.lines().filter(is_added).map(name).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn of_what_is_widened_the_operand_is_moved() {
        let widened = "bf16[4096,512] parameter(1)
            wide = f32[4096,512] convert(narrow)";
        assert_eq!(added("f32", widened, "[1,8]<=[8]", ""), "narrow.a2a wide.again");
        assert_eq!(added("f32", widened, "[1,8]<=[8]", ",forbid=remake"), "wide.a2a");
    }

    #[test]
    fn ops_that_make_nothing_larger_are_made_again_where_one_behind_them_did() {
        let row = "f32[512] parameter(1)
            spread = f32[4096,512] broadcast(narrow), dimensions={1}
            wide = f32[4096,512] negate(spread)";
        assert_eq!(added("f32", row, "[8]<=[8]", ""), "narrow.ag spread.again wide.again");
    }

    #[test]
    fn what_is_made_narrower_is_moved_itself() {
        let narrowed = "f32[4096,512] parameter(1)
            wide = bf16[4096,512] convert(narrow)";
        assert_eq!(added("bf16", narrowed, "[1,8]<=[8]", ""), "wide.a2a");
    }

    #[test]
    fn of_what_is_widened_and_spread_the_first_operand_is_moved() {
        let row = "bf16[512] parameter(1)
            exact = f32[512] convert(narrow)
            wide = f32[4096,512] broadcast(exact), dimensions={1}";
        // What is spread is part of whoever reads it, so both readers may slice it as well.
        assert_eq!(added("f32", row, "[8]<=[8]", ""), "narrow.ag exact.again wide.sl wide.sl.1");
    }
}
