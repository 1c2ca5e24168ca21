//! What runs as a kernel, and what that costs.

use super::*;
use crate::testing::one_byte_a_second;

fn reader(op: Opcode) -> Reader {
    Reader::new(op, true, [None; 2])
}

/// The same of another phase.
fn late(op: Opcode) -> Reader {
    Reader::new(op, false, [None; 2])
}

fn is_materialised(op: Opcode, readers: impl IntoIterator<Item = Reader>) -> bool {
    super::is_materialised(op, false, readers)
}

fn kernel(op: Opcode, is_materialised: bool, reads_memory: bool) -> Kernel {
    super::kernel(op, None, is_materialised, reads_memory)
}

#[test]
fn an_elementwise_value_between_elementwise_ops_and_reductions_stays_in_registers() {
    assert!(!is_materialised(Opcode::Exponential, [reader(Opcode::Reduce), reader(Opcode::Divide)]));
    assert!(is_materialised(Opcode::Exponential, [reader(Opcode::Divide), reader(Opcode::Dot)]));
    assert!(is_materialised(Opcode::Exponential, [late(Opcode::Divide)]));
    assert!(is_materialised(Opcode::Exponential, [reader(Opcode::Tuple)]));
    assert!(is_materialised(Opcode::Reduce, [reader(Opcode::Add)]));
}

#[test]
fn a_broadcast_is_made_where_it_is_read_in_any_region() {
    assert!(!is_materialised(Opcode::Broadcast, [late(Opcode::Add)]));
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
    let secs = |kernel| op_secs(&cluster, &Local { work, product: None, kernel, dtype: "tf32" });
    assert!((secs(Kernel::Vector) - secs(Kernel::Fused) - cluster.accelerator.launch_secs).abs() < 1e-12);
    let (flat, square) = (Mesh::new(&[8]), Mesh::new(&[2, 4]));
    let reduce = |mesh, axes| collective_secs(&cluster, mesh, Collective::AllReduce, axes, 1e6);
    assert_eq!(reduce(&flat, 0b1), reduce(&square, 0b11));
    assert!(reduce(&square, 0b01) < reduce(&square, 0b11));
    assert_eq!(reduce(&square, 0), 0.0);
}

#[test]
fn software_without_a_kernel_for_all_experts_starts_their_products_one_by_one() {
    let mut cluster = Cluster::named("h100-8").expect("a known cluster");
    let secs = |cluster: &Cluster, batch: f64| {
        let product = Product { batch, rows: 512.0, columns: 512.0, sums_outside: false };
        let work = Work::flops(batch * 2.0 * 512.0 * 512.0 * 256.0);
        compute_secs(cluster, &Local { work, product: Some(product), kernel: Kernel::Matrix, dtype: "bf16" })
    };
    let (one_secs, at_once_secs) = (secs(&cluster, 1.0), secs(&cluster, 16.0));
    cluster.software.separate_products = true;
    let expected_secs = 16.0 * one_secs + 15.0 * cluster.accelerator.launch_secs;
    assert!((secs(&cluster, 16.0) - expected_secs).abs() < 1e-12 && at_once_secs < expected_secs);
    assert_eq!(secs(&cluster, 1.0), one_secs);
}

#[test]
fn a_kernel_takes_the_longer_of_arithmetic_and_traffic_and_its_launch() {
    let cluster = one_byte_a_second();
    let local = |kernel, flops, bytes, product| Local {
        work: Work { flops, bytes, ..Work::default() },
        product,
        kernel,
        dtype: "tf32",
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
    assert_eq!(products_per_sec(&cluster, "tf32"), device.tile_flops_per_sec("tf32"));
    assert_eq!(products_per_sec(&cluster, "bf16"), device.tile_flops_per_sec("bf16"));
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
    let other = |op| Reader::new(op, false, [None; 2]);
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

/// A note by its text.
fn attention(text: &str) -> Option<AttentionNote> {
    AttentionNote::parse(text)
}

#[test]
fn what_attention_makes_stays_in_registers_unless_others_read_it() {
    let reader = |op, read: &str| Reader::new(op, true, [attention("1"), attention(read)]);
    let is_materialised = |op, read| super::is_materialised(op, true, [reader(op, read)]);
    assert!(!is_materialised(Opcode::Dot, "1:qdk"));
    assert!(!is_materialised(Opcode::Reduce, "1"));
    assert!(is_materialised(Opcode::Exponential, "2"));
    assert!(is_materialised(Opcode::Exponential, ""));
    let other_phase = Reader::new(Opcode::Multiply, false, [attention("1"); 2]);
    assert!(super::is_materialised(Opcode::Exponential, true, [other_phase]));
    let view = |reads_memory| super::kernel(Opcode::Reshape, attention("1"), true, reads_memory);
    assert_eq!([view(true), view(false)], [Kernel::Nothing, Kernel::Attention(None)]);
}

/// Seconds of a product of 6 sequences and heads, 256 queries, 512 keys and heads of 64.
fn attention_secs(cluster: &Cluster, note: &str, dtype: &'static str) -> f64 {
    let product = attention(note).and_then(|it| it.product).expect("a product");
    let sizes = product.loops.map(|of| match of {
        AttentionLoop::Queries => 256.0,
        AttentionLoop::Keys => 512.0,
        AttentionLoop::Head => 64.0,
    });
    let [rows, columns, _] = sizes;
    let flops = 2.0 * 6.0 * sizes.iter().product::<f64>();
    op_secs(
        cluster,
        &Local {
            work: Work { flops, ..Work::default() },
            product: Some(Product { batch: 6.0, rows, columns, sums_outside: false }),
            kernel: Kernel::Attention(Some(product)),
            dtype,
        },
    )
}

#[test]
fn the_products_of_an_attention_share_the_time_of_its_kernels() {
    let cluster = Cluster::named("h100-8").expect("a known cluster");
    let whole = |is_causal| Attention {
        batch: 6.0,
        heads: 1.0,
        kv_heads: 1.0,
        q_len: 256.0,
        kv_len: 512.0,
        head_dim: 64.0,
        is_causal,
        is_portable: false,
    };
    let sum = |notes: &[&str]| notes.iter().map(|it| attention_secs(&cluster, it, "bf16")).sum::<f64>();
    let device = &cluster.accelerator;
    let close = |a: f64, b: f64| assert!((a / b - 1.0).abs() < 1e-9, "{a} against {b}");
    close(sum(&["0:qkd", "0:qdk"]), device.attention_secs(&whole(false)));
    close(sum(&["0:kqd:causal", "0:dqk:causal"]), device.attention_secs(&whole(true)));
    let backward = ["0:qkd:gradient", "0:kqd:gradient", "0:kdq:gradient", "0:qdk:gradient", "0:dkq:gradient"];
    close(sum(&backward), device.attention_backward_secs(&whole(false)));
}

#[test]
fn attention_takes_as_much_longer_in_other_types_as_its_products() {
    let cluster = Cluster::named("h100-8").expect("a known cluster");
    let secs = |dtype| attention_secs(&cluster, "0:qkd", dtype);
    assert_eq!(secs("tf32") / secs("bf16"), 2.0);
}

#[test]
fn products_that_are_to_be_exact_do_not_run_as_tf32() {
    let module = phzc_ir::parse(
        "ENTRY e {
            x = f32[8,8] parameter(0)
            a = f32[8,8] dot(x, x), lhs_contracting_dims={1}, rhs_contracting_dims={0}
            b = f32[8,8] dot(x, a), lhs_contracting_dims={1}, rhs_contracting_dims={0}, operand_precision={high,high}
            c = f32[8,8] dot(x, b), lhs_contracting_dims={1}, rhs_contracting_dims={0}, operand_precision={highest,highest}
            ROOT d = f32[8,8] dot(x, c), lhs_contracting_dims={1}, rhs_contracting_dims={0}, algorithm=dot_f32_f32_f32
        }",
    )
    .expect("legal");
    let of = module.entry().instrs.iter().skip(1).map(|instr| numbers(DType::F32, is_exact(instr)));
    assert_eq!(of.collect::<Vec<_>>(), ["tf32", "tf32", "f32", "f32"]);
    assert_eq!(numbers(DType::Bf16, true), "bf16");
}

#[test]
fn what_is_between_the_products_of_an_attention_pays_for_traffic_only() {
    let cluster = one_byte_a_second();
    let work = Work { flops: 1e6, transcendentals: 1e6, bytes: 3.0, ..Work::default() };
    let local = Local { work, product: None, kernel: Kernel::Attention(None), dtype: "tf32" };
    assert_eq!(op_secs(&cluster, &local), 3.0);
}

#[test]
fn the_software_of_a_cluster_says_how_often_elementwise_kernels_pass_and_which_attention_runs() {
    let mut cluster = one_byte_a_second();
    let secs = |cluster: &Cluster, kernel| {
        let work = Work { flops: 1e6, bytes: 3.0, ..Work::default() };
        op_secs(cluster, &Local { work, product: None, kernel, dtype: "tf32" })
    };
    let (vector, matrix) = (secs(&cluster, Kernel::Vector), secs(&cluster, Kernel::Matrix));
    cluster.software.memory_passes = 2.0;
    assert_eq!((secs(&cluster, Kernel::Vector), secs(&cluster, Kernel::Matrix)), (2.0 * vector, matrix));
    let own = Cluster::named("h100-8").expect("a known cluster").clone();
    let mut portable = own.clone();
    portable.software.portable_attention = true;
    let [own, portable] = [own, portable].map(|it| attention_secs(&it, "0:qkd", "bf16"));
    assert!(own < portable, "{own} {portable}");
}
