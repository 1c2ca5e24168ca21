//! What is trained and how: dimensions, degrees of parallelism, what the software does.

/// A transformer's dimensions.
#[derive(Clone, Debug, PartialEq)]
pub struct Model {
    /// Layers.
    pub layers: usize,
    /// Width of the residual stream.
    pub hidden: f64,
    /// Inner width of the feed-forward part.
    pub ffn: f64,
    /// Query heads.
    pub heads: f64,
    /// Key and value heads.
    pub kv_heads: f64,
    /// Elements of one head.
    pub head_dim: f64,
    /// Positions of one sequence.
    pub seq: f64,
    /// Entries of the vocabulary; zero: neither embedding nor head.
    pub vocab: f64,
    /// Experts of a layer; one: a dense layer.
    pub experts: f64,
    /// Experts that one token visits.
    pub top_k: f64,
    /// Whether the feed-forward part has a gate: three products instead of two.
    pub is_gated: bool,
    /// Whether a position sees only those before it.
    pub is_causal: bool,
    /// Whether attention and residuals have dropout.
    pub has_dropout: bool,
    /// Positions that a decoder adds: to each layer, which is then the encoder's, comes one of the decoder's
    /// with attention to the encoder's result. Zero: one stack of layers.
    pub decoder_seq: f64,
    /// Rank of the adapters beside the projections into attention that learn while all other weights are
    /// frozen (Hu et al., "LoRA", 2021). Zero: all weights learn.
    pub adapter_rank: f64,
}

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

impl Model {
    /// Layers as GPT-2's and GPT-3's: heads of their own keys and values, an inner width of four times
    /// `hidden` without a gate, dropout (Brown et al., "Language Models are Few-Shot Learners", 2020, section
    /// 2.1).
    pub fn gpt(layers: usize, hidden: f64, heads: f64, seq: f64, vocab: f64) -> Model {
        Model {
            layers,
            hidden,
            ffn: 4.0 * hidden,
            heads,
            kv_heads: heads,
            head_dim: hidden / heads,
            seq,
            vocab,
            experts: 1.0,
            top_k: 1.0,
            is_gated: false,
            is_causal: true,
            has_dropout: true,
            decoder_seq: 0.0,
            adapter_rank: 0.0,
        }
    }

    /// Parameters of one layer.
    pub fn layer_params(&self) -> f64 {
        let attention = self.hidden * self.head_dim * (2.0 * self.heads + 2.0 * self.kv_heads);
        let layer = attention + self.expert_params() * self.experts + 2.0 * self.hidden;
        if self.decoder_seq > 0.0 { 2.0 * layer + attention + self.hidden } else { layer }
    }

    /// Whether only adapters learn.
    pub fn is_frozen(&self) -> bool {
        self.adapter_rank > 0.0
    }

    /// Parameters of one expert, or of the feed-forward part of a dense layer.
    pub fn expert_params(&self) -> f64 {
        let products = if self.is_gated { 3.0 } else { 2.0 };
        products * self.hidden * self.ffn
    }

    /// Parameters of the embedding, or of the head.
    pub fn embedding_params(&self) -> f64 {
        self.vocab * self.hidden
    }

    /// Parameters of the whole, embedding and head apart.
    pub fn params(&self) -> f64 {
        self.layer_params() * self.layers as f64 + 2.0 * self.embedding_params()
    }
}

impl Job {
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
    pub(super) fn layers_of_parts(&self) -> Vec<usize> {
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
