//! Values that each phase moves for itself: what the backward part computes again reads what that part moves.

use indexmap::IndexMap;
use phzc_ir::{Computation, Instr, InstrId, notes};
use phzc_plan::derive::{Phase, is_move};
use rustc_hash::FxBuildHasher;

/// Per movement of what depends on no data, in the forward part: that of the backward part of the same value
/// to the same layout.
pub fn twins(comp: &Computation, is_data: &[bool]) -> IndexMap<InstrId, InstrId, FxBuildHasher> {
    let phase = |instr: &Instr| Phase::parse(instr.note(notes::PHASE));
    let moves = || comp.iter().filter(|(id, instr)| is_planned_move(instr) && !is_data[id.index()]);
    let late = moves().filter(|(_, instr)| phase(instr) == Phase::Backward);
    let mut found: IndexMap<_, InstrId, FxBuildHasher> = IndexMap::default();
    for (id, _) in late {
        found.entry(target(comp, id)).or_insert(id);
    }
    let early = moves().filter(|(_, instr)| phase(instr) == Phase::Forward);
    early.filter_map(|(id, _)| Some((id, *found.get(&target(comp, id))?))).collect()
}

fn is_planned_move(instr: &Instr) -> bool {
    is_move(instr) && instr.note(notes::MOVE).is_some()
}

/// Of what, where to and in which stage a movement is.
fn target(comp: &Computation, id: InstrId) -> (InstrId, [String; 3]) {
    let instr = comp.instr(id);
    let mut source = id;
    while is_planned_move(comp.instr(source)) {
        source = comp.instr(source).operands[0];
    }
    let note = |key: &str| instr.note(key).unwrap_or_default().to_owned();
    let layout = instr.sharding().map(ToString::to_string).unwrap_or_default();
    (source, [layout, note(notes::PARTIAL), note(notes::STAGE)])
}
