//! Shardy's own rule of a call: `#sdy.op_sharding_rule<([i, j])->([j, i]) {i=4, j=2} reduction={k}, custom>`.

use super::table::{Kernel, lines};

/// The attribute of HLO text that holds the rule.
pub(super) const NOTE: &str = "xla.sdy.sharding_rule";

/// The rule as a kernel's; factors that need replication or a permutation are whole.
pub(super) fn kernel(text: &str) -> Option<Kernel> {
    let rule = text.split_once('<').map_or(text, |(_, inside)| inside);
    let (maps, kinds) = rule.split_once('{').unwrap_or((rule, ""));
    let (operands, results) = maps.split_once("->").map(|(reads, makes)| (side(reads), side(makes)))?;
    let sums = listed(kinds, "reduction");
    let mut whole = [listed(kinds, "need_replication"), listed(kinds, "permutation")].concat();
    let all = |side: &[Vec<String>]| side.iter().flatten().flat_map(|dim| names(dim)).collect::<Vec<_>>();
    let (read, made) = (all(&operands), all(&results));
    // A factor that one side lacks and that is not summed is not split here, nor one twice in a tensor.
    let one_sided = read
        .iter()
        .filter(|name| !made.contains(name))
        .chain(made.iter().filter(|name| !read.contains(name)));
    whole.extend(one_sided.filter(|name| !sums.contains(name)).cloned());
    whole.extend(operands.iter().chain(&results).flat_map(|dims| repeated(dims)));
    whole.sort();
    whole.dedup();
    let rule = format!("{} -> {}", written(&operands), written(&results));
    let line = format!("kernel=[{{rule='{rule}',whole=[{}],sums=[{}]}}]", quoted(&whole), quoted(&sums));
    lines(&line).ok()?.pop()
}

/// The names that a tensor has more than once.
fn repeated(dims: &[String]) -> Vec<String> {
    let mut all: Vec<String> = dims.iter().flat_map(|dim| names(dim)).collect();
    all.sort();
    all.windows(2).filter(|pair| pair[0] == pair[1]).map(|pair| pair[0].clone()).collect()
}

/// The tensors of `([i, jk], [k])`, dimension by dimension.
fn side(text: &str) -> Vec<Vec<String>> {
    let tensors = text.split('[').skip(1).filter_map(|it| it.split(']').next());
    tensors.map(|tensor| tensor.split(',').map(dim).filter(|dim| dim != "()").collect()).collect()
}

fn written(side: &[Vec<String>]) -> String {
    let tensors = side.iter().map(|dims| format!("({})", dims.join(" ")));
    tensors.collect::<Vec<_>>().join(", ")
}

fn quoted(names: &[String]) -> String {
    names.iter().map(|name| format!("'{name}'")).collect::<Vec<_>>().join(",")
}

/// The names of `kind={i, j}`.
fn listed(kinds: &str, kind: &str) -> Vec<String> {
    let inside = kinds.split_once(&format!("{kind}={{")).and_then(|(_, rest)| rest.split('}').next());
    let names = inside.unwrap_or_default().split(',').map(str::trim).filter(|name| !name.is_empty());
    names.map(str::to_owned).collect()
}

/// `(i j_1)` of `ij_1`: factors are letters, numbered beyond the alphabet.
fn dim(text: &str) -> String {
    let mut names: Vec<String> = Vec::new();
    for char in text.trim().chars() {
        match names.last_mut() {
            Some(last) if char == '_' || char.is_ascii_digit() => last.push(char),
            _ => names.push(char.to_string()),
        }
    }
    format!("({})", names.join(" "))
}

/// The names within a dimension.
fn names(dim: &str) -> Vec<String> {
    dim.trim_matches(['(', ')']).split(' ').map(str::to_owned).collect()
}
