//! A small program in the making: instructions copied out of a larger one under names that pieces alike
//! share.

use super::text::{bare, plain};
use phzc_ir::{
    ArrayShape, Attr, CompId, Computation, DType, Instr, InstrId, Key, Module, Opcode, Payload, Shape, Span,
    Value,
};
use std::collections::BTreeMap;

/// A module without its entry's root.
pub struct Draft<'m> {
    source: &'m Module,
    comps: Vec<Computation>,
    /// Computations that were copied, by what they are in the source.
    copied: BTreeMap<CompId, CompId>,
    sums: BTreeMap<&'static str, CompId>,
    /// The entry's instructions.
    pub instrs: Vec<Instr>,
}

impl<'m> Draft<'m> {
    /// Nothing yet.
    pub fn new(source: &'m Module) -> Draft<'m> {
        let (copied, sums) = (BTreeMap::new(), BTreeMap::new());
        Draft { source, comps: Vec::new(), copied, sums, instrs: Vec::new() }
    }

    /// Adds an instruction that has no attributes.
    pub fn add(&mut self, name: &str, op: Opcode, operands: &[InstrId], shape: Shape) -> InstrId {
        self.push(instr(name, op, operands, shape))
    }

    /// A parameter.
    pub fn param(&mut self, name: &str, number: usize, shape: ArrayShape) -> InstrId {
        let id = self.add(name, Opcode::Parameter, &[], Shape::Array(shape));
        self.instrs[id.index()].payload = Payload::Parameter(number as u32);
        id
    }

    /// An element of a tuple.
    pub fn element(&mut self, name: &str, tuple: InstrId, index: usize) -> InstrId {
        let shape = self.instrs[tuple.index()].shape.parts()[index].clone();
        let id = self.add(name, Opcode::GetTupleElement, &[tuple], shape);
        self.instrs[id.index()].set_attr(Key::Index, Value::Int(index as i64));
        id
    }

    /// The sum over the first dimension.
    pub fn sum(&mut self, name: &str, id: InstrId) -> Option<[InstrId; 2]> {
        let array = self.instrs[id.index()].shape.as_array()?.clone();
        let zero = self.add(&format!("{name}.zero"), Opcode::Constant, &[], Shape::array(array.dtype, &[]));
        self.instrs[zero.index()].payload = Payload::Literal("0".into());
        let adds = self.adder(array.dtype);
        let shape = Shape::array(array.dtype, &array.dims[1..]);
        let sum = self.add(&format!("{name}.sum"), Opcode::Reduce, &[id, zero], shape);
        let own = &mut self.instrs[sum.index()];
        own.set_attr(Key::Dimensions, Value::Ints([0].into_iter().collect()));
        own.set_attr(Key::ToApply, Value::Comp(adds));
        Some([zero, sum])
    }

    /// Another layout of a value.
    pub fn movement(&mut self, name: &str, id: InstrId) -> InstrId {
        let shape = self.instrs[id.index()].shape.clone();
        let moved = self.add(name, Opcode::CustomCall, &[id], shape);
        self.instrs[moved.index()].set_attr(Key::CustomCallTarget, Value::Str("Sharding".into()));
        moved
    }

    /// An instruction of the source, with what it calls, on other operands.
    pub fn copy(&mut self, name: &str, source: &Instr, operands: &[InstrId]) -> InstrId {
        let mut instr = bare(source);
        instr.name = name.into();
        instr.operands = operands.iter().copied().collect();
        self.rename_callees(&mut instr);
        self.push(instr)
    }

    /// The module that returns these values as a tuple.
    pub fn finish(mut self, outputs: &[InstrId]) -> Module {
        let shapes = outputs.iter().map(|id| self.instrs[id.index()].shape.clone()).collect();
        let root = self.add("root", Opcode::Tuple, outputs, Shape::Tuple(shapes));
        self.comps.push(Computation { name: "piece".into(), instrs: self.instrs, root, thread: None });
        let entry = CompId::new(self.comps.len() - 1);
        Module { name: "piece".into(), attrs: Vec::new(), tables: "".into(), comps: self.comps, entry }
    }

    fn push(&mut self, instr: Instr) -> InstrId {
        self.instrs.push(instr);
        InstrId::new(self.instrs.len() - 1)
    }

    fn rename_callees(&mut self, instr: &mut Instr) {
        for attr in &mut instr.attrs {
            match &mut attr.value {
                Value::Comp(comp) => *comp = self.callee(*comp),
                Value::Comps(comps) => comps.iter_mut().for_each(|comp| *comp = self.callee(*comp)),
                _ => {}
            }
        }
    }

    /// A copy of a computation of the source.
    fn callee(&mut self, comp: CompId) -> CompId {
        if let Some(&copied) = self.copied.get(&comp) {
            return copied;
        }
        let source = self.source.comp(comp);
        let mut instrs = Vec::with_capacity(source.instrs.len());
        for (id, instr) in source.iter() {
            let mut instr = bare(instr);
            instr.name = format!("s{}", id.index()).into();
            self.rename_callees(&mut instr);
            instrs.push(instr);
        }
        let copied = self.comp(Computation { instrs, ..source.clone() });
        self.copied.insert(comp, copied);
        copied
    }

    fn adder(&mut self, dtype: DType) -> CompId {
        if let Some(&comp) = self.sums.get(dtype.as_str()) {
            return comp;
        }
        let shape = Shape::array(dtype, &[]);
        let param = |name: &str, number: u32| {
            let param = instr(name, Opcode::Parameter, &[], shape.clone());
            Instr { payload: Payload::Parameter(number), ..param }
        };
        let operands = [InstrId::new(0), InstrId::new(1)];
        let add = instr("sum", Opcode::Add, &operands, shape.clone());
        let instrs = vec![param("a", 0), param("b", 1), add];
        let comp = self.comp(Computation { name: "".into(), instrs, root: InstrId::new(2), thread: None });
        self.sums.insert(dtype.as_str(), comp);
        comp
    }

    fn comp(&mut self, comp: Computation) -> CompId {
        let name = format!("f{}", self.comps.len()).into();
        self.comps.push(Computation { name, thread: None, ..comp });
        CompId::new(self.comps.len() - 1)
    }
}

fn instr(name: &str, op: Opcode, operands: &[InstrId], shape: Shape) -> Instr {
    Instr {
        name: name.into(),
        op,
        operands: operands.iter().copied().collect(),
        shape: plain(&shape),
        payload: Payload::None,
        attrs: Vec::<Attr>::new(),
        span: Span::default(),
    }
}
