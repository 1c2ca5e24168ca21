//! How a model is trained: degrees of parallelism, what the software does.

pub use super::model::{Latent, Model};

/// Which state data-parallel ranks share out among them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Sharding {
    /// None: each holds everything.
    Nothing,
    /// The optimizer's (ZeRO 1, Megatron's distributed optimizer).
    Optimizer,
    /// Gradients too (ZeRO 2, FSDP `shard_grad_op`).
    Gradients,
    /// Parameters too (ZeRO 3, FSDP `full_shard`).
    Parameters,
}

/// Which activations the backward part computes again.
#[derive(Clone, Copy, Debug, PartialEq, PartialOrd)]
pub enum Recompute {
    /// None.
    Nothing,
    /// Those inside attention, between the products that project.
    Attention,
    /// All but the layer's input, attention's result and that of every other product (torchtitan's selective
    /// checkpoints).
    Products,
    /// Results of norms and of the function inside the feed-forward part, where it says so.
    Light {
        /// The results of norms.
        norms: bool,
        /// The result of the function inside the feed-forward part.
        activation: bool,
    },
    /// All but the input, of this part of the layers: 1 is all of them.
    Layers(f64),
}

/// Degrees of parallelism and batch sizes.
#[derive(Clone, Debug, PartialEq)]
pub struct Layout {
    /// Devices that share each layer's products.
    pub tensor: usize,
    /// Whether these share the sequence elsewhere (Korthikanti et al. 2022).
    pub has_sequence: bool,
    /// Pipeline stages.
    pub stages: usize,
    /// Parts of the model that one stage holds (interleaved schedule).
    pub chunks: usize,
    /// Layers of each stage, where that is stated; empty: as even as can be.
    pub stage_layers: Vec<usize>,
    /// Devices that share each sequence.
    pub context: usize,
    /// Devices that share the experts.
    pub expert: usize,
    /// Copies of the model.
    pub data: usize,
    /// What these share out.
    pub sharding: Sharding,
    /// Copies that share it out among them. Zero: all.
    pub owners: usize,
    /// Part of the activations that wait for their backward part in the host's memory.
    pub offloaded: f64,
    /// Sequences of one microbatch on one copy.
    pub micro_batch: usize,
    /// Microbatches of one step on one copy.
    pub n_microbatches: usize,
}

/// What the training software does, as far as it costs time or memory.
#[derive(Clone, Debug, PartialEq)]
pub struct Stack {
    /// Whether attention is one kernel that keeps no scores.
    pub fuses_attention: bool,
    /// Whether that kernel is one for all generations of cores.
    pub has_portable_attention: bool,
    /// Whether collectives of the backward part of tensor parallelism run beside gradients of weights.
    pub overlaps_gradients: bool,
    /// Whether collectives of tensor parallelism run in pieces beside the products that need them.
    pub overlaps_tensor: bool,
    /// Whether sends between stages run beside computation.
    pub overlaps_sends: bool,
    /// Whether collectives of the data-parallel group run beside forward and backward.
    pub overlaps_data: bool,
    /// Fraction of the network's rate that its sums of gradients reach.
    pub data_efficiency: f64,
    /// Whether products add gradients of weights to those of earlier microbatches; else a kernel of its own
    /// does.
    pub fuses_accumulation: bool,
    /// Whether products keep their operands in their own, narrow type.
    pub keeps_narrow: bool,
    /// How often elementwise chains pass through memory: once where they are fused.
    pub n_passes: f64,
    /// Seconds that the host takes to issue one operator, or the product of one expert: zero where a graph of
    /// kernels is replayed.
    pub issue_secs: f64,
    /// Whether a gate, its function and their product are one kernel that keeps its inputs only.
    pub fuses_gate: bool,
    /// Whether a token goes once to each device that has experts for it, not once to each expert.
    pub sends_once: bool,
    /// Whether products of experts do the function between them, and conversions, in their own kernels.
    pub fuses_experts: bool,
    /// Type of the operands of the layers' products: an HLO dtype.
    pub product_dtype: &'static str,
    /// Type of all else that is computed.
    pub dtype: &'static str,
    /// Bytes of a gradient that is summed over copies.
    pub gradient_bytes: f64,
    /// Bytes of an entry of the logits when the loss is at its peak.
    pub logit_bytes: f64,
    /// Bytes of weights and gradients that each copy keeps per parameter.
    pub weight_bytes: f64,
    /// Bytes of the optimizer's state per parameter: master copy, two moments.
    pub optimizer_bytes: f64,
    /// Whether products keep inputs that tensor-parallel ranks gathered; else these are gathered again
    /// (Korthikanti et al. 2022).
    pub keeps_gathered: bool,
    /// Whether a stage has a buffer for what it receives of each microbatch from the start
    /// (`torch.distributed.pipelining`).
    pub receives_ahead: bool,
    /// The most parameters whose gradients are copied into one buffer before they are summed.
    pub bucket_params: f64,
}

/// One training run.
#[derive(Clone, Debug, PartialEq)]
pub struct Job {
    /// What is trained.
    pub model: Model,
    /// On how many devices, how.
    pub layout: Layout,
    /// What is computed twice.
    pub recompute: Recompute,
    /// By which software.
    pub stack: Stack,
}

impl Stack {
    /// Software that fuses gradients' sums into products and nothing else, and overlaps nothing: products in
    /// `dtype`, of 16 bits, gradients and the optimizer's state in 32.
    pub fn plain(dtype: &'static str) -> Stack {
        Stack {
            fuses_attention: false,
            has_portable_attention: false,
            overlaps_gradients: false,
            overlaps_tensor: false,
            overlaps_sends: false,
            overlaps_data: false,
            data_efficiency: 1.0,
            fuses_accumulation: true,
            keeps_narrow: false,
            n_passes: 1.0,
            issue_secs: 0.0,
            fuses_gate: true,
            sends_once: false,
            fuses_experts: false,
            product_dtype: dtype,
            dtype,
            gradient_bytes: 4.0,
            logit_bytes: 10.0,
            weight_bytes: 6.0,
            optimizer_bytes: 12.0,
            keeps_gathered: false,
            receives_ahead: false,
            bucket_params: 0.0,
        }
    }
}

impl Stack {
    /// The same, overlapping nothing.
    pub(super) fn without_overlap(self) -> Stack {
        Stack {
            overlaps_gradients: false,
            overlaps_tensor: false,
            overlaps_sends: false,
            overlaps_data: false,
            ..self
        }
    }
}

impl Layout {
    /// One sequence on one device.
    pub fn single() -> Layout {
        Layout {
            tensor: 1,
            has_sequence: false,
            stages: 1,
            chunks: 1,
            stage_layers: Vec::new(),
            context: 1,
            expert: 1,
            data: 1,
            sharding: Sharding::Nothing,
            owners: 0,
            offloaded: 0.0,
            micro_batch: 1,
            n_microbatches: 1,
        }
    }

    /// Devices of the whole run.
    pub fn n_devices(&self) -> usize {
        [self.context, self.stages, self.data].into_iter().fold(self.tensor, usize::saturating_mul)
    }

    /// Sequences of one step.
    pub fn n_sequences(&self) -> usize {
        self.data * self.micro_batch * self.n_microbatches
    }

    /// The same batch of one microbatch on one device.
    pub(super) fn on_one_device(&self) -> Layout {
        Layout { sharding: self.sharding, micro_batch: self.micro_batch, ..Layout::single() }
    }
}

impl Job {
    /// The same run with dense layers only.
    pub(super) fn dense(&self) -> Job {
        Job { model: self.model.dense(), ..self.clone() }
    }

    /// Layers of each (virtual) stage that have experts (or are all alike), and those that are dense.
    pub(super) fn kinds_of_parts(&self) -> Vec<[usize; 2]> {
        let mut n_dense = self.model.dense_layers;
        let kinds = |n_layers: usize| {
            let dense = n_dense.min(n_layers);
            n_dense -= dense;
            [n_layers - dense, dense]
        };
        self.layers_of_parts().into_iter().map(kinds).collect()
    }

    /// Layers of one stage by kind, as `kinds_of_parts`.
    pub(super) fn kinds_of_stage(&self, stage: usize) -> [usize; 2] {
        let parts = self.kinds_of_parts().into_iter().skip(stage).step_by(self.layout.stages);
        parts.fold([0, 0], |sum, part| [sum[0] + part[0], sum[1] + part[1]])
    }

    /// Positions of one microbatch on one device: its share of the sequence.
    pub(super) fn tokens(&self) -> f64 {
        self.layout.micro_batch as f64 * self.model.seq / self.layout.context as f64
    }

    /// Positions of one microbatch on one device between the products of tensor parallelism.
    pub(super) fn outer_tokens(&self) -> f64 {
        if self.layout.has_sequence { self.tokens() / self.layout.tensor as f64 } else { self.tokens() }
    }

    /// How many (virtual) stages the model is cut into.
    pub(super) fn n_parts(&self) -> usize {
        self.layout.stages * self.layout.chunks
    }

    /// Layers of each (virtual) stage. What does not divide goes to the middle: embedding and head count as
    /// layers.
    pub fn layers_of_parts(&self) -> Vec<usize> {
        let (n_layers, n_parts) = (self.model.layers, self.n_parts());
        let stated = &self.layout.stage_layers;
        if stated.len() == n_parts && stated.iter().sum::<usize>() == n_layers {
            return stated.clone();
        }
        let mut parts = vec![n_layers / n_parts; n_parts];
        let n_left = n_layers % n_parts;
        let first = (n_parts - n_left) / 2;
        parts[first..first + n_left].iter_mut().for_each(|n| *n += 1);
        parts
    }
}

#[cfg(test)]
mod tests;
