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
