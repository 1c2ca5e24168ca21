//! Leaves inner layers out: what reads what in the program that remains.

use super::{Layer, Short};
use crate::layer_repeats::Copies;
use phzc_analysis::graph::alias_pairs;
use phzc_ir::{Computation, Instr, InstrId, Module, Opcode, Payload, Shape};

/// The program without its layers `2..n - 2`; `None` where something reads all of them, or reads what would
/// then be made after it.
pub fn cut(module: &Module, copies: &Copies) -> Option<Short> {
    Cutter { comp: module.entry(), copies }.cut(module)
}

struct Cutter<'a> {
    comp: &'a Computation,
    copies: &'a Copies,
}

impl Cutter<'_> {
    /// Layers `2..n - 2` go.
    fn is_kept(&self, id: InstrId) -> bool {
        self.copies.of(id).is_none_or(|layer| layer < 2 || layer + 2 >= self.copies.n())
    }

    fn cut(&self, module: &Module) -> Option<Short> {
        let mut short = module.without_entry();
        let entry = &mut short.comps[module.entry.index()];
        let kept = |(id, instr): (InstrId, &Instr)| {
            if self.is_kept(id) { instr.clone() } else { Instr::nothing(instr.span) }
        };
        entry.instrs = self.comp.iter().map(kept).collect();
        for (id, instr) in self.comp.iter().filter(|(id, _)| self.is_kept(*id)) {
            let operands = instr.operands.iter().map(|&operand| self.read_by(id, operand));
            let read: Vec<Option<InstrId>> = operands.collect::<Option<_>>()?;
            entry.instrs[id.index()].operands = read.into_iter().flatten().collect();
        }
        let keep: Vec<bool> = self.comp.iter().map(|(id, _)| self.is_kept(id)).collect();
        self.cut_root(entry);
        entry.retain(&keep);
        renumber_params(entry);
        let is_in_order = |(id, instr): (InstrId, &Instr)| instr.operands.iter().all(|&operand| operand < id);
        if !entry.iter().all(is_in_order) {
            return None;
        }
        if let Some(text) = module.attr("input_output_alias") {
            short.set_attr("input_output_alias", self.aliases(text)?);
        }
        short.attrs.retain(|attr| &*attr.key != "entry_computation_layout");
        Some(self.stand(module, short, &keep))
    }

    /// What a kept instruction reads in the short program: `Some(None)` where that went with its layer,
    /// `None` where it needs what went.
    fn read_by(&self, reader: InstrId, operand: InstrId) -> Option<Option<InstrId>> {
        if self.is_kept(operand) {
            return Some(Some(operand));
        }
        match self.copies.of(reader) {
            Some(layer) if layer < 2 => self.after(operand, self.copies.n() - 4).map(Some),
            Some(_) => self.before(operand, self.copies.n() - 4).map(Some),
            None if reader == self.comp.root && self.comp.root().op == Opcode::Tuple => Some(None),
            None => None,
        }
    }

    fn after(&self, id: InstrId, n_layers: usize) -> Option<InstrId> {
        (0..n_layers).try_fold(id, |id, _| self.copies.next[id.index()]).filter(|&id| self.is_kept(id))
    }

    fn before(&self, id: InstrId, n_layers: usize) -> Option<InstrId> {
        (0..n_layers).try_fold(id, |id, _| self.copies.prev[id.index()]).filter(|&id| self.is_kept(id))
    }

    /// Leaves out of the root's shape what is no longer among its operands.
    fn cut_root(&self, entry: &mut Computation) {
        let root = self.comp.root();
        if let (Opcode::Tuple, Shape::Tuple(parts)) = (root.op, &root.shape) {
            let kept = parts.iter().zip(&root.operands).filter(|(_, operand)| self.is_kept(**operand));
            entry.instrs[self.comp.root.index()].shape =
                Shape::Tuple(kept.map(|(part, _)| part.clone()).collect());
        }
    }

    /// The header's aliases among what is left: a kept result has the buffer of that parameter which it would
    /// read.
    fn aliases(&self, text: &str) -> Option<String> {
        let (root, params) = (self.comp.root(), self.comp.params());
        let kept = |ids: &[InstrId]| -> Vec<InstrId> {
            ids.iter().copied().filter(|&id| self.is_kept(id)).collect()
        };
        let (kept_outputs, kept_params) = (kept(&root.operands), kept(&params));
        let list = |index: &[u32]| index.iter().map(u32::to_string).collect::<Vec<_>>().join(", ");
        let mut out = Vec::new();
        for (mut output, param, index) in alias_pairs(text) {
            let mut param = *params.get(param as usize)?;
            if let (Opcode::Tuple, Some(first)) = (root.op, output.first_mut()) {
                let made = *root.operands.get(*first as usize)?;
                if !self.is_kept(made) {
                    continue;
                }
                param = self.read_by(made, param)??;
                *first = kept_outputs.iter().position(|&kept| kept == made)? as u32;
            }
            let param = kept_params.iter().position(|&kept| kept == param)?;
            out.push(format!("{{{}}}: ({param}, {{{}}}, may-alias)", list(&output), list(&index)));
        }
        Some(format!("{{ {} }}", out.join(", ")))
    }

    /// Which instruction stands for which.
    fn stand(&self, module: &Module, short: Module, keep: &[bool]) -> Short {
        let n = self.copies.n();
        let of: Vec<Option<usize>> = (0..keep.len()).map(|at| self.copies.of(InstrId::new(at))).collect();
        let mut ids = keep.iter().scan(0, |next, &is_kept| {
            *next += usize::from(is_kept);
            Some(InstrId::new(*next - usize::from(is_kept)))
        });
        let own: Vec<InstrId> = ids.by_ref().collect();
        let mut order: Vec<usize> = (0..keep.len()).collect();
        order.sort_by_key(|&at| of[at]);
        let mut stands: Vec<[InstrId; 2]> = own.iter().map(|&id| [id; 2]).collect();
        for &at in order.iter().filter(|&&at| of[at].is_some_and(|layer| (2..n - 1).contains(&layer))) {
            stands[at][0] = self.copies.prev[at].map_or(own[at], |before| stands[before.index()][0]);
        }
        for &at in order.iter().rev().filter(|&&at| of[at].is_some_and(|layer| (1..n - 2).contains(&layer))) {
            stands[at][1] = self.copies.next[at].map_or(own[at], |after| stands[after.index()][1]);
        }
        let kept = (0..keep.len()).filter(|&at| keep[at]);
        let place = |layer: usize| Layer { row: 0, at: if layer < 2 { layer } else { layer + 4 - n } };
        let beside = |at: usize| {
            let others = [self.copies.prev[at], self.copies.next[at]];
            others.map(|other| other.filter(|&id| keep[id.index()]).map(|id| own[id.index()]))
        };
        Short {
            place: kept.clone().map(|at| of[at].map(place)).collect(),
            twin: kept.clone().map(|at| (of[at] == Some(n - 2)).then(|| stands[at][0])).collect(),
            n_layers: vec![n],
            neighbours: kept.clone().map(beside).collect(),
            whole_of: kept.map(InstrId::new).collect(),
            layer_of: of.into_iter().map(|at| at.map(|at| Layer { row: 0, at })).collect(),
            stands,
            module: Module { entry: module.entry, ..short },
        }
    }
}

fn renumber_params(entry: &mut Computation) {
    for (number, id) in entry.params().into_iter().enumerate() {
        entry.instrs[id.index()].payload = Payload::Parameter(number as u32);
    }
}
