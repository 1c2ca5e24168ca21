//! Reads layouts, stage and phase of one instruction.

use super::{Facts, InstrFacts, Leaf, Phase};
use crate::partial;
use crate::pricing::{AxisMask, axes_of};
use phzc_ir::ops::collective::started_leaves;
use phzc_ir::ops::control::control_comps;
use phzc_ir::{
    ArrayShape, AttentionNote, CompId, Instr, InstrId, Key, Layout, Mesh, Module, Opcode, Shape, Tiles,
    Tiling, TilingKind, Value, counted, notes,
};
use smallvec::SmallVec;

/// What is wrong: whether it is fatal, and why.
type Found = Vec<(bool, String)>;

/// Reads tilings; programs have few different ones, so those seen are kept.
#[derive(Default)]
pub struct Reader<'m> {
    seen: Vec<(&'m Tiling, usize, usize, Option<Layout>)>,
}

impl<'m> Reader<'m> {
    /// Layouts, stage and phase, with what is wrong about them.
    pub fn read(
        &mut self,
        module: &'m Module,
        facts: &Facts,
        comp: CompId,
        id: InstrId,
    ) -> (InstrFacts, Found) {
        let instr = module.comp(comp).instr(id);
        let mut found = Found::new();
        let stage = stage(instr, facts.header.meshes.len(), &mut found);
        let stages = leaf_stages(module, facts, comp, instr, stage);
        let sums = sums(noted(module, comp, instr), instr.shape.leaves().len(), &mut found);
        let leaves = self.leaves(instr, &stages, &sums, facts, &mut found);
        let (phase, attention) = (phase(instr, &mut found), attention(instr, &mut found));
        let shapes = instr.shape.leaves();
        let local = |(shape, leaf): (&&Shape, &Leaf)| {
            shape
                .as_array()
                .map_or(0.0, |array| local_bytes(array, leaf.layout, &facts.header.meshes[leaf.stage]))
        };
        let mut bytes: SmallVec<[f64; 1]> = shapes.iter().zip(&leaves).map(local).collect();
        if let Some(own) = started_leaves(instr) {
            // The others are its operands' buffers.
            bytes
                .iter_mut()
                .enumerate()
                .filter(|(leaf, _)| !own.contains(leaf))
                .for_each(|(_, it)| *it = 0.0);
        }
        (InstrFacts { leaves, bytes, stage, phase, attention, ..InstrFacts::default() }, found)
    }

    fn leaves(
        &mut self,
        instr: &'m Instr,
        stages: &[usize],
        sums: &[AxisMask],
        facts: &Facts,
        found: &mut Found,
    ) -> SmallVec<[Leaf; 1]> {
        if facts.header.is_local {
            // Shapes are local; what shardings there are tell of the global values.
            return stages.iter().map(|&stage| Leaf { stage, ..Leaf::default() }).collect();
        }
        let shapes = instr.shape.leaves();
        let tilings = instr.sharding().map(|sharding| sharding.leaves(shapes.len())).unwrap_or_default();
        if tilings.len() != shapes.len() {
            let is_missing = instr.sharding().is_none();
            if is_missing && facts.header.n_replica_devices() == 1 {
                return stages.iter().map(|&stage| Leaf { stage, ..Leaf::default() }).collect();
            }
            let what = if is_missing {
                "has no layout".to_owned()
            } else {
                format!("has {} but {}", counted(shapes.len(), "part"), counted(tilings.len(), "layout"))
            };
            found.push((false, format!("`{}` {what}", instr.name)));
            return stages.iter().map(|&stage| Leaf { stage, ..Leaf::default() }).collect();
        }
        let pairs = shapes.iter().zip(tilings).zip(stages).zip(sums);
        pairs
            .map(|(((shape, tiling), &stage), &partial)| {
                let mesh = &facts.header.meshes[stage];
                let layout = self.leaf(instr, shape, tiling, (stage, mesh), found);
                let is_free = |axis: usize| axis < mesh.n_axes() && layout.dim_of(axis).is_none();
                if !axes_of(partial).all(is_free) {
                    let message = format!("`{}` is partial over axes that split it or are none", instr.name);
                    found.push((true, message));
                    return Leaf { layout, stage, partial: 0 };
                }
                Leaf { layout, stage, partial }
            })
            .collect()
    }

    fn leaf(
        &mut self,
        instr: &Instr,
        shape: &Shape,
        tiling: &'m Tiling,
        mesh: (usize, &Mesh),
        found: &mut Found,
    ) -> Layout {
        let empty = ArrayShape::new(phzc_ir::DType::Pred, &[]);
        let array = shape.as_array().unwrap_or(&empty);
        let Some(layout) = self.layout(tiling, array.rank(), mesh) else {
            found.push((
                false,
                format!(
                    "`{}` has the layout {tiling}, which is not one of the mesh {}",
                    instr.name,
                    named(mesh.1)
                ),
            ));
            return Layout::REPLICATED;
        };
        if !layout.divides(&array.dims, mesh.1) {
            let is_fatal = instr.op == Opcode::Parameter;
            found.push((
                is_fatal,
                format!("`{}` is split unevenly: {tiling} of {:?}", instr.name, array.dims.as_slice()),
            ));
        }
        layout
    }

    fn layout(&mut self, tiling: &'m Tiling, rank: usize, (stage, mesh): (usize, &Mesh)) -> Option<Layout> {
        if mesh.n_axes() == 0 {
            let is_whole = |tiles: &Tiles| tiles.device_ids() == [0] && tiles.n_devices() == Some(1);
            let is_legal = !matches!(&tiling.kind, TilingKind::Tiled(tiles) if !is_whole(tiles));
            return is_legal.then_some(Layout::REPLICATED);
        }
        let same = |entry: &&(&Tiling, usize, usize, Option<Layout>)| {
            entry.1 == rank && entry.2 == stage && entry.0.kind == tiling.kind
        };
        if let Some(entry) = self.seen.iter().find(same) {
            return entry.3;
        }
        let layout = Layout::from_tiling(tiling, rank, mesh);
        self.seen.push((tiling, rank, stage, layout));
        layout
    }
}

/// Who has the notes on sums for an instruction: the loop for the tuple that its body or condition starts
/// with.
fn noted<'m>(module: &'m Module, comp: CompId, instr: &'m Instr) -> &'m Instr {
    let is_carried = instr.op == Opcode::Parameter && matches!(instr.shape, Shape::Tuple(_));
    if !is_carried || comp == module.entry || partial::is_noted(instr) {
        return instr;
    }
    let mut loops = module.comps.iter().flat_map(|comp| &comp.instrs).filter(|it| it.op == Opcode::While);
    loops.find(|it| control_comps(it).contains(&comp)).unwrap_or(instr)
}

/// The axes over which each leaf is partial.
fn sums(instr: &Instr, n_leaves: usize, found: &mut Found) -> Vec<AxisMask> {
    partial::read(instr, n_leaves).unwrap_or_else(|bad| {
        found.push((
            true,
            format!("`{}` is partial over `{bad}`, which is no list of axes per leaf", instr.name),
        ));
        vec![0; n_leaves]
    })
}

fn named(mesh: &Mesh) -> String {
    format!("`{mesh}`")
}

/// The text of a note, which is a problem if it is not in quotes.
fn note<'i>(instr: &'i Instr, key: &str, found: &mut Found) -> Option<&'i str> {
    let Some(Value::Notes(notes)) = instr.attr(Key::FrontendAttributes) else { return None };
    let text = instr.note(key);
    if text.is_none() && notes.iter().any(|(name, _)| &**name == key) {
        found.push((true, format!("`{}` has a note `{key}` that is not in quotes", instr.name)));
    }
    text
}

fn phase(instr: &Instr, found: &mut Found) -> Phase {
    let text = note(instr, notes::PHASE, found);
    if let Some(unknown) = text.filter(|text| !["fwd", "bwd", "upd"].contains(text)) {
        let message = format!("`{}` is in phase `{unknown}`: a phase is `fwd`, `bwd` or `upd`", instr.name);
        found.push((true, message));
    }
    Phase::parse(text)
}

fn attention(instr: &Instr, found: &mut Found) -> Option<AttentionNote> {
    let text = note(instr, notes::ATTENTION, found)?;
    let attention = AttentionNote::parse(text);
    if attention.is_none() {
        let message = format!("`{}` is in attention `{text}`: say `3`, or `3:qkd` of a product", instr.name);
        found.push((true, message));
    }
    attention
}

fn stage(instr: &Instr, n_stages: usize, found: &mut Found) -> usize {
    let Some(text) = note(instr, notes::STAGE, found) else { return 0 };
    match text.parse::<usize>() {
        Ok(stage) if stage < n_stages => stage,
        _ => {
            found.push((
                true,
                format!("`{}` is in stage `{text}` of {}", instr.name, counted(n_stages, "stage")),
            ));
            0
        }
    }
}

/// Tuples and their elements keep the stages of what they are made of.
fn leaf_stages(
    module: &Module,
    facts: &Facts,
    comp: CompId,
    instr: &Instr,
    stage: usize,
) -> SmallVec<[usize; 1]> {
    let of =
        |operand: InstrId| facts.comps[comp.index()][operand.index()].leaves.iter().map(|leaf| leaf.stage);
    match instr.op {
        Opcode::Tuple | Opcode::OptBarrier => instr.operands.iter().copied().flat_map(of).collect(),
        Opcode::GetTupleElement => {
            let tuple = &module.comp(comp).instr(instr.operands[0]).shape;
            of(instr.operands[0]).skip(element_start(instr, tuple)).take(instr.shape.n_leaves()).collect()
        }
        _ => SmallVec::from_elem(stage, instr.shape.n_leaves()),
    }
}

/// The first leaf of `tuple` that a `get-tuple-element` takes.
pub fn element_start(instr: &Instr, tuple: &Shape) -> usize {
    let index = instr.int(Key::Index).unwrap_or(0) as usize;
    tuple.parts().iter().take(index).map(Shape::n_leaves).sum()
}

/// Bytes of one device's tile; the last tile of a dimension that does not divide is padded.
pub fn local_bytes(array: &ArrayShape, layout: Layout, mesh: &Mesh) -> f64 {
    let tile = |(dim, &size): (usize, &i64)| {
        let tiles = layout.tiles(dim, mesh);
        if size < 0 { 1.0 } else { ((size + tiles - 1) / tiles) as f64 }
    };
    array.dtype.bytes_of(array.dims.iter().enumerate().map(tile).product())
}
