//! What is trained: a transformer's dimensions and parameters.

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
    /// Inner width of one expert.
    pub expert_ffn: f64,
    /// Inner width of the experts that every token visits, together. Zero: none.
    pub shared_ffn: f64,
    /// First layers that have no experts and the inner width `ffn`.
    pub dense_layers: usize,
    /// Attention whose queries, keys and values are projected through narrow ones, if it is.
    pub latent: Option<Latent>,
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

/// Widths of multi-head latent attention (DeepSeek-AI, "DeepSeek-V2", 2024, section 2.1): a head's queries
/// and keys have `head_dim` elements, of which `rotated` are rotated and shared by all keys.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Latent {
    /// Width between both projections of queries. Zero: one projection.
    pub query_rank: f64,
    /// Width between both projections of keys and values.
    pub kv_rank: f64,
    /// Elements of a head that are rotated.
    pub rotated: f64,
    /// Elements of a head's values.
    pub value_dim: f64,
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
            expert_ffn: 4.0 * hidden,
            shared_ffn: 0.0,
            dense_layers: 0,
            latent: None,
            is_gated: false,
            is_causal: true,
            has_dropout: true,
            decoder_seq: 0.0,
            adapter_rank: 0.0,
        }
    }

    /// Parameters of one layer; of a model with experts, of one that has them.
    pub fn layer_params(&self) -> f64 {
        let attention = self.attention_params();
        let layer = attention + self.feed_forward_params() + 2.0 * self.hidden;
        if self.decoder_seq > 0.0 { 2.0 * layer + attention + self.hidden } else { layer }
    }

    /// Parameters of the projections of one attention.
    fn attention_params(&self) -> f64 {
        let Some(latent) = self.latent else {
            return self.hidden * self.head_dim * (2.0 * self.heads + 2.0 * self.kv_heads);
        };
        let queries = self.heads * self.head_dim;
        let into = match latent.query_rank {
            0.0 => self.hidden * queries,
            rank => rank * (self.hidden + queries),
        };
        let values = self.heads * latent.value_dim;
        let keys = self.heads * (self.head_dim - latent.rotated);
        into + self.hidden * (latent.kv_rank + latent.rotated + values) + latent.kv_rank * (keys + values)
    }

    /// Parameters of the feed-forward part: experts, router, shared experts, or one dense part.
    fn feed_forward_params(&self) -> f64 {
        if self.experts == 1.0 {
            return self.products_params(self.ffn);
        }
        self.expert_params() * self.experts
            + self.products_params(self.shared_ffn)
            + self.hidden * self.experts
    }

    /// The same model with dense layers only.
    pub fn dense(&self) -> Model {
        Model { experts: 1.0, top_k: 1.0, dense_layers: 0, ..self.clone() }
    }

    /// Whether only adapters learn.
    pub fn is_frozen(&self) -> bool {
        self.adapter_rank > 0.0
    }

    /// Parameters of one expert; none of a dense model.
    pub fn expert_params(&self) -> f64 {
        if self.experts > 1.0 { self.products_params(self.expert_ffn) } else { 0.0 }
    }

    fn products_params(&self, inner: f64) -> f64 {
        let products = if self.is_gated { 3.0 } else { 2.0 };
        products * self.hidden * inner
    }

    /// Parameters of the embedding, or of the head.
    pub fn embedding_params(&self) -> f64 {
        self.vocab * self.hidden
    }

    /// Parameters of the whole, embedding and head apart.
    pub fn params(&self) -> f64 {
        let n_dense = self.dense_layers.min(self.layers);
        self.layer_params() * (self.layers - n_dense) as f64
            + self.dense().layer_params() * n_dense as f64
            + 2.0 * self.embedding_params()
    }
}
