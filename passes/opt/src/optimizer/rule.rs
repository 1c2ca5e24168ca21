//! The update of one parameter.

use phzc_ir::build::Builder;
use phzc_ir::{DType, Diagnostic, InstrId, Result};
use phzc_pass::pass::Options;

/// An update rule with its numbers.
pub(super) struct Rule {
    pub kind: Kind,
    learning_rate: f64,
}

/// What a parameter's update depends on besides its gradient.
pub(super) enum Kind {
    /// Nothing.
    Sgd,
    /// The last update.
    Momentum { momentum: f64 },
    /// Both moments of the gradient, and with `decay` the parameter.
    Adam { beta1: f64, beta2: f64, eps: f64, decay: f64 },
}

/// What a number must be below: a decay of 1 forgets nothing, and its correction divides by zero.
fn limit(name: &str) -> f64 {
    if matches!(name, "beta1" | "beta2" | "momentum") { 1.0 } else { f64::INFINITY }
}

fn number(options: &Options, name: &str) -> Result<f64> {
    let (text, below) = (options.text(name), limit(name));
    let is_legal = |number: &f64| number.is_finite() && (0.0..below).contains(number);
    text.parse::<f64>().ok().filter(is_legal).ok_or_else(|| {
        let range = if below.is_finite() { " from 0 to below 1" } else { " from 0 up" };
        Diagnostic::error(format!("`{name}` of `optimizer` must be a number{range}, got `{text}`"))
    })
}

impl Rule {
    pub fn read(options: &Options) -> Result<Rule> {
        let number = |name: &str| number(options, name);
        let adam = |decay: f64| -> Result<Kind> {
            Ok(Kind::Adam { beta1: number("beta1")?, beta2: number("beta2")?, eps: number("eps")?, decay })
        };
        let kind = match options.text("kind") {
            "sgd" => Kind::Sgd,
            "momentum" => Kind::Momentum { momentum: number("momentum")? },
            "adam" => adam(0.0)?,
            _ => adam(number("decay")?)?,
        };
        Ok(Rule { kind, learning_rate: number("lr")? })
    }

    /// Prefixes of the names of the states.
    pub fn states(&self) -> &'static [&'static str] {
        match self.kind {
            Kind::Sgd => &[],
            Kind::Momentum { .. } => &["m"],
            Kind::Adam { .. } => &["m", "v"],
        }
    }

    /// What the moments are divided by: 1 − βᵗ, for they start as zeros.
    pub fn corrections(&self, b: &mut Builder, steps: Option<InstrId>) -> Option<[InstrId; 2]> {
        let (Kind::Adam { beta1, beta2, .. }, Some(steps)) = (&self.kind, steps) else { return None };
        let steps = b.convert(steps, DType::F32);
        Some([*beta1, *beta2].map(|beta| {
            let [beta, one] = [beta, 1.0].map(|c| b.scalar(DType::F32, c));
            let power = b.power(beta, steps);
            b.sub(one, power)
        }))
    }

    /// The new parameter and its new states.
    pub fn apply(
        &self,
        b: &mut Builder,
        param: InstrId,
        gradient: InstrId,
        states: &[InstrId],
        corrections: Option<[InstrId; 2]>,
    ) -> (InstrId, Vec<InstrId>) {
        let dtype = b.dtype(param);
        let wide = state_type(dtype);
        let (value, gradient) = (b.convert(param, wide), b.convert(gradient, wide));
        let (update, states) = match (&self.kind, states, corrections) {
            (Kind::Momentum { momentum }, &[last], _) => {
                let kept = b.scale(last, *momentum);
                let update = b.add(kept, gradient);
                (update, vec![update])
            }
            (&Kind::Adam { beta1, beta2, eps, decay }, &[first, second], Some(corrections)) => {
                let square = b.square(gradient);
                let first = blend(b, first, gradient, beta1);
                let second = blend(b, second, square, beta2);
                let [mean, square] =
                    [(first, corrections[0]), (second, corrections[1])].map(|(moment, by)| {
                        let by = b.convert(by, wide);
                        let by = b.broadcast_like(by, moment, &[]);
                        b.div(moment, by)
                    });
                let root = b.sqrt(square);
                let root = b.shift(root, eps);
                let update = b.div(mean, root);
                let update = if decay == 0.0 { update } else { decayed(b, update, value, decay) };
                (update, vec![first, second])
            }
            _ => (gradient, Vec::new()),
        };
        let change = b.scale(update, self.learning_rate);
        let new = b.sub(value, change);
        (b.convert(new, dtype), states)
    }
}

/// `beta·old + (1 − beta)·new`.
fn blend(b: &mut Builder, old: InstrId, new: InstrId, beta: f64) -> InstrId {
    let (old, new) = (b.scale(old, beta), b.scale(new, 1.0 - beta));
    b.add(new, old)
}

fn decayed(b: &mut Builder, update: InstrId, value: InstrId, decay: f64) -> InstrId {
    let pull = b.scale(value, decay);
    b.add(update, pull)
}

/// The type of the states of a parameter of this type.
pub(super) fn state_type(dtype: DType) -> DType {
    if dtype.bits() > 32 { dtype } else { DType::F32 }
}
