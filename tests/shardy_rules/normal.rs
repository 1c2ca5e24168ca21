//! Factor rules in one spelling: what may be split, dimension by dimension.

use phzc_ir::rule::{FactorKind, Rule, TensorMap};
use std::collections::BTreeMap;

/// What splitting a loop takes.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Class {
    /// Nothing.
    Free,
    /// A reduction.
    Sums,
    /// A permutation of parts between devices.
    Moves,
    /// It is not split.
    Whole,
}

/// A loop by its name, size and class.
type Loop = (String, i64, Class);

/// Shardy's rule, such as `([i, k], [k, j])->([i, j]) {i=8, j=16, k=32} reduction={k}`.
pub fn of_shardy(text: &str) -> Option<String> {
    let (maps, rest) = text.split_once(')').and_then(|_| text.split_once(" {").or(Some((text, ""))))?;
    let (sizes, kinds) = rest.split_once('}').unwrap_or(("", ""));
    let pairs = sizes.split(", ").filter_map(|it| it.split_once('='));
    let sizes: BTreeMap<&str, i64> =
        pairs.filter_map(|(name, size)| Some((name, size.parse().ok()?))).collect();
    let is_in = |list: &str, name: &str| {
        let names = kinds.split_once(&format!("{list}={{")).and_then(|it| it.1.split('}').next());
        names.is_some_and(|names| names.split(", ").any(|it| it == name))
    };
    let class = |name: &str| match name {
        _ if is_in("need_replication", name) => Class::Whole,
        _ if is_in("permutation", name) => Class::Moves,
        _ if is_in("reduction", name) => Class::Sums,
        _ => Class::Free,
    };
    let read = |dim: &str| -> Vec<Loop> {
        let names = dim.trim().chars().map(String::from);
        names.map(|name| (name.clone(), sizes.get(&*name).copied().unwrap_or(1), class(&name))).collect()
    };
    let tensor = |text: &str| -> Vec<Vec<Loop>> { text.split(',').map(read).collect() };
    let side = |text: &str| -> Vec<Vec<Vec<Loop>>> {
        text.split('[').skip(1).filter_map(|it| it.split(']').next()).map(tensor).collect()
    };
    let (operands, results) = maps.split_once("->")?;
    Some(print(&side(operands), &side(results)))
}

/// phzc's rule.
pub fn of_phzc(rule: &Rule) -> String {
    let read = |&id: &u32| -> Loop {
        let factor = rule.factors[id as usize];
        let class = match factor.kind {
            FactorKind::Pass => Class::Free,
            FactorKind::Reduce(_) => Class::Sums,
            FactorKind::Permute | FactorKind::Replicate => Class::Whole,
        };
        (id.to_string(), factor.size, class)
    };
    let tensor = |map: &TensorMap| map.iter().map(|dim| dim.iter().map(read).collect()).collect();
    let side = |maps: &[TensorMap]| -> Vec<Vec<Vec<Loop>>> { maps.iter().map(tensor).collect() };
    print(&side(&rule.operands), &side(&rule.results))
}

/// Loops by letters in the order of their first use: `+` sums, `~` moves, `_` is whole; what has one
/// iteration is left out.
fn print(operands: &[Vec<Vec<Loop>>], results: &[Vec<Vec<Loop>>]) -> String {
    let mut names: Vec<String> = Vec::new();
    let mut side = |maps: &[Vec<Vec<Loop>>]| -> String {
        let tensors: Vec<String> = maps.iter().map(|map| tensor(map, &mut names)).collect();
        tensors.join(" ")
    };
    format!("{} -> {}", side(operands), side(results))
}

fn tensor(map: &[Vec<Loop>], names: &mut Vec<String>) -> String {
    let dims = map.iter().map(|dim| dim.iter().filter(|it| it.1 != 1).collect::<Vec<_>>());
    let dims = dims.filter(|dim| !dim.is_empty()).map(|dim| {
        let mut text: Vec<String> = dim.iter().map(|it| letter(it, names)).collect();
        text.dedup_by(|a, b| a == "_" && b == "_");
        text.concat()
    });
    format!("[{}]", dims.collect::<Vec<_>>().join(","))
}

fn letter((name, _, class): &Loop, names: &mut Vec<String>) -> String {
    if *class == Class::Whole {
        return "_".to_owned();
    }
    let at = names.iter().position(|it| it == name).unwrap_or_else(|| {
        names.push(name.clone());
        names.len() - 1
    });
    let mark = match class {
        Class::Sums => "+",
        Class::Moves => "~",
        Class::Free | Class::Whole => "",
    };
    format!("{}{mark}", char::from(b'a' + (at % 26) as u8))
}
