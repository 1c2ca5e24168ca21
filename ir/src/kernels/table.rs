//! Tables of kernels: TOML, one `[[kernel]]` per form of a call.

use super::formula::{CONFIG, Formula};
use super::pattern::Pattern;
use crate::diag::{Diagnostic, Result, Span};
use serde::Deserialize;
use std::collections::BTreeMap;
use std::iter;
use toml::Spanned;

/// One form of a kernel's call: which calls it describes, their loops and their work.
#[derive(Clone, Debug)]
pub struct Kernel {
    /// The targets that it is about; one that ends in `*` is a beginning.
    pub targets: Vec<Box<str>>,
    /// What the configuration has to contain, blanks and quotes aside.
    pub config: Option<Box<str>>,
    /// The loops.
    pub loops: Loops,
    /// Loops that are not split.
    pub whole: Vec<Box<str>>,
    /// Loops whose parts make summands of the result.
    pub sums: Vec<Box<str>>,
    /// FLOPs of the matrix units.
    pub products: Option<Formula>,
    /// Other FLOPs.
    pub flops: Option<Formula>,
    /// Calls of exponentials and their kin.
    pub transcendentals: Option<Formula>,
    /// Shares of the work that are done where the configuration contains a text.
    pub scale: Vec<(Box<str>, f64)>,
    /// The form as one line of TOML without its targets, as [`crate::notes::KERNEL`] has it.
    pub text: String,
}

/// Where a kernel's loops come from.
#[derive(Clone, Debug, PartialEq)]
pub enum Loops {
    /// From a pattern.
    Of(Pattern),
    /// From the attributes and the configuration, as those of a product of matrices.
    Dot,
    /// From the attributes, as those of a convolution.
    Convolution,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    kernel: Vec<Line>,
}

#[derive(Deserialize)]
#[serde(untagged, expecting = "expected a target or a list of targets")]
enum Targets {
    One(String),
    Many(Vec<String>),
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Line {
    #[serde(default)]
    target: Option<Targets>,
    config: Option<Spanned<String>>,
    rule: Option<Spanned<String>>,
    #[serde(default)]
    or: Vec<Spanned<String>>,
    like: Option<Spanned<String>>,
    #[serde(default)]
    whole: Vec<Spanned<String>>,
    #[serde(default)]
    sums: Vec<Spanned<String>>,
    products: Option<Spanned<String>>,
    flops: Option<Spanned<String>>,
    transcendentals: Option<Spanned<String>>,
    #[serde(default)]
    scale: BTreeMap<Spanned<String>, f64>,
    #[serde(rename = "source")]
    _source: Option<String>,
}

/// Reads a table.
///
/// # Errors
/// The first thing that is wrong with it, with its place in `text`.
pub fn read(text: &str) -> Result<Vec<Kernel>> {
    let file: File = toml::from_str(text).map_err(|error| diagnostic(&error))?;
    let has_none = |line: &Line| match &line.target {
        Some(Targets::Many(many)) => many.is_empty(),
        Some(Targets::One(_)) => false,
        None => true,
    };
    match file.kernel.iter().position(has_none) {
        Some(at) => Err(Diagnostic::error(format!("kernel {} of the table has no `target`", at + 1))
            .help("it is the `custom_call_target` of the calls that the kernel does")),
        None => all(file),
    }
}

/// Reads lines that need no targets, as those of a note.
pub(super) fn lines(text: &str) -> Result<Vec<Kernel>> {
    all(toml::from_str(text).map_err(|error| diagnostic(&error))?)
}

/// A kernel per rule of every line.
fn all(file: File) -> Result<Vec<Kernel>> {
    let mut kernels = Vec::new();
    for line in file.kernel {
        match (&line.rule, line.or.first()) {
            (Some(rule), _) => {
                for rule in iter::once(rule).chain(&line.or) {
                    kernels.push(kernel(&line, Some(rule))?);
                }
            }
            (None, Some(or)) => return Err(wrong(or, "`or` has further rules: give the first as `rule`")),
            (None, None) => kernels.push(kernel(&line, None)?),
        }
    }
    Ok(kernels)
}

fn diagnostic(error: &toml::de::Error) -> Diagnostic {
    let plain = Diagnostic::error(error.message().trim_end_matches('.'));
    match error.span() {
        Some(range) => plain.at(Span::new(range.start, range.end)),
        None => plain,
    }
}

/// An error about a string of the table.
fn wrong(about: &Spanned<String>, message: impl Into<String>) -> Diagnostic {
    Diagnostic::error(message).at(Span::new(about.span().start, about.span().end))
}

fn kernel(line: &Line, rule: Option<&Spanned<String>>) -> Result<Kernel> {
    let text = one_line(line, rule)?;
    let targets = match &line.target {
        Some(Targets::One(one)) => vec![one.as_str().into()],
        Some(Targets::Many(many)) => many.iter().map(|it| it.as_str().into()).collect(),
        None => Vec::new(),
    };
    let loops = loops(line, rule)?;
    check_scale(line)?;
    let names = |list: &[Spanned<String>]| list.iter().map(|it| it.get_ref().as_str().into()).collect();
    let formula = |text: &Option<Spanned<String>>| formula(text.as_ref(), &loops);
    Ok(Kernel {
        targets,
        config: line.config.as_ref().map(|it| super::bare(it.get_ref()).into()),
        products: formula(&line.products)?,
        flops: formula(&line.flops)?,
        transcendentals: formula(&line.transcendentals)?,
        whole: names(&line.whole),
        sums: names(&line.sums),
        scale: line.scale.iter().map(|(name, &times)| (super::bare(name.get_ref()).into(), times)).collect(),
        loops,
        text,
    })
}

/// Shares are counts too; NaN would not be read again as the note has it.
fn check_scale(line: &Line) -> Result<()> {
    match line.scale.iter().find(|(_, times)| !times.is_finite() || **times < 0.0) {
        Some((name, times)) => Err(wrong(name, format!("`{times:?}` is no share of the work"))
            .help("a share is a finite number, not below zero: 0.5 is half of the work")),
        None => Ok(()),
    }
}

fn loops(line: &Line, rule: Option<&Spanned<String>>) -> Result<Loops> {
    match (rule, &line.like) {
        (Some(rule), None) => {
            let pattern = Pattern::parse(rule.get_ref()).map_err(|message| wrong(rule, message))?;
            check_names(line, rule, &pattern)?;
            Ok(Loops::Of(pattern))
        }
        (None, Some(like)) => match like.get_ref().as_str() {
            "dot" => Ok(Loops::Dot),
            "convolution" => Ok(Loops::Convolution),
            other => Err(wrong(
                like,
                format!("`like` is `dot` or `convolution`, not `{}`", super::pattern::start(other)),
            )),
        },
        (Some(rule), Some(_)) => Err(wrong(rule, "a kernel has a `rule` or is `like` another, not both")),
        (None, None) => Err(Diagnostic::error("a kernel needs a `rule`")
            .help("such as rule = \"(b s d), (d f) -> (b s f)\"; docs/kernels.md has the syntax")),
    }
}

/// Loops that are named are there, and what no result has is summed or whole. What cannot be split is whole:
/// a loop that no operand has, and one in two dimensions of a tensor.
fn check_names(line: &Line, rule: &Spanned<String>, pattern: &Pattern) -> Result<()> {
    let named = || line.whole.iter().chain(&line.sums);
    if let Some(unknown) = named().find(|name| !pattern.has(name.get_ref())) {
        return Err(wrong(unknown, format!("`{}` is no loop of the rule", unknown.get_ref())));
    }
    if let Some(both) =
        line.sums.iter().find(|name| line.whole.iter().any(|it| it.get_ref() == name.get_ref()))
    {
        return Err(wrong(both, format!("`{}` is both summed and whole", both.get_ref())));
    }
    if let Some(made) = line.sums.iter().find(|name| !pattern.unmade().contains(&name.get_ref().as_str())) {
        let message = format!("`{}` is summed, but a result has it", made.get_ref());
        return Err(wrong(made, message));
    }
    if let Some(lost) = pattern.unmade().into_iter().find(|name| named().all(|it| it.get_ref() != name)) {
        return Err(wrong(rule, format!("no result has the loop `{lost}`"))
            .help(format!("say sums = [\"{lost}\"] if parts add up, else whole = [\"{lost}\"]")));
    }
    check_splits(line, rule, pattern)
}

/// What is neither summed nor whole is in operands and results, once per tensor.
fn check_splits(line: &Line, rule: &Spanned<String>, pattern: &Pattern) -> Result<()> {
    let is_split = |name: &&str| line.whole.iter().all(|it| it.get_ref() != name);
    let remedy = |name: &str| format!("say whole = [\"{name}\"]");
    if let Some(made) = pattern.unread().into_iter().find(is_split) {
        return Err(wrong(rule, format!("no operand has the loop `{made}`")).help(remedy(made)));
    }
    if pattern.has_lone_batch() {
        return Err(wrong(rule, "the leading dimensions `...` are on one side only")
            .help("they are split: name them where the other side lacks them, and say that they are whole"));
    }
    match pattern.repeated().into_iter().find(is_split) {
        Some(twice) => {
            let message = format!("two dimensions of one tensor have the loop `{twice}`");
            Err(wrong(rule, message).help(remedy(twice)))
        }
        None => Ok(()),
    }
}

fn formula(text: Option<&Spanned<String>>, loops: &Loops) -> Result<Option<Formula>> {
    let Some(text) = text else { return Ok(None) };
    let formula = Formula::parse(text.get_ref()).map_err(|message| wrong(text, message))?;
    let is_known = |name: &str| {
        let is_loop = matches!(loops, Loops::Of(pattern) if pattern.has(name));
        is_loop || super::COUNTS.contains(&name) || name.starts_with(CONFIG)
    };
    match formula.names().into_iter().find(|name| !is_known(name)) {
        Some(unknown) => Err(wrong(text, format!("`{unknown}` is no loop of the rule")).help(format!(
            "besides loops there are {}",
            super::COUNTS.map(|it| format!("`{it}`")).join(", ")
        ))),
        None => Ok(Some(formula)),
    }
}

/// The form as an inline table; strings stay readable within a note, so they have no quotes of their own.
fn one_line(line: &Line, rule: Option<&Spanned<String>>) -> Result<String> {
    let mut parts: Vec<String> = Vec::new();
    let texts = [
        ("config", line.config.as_ref()),
        ("rule", rule),
        ("like", line.like.as_ref()),
        ("products", line.products.as_ref()),
        ("flops", line.flops.as_ref()),
        ("transcendentals", line.transcendentals.as_ref()),
    ];
    for (key, text) in texts {
        if let Some(text) = text {
            parts.push(format!("{key}={}", quoted(text)?));
        }
    }
    for (key, list) in [("whole", &line.whole), ("sums", &line.sums)] {
        let list = list.iter().map(quoted).collect::<Result<Vec<_>>>()?;
        if !list.is_empty() {
            parts.push(format!("{key}=[{}]", list.join(",")));
        }
    }
    let scale = line.scale.iter().map(|(name, times)| Ok(format!("{}={times:?}", quoted(name)?)));
    let scale = scale.collect::<Result<Vec<_>>>()?;
    if !scale.is_empty() {
        parts.push(format!("scale={{{}}}", scale.join(",")));
    }
    Ok(format!("{{{}}}", parts.join(",")))
}

fn quoted(text: &Spanned<String>) -> Result<String> {
    let plain = text.get_ref();
    match plain.find(['\'', '"', '\\', '\n']) {
        Some(_) => Err(wrong(text, "quotes, backslashes and line ends are not written here")
            .help("the configuration of a call is compared without its quotes and blanks")),
        None => Ok(format!("'{plain}'")),
    }
}
