//! Kernels behind custom calls: the loops and the work of the targets that programs contain.
//!
//! A call is described by the first of: the note `phzc.kernel`, which `--kernels` writes; Shardy's own rule
//! of the call (`sdy.sharding_rule`); the lines of `builtin.toml` and `attention.toml` for its target. Of all
//! these lines the first that fits counts.

mod cache;
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
use cache::Cache;
use pattern::Sizes;
use std::cell::OnceCell;
use std::sync::{Arc, LazyLock};

pub use formula::Formula;
pub use table::{Kernel, Loops, read};

/// Names of counts that formulas may have besides the loops: the product of the leading dimensions, the
/// elements of the first operand and of the first result.
pub(crate) const COUNTS: [&str; 3] = ["batch", "in", "out"];

static BUILTIN: LazyLock<Vec<Arc<Kernel>>> = LazyLock::new(|| {
    let tables = [include_str!("builtin.toml"), include_str!("attention.toml")];
    let kernels = tables.map(|text| read(text).unwrap_or_else(|error| panic!("a table of phzc's: {error}")));
    kernels.into_iter().flatten().map(Arc::new).collect()
});
/// The lines of `phzc.kernel`, read once per text: rules and work are asked for again and again.
static NOTED: Cache = Cache::new(|text| table::lines(text).unwrap_or_default());
/// The line that Shardy's rule makes.
static SHARDY: Cache = Cache::new(|text| shardy::kernel(text).into_iter().collect());

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
        Loops::Dot => library::rule_dot(view, call.config()),
        Loops::Convolution => library::rule_convolution(view),
    }
}

/// The work of a custom call, without bytes: nothing if its kernel is not known.
pub(crate) fn work(view: &View) -> Work {
    let Some(call) = Call::read(view) else { return Work::default() };
    let own = match &call.kernel.loops {
        Loops::Of(_) => Work::default(),
        Loops::Dot => library::work_dot(view, call.config()),
        Loops::Convolution => library::work_convolution(view),
    };
    let count = |formula: &Option<Formula>| {
        formula.as_ref().map_or(0.0, |formula| formula.value(&|name| call.count(name)))
    };
    let products = count(&call.kernel.products) + own.products;
    let flops = count(&call.kernel.flops) + products;
    let scale = call.kernel.scale.iter().filter(|(text, _)| call.config().contains(&**text));
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
    instr: &'a Instr,
    kernel: Arc<Kernel>,
    config: OnceCell<String>,
    operands: Vec<&'a [i64]>,
    results: Vec<&'a [i64]>,
    sizes: Option<Sizes>,
}

impl<'a> Call<'a> {
    fn read(view: &View<'a>) -> Option<Call<'a>> {
        let mut lines = lines(view.instr).peekable();
        lines.peek()?;
        let operands: Vec<&[i64]> = operand_leaves(view).into_iter().map(leaf_dims).collect();
        let results: Vec<&[i64]> = view.instr.shape.leaves().into_iter().map(leaf_dims).collect();
        let config = OnceCell::new();
        let (kernel, sizes) = lines.find_map(|kernel| {
            let text = || config.get_or_init(|| self::config(view.instr));
            let is_meant = kernel.config.as_ref().is_none_or(|wanted| text().contains(&**wanted));
            let sizes = match &kernel.loops {
                _ if !is_meant => return None,
                Loops::Of(pattern) => Some(pattern.sizes(&operands, &results)?),
                Loops::Dot | Loops::Convolution => None,
            };
            Some((kernel.clone(), sizes))
        })?;
        Some(Call { instr: view.instr, kernel, config, operands, results, sizes })
    }

    /// Its configuration without quotes and blanks.
    fn config(&self) -> &str {
        self.config.get_or_init(|| config(self.instr))
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
            _ => name.strip_prefix(formula::CONFIG).and_then(|key| number(self.config(), key)).unwrap_or(0.0),
        }
    }
}

fn product<'a>(sizes: impl Iterator<Item = &'a i64>) -> f64 {
    sizes.map(|&size| size as f64).product()
}

/// The lines that are about a call: what it says of itself, then the table's.
fn lines(instr: &Instr) -> impl Iterator<Item = Arc<Kernel>> {
    let target = target(instr);
    let note = |cache: &Cache, key: &str| {
        let text = target.and_then(|_| instr.note(key));
        text.map_or_else(|| Arc::from([]), |text| cache.lines(text))
    };
    let noted = [note(&NOTED, KERNEL), note(&SHARDY, shardy::NOTE)];
    let noted = noted.into_iter().flat_map(|lines| (0..lines.len()).map(move |at| lines[at].clone()));
    let builtin = BUILTIN.iter().filter(move |kernel| target.is_some_and(|target| kernel.is_about(target)));
    noted.chain(builtin.cloned())
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
#[cfg(test)]
mod tests_attention;
#[cfg(test)]
mod tests_library;
