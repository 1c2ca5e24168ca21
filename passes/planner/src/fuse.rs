//! `fuse`: finds ParallelBlocks and notes the block of every instruction.
//!
//! ```text
//! y = f32[64,256] dot(x, w), …     →     y = f32[64,256] dot(x, w), …, frontend_attributes={phzc.block="3",phzc.phase="fwd"}
//! ```
//!
//! Blocks and their repeats go to `blocks.txt` in CFP's format (reference/cfp-alpa.md 1.7), under the numbers
//! of the notes: first the blocks that hold contractions, which alone the file lists, then all others.
//! Precondition: none; calls are inlined first.

use crate::plan_state::PlanState;
use phzc_analysis::blocks::{BlockId, Blocks};
use phzc_analysis::graph::{Graph, Node, NodeId, NodeKind};
use phzc_analysis::merged::{self, Joined};
use phzc_analysis::phase::Phase;
use phzc_analysis::repeats::repeats;
use phzc_analysis::roles::image;
use phzc_analysis::segments::{self, Listed};
use phzc_ir::{CompId, Instr, InstrId, Key, Module, Result, notes};
use phzc_opt::inline;
use phzc_pass::pass::{Changed, Context, Options, Pass};
use phzc_plan::derive::is_planned;
use std::collections::BTreeMap;
use std::fmt::Write;
use std::hash::{Hash, Hasher};
use std::ops::Range;

/// The pass.
pub static PASS: Pass = Pass {
    name: "fuse",
    summary: "groups ops that split alike without communication into ParallelBlocks; finds repeated layers",
    options: &[],
    run,
};

fn run(module: &mut Module, _: &Options, cx: &mut Context) -> Result<Changed> {
    let flattened = inline::flatten(module)?;
    let state = PlanState::analysed(module.clone());
    if cx.wants_artifacts {
        describe(module, &state.graph, &state.blocks, cx);
    }
    // The blocks of a plan are those that it was made of: what it computes again would change them.
    if is_planned(module) && module.entry().instrs.iter().any(|instr| instr.note(notes::BLOCK).is_some()) {
        return Ok(flattened);
    }
    let is_new = note(module, &state.graph, &state.blocks);
    if !is_planned(module) {
        cx.handed_on.put(PlanState { program: module.clone(), ..state });
    }
    Ok(if flattened == Changed::Yes || is_new { Changed::Yes } else { Changed::No })
}

/// Whether a program has notes of blocks or phases.
pub fn is_noted(module: &Module) -> bool {
    let is_noted = |instr: &Instr| [notes::BLOCK, notes::PHASE].iter().any(|key| instr.note(key).is_some());
    module.entry().instrs.iter().any(is_noted)
}

/// Notes blocks and phases in a program that has none of either: whoever prices a program reads them.
///
/// # Errors
/// Those of inlining.
pub fn ensure_noted(module: &mut Module) -> Result<()> {
    if !is_noted(module) {
        inline::flatten(module)?;
        let PlanState { graph, blocks, .. } = PlanState::analysed(module.clone());
        note(module, &graph, &blocks);
    }
    Ok(())
}

/// The blocks as a reader meets them; a block's number is its position here.
fn reading_order(graph: &Graph, blocks: &Blocks) -> Vec<BlockId> {
    let mut order: Vec<BlockId> = (0..blocks.members.len() as BlockId).collect();
    order.sort_by_key(|&block| !has_contraction(graph, blocks, block));
    order
}

fn has_contraction(graph: &Graph, blocks: &Blocks, block: BlockId) -> bool {
    blocks.members[block as usize].iter().any(|&node| graph.nodes[node as usize].is_contraction)
}

/// Notes block and phase on every instruction that has a block; says whether anything was new.
pub fn note(module: &mut Module, graph: &Graph, blocks: &Blocks) -> bool {
    let mut numbers = vec![0; blocks.members.len()];
    reading_order(graph, blocks)
        .iter()
        .enumerate()
        .for_each(|(number, &block)| numbers[block as usize] = number);
    let mut changed = note_loops(module, graph, blocks);
    for (id, node) in graph.nodes.iter().enumerate() {
        if node.kind != NodeKind::Op && node.kind != NodeKind::Source {
            continue;
        }
        let number = blocks.block_of[id].map(|block| numbers[block as usize].to_string());
        // What has no note is forward; what depends on constants only runs where it is read.
        let (phase, is_free) =
            (blocks.phases[id], node.results.iter().all(|&it| graph.tensors[it as usize].is_free));
        let is_noted = number.is_some() || (phase != Phase::Forward && !is_free);
        let phase = is_noted.then(|| phase.as_str().to_owned());
        let instr = &mut module.comps[node.comp.index()].instrs[node.instr.index()];
        for (key, value) in [(notes::BLOCK, number), (notes::PHASE, phase)] {
            let Some(value) = value.filter(|value| instr.note(key) != Some(value)) else { continue };
            instr.set_note(key, &value);
            changed = true;
        }
    }
    changed
}

/// Notes the phase of loops and branches, the latest of their values'; says whether anything was new.
fn note_loops(module: &mut Module, graph: &Graph, blocks: &Blocks) -> bool {
    let mut phases: BTreeMap<(CompId, InstrId), Phase> = BTreeMap::new();
    for (node, &phase) in graph.nodes.iter().zip(&blocks.phases) {
        if matches!(node.kind, NodeKind::Carry | NodeKind::Join) {
            let latest = phases.entry((node.comp, node.instr)).or_insert(phase);
            *latest = phase.max(*latest);
        }
    }
    let mut changed = false;
    for ((comp, id), phase) in phases {
        let instr = &mut module.comps[comp.index()].instrs[id.index()];
        changed |= instr.note(notes::PHASE) != Some(phase.as_str());
        instr.set_note(notes::PHASE, phase.as_str());
    }
    changed
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

fn listed<'a>(
    graph: &'a Graph,
    blocks: &'a Blocks,
    order: &'a [BlockId],
    joined: &'a [Vec<Joined>],
) -> Listed<'a> {
    let n_listed = order.iter().take_while(|&&block| has_contraction(graph, blocks, block)).count();
    Listed { graph, blocks, order: &order[..n_listed], joined }
}

fn fingerprints(module: &Module, listed: &Listed) -> Vec<u64> {
    listed.order.iter().map(|&block| fingerprint(module, listed.graph, listed.blocks, block)).collect()
}

/// The blocks of the segment that repeats, each with its counterparts in the copies.
pub(crate) fn repeated_segment(module: &Module, graph: &Graph, blocks: &Blocks) -> Vec<Vec<BlockId>> {
    let (order, joined) = (reading_order(graph, blocks), merged::joined(graph, blocks));
    let listed = listed(graph, blocks, &order, &joined);
    segments::repeated(&listed, &fingerprints(module, &listed))
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

/// A node's instruction without the attributes that do not compute.
pub(crate) fn bare_instr(module: &Module, node: &Node) -> Instr {
    let mut instr = module.comp(node.comp).instr(node.instr).clone();
    instr.attrs.retain(|attr| !matches!(attr.key, Key::Metadata | Key::FrontendAttributes | Key::Sharding));
    instr
}

/// `0, 2, -, `: each strategy is followed by a comma and a space.
fn plan_text(plan: &[Option<usize>]) -> String {
    let one = |at: &Option<usize>| at.map_or("-, ".to_owned(), |at| format!("{at}, "));
    plan.iter().map(one).collect()
}

/// Equal for blocks that do the same work on the same shapes, in whatever order: JAX writes the gradients of
/// equal layers in different ones.
pub fn fingerprint(module: &Module, graph: &Graph, blocks: &Blocks, block: BlockId) -> u64 {
    let member = |&id: &NodeId| {
        let (node, mut hasher) = (&graph.nodes[id as usize], rustc_hash::FxHasher::default());
        graph.opcode(module, id).hash(&mut hasher);
        node.rule.to_string().hash(&mut hasher);
        node.results.iter().for_each(|&result| graph.tensors[result as usize].dtype.hash(&mut hasher));
        hasher.finish()
    };
    let mut members: Vec<u64> = blocks.members[block as usize].iter().map(member).collect();
    members.sort_unstable();
    let mut hasher = rustc_hash::FxHasher::default();
    members.hash(&mut hasher);
    hasher.finish()
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
