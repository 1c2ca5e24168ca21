//! `fuse`: finds ParallelBlocks and notes the block of every instruction.
//!
//! ```text
//! y = f32[64,256] dot(x, w), …     →     y = f32[64,256] dot(x, w), …, frontend_attributes={phzc.block="3",phzc.phase="fwd"}
//! ```
//!
//! Blocks and their repeats go to `blocks.txt` in CFP's format (reference/cfp-alpa.md 1.7), under the numbers
//! of the notes: first the blocks that hold contractions, which alone the file lists, then all others.
//! Attentions go to `attention.txt`; where they are to be kernels, `flash.rs` notes them and has the backward
//! part make their scores again.
//! Precondition: none; calls are inlined first.

mod flash;

use crate::plan_state::{PlanState, flatten, flatten_to_plan};
use crate::shard::control::texts_of;
use phzc_analysis::block_list::{bare_instr, fingerprints, listed, reading_order};
use phzc_analysis::block_notes::{is_noted, note};
use phzc_analysis::blocks::{BlockId, Blocks};
use phzc_analysis::graph::{Graph, NodeId};
use phzc_analysis::merged::{self, Joined};
use phzc_analysis::repeats::repeats;
use phzc_analysis::roles::image;
use phzc_analysis::segments::{self, Listed};
use phzc_ir::{Diagnostic, Module, Result};
use phzc_pass::pass::{Changed, Context, OptionInfo, OptionKind, Options, Pass};
use phzc_plan::derive::is_planned;
use std::fmt::Write;
use std::ops::Range;

/// The pass.
pub static PASS: Pass = Pass {
    name: "fuse",
    summary: "groups ops that split alike without communication into ParallelBlocks; finds repeated layers",
    options: &[OptionInfo {
        name: ATTENTION,
        kind: OptionKind::Choice(&[AS_WRITTEN, FLASH]),
        default: AS_WRITTEN,
        help: "flash: what attention.txt lists runs as one kernel forward and one backward, which makes the scores again; \
               as-written: as other ops do",
    }],
    run,
};

const ATTENTION: &str = "attention";
const AS_WRITTEN: &str = "as-written";
const FLASH: &str = "flash";

fn run(module: &mut Module, options: &Options, cx: &mut Context) -> Result<Changed> {
    let flattened = flatten_to_plan(module)?;
    let mut state = PlanState::analysed(module.clone());
    let is_fused = attention(module, &state, options, cx)?;
    if is_fused {
        state = PlanState::analysed(module.clone());
    }
    if cx.wants_artifacts {
        describe(module, &state.graph, &state.blocks, cx);
    }
    // The blocks of a plan are those that it was made of: what it computes again would change them.
    if is_planned(module) && is_noted(module) {
        return Ok(flattened);
    }
    let is_new = note(module, &state.graph, &state.blocks);
    if !is_planned(module) {
        cx.handed_on.put(PlanState { program: module.clone(), ..state });
    }
    Ok(if flattened == Changed::Yes || is_new || is_fused { Changed::Yes } else { Changed::No })
}

/// Lists attentions and, if asked for, has them be kernels; says whether that changed the program.
fn attention(module: &mut Module, state: &PlanState, options: &Options, cx: &mut Context) -> Result<bool> {
    let is_flash = options.text(ATTENTION) == FLASH;
    if !cx.wants_artifacts && !is_flash {
        return Ok(false);
    }
    let found = flash::found(state);
    if !found.is_empty() {
        cx.artifacts.insert("attention.txt".into(), flash::list(module, &found));
    }
    if is_flash && is_planned(module) && found.iter().any(|it| it.left.is_none()) {
        let message = "the program has a plan already, in which attention is as written";
        return Err(Diagnostic::error(message).help("plan the original program"));
    }
    Ok(is_flash && flash::write(module, state, &found))
}

/// The options of `fuse` for another form of the program: what the user asked of this one.
pub fn asked_again(module: &Module) -> Options {
    let text = texts_of(module, PASS.name, (ATTENTION, AS_WRITTEN)).pop();
    Options { values: [(ATTENTION, text.unwrap_or_else(|| AS_WRITTEN.to_owned()))].into_iter().collect() }
}

/// Notes blocks and phases in a program that has none of either: whoever prices a program reads them.
///
/// # Errors
/// Those of inlining.
pub fn ensure_noted(module: &mut Module) -> Result<()> {
    if !is_noted(module) {
        flatten(module)?;
        let PlanState { graph, blocks, .. } = PlanState::analysed(module.clone());
        note(module, &graph, &blocks);
    }
    Ok(())
}

/// The block dump: members with their plans, then the repeats among the blocks with contractions. A block
/// that joins another is listed there and keeps an empty place of its own, so that numbers stay.
fn describe(module: &Module, graph: &Graph, blocks: &Blocks, cx: &mut Context) {
    let (order, joined) = (reading_order(graph, blocks), merged::joined(graph, blocks));
    let listed = listed(graph, blocks, &order, &joined);
    let mut out = String::new();
    for (index, &block) in listed.order.iter().enumerate() {
        let _ = writeln!(out, "Parallel Block {index}:");
        for (node, plan) in members(&listed, block) {
            let _ = writeln!(out, "    {node} {}", one_line(module, graph, node));
            let _ = writeln!(out, "    Plan: {}", plan_text(&plan));
        }
    }
    let hashes = fingerprints(module, &listed);
    out += &(sequences(&hashes) + &segments::search_spaces(&listed, &hashes));
    cx.artifacts.insert("blocks.txt".into(), out);
    cx.artifacts.insert("segment_mapping".into(), segments::mapping(&listed, &hashes));
}

/// The contractions that are listed under a block, each with its strategy per strategy of the block's entry.
fn members(listed: &Listed, block: BlockId) -> Vec<(NodeId, Vec<Option<usize>>)> {
    let Listed { graph, blocks, joined, .. } = listed;
    if joined.iter().flatten().any(|it| it.block == block) {
        return Vec::new();
    }
    let all = |block| merged::contractions(graph, blocks, block);
    let Some(entry) = all(block).next() else { return Vec::new() };
    let own = all(block).map(|node| (node, image(graph, blocks, entry, node)));
    let through = |it: &Joined, node: NodeId| {
        let image = image(graph, blocks, it.entry, node);
        it.plan.iter().map(|at| at.and_then(|at| image.get(at).copied().flatten())).collect()
    };
    let others = joined[block as usize].iter();
    own.chain(others.flat_map(|it| all(it.block).map(move |node| (node, through(it, node))))).collect()
}

/// One line per copy of a stretch of blocks; without copies, one that maps all blocks to themselves.
fn sequences(hashes: &[u64]) -> String {
    let mut copies = repeats(hashes);
    if copies.is_empty() {
        copies.push((0..hashes.len(), 0..hashes.len()));
    }
    let line = |(copy, first): (Range<usize>, Range<usize>)| {
        let (copy, first) = (format!("({}, {})", copy.start, copy.end), (first.start, first.end));
        format!("ParallelBlocks sequence: {copy} mapped to  {first:?}\n")
    };
    copies.into_iter().map(line).collect()
}

/// The instruction in short form.
fn one_line(module: &Module, graph: &Graph, node: NodeId) -> String {
    let node = &graph.nodes[node as usize];
    phzc_ir::text::print_instr(module, module.comp(node.comp), &bare_instr(module, node))
}

/// `0, 2, -, `: each strategy is followed by a comma and a space.
fn plan_text(plan: &[Option<usize>]) -> String {
    let one = |at: &Option<usize>| at.map_or("-, ".to_owned(), |at| format!("{at}, "));
    plan.iter().map(one).collect()
}

#[cfg(test)]
mod tests {
    use crate::testing::{artifact, check};
    use insta::assert_snapshot;

    const LAYERS: &str = "HloModule m
ENTRY e {
  x = f32[64,32] parameter(0)
  w = f32[32,32] parameter(1)
  v = f32[32,32] parameter(2)
  y = f32[64,32] dot(x, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  a = f32[64,32] tanh(y)
  z = f32[64,32] dot(a, v), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  ROOT b = f32[64,32] tanh(z)
}";

    #[test]
    fn every_instruction_of_a_block_has_its_number_and_phase() {
        assert_snapshot!(check("fuse", LAYERS), @r#"
        HloModule m

        ENTRY e {
          x = f32[64,32] parameter(0), frontend_attributes={phzc.block="2",phzc.phase="fwd"}
          w = f32[32,32] parameter(1), frontend_attributes={phzc.block="3",phzc.phase="fwd"}
          v = f32[32,32] parameter(2), frontend_attributes={phzc.block="4",phzc.phase="fwd"}
          y = f32[64,32] dot(x, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}, frontend_attributes={phzc.block="0",phzc.phase="fwd"}
          a = f32[64,32] tanh(y), frontend_attributes={phzc.block="5",phzc.phase="fwd"}
          z = f32[64,32] dot(a, v), lhs_contracting_dims={1}, rhs_contracting_dims={0}, frontend_attributes={phzc.block="1",phzc.phase="fwd"}
          ROOT b = f32[64,32] tanh(z), frontend_attributes={phzc.block="6",phzc.phase="fwd"}
        }
        "#);
    }

    #[test]
    fn blocks_with_products_are_listed_with_what_each_split_is_of_their_products() {
        assert_snapshot!(artifact("fuse", LAYERS, "blocks.txt").replace(", \n", "\n"), @r#"
        Parallel Block 0:
            3 y = f32[64,32] dot(x, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}
            Plan: 0, 1, 2
        Parallel Block 1:
            5 z = f32[64,32] dot(a, v), lhs_contracting_dims={1}, rhs_contracting_dims={0}
            Plan: 0, 1, 2
        ParallelBlocks sequence: (1, 2) mapped to  (0, 1)
        segment PB search space: [3]
        "#);
    }

    #[test]
    fn blocks_are_found_once() {
        let once = check("fuse", LAYERS);
        assert_eq!(check("fuse", &once), once);
    }
}
