//! What kernels and collectives are called, so that measured times find them: canonical text, without names.
//!
//! ```text
//! product bf16 1x8192x3072 sums 768     batch x rows x columns, and what is summed over
//! loop 4096 flops 512 exps 32768 bytes  a kernel on the vector units, or a part of one (`+`) that adds to it
//! all-gather 16384 bytes over 4:2       four devices, each two after the one before
//! ```

use super::{AxisMask, Kernel, Local, axes_of};
use phzc_cost::Collective;
use phzc_cost::measured::Item;
use phzc_ir::{Mesh, Product};

/// What products are called.
pub const PRODUCT: &str = "product";
/// What other kernels are called.
pub const LOOP: &str = "loop";

/// A kernel; none that does not run, and none of fused attention, whose law is of the whole.
pub fn of_kernel(local: &Local, formula_secs: f64) -> Option<Item> {
    let item = |key: String, class: &str| Some(Item { key, class: class.to_owned(), formula_secs });
    match (local.kernel, local.product) {
        (Kernel::Nothing | Kernel::Attention(_), _) => None,
        (Kernel::Matrix, Some(product)) => item(product_key(local, &product), PRODUCT),
        (Kernel::Matrix, None) => {
            item(format!("{PRODUCT} {} {} flops", local.dtype, local.work.flops), PRODUCT)
        }
        (Kernel::Vector, _) => item(loop_key(local, ""), LOOP),
        (Kernel::Fused | Kernel::Joined, _) => item(loop_key(local, "+"), LOOP),
    }
}

fn product_key(Local { work, dtype, .. }: &Local, product: &Product) -> String {
    let Product { batch, rows, columns, sums_outside } = *product;
    let role = if sums_outside { " outside" } else { "" };
    format!("{PRODUCT} {dtype} {batch}x{rows}x{columns} sums {}{role}", product.sums(work.flops))
}

fn loop_key(Local { work, .. }: &Local, part: &str) -> String {
    let flops = work.flops + work.products;
    format!("{LOOP}{part} {flops} flops {} exps {} bytes", work.transcendentals, work.bytes)
}

/// A value that is written and read beside kernels.
pub fn of_spill([written_bytes, read_bytes]: [f64; 2], formula_secs: f64) -> Item {
    let key = format!("{LOOP} 0 flops 0 exps {} bytes", written_bytes + read_bytes);
    Item { key, class: LOOP.to_owned(), formula_secs }
}

/// A collective over the groups of some mesh axes.
pub fn of_collective(kind: Collective, bytes: f64, mesh: &Mesh, axes: AxisMask, formula_secs: f64) -> Item {
    let axes: Vec<usize> = axes_of(axes).filter(|&axis| axis < mesh.n_axes()).collect();
    let groups: Vec<String> =
        axes.iter().map(|&axis| format!("{}:{}", mesh.sizes[axis], mesh.stride(axis))).collect();
    let n_devices: i64 = axes.iter().map(|&axis| mesh.sizes[axis]).product();
    let key = format!("{kind} {bytes} bytes over {}", groups.join(","));
    Item { key, class: format!("{kind}/{n_devices}"), formula_secs }
}
