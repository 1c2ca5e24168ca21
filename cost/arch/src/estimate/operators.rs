//! The operators of a layer on all cores of an accelerator, each with what it waits for.

use super::{Effort, Estimator, Layer, Work, held};
use crate::mapping::cost::Limit;
use crate::mapping::vector::{self, Passes};
use crate::mapping::{Machine, Mode, Nest, Objective};
use crate::program::{Kernel, Rates};
use crate::template::Template;
use phzc_ir::Result;

/// What an operator waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Bound {
    /// The tensor cores.
    TensorCores,
    /// The feed of the registers from the buffers of the cores.
    CoreBuffers,
    /// The global buffer.
    GlobalBuffer,
    /// The HBM.
    Hbm,
    /// The vector cores.
    VectorCores,
}

/// An operator of a layer.
#[derive(Clone, Debug, PartialEq, serde::Serialize)]
pub struct Operator {
    /// What it does, with its sizes.
    pub name: String,
    /// `forward`, `backward` or `update`.
    pub pass: &'static str,
    /// All times that it runs, for one microbatch or one update.
    pub secs: f64,
    /// What most of it is.
    pub bound: Bound,
}

impl Estimator<'_> {
    /// The operators of a layer as they are priced, by pass; a schedule may run some of them side by side.
    ///
    /// # Errors
    /// As [`Self::layer_secs`].
    pub fn operators(&self, template: &Template, layer: &Layer) -> Result<Vec<Operator>> {
        let machine = Machine::new(template, self.technology, self.mode)?;
        let Some(kernels) = self.kernels(layer) else { return self.works(template, &machine, layer) };
        let rates = Rates::of(template, &machine);
        let passes =
            [("forward", &kernels.forward), ("backward", &kernels.backward), ("update", &kernels.update)];
        let mut found = Vec::new();
        for (pass, kernel) in passes.into_iter().flat_map(|(pass, all)| all.iter().map(move |it| (pass, it)))
        {
            found.push(self.kernel(template, &machine, &rates, (pass, kernel))?);
        }
        Ok(found)
    }

    fn kernel(
        &self,
        template: &Template,
        machine: &Machine,
        rates: &Rates,
        (pass, kernel): (&'static str, &Kernel),
    ) -> Result<Operator> {
        let nest = kernel.nest();
        let product_cycles = nest.map_or(Ok(0.0), |nest| self.cycles(&nest, machine, Effort::Price))?;
        let cycles = kernel.cycles(product_cycles, rates);
        let bound = match nest {
            _ if cycles <= kernel.bytes / rates.bytes_per_cycle => Bound::Hbm,
            Some(nest) => self.limit(&nest, machine)?,
            None if kernel.tensor_ops > 0.0 => Bound::TensorCores,
            None => Bound::VectorCores,
        };
        let name = match kernel.product {
            Some(sizes) => product_name(sizes),
            None => format!("{:.3e} operations, {:.3e} bytes", kernel.vector_ops, kernel.bytes),
        };
        Ok(Operator { name, pass, secs: kernel.times * cycles / template.clock_hz, bound })
    }

    /// What the best mapping of a contraction waits for.
    fn limit(&self, nest: &Nest, machine: &Machine) -> Result<Bound> {
        self.cycles(nest, machine, Effort::Price)?;
        let objective = if self.mode == Mode::Phaze { Objective::Edp } else { Objective::Cycles };
        let known = held(&self.cache).get(nest, machine, objective);
        // What was taken from elsewhere has no mapping.
        Ok(known.map_or(Bound::TensorCores, |it| match it.mapping.limit(&it.nest, machine) {
            Limit::Compute => Bound::TensorCores,
            Limit::Feed => Bound::CoreBuffers,
            Limit::Refill => Bound::GlobalBuffer,
            Limit::Load => Bound::Hbm,
        }))
    }

    fn works(&self, template: &Template, machine: &Machine, layer: &Layer) -> Result<Vec<Operator>> {
        let lanes = template.cores.lanes();
        let mut found = Vec::new();
        for work in layer.ops.iter().flatten() {
            let (passes, bounds) = match work {
                Work::Contraction { nest, fused, .. } => {
                    let nest = if self.mode == Mode::Phaze { nest.folded() } else { *nest };
                    let passes = self.contraction(machine, lanes, (&nest, fused), Effort::Price)?;
                    (passes, [self.limit(&nest, machine)?, self.limit(&nest.backward()[0], machine)?])
                }
                _ => self.vector_bound(machine, lanes, work),
            };
            let secs = [("forward", passes.forward), ("backward", passes.backward)];
            for ((pass, cycles), bound) in secs.into_iter().zip(bounds) {
                let (name, secs) = (name(work), cycles / template.clock_hz);
                found.push(Operator { name, pass, secs, bound });
            }
        }
        Ok(found)
    }

    /// A vector operator is bound by the HBM where its lanes would be faster.
    fn vector_bound(&self, machine: &Machine, lanes: u64, work: &Work) -> (Passes, [Bound; 2]) {
        let mut fast = machine.clone();
        fast.words_per_cycle[2] = f64::INFINITY;
        let (passes, alone) = (self.vector(machine, lanes, work), self.vector(&fast, lanes, work));
        let bound = |cycles: f64, alone: f64| if cycles > alone { Bound::Hbm } else { Bound::VectorCores };
        let bounds = [bound(passes.forward, alone.forward), bound(passes.backward, alone.backward)];
        (passes, bounds)
    }
}

fn product_name([batch, rows, columns, sums]: [u64; 4]) -> String {
    let times = if batch > 1 { format!("{batch} x ") } else { String::new() };
    format!("{times}[{rows}, {sums}] [{sums}, {columns}]")
}

fn name(work: &Work) -> String {
    let functions = |all: &[vector::Function]| {
        all.iter().map(|it| format!("{it:?}").to_lowercase()).collect::<Vec<_>>().join(", ")
    };
    match work {
        Work::Contraction { nest, fused, .. } => {
            let [b, n, c, k, p, q, r, s] = nest.sizes;
            let product = product_name([b, n * p * q, k, c * r * s]);
            if fused.is_empty() { product } else { format!("{product}, {}", functions(fused)) }
        }
        Work::Elementwise { function, output, .. } => format!("{} of {output}", functions(&[*function])),
        Work::Chain { functions: all, output } => format!("{} of {output}", functions(all)),
        Work::Softmax { rows, columns } => format!("softmax of {rows} x {columns}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mapping::Cache;
    use crate::technology::Technology;
    use crate::testing::llama_layer;

    fn check(mode: Mode) -> Vec<Operator> {
        let (technology, template) =
            (Technology::cacti_22nm(), Template::preset("tpu-v4-proxy").expect("a preset"));
        let (estimator, layer) = (Estimator::new(&technology, mode, Cache::default()), llama_layer(1));
        let found = estimator.operators(&template, &layer).expect("it can be priced");
        let secs = estimator.layer_secs(&template, &layer).expect("it can be priced");
        for (pass, secs) in [("forward", secs.forward), ("backward", secs.backward)] {
            let sum: f64 = found.iter().filter(|it| it.pass == pass).map(|it| it.secs).sum();
            assert!(sum >= secs * (1.0 - 1e-9), "{sum}, {secs}");
        }
        found
    }

    #[test]
    fn phaze_s_products_wait_for_the_feed_of_their_registers() {
        let found = check(Mode::Phaze);
        let product = found.iter().find(|it| it.name == "[4096, 4096] [4096, 4096]").expect("a projection");
        assert_eq!((product.bound, found.len()), (Bound::CoreBuffers, 30));
    }

    #[test]
    fn native_sums_of_large_tensors_wait_for_the_hbm() {
        let found = check(Mode::Native);
        let sum = found.iter().find(|it| it.name == "simple of 536870912").expect("an elementwise operator");
        assert_eq!(sum.bound, Bound::Hbm);
    }
}
