//! Plans with exactly one thing about them changed: a stage, a phase, a layout, a mesh, the microbatches, an
//! alias, the schedule.

use super::Random;
use phzc_ir::{Key, Layout, MAX_AXES, Mesh, Module, Shape, Sharding, Value, notes, parse, print};
use phzc_passes::derive::{derive, planned_comps};
use serde_json::{Map, Value as Json};

/// What is changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    Stage,
    Phase,
    Layout,
    Mesh,
    Microbatches,
    Alias,
    Schedule,
}

impl Kind {
    pub const ALL: [Kind; 7] =
        [Kind::Stage, Kind::Phase, Kind::Layout, Kind::Mesh, Kind::Microbatches, Kind::Alias, Kind::Schedule];
}

/// The plan with one thing changed, as it is read back from its text, and what was changed; nothing where the
/// plan has no such thing.
pub fn corrupted(plan: &Module, kind: Kind, random: &mut Random) -> Option<(Module, String)> {
    let mut module = plan.clone();
    let what = match kind {
        Kind::Stage => note(&mut module, "phzc.stage", random),
        Kind::Phase => note(&mut module, "phzc.phase", random),
        Kind::Layout => layout(&mut module, random),
        Kind::Mesh => mesh(&mut module, random),
        Kind::Microbatches => microbatches(&mut module, random),
        Kind::Alias => alias(&mut module, random),
        Kind::Schedule => schedule(&mut module, random),
    }?;
    let (before, after) = (print(plan), print(&module));
    (before != after).then(|| parse(&after).ok().map(|module| (module, what))).flatten()
}

fn one<T: Copy>(all: &[T], random: &mut Random) -> Option<T> {
    all.get(random.below(all.len())).copied()
}

/// Another stage or phase of one instruction; seldom one that does not exist.
fn note(module: &mut Module, key: &str, random: &mut Random) -> Option<String> {
    let n_stages = module.note(notes::STAGES).map_or(1, |text| text.split(';').count());
    let mut noted = Vec::new();
    for comp in planned_comps(module) {
        let own = module.comp(comp).iter().filter(|(_, instr)| instr.note(key).is_some());
        noted.extend(own.map(|(id, _)| (comp, id)));
    }
    let (comp, id) = one(&noted, random)?;
    let text = match (key, random.below(40)) {
        ("phzc.stage", 0) => n_stages.to_string(),
        ("phzc.stage", 1) => "first".to_owned(),
        ("phzc.stage", _) => random.below(n_stages).to_string(),
        (_, 0) => one(&["forward", "", "FWD", "update"], random)?.to_owned(),
        _ => one(&["fwd", "bwd", "upd"], random)?.to_owned(),
    };
    let instr = &mut module.comps[comp.index()].instrs[id.index()];
    let what = format!("{key} of {} was {} and is {text}", instr.name, instr.note(key).unwrap_or_default());
    instr.set_note(key, &text);
    Some(what)
}

/// Another layout of one leaf of one instruction; seldom over a device twice.
fn layout(module: &mut Module, random: &mut Random) -> Option<String> {
    let facts = derive(module).ok()?;
    let mut arrays = Vec::new();
    for comp in planned_comps(module) {
        let own = module.comp(comp).iter().filter(|(_, instr)| instr.sharding().is_some());
        arrays.extend(own.map(|(id, _)| (comp, id)));
    }
    let (comp, id) = one(&arrays, random)?;
    let instr = &mut module.comps[comp.index()].instrs[id.index()];
    let shapes: Vec<Shape> = instr.shape.leaves().into_iter().cloned().collect();
    let at = random.below(shapes.len());
    let own = facts.comps[comp.index()][id.index()].leaves[at];
    let (mesh, rank) = (&facts.header.meshes[own.stage], shapes[at].as_array()?.rank());
    let pick = |layout: Layout, axis: usize, random: &mut Random| {
        layout.with(axis, random.below(rank + 1).checked_sub(1))
    };
    // One axis goes elsewhere, or all do.
    let other = match random.below(2) {
        0 if mesh.n_axes() > 0 => pick(own.layout, random.below(mesh.n_axes()), random),
        _ => (0..mesh.n_axes()).fold(Layout::REPLICATED, |layout, axis| pick(layout, axis, random)),
    };
    let mut tilings: Vec<_> = match instr.sharding()? {
        Sharding::Single(tiling) => vec![tiling.clone(); shapes.len()],
        Sharding::Tuple(all) => all.clone(),
    };
    tilings[at] = other.to_tiling(rank, mesh);
    let mut what = format!("part {at} of {} is {}", instr.name, tilings[at]);
    let sharding = match instr.shape {
        Shape::Tuple(_) => Sharding::Tuple(tilings),
        _ => Sharding::Single(tilings.remove(0)),
    };
    let name = instr.name.clone();
    instr.set_attr(Key::Sharding, Value::Sharding(Box::new(sharding)));
    if random.below(10) == 0 {
        what = devices(module, &name, mesh, random)?;
    }
    Some(what)
}

/// Writes the devices of an instruction's layout as a list in which one stands for another.
fn devices(module: &mut Module, name: &str, mesh: &Mesh, random: &mut Random) -> Option<String> {
    let n = usize::try_from(mesh.n_devices()).ok()?;
    let mut ids: Vec<usize> = (0..n).collect();
    ids[random.below(n)] = random.below(n + 1);
    let ids: Vec<String> = ids.iter().map(ToString::to_string).collect();
    let text = print(module);
    let line = text
        .lines()
        .find(|line| line.trim_start().trim_start_matches("ROOT ").starts_with(&format!("{name} = ")))?;
    let from = line.find("<=[")?;
    let n_bytes = line[from..].find([' ', '}'])?;
    let other = format!("{}{}{}", &line[..from], ids.join(","), &line[from + n_bytes..]);
    *module = parse(&text.replacen(line, &other, 1)).ok()?;
    Some(format!("{name} is on the devices {}", ids.join(",")))
}

/// Another mesh, of the plan or of one stage, or another number of partitions.
fn mesh(module: &mut Module, random: &mut Random) -> Option<String> {
    let other = |text: &str, random: &mut Random| {
        let mut sizes: Vec<i64> = Mesh::parse(text).map(|mesh| mesh.sizes.to_vec()).unwrap_or_default();
        let at = random.below(sizes.len());
        match random.below(6) {
            0 => sizes.reverse(),
            1 if !sizes.is_empty() => drop(sizes.remove(at)),
            2 if sizes.len() < MAX_AXES => sizes.insert(at, 2),
            3 if !sizes.is_empty() => sizes[at] *= 2,
            4 if !sizes.is_empty() => sizes[at] = 1,
            _ if !sizes.is_empty() => sizes[at] = (sizes[at] / 2).max(0),
            _ => sizes.push(2),
        }
        let axes = sizes.iter().zip(["x", "y", "z", "w"]).map(|(size, name)| format!("{name}={size}"));
        axes.collect::<Vec<_>>().join(",")
    };
    let key = match (module.note(notes::STAGES), random.below(5)) {
        (_, 0) => {
            let n = one(&[0, 1, 2, 3, 4, 6, 8, 16], random)?;
            module.set_attr("num_partitions", n.to_string());
            return Some(format!("num_partitions is {n}"));
        }
        (Some(_), 1..) => notes::STAGES,
        _ => notes::MESH,
    };
    let text = module.note(key)?;
    let changed = match key == notes::STAGES {
        false => other(&text, random),
        true => {
            let mut stages: Vec<String> = text.split(';').map(str::to_owned).collect();
            let at = random.below(stages.len());
            match random.below(8) {
                0 => drop(stages.remove(at)),
                1 => stages.push(format!("{}:", stages.len())),
                2 => stages.swap(0, at),
                _ => {
                    let (number, mesh) = stages[at].split_once(':')?;
                    stages[at] = format!("{number}:{}", other(mesh, random));
                }
            }
            stages.join(";")
        }
    };
    module.set_note(key, &changed);
    Some(format!("{key} was {text} and is {changed}"))
}

fn plan_note(module: &mut Module, key: &str, value: Json) -> Option<String> {
    let text = module.note(notes::PLAN)?;
    let mut plan: Map<String, Json> = serde_json::from_str(&text).ok()?;
    let before = plan.insert(key.to_owned(), value.clone()).unwrap_or_default();
    module.set_note(notes::PLAN, &Json::Object(plan).to_string());
    Some(format!("{key} was {before} and is {value}"))
}

fn microbatches(module: &mut Module, random: &mut Random) -> Option<String> {
    let odd = [Json::from(0), Json::from(-1), Json::from(2.5), Json::from("4"), Json::from(1_u64 << 40)];
    let value = match random.below(6) {
        0 => odd[random.below(odd.len())].clone(),
        _ => Json::from(one(&[1, 2, 3, 4, 5, 6, 8, 12, 16, 32], random)?),
    };
    plan_note(module, "n_microbatches", value)
}

fn schedule(module: &mut Module, random: &mut Random) -> Option<String> {
    let names = [
        "gpipe",
        "1f1b",
        "zero-bubble",
        "interleaved:2",
        "interleaved:3",
        "interleaved:4",
        "interleaved:1",
        "interleaved",
        "2f2b",
    ];
    let name = one(&names, random)?;
    plan_note(module, "schedule", Json::from(name))
}

/// Leaves out, doubles, redirects or breaks an entry of the header's aliases, or has two trade places.
fn alias(module: &mut Module, random: &mut Random) -> Option<String> {
    let text = module.attr("input_output_alias")?.to_owned();
    let mut all = entries(&text);
    if all.is_empty() {
        return None;
    }
    let (at, other) = (random.below(all.len()), random.below(all.len()));
    let (n_outputs, n_params) = (module.entry().root().shape.parts().len(), module.entry().params().len());
    let before = all[at].clone();
    let (output, reused) = before.split_once(": ")?;
    let number = reused.trim_start_matches('(').split(',').next()?;
    let to = |number: usize| format!("{output}: ({number}, {{}}, may-alias)");
    match random.below(10) {
        0 => drop(all.remove(at)),
        1 => all[at] = format!("{{{}}}: {reused}", random.below(n_outputs + 1)),
        2 | 3 => all[at] = to(random.below(n_params + 1)),
        4 => all[at] = all[other].clone(),
        5 => {
            let (left, right) =
                (all[at].split_once(": ")?.1.to_owned(), all[other].split_once(": ")?.1.to_owned());
            all[at] = format!("{output}: {right}");
            let first = all[other].split_once(": ")?.0.to_owned();
            all[other] = format!("{first}: {left}");
        }
        6 => all[at] = before.replace("may-alias", "must-alias"),
        7 => all[at] = before.replace("may-alias", one(&["alias", "may", "donate"], random)?),
        8 => all[at] = format!("{output}: ({number}, {{{}}}, may-alias)", random.below(3)),
        _ => {
            all[at] = one(
                &["{0}: 0", "{x}: (0, {}, may-alias)", "{0} (0, {}, may-alias)", "{0}: (-1, {}, may-alias)"],
                random,
            )?
            .to_owned()
        }
    }
    let changed = format!("{{ {} }}", all.join(", "));
    module.set_attr("input_output_alias", changed);
    Some(format!("alias {before} is {}", all.get(at).map_or("left out", String::as_str)))
}

/// The entries of an alias list that phzc wrote.
pub fn entries(text: &str) -> Vec<String> {
    let inside =
        text.trim().strip_prefix('{').and_then(|rest| rest.strip_suffix('}')).unwrap_or_default().trim();
    let pieces = inside.split("), ").map(|piece| format!("{})", piece.trim_end_matches(')').trim()));
    pieces.filter(|piece| piece.contains(':')).collect()
}
