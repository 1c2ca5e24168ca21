//! Which dimensions become longer: those that run over the same loop of some product, all together.

use super::mask::neutral;
use phzc_ir::effects::has_side_effect;
use phzc_ir::ops::control::control_comps;
use phzc_ir::{
    FactorId, FactorKind, Instr, InstrId, Key, Module, Opcode, Reducer, Rule, TensorMap, Value, View,
    annotations,
};
use std::collections::{BTreeMap, BTreeSet};

/// The sizes that loops get, and the instructions that run them.
pub struct Longer {
    places: Places,
    /// By representative.
    sizes: BTreeMap<usize, i64>,
    /// Instructions, each with the representative of a loop that it runs longer.
    runs: BTreeSet<(InstrId, usize)>,
    /// The same, for what products sum up.
    summed: BTreeSet<(InstrId, usize)>,
}

/// A loop of an instruction that runs longer.
pub struct Run {
    /// The loop.
    pub it: Loop,
    /// How many times it runs.
    pub longer: i64,
    /// Whether a product sums up what it makes.
    pub is_summed: bool,
}

impl Longer {
    /// Lengthens what a product runs over to what most of `n_devices` divide, by `waste` percent at most.
    pub fn of(module: &Module, n_devices: i64, waste: i64) -> Longer {
        let mut places = Places::of(module);
        let mut products = Vec::new();
        for (id, instr) in module.entry().iter() {
            let view = View::new(module, module.entry, id);
            for it in loops(&view) {
                let at = places.tie(&view, id, &it);
                products.extend(Some(at).filter(|_| is_product(instr)));
            }
        }
        let products: BTreeSet<usize> = products.into_iter().map(|at| places.find(at)).collect();
        let sizes =
            products.into_iter().filter_map(|at| Some((at, longer(places.size[at], n_devices, waste)?)));
        let mut all =
            Longer { sizes: sizes.collect(), places, runs: BTreeSet::new(), summed: BTreeSet::new() };
        all.find_runs(module);
        all
    }

    /// An instruction runs such a loop longer if it is a product, or lies between one and what reads it to
    /// sum it up or multiply it: updates of weights and all that is made of inputs alone stay short.
    fn find_runs(&mut self, module: &Module) {
        let view = |id| View::new(module, module.entry, id);
        let all: Vec<(InstrId, Vec<(Loop, usize)>)> =
            module.entry().iter().map(|(id, _)| (id, self.longer_loops(&view(id), id))).collect();
        let mut after = BTreeSet::new();
        for (id, loops) in &all {
            for (it, class) in loops {
                let mut read = it.read(view(*id)).peekable();
                let is_product = is_product(view(*id).instr);
                if is_product
                    || read.peek().is_none()
                    || read.any(|operand| after.contains(&(operand, *class)))
                {
                    after.insert((*id, *class));
                }
            }
        }
        for (id, loops) in all.iter().rev() {
            for (it, class) in loops.iter().filter(|(_, class)| after.contains(&(*id, *class))) {
                let is_end = is_product(view(*id).instr) || it.reducer.is_some();
                if is_product(view(*id).instr) && it.reducer.is_some() {
                    self.summed.extend(it.read(view(*id)).map(|operand| (operand, *class)));
                }
                if is_end || self.runs.contains(&(*id, *class)) {
                    let read = it.read(view(*id)).map(|operand| (operand, *class));
                    self.runs.extend(read.filter(|it| after.contains(it)).chain([(*id, *class)]));
                }
            }
        }
    }

    /// The loops of an instruction that may run longer, each with its representative.
    fn longer_loops(&self, view: &View, id: InstrId) -> Vec<(Loop, usize)> {
        let class = |it: Loop| {
            let class = self.places.find(self.places.first(view, id, &it));
            self.sizes.contains_key(&class).then_some((it, class))
        };
        loops(view).into_iter().filter_map(class).collect()
    }

    /// Whether everything stays.
    pub fn is_empty(&self) -> bool {
        self.sizes.is_empty()
    }

    /// The sizes that change, each with what it becomes.
    pub fn sizes(&self) -> BTreeSet<(i64, i64)> {
        self.sizes.iter().map(|(&at, &to)| (self.places.size[at], to)).collect()
    }

    /// The loops that an instruction runs longer.
    pub fn loops(&self, view: &View, id: InstrId) -> Vec<Run> {
        let all =
            self.longer_loops(view, id).into_iter().filter(|(_, class)| self.runs.contains(&(id, *class)));
        let run = |(it, class)| Run {
            it,
            longer: self.sizes[&class],
            is_summed: self.summed.contains(&(id, class)),
        };
        all.map(run).collect()
    }
}

/// The size that the largest divisor of the devices divides, of those that are not too large; none where
/// that is the size itself.
fn longer(size: i64, n_devices: i64, waste: i64) -> Option<i64> {
    let most = size + size.saturating_mul(waste) / 100;
    let divisors = (2..=n_devices.min(size)).rev().filter(|by| n_devices % by == 0);
    let sizes = divisors.map(|by| (size + by - 1) / by * by);
    sizes.into_iter().find(|&longer| longer <= most).filter(|&longer| longer != size)
}

/// Dimensions of all leaves, tied where they run over one loop.
struct Places {
    /// By instruction and leaf: the first dimension's number.
    first: Vec<Vec<usize>>,
    parent: Vec<usize>,
    size: Vec<i64>,
}

impl Places {
    fn of(module: &Module) -> Places {
        let (mut first, mut size) = (Vec::new(), Vec::new());
        for instr in &module.entry().instrs {
            let mut leaves = Vec::new();
            for leaf in instr.shape.leaves() {
                leaves.push(size.len());
                size.extend(leaf.as_array().iter().flat_map(|array| array.dims.iter()));
            }
            first.push(leaves);
        }
        Places { first, parent: (0..size.len()).collect(), size }
    }

    fn at(&self, id: InstrId, leaf: usize, dim: usize) -> usize {
        self.first[id.index()][leaf] + dim
    }

    fn find(&self, mut at: usize) -> usize {
        while self.parent[at] != at {
            at = self.parent[at];
        }
        at
    }

    fn union(&mut self, a: usize, b: usize) {
        let (a, b) = (self.find(a), self.find(b));
        self.parent[a.max(b)] = a.min(b);
    }

    /// Ties what a loop runs over; says where that is.
    fn tie(&mut self, view: &View, id: InstrId, it: &Loop) -> usize {
        let operands = it.operands.iter().map(|&(leaf, dim)| {
            let (operand, leaf) = operand_leaf(view, leaf);
            self.at(operand, leaf, dim)
        });
        let results = it.results.iter().map(|&(leaf, dim)| self.at(id, leaf, dim));
        let all: Vec<usize> = operands.chain(results).collect();
        all.windows(2).for_each(|pair| self.union(pair[0], pair[1]));
        all[0]
    }

    /// One of the dimensions that a loop runs over.
    fn first(&self, view: &View, id: InstrId, it: &Loop) -> usize {
        match it.results.first() {
            Some(&(leaf, dim)) => self.at(id, leaf, dim),
            None => {
                let (leaf, dim) = it.operands[0];
                let (operand, leaf) = operand_leaf(view, leaf);
                self.at(operand, leaf, dim)
            }
        }
    }
}

/// A loop that is all of every dimension that it occurs in.
pub struct Loop {
    /// How many times it runs.
    pub size: i64,
    /// What combines its iterations, if they end in one element.
    pub reducer: Option<Reducer>,
    /// Leaves of all operands, counted on, and their dimensions.
    pub operands: Vec<(usize, usize)>,
    /// Leaves of the result, and their dimensions.
    pub results: Vec<(usize, usize)>,
}

impl Loop {
    /// The instructions that it reads.
    fn read<'a>(&'a self, view: View<'a>) -> impl Iterator<Item = InstrId> + 'a {
        self.operands.iter().map(move |&(leaf, _)| operand_leaf(&view, leaf).0)
    }
}

/// The loops of an instruction that can run longer.
fn loops(view: &View) -> Vec<Loop> {
    if is_forwarded(view.instr) {
        return handed_on(view);
    }
    let Some(rule) = carried(view) else { return Vec::new() };
    let factors = rule.factors.iter().enumerate();
    factors.filter_map(|(factor, it)| of_factor(view, &rule, factor as FactorId, it.size, it.kind)).collect()
}

/// A loop per dimension of what is handed on as it is.
fn handed_on(view: &View) -> Vec<Loop> {
    let mut all = Vec::new();
    for (leaf, (from, shape)) in forwarded(view).zip(view.instr.shape.leaves()).enumerate() {
        let dims = shape.as_array().map_or(&[][..], |array| &array.dims);
        all.extend(dims.iter().enumerate().map(|(dim, &size)| Loop {
            size,
            reducer: None,
            operands: vec![(from, dim)],
            results: vec![(leaf, dim)],
        }));
    }
    all
}

fn of_factor(view: &View, rule: &Rule, factor: FactorId, size: i64, kind: FactorKind) -> Option<Loop> {
    let is_sum = is_product(view.instr) || view.instr.op == Opcode::Reduce && view.instr.operands.len() == 2;
    let reducer = match kind {
        FactorKind::Pass => None,
        FactorKind::Reduce(reducer) if is_sum && has_neutral(view, reducer) => Some(reducer),
        _ => return None,
    };
    let operands = alone(&rule.operands, factor)?;
    let results = alone(&rule.results, factor)?;
    let is_long = |maps: &[(usize, usize)], size_of: &dyn Fn(usize, usize) -> Option<i64>| {
        maps.iter().all(|&(leaf, dim)| size_of(leaf, dim) == Some(size))
    };
    let of_operand = |leaf: usize, dim: usize| {
        let (id, leaf) = operand_leaf(view, leaf);
        size_of(&view.instrs[id.index()], leaf, dim)
    };
    let is_whole =
        is_long(&operands, &of_operand) && is_long(&results, &|leaf, dim| size_of(view.instr, leaf, dim));
    if view.instr.op == Opcode::Convolution && !is_dense(view, &operands, &results) {
        return None;
    }
    // A place that is computed is kept inside of the array: only what is written in full may grow.
    let is_written =
        view.instr.op != Opcode::DynamicUpdateSlice || operands.iter().any(|&(leaf, _)| leaf == 1);
    (is_whole && is_written && !(operands.is_empty() && results.is_empty())).then_some(Loop {
        size,
        reducer,
        operands,
        results,
    })
}

/// Whether an instruction multiplies and sums up.
pub fn is_product(instr: &Instr) -> bool {
    matches!(instr.op, Opcode::Dot | Opcode::Convolution)
}

/// Whether a convolution runs this loop over its batch or all of its features, not over space.
fn is_dense(view: &View, operands: &[(usize, usize)], results: &[(usize, usize)]) -> bool {
    let Some(Value::DimLabels(labels)) = view.instr.attr(Key::DimLabels) else { return false };
    let is_space = |&(leaf, dim): &(usize, usize)| match leaf {
        0 => labels.lhs.spatial.contains(&dim),
        _ => labels.rhs.spatial.contains(&dim),
    };
    let one = |key| view.instr.int(key).unwrap_or(1) == 1;
    let is_whole = one(Key::FeatureGroupCount) && one(Key::BatchGroupCount);
    is_whole
        && !operands.iter().any(is_space)
        && !results.iter().any(|(_, dim)| labels.out.spatial.contains(dim))
}

fn has_neutral(view: &View, reducer: Reducer) -> bool {
    let array = view.operand_shape(0).and_then(phzc_ir::Shape::as_array);
    array.is_some_and(|array| neutral(array.dtype, reducer).is_some())
}

fn size_of(instr: &Instr, leaf: usize, dim: usize) -> Option<i64> {
    let shape = *instr.shape.leaves().get(leaf)?;
    shape.as_array().filter(|array| array.dynamic == 0)?.dims.get(dim).copied()
}

/// Where a loop occurs; none where it shares a dimension with others.
fn alone(maps: &[TensorMap], factor: FactorId) -> Option<Vec<(usize, usize)>> {
    let mut found = Vec::new();
    for (leaf, map) in maps.iter().enumerate() {
        for (dim, factors) in map.iter().enumerate().filter(|(_, factors)| factors.contains(&factor)) {
            match factors.len() {
                1 => found.push((leaf, dim)),
                _ => return None,
            }
        }
    }
    Some(found)
}

/// The operand, and its leaf, that a rule's leaf is.
pub fn operand_leaf(view: &View, mut leaf: usize) -> (InstrId, usize) {
    for &id in &view.instr.operands {
        let n_leaves = view.instrs[id.index()].shape.n_leaves();
        if leaf < n_leaves {
            return (id, leaf);
        }
        leaf -= n_leaves;
    }
    unreachable!("a rule has a map per leaf of every operand")
}

/// The rule of an op of which more iterations can be run.
fn carried(view: &View) -> Option<Rule> {
    let instr = view.instr;
    let is_given = matches!(instr.op, Opcode::Parameter | Opcode::Constant);
    let is_foreign = instr.op == Opcode::CustomCall && !annotations::is_constraint(instr);
    let is_random = matches!(instr.op, Opcode::Rng | Opcode::RngBitGenerator | Opcode::RngGetAndUpdateState);
    if is_given || is_foreign || is_random || has_side_effect(instr) || !control_comps(instr).is_empty() {
        return None;
    }
    let rule = (instr.op.def().rule)(view);
    let n_leaves =
        view.instr.operands.iter().map(|id| view.instrs[id.index()].shape.n_leaves()).sum::<usize>();
    let is_said = rule.operands.len() == n_leaves && rule.results.len() == instr.shape.n_leaves();
    (is_said && !rule.is_fallback && instr.shape.as_array().is_some()).then_some(rule)
}

/// Whether an instruction only hands on what it gets.
pub fn is_forwarded(instr: &Instr) -> bool {
    matches!(instr.op, Opcode::Tuple | Opcode::GetTupleElement | Opcode::OptBarrier)
}

/// The leaves of all operands, counted on, that the leaves of such an instruction are.
pub fn forwarded(view: &View) -> std::ops::Range<usize> {
    let n_leaves = view.instr.shape.n_leaves();
    let before = match view.instr.op {
        Opcode::GetTupleElement => {
            let index = view.instr.int(Key::Index).unwrap_or(0) as usize;
            view.operand(0).shape.parts()[..index].iter().map(phzc_ir::Shape::n_leaves).sum()
        }
        _ => 0,
    };
    before..before + n_leaves
}
