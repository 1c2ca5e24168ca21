//! Blocks and phases as notes of instructions: what `fuse` writes and whoever prices a text reads.

use crate::block_list::reading_order;
use crate::blocks::Blocks;
use crate::graph::{Graph, NodeKind};
use crate::phase::Phase;
use phzc_ir::{CompId, Instr, InstrId, Module, notes};
use std::collections::BTreeMap;

/// Whether a program has notes of blocks or phases.
pub fn is_noted(module: &Module) -> bool {
    let is_noted = |instr: &Instr| [notes::BLOCK, notes::PHASE].iter().any(|key| instr.note(key).is_some());
    module.entry().instrs.iter().any(is_noted)
}

/// Removes an instruction's notes of both.
pub fn remove(instr: &mut Instr) {
    [notes::BLOCK, notes::PHASE].iter().for_each(|key| instr.remove_note(key));
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

#[cfg(test)]
mod tests {
    use super::*;

    /// A loop of products.
    const LOOP: &str = "HloModule m, input_output_alias={ {0}: (1, {}, may-alias) }
body { p = (s32[], f32[8,8], f32[8,8]) parameter(0)
  i = s32[] get-tuple-element(p), index=0
  one = s32[] constant(1)
  next = s32[] add(i, one)
  w = f32[8,8] get-tuple-element(p), index=1
  h = f32[8,8] get-tuple-element(p), index=2
  k = f32[8,8] dot(h, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  ROOT r = (s32[], f32[8,8], f32[8,8]) tuple(next, w, k) }
condition { p = (s32[], f32[8,8], f32[8,8]) parameter(0)
  i = s32[] get-tuple-element(p), index=0
  n = s32[] constant(3)
  ROOT c = pred[] compare(i, n), direction=LT }
ENTRY e {
  x = f32[8,8] parameter(0)
  w = f32[8,8] parameter(1)
  zero = s32[] constant(0)
  t = (s32[], f32[8,8], f32[8,8]) tuple(zero, w, x)
  l = (s32[], f32[8,8], f32[8,8]) while(t), condition=condition, body=body
  y = f32[8,8] get-tuple-element(l), index=2
  g = f32[8,8] dot(x, y), lhs_contracting_dims={0}, rhs_contracting_dims={0}
  v = f32[8,8] subtract(w, g)
  ROOT out = (f32[8,8], f32[8,8]) tuple(v, y)
}";

    #[test]
    fn a_loop_has_a_phase_as_its_values_have_and_everything_is_noted_once() {
        let mut module = phzc_ir::parse(LOOP).expect("legal");
        let graph = Graph::build(&module);
        let blocks = Blocks::build(&module, &graph, &vec![false; graph.tensors.len()]);
        assert!(!is_noted(&module));
        assert!(note(&mut module, &graph, &blocks));
        assert!(is_noted(&module));
        let phase = |name: &str| {
            let instr = module.entry().instrs.iter().find(|instr| &*instr.name == name);
            instr.expect("it is there").note(notes::PHASE).map(str::to_owned)
        };
        assert_eq!(["l", "g"].map(phase), ["fwd", "fwd"].map(|it| Some(it.to_owned())));
        assert!(!note(&mut module.clone(), &graph, &blocks));
        let mut without = module.clone();
        let id = without.entry().instrs.iter().position(|instr| &*instr.name == "l").expect("a loop");
        let entry = without.entry.index();
        without.comps[entry].instrs[id].remove_note(notes::PHASE);
        assert!(note(&mut without, &graph, &blocks), "a loop's note was missing");
    }
}
