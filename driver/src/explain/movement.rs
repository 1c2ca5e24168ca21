//! `--explain x.ag`: why a collective is there, what it takes, and on other links.

use crate::planned::type_text;
use crate::summary::table;
use phzc_cost::Cluster;
use phzc_io::units::{bytes, percent, secs};
use phzc_ir::{CompId, Computation, InstrId, Module, notes};
use phzc_passes::derive::Facts;
use phzc_passes::pricing::axes_of;
use phzc_passes::report::{Bound, Cost, Plan, costs_of};

/// What changes of layout are called behind the name of what they move.
const SUFFIXES: [&str; 6] = ["ag", "a2a", "cp", "ar", "rs", "sl"];

/// The value that a change of layout moves, if a name is that of one: `x` of `x.ag.1`.
pub(crate) fn moved(name: &str) -> Option<&str> {
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let stem = name.rsplit_once('.').filter(|(_, last)| is_number(last)).map_or(name, |(stem, _)| stem);
    let (value, suffix) = stem.rsplit_once('.')?;
    SUFFIXES.contains(&suffix).then_some(value)
}

/// Explains the change of layout of that name in a planned program; `None` where it has none.
pub(crate) fn text(
    name: &str,
    (module, facts): (&Module, &Facts),
    cluster: &Cluster,
    plan: &Plan,
) -> Option<String> {
    let (comp, id) = find(module, name)?;
    let (own, all) = (module.comp(comp), &facts.comps[comp.index()]);
    let mesh = &facts.header.meshes[all[id.index()].stage];
    let layout = |id: InstrId| {
        let rank = own.instr(id).shape.as_array().map_or(0, |array| array.rank());
        all[id.index()].leaves.first().map_or_else(String::new, |leaf| leaf.layout.named(rank, mesh))
    };
    let from = own.instr(id).operands[0];
    let mut out = format!(
        "why `{name}`: `{}` {} lies as {} and is read as {} on the mesh {mesh}\n",
        own.instr(from).name,
        type_text(own.instr(id)),
        layout(from),
        layout(id)
    );
    let readers = readers(own, id);
    out += &format!(
        "read by {}\n\n",
        if readers.is_empty() { "the caller".to_owned() } else { readers.join(", ") }
    );
    let at = |factor: f64| costs_of(module, facts, &cluster.clone().with_rates([factor; 2]));
    let [slow, now, fast] = [0.5, 1.0, 2.0].map(|factor| at(factor)[comp.index()][id.index()].parts.clone());
    let rows = now.iter().enumerate().map(|(index, cost)| {
        let step_secs = cost.secs * cost.times as f64;
        let over: Vec<&str> = match cost.bound {
            Bound::Collective(_, axes) => axes_of(axes).map(|axis| mesh.axis_name(axis)).collect(),
            _ => Vec::new(),
        };
        vec![
            kind(cost),
            over.join(","),
            cost.times.to_string(),
            bytes(cost.bytes),
            secs(cost.secs),
            secs(step_secs),
            percent(step_secs / plan.time_secs),
            secs(slow[index].secs),
            secs(fast[index].secs),
        ]
    });
    let header =
        ["collective", "axes", "per step", "bytes", "time", "in a step", "of it", "links 0.5x", "links 2x"];
    Some(out + &table(&header, 2..9, rows.collect()))
}

fn kind(cost: &Cost) -> String {
    match cost.bound {
        Bound::Collective(kind, _) => kind.to_string(),
        _ => "copy".to_owned(),
    }
}

fn find(module: &Module, name: &str) -> Option<(CompId, InstrId)> {
    let comps = module.comps.iter().enumerate();
    let mut all =
        comps.flat_map(|(index, comp)| comp.iter().map(move |(id, it)| (CompId::new(index), id, it)));
    let found = all.find(|(_, _, instr)| *instr.name == *name && instr.note(notes::MOVE).is_some())?;
    Some((found.0, found.1))
}

/// Who reads a value in the end, through further changes of layout.
fn readers(comp: &Computation, id: InstrId) -> Vec<String> {
    let mut found = Vec::new();
    for (reader, instr) in comp.iter().filter(|(_, instr)| instr.operands.contains(&id)) {
        match instr.note(notes::MOVE) {
            Some(_) => found.extend(readers(comp, reader)),
            None => found.push(format!("`{}`", instr.name)),
        }
    }
    found.sort();
    found.dedup();
    found
}

#[cfg(test)]
mod tests {
    use super::moved;

    #[test]
    fn a_change_of_layout_is_told_by_its_name() {
        let names = ["x.ag", "dot.3.ag.1", "x.12.rs", "x", "x.1", "dot.tag", "ag", "x.ag.y"];
        let expected = [Some("x"), Some("dot.3"), Some("x.12"), None, None, None, None, None];
        assert_eq!(names.map(moved), expected);
    }
}
