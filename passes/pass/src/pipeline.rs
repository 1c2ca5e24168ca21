//! Pipelines as text: `fuse,shard{mesh=2x4},place` is parsed, checked against the registry and printed back.
//!
//! A value runs to the next comma or closing brace. One that contains a comma, a space or a brace stands
//! in braces of its own, `mesh={x=2,y=4}`, or in double quotes, `mesh="x=2,y=4"`, where `\"` is a quote.

use crate::pass::{Changed, Context, OptionInfo, OptionKind, Options, Pass};
use crate::pipeline_syntax::{self as syntax, RawOption, RawStep};
use phzc_ir::{Diagnostic, Module, Span, nearest};
use std::fmt;

/// Passes in the order in which they run.
#[derive(Clone, Debug, Default)]
pub struct Pipeline {
    /// The passes with their options.
    pub steps: Vec<Step>,
}

/// One pass of a pipeline.
#[derive(Clone)]
pub struct Step {
    /// What runs.
    pub pass: &'static Pass,
    /// Its options, checked, defaults filled in.
    pub options: Options,
}

/// A pipeline with a name.
pub struct Alias {
    /// What stands for it in `--passes`.
    pub name: &'static str,
    /// What it stands for.
    pub pipeline: &'static str,
    /// One line for `--help-passes`: what for, and why in this order.
    pub summary: &'static str,
}

/// The passes and named pipelines that a text may name.
pub struct Registry {
    /// Every pass, in the order in which a reader meets them.
    pub passes: &'static [&'static Pass],
    /// Every named pipeline.
    pub aliases: &'static [Alias],
}

impl Registry {
    /// The pass of that name.
    pub fn find(&self, name: &str) -> Option<&'static Pass> {
        self.passes.iter().copied().find(|pass| pass.name == name)
    }

    /// The named pipeline of that name.
    pub fn alias(&self, name: &str) -> Option<&'static Alias> {
        self.aliases.iter().find(|alias| alias.name == name)
    }

    /// Names of all passes and named pipelines.
    pub fn names(&self) -> Vec<&'static str> {
        self.passes.iter().map(|pass| pass.name).chain(self.aliases.iter().map(|alias| alias.name)).collect()
    }

    /// Reads a pipeline; spans of the errors point into `text`. Aliases are replaced by what they stand for.
    ///
    /// # Errors
    /// The first syntax error; else every unknown pass, unknown option and bad value.
    pub fn pipeline(&self, text: &str) -> Result<Pipeline, Vec<Diagnostic>> {
        let raw = syntax::parse(text).map_err(|error| vec![error])?;
        let (mut steps, mut errors) = (Vec::new(), Vec::new());
        for step in &raw {
            match self.alias(&step.name) {
                Some(alias) => steps.extend(self.expand(alias, step, &mut errors)),
                None => steps.extend(self.resolve(step, &mut errors)),
            }
        }
        if errors.is_empty() { Ok(Pipeline { steps }) } else { Err(errors) }
    }
    fn expand(&self, alias: &Alias, step: &RawStep, errors: &mut Vec<Diagnostic>) -> Vec<Step> {
        if let Some(option) = step.options.first() {
            let error = Diagnostic::error(format!("`{}` names a pipeline, which has no options", alias.name));
            errors.push(error.at(option.key_span).help(format!("it stands for `{}`", alias.pipeline)));
        }
        match self.pipeline(alias.pipeline) {
            Ok(pipeline) => pipeline.steps,
            Err(inner) => {
                errors.extend(inner.into_iter().map(|error| error.at(step.span)));
                Vec::new()
            }
        }
    }

    fn resolve(&self, raw: &RawStep, errors: &mut Vec<Diagnostic>) -> Option<Step> {
        let Some(pass) = self.find(&raw.name) else {
            errors.push(unknown(&format!("pass `{}`", raw.name), &raw.name, &self.names()).at(raw.span));
            return None;
        };
        let mut step = Step::new(pass);
        for (index, option) in raw.options.iter().enumerate() {
            let is_repeated = raw.options[..index].iter().any(|earlier| earlier.key == option.key);
            match set(&mut step, option, is_repeated) {
                Ok(()) => {}
                Err(error) => errors.push(error),
            }
        }
        Some(step)
    }
}

impl Pipeline {
    /// The pipeline that is left after the first `n_done` steps.
    pub fn after(&self, n_done: usize) -> Pipeline {
        Pipeline { steps: self.steps.iter().skip(n_done).cloned().collect() }
    }
}

impl Step {
    /// Runs the pass. What the pass before has handed on is gone if this one changes the module and hands on
    /// nothing itself.
    ///
    /// # Errors
    /// What the pass refuses.
    pub fn run(&self, module: &mut Module, cx: &mut Context) -> phzc_ir::Result<Changed> {
        let changed = (self.pass.run)(module, &self.options, cx)?;
        cx.handed_on.settle(changed == Changed::Yes);
        Ok(changed)
    }

    /// The pass with its default options.
    pub fn new(pass: &'static Pass) -> Step {
        let values = pass.options.iter().map(|option| (option.name, option.default.to_owned())).collect();
        Step { pass, options: Options { values } }
    }
}

fn set(step: &mut Step, raw: &RawOption, is_repeated: bool) -> phzc_ir::Result<()> {
    let pass = step.pass;
    let Some(info) = pass.options.iter().find(|info| info.name == raw.key) else {
        let known: Vec<&str> = pass.options.iter().map(|info| info.name).collect();
        let what = format!("option `{}` of `{}`", raw.key, pass.name);
        return Err(unknown(&what, &raw.key, &known).at(raw.key_span));
    };
    if is_repeated {
        let error = Diagnostic::error(format!("option `{}` of `{}` is given twice", raw.key, pass.name));
        return Err(error.at(raw.key_span));
    }
    if let OptionKind::Checked(_, check) = info.kind {
        check(&raw.value).map_err(|error| inside(error, raw))?;
    }
    let value = canonical(info, &raw.value).map_err(|expected| {
        let what = format!("option `{}` of `{}` needs {expected}, got `{}`", raw.key, pass.name, raw.value);
        Diagnostic::error(what).at(raw.value_span)
    })?;
    step.options.values.insert(info.name, value);
    Ok(())
}

/// An error about a part of an option's value, at its place in the pipeline; escapes make that the whole
/// value.
fn inside(error: Diagnostic, raw: &RawOption) -> Diagnostic {
    let (start, end) = (raw.value_span.start as usize, raw.value_span.end as usize);
    let is_plain = [0, 2].contains(&(end - start - raw.value.len()));
    match error.span.filter(|_| is_plain) {
        Some(span) => {
            let first = start + (end - start - raw.value.len()) / 2;
            error.at(Span::new(first + span.start as usize, first + span.end as usize))
        }
        None => error.at(raw.value_span),
    }
}

/// The one spelling of a legal value; the error says what is legal.
fn canonical(info: &OptionInfo, value: &str) -> Result<String, String> {
    match info.kind {
        OptionKind::Int { min, max } => {
            let int = value.parse::<i64>().ok().filter(|int| (min..=max).contains(int));
            int.map(|int| int.to_string()).ok_or_else(|| info.kind.to_string())
        }
        OptionKind::Flag if matches!(value, "true" | "false") => Ok(value.to_owned()),
        OptionKind::Choice(words) if words.contains(&value) => Ok(value.to_owned()),
        OptionKind::Text(_) | OptionKind::Checked(..) => Ok(value.to_owned()),
        OptionKind::Flag | OptionKind::Choice(_) => Err(info.kind.to_string()),
    }
}

/// "unknown `what`", with the nearest name that is known, or all of them.
fn unknown(what: &str, word: &str, known: &[&str]) -> Diagnostic {
    let error = Diagnostic::error(format!("unknown {what}"));
    let list =
        if known.is_empty() { "it has none".to_owned() } else { format!("known: {}", known.join(", ")) };
    match nearest(word, known.iter().copied()) {
        Some(near) => error.help(format!("did you mean `{near}`? {list}")),
        None => error.help(list),
    }
}

impl fmt::Display for OptionKind {
    /// What the option needs: `an integer from 1 to 8`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            OptionKind::Int { min, max } => write!(f, "an integer from {min} to {max}"),
            OptionKind::Flag => f.write_str("`true` or `false`"),
            OptionKind::Choice(words) => {
                let words: Vec<String> = words.iter().map(|word| format!("`{word}`")).collect();
                write!(f, "one of {}", words.join(", "))
            }
            OptionKind::Text(form) | OptionKind::Checked(form, _) => f.write_str(form),
        }
    }
}

impl fmt::Display for Pipeline {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, step) in self.steps.iter().enumerate() {
            let comma = if index > 0 { "," } else { "" };
            write!(f, "{comma}{step}")?;
        }
        Ok(())
    }
}

impl fmt::Display for Step {
    /// The name and the options that are not the default.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.pass.name)?;
        let given = |info: &&OptionInfo| self.options.text(info.name) != info.default;
        let options: Vec<String> =
            self.pass.options.iter().filter(given).map(|info| self.option(info)).collect();
        if options.is_empty() { Ok(()) } else { write!(f, "{{{}}}", options.join(",")) }
    }
}

impl Step {
    fn option(&self, info: &OptionInfo) -> String {
        format!("{}={}", info.name, syntax::quoted(self.options.text(info.name)))
    }
}

impl fmt::Debug for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Step({self})")
    }
}

#[cfg(test)]
mod tests;
