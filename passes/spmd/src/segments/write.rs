//! A segment as a program: its values by number, its parameters in the order of their use.

use super::Cut;
use phzc_ir::{CompId, Computation, Instr, InstrId, Key, Module, Opcode, Payload, Shape, notes};
use phzc_opt::dce::remove_dead;
use std::collections::BTreeMap;

/// The program of one segment.
pub(super) fn program(cut: &Cut, section: usize) -> Module {
    let results = cut.results(section);
    let mut body = Body { cut, section, instrs: Vec::new(), ids: BTreeMap::new(), n_params: 0 };
    needed(cut, section, &results).into_iter().for_each(|id| body.add(id));
    let mut module = cut.device.clone();
    module.entry = cut.comp;
    module.comps[cut.comp.index()] = body.finish(&results);
    // What comes after the entry calls it, or is not called from it.
    module.comps.truncate(cut.comp.index() + 1);
    remove_dead(&mut module);
    anonymous(&module)
}

/// What a segment needs of the computation, operands first: in the order of its results, whatever the
/// text's is.
fn needed(cut: &Cut, section: usize, results: &[InstrId]) -> Vec<InstrId> {
    let own = cut.device.comp(cut.comp);
    let mut is_seen = vec![false; own.instrs.len()];
    let mut work: Vec<(InstrId, bool)> = results.iter().rev().map(|id| (*id, false)).collect();
    let mut found = Vec::new();
    while let Some((id, are_operands_there)) = work.pop() {
        if are_operands_there {
            found.push(id);
        } else if !std::mem::replace(&mut is_seen[id.index()], true) {
            work.push((id, true));
            let operands = own.instr(id).operands.iter().rev().filter(|_| !cut.is_parameter(id, section));
            work.extend(operands.map(|operand| (*operand, false)));
        }
    }
    found
}

/// A segment's instructions in the making.
struct Body<'c, 'm> {
    cut: &'c Cut<'m>,
    section: usize,
    instrs: Vec<Instr>,
    ids: BTreeMap<InstrId, InstrId>,
    n_params: u32,
}

impl Body<'_, '_> {
    fn add(&mut self, id: InstrId) {
        let mut instr = self.cut.device.comp(self.cut.comp).instr(id).clone();
        if self.cut.is_parameter(id, self.section) {
            instr.op = Opcode::Parameter;
            instr.operands.clear();
            instr.attrs.clear();
            instr.payload = Payload::Parameter(self.n_params);
            self.n_params += 1;
        }
        instr.operands.iter_mut().for_each(|operand| *operand = self.ids[operand]);
        self.ids.insert(id, InstrId::new(self.instrs.len()));
        self.instrs.push(instr);
    }

    fn finish(mut self, results: &[InstrId]) -> Computation {
        let parts = results.iter().map(|id| self.cut.device.comp(self.cut.comp).instr(*id).shape.clone());
        let root = Instr {
            operands: results.iter().map(|id| self.ids[id]).collect(),
            shape: Shape::Tuple(parts.collect()),
            ..Instr::nothing(phzc_ir::Span::default())
        };
        let id = InstrId::new(self.instrs.len());
        self.instrs.push(root);
        Computation { name: "main".into(), instrs: self.instrs, root: id, thread: None }
    }
}

/// A program of one device without what tells it from equal ones: names, notes, source lines, aliases.
pub fn anonymous(device: &Module) -> Module {
    let mut module = device.clone();
    let mesh = device.note(notes::SPMD).unwrap_or_default();
    module.name = "device".into();
    module.attrs.clear();
    module.tables = "".into();
    module.set_note(notes::SPMD, &mesh);
    let entry = module.entry;
    for (at, comp) in module.comps.iter_mut().enumerate() {
        comp.name = if CompId::new(at) == entry { "main".into() } else { format!("c{at}").into() };
        for (id, instr) in comp.instrs.iter_mut().enumerate() {
            instr.name = format!("v{id}").into();
            let is_extra = |key: &Key| matches!(key, Key::Metadata | Key::FrontendAttributes | Key::Sharding);
            instr.attrs.retain(|attr| !is_extra(&attr.key));
        }
    }
    module
}
