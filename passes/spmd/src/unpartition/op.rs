//! An op on whole arrays, by its factor rule: loops that axes split run over all of their elements.

use super::place::place;
use super::tile::{Dim, Kind, Part, Tile, local, merge};
use super::walk::{HIDDEN, Stop, Val, Walk, settled, stop, tiled, whole_shape};
use crate::spmd::attrs::{self, Sizes};
use phzc_ir::ops::linear;
use phzc_ir::{Dims, FactorKind, InstrId, Key, Opcode, Reducer, Rule, Shape, TensorMap, View};
use std::collections::BTreeMap;

/// Axes with what adds up the summands along them.
type Partial = BTreeMap<usize, Reducer>;

impl<'a> Walk<'_, 'a> {
    /// An op whose part on one device is the same op on parts.
    pub fn op(&mut self, view: &View<'a>) -> Result<Val, Stop> {
        self.op_by(view, false)
    }

    /// The same, of which the operands may be told that only what falls into a device's tile counts.
    pub fn op_by(&mut self, view: &View<'a>, is_masked: bool) -> Result<Val, Stop> {
        let operands: Vec<Vec<Tile>> =
            view.instr.operands.iter().map(|&id| self.leaves(id)).collect::<Result<_, _>>()?;
        let leaves: Vec<&Tile> = operands.iter().flatten().collect();
        let rule = (view.instr.op.def().rule)(view);
        let carried = undone(view, &operands)?;
        let loops = loops(view, &rule, &leaves, is_masked)?;
        let partial = sums(view, &rule, &loops, carried)?;
        let made: Vec<InstrId> = self.operands(view, &rule, &operands, &loops);
        let results: Vec<Vec<Dim>> = rule.results.iter().map(|map| joined(map, &loops)).collect();
        let shape = whole_shape(&view.instr.shape, &mut results.iter().cloned());
        let attrs = attrs::local(view.instr, &self.sizes(view, &made, &shape));
        let base = self.emit(view, &made, shape, attrs);
        let mut val = self.unpack(base, &mut results.into_iter());
        leave(&mut val, &partial);
        Ok(val)
    }

    fn operands(&mut self, view: &View, rule: &Rule, operands: &[Vec<Tile>], loops: &[Dim]) -> Vec<InstrId> {
        let mut maps = rule.operands.iter();
        let mut made = Vec::new();
        for (&id, leaves) in view.instr.operands.iter().zip(operands) {
            let placed: Vec<InstrId> = leaves
                .iter()
                .zip(maps.by_ref())
                .map(|(tile, map)| place(&mut self.build, tile, &joined(map, loops)))
                .collect();
            made.push(self.pack(&view.instrs[id.index()].shape, &mut placed.into_iter()));
        }
        made
    }

    fn sizes(&self, view: &View, made: &[InstrId], shape: &Shape) -> Sizes {
        let of = |shape: &Shape| shape.as_array().map_or_else(Dims::new, |array| array.dims.clone());
        let first = shape.leaves().first().map_or_else(Dims::new, |leaf| of(leaf));
        Sizes {
            global: view.instr.operands.iter().map(|id| of(&view.instrs[id.index()].shape)).collect(),
            local: made.iter().map(|&id| self.build.dims(id)).collect(),
            result: first,
        }
    }
}

/// The parts of each loop.
fn loops(view: &View, rule: &Rule, leaves: &[&Tile], is_masked: bool) -> Result<Vec<Dim>, Stop> {
    let mut found: Vec<Option<Dim>> = vec![None; rule.factors.len()];
    for (tile, map) in leaves.iter().zip(&rule.operands) {
        for (dim, factors) in map.iter().enumerate().take(tile.dims.len()) {
            let mut rest = tile.dim(dim);
            for (at, &factor) in factors.iter().enumerate() {
                let is_last = at + 1 == factors.len();
                let own = if is_last {
                    std::mem::take(&mut rest)
                } else {
                    major(&mut rest, rule.factors[factor as usize].size)
                };
                let known = &mut found[factor as usize];
                *known = Some(match known.take() {
                    None => own,
                    Some(known) => merge(&known, &own)
                        .map_err(|clash| stop(clash, "reads arrays that are split differently"))?,
                });
            }
        }
    }
    for (tile, map) in leaves.iter().zip(&rule.operands) {
        let of = |factor: &u32| found[*factor as usize].clone().unwrap_or_default();
        let dims: Vec<Dim> = map.iter().map(|dim| dim.iter().flat_map(of).collect()).collect();
        if !tile.is_found_in(&dims) {
            return Err(Stop::Cause(HIDDEN.to_owned()));
        }
    }
    let positional = positional(view, rule);
    let own = |(at, (factor, dim)): (usize, (&phzc_ir::Factor, Option<Dim>))| {
        let dim = dim.unwrap_or_else(|| vec![Part { size: factor.size, kind: Kind::Whole }]);
        match factor.kind {
            FactorKind::Pass if !positional.contains(&(at as u32)) => Ok(dim),
            FactorKind::Pass | FactorKind::Reduce(_) if is_masked => Ok(settled(dim)),
            kind => whole_or_summed(view, rule, kind, settled(dim)),
        }
    };
    let loops: Vec<Dim> = rule.factors.iter().zip(found).enumerate().map(own).collect::<Result<_, _>>()?;
    let mut axes: Vec<usize> = loops.iter().flat_map(|dim| tiled(dim)).collect();
    axes.sort_unstable();
    match axes.windows(2).any(|pair| pair[0] == pair[1]) {
        true => Err(Stop::Cause(
            "is made of tiles of two dimensions on the same devices: the others are missing".to_owned(),
        )),
        false => Ok(loops),
    }
}

/// Loops over places that are computed: what is written there depends on where a device's part starts.
fn positional(view: &View, rule: &Rule) -> Vec<u32> {
    let dims: Vec<usize> = match view.instr.op {
        Opcode::DynamicUpdateSlice => {
            let size = |index: usize| {
                view.operand_shape(index).and_then(Shape::as_array).map(|array| array.dims.clone())
            };
            let (array, update) = (size(0).unwrap_or_default(), size(1).unwrap_or_default());
            (0..array.len()).filter(|&dim| array[dim] != update[dim]).collect()
        }
        Opcode::Scatter => {
            view.instr.ints(Key::ScatterDimsToOperandDims).iter().map(|&dim| dim as usize).collect()
        }
        _ => return Vec::new(),
    };
    dims.into_iter().flat_map(|dim| rule.operands[0][dim].clone()).collect()
}

/// A loop that is no loop over independent elements: it may be split only if it reduces.
fn whole_or_summed(view: &View, rule: &Rule, kind: FactorKind, dim: Dim) -> Result<Dim, Stop> {
    let starts_at_zero = || linear::is_zero(view.instrs, view.instr.operands[0]) && view.n_operands() == 3;
    let is_sum = match (kind, view.instr.op) {
        (FactorKind::Reduce(_), Opcode::Gather) => false,
        (FactorKind::Reduce(_), Opcode::Scatter) => starts_at_zero(),
        (kind, _) => matches!(kind, FactorKind::Reduce(_)),
    };
    if is_sum || tiled(&dim).is_empty() {
        return Ok(dim);
    }
    let what = match view.instr.op {
        Opcode::CustomCall if rule.is_fallback => {
            "is a custom call of which no table says how it splits (`--kernels`), and reads tiles"
        }
        Opcode::Gather => "looks up in a dimension of which each device has a tile",
        Opcode::Scatter => "scatters into, or from, a dimension of which each device has a tile",
        _ if rule.is_fallback => "reads tiles, and cannot be split",
        _ => "works along a dimension of which each device has a tile: neighbours are missing",
    };
    Err(Stop::Cause(what.to_owned()))
}

/// The major parts of a dimension that have so many elements on a device, and the axes before them.
fn major(rest: &mut Dim, size: i64) -> Dim {
    let mut own = Dim::new();
    while local(&own) < size || rest.first().is_some_and(|part| part.axis().is_some() && own.is_empty()) {
        if rest.is_empty() {
            break;
        }
        let part = rest.remove(0);
        let missing = size / local(&own);
        if part.axis().is_none() && part.size > missing && part.size % missing == 0 {
            rest.insert(0, Part { size: part.size / missing, ..part });
            own.push(Part { size: missing, ..part });
        } else {
            own.push(part);
        }
    }
    own
}

fn joined(map: &TensorMap, loops: &[Dim]) -> Vec<Dim> {
    map.iter().map(|dim| dim.iter().flat_map(|&factor| loops[factor as usize].clone()).collect()).collect()
}

/// The axes over which the result is a sum still to be done because operands are.
fn undone(view: &View, operands: &[Vec<Tile>]) -> Result<Partial, Stop> {
    let mut found = Partial::new();
    let axes: Partial = operands.iter().flatten().flat_map(|tile| tile.partial.clone()).collect();
    for (axis, reducer) in axes {
        let has = |leaves: &&Vec<Tile>| leaves.iter().any(|tile| tile.partial.contains_key(&axis));
        let mask = operands
            .iter()
            .enumerate()
            .filter(|(_, leaves)| has(leaves))
            .fold(0u64, |mask, (at, _)| mask | 1 << (at % 64));
        let linear = (view.instr.op.def().linear)(view);
        let is_linear = (reducer == Reducer::Add && linear.contains(&mask)) || linear::is_rounding(view);
        if !is_linear {
            return Err(Stop::Cause("reads a share of a sum that is not yet added up".to_owned()));
        }
        found.insert(axis, reducer);
    }
    Ok(found)
}

/// The same, with the loops that reduce.
fn sums(view: &View, rule: &Rule, loops: &[Dim], mut partial: Partial) -> Result<Partial, Stop> {
    for (factor, dim) in rule.factors.iter().zip(loops) {
        let FactorKind::Reduce(reducer) = factor.kind else { continue };
        for axis in tiled(dim) {
            if partial.insert(axis, reducer).is_some() {
                return Err(Stop::Cause("adds up twice over the same devices".to_owned()));
            }
        }
    }
    let is_twice = |map: &TensorMap| {
        let dims = joined(map, loops);
        dims.iter().flat_map(|dim| tiled(dim)).any(|axis| partial.contains_key(&axis))
    };
    if rule.results.iter().any(is_twice) {
        let op = view.instr.op.as_str();
        return Err(Stop::Cause(format!("is a `{op}` of which the same devices have tiles and summands")));
    }
    Ok(partial)
}

fn leave(val: &mut Val, partial: &Partial) {
    match val {
        Val::Tile(tile) => tile.partial.clone_from(partial),
        Val::Tuple(parts) => parts.iter_mut().for_each(|part| leave(part, partial)),
        _ => {}
    }
}
