//! Multi-head attention (Vaswani et al. 2017) and its variants.

use super::net::Net;
use phzc_ir::{DType, InstrId};

/// The sizes of an attention layer.
#[derive(Clone, Copy, Debug)]
pub struct Attention {
    /// Query heads.
    pub heads: i64,
    /// Key and value heads; fewer than query heads: grouped-query attention (Ainslie et al. 2023).
    pub kv_heads: i64,
    /// Width of a head.
    pub head_dim: i64,
    /// Whether projections have biases.
    pub has_bias: bool,
    /// Whether a position sees later ones.
    pub is_causal: bool,
    /// Whether scores are divided by √width (T5 folds that into its initialisation).
    pub is_scaled: bool,
}

impl Attention {
    /// As many heads for keys as for queries, together as wide as the residual stream; with biases, every
    /// position seen.
    pub fn of(heads: i64, hidden: i64) -> Attention {
        Attention {
            heads,
            kv_heads: heads,
            head_dim: hidden / heads,
            has_bias: true,
            is_causal: false,
            is_scaled: true,
        }
    }

    /// The same, no position seeing later ones.
    pub fn causal(self) -> Attention {
        Attention { is_causal: true, ..self }
    }
}

/// Queries, keys and values: `[batch, positions, heads, width]`.
#[derive(Clone, Copy, Debug)]
pub struct Heads {
    /// Queries.
    pub q: InstrId,
    /// Keys.
    pub k: InstrId,
    /// Values.
    pub v: InstrId,
}

impl Net {
    /// Self-attention with its residual, layer norm first; `norm` is that norm's name and ε.
    pub fn attention_block(
        &mut self,
        x: InstrId,
        norm: (&str, f64),
        name: &str,
        shape: &Attention,
    ) -> InstrId {
        let hidden = self.b.dims(x)[2];
        let normed = self.layer_norm(x, norm.0, norm.1);
        let attended = self.scoped(name, |net| {
            let heads = net.project(normed, normed, shape);
            net.attend(heads, shape, None, hidden)
        });
        let attended = self.dropout(attended);
        self.b.add(x, attended)
    }

    /// Queries from `x`, keys and values from `source` (the same for self-attention), each by a projection of
    /// its own.
    pub fn project(&mut self, x: InstrId, source: InstrId, shape: &Attention) -> Heads {
        let mut heads = |x, name, n| {
            let y = self.linear(x, name, n * shape.head_dim, shape.has_bias);
            self.split_heads(y, n)
        };
        Heads {
            q: heads(x, "q", shape.heads),
            k: heads(source, "k", shape.kv_heads),
            v: heads(source, "v", shape.kv_heads),
        }
    }

    /// Queries, keys and values by one projection (GPT-2's `c_attn`).
    pub fn project_at_once(&mut self, x: InstrId, shape: &Attention) -> Heads {
        let width = shape.heads * shape.head_dim;
        let all = self.linear(x, "qkv", 3 * width, shape.has_bias);
        let mut part = |n: i64| {
            let part = self.b.slice_in(all, 2, n * width, (n + 1) * width);
            self.split_heads(part, shape.heads)
        };
        Heads { q: part(0), k: part(1), v: part(2) }
    }

    /// `[batch, positions, heads · width]` as `[batch, positions, heads, width]`.
    pub fn split_heads(&mut self, x: InstrId, n: i64) -> InstrId {
        let dims = self.b.dims(x);
        self.b.reshape(x, &[dims[0], dims[1], n, dims[2] / n])
    }

    /// softmax(QKᵀ/√width + bias)·V and the output projection: `[batch, positions, out]`.
    ///
    /// `bias` is `[heads, queries, keys]`.
    pub fn attend(&mut self, heads: Heads, shape: &Attention, bias: Option<InstrId>, out: i64) -> InstrId {
        let (k, v) = (self.repeated(heads.k, shape), self.repeated(heads.v, shape));
        let q = match shape.is_scaled {
            true => self.b.scale(heads.q, 1.0 / (shape.head_dim as f64).sqrt()),
            false => heads.q,
        };
        let mut scores = self.b.einsum("bqhd,bkhd->bhqk", q, k);
        if let Some(bias) = bias {
            let bias = self.b.convert(bias, self.settings.dtype);
            let bias = self.b.broadcast_like(bias, scores, &[1, 2, 3]);
            scores = self.b.add(scores, bias);
        }
        if shape.is_causal {
            scores = self.masked(scores);
        }
        let weights = self.softmax(scores);
        let weights = self.b.convert(weights, self.settings.dtype);
        let weights = self.dropout(weights);
        let mixed = self.b.einsum("bhqk,bkhd->bqhd", weights, v);
        let dims = self.b.dims(mixed);
        let mixed = self.b.reshape(mixed, &[dims[0], dims[1], dims[2] * dims[3]]);
        self.linear(mixed, "o", out, shape.has_bias)
    }

    /// Each key and value head as often as query heads share it.
    fn repeated(&mut self, x: InstrId, shape: &Attention) -> InstrId {
        let dims = self.b.dims(x);
        let wide = [dims[0], dims[1], dims[2], shape.heads / shape.kv_heads, dims[3]];
        let copies = self.b.broadcast(x, &wide, &[0, 1, 2, 4]);
        self.b.reshape(copies, &[dims[0], dims[1], shape.heads, dims[3]])
    }

    /// Scores `[batch, heads, queries, keys]`, those of later keys as small as can be.
    fn masked(&mut self, scores: InstrId) -> InstrId {
        let dims = self.b.dims(scores);
        let (queries, keys) =
            (self.b.iota(DType::S32, &dims[2..], 0), self.b.iota(DType::S32, &dims[2..], 1));
        let seen = self.b.compare(queries, keys, "GE");
        let seen = self.b.broadcast(seen, &dims, &[2, 3]);
        let least = if self.b.dtype(scores) == DType::F16 { -6e4 } else { -1e9 };
        let least = self.b.full_like(scores, least);
        self.b.select(seen, scores, least)
    }

    /// Rotary position embedding (Su et al. 2021): turns pairs of `[batch, positions, heads, width]`, half a
    /// width apart, by angles `[positions, width/2]` whose cosines and sines are given.
    pub fn rotate(&mut self, x: InstrId, (cos, sin): (InstrId, InstrId)) -> InstrId {
        let half = self.b.dims(x)[3] / 2;
        let (left, right) = (self.b.slice_in(x, 3, 0, half), self.b.slice_in(x, 3, half, 2 * half));
        let [cos, sin] = [cos, sin].map(|table| {
            let table = self.b.convert(table, self.settings.dtype);
            self.b.broadcast_like(table, left, &[1, 3])
        });
        let mut turned = |a, b, minus: bool| {
            let (x, y) = (self.b.mul(a, cos), self.b.mul(b, sin));
            if minus { self.b.sub(x, y) } else { self.b.add(x, y) }
        };
        let (left, right) = (turned(left, right, true), turned(right, left, false));
        self.b.concatenate(&[left, right], 3)
    }

    /// Cosines and sines of position·base^(−2i/width), `[positions, width/2]` in `f32`.
    pub fn rotary_tables(&mut self, positions: i64, width: i64, base: f64) -> (InstrId, InstrId) {
        let dims = [positions, width / 2];
        let position = self.b.iota(DType::F32, &dims, 0);
        let pair = self.b.iota(DType::F32, &dims, 1);
        let exponent = self.b.scale(pair, -2.0 * base.ln() / width as f64);
        let frequency = self.b.exp(exponent);
        let angle = self.b.mul(position, frequency);
        (self.b.cos(angle), self.b.sin(angle))
    }
}
