//! Prices of single operations and collectives: the one place that planner and report both ask.
//!
//! An operation is a kernel of its own, a part of another kernel, or nothing at all. What XLA fuses is
//! approximated by one local rule ([`is_materialised`]): an elementwise value stays in registers when all its
//! readers are elementwise ops or reductions of the same region (same stage and phase). Which values one
//! kernel makes, and which op pays for what it reads, is in `pricing/kernels.rs`; an op pays for its own
//! result if it goes to memory. What a note says is in a fused attention ([`AttentionNote`]) runs in its
//! kernel: its products share the time of the whole, its values stay in registers, and only traffic with
//! others is paid for besides. Seconds, bytes and operations throughout; the formulas are those of
//! `phzc_cost::gemm`, `::roofline` and `::collective`. What was measured on a cluster
//! ([`phzc_cost::measured`]) comes before them.

mod kernels;
pub mod keys;

pub use kernels::{Input, Part, Share, elements, n_elements, shares, stored_for_less, sums_rows};

use phzc_cost::measured::Item;
use phzc_cost::{Attention, AxisGroup, Cluster, Collective, Gemm, Role, Source};
use phzc_ir::{
    AttentionLoop, AttentionNote, AttentionProduct, DType, FusionKind, Instr, Key, MAX_AXES, Mesh, Opcode,
    Product, Value, Work,
};
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
    /// In a kernel that begins with another operation and writes this one's value too: no launch.
    Joined,
    /// As a kernel on the vector units.
    Vector,
    /// As a kernel on the matrix units.
    Matrix,
    /// In a kernel of fused attention, as one of its products or between them.
    Attention(Option<AttentionProduct>),
}

/// What one device does of an operation in one execution.
#[derive(Clone, Copy, Debug)]
pub struct Local {
    /// Its operations and traffic.
    pub work: Work,
    /// Its part of a product's loops, of a [`Kernel::Matrix`] that has them.
    pub product: Option<Product>,
    /// How it runs.
    pub kernel: Kernel,
    /// The numbers that its products run in ([`numbers`]).
    pub dtype: &'static str,
}

/// A reader of a value.
#[derive(Clone, Copy, Debug)]
pub struct Reader {
    /// What it does.
    pub op: Opcode,
    /// Whether stage and phase are those of the value's maker.
    pub is_same_region: bool,
    /// Whether it is in the same fused attention as the maker, in the same region.
    pub is_same_attention: bool,
}

impl Reader {
    /// Whoever takes the results of a computation.
    pub const OF_RESULTS: Reader =
        Reader { op: Opcode::Tuple, is_same_region: false, is_same_attention: false };

    /// A reader; `attentions` are those that maker and reader are part of.
    pub fn new(op: Opcode, is_same_region: bool, attentions: [Option<AttentionNote>; 2]) -> Reader {
        let [made, read] = attentions.map(|attention| attention.map(|it| it.number));
        let is_same_attention = is_same_region && made.is_some() && made == read;
        Reader { op, is_same_region, is_same_attention }
    }
}

/// Seconds of one operation on one device.
///
/// Everything is local to the device: flops of its part, bytes of [`phzc_ir::Touch`], sizes of its loops.
/// Software that does not fuse what XLA would passes through memory more often.
pub fn op_secs(cluster: &Cluster, local: &Local) -> f64 {
    op_price(cluster, local).0
}

/// The same, with where it comes from.
pub fn op_price(cluster: &Cluster, local: &Local) -> (f64, Source) {
    let formula_secs = op_formula_secs(cluster, local);
    let item = || keys::of_kernel(local, formula_secs);
    price(cluster, formula_secs, item)
}

/// What a formula says, unless a measurement says it better.
fn price(cluster: &Cluster, formula_secs: f64, item: impl FnOnce() -> Option<Item>) -> (f64, Source) {
    let measured = cluster.measured.as_ref().filter(|_| formula_secs > 0.0);
    let found = measured.and_then(|measured| Some((measured, item()?)));
    found.map_or((formula_secs, Source::Formula), |(measured, item)| {
        measured.secs(&item.key, &item.class, formula_secs)
    })
}

/// [`op_secs`] by formula, whatever was measured.
pub fn op_formula_secs(cluster: &Cluster, local: &Local) -> f64 {
    let device = &cluster.accelerator;
    let (n_launches, n_passes) = match local.kernel {
        Kernel::Nothing => return 0.0,
        // The law of attention has its launches.
        Kernel::Fused | Kernel::Joined | Kernel::Attention(_) => (0.0, 1.0),
        Kernel::Matrix => (1.0, 1.0),
        Kernel::Vector => (cluster.software.memory_passes, cluster.software.memory_passes),
    };
    let memory_secs = n_passes * device.memory_secs(local.work.bytes);
    n_launches * device.launch_secs + compute_secs(cluster, local).max(memory_secs)
}

/// The part of [`op_secs`] that is arithmetic, were memory and launches free.
pub fn compute_secs(cluster: &Cluster, local: &Local) -> f64 {
    match local.kernel {
        Kernel::Nothing | Kernel::Attention(None) => 0.0,
        Kernel::Attention(Some(product)) => attention_secs(cluster, local, product),
        Kernel::Matrix => product_secs(cluster, local),
        Kernel::Fused | Kernel::Joined | Kernel::Vector => {
            inner_products_secs(cluster, local) + vector_secs(cluster, local)
        }
    }
}

/// Seconds of what a kernel of another kind does on the matrix units: attention, products of libraries.
pub fn inner_products_secs(cluster: &Cluster, Local { work, dtype, .. }: &Local) -> f64 {
    match work.products > 0.0 {
        true => cluster.accelerator.shapeless_product_secs(work.products, dtype),
        false => 0.0,
    }
}

fn vector_secs(cluster: &Cluster, local: &Local) -> f64 {
    cluster.accelerator.vector_secs(&local.work)
}

/// Products by the law of `phzc_cost::gemm`, which `phzc validate` holds against measurements.
fn product_secs(cluster: &Cluster, Local { work, product, dtype, .. }: &Local) -> f64 {
    let (device, software) = (&cluster.accelerator, &cluster.software);
    let Some(product) = product else { return device.shapeless_product_secs(work.flops, dtype) };
    let Product { batch, rows, columns, sums_outside } = *product;
    let gemm = Gemm { batch, m: rows, n: columns, k: product.sums(work.flops) };
    let role = if sums_outside { Role::Accumulate } else { Role::Write };
    // One after the other, each with a launch and waves of its own.
    let times = if software.separate_products { batch.max(1.0) } else { 1.0 };
    let gemm = Gemm { batch: batch / times, ..gemm };
    let is_unpadded = software.unpadded_products && matches!(*dtype, "bf16" | "f16");
    let slowdown = if is_unpadded { device.unpadded_slowdown(&gemm, role) } else { 1.0 };
    times * slowdown * device.product_secs(&gemm, dtype, role) + (times - 1.0) * device.launch_secs
}

/// A product's share of its attention: all products of one that is split alike take what the law of
/// `phzc_cost::attention` says of the whole, softmax and launches included.
///
/// The law is of bfloat16; other types take as much longer as their products do.
fn attention_secs(
    cluster: &Cluster,
    Local { work, product, dtype, .. }: &Local,
    is: AttentionProduct,
) -> f64 {
    let device = &cluster.accelerator;
    let slower = device.tile_flops_per_sec("bf16") / device.tile_flops_per_sec(dtype);
    let Some(product) = product else { return device.shapeless_product_secs(work.flops, dtype) };
    let sizes = [product.rows, product.columns, product.sums(work.flops)];
    let size = |of: AttentionLoop| {
        is.loops.into_iter().zip(sizes).find(|(own, _)| *own == of).map_or(1.0, |(_, size)| size)
    };
    let attention = Attention {
        batch: product.batch,
        heads: 1.0,
        kv_heads: 1.0,
        q_len: size(AttentionLoop::Queries),
        kv_len: size(AttentionLoop::Keys),
        head_dim: size(AttentionLoop::Head),
        is_causal: is.is_causal,
        is_portable: cluster.software.portable_attention,
    };
    let (whole_secs, n_products) = match is.is_gradient {
        true => (device.attention_backward_secs(&attention), BACKWARD_PRODUCTS),
        false => (device.attention_secs(&attention), FORWARD_PRODUCTS),
    };
    slower.max(1.0) * whole_secs / n_products
}

/// Scores, and their product with values.
const FORWARD_PRODUCTS: f64 = 2.0;
/// Scores again, the gradients of values, of probabilities, of queries and of keys.
const BACKWARD_PRODUCTS: f64 = 5.0;

/// The flops per second that products of a type reach at most.
pub fn products_per_sec(cluster: &Cluster, dtype: &str) -> f64 {
    let least = cluster.measured.as_ref().map_or(1.0, |measured| measured.least_ratio(keys::PRODUCT));
    cluster.accelerator.most_flops_per_sec(dtype) / least
}

/// The numbers that products of a type run in: XLA lets those of `f32` run as `tf32` where the device has it,
/// unless they are to be exact ([`is_exact`]).
pub fn numbers(dtype: DType, is_exact: bool) -> &'static str {
    if dtype == DType::F32 && !is_exact { "tf32" } else { dtype.as_str() }
}

/// Whether an instruction asks for products in all digits: JAX's `precision=HIGHEST`, or an algorithm that
/// says so.
pub fn is_exact(instr: &Instr) -> bool {
    let says = |key: Key, word: &str| {
        instr
            .attr(key)
            .is_some_and(|value| matches!(value, Value::Raw(text) | Value::Word(text) if text.contains(word)))
    };
    says(Key::OperandPrecision, "highest") || says(Key::Algorithm, "dot_f32_f32_f32")
}

/// The peak that a device's maker states for products of a type, in operations per second.
pub fn peak_flops_per_sec(cluster: &Cluster, dtype: &str) -> f64 {
    cluster.accelerator.peak_flops_per_sec.of(dtype)
}

/// Seconds to write a value, in one layout, and read it, in another, that would else stay in registers.
pub fn spill_secs(cluster: &Cluster, bytes: [f64; 2]) -> f64 {
    spill_price(cluster, bytes).0
}

/// The same, with where it comes from.
pub fn spill_price(cluster: &Cluster, bytes: [f64; 2]) -> (f64, Source) {
    let formula_secs = spill_formula_secs(cluster, bytes);
    price(cluster, formula_secs, || Some(keys::of_spill(bytes, formula_secs)))
}

/// [`spill_secs`] by formula, whatever was measured.
pub fn spill_formula_secs(cluster: &Cluster, [written_bytes, read_bytes]: [f64; 2]) -> f64 {
    let device = &cluster.accelerator;
    device.launch_secs + device.memory_secs(written_bytes) + device.memory_secs(read_bytes)
}

/// Seconds of one collective over the groups that `axes` of `mesh` span, all groups at once.
///
/// `bytes` in NCCL's convention: an all-reduce's buffer, an all-gather's output, a reduce-scatter's input,
/// an all-to-all's or permute's buffer, each on one device.
pub fn collective_secs(cluster: &Cluster, mesh: &Mesh, kind: Collective, axes: AxisMask, bytes: f64) -> f64 {
    collective_price(cluster, mesh, kind, axes, bytes).0
}

/// The same, with where it comes from.
pub fn collective_price(
    cluster: &Cluster,
    mesh: &Mesh,
    kind: Collective,
    axes: AxisMask,
    bytes: f64,
) -> (f64, Source) {
    let formula_secs = collective_formula_secs(cluster, mesh, kind, axes, bytes);
    price(cluster, formula_secs, || Some(keys::of_collective(kind, bytes, mesh, axes, formula_secs)))
}

/// [`collective_secs`] by formula, whatever was measured.
pub fn collective_formula_secs(
    cluster: &Cluster,
    mesh: &Mesh,
    kind: Collective,
    axes: AxisMask,
    bytes: f64,
) -> f64 {
    let group = |axis| AxisGroup { size: mesh.sizes[axis] as usize, stride: mesh.stride(axis) as usize };
    let groups: SmallVec<[AxisGroup; MAX_AXES]> =
        axes_of(axes).filter(|&axis| axis < mesh.n_axes()).map(group).collect();
    cluster.collective_over_secs(kind, bytes, &groups)
}

/// The axes of a mask, in order.
pub fn axes_of(axes: AxisMask) -> impl Iterator<Item = usize> {
    (0..MAX_AXES).filter(move |axis| axes >> axis & 1 == 1)
}

/// Whether a value has to be in memory for its readers' sake; a computation's root counts as read by `tuple`.
///
/// A view of a value that is in memory anyway is in memory whatever this says. What a kernel of attention
/// makes stays in its registers, unless others read it.
pub fn is_materialised(op: Opcode, is_in_attention: bool, readers: impl IntoIterator<Item = Reader>) -> bool {
    let own = op.def().fusion;
    if is_in_attention && own != FusionKind::Free {
        return !readers.into_iter().all(|reader| reader.is_same_attention);
    }
    let fuses = |reader: Reader| {
        let takes = matches!(
            reader.op.def().fusion,
            FusionKind::Loop | FusionKind::Root | FusionKind::View | FusionKind::Free
        );
        takes && (reader.is_same_region || own == FusionKind::Free)
    };
    match own {
        FusionKind::Control | FusionKind::Root | FusionKind::Opaque | FusionKind::Matrix => true,
        FusionKind::View | FusionKind::Free | FusionKind::Loop => !readers.into_iter().all(fuses),
    }
}

/// The same in a kernel that the operation shares.
pub fn shared(kernel: Kernel, share: &Share) -> Kernel {
    if kernel == Kernel::Vector && !share.launches { Kernel::Joined } else { kernel }
}

/// How an operation runs; `reads_memory` says whether its first operand is in memory.
pub fn kernel(
    op: Opcode,
    attention: Option<AttentionNote>,
    is_materialised: bool,
    reads_memory: bool,
) -> Kernel {
    let is_view = op.def().fusion == FusionKind::View && reads_memory;
    if let Some(attention) = attention.filter(|_| !is_view) {
        return Kernel::Attention(attention.product);
    }
    match (op.def().fusion, is_materialised) {
        (FusionKind::Control, _) | (FusionKind::Free, false) => Kernel::Nothing,
        (FusionKind::View, _) if reads_memory => Kernel::Nothing,
        (FusionKind::View | FusionKind::Loop, false) => Kernel::Fused,
        (FusionKind::Matrix, _) => Kernel::Matrix,
        _ => Kernel::Vector,
    }
}

#[cfg(test)]
mod tests;
