//! Loops, branches and barriers: what goes in and out lies as what runs inside needs it.

use super::tile::{Dim, Kind, Origin, Part, Tile, merge};
use super::walk::{Signature, Stop, Val, Walk, settled, stop, tiled, unsummed, whole_shape};
use phzc_ir::{CompId, InstrId, Key, Opcode, View};

/// How often a loop's carried values may turn out to be split otherwise.
const MAX_ROUNDS: usize = 1000;

impl<'a> Walk<'_, 'a> {
    /// A loop: its carried values lie as its body leaves them.
    pub fn while_loop(&mut self, view: &View<'a>) -> Result<Val, Stop> {
        let (Some(body), Some(condition)) = (view.instr.comp(Key::Body), view.instr.comp(Key::Condition))
        else {
            return Err(Stop::Cause("is no loop with a body".to_owned()));
        };
        let carried = self.leaves(view.instr.operands[0])?;
        if let Some(why) = carried.iter().find_map(unsummed) {
            return Err(Stop::Cause(format!("carries what {why}")));
        }
        let lie = carried.iter().enumerate().map(|(leaf, tile)| opened(body, leaf, tile)).collect();
        let lie = self.settle(body, lie)?;
        self.program.lower(condition, &lie, &[])?;
        self.run(view, &[carried], &[&lie], &lie)
    }

    /// How carried values lie so that the body takes them as it leaves them.
    fn settle(&mut self, body: CompId, mut lie: Signature) -> Result<Signature, Stop> {
        let n_causes = self.program.causes.len();
        for (origin, dim) in self.program.opened.iter().filter(|(origin, _)| origin.comp == body) {
            lie[origin.leaf][origin.dim].clone_from(dim);
        }
        for _ in 0..MAX_ROUNDS {
            self.program.causes.truncate(n_causes);
            match self.program.lower(body, &lie, &[]) {
                Ok(left) => match carried_on(body, &lie, &left)? {
                    Some((origin, dim)) => lie[origin.leaf][origin.dim] = dim,
                    None => return Ok(lie),
                },
                Err(Stop::Open(origin, dim)) if origin.comp == body => lie[origin.leaf][origin.dim] = dim,
                Err(stop) => return Err(stop),
            }
        }
        Err(Stop::Cause("carries values that lie otherwise after every trip".to_owned()))
    }

    /// Branches: each takes its operand as it is, all leave their results as the first does.
    pub fn conditional(&mut self, view: &View<'a>) -> Result<Val, Stop> {
        let branches = phzc_ir::ops::control::control_comps(view.instr);
        let predicate = self.tile(view, 0)?;
        let operands: Vec<Vec<Tile>> =
            view.instr.operands[1..].iter().map(|&id| self.leaves(id)).collect::<Result<_, _>>()?;
        if let Some(why) = std::iter::once(&predicate).chain(operands.iter().flatten()).find_map(unsummed) {
            return Err(Stop::Cause(format!("reads what {why}")));
        }
        let lie: Vec<Signature> = operands
            .iter()
            .map(|leaves| leaves.iter().map(|tile| tile.all().into_iter().map(settled).collect()).collect())
            .collect();
        let mut left = Signature::new();
        for (&branch, lie) in branches.iter().zip(&lie) {
            let wanted: Vec<Option<Vec<Dim>>> = left.iter().cloned().map(Some).collect();
            left = self.program.lower(branch, lie, &wanted)?;
        }
        let all: Vec<Vec<Tile>> = std::iter::once(vec![predicate]).chain(operands).collect();
        let scalar: Signature = vec![Vec::new()];
        let lies: Vec<&Signature> = std::iter::once(&scalar).chain(&lie).collect();
        self.run(view, &all, &lies, &left)
    }

    /// A barrier around whole arrays.
    pub fn barrier(&mut self, view: &View<'a>) -> Result<Val, Stop> {
        let leaves = self.leaves(view.instr.operands[0])?;
        let lie: Signature =
            leaves.iter().map(|tile| tile.all().into_iter().map(settled).collect()).collect();
        let mut val = self.run(view, std::slice::from_ref(&leaves), &[&lie], &lie)?;
        restore(&mut val, &mut leaves.iter());
        Ok(val)
    }

    /// Writes the instruction on operands that lie like this; its value lies as `left` says.
    fn run(
        &mut self,
        view: &View<'a>,
        operands: &[Vec<Tile>],
        lie: &[&Signature],
        left: &Signature,
    ) -> Result<Val, Stop> {
        let mut made: Vec<InstrId> = Vec::new();
        for ((&id, leaves), lie) in view.instr.operands.iter().zip(operands).zip(lie) {
            let mut placed = Vec::new();
            for (tile, dims) in leaves.iter().zip(*lie) {
                placed.push(self.placed(tile, Some(dims))?.0);
            }
            made.push(self.pack(&view.instrs[id.index()].shape, &mut placed.into_iter()));
        }
        let shape = whole_shape(&view.instr.shape, &mut left.iter().cloned());
        let attrs = view.instr.attrs.clone();
        let base = self.emit(view, &made, shape, attrs);
        Ok(self.unpack(base, &mut left.iter().cloned()))
    }
}

/// How a carried value lies at first: what is free may turn out to be split.
fn opened(comp: CompId, leaf: usize, tile: &Tile) -> Vec<Dim> {
    let open = |(dim, parts): (usize, Dim)| match &parts[..] {
        [part] if part.is_free() || matches!(part.kind, Kind::Open(_)) => {
            vec![Part { kind: Kind::Open(Origin { comp, leaf, dim }), ..*part }]
        }
        _ => settled(parts),
    };
    tile.all().into_iter().enumerate().map(open).collect()
}

/// A carried dimension that the body leaves otherwise than it takes it, with what it leaves.
fn carried_on(body: CompId, taken: &Signature, left: &Signature) -> Result<Option<(Origin, Dim)>, Stop> {
    for (leaf, (taken, left)) in taken.iter().zip(left).enumerate() {
        for (dim, (taken, left)) in taken.iter().zip(left).enumerate() {
            match merge(taken, left) {
                Ok(joint) if tiled(&joint) == tiled(taken) && tiled(&joint) == tiled(left) => {}
                Ok(joint) if tiled(taken).is_empty() => {
                    return Ok(Some((Origin { comp: body, leaf, dim }, joint)));
                }
                Err(super::tile::Clash::Open(origin, split)) if origin.comp == body => {
                    return Ok(Some((origin, split)));
                }
                Err(clash) => {
                    return Err(stop(
                        clash,
                        &format!("leaves its value {leaf} split otherwise than it takes it"),
                    ));
                }
                Ok(_) => {
                    return Err(Stop::Cause(format!("leaves its value {leaf} whole, and takes tiles of it")));
                }
            }
        }
    }
    Ok(None)
}

/// A barrier changes no sums.
fn restore(val: &mut Val, leaves: &mut dyn Iterator<Item = &Tile>) {
    match val {
        Val::Tuple(parts) => parts.iter_mut().for_each(|part| restore(part, leaves)),
        Val::Tile(tile) => tile.partial = leaves.next().map(|leaf| leaf.partial.clone()).unwrap_or_default(),
        _ => {}
    }
}

/// Whether an instruction ends what another started, and which part of that it is.
pub fn done(op: Opcode) -> Option<usize> {
    match op {
        Opcode::AllGatherDone | Opcode::CollectivePermuteDone => Some(1),
        Opcode::CopyDone => Some(0),
        _ => None,
    }
}
