//! What to differentiate, and by what: the options `loss` and `wrt`.

use super::scope::{home, leaf_shape};
use phzc_ir::dtype::Class;
use phzc_ir::{Diagnostic, Instr, InstrId, Module, Result, Shape};

/// A scalar in the entry: an instruction and a leaf of it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Loss {
    pub id: InstrId,
    pub leaf: usize,
}

/// A parameter to differentiate by.
#[derive(Clone, Copy, Debug)]
pub(super) struct Param {
    pub id: InstrId,
    pub number: u32,
}

fn is_float(shape: &Shape) -> bool {
    shape.as_array().is_some_and(|array| array.dtype.class() == Class::Float)
}

fn is_scalar(shape: &Shape) -> bool {
    is_float(shape) && shape.as_array().is_some_and(|array| array.rank() == 0)
}

/// The scalar that an option names.
pub(super) fn loss(module: &Module, text: &str) -> Result<Loss> {
    let entry = module.entry();
    let found = match text.parse::<usize>() {
        _ if text == "auto" => only_scalar(module)?,
        Ok(number) => output(module, number)?,
        Err(_) => match entry.iter().find(|(_, instr)| &*instr.name == text) {
            Some((id, _)) => at_home(module, id, 0),
            None => return Err(unknown(text, "loss", entry.instrs.iter())),
        },
    };
    let instr = entry.instr(found.id);
    let shape = leaf_or_none(&instr.shape, found.leaf);
    if shape.is_some_and(|shape| shape.rank() == 0 && shape.dtype.class() == Class::Float) {
        return Ok(found);
    }
    Err(Diagnostic::error(format!("`{}` is no scalar float: it has no gradient", instr.name)).at(instr.span))
}

fn at_home(module: &Module, id: InstrId, leaf: usize) -> Loss {
    let (id, leaf) = home(&module.entry().instrs, id, leaf);
    Loss { id, leaf }
}

fn output(module: &Module, number: usize) -> Result<Loss> {
    let (entry, n) = (module.entry(), module.entry().root().shape.n_leaves());
    if number < n {
        return Ok(at_home(module, entry.root, number));
    }
    let message = format!("there is no output {number}: the program has {}", phzc_ir::counted(n, "output"));
    Err(Diagnostic::error(message).at(entry.root().span))
}

fn only_scalar(module: &Module) -> Result<Loss> {
    let root = module.entry().root();
    let leaves = root.shape.leaves();
    let scalars: Vec<usize> = (0..leaves.len()).filter(|&leaf| is_scalar(leaves[leaf])).collect();
    match scalars.as_slice() {
        &[one] => output(module, one),
        [] => Err(Diagnostic::error("no output is a scalar float: there is nothing to differentiate")
            .at(root.span)
            .help("reduce the output to a loss in the program, or name an instruction: `grad{loss=name}`")),
        many => Err(Diagnostic::error(format!("the outputs {many:?} are scalar floats: which is the loss?"))
            .at(root.span)
            .help(format!("say so: `grad{{loss={}}}`", many[0]))),
    }
}

fn leaf_or_none(shape: &Shape, leaf: usize) -> Option<&phzc_ir::ArrayShape> {
    shape.leaves().get(leaf)?.as_array().is_some().then(|| leaf_shape(shape, leaf))
}

fn unknown<'a>(name: &str, option: &str, instrs: impl Iterator<Item = &'a Instr>) -> Diagnostic {
    let names: Vec<&str> = instrs.map(|instr| &*instr.name).collect();
    let error = Diagnostic::error(format!("`{option}` names `{name}`, which the entry does not have"));
    match phzc_ir::nearest(name, names.iter().copied()) {
        Some(near) => error.help(format!("did you mean `{near}`?")),
        None => error,
    }
}

/// The parameters that an option names, in the order of their numbers; a warning where data are told by their
/// names.
pub(super) fn wrt(module: &Module, text: &str, warnings: &mut Vec<Diagnostic>) -> Result<Vec<Param>> {
    let entry = module.entry();
    let all: Vec<Param> = (0..).zip(entry.params()).map(|(number, id)| Param { id, number }).collect();
    let floats = || all.iter().copied().filter(|param| is_float(&entry.instr(param.id).shape));
    let named = |param: &Param| &*entry.instr(param.id).name;
    let chosen: Vec<Param> = match text {
        "all" => floats().collect(),
        "params" if floats().any(|param| named(&param).starts_with("params")) => {
            floats().filter(|param| named(param).starts_with("params")).collect()
        }
        "params" => {
            let (data, chosen): (Vec<Param>, _) = floats().partition(|param| is_data(named(param)));
            warnings.extend(guessed(data.iter().map(named).collect()));
            chosen
        }
        patterns => {
            let patterns = patterns.split([',', ' ']).filter(|pattern| !pattern.is_empty());
            let patterns: Vec<&str> = patterns.collect();
            patterns.iter().try_for_each(|pattern| check_pattern(module, &all, pattern))?;
            floats().filter(|param| patterns.iter().any(|pattern| matches(pattern, named(param)))).collect()
        }
    };
    if chosen.is_empty() {
        return Err(Diagnostic::error("there is no parameter to differentiate by")
            .help("name some: `grad{wrt={w,b}}`, or `grad{wrt=all}`"));
    }
    Ok(chosen)
}

/// The warning that parameters are left out for their names.
fn guessed(data: Vec<&str>) -> Option<Diagnostic> {
    let message = format!("taken as data by name, not differentiated by: `{}`", data.join("`, `"));
    (!data.is_empty()).then(|| {
        Diagnostic::warning(message).help("call parameters `params…`, or say which: `grad{wrt={w,b}}`")
    })
}

/// Errors on a name that no parameter has, and on one of a parameter without a gradient.
fn check_pattern(module: &Module, all: &[Param], pattern: &str) -> Result<()> {
    let params = || all.iter().map(|param| module.entry().instr(param.id));
    let Some(first) = params().find(|instr| matches(pattern, &instr.name)) else {
        return Err(unknown(pattern, "wrt", params()));
    };
    if is_float(&first.shape) || pattern.contains('*') {
        return Ok(());
    }
    let message = format!("`{}` is no array of floats: it has no gradient", first.name);
    Err(Diagnostic::error(message).at(first.span))
}

/// Whether a parameter's name is that of a step's data: its first word.
fn is_data(name: &str) -> bool {
    const DATA: &[&str] = &[
        "batch", "data", "x", "y", "inputs", "input", "images", "labels", "targets", "tokens", "mask", "rng",
    ];
    let word = name.split("__").next().unwrap_or(name).split('.').next().unwrap_or(name);
    DATA.contains(&word)
}

/// Whether a name fits a pattern in which `*` stands for any text. A number that the printer put after it may
/// be left out.
fn matches(pattern: &str, name: &str) -> bool {
    let plain = name.rsplit_once('.').filter(|(_, end)| end.bytes().all(|byte| byte.is_ascii_digit()));
    fits(pattern, name) || plain.is_some_and(|(plain, _)| fits(pattern, plain.trim_end_matches('_')))
}

fn fits(pattern: &str, name: &str) -> bool {
    match pattern.split_once('*') {
        None => pattern == name,
        Some((start, rest)) => name.strip_prefix(start).is_some_and(|left| {
            let ends = left.char_indices().map(|(at, _)| at).chain([left.len()]);
            let mut ends = ends.into_iter();
            ends.any(|at| fits(rest, &left[at..]))
        }),
    }
}
