//! Prices of single operations and collectives: the one place that planner and report both ask.
//!
//! An operation is a kernel of its own, a part of another kernel, or nothing at all. What XLA fuses is
//! approximated by one local rule ([`is_materialised`]): an elementwise value stays in registers when all its
//! readers are elementwise ops or reductions of the same region (same stage, phase and block). Memory traffic
//! is then local too: an op pays for the operands that are in memory, and for its result if it goes there.
//! Seconds, bytes and operations throughout; the formulas are those of `phzc_cost::roofline` and `::collective`.

use phzc_cost::{AxisGroup, Cluster, Collective};
use phzc_ir::{DType, MAX_AXES, Mesh, Opcode, Work};
use smallvec::SmallVec;

/// A set of mesh axes: bit `a` is axis `a`.
pub type AxisMask = u8;

/// How an operation runs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Kernel {
    /// Not at all: it only names a value.
    #[default]
    Nothing,
    /// Inside the kernel of its readers: no launch.
    Fused,
    /// As a kernel on the vector units.
    Vector,
    /// As a kernel on the matrix units.
    Matrix,
}

/// What fusion does with an opcode.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FusionKind {
    /// Names values: no work, and its readers find its operands' buffers.
    Control,
    /// The same elements in another shape or order: free on a value in memory, else part of its maker's kernel.
    View,
    /// Made from nothing or from little wherever it is read: `iota`, `broadcast`.
    Free,
    /// Elementwise or moves elements: fuses with makers and with readers.
    Loop,
    /// Fuses with its makers; its result goes to memory.
    Root,
    /// A kernel of its own: reads and writes memory.
    Opaque,
}

/// A reader of a value.
#[derive(Clone, Copy, Debug)]
pub struct Reader {
    /// What it does.
    pub op: Opcode,
    /// Whether stage, phase and block are those of the value's maker.
    pub is_same_region: bool,
}

/// Seconds of one operation on one device.
///
/// `work` is local: flops of the device's part, bytes of [`traffic_bytes`]. `dtype` is the first operand's.
pub fn op_secs(cluster: &Cluster, work: &Work, kernel: Kernel, dtype: DType) -> f64 {
    let device = &cluster.accelerator;
    match kernel {
        Kernel::Nothing => 0.0,
        Kernel::Fused => compute_secs(cluster, work, kernel, dtype).max(device.memory_secs(work.bytes)),
        Kernel::Vector => device.op_secs(work, dtype.as_str(), false),
        Kernel::Matrix => device.op_secs(work, matrix_dtype(dtype), true),
    }
}

/// The part of [`op_secs`] that is arithmetic, were memory and launches free.
pub fn compute_secs(cluster: &Cluster, work: &Work, kernel: Kernel, dtype: DType) -> f64 {
    let device = &cluster.accelerator;
    match kernel {
        Kernel::Nothing => 0.0,
        Kernel::Matrix => device.compute_secs(work, matrix_dtype(dtype), true),
        Kernel::Fused | Kernel::Vector => device.compute_secs(work, dtype.as_str(), false),
    }
}

/// XLA's default precision lets `f32` products run as `tf32` where the device has it.
fn matrix_dtype(dtype: DType) -> &'static str {
    if dtype == DType::F32 { "tf32" } else { dtype.as_str() }
}

/// Seconds of one collective over the groups that `axes` of `mesh` span, all groups at once.
///
/// `bytes` in NCCL's convention: an all-reduce's buffer, an all-gather's output, a reduce-scatter's input,
/// an all-to-all's or permute's buffer, each on one device.
pub fn collective_secs(cluster: &Cluster, mesh: &Mesh, kind: Collective, axes: AxisMask, bytes: f64) -> f64 {
    let group = |axis| AxisGroup { size: mesh.sizes[axis] as usize, stride: mesh.stride(axis) as usize };
    let groups: SmallVec<[AxisGroup; MAX_AXES]> =
        axes_of(axes).filter(|&axis| axis < mesh.n_axes()).map(group).collect();
    cluster.collective_over_secs(kind, bytes, &groups)
}

/// The axes of a mask, in order.
pub fn axes_of(axes: AxisMask) -> impl Iterator<Item = usize> {
    (0..MAX_AXES).filter(move |axis| axes >> axis & 1 == 1)
}

/// What fusion does with an opcode; the opcodes that are not named are the elementwise ones.
pub fn fusion(op: Opcode) -> FusionKind {
    use Opcode::*;
    match op {
        Parameter | Constant | Tuple | GetTupleElement | OptBarrier | AfterAll | AddDependency | Domain
        | While | Conditional | Call | PartitionId | ReplicaId | GetDimensionSize => FusionKind::Control,
        Reshape | Bitcast | Transpose => FusionKind::View,
        Broadcast | Iota => FusionKind::Free,
        Reduce | ReduceWindow | DynamicUpdateSlice | Scatter => FusionKind::Root,
        Dot
        | RaggedDot
        | ScaledDot
        | Convolution
        | Fusion
        | CustomCall
        | Sort
        | Topk
        | Fft
        | Cholesky
        | TriangularSolve
        | BatchNormGrad
        | BatchNormInference
        | BatchNormTraining
        | SelectAndScatter
        | Scan
        | Rng
        | RngBitGenerator
        | RngGetAndUpdateState
        | Infeed
        | Outfeed
        | Send
        | SendDone
        | Recv
        | RecvDone
        | AllGather
        | AllGatherDone
        | AllGatherStart
        | AllReduce
        | AllReduceDone
        | AllReduceStart
        | AllToAll
        | ReduceScatter
        | RaggedAllToAll
        | CollectiveBroadcast
        | CollectivePermute
        | CollectivePermuteDone
        | CollectivePermuteStart
        | AsyncDone
        | AsyncStart
        | AsyncUpdate
        | CopyDone
        | CopyStart
        | DynamicReshape
        | SetDimensionSize => FusionKind::Opaque,
        _ => FusionKind::Loop,
    }
}

/// Whether a value has to be in memory for its readers' sake; a computation's root counts as read by `tuple`.
///
/// A view of a value that is in memory anyway is in memory whatever this says.
pub fn is_materialised(op: Opcode, readers: impl IntoIterator<Item = Reader>) -> bool {
    let own = fusion(op);
    let fuses = |reader: Reader| {
        let takes = matches!(
            fusion(reader.op),
            FusionKind::Loop | FusionKind::Root | FusionKind::View | FusionKind::Free
        );
        takes && (reader.is_same_region || own == FusionKind::Free)
    };
    match own {
        FusionKind::Control | FusionKind::Root | FusionKind::Opaque => true,
        FusionKind::View | FusionKind::Free | FusionKind::Loop => !readers.into_iter().all(fuses),
    }
}

/// How an operation runs; `reads_memory` says whether its first operand is in memory.
pub fn kernel(op: Opcode, is_materialised: bool, reads_memory: bool) -> Kernel {
    match (fusion(op), is_materialised) {
        (FusionKind::Control, _) | (FusionKind::Free, false) => Kernel::Nothing,
        (FusionKind::View, _) if reads_memory => Kernel::Nothing,
        (FusionKind::View | FusionKind::Loop, false) => Kernel::Fused,
        _ if is_matrix_op(op) => Kernel::Matrix,
        _ => Kernel::Vector,
    }
}

/// Whether the op runs on the matrix units.
pub fn is_matrix_op(op: Opcode) -> bool {
    matches!(op, Opcode::Dot | Opcode::RaggedDot | Opcode::ScaledDot | Opcode::Convolution)
}

/// Bytes that one execution moves between memory and one device's cores.
///
/// `operands`: local bytes per operand, 0 for one that is not in memory. `result`: local bytes of the result,
/// `writes` whether it goes to memory. Ops that touch a part of an operand pay for that part, as in XLA's
/// `HloCostAnalysis`: slices and gathers for what they take, updates in place for what they change.
pub fn traffic_bytes(op: Opcode, operands: &[f64], result: f64, writes: bool) -> f64 {
    let all = |operands: &[f64]| operands.iter().sum::<f64>();
    let written = if writes { result } else { 0.0 };
    match (op, operands) {
        (Opcode::Slice | Opcode::DynamicSlice | Opcode::Gather, [source, indices @ ..]) => {
            source.min(result) + all(indices) + written
        }
        (Opcode::DynamicUpdateSlice, [_, update, ..]) => 2.0 * update,
        (Opcode::Scatter, _) => {
            let (_, rest) = operands.split_at(operands.len() / 2);
            let indices = rest.first().copied().unwrap_or(0.0);
            indices + 3.0 * all(rest.get(1..).unwrap_or_default())
        }
        _ => all(operands) + written,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reader(op: Opcode) -> Reader {
        Reader { op, is_same_region: true }
    }

    #[test]
    fn an_elementwise_value_between_elementwise_ops_and_reductions_stays_in_registers() {
        assert!(!is_materialised(Opcode::Exponential, [reader(Opcode::Reduce), reader(Opcode::Divide)]));
        assert!(is_materialised(Opcode::Exponential, [reader(Opcode::Divide), reader(Opcode::Dot)]));
        assert!(is_materialised(Opcode::Exponential, [Reader { op: Opcode::Divide, is_same_region: false }]));
        assert!(is_materialised(Opcode::Exponential, [reader(Opcode::Tuple)]));
        assert!(is_materialised(Opcode::Reduce, [reader(Opcode::Add)]));
    }

    #[test]
    fn a_broadcast_is_made_where_it_is_read_in_any_region() {
        assert!(!is_materialised(Opcode::Broadcast, [Reader { op: Opcode::Add, is_same_region: false }]));
        assert!(is_materialised(Opcode::Broadcast, [reader(Opcode::Tuple)]));
        assert_eq!(kernel(Opcode::Broadcast, false, true), Kernel::Nothing);
    }

    #[test]
    fn a_view_costs_only_where_its_maker_is_fused_into_it() {
        assert_eq!(kernel(Opcode::Reshape, true, true), Kernel::Nothing);
        assert_eq!(kernel(Opcode::Reshape, true, false), Kernel::Vector);
        assert_eq!(kernel(Opcode::Dot, true, true), Kernel::Matrix);
    }

    #[test]
    fn a_fused_op_has_no_launch_and_an_axis_no_price_of_its_own() {
        let cluster = Cluster::named("a100-8").expect("a known cluster");
        let work = Work { flops: 1e6, bytes: 1e6, ..Work::default() };
        let secs = |kernel| op_secs(&cluster, &work, kernel, DType::F32);
        assert!((secs(Kernel::Vector) - secs(Kernel::Fused) - cluster.accelerator.launch_secs).abs() < 1e-12);
        let (flat, square) = (Mesh::new(&[8]), Mesh::new(&[2, 4]));
        let reduce = |mesh, axes| collective_secs(&cluster, mesh, Collective::AllReduce, axes, 1e6);
        assert_eq!(reduce(&flat, 0b1), reduce(&square, 0b11));
        assert!(reduce(&square, 0b01) < reduce(&square, 0b11));
        assert_eq!(reduce(&square, 0), 0.0);
    }

    #[test]
    fn a_slice_reads_what_it_takes_and_an_update_writes_what_it_changes() {
        assert_eq!(traffic_bytes(Opcode::DynamicSlice, &[100.0, 4.0], 10.0, true), 24.0);
        assert_eq!(traffic_bytes(Opcode::DynamicUpdateSlice, &[100.0, 10.0, 4.0], 100.0, true), 20.0);
        assert_eq!(traffic_bytes(Opcode::Add, &[8.0, 0.0], 8.0, false), 8.0);
    }
}
