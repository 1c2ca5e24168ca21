//! Kernels behind custom calls: the loops and the work of the targets that programs contain.
//!
//! A call is described by the first of: the note `phzc.kernel`, which `--kernels` writes; Shardy's own rule
//! of the call (`sdy.sharding_rule`); the lines of `builtin.toml` for its target, the first that fits.

mod formula;
mod library;
mod pattern;
mod shardy;
mod table;

use crate::attr::{Key, Value};
use crate::module::{Instr, Module};
use crate::notes::KERNEL;
use crate::opcode::Opcode;
use crate::ops::maps::{leaf_dims, operand_leaves};
use crate::rule::{FactorKind, Reducer, Rule};
use crate::view::View;
use crate::work::Work;
use pattern::Sizes;
use std::borrow::Cow;
use std::sync::LazyLock;

pub use formula::Formula;
pub use table::{Kernel, Loops, read};

/// Names of counts that formulas may have besides the loops: the product of the leading dimensions, the
/// elements of the first operand and of the first result.
pub(crate) const COUNTS: [&str; 3] = ["batch", "in", "out"];

static BUILTIN: LazyLock<Vec<Kernel>> = LazyLock::new(|| {
    read(include_str!("builtin.toml")).unwrap_or_else(|error| panic!("builtin.toml: {error}"))
});

/// The targets that are described, in the order of the table.
pub fn known_targets() -> impl Iterator<Item = &'static str> {
    BUILTIN.iter().flat_map(|kernel| kernel.targets.iter().map(|target| &**target))
}

/// Notes what a table says of the custom calls of a program; says how many it is about.
pub fn describe(module: &mut Module, table: &[Kernel]) -> usize {
    let mut n_described = 0;
    for instr in module.comps.iter_mut().flat_map(|comp| &mut comp.instrs) {
        let Some(target) = target(instr) else { continue };
        let lines = table.iter().filter(|kernel| kernel.is_about(target));
        let lines: Vec<&str> = lines.map(|kernel| &*kernel.text).collect();
        if !lines.is_empty() {
            instr.set_note(KERNEL, &format!("kernel=[{}]", lines.join(",")));
            n_described += 1;
        }
    }
    n_described
}

/// The target of a custom call.
fn target(instr: &Instr) -> Option<&str> {
    instr.word(Key::CustomCallTarget).filter(|_| instr.op == Opcode::CustomCall)
}

/// The factor rule of a custom call, if its kernel is known and its shapes fit.
pub(crate) fn rule(view: &View) -> Option<Rule> {
    let call = Call::read(view)?;
    match &call.kernel.loops {
        Loops::Of(pattern) => {
            let sizes = call.sizes.as_ref()?;
            let kind = |name: &str| call.kernel.kind(name);
            let rule = pattern.rule((&call.operands, &call.results), sizes, kind);
            Some(Rule { is_fallback: pattern.is_silent(), ..rule })
        }
        Loops::Dot => library::rule_dot(view, &call.config),
        Loops::Convolution => library::rule_convolution(view),
    }
}

/// The work of a custom call, without bytes: nothing if its kernel is not known.
pub(crate) fn work(view: &View) -> Work {
    let Some(call) = Call::read(view) else { return Work::default() };
    let own = match &call.kernel.loops {
        Loops::Of(_) => Work::default(),
        Loops::Dot => library::work_dot(view, &call.config),
        Loops::Convolution => library::work_convolution(view),
    };
    let count = |formula: &Option<Formula>| {
        formula.as_ref().map_or(0.0, |formula| formula.value(&|name| call.count(name)))
    };
    let products = count(&call.kernel.products) + own.products;
    let flops = count(&call.kernel.flops) + products;
    let scale = call.kernel.scale.iter().filter(|(text, _)| call.config.contains(&**text));
    let scale: f64 = scale.map(|(_, times)| times).product();
    Work { flops, products, transcendentals: count(&call.kernel.transcendentals), bytes: 0.0 } * scale
}

impl Kernel {
    fn is_about(&self, target: &str) -> bool {
        self.targets.iter().any(|own| match own.strip_suffix('*') {
            Some(start) => target.starts_with(start),
            None => **own == *target,
        })
    }

    /// What splitting a loop takes.
    fn kind(&self, name: &str) -> FactorKind {
        let is_in = |list: &[Box<str>]| list.iter().any(|it| **it == *name);
        match name {
            _ if is_in(&self.whole) => FactorKind::Replicate,
            _ if is_in(&self.sums) => FactorKind::Reduce(Reducer::Add),
            _ => FactorKind::Pass,
        }
    }
}

/// A custom call with the line that describes it.
struct Call<'a> {
    kernel: Cow<'a, Kernel>,
    /// Its configuration without quotes and blanks.
    config: String,
    operands: Vec<&'a [i64]>,
    results: Vec<&'a [i64]>,
    sizes: Option<Sizes>,
}

impl<'a> Call<'a> {
    fn read(view: &View<'a>) -> Option<Call<'a>> {
        let target = target(view.instr)?;
        let noted = noted(view.instr);
        if noted.is_none() && !BUILTIN.iter().any(|kernel| kernel.is_about(target)) {
            return None;
        }
        let lines: Vec<Cow<'a, Kernel>> = match noted {
            Some(lines) => lines.into_iter().map(Cow::Owned).collect(),
            None => BUILTIN.iter().filter(|kernel| kernel.is_about(target)).map(Cow::Borrowed).collect(),
        };
        let operands: Vec<&[i64]> = operand_leaves(view).into_iter().map(leaf_dims).collect();
        let results: Vec<&[i64]> = view.instr.shape.leaves().into_iter().map(leaf_dims).collect();
        let config = config(view.instr);
        lines.into_iter().find_map(|kernel| {
            let is_meant = kernel.config.as_ref().is_none_or(|text| config.contains(&**text));
            let sizes = match &kernel.loops {
                Loops::Of(pattern) => Some(pattern.sizes(&operands, &results)?),
                Loops::Dot | Loops::Convolution => None,
            };
            let (config, operands, results) = (config.clone(), operands.clone(), results.clone());
            is_meant.then_some(Call { kernel, config, operands, results, sizes })
        })
    }

    /// The value of a formula's name.
    fn count(&self, name: &str) -> f64 {
        let elements = |shapes: &[&[i64]]| shapes.first().map_or(0.0, |dims| product(dims.iter()));
        let own = self.sizes.as_ref().and_then(|sizes| sizes.get(name));
        match name {
            _ if own.is_some() => own.map_or(0.0, |&size| size as f64),
            "batch" => {
                let sizes = self.sizes.iter().flatten();
                product(
                    sizes.filter(|(name, _)| name.len() > 3 && name.starts_with("...")).map(|(_, size)| size),
                )
            }
            "in" => elements(&self.operands),
            "out" => elements(&self.results),
            _ => name.strip_prefix(formula::CONFIG).and_then(|key| number(&self.config, key)).unwrap_or(0.0),
        }
    }
}

fn product<'a>(sizes: impl Iterator<Item = &'a i64>) -> f64 {
    sizes.map(|&size| size as f64).product()
}

/// What a call says of itself.
fn noted(instr: &Instr) -> Option<Vec<Kernel>> {
    match instr.note(KERNEL) {
        Some(text) => table::lines(text).ok(),
        None => instr.note(shardy::NOTE).and_then(shardy::kernel).map(|kernel| vec![kernel]),
    }
}

/// A call's configuration without quotes and blanks.
fn config(instr: &Instr) -> String {
    match instr.attr(Key::BackendConfig) {
        Some(Value::Raw(text)) => bare(text),
        _ => String::new(),
    }
}

/// A text without quotes, backslashes and blanks.
fn bare(text: &str) -> String {
    text.chars().filter(|char| !char.is_whitespace() && !matches!(char, '"' | '\\')).collect()
}

/// The number behind `key:` or `key=`.
fn number(config: &str, key: &str) -> Option<f64> {
    let is_inside = |char: char| char.is_ascii_alphanumeric() || char == '_';
    config.match_indices(key).find_map(|(at, _)| {
        let rest = config[at + key.len()..].strip_prefix([':', '='])?;
        let end = rest.find(|char: char| !(char.is_ascii_digit() || matches!(char, '.' | 'e' | '+' | '-')));
        let is_whole_key = !config[..at].ends_with(is_inside);
        rest[..end.unwrap_or(rest.len())].parse().ok().filter(|_| is_whole_key)
    })
}

#[cfg(test)]
mod tests;
