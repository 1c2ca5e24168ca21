//! The batch that microbatches divide.

use crate::graph::Graph;
use crate::pass::Options;
use phzc_ir::dtype::Class;
use phzc_ir::{Diagnostic, Result};

/// The batch: the greatest common divisor of the leading sizes of inputs that are no state.
fn batch_size(graph: &Graph) -> usize {
    let is_state = |tensor: u32| graph.aliases.iter().any(|&(_, param)| param == tensor);
    if graph.aliases.is_empty() {
        return 1;
    }
    let inputs = graph
        .tensors
        .iter()
        .enumerate()
        .filter(|(id, tensor)| tensor.param.is_some() && !is_state(*id as u32));
    let sizes = inputs
        .filter(|(_, tensor)| !tensor.is_scalar() && tensor.dtype.class() != Class::Complex)
        .map(|(_, tensor)| tensor.dims[0]);
    sizes.fold(0, gcd).max(1) as usize
}

fn gcd(a: i64, b: i64) -> i64 {
    if b == 0 { a } else { gcd(b, a % b) }
}

/// The microbatch counts to try.
///
/// # Errors
/// When the count that the user wants does not divide the batch.
pub fn counts(graph: &Graph, options: &Options) -> Result<Vec<usize>> {
    let (batch, wanted) = (batch_size(graph), options.int("microbatches") as usize);
    if wanted > 0 && !batch.is_multiple_of(wanted) {
        return Err(Diagnostic::error(format!("{wanted} microbatches do not divide a batch of {batch}")));
    }
    let powers = std::iter::successors(Some(1), |count| Some(count * 2))
        .take_while(|count| *count <= batch && batch.is_multiple_of(*count));
    Ok(if wanted > 0 { vec![wanted] } else { powers.collect() })
}
