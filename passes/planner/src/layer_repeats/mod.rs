//! Equal layers of a program that is written out: which instructions of the entry are copies of one another.
//!
//! ```text
//! a1 = dot(x, w1)  a2 = dot(a1, w2)  a3 = dot(a2, w3) …     →     a1 ~ a2 ~ a3 …, w1 ~ w2 ~ w3 …
//! ```
//!
//! Products in a row that repeat say which instructions correspond; from them the correspondence spreads
//! along operands and readers, to parameters, the backward part and the update. Layers are equal that read
//! and are read exactly as their neighbours; a program with fewer ([`representative_layers`]) has all that a
//! plan can differ in, and a plan of it tells that of the whole ([`expand`]).

pub mod expand;
mod receive;
pub mod representative_layers;
#[cfg(test)]
pub(crate) mod tests;

use indexmap::IndexMap;
use phzc_analysis::repeats::repeats;
use phzc_ir::ops::control::control_comps;
use phzc_ir::{CompId, Computation, FusionKind, Instr, InstrId, Key, Module, Payload, Value};
use rustc_hash::{FxBuildHasher, FxHasher};
use std::collections::VecDeque;
use std::hash::{Hash, Hasher};

/// Layers that are copies of one another.
#[derive(Clone, Debug)]
pub struct Copies {
    /// Per instruction of the entry: the number of its layer; what comes before the first equal layers and
    /// after the last has numbers of its own.
    of: Vec<Option<i32>>,
    /// Per instruction: its counterpart in the next layer.
    pub next: Vec<Option<InstrId>>,
    /// Per instruction: its counterpart in the layer before.
    pub prev: Vec<Option<InstrId>>,
    /// The first and the last of the layers that are alike.
    inner: [i32; 2],
}

impl Copies {
    /// What is repeated in a module, layer by layer, their ends not yet settled; `None` where nothing is.
    pub fn find(module: &Module) -> Option<Copies> {
        let mut finder = Finder::new(module);
        finder.anchor()?;
        finder.spread();
        let mut found = finder.copies;
        let known = || found.of.iter().flatten().copied();
        found.inner = [known().min()?, known().max()?];
        Some(found)
    }

    /// Layers: the equal ones, one for all before them and one for all after.
    pub fn n(&self) -> usize {
        (self.inner[1] - self.inner[0] + 3) as usize
    }

    /// An instruction's layer: 0 before the equal ones.
    pub fn of(&self, id: InstrId) -> Option<usize> {
        let [first, last] = self.inner;
        self.of[id.index()].map(|own| (own.clamp(first - 1, last + 1) - first + 1) as usize)
    }

    /// The same copies, counted to other layers.
    fn in_layers(&self, layer: impl Fn(InstrId, i32) -> i32) -> Copies {
        let mut found = self.clone();
        for (at, own) in found.of.iter_mut().enumerate() {
            *own = own.map(|own| layer(InstrId::new(at), own));
        }
        found
    }

    /// Finds the longest row of layers each of which is as the one before it.
    fn with_inner(mut self, comp: &Computation) -> Option<Copies> {
        let known = || self.of.iter().flatten().copied();
        let (least, most) = (known().min()?, known().max()?);
        let mut is_like_next = vec![true; (most - least + 1) as usize];
        for (id, instr) in comp.iter() {
            let Some(own) = self.of[id.index()] else { continue };
            is_like_next[(own - least) as usize] &= self.is_like_next(comp, own, id, instr);
            if own > least && self.prev[id.index()].is_none() {
                is_like_next[(own - 1 - least) as usize] = false;
            }
        }
        let mut best = (0, 0);
        let mut first = 0;
        for (at, is_like) in is_like_next.iter().enumerate() {
            if !is_like {
                best = if at - first > best.1 - best.0 { (first, at) } else { best };
                first = at + 1;
            }
        }
        self.inner = [least + best.0 as i32, least + best.1 as i32];
        (best.1 > best.0).then_some(self)
    }

    /// Whether an instruction has a counterpart in the next layer that reads the counterparts of what it
    /// reads, from the same layer or a neighbour.
    fn is_like_next(&self, comp: &Computation, own: i32, id: InstrId, instr: &Instr) -> bool {
        let Some(next) = self.next[id.index()] else { return false };
        let is_alike = |(a, b): (&InstrId, &InstrId)| match self.of[a.index()] {
            None => a == b,
            Some(layer) => self.next[a.index()] == Some(*b) && (layer - own).abs() <= 1,
        };
        self.of[next.index()] == Some(own + 1)
            && instr.operands.iter().zip(&comp.instr(next).operands).all(is_alike)
    }
}

struct Finder<'a> {
    comp: &'a Computation,
    /// Per computation: the first that is equal to it.
    canonical: Vec<CompId>,
    keys: Vec<u64>,
    /// Per instruction: who reads it, at which operand.
    readers: Vec<Vec<(InstrId, usize)>>,
    copies: Copies,
    todo: VecDeque<(InstrId, InstrId)>,
}

impl<'a> Finder<'a> {
    fn new(module: &'a Module) -> Finder<'a> {
        let comp = module.entry();
        let n_instrs = comp.instrs.len();
        let mut readers = vec![Vec::new(); n_instrs];
        for (id, instr) in comp.iter().filter(|(id, _)| *id != comp.root) {
            let operands = instr.operands.iter().enumerate();
            operands.for_each(|(at, operand)| readers[operand.index()].push((id, at)));
        }
        let none = vec![None; n_instrs];
        let copies = Copies { of: vec![None; n_instrs], next: none.clone(), prev: none, inner: [0; 2] };
        let keys = comp.instrs.iter().map(key).collect();
        Finder { comp, canonical: canonical(module), keys, readers, copies, todo: VecDeque::new() }
    }

    fn products(&self) -> Vec<InstrId> {
        let is_product = |instr: &Instr| instr.op.def().fusion == FusionKind::Matrix;
        self.comp.iter().filter(|(_, instr)| is_product(instr)).map(|(id, _)| id).collect()
    }

    /// Pairs the products of neighbouring layers, counted in forward order.
    fn anchor(&mut self) -> Option<()> {
        let products = self.products();
        let keys: Vec<u64> = products.iter().map(|&id| self.product_key(id)).collect();
        let found = repeats(&keys);
        let first = found.first()?.1.clone();
        let layers: Vec<_> = std::iter::once(first).chain(found.into_iter().map(|(copy, _)| copy)).collect();
        for (layer, pair) in layers.windows(2).enumerate() {
            for (a, b) in pair[0].clone().zip(pair[1].clone()) {
                self.pair(products[a], products[b], layer as i32);
            }
        }
        Some(())
    }

    /// What a product does: of square matrices, only its attributes tell forward from backward.
    fn product_key(&self, id: InstrId) -> u64 {
        let mut hasher = FxHasher::default();
        let said = said(self.comp.instr(id), &self.canonical);
        (self.keys[id.index()], format!("{said:?}")).hash(&mut hasher);
        hasher.finish()
    }

    /// Follows operands and readers of what corresponds.
    fn spread(&mut self) {
        while let Some((a, b)) = self.todo.pop_front() {
            let Some(layer) = self.copies.of[a.index()] else { continue };
            let (read, like) = (&self.comp.instr(a).operands, &self.comp.instr(b).operands);
            for (&a, &b) in read.iter().zip(like) {
                self.pair(a, b, layer);
            }
            for (a, b) in self.readers_alike(a, b) {
                self.pair(a, b, layer);
            }
        }
        if self.is_backwards() {
            self.reverse();
        }
    }

    /// Readers of `a` and of `b` that do the same, in program order; where one has more of a kind, none of
    /// that kind.
    fn readers_alike(&self, a: InstrId, b: InstrId) -> Vec<(InstrId, InstrId)> {
        let kinds = |of: InstrId| {
            let mut kinds: IndexMap<(u64, usize), Vec<InstrId>, FxBuildHasher> = IndexMap::default();
            for &(reader, at) in &self.readers[of.index()] {
                kinds.entry((self.keys[reader.index()], at)).or_default().push(reader);
            }
            kinds
        };
        let others = kinds(b);
        let alike = |(kind, own): (&(u64, usize), &Vec<InstrId>)| {
            let others = others.get(kind).filter(|others| others.len() == own.len());
            own.iter().copied().zip(others.into_iter().flatten().copied()).collect::<Vec<_>>()
        };
        kinds(a).iter().flat_map(alike).collect()
    }

    /// Notes that `b` is in the layer after `layer` what `a` is in it, unless something else is known.
    fn pair(&mut self, a: InstrId, b: InstrId, layer: i32) {
        let Copies { of, next, prev, .. } = &mut self.copies;
        if a == b || next[a.index()].is_some() || prev[b.index()].is_some() {
            return;
        }
        let own = of[a.index()].unwrap_or(layer);
        let is_new = of[b.index()].is_none_or(|other| other == own + 1);
        if !is_new || !self.is_same(a, b) {
            return;
        }
        let Copies { of, next, prev, .. } = &mut self.copies;
        (of[a.index()], of[b.index()]) = (Some(own), Some(own + 1));
        (next[a.index()], prev[b.index()]) = (Some(b), Some(a));
        self.todo.push_back((a, b));
    }

    /// Whether two instructions do the same to their operands.
    fn is_same(&self, a: InstrId, b: InstrId) -> bool {
        let (a, b) = (self.comp.instr(a), self.comp.instr(b));
        let is_one_value = matches!(a.payload, Payload::Parameter(_)) || a.payload == b.payload;
        a.op == b.op
            && a.operands.len() == b.operands.len()
            && a.shape == b.shape
            && is_one_value
            && control_comps(a).is_empty()
            && same_attrs(a, b, &self.canonical)
    }

    /// Whether layers are counted from the program's end: then most of the first products, the forward
    /// part's, have their counterparts before them.
    fn is_backwards(&self) -> bool {
        let next = |id: InstrId| self.copies.next[id.index()];
        let ascends: Vec<bool> = self.products().into_iter().filter_map(|id| Some(next(id)? > id)).collect();
        let first = &ascends[..ascends.len().div_ceil(3)];
        2 * first.iter().filter(|ascends| **ascends).count() < first.len()
    }

    fn reverse(&mut self) {
        let Copies { of, next, prev, .. } = &mut self.copies;
        of.iter_mut().flatten().for_each(|layer| *layer = -*layer);
        std::mem::swap(next, prev);
    }
}

/// What an instruction does, roughly: equal ones have equal keys.
fn key(instr: &Instr) -> u64 {
    let mut hasher = FxHasher::default();
    (instr.op, instr.operands.len()).hash(&mut hasher);
    for leaf in instr.shape.leaves() {
        if let Some(array) = leaf.as_array() {
            (array.dtype, array.dims.as_slice()).hash(&mut hasher);
        }
    }
    hasher.finish()
}

/// Whether two instructions have equal attributes, those left out that say nothing of what they compute.
fn same_attrs(a: &Instr, b: &Instr, canonical: &[CompId]) -> bool {
    said(a, canonical) == said(b, canonical)
}

/// What the attributes say of what an instruction computes.
fn said(instr: &Instr, canonical: &[CompId]) -> Vec<(Key, Value)> {
    let is_said =
        |key: &Key| !matches!(key, Key::Metadata | Key::FrontendAttributes | Key::Sharding | Key::Origin);
    let value = |value: &Value| match value {
        Value::Comp(comp) => Value::Comp(canonical[comp.index()]),
        Value::Comps(comps) => Value::Comps(comps.iter().map(|comp| canonical[comp.index()]).collect()),
        other => other.clone(),
    };
    let said = instr.attrs.iter().filter(|attr| is_said(&attr.key));
    said.map(|attr| (attr.key.clone(), value(&attr.value))).collect()
}

/// Per computation: the first that does the same.
fn canonical(module: &Module) -> Vec<CompId> {
    let mut found: Vec<CompId> = Vec::new();
    let mut seen: IndexMap<u64, Vec<CompId>, FxBuildHasher> = IndexMap::default();
    for (at, comp) in module.comps.iter().enumerate() {
        let id = CompId::new(at);
        if id == module.entry {
            found.push(id);
            continue;
        }
        let mut hasher = FxHasher::default();
        comp.instrs.iter().for_each(|instr| key(instr).hash(&mut hasher));
        let like = seen.entry(hasher.finish()).or_default();
        let first = like.iter().copied().find(|&other| same_comps(module.comp(other), comp, &found));
        if first.is_none() {
            like.push(id);
        }
        found.push(first.unwrap_or(id));
    }
    found
}

fn same_comps(a: &Computation, b: &Computation, canonical: &[CompId]) -> bool {
    let same = |(a, b): (&Instr, &Instr)| {
        a.op == b.op
            && a.operands == b.operands
            && a.shape == b.shape
            && a.payload == b.payload
            && same_attrs(a, b, canonical)
    };
    a.root == b.root && a.instrs.len() == b.instrs.len() && a.instrs.iter().zip(&b.instrs).all(same)
}
