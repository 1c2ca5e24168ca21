//! Experts whose tokens are looked up by number, as Megatron permutes them: no product with masks.

use super::experts::Experts;
use super::net::Net;
use phzc_ir::{DType, InstrId};

/// A token's choice of an expert: `[batch, seq]` each.
struct Choice {
    /// Its place among those of all experts; out of range where its expert has none left.
    slot: InstrId,
    /// Its weight, `f32`; 0 without a place.
    gate: InstrId,
}

impl Net {
    /// Each token through the experts that its router prefers, and the loss of uneven loads: tokens come to
    /// their places by a look-up, and back by another one. Unlike in [`Net::mixture`], all choices of earlier
    /// tokens are served first.
    pub fn routed(&mut self, x: InstrId, shape: &Experts) -> (InstrId, InstrId) {
        let dims = self.b.dims(x);
        let [batch, seq, hidden] = dims[..] else { unreachable!("batch, positions, width") };
        let places = shape.places(seq);
        let (choices, balance) = self.choices(x, shape);
        let slots: Vec<InstrId> = choices.iter().map(|choice| choice.slot).collect();
        let slots = self.b.concatenate(&slots, 1);
        let tokens = self.tokens_of(slots, [batch, seq, shape.experts * places], choices.len());
        let rows = self.b.take_rows_of_each(x, tokens);
        let rows = self.b.reshape(rows, &[batch, shape.experts, places, hidden]);
        let made = self.in_experts(rows, "beci", shape);
        let made = self.b.transpose(made, &[1, 0, 2, 3]);
        let made = self.b.reshape(made, &[batch, shape.experts * places, hidden]);
        let back = self.b.take_rows_of_each(made, slots);
        let y = self.weighed(back, &choices, [batch, seq, hidden]);
        (self.dropout(y), balance)
    }

    /// The token of every place; of those that nobody takes, token 0.
    fn tokens_of(&mut self, slots: InstrId, [batch, seq, n_slots]: [i64; 3], n_choices: usize) -> InstrId {
        let tokens = self.b.iota(DType::S32, &[batch, seq], 1);
        let tokens = self.b.concatenate(&vec![tokens; n_choices], 1);
        let zero = self.b.scalar(DType::S32, 0.0);
        let none = self.b.broadcast(zero, &[batch, n_slots], &[]);
        self.b.add_at(none, slots, tokens)
    }

    /// What experts made of a token, weighted and added up.
    fn weighed(&mut self, rows: InstrId, choices: &[Choice], [batch, seq, hidden]: [i64; 3]) -> InstrId {
        let gates: Vec<InstrId> = choices.iter().map(|choice| choice.gate).collect();
        let gates = self.b.concatenate(&gates, 1);
        let gates = self.b.convert(gates, self.settings.dtype);
        let gates = self.b.broadcast_like(gates, rows, &[0, 1]);
        let weighted = self.b.mul(rows, gates);
        let apart = self.b.reshape(weighted, &[batch, choices.len() as i64, seq, hidden]);
        self.b.sum(apart, &[1])
    }

    /// The experts with the largest probabilities, earlier tokens first, and the loss of uneven loads.
    fn choices(&mut self, x: InstrId, shape: &Experts) -> (Vec<Choice>, InstrId) {
        let probs = self.probabilities(x, shape);
        let (mut rest, mut masks) = (probs, Vec::new());
        for _ in 0..shape.top_k {
            let hit = self.largest(rest);
            let lowest = self.b.full_like(rest, -1.0);
            rest = self.b.select(hit, lowest, rest);
            masks.push(self.b.convert(hit, DType::F32));
        }
        let all = masks.iter().copied().reduce(|a, b| self.b.add(a, b)).expect("a token goes somewhere");
        let gates = self.b.mul(probs, all);
        let total = self.b.sum(gates, &[2]);
        let until = self.b.cumsum(all, 1);
        let before = self.b.sub(until, all);
        let balance = self.balance(probs, masks[0]);
        let choices = masks.iter().map(|&mask| self.choice([probs, before, total], mask, shape)).collect();
        (choices, balance)
    }

    fn choice(&mut self, [probs, before, total]: [InstrId; 3], mask: InstrId, shape: &Experts) -> Choice {
        let dims = self.b.dims(mask);
        let places = shape.places(dims[1]);
        let numbers = self.b.iota(DType::F32, &dims, 2);
        let mut own = |x| {
            let own = self.b.mul(x, mask);
            self.b.sum(own, &[2])
        };
        let [gate, place, expert] = [probs, before, numbers].map(&mut own);
        let gate = self.b.div(gate, total);
        let b = &mut self.b;
        // Numbers of all places are too large for the mantissa of `f32`.
        let [place, expert] = [place, expert].map(|number| b.convert(number, DType::S32));
        let limit = b.full_like(place, places as f64);
        let is_kept = b.compare(place, limit, "LT");
        let first = b.scale(expert, places as f64);
        let slot = b.add(first, place);
        let outside = b.full_like(slot, (shape.experts * places) as f64);
        let slot = b.select(is_kept, slot, outside);
        let none = b.full_like(gate, 0.0);
        Choice { slot, gate: b.select(is_kept, gate, none) }
    }
}
