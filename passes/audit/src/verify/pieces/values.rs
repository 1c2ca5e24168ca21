//! The values of a program: instructions that compute the same of the same values are one value, whatever
//! their names.
//!
//! A value is a leaf of what an instruction makes. Tuples, their elements, barriers and markers of layouts
//! make none of their own, nor does what shows another's elements in its own shape; in another shape it is a
//! *view* of it, however many reshapes are between. Values that constants alone lead to, by few instructions,
//! are *free*: whoever reads one makes it anew.

use super::text::{Made, comp_texts, is_elided, signature, type_text};
use indexmap::IndexMap;
use phzc_ir::effects::has_side_effect;
use phzc_ir::ops::control::control_comps;
use phzc_ir::{
    ArrayShape, CompId, Computation, FactorId, FusionKind, Instr, InstrId, Module, Opcode, Payload, Shape,
    TensorMap, View,
};
use phzc_plan::derive::{is_move, is_naming, operand_origins, origin, planned_comps};
use rustc_hash::FxBuildHasher;

/// More instructions than this lead to no free value.
const MAX_FREE: usize = 12;
/// Literals longer than this are not copied to all who read them.
const MAX_LITERAL_BYTES: usize = 4096;

type Map<K, V> = IndexMap<K, V, FxBuildHasher>;

/// The values of all computations of a program that run as its entry, loops and branches.
pub struct Values<'m> {
    /// The program.
    pub module: &'m Module,
    comps: Vec<Numbered>,
}

/// The values of one computation.
#[derive(Default)]
struct Numbered {
    /// Per instruction: the first that makes the same.
    first: Vec<InstrId>,
    /// By signature and operands.
    table: Map<(String, Vec<Made>), InstrId>,
    /// Instructions whose value is another's.
    alias: Vec<Option<Made>>,
    /// Whose elements an instruction's value has in another shape, in the same order.
    viewed: Vec<Option<Made>>,
    /// By type and operands: loops and conditionals.
    control: Map<(String, Vec<Made>), Vec<InstrId>>,
    names: Map<Box<str>, InstrId>,
    /// Instructions that lead to it from constants, itself counted; none where there are other or too many.
    free: Vec<Option<usize>>,
}

impl<'m> Values<'m> {
    /// Numbers the values of a program whose calls are inlined.
    pub fn of(module: &'m Module) -> Values<'m> {
        let comps = module.comps.iter().map(|_| Numbered::default()).collect();
        let mut values = Values { module, comps };
        let texts = comp_texts(module);
        for comp in planned_comps(module) {
            for (id, instr) in module.comp(comp).iter() {
                values.number(comp, id, instr, &texts);
            }
        }
        values
    }

    /// The value that a leaf of an instruction is.
    pub fn value(&self, comp: CompId, id: InstrId, leaf: usize) -> Made {
        let computation = self.module.comp(comp);
        let (mut id, mut leaf) = origin(computation, id, leaf);
        while is_move(computation.instr(id)) {
            (id, leaf) = origin(computation, computation.instr(id).operands[0], leaf);
        }
        let own = &self.comps[comp.index()];
        own.alias[id.index()].unwrap_or((own.first[id.index()], leaf))
    }

    /// The values that an instruction reads.
    pub fn operands(&self, comp: CompId, instr: &Instr) -> Vec<Made> {
        operand_origins(self.module.comp(comp), instr).map(|(id, leaf)| self.value(comp, id, leaf)).collect()
    }

    /// The value whose elements another has, in the same order; itself if it is no view.
    pub fn viewed(&self, comp: CompId, made: Made) -> Made {
        self.comps[comp.index()].viewed[made.0.index()].unwrap_or(made)
    }

    /// The shape of a value.
    pub fn shape(&self, comp: CompId, (id, leaf): Made) -> Option<&'m ArrayShape> {
        self.module.comp(comp).instr(id).shape.leaves().get(leaf)?.as_array()
    }

    /// The view of this type of a value.
    pub fn view_of(&self, comp: CompId, made: Made, shape: &ArrayShape) -> Option<Made> {
        let root = self.viewed(comp, made);
        if self.shape(comp, root).is_some_and(|found| found.same_type(shape)) {
            return Some(root);
        }
        self.find(comp, &view_text(shape), &[root]).map(|id| (id, 0))
    }

    /// The instruction that computes this of these values.
    pub fn find(&self, comp: CompId, signature: &str, operands: &[Made]) -> Option<InstrId> {
        self.comps[comp.index()].table.get(&(signature.to_owned(), operands.to_vec())).copied()
    }

    /// The loops or conditionals of this opcode and type that read these values.
    pub fn find_control(&self, comp: CompId, instr: &Instr, operands: &[Made]) -> &[InstrId] {
        let key = (control_key(instr), operands.to_vec());
        self.comps[comp.index()].control.get(&key).map_or(&[], Vec::as_slice)
    }

    /// The instruction of this name.
    pub fn named(&self, comp: CompId, name: &str) -> Option<InstrId> {
        self.comps[comp.index()].names.get(name).copied()
    }

    /// Whether whoever reads the value makes it anew.
    pub fn is_free(&self, comp: CompId, (id, _): Made) -> bool {
        self.comps[comp.index()].free[id.index()].is_some()
    }

    /// The instructions whose values the program's result depends on, those that make the same once.
    pub fn made(&self) -> Vec<(CompId, InstrId)> {
        let of = |comp: CompId| {
            let (body, needed) = (self.module.comp(comp), needed(self.module.comp(comp)));
            let is_made = move |(id, instr): &(InstrId, &Instr)| {
                let own = &self.comps[comp.index()];
                let is_first = own.first[id.index()] == *id && own.alias[id.index()].is_none();
                let makes = instr.op != Opcode::Parameter && !is_naming(instr) && !is_move(instr);
                needed[id.index()] && is_first && makes && control_comps(instr).is_empty()
            };
            body.iter().filter(is_made).map(|(id, _)| (comp, id)).collect::<Vec<_>>()
        };
        planned_comps(self.module).into_iter().flat_map(of).collect()
    }

    fn number(&mut self, comp: CompId, id: InstrId, instr: &Instr, texts: &[String]) {
        let mut operands = self.operands(comp, instr);
        let shape = instr.shape.as_array().filter(|_| is_view(&View::new(self.module, comp, id)));
        let viewed = shape.map(|_| self.viewed(comp, operands[0]));
        let is_like = |root: &Made| self.shape(comp, *root).zip(shape).is_some_and(|(a, b)| a.same_type(b));
        let alias = viewed.filter(is_like);
        let text = match (shape, viewed) {
            (Some(shape), Some(root)) => {
                operands = vec![root];
                view_text(shape)
            }
            _ => signature(self.module, instr, texts),
        };
        let free = self.free(comp, instr, &operands);
        let own = &mut self.comps[comp.index()];
        own.free.push(free);
        own.alias.push(alias);
        own.viewed.push(viewed);
        own.names.insert(instr.name.clone(), id);
        if !control_comps(instr).is_empty() {
            own.control.entry((control_key(instr), operands.clone())).or_default().push(id);
        }
        let first = *own.table.entry((text, operands)).or_insert(id);
        own.first.push(first);
    }

    fn free(&self, comp: CompId, instr: &Instr, operands: &[Made]) -> Option<usize> {
        let is_long = matches!(&instr.payload, Payload::Literal(text) if text.len() > MAX_LITERAL_BYTES)
            || is_elided(instr);
        let is_made = instr.op != Opcode::Parameter && instr.shape.as_array().is_some();
        if !is_made || is_long || has_side_effect(instr) || instr.called().next().is_some() {
            return None;
        }
        let own = &self.comps[comp.index()];
        let all = operands.iter().try_fold(1, |all, (id, _)| Some(all + own.free[id.index()]?));
        all.filter(|&all| all <= MAX_FREE)
    }
}

/// Whether an op's result has its operand's elements in the same order: its loops are the operand's.
pub fn is_view(view: &View) -> bool {
    let moves = matches!(view.instr.op.def().fusion, FusionKind::View | FusionKind::Free);
    let (Some(to), 1) = (view.instr.shape.as_array(), view.n_operands()) else { return false };
    let from = view.operand_shape(0).and_then(Shape::as_array);
    let is_like = |from: &ArrayShape| {
        from.dtype == to.dtype && from.dynamic == 0 && to.dynamic == 0 && from.n_elements() == to.n_elements()
    };
    if !moves || !from.is_some_and(is_like) {
        return false;
    }
    let rule = (view.instr.op.def().rule)(view);
    let loops = |map: &TensorMap| -> Vec<FactorId> {
        map.iter().flatten().copied().filter(|&id| rule.factors[id as usize].size > 1).collect()
    };
    view.instr.op == Opcode::Reshape || loops(&rule.operands[0]) == loops(&rule.results[0])
}

fn view_text(shape: &ArrayShape) -> String {
    format!("view {}", type_text(&Shape::Array(shape.clone())))
}

fn control_key(instr: &Instr) -> String {
    format!("{} {}", instr.op.as_str(), type_text(&instr.shape))
}

/// The instructions that a computation's result depends on.
pub fn needed(comp: &Computation) -> Vec<bool> {
    let mut needed = vec![false; comp.instrs.len()];
    needed[comp.root.index()] = true;
    for (id, instr) in comp.iter().rev() {
        if needed[id.index()] {
            instr.operands.iter().for_each(|operand| needed[operand.index()] = true);
        }
    }
    needed
}
