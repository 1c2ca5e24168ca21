//! Products on an accelerator of Phaze's template: what the mapper finds, each shape once.
//!
//! A device file may hold its template (`[accelerator.template]`, the keys of `cost/arch/presets`). Its
//! products take what the best mapping of their shape takes, as `phzc arch` prices them in mode `native`.

use crate::gemm::Gemm;
use phzc_arch::mapping::{Machine, Mode, Nest, native_cycles};
use phzc_arch::{Technology, Template};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

/// The template of a device with the times of products that are known by now.
#[derive(Clone, Debug, serde::Deserialize)]
#[serde(try_from = "Template")]
pub struct Mapped {
    /// The template.
    pub template: Template,
    machine: Machine,
    cycles: Arc<Mutex<BTreeMap<[u64; 4], Option<f64>>>>,
}

impl TryFrom<Template> for Mapped {
    type Error = String;

    /// Fails where the technology lacks a buffer of the template's size.
    fn try_from(template: Template) -> Result<Mapped, String> {
        let machine = Machine::new(&template, &Technology::cacti_22nm(), Mode::Native);
        let machine = machine.map_err(|error| error.message)?;
        Ok(Mapped { template, machine, cycles: Arc::default() })
    }
}

impl PartialEq for Mapped {
    fn eq(&self, other: &Mapped) -> bool {
        self.template == other.template
    }
}

impl Mapped {
    /// Seconds of a product with its operands from HBM and its result back to it; `None` where a buffer holds
    /// not even one element of each, or there are more operations than can be counted.
    pub fn product_secs(&self, gemm: &Gemm) -> Option<f64> {
        let sizes = [gemm.batch, gemm.m, gemm.n, gemm.k].map(|size| size.round().max(1.0) as u64);
        let known = self.cycles.lock().unwrap_or_else(PoisonError::into_inner).get(&sizes).copied();
        let cycles = known.unwrap_or_else(|| self.mapped_cycles(sizes));
        cycles.map(|cycles| cycles / self.template.clock_hz)
    }

    /// Maps outside of the lock: the same shape twice gives the same cycles.
    fn mapped_cycles(&self, sizes: [u64; 4]) -> Option<f64> {
        let [batch, rows, columns, sums] = sizes;
        let cycles = native_cycles(&Nest::batched(batch, rows, columns, sums), &self.machine).ok();
        self.cycles.lock().unwrap_or_else(PoisonError::into_inner).insert(sizes, cycles);
        cycles
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn proxy() -> Mapped {
        Mapped::try_from(Template::preset("tpu-v4-proxy").expect("a preset")).expect("sizes are known")
    }

    #[test]
    fn a_product_takes_no_less_than_at_the_peak_and_the_same_when_asked_again() {
        let (mapped, gemm) = (proxy(), Gemm::new(2048.0, 4096.0, 1024.0));
        let [first, again] = [(); 2].map(|()| mapped.product_secs(&gemm).expect("it fits"));
        let peak_secs = gemm.flops() / mapped.template.peak_flops_per_sec();
        assert!(first == again && first >= peak_secs && first < 4.0 * peak_secs, "{first}, {peak_secs}");
    }

    #[test]
    fn a_product_that_cannot_be_counted_has_no_mapping() {
        assert_eq!(proxy().product_secs(&Gemm::new(1e9, 1e9, 1e9)), None);
    }
}
