//! The chain of layers of a flattened program, by size of the microbatch.

use super::chain::Builder;
use super::kernels::ProgramKernels;
use super::layers::layers;
use super::scale::Batch;
use phzc_arch::model::Microbatch;
use phzc_ir::{Diagnostic, Module, Result};
use phzc_passes::graph::Graph;

/// The forward part of a program as a chain of layers.
///
/// # Errors
/// For a program without data or without contractions on it.
pub(super) fn microbatches(module: &Module, samples: &[u64]) -> Result<Vec<Microbatch>> {
    let graph = Graph::build(module);
    let batch = Batch::find(&graph)?;
    let layers = layers(module, &graph, &batch);
    if layers.iter().flatten().all(|layer| *layer == 0) {
        let error = Diagnostic::error(format!("`{}` has no product of its data to search over", module.name));
        return Err(error.help("give a program with matrix products or convolutions of its inputs"));
    }
    let kernels = ProgramKernels::of(module, &graph, &batch, &layers)?;
    let of = |samples: &u64| {
        let kernels = kernels.as_ref().map(|it| it.at(batch.share(*samples)));
        Builder::new(module, &graph, &batch, &layers, *samples).microbatch(kernels)
    };
    Ok(samples.iter().map(of).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use phzc_ir::parse;

    /// Two layers of a product with a function behind it, and a head.
    const PROGRAM: &str = "HloModule m
        ENTRY main {
          tokens = s32[4,16]{1,0} parameter(0)
          x0 = f32[4,16]{1,0} convert(tokens)
          w1 = f32[16,16]{1,0} parameter(1)
          w2 = f32[16,16]{1,0} parameter(2)
          w3 = f32[16,64]{1,0} parameter(3)
          d1 = f32[4,16]{1,0} dot(x0, w1), lhs_contracting_dims={1}, rhs_contracting_dims={0}
          x1 = f32[4,16]{1,0} tanh(d1)
          d2 = f32[4,16]{1,0} dot(x1, w2), lhs_contracting_dims={1}, rhs_contracting_dims={0}
          x2 = f32[4,16]{1,0} tanh(d2)
          ROOT d3 = f32[4,64]{1,0} dot(x2, w3), lhs_contracting_dims={1}, rhs_contracting_dims={0}
        }";

    fn of(samples: u64) -> Microbatch {
        let module = parse(PROGRAM).expect("a program");
        microbatches(&module, &[samples]).expect("it has products").remove(0)
    }

    #[test]
    fn equal_layers_are_one_kind_and_are_followed_by_the_head() {
        let found = of(4);
        assert_eq!((found.kinds.len(), found.chain.len()), (3, 4));
        assert_eq!(found.chain[1], found.chain[2]);
        let parameters: Vec<f64> = found.kinds.iter().map(|kind| kind.parameter_bytes).collect();
        assert_eq!(parameters, [0.0, 1024.0, 4096.0]);
        assert_eq!(found.edges[1].bytes, 256.0);
    }

    #[test]
    fn a_product_grows_with_the_samples_and_has_its_function_behind_it() {
        let names = [2, 4].map(|samples| format!("{:?}", of(samples).kinds[1].layer.ops));
        assert!(names[0].contains("[1, 2, 16, 16, 1, 1, 1, 1]") && names[0].contains("[Tanh]"), "{names:?}");
        assert!(names[1].contains("[1, 4, 16, 16, 1, 1, 1, 1]"), "{names:?}");
    }

    #[test]
    fn a_program_without_products_is_an_error() {
        let text = "HloModule m
            ENTRY main { x = f32[4]{0} parameter(0)
              ROOT y = f32[4]{0} negate(x) }";
        let error = microbatches(&parse(text).expect("a program"), &[1]).expect_err("no products");
        assert_eq!(error.message, "`m` has no product of its data to search over");
    }
}
