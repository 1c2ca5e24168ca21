//! Writing the instructions of one computation for one device: names, small scalars, the device's place in
//! the mesh.

use indexmap::IndexMap;
use phzc_ir::edit::Names;
use phzc_ir::{
    ArrayShape, Attr, Computation, DType, Dims, Instr, InstrId, Key, Mesh, Opcode, Payload, Shape, Value,
    notes,
};
use smallvec::SmallVec;

/// Notes that what an instruction becomes inherits.
const INHERITED: [&str; 4] = [notes::BLOCK, notes::PHASE, notes::OF_STAGE, notes::SOURCE];

/// Instructions in the making.
pub struct Builder<'a> {
    /// What there is so far.
    pub instrs: Vec<Instr>,
    /// The mesh whose devices run the computation.
    pub mesh: &'a Mesh,
    names: Names,
    /// The instruction that is being lowered.
    source: Option<&'a Instr>,
    /// Scalars made so far, by what they are.
    scalars: IndexMap<Scalar, InstrId>,
}

/// A scalar that many instructions may need.
#[derive(Clone, PartialEq, Eq, Hash)]
enum Scalar {
    Constant(DType, Box<str>),
    /// The device's number.
    Partition,
    /// The tile's index along these axes, major to minor, times a size.
    Offset(Vec<usize>, i64),
}

impl<'a> Builder<'a> {
    /// Nothing yet; new names differ from those of `comp`.
    pub fn new(comp: &Computation, mesh: &'a Mesh) -> Builder<'a> {
        let names = Names::of(comp);
        Builder { instrs: Vec::new(), mesh, names, source: None, scalars: IndexMap::new() }
    }

    /// From here on instructions are for this one.
    pub fn start(&mut self, source: &'a Instr) {
        self.source = Some(source);
    }

    /// Sizes of an array.
    pub fn dims(&self, id: InstrId) -> Dims {
        self.instrs[id.index()].shape.as_array().map_or_else(Dims::new, |array| array.dims.clone())
    }

    /// Element type of an array.
    pub fn dtype(&self, id: InstrId) -> DType {
        self.instrs[id.index()].shape.as_array().map_or(DType::Pred, |array| array.dtype)
    }

    /// Adds an instruction as it is.
    pub fn push(&mut self, instr: Instr) -> InstrId {
        self.instrs.push(instr);
        InstrId::new(self.instrs.len() - 1)
    }

    /// Adds an instruction that makes a value of this shape.
    pub fn add(&mut self, op: Opcode, operands: &[InstrId], shape: Shape, attrs: Vec<Attr>) -> InstrId {
        let base = self.source.map_or("partition", |source| &source.name).to_owned();
        let span = self.source.map(|source| source.span).unwrap_or_default();
        let mut instr = Instr {
            name: self.names.derive(&base, op.as_str()),
            op,
            operands: SmallVec::from_slice(operands),
            shape,
            payload: Payload::None,
            attrs,
            span,
        };
        self.inherit(&mut instr);
        self.push(instr)
    }

    fn inherit(&self, instr: &mut Instr) {
        for note in INHERITED {
            if let Some(text) = self.source.and_then(|source| source.note(note)) {
                instr.set_note(note, text);
            }
        }
    }

    /// Adds an instruction that makes an array.
    pub fn array(
        &mut self,
        op: Opcode,
        operands: &[InstrId],
        (dtype, dims): (DType, &[i64]),
        attrs: Vec<Attr>,
    ) -> InstrId {
        self.add(op, operands, Shape::Array(ArrayShape::new(dtype, dims)), attrs)
    }

    /// An elementwise operation on arrays like its first operand.
    pub fn elementwise(&mut self, op: Opcode, operands: &[InstrId]) -> InstrId {
        let first = operands[0];
        self.array(op, operands, (self.dtype(first), &self.dims(first)), Vec::new())
    }

    /// Whether `a` is in this relation to `b`, element by element.
    pub fn compare(&mut self, a: InstrId, b: InstrId, direction: &str) -> InstrId {
        let attrs = vec![Attr { key: Key::Direction, value: Value::Word(direction.into()) }];
        self.array(Opcode::Compare, &[a, b], (DType::Pred, &self.dims(a)), attrs)
    }

    /// The same elements in other dimensions.
    pub fn reshape(&mut self, id: InstrId, dims: &[i64]) -> InstrId {
        if *self.dims(id) == *dims {
            return id;
        }
        self.array(Opcode::Reshape, &[id], (self.dtype(id), dims), Vec::new())
    }

    /// Dimension `order[d]` of the operand at place `d`.
    pub fn transpose(&mut self, id: InstrId, order: &[usize]) -> InstrId {
        if order.iter().copied().eq(0..order.len()) {
            return id;
        }
        let dims = self.dims(id);
        let turned: Dims = order.iter().map(|&dim| dims[dim]).collect();
        let attrs = vec![Attr { key: Key::Dimensions, value: ints(order.iter().map(|&dim| dim as i64)) }];
        self.array(Opcode::Transpose, &[id], (self.dtype(id), &turned), attrs)
    }

    /// The operand's dimension `d` at place `at[d]` of an array of these sizes.
    pub fn broadcast(&mut self, id: InstrId, dims: &[i64], at: &[usize]) -> InstrId {
        if *self.dims(id) == *dims {
            return id;
        }
        let attrs = vec![Attr { key: Key::Dimensions, value: ints(at.iter().map(|&dim| dim as i64)) }];
        self.array(Opcode::Broadcast, &[id], (self.dtype(id), dims), attrs)
    }

    /// The operand's values as another type.
    pub fn convert(&mut self, id: InstrId, dtype: DType) -> InstrId {
        if self.dtype(id) == dtype {
            return id;
        }
        self.array(Opcode::Convert, &[id], (dtype, &self.dims(id)), Vec::new())
    }

    /// `sizes` elements from computed places on.
    pub fn dynamic_slice(&mut self, id: InstrId, starts: &[InstrId], sizes: &[i64]) -> InstrId {
        let operands: Vec<InstrId> = std::iter::once(id).chain(starts.iter().copied()).collect();
        let attrs = vec![Attr { key: Key::DynamicSliceSizes, value: ints(sizes.iter().copied()) }];
        self.array(Opcode::DynamicSlice, &operands, (self.dtype(id), sizes), attrs)
    }

    /// A value that lies between two others.
    pub fn clamp(&mut self, low: InstrId, id: InstrId, high: InstrId) -> InstrId {
        self.array(Opcode::Clamp, &[low, id, high], (self.dtype(id), &self.dims(id)), Vec::new())
    }

    /// A scalar integer.
    pub fn int(&mut self, dtype: DType, value: i64) -> InstrId {
        self.constant(dtype, &value.to_string())
    }

    /// A scalar, as its literal says it.
    pub fn constant(&mut self, dtype: DType, literal: &str) -> InstrId {
        self.scalar(Scalar::Constant(dtype, literal.into()), |build| {
            let id = build.array(Opcode::Constant, &[], (dtype, &[]), Vec::new());
            build.instrs[id.index()].payload = Payload::Literal(literal.into());
            id
        })
    }

    /// Index of the device's tile along these axes, major to minor, times `size`; an `s32`.
    pub fn offset(&mut self, axes: &[usize], size: i64) -> InstrId {
        match axes {
            [] => self.int(DType::S32, 0),
            _ => self.scalar(Scalar::Offset(axes.to_vec(), size), |build| build.make_offset(axes, size)),
        }
    }

    fn make_offset(&mut self, axes: &[usize], size: i64) -> InstrId {
        if size != 1 {
            let (index, size) = (self.offset(axes, 1), self.int(DType::S32, size));
            return self.elementwise(Opcode::Multiply, &[index, size]);
        }
        if axes.is_sorted() && axes[axes.len() - 1] - axes[0] == axes.len() - 1 {
            return self.coordinate(axes);
        }
        let (major, last) = (&axes[..axes.len() - 1], axes[axes.len() - 1]);
        let major = self.offset(major, self.mesh.sizes[last]);
        let minor = self.offset(&[last], 1);
        self.elementwise(Opcode::Add, &[major, minor])
    }

    /// The device's place along neighbouring axes, in mesh order.
    fn coordinate(&mut self, axes: &[usize]) -> InstrId {
        let mut id = self.scalar(Scalar::Partition, |build| {
            let id = build.array(Opcode::PartitionId, &[], (DType::U32, &[]), Vec::new());
            build.convert(id, DType::S32)
        });
        let stride = self.mesh.stride(axes[axes.len() - 1]);
        if stride > 1 {
            let stride = self.int(DType::S32, stride);
            id = self.elementwise(Opcode::Divide, &[id, stride]);
        }
        if axes[0] > 0 {
            let size = axes.iter().map(|&axis| self.mesh.sizes[axis]).product();
            let size = self.int(DType::S32, size);
            id = self.elementwise(Opcode::Remainder, &[id, size]);
        }
        id
    }

    /// The scalar, made when it is first needed; it belongs to no one instruction.
    fn scalar(&mut self, scalar: Scalar, make: impl FnOnce(&mut Self) -> InstrId) -> InstrId {
        if let Some(&id) = self.scalars.get(&scalar) {
            return id;
        }
        let source = self.source.take();
        let id = make(self);
        self.source = source;
        self.scalars.insert(scalar, id);
        id
    }

    /// Gives what the current instruction has become its name.
    pub fn finish(&mut self, result: InstrId, first: usize) {
        if let Some(source) = self.source.filter(|_| result.index() >= first) {
            let instr = &mut self.instrs[result.index()];
            instr.name = source.name.clone();
            if let Some(kind) = source.note(notes::MOVE) {
                instr.set_note(notes::MOVE, kind);
            }
        }
    }
}

/// A list attribute's value.
pub fn ints(items: impl Iterator<Item = i64>) -> Value {
    Value::Ints(items.collect())
}
