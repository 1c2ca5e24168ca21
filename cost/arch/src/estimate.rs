//! What the operators of a layer take on an accelerator, and the layer with them.

mod operators;

pub use operators::{Bound, Operator};

use crate::mapping::vector::{self, Function, Passes};
use crate::mapping::{Cache, Machine, Mode, Nest, Objective, best, best_padded, floor};
use crate::program::{Kernel, Kernels, Rates};
use crate::schedule::{Instance, Op, Units};
use crate::technology::Technology;
use crate::template::{Cores, Template};
use phzc_ir::Result;
use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Nodes of branch and bound per schedule; past them the list's schedule stands, with its bound.
const MAX_NODES: u32 = 200;

/// An operator of a layer.
#[derive(Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Work {
    /// A contraction, and the functions that are fused behind it.
    Contraction {
        /// The forward pass.
        nest: Nest,
        /// Behind it, in order.
        fused: Vec<Function>,
        /// Whether the layout of its result changes on vector cores.
        #[serde(default)]
        is_moved: bool,
    },
    /// An elementwise function.
    Elementwise {
        /// What it computes.
        function: Function,
        /// Elements of its result.
        output: u64,
        /// Elements of each input.
        inputs: Vec<u64>,
    },
    /// Functions fused behind each other on vector cores; `Phaze` does not count the first one.
    Chain {
        /// In order.
        functions: Vec<Function>,
        /// Elements of the result.
        output: u64,
    },
    /// Softmax.
    Softmax {
        /// Rows.
        rows: u64,
        /// Elements of each.
        columns: u64,
    },
}

/// A layer: operators by position, `None` for those that take no time, and edges `(before, after)`.
#[derive(Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Layer {
    /// The operators.
    pub ops: Vec<Option<Work>>,
    /// What reads what.
    pub edges: Vec<(usize, usize)>,
    /// What a compiler makes of the layer, where it is one of a training step; `Native` prices these.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kernels: Option<Kernels>,
}

/// Seconds of a layer.
#[derive(Clone, Copy, Debug, Default, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct LayerSecs {
    /// Forward pass of a microbatch.
    pub forward: f64,
    /// Backward pass of a microbatch.
    pub backward: f64,
    /// The optimizer, once a step; 0 where the layer has no kernels.
    pub update: f64,
}

impl LayerSecs {
    /// Whether no part takes longer than another's.
    pub fn is_no_longer(&self, other: &LayerSecs) -> bool {
        self.forward <= other.forward && self.backward <= other.backward && self.update <= other.update
    }
}

/// Prices layers in one mode; what it finds is kept.
#[derive(Debug)]
pub struct Estimator<'a> {
    technology: &'a Technology,
    mode: Mode,
    cache: Mutex<Cache>,
    cycles: Mutex<BTreeMap<Key, f64>>,
    makespans: Mutex<BTreeMap<Vec<u64>, (Instance, f64)>>,
}

/// What the cycles of a contraction depend on, with the mode and the technology of an estimator: sides of
/// array and grid, words of the buffers, and words per cycle as bits.
type Key = (Effort, Nest, [u64; 2], [u64; 2], [u64; 2], [u64; 3]);

/// Whether an operator is priced, or bounded from below.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Effort {
    Price,
    Bound,
}

impl<'a> Estimator<'a> {
    /// In a mode, with the mappings that are known already.
    pub fn new(technology: &'a Technology, mode: Mode, cache: Cache) -> Estimator<'a> {
        Estimator {
            technology,
            mode,
            cache: Mutex::new(cache),
            cycles: Mutex::default(),
            makespans: Mutex::default(),
        }
    }

    /// Takes the cycles of a contraction, without what is fused behind it, from elsewhere.
    pub fn learn(&self, nest: &Nest, machine: &Machine, cycles: f64) {
        held(&self.cycles).insert(key(Effort::Price, nest, machine), cycles);
    }

    /// The mappings that are known by now.
    pub fn into_cache(self) -> Cache {
        self.cache.into_inner().unwrap_or_else(PoisonError::into_inner)
    }

    /// Seconds of a layer's forward and backward pass.
    ///
    /// `Phaze`'s backward pass lacks the weight's gradient and its mappings have the least energy-delay
    /// product; `Native` has both gradients and pads for the least latency. Of a layer with kernels `Native`
    /// adds up what these take one after the other.
    ///
    /// # Errors
    /// For an accelerator without a core that an operator needs, for buffers that the technology lacks, and
    /// for layers that are no order.
    pub fn layer_secs(&self, template: &Template, layer: &Layer) -> Result<LayerSecs> {
        if let Some(kernels) = self.kernels(layer) {
            return self.kernels_secs(template, kernels, Effort::Price);
        }
        let [forward, backward] = self.instances(template, layer, Effort::Price)?;
        let secs = |instance: Instance| self.makespan_cycles(instance) / template.clock_hz;
        Ok(LayerSecs { forward: secs(forward), backward: secs(backward), update: 0.0 })
    }

    /// The kernels of a layer that are priced instead of its operators.
    fn kernels<'l>(&self, layer: &'l Layer) -> Option<&'l Kernels> {
        layer.kernels.as_ref().filter(|_| self.mode == Mode::Native)
    }

    fn kernels_secs(&self, template: &Template, kernels: &Kernels, effort: Effort) -> Result<LayerSecs> {
        let machine = Machine::new(template, self.technology, self.mode)?;
        let rates = Rates::of(template, &machine);
        let secs = |kernels: &[Kernel]| -> Result<f64> {
            let mut cycles = 0.0;
            for kernel in kernels {
                let nest = kernel.nest();
                let product_cycles = nest.map_or(Ok(0.0), |nest| self.cycles(&nest, &machine, effort))?;
                cycles += kernel.times * kernel.cycles(product_cycles, &rates);
            }
            Ok(cycles / template.clock_hz)
        };
        let Kernels { forward, backward, update } = kernels;
        Ok(LayerSecs { forward: secs(forward)?, backward: secs(backward)?, update: secs(update)? })
    }

    /// Cycles of a layer's contractions on all cores, one after the other, forward, and their
    /// multiply-accumulates.
    ///
    /// # Errors
    /// As [`Self::layer_secs`].
    pub fn products(&self, template: &Template, layer: &Layer) -> Result<[f64; 2]> {
        let machine = Machine::new(template, self.technology, self.mode)?;
        let mut sums = [0.0; 2];
        for work in layer.ops.iter().flatten() {
            if let Work::Contraction { nest, .. } = work {
                let nest = &if self.mode == Mode::Phaze { nest.folded() } else { *nest };
                sums[0] += self.cycles(nest, &machine, Effort::Price)?;
                sums[1] += nest.macs();
            }
        }
        Ok(sums)
    }

    /// No mapping and no schedule takes fewer seconds.
    ///
    /// # Errors
    /// As [`Self::layer_secs`].
    pub fn floor_secs(&self, template: &Template, layer: &Layer) -> Result<LayerSecs> {
        self.scheduled_floor_secs(template, layer, Effort::Bound)
    }

    /// No schedule of the mapped operators takes fewer seconds.
    ///
    /// # Errors
    /// As [`Self::layer_secs`].
    pub fn mapped_floor_secs(&self, template: &Template, layer: &Layer) -> Result<LayerSecs> {
        self.scheduled_floor_secs(template, layer, Effort::Price)
    }

    fn scheduled_floor_secs(&self, template: &Template, layer: &Layer, effort: Effort) -> Result<LayerSecs> {
        if let Some(kernels) = self.kernels(layer) {
            return self.kernels_secs(template, kernels, effort);
        }
        let [forward, backward] = self.instances(template, layer, effort)?;
        let secs = |instance: &Instance| instance.bound_cycles() / template.clock_hz;
        Ok(LayerSecs { forward: secs(&forward), backward: secs(&backward), update: 0.0 })
    }

    /// Cycles of a schedule; accelerators whose operators take as long share it.
    fn makespan_cycles(&self, instance: Instance) -> f64 {
        if let Some((_, cycles)) =
            held(&self.makespans).get(&instance.fingerprint()).filter(|it| it.0 == instance)
        {
            return *cycles;
        }
        let cycles = instance.solve(MAX_NODES).cycles;
        held(&self.makespans).insert(instance.fingerprint(), (instance, cycles));
        cycles
    }

    fn instances(&self, template: &Template, layer: &Layer, effort: Effort) -> Result<[Instance; 2]> {
        let Cores { n_tensor, n_vector, .. } = template.cores;
        let all = Machine::new(template, self.technology, self.mode)?;
        let one = Machine { grid: [1, 1], ..all.clone() };
        let (mut forward, mut backward) = (Vec::new(), Vec::new());
        for work in &layer.ops {
            let priced =
                work.as_ref().map(|work| self.op(template, [&one, &all], work, effort)).transpose()?;
            forward.push(priced.map(|ops| ops[0]));
            backward.extend(priced.map(|ops| ops[1]));
        }
        let forward = Instance::new(&forward, &layer.edges, n_tensor as usize, n_vector as usize)?;
        let backward = forward.reversed(backward)?;
        Ok([forward, backward])
    }

    /// An operator on one core and on all, forward and backward.
    fn op(
        &self,
        template: &Template,
        machines: [&Machine; 2],
        work: &Work,
        effort: Effort,
    ) -> Result<[Op; 2]> {
        let lanes = [template.cores.width, template.cores.lanes()];
        let mut passes = [Passes { forward: 0.0, backward: 0.0 }; 2];
        for (at, passes) in passes.iter_mut().enumerate() {
            *passes = match work {
                Work::Contraction { nest, fused, .. } => {
                    self.contraction(machines[at], lanes[at], (nest, fused), effort)?
                }
                _ => self.vector(machines[at], lanes[at], work),
            };
        }
        let units = match work {
            Work::Contraction { fused, is_moved: false, .. } if fused.is_empty() => Units::Tensor,
            Work::Contraction { .. } => Units::Both,
            _ => Units::Vector,
        };
        let [one, all] = passes;
        Ok([(one.forward, all.forward), (one.backward, all.backward)]
            .map(|(one_core_cycles, all_cores_cycles)| Op { units, one_core_cycles, all_cores_cycles }))
    }

    fn contraction(
        &self,
        machine: &Machine,
        lanes: u64,
        (nest, fused): (&Nest, &[Function]),
        effort: Effort,
    ) -> Result<Passes> {
        let nest = &if self.mode == Mode::Phaze { nest.folded() } else { *nest };
        let [input, weight] = nest.backward();
        let gradients: &[Nest] = if self.mode == Mode::Phaze { &[input] } else { &[input, weight] };
        let forward = self.cycles(nest, machine, effort)?;
        let mut backward = 0.0;
        for gradient in gradients {
            backward += self.cycles(gradient, machine, effort)?;
        }
        let chain = vector::chain(fused, nest.output_words() as u64, lanes.max(1));
        let (is_phaze, latency) = (self.mode == Mode::Phaze, vector::latency(fused));
        Ok(Passes {
            forward: vector::fused(forward, chain.forward, latency.forward, is_phaze),
            backward: vector::fused(backward, chain.backward, latency.backward, is_phaze),
        })
    }

    fn vector(&self, machine: &Machine, lanes: u64, work: &Work) -> Passes {
        let (passes, words) = match work {
            Work::Elementwise { function, output, inputs } => (
                vector::elementwise(*function, *output, inputs, lanes.max(1)),
                inputs.iter().copied().fold(*output, u64::saturating_add),
            ),
            Work::Chain { functions, output } => {
                let n_uncounted = usize::from(self.mode == Mode::Phaze);
                let counted = functions.get(n_uncounted..).unwrap_or_default();
                (vector::chain(counted, *output, lanes.max(1)), output.saturating_mul(2))
            }
            Work::Softmax { rows, columns } => (
                vector::softmax(*rows, *columns, lanes.max(1)),
                rows.saturating_mul(*columns).saturating_mul(2),
            ),
            Work::Contraction { .. } => (Passes { forward: 0.0, backward: 0.0 }, 0),
        };
        let bounded = |cycles| vector::bound_by_bandwidth(cycles, words, machine.words_per_cycle[2]);
        match self.mode {
            Mode::Phaze => passes,
            Mode::Native => Passes { forward: bounded(passes.forward), backward: bounded(passes.backward) },
        }
    }

    fn cycles(&self, nest: &Nest, machine: &Machine, effort: Effort) -> Result<f64> {
        let key = key(effort, nest, machine);
        if let Some(cycles) = held(&self.cycles).get(&key) {
            return Ok(*cycles);
        }
        let cycles = match effort {
            Effort::Price => self.mapped_cycles(nest, machine)?,
            Effort::Bound => floor(nest, machine)?.cycles,
        };
        held(&self.cycles).insert(key, cycles);
        Ok(cycles)
    }

    fn mapped_cycles(&self, nest: &Nest, machine: &Machine) -> Result<f64> {
        let objective = if self.mode == Mode::Phaze { Objective::Edp } else { Objective::Cycles };
        if let Some(known) = held(&self.cache).get(nest, machine, objective) {
            return Ok(known.cost.cycles);
        }
        let (mapping, cost) = match self.mode {
            Mode::Phaze => best(nest, machine, objective)?,
            Mode::Native => best_padded(nest, machine, objective).map(|it| (it.mapping, it.cost))?,
        };
        held(&self.cache).insert(nest, machine, objective, mapping);
        Ok(cost.cycles)
    }
}

fn key(effort: Effort, nest: &Nest, machine: &Machine) -> Key {
    let Machine { array, grid, core_words, global_words, words_per_cycle, .. } = machine;
    (effort, *nest, *array, *grid, [*core_words, *global_words], words_per_cycle.map(f64::to_bits))
}

fn held<T>(shared: &Mutex<T>) -> MutexGuard<'_, T> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests;
