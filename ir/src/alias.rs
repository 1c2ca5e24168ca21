//! What the header says about buffers: outputs that reuse those of parameters (`input_output_alias`), and
//! parameters whose buffers may be used for anything (`buffer_donor`).

use crate::module::{InstrId, Module};
use crate::shape::Shape;

/// An output leaf that reuses the buffer of a leaf of an entry parameter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Aliased {
    /// Leaf of the entry's result.
    pub output: usize,
    /// The parameter.
    pub param: InstrId,
    /// Its leaf.
    pub leaf: usize,
}

const ALIAS: &str = "input_output_alias";
const DONOR: &str = "buffer_donor";

/// The header's `input_output_alias={ {0}: (1, {}, may-alias), … }`, as leaves.
pub fn aliased(module: &Module) -> Vec<Aliased> {
    alias_entries(module).into_iter().filter_map(std::result::Result::ok).collect()
}

/// The same, or what is wrong about each.
pub fn alias_entries(module: &Module) -> Vec<Result<Aliased, String>> {
    let root = &module.entry().root().shape;
    // One list for all entries: a training step has hundreds of them.
    let (starts, params) = (root.part_starts(), module.entry().params());
    let pair = |text: &str| {
        let form =
            || format!("`{ALIAS}` has `{text}`, which is no `{{output}}: (parameter, {{index}}, may-alias)`");
        let (output, reused) = text.split_once(':').ok_or_else(form)?;
        let output = index(output).ok_or_else(form)?;
        let (number, at) = parameter(reused, true).ok_or_else(form)?;
        let output = array_at(root, &starts, &output)
            .ok_or_else(|| format!("`{ALIAS}` has `{text}`, but the result has no such array"))?;
        let (param, leaf) = array_of(module, &params, number, &at).ok_or_else(|| {
            format!("`{ALIAS}` has `{text}`, but there is no such parameter or no such array in it")
        })?;
        Ok(Aliased { output, param, leaf })
    };
    entries(module, ALIAS).map_or_else(|error| vec![Err(error)], |all| all.into_iter().map(pair).collect())
}

/// Leaves out the aliases of which this does not hold; those that cannot be read stay.
pub fn retain_aliases(module: &mut Module, is_kept: impl Fn(&Module, Aliased) -> bool) {
    let Ok(texts) = entries(module, ALIAS) else { return };
    let of_texts = texts.iter().zip(alias_entries(module));
    let kept: Vec<&str> = of_texts
        .filter(|(_, entry)| entry.as_ref().map_or(true, |&alias| is_kept(module, alias)))
        .map(|(text, _)| *text)
        .collect();
    if kept.len() < texts.len() {
        let kept = format!("{{ {} }}", kept.join(", "));
        module.set_attr(ALIAS, kept);
    }
}

/// The header's `buffer_donor={ (0, {}), … }`: parameters and their leaves, or what is wrong about each.
pub fn donor_entries(module: &Module) -> Vec<Result<(InstrId, usize), String>> {
    let params = module.entry().params();
    let donor = |text: &str| {
        let (number, at) = parameter(text, false)
            .ok_or_else(|| format!("`{DONOR}` has `{text}`, which is no `(parameter, {{index}})`"))?;
        array_of(module, &params, number, &at).ok_or_else(|| {
            format!("`{DONOR}` has `{text}`, but there is no such parameter or no such array in it")
        })
    };
    entries(module, DONOR).map_or_else(|error| vec![Err(error)], |all| all.into_iter().map(donor).collect())
}

/// The entries of a list in braces, separated by commas that stand in no bracket.
fn entries<'m>(module: &'m Module, key: &str) -> Result<Vec<&'m str>, String> {
    let Some(text) = module.attr(key).map(str::trim) else { return Ok(Vec::new()) };
    let inside = text.strip_prefix('{').and_then(|rest| rest.strip_suffix('}'));
    let inside = inside.ok_or_else(|| format!("`{key}` has `{text}`, which is no list in braces"))?;
    let (mut found, mut start, mut depth) = (Vec::new(), 0, 0_i64);
    for (at, letter) in inside.char_indices() {
        depth += i64::from(matches!(letter, '(' | '{')) - i64::from(matches!(letter, ')' | '}'));
        if letter == ',' && depth == 0 {
            found.push(inside[start..at].trim());
            start = at + 1;
        }
    }
    let last = inside[start..].trim();
    found.extend((!last.is_empty()).then_some(last));
    Ok(found)
}

/// `(1, {}, may-alias)`, or without the last word.
fn parameter(text: &str, has_kind: bool) -> Option<(usize, Vec<usize>)> {
    let inside = text.trim().strip_prefix('(')?.strip_suffix(')')?;
    let (number, rest) = inside.split_once(',')?;
    let end = rest.find('}')? + 1;
    let kind = rest[end..].trim();
    let is_kind = |word: &str| has_kind && matches!(word.trim(), "may-alias" | "must-alias");
    let is_legal = kind.is_empty() || kind.strip_prefix(',').is_some_and(is_kind);
    Some((number.trim().parse().ok()?, index(&rest[..end]).filter(|_| is_legal)?))
}

/// A tuple index in braces such as `{1, 0}`.
fn index(text: &str) -> Option<Vec<usize>> {
    let inside = text.trim().strip_prefix('{')?.strip_suffix('}')?.trim();
    if inside.is_empty() {
        return Some(Vec::new());
    }
    inside.split(',').map(|part| part.trim().parse().ok()).collect()
}

fn array_of(module: &Module, params: &[InstrId], number: usize, at: &[usize]) -> Option<(InstrId, usize)> {
    let param = *params.get(number)?;
    let shape = &module.entry().instr(param).shape;
    Some((param, array_at(shape, &shape.part_starts(), at)?))
}

/// The leaf at a tuple index of a shape, whose parts start at these leaves, if it is one.
fn array_at(shape: &Shape, starts: &[usize], at: &[usize]) -> Option<usize> {
    let (leaf, found) = shape.leaf_at(starts, at)?;
    (!matches!(found, Shape::Tuple(_))).then_some(leaf)
}
