//! A layer as the kernels that a compiler makes of a training step: mode `native` runs them one after the
//! other, as a planned program does.

use crate::mapping::{Machine, Nest};
use crate::template::Template;

/// Operations of a multiply-accumulate.
const OPS_PER_MAC: f64 = 2.0;

/// A kernel.
#[derive(Clone, Copy, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Kernel {
    /// Batch, rows, columns and length of the sums of the product that it is, if it is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub product: Option<[u64; 4]>,
    /// Operations on tensor cores whose shape is not known.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub tensor_ops: f64,
    /// Operations on vector cores.
    pub vector_ops: f64,
    /// Bytes between HBM and cores, both ways.
    pub bytes: f64,
    /// How often it runs.
    pub times: f64,
}

/// The kernels of a layer.
#[derive(Clone, Debug, Default, PartialEq, serde::Serialize, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Kernels {
    /// Of one microbatch's forward pass.
    pub forward: Vec<Kernel>,
    /// Of its backward pass.
    pub backward: Vec<Kernel>,
    /// Of the optimizer, once a step.
    pub update: Vec<Kernel>,
}

fn is_zero(value: &f64) -> bool {
    *value == 0.0
}

impl Kernel {
    /// The contraction that it is.
    pub fn nest(&self) -> Option<Nest> {
        self.product.map(|[batch, rows, columns, sums]| Nest::batched(batch, rows, columns, sums))
    }

    /// Cycles of one time: the longer of its work, of which `product_cycles` are its product's, and of its
    /// traffic.
    pub fn cycles(&self, product_cycles: f64, rates: &Rates) -> f64 {
        let tensor_cycles = self.tensor_ops / OPS_PER_MAC / rates.macs_per_cycle;
        let work_cycles = product_cycles + tensor_cycles + self.vector_ops / rates.lanes;
        work_cycles.max(self.bytes / rates.bytes_per_cycle)
    }
}

/// What an accelerator does in a cycle.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Rates {
    /// Multiply-accumulates of all tensor cores.
    pub macs_per_cycle: f64,
    /// Lanes of all vector cores, of one operation each.
    pub lanes: f64,
    /// Bytes from or to HBM.
    pub bytes_per_cycle: f64,
}

impl Rates {
    /// Of an accelerator.
    pub fn of(template: &Template, machine: &Machine) -> Rates {
        Rates {
            macs_per_cycle: machine.macs_per_cycle(),
            lanes: template.cores.lanes() as f64,
            bytes_per_cycle: template.hbm_bytes_per_sec / template.clock_hz,
        }
    }
}

impl Kernels {
    /// Adds a kernel, to an equal one if there is one.
    pub fn add(kernels: &mut Vec<Kernel>, kernel: Kernel) {
        let is_equal = |other: &&mut Kernel| Kernel { times: kernel.times, ..**other } == kernel;
        match kernels.iter_mut().find(is_equal) {
            Some(other) => other.times += kernel.times,
            None => kernels.push(kernel),
        }
    }

    /// Whether every number is one.
    pub fn is_sound(&self) -> bool {
        let all = self.forward.iter().chain(&self.backward).chain(&self.update);
        let is_number = |value: f64| value.is_finite() && value >= 0.0;
        all.clone().all(|it| [it.tensor_ops, it.vector_ops, it.bytes, it.times].into_iter().all(is_number))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const KERNEL: Kernel =
        Kernel { product: None, tensor_ops: 0.0, vector_ops: 64.0, bytes: 8.0, times: 1.0 };

    #[test]
    fn a_kernel_takes_the_longer_of_work_and_traffic() {
        let rates = Rates { macs_per_cycle: 4.0, lanes: 16.0, bytes_per_cycle: 1.0 };
        assert_eq!(KERNEL.cycles(0.0, &rates), 8.0);
        assert_eq!(Kernel { tensor_ops: 80.0, ..KERNEL }.cycles(3.0, &rates), 3.0 + 10.0 + 4.0);
    }

    #[test]
    fn equal_kernels_are_one_that_runs_more_often() {
        let mut kernels = Vec::new();
        [KERNEL, Kernel { bytes: 9.0, ..KERNEL }, KERNEL]
            .into_iter()
            .for_each(|it| Kernels::add(&mut kernels, it));
        assert_eq!(kernels.iter().map(|it| it.times).collect::<Vec<_>>(), [2.0, 1.0]);
    }
}
