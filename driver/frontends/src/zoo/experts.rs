//! Mixture of experts: routing, dispatch, combination (Shazeer et al. 2017, GShard: Lepikhin et al. 2020).

use super::layers::Activation;
use super::net::Net;
use phzc_ir::{DType, Diagnostic, InstrId, Result};

/// The sizes of a layer of experts.
#[derive(Clone, Copy, Debug)]
pub struct Experts {
    /// Number of experts.
    pub experts: i64,
    /// Experts that a token is sent to.
    pub top_k: i64,
    /// Places that an expert has for a sample's tokens, in per cent of an even share.
    pub capacity: i64,
    /// Width of an expert's feed-forward layer.
    pub ffn: i64,
    /// Whether experts are gated (SwiGLU) or have a GELU.
    pub is_gated: bool,
}

/// The weight of the loss that asks for even loads.
const BALANCE: f64 = 0.01;

impl Experts {
    /// Errors if a token is sent to more experts than there are.
    pub fn check(&self) -> Result<()> {
        if self.top_k <= self.experts {
            return Ok(());
        }
        let message = format!("`--top-k` is {}, more than {} `--experts`", self.top_k, self.experts);
        Err(Diagnostic::error(message))
    }

    pub(super) fn places(&self, seq: i64) -> i64 {
        let per_cent = 100 * self.experts;
        ((seq * self.top_k * self.capacity + per_cent - 1) / per_cent).clamp(1, seq)
    }
}

/// Where tokens go.
struct Route {
    /// The weight of each token at each place: `f32[batch, seq, experts, places]`.
    combine: InstrId,
    /// The loss that asks for even loads.
    balance: InstrId,
}

impl Net {
    /// Each token through the experts that its router prefers: `[batch, seq, hidden]`, and the loss of uneven
    /// loads.
    ///
    /// Tokens for which an expert has no place left are dropped there: the residual keeps them.
    pub fn mixture(&mut self, x: InstrId, shape: &Experts) -> (InstrId, InstrId) {
        let route = self.route(x, shape);
        let zero = self.b.full_like(route.combine, 0.0);
        let sent = self.b.compare(route.combine, zero, "NE");
        let dispatch = self.b.convert(sent, self.settings.dtype);
        let combine = self.b.convert(route.combine, self.settings.dtype);
        let inputs = self.b.einsum("bsec,bsm->ebcm", dispatch, x);
        let outputs = self.in_experts(inputs, "ebci", shape);
        let y = self.b.einsum("bsec,ebcm->bsm", combine, outputs);
        (self.dropout(y), route.balance)
    }

    /// The feed-forward layers of all experts: of each one's tokens, in that order of dimensions, to
    /// `[experts, batch, places, hidden]`.
    pub(super) fn in_experts(&mut self, x: InstrId, order: &str, shape: &Experts) -> InstrId {
        let hidden = self.b.dims(x)[3];
        let expert = |net: &mut Net, x, order: &str, name: &str, dims: [i64; 3]| {
            let kernel = net.weight(name, &dims);
            let y = net.b.einsum(&format!("{order},eio->ebco"), x, kernel);
            net.weighted(y)
        };
        let (into, back) = ([shape.experts, hidden, shape.ffn], [shape.experts, shape.ffn, hidden]);
        let up = expert(self, x, order, "up", into);
        let active = if shape.is_gated {
            let gate = expert(self, x, order, "gate", into);
            let gate = self.activate(gate, Activation::Silu);
            self.b.mul(gate, up)
        } else {
            self.activate(up, Activation::GeluTanh)
        };
        expert(self, active, "ebci", "down", back)
    }

    /// The router's probabilities: `f32[batch, seq, experts]`.
    pub(super) fn probabilities(&mut self, x: InstrId, shape: &Experts) -> InstrId {
        let hidden = self.b.dims(x)[2];
        // Never in narrow numbers: which experts win hangs on small differences.
        let router = self.scoped("router", |net| net.weight("kernel", &[hidden, shape.experts]));
        let logits = self.b.einsum("bsm,me->bse", x, router);
        self.softmax(logits)
    }

    /// The experts with the largest probabilities, first come first served.
    fn route(&mut self, x: InstrId, shape: &Experts) -> Route {
        let probs = self.probabilities(x, shape);
        let seq = self.b.dims(probs)[1];
        let places = shape.places(seq);
        let mut rest = probs;
        let (mut used, mut balance) = (None, None);
        let mut chosen = Vec::new();
        for _ in 0..shape.top_k {
            let hit = self.largest(rest);
            let lowest = self.b.full_like(rest, -1.0);
            rest = self.b.select(hit, lowest, rest);
            let mask = self.b.convert(hit, DType::F32);
            let gate = self.b.mul(probs, mask);
            let gate = self.b.sum(gate, &[2]);
            balance = balance.or_else(|| Some(self.balance(probs, mask)));
            let at = self.place(mask, &mut used, places);
            chosen.push((gate, at));
        }
        Route { combine: self.combined(&chosen), balance: balance.expect("a token is sent somewhere") }
    }

    /// Whether an expert is a token's first of the largest probability: `pred[batch, seq, experts]`.
    pub(super) fn largest(&mut self, probs: InstrId) -> InstrId {
        let best = self.b.argmax(probs, 2);
        let dims = self.b.dims(probs);
        let best = self.b.broadcast(best, &dims, &[0, 1]);
        let experts = self.b.iota(DType::S32, &dims, 2);
        self.b.compare(experts, best, "EQ")
    }

    /// 1 at the expert and place that each token gets, if it gets one: `f32[batch, seq, experts, places]`.
    ///
    /// `used` counts the places that earlier choices have taken, `f32[batch, experts]`.
    fn place(&mut self, mask: InstrId, used: &mut Option<InstrId>, places: i64) -> InstrId {
        let b = &mut self.b;
        let until = b.cumsum(mask, 1);
        let mut before = b.sub(until, mask);
        if let Some(used) = *used {
            let used = b.broadcast_like(used, mask, &[0, 2]);
            before = b.add(before, used);
        }
        let n = b.sum(mask, &[1]);
        *used = Some(used.map_or(n, |used| b.add(used, n)));
        let own = b.mul(before, mask);
        let own = b.sum(own, &[2]);
        let own = b.convert(own, DType::S32);
        let dims = b.dims(mask);
        let wide = [dims[0], dims[1], dims[2], places];
        let place = b.broadcast(own, &wide, &[0, 1]);
        let all = b.iota(DType::S32, &wide, 3);
        let hit = b.compare(place, all, "EQ");
        let hit = b.convert(hit, DType::F32);
        let mask = b.broadcast(mask, &wide, &[0, 1, 2]);
        b.mul(hit, mask)
    }

    /// The places weighted with the gates, which are made to add up to 1.
    fn combined(&mut self, chosen: &[(InstrId, InstrId)]) -> InstrId {
        let b = &mut self.b;
        let sum = |b: &mut phzc_ir::build::Builder, ids: Vec<InstrId>| {
            ids.into_iter().reduce(|a, x| b.add(a, x)).expect("a token is sent somewhere")
        };
        let total = sum(b, chosen.iter().map(|&(gate, _)| gate).collect());
        let mut weighted = |&(gate, at): &(InstrId, InstrId)| {
            let share = b.div(gate, total);
            let share = b.broadcast_like(share, at, &[0, 1]);
            b.mul(share, at)
        };
        let parts = chosen.iter().map(&mut weighted).collect();
        sum(&mut self.b, parts)
    }

    /// Experts · mean over samples of Σ (share of tokens · mean probability), of first choices (Switch,
    /// equation 4).
    pub(super) fn balance(&mut self, probs: InstrId, mask: InstrId) -> InstrId {
        let n = self.b.dims(probs)[2] as f64;
        let (loads, means) = (self.b.mean(mask, &[1]), self.b.mean(probs, &[1]));
        let both = self.b.mul(loads, means);
        let sum = self.b.mean(both, &[0, 1]);
        self.b.scale(sum, BALANCE * n * n)
    }
}
