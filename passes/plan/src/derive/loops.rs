//! One op on one mesh: which loop each axis splits, what that leaves to communicate, and what is not legal.
//!
//! Axis by axis. An axis on a pass loop of the result splits that loop: operands that hold the loop are split
//! alike or sliced locally. An axis on a reduction loop of the operands leaves partial results: an
//! all-reduce, or a reduce-scatter where the result is split by that axis. Anything else would take a change
//! of layout that the plan does not mention.

use super::split::{Split, splits};
use crate::pricing::{AxisMask, axes_of};
use phzc_cost::Collective;
use phzc_ir::{FactorId, FactorKind, Layout, MAX_AXES, Mesh, Reducer, Rule, TensorMap};
use smallvec::SmallVec;
use std::collections::BTreeMap;

/// How an op's loops lie on the mesh.
#[derive(Debug, Default)]
pub struct Loops {
    /// Per axis the loop that it splits.
    pub split: [Option<FactorId>; MAX_AXES],
    /// Communication, in order.
    pub steps: Vec<OpStep>,
    /// What is not legal, each to be read after the instruction's name.
    pub problems: Vec<String>,
}

/// A collective of an op, on one operand or on one leaf of the result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OpStep {
    /// Which.
    pub kind: Collective,
    /// The axes whose devices talk.
    pub axes: AxisMask,
    /// The operand leaf that moves, if it is not the result.
    pub operand: Option<usize>,
    /// The result leaf that moves.
    pub result: usize,
    /// The axes along which the message is as many times as large as what one device has of the tensor: of an
    /// operand before an all-gather, of a result after all reduce-scatters.
    pub larger_along: AxisMask,
    /// Of an exchange between neighbours: so many of so many elements of the operand's tile move.
    pub halo: Option<(i64, i64)>,
    /// Whether the plan does not mention it.
    pub is_implicit: bool,
}

impl OpStep {
    /// Message bytes over the local bytes of the tensor.
    pub fn message_factor(&self, mesh: &Mesh) -> f64 {
        let larger: f64 = axes_of(self.larger_along).map(|axis| mesh.sizes[axis] as f64).product();
        self.halo.map_or(larger, |(moved, own)| larger * moved as f64 / own as f64)
    }
}

impl Loops {
    /// The axes that split some loop.
    pub fn axes(&self) -> AxisMask {
        (0..MAX_AXES).filter(|&axis| self.split[axis].is_some()).fold(0, |mask, axis| mask | 1 << axis)
    }

    /// The major axis that splits a loop.
    pub fn axis_of(&self, factor: FactorId) -> Option<usize> {
        self.split.iter().position(|&split| split == Some(factor))
    }

    /// Into how many parts the op cuts a tensor with these factors.
    pub fn n_tiles(&self, map: &TensorMap, mesh: &Mesh) -> f64 {
        let holds =
            |axis: &usize| self.split[*axis].is_some_and(|id| map.iter().any(|dim| dim.contains(&id)));
        (0..mesh.n_axes()).filter(holds).map(|axis| mesh.sizes[axis] as f64).product()
    }
}

/// The loops of an op with these layouts of operand leaves (none: lands as wanted) and result leaves, which
/// stays partial over the axes `left`.
pub fn loops(
    rule: &Rule,
    operands: &[Option<Layout>],
    (results, left): (&[Layout], AxisMask),
    mesh: &Mesh,
) -> Loops {
    let splits_of =
        |(map, layout): (&TensorMap, Option<Layout>)| layout.map(|layout| splits(layout, map, rule, mesh));
    let mut judge = Judge {
        rule,
        mesh,
        operands: rule.operands.iter().zip(operands.iter().copied()).map(splits_of).collect(),
        results: rule
            .results
            .iter()
            .zip(results)
            .map(|(map, &layout)| splits(layout, map, rule, mesh))
            .collect(),
        loops: Loops::default(),
        scattered: 0,
        reduced: 0,
    };
    for axis in 0..mesh.n_axes() {
        judge.block(axis);
        judge.axis(axis);
    }
    judge.leave(left);
    judge.reductions();
    judge.halos();
    judge.orders();
    judge.loops
}

struct Judge<'a> {
    rule: &'a Rule,
    mesh: &'a Mesh,
    operands: SmallVec<[Option<[Split; MAX_AXES]>; 4]>,
    results: SmallVec<[[Split; MAX_AXES]; 2]>,
    loops: Loops,
    /// Axes over which partial results are scattered, and over which they are reduced.
    scattered: AxisMask,
    reduced: AxisMask,
}

impl Judge<'_> {
    fn kind(&self, id: FactorId) -> FactorKind {
        self.rule.factors[id as usize].kind
    }

    /// Takes out splits that no op of this kind can work with: an operand is gathered, a result sliced.
    fn block(&mut self, axis: usize) {
        for index in 0..self.operands.len() {
            let Some(splits) = &mut self.operands[index] else { continue };
            if let Some(why) = blocked(self.rule, splits, axis, self.mesh) {
                splits[axis] = Split::Whole;
                let problem =
                    format!("cannot work on operand {index} split on {}: {why}", name(self.mesh, axis));
                self.loops.problems.push(problem);
                self.implicit(Collective::AllGather, axis, Some(index), 0);
            }
        }
        for splits in &mut self.results {
            if let Some(why) = blocked(self.rule, splits, axis, self.mesh) {
                splits[axis] = Split::Whole;
                self.loops
                    .problems
                    .push(format!("cannot make its result split on {}: {why}", name(self.mesh, axis)));
            }
        }
    }

    fn implicit(&mut self, kind: Collective, axis: usize, operand: Option<usize>, result: usize) {
        let axes = 1 << axis;
        let is_gathered = kind == Collective::AllGather && operand.is_some();
        let larger_along = if is_gathered { axes } else { 0 };
        let step = OpStep { kind, axes, operand, result, larger_along, halo: None, is_implicit: true };
        self.loops.steps.push(step);
    }

    /// Decides the loop that an axis splits, then finds what does not lie along it.
    fn axis(&mut self, axis: usize) {
        let on = |splits: &[Split; MAX_AXES]| match splits[axis] {
            Split::Loop(id) => Some(id),
            _ => None,
        };
        let out = self.results.iter().find_map(on);
        let read = self.operands.iter().flatten().filter_map(on);
        let partial = read.clone().find(|&id| matches!(self.kind(id), FactorKind::Reduce(_)));
        let split = match (out, partial) {
            (Some(out), Some(_)) if read.clone().any(|id| id == out) => Some(out),
            (_, Some(partial)) => Some(partial),
            (out, None) => out,
        };
        self.loops.split[axis] = split;
        if split.is_some() && split == partial {
            let mask = if out.is_some() { &mut self.scattered } else { &mut self.reduced };
            *mask |= 1 << axis;
        }
        self.misplaced_operands(axis);
        self.misplaced_results(axis, out);
    }

    /// Operands that an axis splits on another loop than the op.
    fn misplaced_operands(&mut self, axis: usize) {
        let split = self.loops.split[axis];
        for index in 0..self.operands.len() {
            let Some(Split::Loop(own)) = self.operands[index].map(|splits| splits[axis]) else { continue };
            if Some(own) == split {
                continue;
            }
            let holds = split.is_some_and(|id| self.rule.operands[index].iter().any(|dim| dim.contains(&id)));
            let kind = if holds { Collective::AllToAll } else { Collective::AllGather };
            let verb = if holds { "moved" } else { "gathered" };
            self.loops.problems.push(format!("needs operand {index} {verb} along {}", name(self.mesh, axis)));
            self.implicit(kind, axis, Some(index), 0);
        }
    }

    /// Result leaves that an axis splits on another loop than the first that it splits.
    fn misplaced_results(&mut self, axis: usize, out: Option<FactorId>) {
        let Some(out) = out else { return };
        for index in 0..self.results.len() {
            let holds = self.rule.results[index].iter().any(|dim| dim.contains(&out));
            let kind = match self.results[index][axis] {
                Split::Loop(own) if own != out => Collective::AllToAll,
                Split::Whole if holds => Collective::AllGather,
                _ => continue,
            };
            self.loops.problems.push(format!(
                "makes part {index} of its result split otherwise along {}",
                name(self.mesh, axis)
            ));
            self.implicit(kind, axis, None, index);
        }
    }

    /// Leaves sums undone: the movements after it do them.
    fn leave(&mut self, axes: AxisMask) {
        for axis in axes_of(axes) {
            let kind = self.loops.split[axis].map(|id| self.kind(id));
            if kind != Some(FactorKind::Reduce(Reducer::Add))
                || self.reduced >> axis & 1 == 0
                || self.results.len() > 1
            {
                let problem = format!(
                    "is said to be partial over {}, along which it sums nothing up",
                    name(self.mesh, axis)
                );
                self.loops.problems.push(problem);
            }
        }
        self.reduced &= !axes;
    }

    /// Partial results are scattered dimension by dimension, then reduced loop by loop: XLA's partitioner
    /// reduces each contracted dimension by a collective of its own (docs/xla-judge.md).
    fn reductions(&mut self) {
        for index in 0..self.results.len() {
            let mut by_loop: Vec<(FactorId, AxisMask)> = Vec::new();
            for axis in axes_of(self.scattered) {
                let Split::Loop(id) = self.results[index][axis] else { continue };
                match by_loop.iter_mut().find(|(other, _)| *other == id) {
                    Some((_, mask)) => *mask |= 1 << axis,
                    None => by_loop.push((id, 1 << axis)),
                }
            }
            let step = |kind, axes, larger_along| OpStep {
                kind,
                axes,
                operand: None,
                result: index,
                larger_along,
                halo: None,
                is_implicit: false,
            };
            // A scatter has what the later ones cut as a whole.
            let scatters = (0..by_loop.len()).map(|at| {
                let larger_along = by_loop[at..].iter().fold(0, |mask, (_, axes)| mask | axes);
                step(Collective::ReduceScatter, by_loop[at].1, larger_along)
            });
            let reduces = self.reduced_loops().into_iter().map(|axes| step(Collective::AllReduce, axes, 0));
            self.loops.steps.extend(scatters.chain(reduces));
        }
    }

    /// The axes of each loop that is summed whole.
    fn reduced_loops(&self) -> Vec<AxisMask> {
        let mut by_loop: BTreeMap<Option<FactorId>, AxisMask> = BTreeMap::new();
        for axis in axes_of(self.reduced) {
            *by_loop.entry(self.loops.split[axis]).or_default() |= 1 << axis;
        }
        by_loop.into_values().collect()
    }

    /// Neighbours exchange the edges of their tiles, one direction after the other; those along a second
    /// dimension with the corners, which the first has brought.
    fn halos(&mut self) {
        let mut wide: SmallVec<[(i64, i64); 2]> = SmallVec::from_elem((1, 1), self.rule.operands.len());
        for halo in &self.rule.halos {
            let Some(axis) = self.loops.axis_of(halo.factor) else { continue };
            let n_own = self.rule.factors[halo.factor as usize].size / self.mesh.sizes[axis];
            let (own, before) = (self.rule.n_elements(halo, n_own), wide[halo.operand]);
            let of = |n: i64| (before.0.saturating_mul(n), before.1.saturating_mul(own));
            for moved in [halo.low, halo.high].into_iter().filter(|&moved| moved > 0) {
                self.loops.steps.push(OpStep {
                    kind: Collective::Permute,
                    axes: 1 << axis,
                    operand: Some(halo.operand),
                    result: 0,
                    larger_along: 0,
                    halo: Some(of(moved)),
                    is_implicit: false,
                });
            }
            wide[halo.operand] = of(own + halo.low + halo.high);
        }
    }

    /// Where several axes split one loop, what a device has must contain what it needs: it may only be split
    /// further by minor axes.
    fn orders(&mut self) {
        for id in (0..self.rule.factors.len()).map(|id| id as FactorId) {
            let along = |splits: &dyn Fn(usize) -> bool| {
                (0..self.mesh.n_axes()).filter(|&axis| splits(axis)).collect::<Axes>()
            };
            let own = along(&|axis| self.loops.split[axis] == Some(id));
            let held = |splits: &[Split; MAX_AXES]| along(&|axis| splits[axis] == Split::Loop(id));
            let operands: Vec<(usize, Axes)> = self
                .operands
                .iter()
                .enumerate()
                .filter_map(|(index, splits)| Some((index, held(splits.as_ref()?))))
                .collect();
            let results: Vec<(usize, Axes)> = self.results.iter().map(held).enumerate().collect();
            for (index, held) in operands {
                if !held.is_empty() && held.iter().all(|axis| own.contains(axis)) && !own.starts_with(&held) {
                    self.reordered(held[0], Some(index), 0);
                }
            }
            for (index, held) in results {
                let made: Axes = held.iter().copied().filter(|axis| own.contains(axis)).collect();
                if !made.is_empty() && !held.starts_with(&made) {
                    self.reordered(made[0], None, index);
                }
            }
        }
    }

    fn reordered(&mut self, axis: usize, operand: Option<usize>, result: usize) {
        let what = operand.map_or("its result".to_owned(), |index| format!("operand {index}"));
        self.loops.problems.push(format!(
            "needs the tiles of {what} in another order: {} is not the minor axis",
            name(self.mesh, axis)
        ));
        self.implicit(Collective::Permute, axis, operand, result);
    }
}

type Axes = SmallVec<[usize; MAX_AXES]>;

fn name(mesh: &Mesh, axis: usize) -> String {
    format!("`{}`", mesh.axis_name(axis))
}

/// Why an axis' split of a tensor cannot be worked with.
fn blocked(rule: &Rule, splits: &[Split; MAX_AXES], axis: usize, mesh: &Mesh) -> Option<&'static str> {
    match splits[axis] {
        Split::Whole => None,
        Split::Misfit => Some("the tiles do not follow the dimensions that are merged there"),
        Split::Loop(id) => match rule.factors[id as usize].kind {
            FactorKind::Pass | FactorKind::Reduce(_) => out_of_reach(rule, id, splits, mesh),
            FactorKind::Permute => Some("neighbours would have to exchange elements"),
            FactorKind::Replicate => Some("the dimension has to be whole"),
        },
    }
}

/// Why a tile's neighbours along a loop, those before and behind it, do not have all that it needs.
fn out_of_reach(rule: &Rule, id: FactorId, splits: &[Split; MAX_AXES], mesh: &Mesh) -> Option<&'static str> {
    let least = rule.least_tile(id)?;
    let mut axes = (0..mesh.n_axes()).filter(|&axis| splits[axis] == Split::Loop(id));
    let size = rule.factors[id as usize].size / axes.next().map_or(1, |axis| mesh.sizes[axis]);
    match axes.next() {
        Some(_) => Some("its windows would reach over tiles of two axes"),
        None if size < least => Some("its windows reach further than the next tile"),
        None => None,
    }
}
