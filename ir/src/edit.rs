//! Removing and inserting instructions and computations; ids are renumbered, order and names stay.

use crate::attr::{Key, Value};
use crate::module::{CompId, Computation, Instr, InstrId, Module};
use indexmap::IndexSet;
use rustc_hash::FxBuildHasher;

impl Computation {
    /// Keeps the instructions marked in `keep`. Whatever a kept one reads, and the root, must be kept.
    pub fn retain(&mut self, keep: &[bool]) {
        let ids = ranks(keep);
        let mut marks = keep.iter();
        self.instrs.retain(|_| *marks.next().expect("one mark per instruction"));
        self.renumber(|id| InstrId(ids[id.index()]));
    }

    /// Puts each new instruction right before the old one of the given id, in the given order.
    ///
    /// All operands, the new ones' too and also those that the caller has just rewired, are ids from before
    /// the edit; the `k`-th new instruction is `InstrId::new(n_old + k)`. Returns the ids that the new ones
    /// got.
    pub fn insert_before(&mut self, new: Vec<(InstrId, Instr)>) -> Vec<InstrId> {
        let n_old = self.instrs.len();
        // (place, new before old, original number): sorting by it is the new program order.
        let mut order: Vec<(usize, bool, usize)> = (0..n_old).map(|index| (index, true, index)).collect();
        order.extend(new.iter().enumerate().map(|(k, (place, _))| (place.index(), false, n_old + k)));
        order.sort_unstable();
        let mut ids = vec![InstrId(0); order.len()];
        for (index, &(_, _, number)) in order.iter().enumerate() {
            ids[number] = InstrId::new(index);
        }
        let old = std::mem::take(&mut self.instrs);
        let mut all: Vec<Option<Instr>> =
            old.into_iter().chain(new.into_iter().map(|(_, instr)| instr)).map(Some).collect();
        self.instrs = order.iter().filter_map(|&(_, _, number)| all[number].take()).collect();
        self.renumber(|id| ids[id.index()]);
        ids.split_off(n_old)
    }

    /// Makes every reader of `old`, and the root, read `new` instead.
    pub fn replace_uses(&mut self, old: InstrId, new: InstrId) {
        self.renumber(|id| if id == old { new } else { id });
    }

    /// Moves instructions that are defined after their first use right before it; all others stay in order.
    pub fn put_definitions_first(&mut self) {
        let is_late = |(index, instr): (usize, &Instr)| instr.operands.iter().any(|id| id.index() >= index);
        if !self.instrs.iter().enumerate().any(is_late) {
            return;
        }
        let (mut rank, mut order) =
            (vec![u32::MAX; self.instrs.len()], Vec::with_capacity(self.instrs.len()));
        let mut todo = Vec::new();
        for index in 0..self.instrs.len() {
            todo.push((index, false));
            while let Some((index, is_ready)) = todo.pop() {
                if rank[index] != u32::MAX {
                    continue;
                }
                if is_ready {
                    rank[index] = order.len() as u32;
                    order.push(index);
                } else {
                    todo.push((index, true));
                    todo.extend(self.instrs[index].operands.iter().rev().map(|id| (id.index(), false)));
                }
            }
        }
        self.reorder(&order);
    }

    /// Puts the instruction at `order[k]` at place `k`.
    pub fn reorder(&mut self, order: &[usize]) {
        let mut rank = vec![0; order.len()];
        order.iter().enumerate().for_each(|(place, &index)| rank[index] = place as u32);
        let mut old: Vec<Option<Instr>> = std::mem::take(&mut self.instrs).into_iter().map(Some).collect();
        self.instrs = order.iter().filter_map(|&index| old[index].take()).collect();
        self.renumber(|id| InstrId(rank[id.index()]));
    }

    fn renumber(&mut self, rename: impl Fn(InstrId) -> InstrId) {
        for instr in &mut self.instrs {
            instr.operands.iter_mut().for_each(|operand| *operand = rename(*operand));
        }
        self.root = rename(self.root);
    }

    /// The instructions that must run before `instr` without being read by it: `control-predecessors={a, b}`.
    pub fn control_predecessors<'a>(&self, instr: &'a Instr) -> impl Iterator<Item = &'a str> + use<'a> {
        let text = match instr.attr(Key::ControlPredecessors) {
            Some(Value::Raw(text)) => text.trim_matches(['{', '}']),
            _ => "",
        };
        text.split(',').map(|name| name.trim().trim_start_matches('%')).filter(|name| !name.is_empty())
    }
}

/// Names for new instructions that no other instruction of the computation has.
pub struct Names {
    taken: IndexSet<Box<str>, FxBuildHasher>,
}

impl Names {
    /// The names of a computation.
    pub fn of(comp: &Computation) -> Names {
        Names::new(&comp.instrs)
    }

    /// The names of some instructions.
    pub fn new<'a>(instrs: impl IntoIterator<Item = &'a Instr>) -> Names {
        Names { taken: instrs.into_iter().map(|instr| instr.name.clone()).collect() }
    }

    /// The name itself, or with `.new`, `.new1`, … when it is taken.
    pub fn free(&mut self, name: &str) -> Box<str> {
        if self.taken.insert(name.into()) { name.into() } else { self.derive(name, "new") }
    }

    /// `base.suffix`, or `base.suffix1`, `base.suffix2`, … when that is taken.
    pub fn derive(&mut self, base: &str, suffix: &str) -> Box<str> {
        let numbered = |n: usize| match n {
            0 => format!("{base}.{suffix}"),
            n => format!("{base}.{suffix}{n}"),
        };
        let name = (0..).map(numbered).find(|name| !self.taken.contains(name.as_str()));
        let name = name.expect("some number is free").into_boxed_str();
        self.taken.insert(name.clone());
        name
    }
}

impl Module {
    /// Makes the entry the last computation. None that comes after it is run by it.
    pub fn put_entry_last(&mut self) {
        let (entry, n) = (self.entry.index(), self.comps.len());
        self.comps[entry..].rotate_left(1);
        self.renumber_comps(|comp| match comp.index() {
            index if index == entry => CompId::new(n - 1),
            index if index > entry => CompId::new(index - 1),
            _ => comp,
        });
    }

    /// Keeps the computations marked in `keep`. Whatever a kept one calls, and the entry, must be kept.
    pub fn retain_comps(&mut self, keep: &[bool]) {
        let ids = ranks(keep);
        let mut marks = keep.iter();
        self.comps.retain(|_| *marks.next().expect("one mark per computation"));
        self.renumber_comps(|comp| CompId(ids[comp.index()]));
    }

    /// Puts new computations before all others; they call none of them. Where instructions that the caller
    /// has just written call the `k`-th of them, they name `CompId::new(n_old + k)`.
    pub fn prepend_comps(&mut self, new: Vec<Computation>) {
        let (n_old, n_new) = (self.comps.len(), new.len());
        self.comps.splice(0..0, new);
        let moved = |index: usize| if index < n_old { index + n_new } else { index - n_old };
        self.renumber_comps(|comp| CompId::new(moved(comp.index())));
    }

    fn renumber_comps(&mut self, renamed: impl Fn(CompId) -> CompId) {
        let rename = |comp: &mut CompId| *comp = renamed(*comp);
        rename(&mut self.entry);
        for attr in self.comps.iter_mut().flat_map(|comp| &mut comp.instrs).flat_map(|instr| &mut instr.attrs)
        {
            match &mut attr.value {
                Value::Comp(comp) => rename(comp),
                Value::Comps(comps) => comps.iter_mut().for_each(rename),
                _ => {}
            }
        }
    }
}

/// Per item the number of kept items before it: its new position.
fn ranks(keep: &[bool]) -> Vec<u32> {
    let mut rank = 0;
    let step = |&kept: &bool| {
        rank += u32::from(kept);
        rank - u32::from(kept)
    };
    keep.iter().map(step).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{parse, print};

    const TEXT: &str = "ENTRY e {\n  x = f32[2] parameter(0)\n  y = f32[2] negate(x)\n  z = f32[2] abs(x)\n  ROOT r = f32[2] add(x, z)\n}\n";

    fn body(module: &Module) -> String {
        let text = print(module);
        let lines = text.lines().filter(|line| line.starts_with("  "));
        lines.map(|line| line.trim().replace("f32[2] ", "")).collect::<Vec<_>>().join("; ")
    }

    #[test]
    fn retain_renumbers_operands_and_root() {
        let mut module = parse(TEXT).expect("legal");
        module.comps[0].retain(&[true, false, true, true]);
        assert_eq!(body(&module), "x = parameter(0); z = abs(x); ROOT r = add(x, z)");
    }

    #[test]
    fn definitions_are_put_before_their_uses() {
        let mut module = parse(TEXT).expect("legal");
        module.comps[0].instrs[1].operands[0] = InstrId(2);
        module.comps[0].put_definitions_first();
        assert_eq!(body(&module), "x = parameter(0); z = abs(x); y = negate(z); ROOT r = add(x, z)");
    }

    #[test]
    fn inserted_instructions_may_read_each_other_and_be_read() {
        let mut module = parse(TEXT).expect("legal");
        let comp = &mut module.comps[0];
        let (n_old, mut names) = (comp.instrs.len(), Names::of(comp));
        let mut copy = |of: InstrId| Instr {
            name: names.derive("x", "c"),
            operands: [of].into_iter().collect(),
            ..comp.instrs[1].clone()
        };
        let new = vec![(InstrId(3), copy(InstrId(0))), (InstrId(3), copy(InstrId::new(n_old)))];
        comp.instrs[3].operands[0] = InstrId::new(n_old + 1);
        let ids = comp.insert_before(new);
        assert_eq!(ids, [InstrId(3), InstrId(4)]);
        let expected = "x = parameter(0); y = negate(x); z = abs(x); x.c = negate(x); x.c1 = negate(x.c); ROOT r = add(x.c1, z)";
        assert_eq!(body(&module), expected);
    }

    #[test]
    fn readers_and_the_root_read_the_new_value() {
        let mut module = parse(TEXT).expect("legal");
        module.comps[0].replace_uses(InstrId(0), InstrId(1));
        assert_eq!(module.comps[0].instrs[3].operands[..], [InstrId(1), InstrId(2)]);
        module.comps[0].replace_uses(InstrId(3), InstrId(2));
        assert_eq!(module.comps[0].root, InstrId(2));
    }

    #[test]
    fn control_predecessors_are_named() {
        let text = TEXT.replace("abs(x)", "abs(x), control-predecessors={%y, x}");
        let module = parse(&text).expect("legal");
        let of =
            |at: usize| module.comps[0].control_predecessors(&module.comps[0].instrs[at]).collect::<Vec<_>>();
        assert_eq!((of(2), of(1)), (vec!["y", "x"], vec![]));
    }

    /// Three computations that call each other and the entry, and which one each calls.
    const CALLS: &str = "
        f { ROOT x = f32[] parameter(0) }
        g { x = f32[] parameter(0) ROOT y = f32[] call(x), to_apply=f }
        ENTRY e { x = f32[] parameter(0) p = pred[] parameter(1) ROOT y = f32[] conditional(p, x, x), branch_computations={g, f} }
        h { ROOT x = f32[] parameter(0) }
        k { x = f32[] parameter(0) ROOT y = f32[] call(x), to_apply=h }
    ";

    fn calls(module: &Module) -> Vec<(&str, Vec<&str>)> {
        let called = |comp: &'_ Computation| -> Vec<usize> {
            comp.instrs.iter().flat_map(|instr| instr.called()).map(CompId::index).collect()
        };
        let comps = &module.comps;
        comps
            .iter()
            .map(|comp| (&*comp.name, called(comp).iter().map(|&at| &*comps[at].name).collect()))
            .collect()
    }

    #[test]
    fn computations_are_moved_kept_and_put_before_others_with_what_calls_them() {
        let mut module = parse(CALLS).expect("legal");
        module.put_entry_last();
        let [f, g, e] = [("f", vec![]), ("g", vec!["f"]), ("e", vec!["g", "f"])];
        let [h, k] = [("h", vec![]), ("k", vec!["h"])];
        assert_eq!(calls(&module), [f.clone(), g.clone(), h, k, e.clone()]);
        assert_eq!(&*module.entry().name, "e");
        module.retain_comps(&[true, true, false, false, true]);
        assert_eq!(calls(&module), [f.clone(), g.clone(), e]);
        let mut new = module.comps[0].clone();
        new.name = "new".into();
        let n_old = module.comps.len();
        module.comps[2].instrs[2].set_attr(
            Key::BranchComputations,
            Value::Comps([1, n_old].map(CompId::new).into_iter().collect()),
        );
        module.prepend_comps(vec![new]);
        assert_eq!(calls(&module), [("new", vec![]), f, g, ("e", vec!["g", "new"])]);
        assert_eq!(&*module.entry().name, "e");
    }
}
