//! A computation while it is rebuilt: instructions come in program order and find their operands simplified.

use super::equal::{Known, is_note};
use super::rules::{self, Counts, Made};
use indexmap::IndexSet;
use phzc_ir::edit::Names;
use phzc_ir::ops::literal::splat;
use phzc_ir::{
    ArrayShape, Attr, Computation, DType, Instr, InstrId, Key, Opcode, Payload, Shape, Span, View,
};
use std::vec::IntoIter;

/// The instructions so far, and what rules ask about them.
pub(super) struct Draft<'a> {
    callees: &'a [Computation],
    counts: &'a mut Counts,
    instrs: Vec<Instr>,
    /// Instructions that are not rebuilt yet.
    rest: IntoIter<Instr>,
    /// Per instruction so far, at least the number of its readers.
    n_reads: Vec<u32>,
    known: Known<'a>,
    /// Names that `control-predecessors` mention.
    awaited: IndexSet<Box<str>>,
    /// Made when the first instruction needs a new name.
    names: Option<Names>,
    /// Name and place of the instruction that is being rebuilt.
    current: (Box<str>, Span),
    is_root: bool,
}

impl<'a> Draft<'a> {
    /// Rebuilds a computation; `acts` says which computations have effects.
    pub fn rebuild(
        callees: &'a [Computation],
        comp: &mut Computation,
        acts: &'a [bool],
        counts: &'a mut Counts,
    ) {
        let (n, root, n_reads) = (comp.instrs.len(), comp.root, n_reads(comp));
        let awaited = awaited(comp);
        let mut draft = Draft {
            callees,
            counts,
            instrs: Vec::with_capacity(n),
            rest: std::mem::take(&mut comp.instrs).into_iter(),
            n_reads: Vec::with_capacity(n),
            known: Known::new(acts),
            awaited,
            names: None,
            current: ("".into(), Span::default()),
            is_root: false,
        };
        let mut ids: Vec<InstrId> = Vec::with_capacity(n);
        while let Some(mut instr) = draft.rest.next() {
            instr.operands.iter_mut().for_each(|operand| *operand = ids[operand.index()]);
            draft.is_root = ids.len() == root.index();
            draft.current = (instr.name.clone(), instr.span);
            let reads = n_reads[ids.len()];
            ids.push(draft.place(instr, reads));
        }
        comp.instrs = draft.instrs;
        comp.root = ids[root.index()];
    }

    /// Where the simplified instruction's value is.
    fn place(&mut self, mut instr: Instr, n_reads: u32) -> InstrId {
        let id = loop {
            match rules::apply(self, &instr) {
                Some(Made::Instr(made)) => instr = made,
                Some(Made::Value(id)) => break id,
                None => break self.push(instr),
            }
        };
        self.n_reads[id.index()] += n_reads;
        id
    }

    /// An equal instruction, or this one.
    fn push(&mut self, instr: Instr) -> InstrId {
        let hash = self.known.hash(&instr);
        let is_replaceable = !self.awaited.contains(&instr.name);
        if let Some(id) =
            hash.filter(|_| is_replaceable).and_then(|hash| self.known.find(hash, &instr, &self.instrs))
        {
            self.counts.n_merged += 1;
            return id;
        }
        let id = InstrId::new(self.instrs.len());
        self.instrs.push(instr);
        self.n_reads.push(0);
        if let Some(hash) = hash {
            self.known.insert(hash, id);
        }
        id
    }

    /// A rule was of use.
    pub fn count(&mut self, rule: usize) {
        self.counts.fire(rule);
    }

    /// Whether rules may rewrite the instruction: it is an array of fixed sizes, or a tuple, without an
    /// order.
    pub fn is_rewritable(&self, instr: &Instr) -> bool {
        let is_fixed = |shape: &Shape| match shape {
            Shape::Array(array) => array.dynamic == 0,
            Shape::Tuple(_) => true,
            _ => false,
        };
        is_fixed(&instr.shape)
            && instr.operands.iter().all(|&id| is_fixed(&self.instr(id).shape))
            && instr.attr(Key::ControlPredecessors).is_none()
    }

    /// Whether what a rule made may stand for the instruction.
    pub fn is_legal(&self, made: &Made, instr: &Instr) -> bool {
        match made {
            Made::Value(id) => !self.is_pinned(instr) && self.instr(*id).shape == instr.shape,
            Made::Instr(made) => {
                let view = View { comps: self.callees, instrs: &self.instrs, instr: made };
                let inferred = (made.op.def().infer)(&view);
                let is_like = |shape: &Option<phzc_ir::Shape>| {
                    shape.as_ref().is_none_or(|it| it.same_type(&made.shape))
                };
                let fits = inferred.as_ref().is_ok_and(is_like);
                debug_assert!(fits, "`{}` became {made:?}: {inferred:?}", instr.name);
                fits
            }
        }
    }

    /// Whether it must stay under its name: it has a layout or notes, or others wait for it.
    fn is_pinned(&self, instr: &Instr) -> bool {
        instr.attrs.iter().any(|attr| is_note(&attr.key)) || self.awaited.contains(&instr.name)
    }

    /// An instruction so far.
    pub fn instr(&self, id: InstrId) -> &Instr {
        &self.instrs[id.index()]
    }

    /// An instruction that a rule may look through, so that it loses a reader.
    pub fn seen(&self, id: InstrId) -> Option<&Instr> {
        Some(self.instr(id)).filter(|instr| !self.is_pinned(instr))
    }

    /// As [`Draft::seen`], if it is of this opcode.
    pub fn made_by(&self, id: InstrId, op: Opcode) -> Option<&Instr> {
        self.seen(id).filter(|instr| instr.op == op)
    }

    /// The operand of an instruction of one operand, as [`Draft::made_by`].
    pub fn operand_of(&self, id: InstrId, op: Opcode) -> Option<InstrId> {
        Some(self.made_by(id, op)?.operands[0])
    }

    /// The array shape; rules look at arrays only.
    pub fn array(&self, id: InstrId) -> Option<&ArrayShape> {
        self.instr(id).shape.as_array()
    }

    /// The element that all elements of a value are, as written.
    pub fn element(&self, id: InstrId) -> Option<&str> {
        let instr = self.seen(id)?;
        match instr.op {
            Opcode::Constant => splat(instr),
            Opcode::Broadcast => splat(self.seen(instr.operands[0]).filter(|it| it.op == Opcode::Constant)?),
            _ => None,
        }
    }

    /// Whether all elements of a value are this number.
    pub fn is_all(&self, id: InstrId, number: f64) -> bool {
        self.element(id).is_some_and(|text| match text {
            "true" => number == 1.0,
            "false" => number == 0.0,
            _ => text.parse() == Ok(number),
        })
    }

    /// Whether at most one instruction reads the value.
    pub fn is_read_once(&self, id: InstrId) -> bool {
        self.n_reads[id.index()] <= 1
    }

    /// Whether the instruction being rebuilt is the computation's root.
    pub fn is_root(&self) -> bool {
        self.is_root
    }

    /// A new instruction, simplified in its turn.
    pub fn add(&mut self, op: Opcode, operands: &[InstrId], shape: Shape, attrs: Vec<Attr>) -> InstrId {
        let instr = self.new_instr(op, operands, shape, attrs);
        self.place(instr, 1)
    }

    /// A scalar constant.
    pub fn scalar(&mut self, dtype: DType, text: &str) -> InstrId {
        let instr = self.new_instr(Opcode::Constant, &[], Shape::array(dtype, &[]), Vec::new());
        self.place(Instr { payload: Payload::Literal(text.into()), ..instr }, 1)
    }

    fn new_instr(&mut self, op: Opcode, operands: &[InstrId], shape: Shape, attrs: Vec<Attr>) -> Instr {
        let (instrs, rest) = (&self.instrs, self.rest.as_slice());
        let names = self.names.get_or_insert_with(|| Names::new(instrs.iter().chain(rest)));
        let name = names.derive(&self.current.0, op.as_str());
        let (operands, span) = (operands.into(), self.current.1);
        Instr { name, op, operands, shape, payload: Payload::None, attrs, span }
    }
}

fn n_reads(comp: &Computation) -> Vec<u32> {
    let mut n_reads = vec![0; comp.instrs.len()];
    comp.instrs.iter().flat_map(|instr| &instr.operands).for_each(|id| n_reads[id.index()] += 1);
    n_reads[comp.root.index()] += 1;
    n_reads
}

fn awaited(comp: &Computation) -> IndexSet<Box<str>> {
    comp.instrs.iter().flat_map(|instr| comp.control_predecessors(instr)).map(Box::from).collect()
}
