//! Collectives as HLO writes them: explicit groups of partition ids, a channel each.

use super::build::Builder;
use super::devices::{Order, groups_text, neighbours_text, pairs_text};
use super::moves::along;
use indexmap::IndexSet;
use phzc_ir::{
    Attr, CompId, Computation, DType, Dims, Instr, InstrId, Key, Mesh, Module, Opcode, Payload, Reducer,
    Shape, Value,
};
use phzc_plan::pricing::{AxisMask, axes_of};

/// Channels and the computations of reductions; those come before the module's own when all are known.
pub struct Collectives {
    n_channels: i64,
    n_comps: usize,
    reducers: IndexSet<(Reducer, DType)>,
}

impl Collectives {
    /// For a module that has these computations and no channels.
    pub fn new(module: &Module) -> Collectives {
        Collectives { n_channels: 0, n_comps: module.comps.len(), reducers: IndexSet::new() }
    }

    /// Reduces partial results: every device of a group gets all of it.
    pub fn all_reduce(
        &mut self,
        build: &mut Builder,
        value: InstrId,
        axes: AxisMask,
        reducer: Reducer,
    ) -> InstrId {
        let (dims, dtype) = (build.dims(value), build.dtype(value));
        let apply = Attr { key: Key::ToApply, value: Value::Comp(self.reducer(reducer, dtype)) };
        let attrs = self.attrs(axes, build.mesh, [Some(apply), None]);
        build.array(Opcode::AllReduce, &[value], (dtype, &dims), attrs)
    }

    /// Reduces partial results: every device of a group gets its tile of `dim`.
    pub fn reduce_scatter(
        &mut self,
        build: &mut Builder,
        value: InstrId,
        axes: AxisMask,
        (dim, reducer): (usize, Reducer),
    ) -> InstrId {
        let (mut dims, dtype) = (build.dims(value), build.dtype(value));
        dims[dim] /= n_devices(axes, build.mesh);
        let apply = Attr { key: Key::ToApply, value: Value::Comp(self.reducer(reducer, dtype)) };
        let place = Attr { key: Key::Dimensions, value: along(dim) };
        let attrs = self.attrs(axes, build.mesh, [Some(place), Some(apply)]);
        build.array(Opcode::ReduceScatter, &[value], (dtype, &dims), attrs)
    }

    /// Joins the tiles of `dim`.
    pub fn all_gather(&mut self, build: &mut Builder, value: InstrId, axes: AxisMask, dim: usize) -> InstrId {
        let (mut dims, dtype) = (build.dims(value), build.dtype(value));
        dims[dim] *= n_devices(axes, build.mesh);
        let place = Attr { key: Key::Dimensions, value: along(dim) };
        let attrs = self.attrs(axes, build.mesh, [Some(place), None]);
        build.array(Opcode::AllGather, &[value], (dtype, &dims), attrs)
    }

    /// Sends element `i` of `dim` to device `i` of the group; element `j` of the result is from device `j`.
    pub fn all_to_all(&mut self, build: &mut Builder, value: InstrId, axes: AxisMask, dim: usize) -> InstrId {
        let (dims, dtype): (Dims, DType) = (build.dims(value), build.dtype(value));
        let place = Attr { key: Key::Dimensions, value: along(dim) };
        let mut attrs = self.attrs(axes, build.mesh, [Some(place), None]);
        // Ids are partition ids in every case: HLO has no flag for it here.
        attrs.retain(|attr| attr.key != Key::UseGlobalDeviceIds);
        build.array(Opcode::AllToAll, &[value], (dtype, &dims), attrs)
    }

    /// Brings tiles from the devices that hold them to those that need them.
    pub fn permute(&mut self, build: &mut Builder, value: InstrId, from: &Order, to: &Order) -> InstrId {
        let (dims, dtype) = (build.dims(value), build.dtype(value));
        let pairs = Value::Raw(pairs_text(from, to, build.mesh).into());
        let attrs = vec![self.channel(), Attr { key: Key::SourceTargetPairs, value: pairs }];
        build.array(Opcode::CollectivePermute, &[value], (dtype, &dims), attrs)
    }

    /// Hands a value to the next device along an axis, or to the one before; the first, or last, gets zeros.
    pub fn shift(&mut self, build: &mut Builder, value: InstrId, axis: usize, step: i64) -> InstrId {
        let (dims, dtype) = (build.dims(value), build.dtype(value));
        let pairs = Value::Raw(neighbours_text(axis, step, build.mesh).into());
        let attrs = vec![self.channel(), Attr { key: Key::SourceTargetPairs, value: pairs }];
        build.array(Opcode::CollectivePermute, &[value], (dtype, &dims), attrs)
    }

    fn channel(&mut self) -> Attr {
        self.n_channels += 1;
        Attr { key: Key::ChannelId, value: Value::Int(self.n_channels) }
    }

    fn attrs(&mut self, axes: AxisMask, mesh: &Mesh, more: [Option<Attr>; 2]) -> Vec<Attr> {
        let groups = Value::Raw(groups_text(axes, mesh).into());
        let attrs = [
            self.channel(),
            Attr { key: Key::ReplicaGroups, value: groups },
            Attr { key: Key::UseGlobalDeviceIds, value: Value::Bool(true) },
        ];
        attrs.into_iter().chain(more.into_iter().flatten()).collect()
    }

    /// The id, as [`Module::prepend_comps`] wants it, of the computation that reduces such values.
    fn reducer(&mut self, reducer: Reducer, dtype: DType) -> CompId {
        CompId::new(self.n_comps + self.reducers.insert_full((reducer, dtype)).0)
    }

    /// Adds the computations that were asked for.
    pub fn finish(self, module: &mut Module) {
        let taken: IndexSet<Box<str>> = module.comps.iter().map(|comp| comp.name.clone()).collect();
        let comp = |&(reducer, dtype): &(Reducer, DType)| reduction(reducer, dtype, &taken);
        module.prepend_comps(self.reducers.iter().map(comp).collect());
    }
}

fn n_devices(axes: AxisMask, mesh: &Mesh) -> i64 {
    axes_of(axes).map(|axis| mesh.sizes[axis]).product()
}

/// `spmd.add.f32 { a = parameter(0) b = parameter(1) ROOT add(a, b) }`.
fn reduction(reducer: Reducer, dtype: DType, taken: &IndexSet<Box<str>>) -> Computation {
    let op = reducer.opcode();
    let instr = |name: &str, op, operands: &[InstrId], payload| Instr {
        name: name.into(),
        op,
        operands: operands.iter().copied().collect(),
        shape: Shape::array(dtype, &[]),
        payload,
        attrs: Vec::new(),
        span: phzc_ir::Span::default(),
    };
    let (a, b) = (InstrId::new(0), InstrId::new(1));
    let instrs = vec![
        instr("a", Opcode::Parameter, &[], Payload::Parameter(0)),
        instr("b", Opcode::Parameter, &[], Payload::Parameter(1)),
        instr(op.as_str(), op, &[a, b], Payload::None),
    ];
    let base = format!("spmd.{}.{}", op.as_str(), dtype.as_str());
    let numbered = (0..).map(|n| if n == 0 { base.clone() } else { format!("{base}.{n}") });
    let name = numbered.into_iter().find(|name| !taken.contains(name.as_str())).unwrap_or_default();
    Computation { name: name.into(), instrs, root: InstrId::new(2), thread: None }
}
