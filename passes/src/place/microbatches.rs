//! The numbers of microbatches that are worth trying.

use crate::batch::batch_size;
use crate::graph::Graph;
use crate::pass::Options;
use phzc_ir::{Diagnostic, Result};

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
