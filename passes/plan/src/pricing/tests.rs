//! What runs as a kernel, and what that costs.

use super::*;
use crate::testing::one_byte_a_second;

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
    let secs = |kernel| op_secs(&cluster, &Local { work, product: None, kernel, dtype: DType::F32 });
    assert!((secs(Kernel::Vector) - secs(Kernel::Fused) - cluster.accelerator.launch_secs).abs() < 1e-12);
    let (flat, square) = (Mesh::new(&[8]), Mesh::new(&[2, 4]));
    let reduce = |mesh, axes| collective_secs(&cluster, mesh, Collective::AllReduce, axes, 1e6);
    assert_eq!(reduce(&flat, 0b1), reduce(&square, 0b11));
    assert!(reduce(&square, 0b01) < reduce(&square, 0b11));
    assert_eq!(reduce(&square, 0), 0.0);
}

#[test]
fn a_kernel_takes_the_longer_of_arithmetic_and_traffic_and_its_launch() {
    let cluster = one_byte_a_second();
    let local = |kernel, flops, bytes, product| Local {
        work: Work { flops, bytes, ..Work::default() },
        product,
        kernel,
        dtype: DType::F32,
    };
    let secs = |kernel, flops, bytes| op_secs(&cluster, &local(kernel, flops, bytes, None));
    assert_eq!(secs(Kernel::Vector, 1e6, 3.0), 3.5);
    assert_eq!(secs(Kernel::Vector, 7e6, 3.0), 7.5);
    assert_eq!(secs(Kernel::Fused, 1e6, 3.0), 3.0);
    assert_eq!(secs(Kernel::Nothing, 1e6, 3.0), 0.0);
    assert_eq!(compute_secs(&cluster, &local(Kernel::Nothing, 1e6, 3.0, None)), 0.0);
    assert_eq!(compute_secs(&cluster, &local(Kernel::Fused, 7e6, 3.0, None)), 7.0);
    let device = &cluster.accelerator;
    let shapeless = device.shapeless_product_secs(7e6, "tf32");
    assert_eq!(secs(Kernel::Matrix, 7e6, 3.0), 0.5 + shapeless);
    assert_eq!(secs(Kernel::Matrix, 7e6, 30.0), 30.5);
    let product = Product { batch: 2.0, rows: 3.0, columns: 5.0, sums_outside: false };
    let gemm = Gemm { batch: 2.0, m: 3.0, n: 5.0, k: 7.0 };
    let secs = |product| compute_secs(&cluster, &local(Kernel::Matrix, gemm.flops(), 0.0, Some(product)));
    assert_eq!(secs(product), device.product_secs(&gemm, "tf32", Role::Write));
    let outside = secs(Product { sums_outside: true, ..product });
    assert_eq!(outside, device.product_secs(&gemm, "tf32", Role::Accumulate));
}

#[test]
fn single_precision_products_run_as_tf32() {
    let cluster = Cluster::named("a100-8").expect("a known cluster");
    let device = &cluster.accelerator;
    assert_eq!(products_per_sec(&cluster, DType::F32), device.tile_flops_per_sec("tf32"));
    assert_eq!(products_per_sec(&cluster, DType::Bf16), device.tile_flops_per_sec("bf16"));
    assert_ne!(device.tile_flops_per_sec("tf32"), device.tile_flops_per_sec("f32"));
}

#[test]
fn a_group_has_the_size_and_stride_of_its_axes_and_axes_of_no_mesh_are_none() {
    let (cluster, mesh) = (one_byte_a_second(), Mesh::new(&[2, 4]));
    let secs = |axes| collective_secs(&cluster, &mesh, Collective::AllGather, axes, 16.0);
    let group = |size, stride| AxisGroup { size, stride };
    let over = |groups: &[AxisGroup]| cluster.collective_over_secs(Collective::AllGather, 16.0, groups);
    assert_eq!(secs(0b01), over(&[group(2, 4)]));
    assert_eq!(secs(0b10), over(&[group(4, 1)]));
    assert_eq!(secs(0b110), over(&[group(4, 1)]));
    assert!(secs(0b01) != secs(0b10) && secs(0b01) > 0.0);
    assert_eq!(axes_of(0b1010).collect::<Vec<_>>(), [1, 3]);
}

#[test]
fn only_what_all_readers_take_in_stays_out_of_memory() {
    let other = |op| Reader { op, is_same_region: false };
    // Made where they are read, whatever the region; a product takes in nothing.
    assert!(!is_materialised(Opcode::Iota, [other(Opcode::Add), reader(Opcode::Reshape)]));
    assert!(is_materialised(Opcode::Iota, [reader(Opcode::Dot)]));
    // A view of what is in registers.
    assert!(!is_materialised(Opcode::Reshape, [reader(Opcode::Broadcast), reader(Opcode::Reduce)]));
    assert!(is_materialised(Opcode::Reshape, [other(Opcode::Add)]));
    for op in [Opcode::Dot, Opcode::While, Opcode::Sort, Opcode::Reduce] {
        assert!(is_materialised(op, [reader(Opcode::Add)]), "{op:?}");
    }
}

#[test]
fn an_op_runs_as_what_it_is() {
    assert_eq!(kernel(Opcode::Tuple, true, false), Kernel::Nothing);
    assert_eq!(kernel(Opcode::Broadcast, true, false), Kernel::Vector);
    assert_eq!(kernel(Opcode::Reshape, false, false), Kernel::Fused);
    assert_eq!(kernel(Opcode::Reshape, false, true), Kernel::Nothing);
    assert_eq!(kernel(Opcode::Add, false, true), Kernel::Fused);
    assert_eq!(kernel(Opcode::Add, true, true), Kernel::Vector);
    assert_eq!(kernel(Opcode::Reduce, true, true), Kernel::Vector);
    assert_eq!(kernel(Opcode::Dot, false, true), Kernel::Matrix);
    assert_eq!(kernel(Opcode::Sort, true, true), Kernel::Vector);
}
