//! Where layers begin and end: which layer instructions count to, by what they read and by what is in one
//! block with them.
//!
//! Products say which instructions are copies, and little of what lies between two layers' products. A layer
//! may read itself and its neighbours, but of those only what is made before it if layers are left out: these
//! are differences of two numbers, each with a most and a least, and Bellman and Ford's rule finds numbers
//! for all of them.

use crate::layer_repeats::Copies;
use phzc_ir::{Computation, InstrId, Module};
use phzc_plan::derive::{aliased, origins};
use std::collections::BTreeMap;

/// How often all limits are looked at: rows of one layer follow from each other in much fewer steps.
const MAX_PASSES: usize = 500;

/// Copies, and what their layers have to be.
pub struct Ends<'a> {
    comp: &'a Computation,
    base: Copies,
    /// Per instruction: its row of counterparts.
    row: Vec<Option<usize>>,
    /// Per row: by how much its layers are moved.
    moved: Vec<i32>,
    /// By how much at most the second of two rows may be moved further than the first.
    limits: BTreeMap<(usize, usize), i32>,
}

impl<'a> Ends<'a> {
    /// What the order of the program and its donated buffers ask for.
    pub fn new(module: &'a Module, base: Copies) -> Ends<'a> {
        let comp = module.entry();
        let mut row = vec![None; comp.instrs.len()];
        let mut ends: Vec<[InstrId; 2]> = Vec::new();
        let is_first = |id: &InstrId| base.of[id.index()].is_some() && base.prev[id.index()].is_none();
        for first in comp.iter().map(|(id, _)| id).filter(is_first) {
            let mut last = first;
            for id in std::iter::successors(Some(first), |id| base.next[id.index()]) {
                (row[id.index()], last) = (Some(ends.len()), id);
            }
            ends.push([first, last]);
        }
        let mut found = Ends { comp, row, moved: vec![0; ends.len()], limits: BTreeMap::new(), base };
        // Inner layers read alike: those in the middle speak for all.
        let middle = found.base.inner.iter().sum::<i32>() / 2;
        for (id, instr) in comp.iter() {
            if found.base.of[id.index()].is_none_or(|of| (of - middle).abs() > 1) {
                continue;
            }
            for &operand in &instr.operands {
                let (Some(own), Some(read)) = (found.at(id), found.at(operand)) else { continue };
                let ([first, last], [first_read, last_read]) = (ends[own.0], ends[read.0]);
                let (least, most) = (-i32::from(first_read < last), i32::from(last_read < first));
                found.limit(own, read, least, most);
            }
        }
        found.donated(module);
        found
    }

    /// A result that takes a parameter's buffer has to be laid out as that one: they are in one layer.
    fn donated(&mut self, module: &Module) {
        let makers = origins(self.comp, self.comp.root);
        for alias in aliased(module) {
            let (maker, _) = makers[alias.output];
            if let (Some(own), Some(param)) = (self.at(maker), self.at(alias.param)) {
                self.limit(own, param, 0, 0);
            }
        }
    }

    /// An instruction's row, and its layer before it is moved.
    fn at(&self, id: InstrId) -> Option<(usize, i32)> {
        Some((self.row[id.index()]?, self.base.of[id.index()]?))
    }

    /// Asks for the layer of `b` to be that of `a` and between `least` and `most` more.
    fn limit(&mut self, a: (usize, i32), b: (usize, i32), least: i32, most: i32) {
        let by = b.1 - a.1;
        for (rows, limit) in [((a.0, b.0), most - by), ((b.0, a.0), by - least)] {
            let known = self.limits.entry(rows).or_insert(limit);
            *known = limit.min(*known);
        }
    }

    /// Asks for instructions to be in one layer, which now are in these of two neighbouring ones.
    pub fn join(&mut self, all: &[(InstrId, i32)]) {
        let at =
            |(id, layer): &(InstrId, i32)| self.row[id.index()].map(|row| (row, layer - self.moved[row]));
        let all: Vec<(usize, i32)> = all.iter().filter_map(at).collect();
        all.windows(2).for_each(|pair| self.limit(pair[0], pair[1], 0, 0));
    }

    /// The copies, in layers that are as all ask for; `None` where there are no such layers.
    pub fn copies(&mut self) -> Option<Copies> {
        self.moved.fill(0);
        for _ in 0..MAX_PASSES {
            let mut is_changed = false;
            for (&(a, b), limit) in &self.limits {
                let most = self.moved[a] + limit;
                is_changed |= self.moved[b] > most;
                self.moved[b] = self.moved[b].min(most);
            }
            if !is_changed {
                let moved = |id: InstrId| self.row[id.index()].map_or(0, |row| self.moved[row]);
                return self.base.in_layers(|id, layer| layer + moved(id)).with_inner(self.comp);
            }
        }
        None
    }
}
