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
    let root = entry.root();
    let leaves = root.shape.leaves();
    let output = |leaf: usize| {
        let (id, leaf) = home(&entry.instrs, entry.root, leaf);
        Loss { id, leaf }
    };
    if text == "auto" {
        let scalars: Vec<usize> = (0..leaves.len()).filter(|&leaf| is_scalar(leaves[leaf])).collect();
        return match scalars.as_slice() {
            &[one] => Ok(output(one)),
            [] => Err(Diagnostic::error("no output is a scalar float: there is nothing to differentiate")
                .at(root.span)
                .help(
                    "reduce the output to a loss in the program, or name an instruction: `grad{loss=name}`",
                )),
            many => {
                Err(Diagnostic::error(format!("the outputs {many:?} are scalar floats: which is the loss?"))
                    .at(root.span)
                    .help(format!("say so: `grad{{loss={}}}`", many[0])))
            }
        };
    }
    let found = match text.parse::<usize>() {
        Ok(number) if number < leaves.len() => output(number),
        Ok(_) => {
            let message = format!(
                "there is no output {text}: the program has {}",
                phzc_ir::counted(leaves.len(), "output")
            );
            return Err(Diagnostic::error(message).at(root.span));
        }
        Err(_) => match entry.iter().find(|(_, instr)| &*instr.name == text) {
            Some((id, _)) => {
                let (id, leaf) = home(&entry.instrs, id, 0);
                Loss { id, leaf }
            }
            None => return Err(unknown(text, "loss", entry.instrs.iter())),
        },
    };
    let shape = leaf_or_none(&entry.instr(found.id).shape, found.leaf);
    if !shape.is_some_and(|shape| shape.rank() == 0 && shape.dtype.class() == Class::Float) {
        let name = &entry.instr(found.id).name;
        return Err(Diagnostic::error(format!("`{name}` is no scalar float: it has no gradient"))
            .at(entry.instr(found.id).span));
    }
    Ok(found)
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

/// The parameters that an option names, in the order of their numbers.
pub(super) fn wrt(module: &Module, text: &str) -> Result<Vec<Param>> {
    let entry = module.entry();
    let all: Vec<Param> = (0..).zip(entry.params()).map(|(number, id)| Param { id, number }).collect();
    let floats = |param: &&Param| is_float(&entry.instr(param.id).shape);
    let named = |param: &Param| &*entry.instr(param.id).name;
    let chosen: Vec<Param> = match text {
        "all" => all.iter().filter(floats).copied().collect(),
        "params" => {
            let params = all.iter().filter(floats).filter(|param| named(param).starts_with("params"));
            let params: Vec<Param> = params.copied().collect();
            match params.is_empty() {
                true => all.iter().filter(floats).filter(|param| !is_data(named(param))).copied().collect(),
                false => params,
            }
        }
        patterns => {
            let mut chosen = vec![false; all.len()];
            for pattern in patterns.split([',', ' ']).filter(|pattern| !pattern.is_empty()) {
                let matching = all.iter().filter(|param| matches(pattern, named(param)));
                let mut is_any = false;
                for param in matching {
                    let instr = entry.instr(param.id);
                    if !is_float(&instr.shape) && !pattern.contains('*') {
                        let message = format!("`{}` is no array of floats: it has no gradient", instr.name);
                        return Err(Diagnostic::error(message).at(instr.span));
                    }
                    chosen[param.number as usize] |= is_float(&instr.shape);
                    is_any = true;
                }
                if !is_any {
                    return Err(unknown(pattern, "wrt", all.iter().map(|param| entry.instr(param.id))));
                }
            }
            all.iter().filter(|param| chosen[param.number as usize]).copied().collect()
        }
    };
    if chosen.is_empty() {
        return Err(Diagnostic::error("there is no parameter to differentiate by")
            .help("name some: `grad{wrt={w,b}}`, or `grad{wrt=all}`"));
    }
    Ok(chosen)
}

/// Whether a parameter's name is that of a step's data: its first word.
fn is_data(name: &str) -> bool {
    const DATA: &[&str] = &[
        "batch", "data", "x", "y", "inputs", "input", "images", "labels", "targets", "tokens", "mask", "rng",
    ];
    let word = name.split("__").next().unwrap_or(name).split('.').next().unwrap_or(name);
    DATA.contains(&word)
}

/// Whether a name fits a pattern in which `*` stands for any text. A number that the printer put after it may be left out.
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
