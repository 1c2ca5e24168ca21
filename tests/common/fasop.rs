//! FASOP's inputs and outputs from ../shared/data/fasop, with the growth of its layer times over microbatches
//! (reference/fasop.md, section 2.3).

use super::{program, root};
use phzc_cost::fasop::{Degrees, Fleet, Growth, LayerTimes, NodeKind, Role, Transformer, Zones};
use serde_json::Value;
use std::path::PathBuf;

/// The folder, if it is there.
pub fn folder() -> Option<PathBuf> {
    let folder = root().join("../shared/data/fasop");
    if folder.exists() {
        return Some(folder);
    }
    eprintln!("SKIPPED: no ../shared/data/fasop");
    None
}

fn json(name: &str) -> Option<Value> {
    let text = std::fs::read_to_string(folder()?.join(name)).expect("readable");
    Some(serde_json::from_str(&text).expect("JSON"))
}

/// The fleet of a preset, `lab` or `aws`: A100 first, then A10.
pub fn fleet(preset: &str) -> Option<Fleet> {
    let all = json("clusters.json")?;
    let preset = &all[preset];
    let number = |value: &Value| value.as_f64().expect("a number");
    let kind = |key: &str| {
        let device = preset[key]["gpu"].as_str().expect("a name");
        let bits_per_sec = ["inter", "intra"].map(|rate| number(&preset[key][rate]));
        let [price, gib] = ["price_h", "mem_gib"].map(|name| number(&preset[key][name]));
        NodeKind::plain(device, bits_per_sec, price, gib)
    };
    let per_node = number(&preset["gpus_per_node"]) as usize;
    Some(Fleet { kinds: vec![kind("A"), kind("B")], per_node, zones: Zones::default() })
}

/// One of FASOP's models: `gpt2XL`, `bert`, `T5`.
pub fn transformer(name: &str) -> Option<Transformer> {
    let (all, times) = (json("clusters.json")?, json("fasop_layer_fwd_seconds.json")?);
    let dims = &all["models"][name];
    let number = |key: &str| dims[key].as_f64().expect("a number");
    let roles = roles(name, number("layers") as usize);
    let times = ["A100", "A10"].map(|device| {
        let of = |tensor: &str| {
            let secs = times[name][device][tensor].as_array().expect("a list");
            let forward_secs: Vec<f64> = secs.iter().map(|it| it.as_f64().expect("seconds")).collect();
            LayerTimes { forward_secs, growth: growth(name, device, &roles) }
        };
        ["1", "2", "4"].map(of).to_vec()
    });
    Some(Transformer {
        hidden: number("hidden"),
        seq: number("seq"),
        vocab: number("vocab"),
        heads: number("heads"),
        batch: number("gbs") as usize,
        roles,
        shares_embedding: name != "T5",
        times: times.to_vec(),
    })
}

fn roles(name: &str, n_layers: usize) -> Vec<Role> {
    let (table, layers) = ([Role::Embedding], vec![Role::Layer; n_layers]);
    match name {
        "T5" => [&table[..], &layers[..n_layers / 2], &table, &layers[n_layers / 2..]].concat(),
        _ => [&table[..], &layers, &[Role::Head]].concat(),
    }
}

/// Points of growth; behind the last one it is linear.
fn linear(points: &[(usize, f64)]) -> Growth {
    Growth { points: points.to_vec(), is_linear: true }
}

fn growth(name: &str, device: &str, roles: &[Role]) -> Vec<Growth> {
    let constant = Growth { points: vec![(1, 1.0)], is_linear: false };
    let one = linear(&[(1, 1.0)]);
    let decoder = roles.len() / 2;
    let of = |(index, role): (usize, &Role)| match (name, device, role) {
        ("gpt2XL", "A100", Role::Embedding | Role::Head) => constant.clone(),
        ("gpt2XL", ..) => one.clone(),
        ("bert", _, Role::Head) => one.clone(),
        ("bert", "A10", Role::Embedding) => linear(&[(1, 1.0), (4, 1.0)]),
        ("bert", "A10", Role::Layer) => linear(&[(1, 1.0), (8, 2.0)]),
        ("bert", _, Role::Embedding) => linear(&[(1, 1.0), (8, 1.385), (16, 2.2008), (32, 3.4442)]),
        ("bert", ..) => linear(&[(1, 1.0), (8, 1.236), (16, 2.0476)]),
        ("T5", "A10", Role::Embedding) => products(&[(2, 1.2), (4, 1.2), (8, 1.4), (16, 1.6)]),
        ("T5", _, Role::Embedding) => {
            products(&[(2, 1.386), (4, 1.244), (8, 1.356), (16, 1.055), (32, 1.368)])
        }
        ("T5", "A10", _) if index < decoder => linear(&[(1, 1.0), (2, 1.140)]),
        ("T5", "A10", _) => linear(&[(1, 1.0), (2, 1.094)]),
        ("T5", _, _) if index < decoder => linear(&[(1, 1.0), (4, 1.173), (8, 1.7466)]),
        _ => linear(&[(1, 1.0), (4, 1.142), (8, 1.9220)]),
    };
    roles.iter().enumerate().map(of).collect()
}

/// Each point's factor comes on top of those before.
fn products(factors: &[(usize, f64)]) -> Growth {
    let mut points = vec![(1, 1.0)];
    for (size, factor) in factors {
        let before = points.last().map_or(1.0, |it| it.1);
        points.push((*size, before * factor));
    }
    linear(&points)
}

/// One row that FASOP wrote.
pub struct Row {
    pub order: Vec<usize>,
    pub degrees: Degrees,
    pub cut: Vec<usize>,
    pub step_secs: f64,
    pub pipeline_secs: f64,
    pub embedding_secs: f64,
    pub usd: f64,
    pub is_too_large: bool,
}

/// The rows of one of its files.
pub fn rows(name: &str) -> Vec<Row> {
    let Some(folder) = folder() else { return Vec::new() };
    let text = program(&folder.join(name));
    text.lines().skip(1).map(row).collect()
}

fn row(line: &str) -> Row {
    // Lists of one, of nodes and of stages, are not quoted: all that matters is where they begin and end.
    let place = |part: &str, from: usize| from + line[from..].find(part).expect("a list");
    let (first, first_end) = (place("[", 0), place("]", 0));
    let second = place("[", first_end);
    let second_end = place("]", second);
    let (head, order, cut) = (&line[..first], &line[first..first_end], &line[second..second_end]);
    let tail = line[second_end + 1..].trim_start_matches('"');
    let number = |text: &str| text.trim().parse::<f64>().unwrap_or_else(|_| panic!("{text} in {line}"));
    let degrees: Vec<usize> = head.split(',').take(4).map(|it| number(it) as usize).collect();
    let list = |text: &str| -> Vec<usize> {
        text.trim_matches(['[', ']']).split(',').map(|it| number(it) as usize).collect()
    };
    let figures: Vec<&str> = tail.trim_start_matches(',').split(',').collect();
    Row {
        order: order.split(',').map(|it| usize::from(it.contains("g5"))).collect(),
        degrees: Degrees {
            micro_batch: degrees[0],
            tensor: degrees[1],
            data: degrees[2],
            stages: degrees[3],
        },
        cut: list(cut),
        step_secs: number(figures[0]),
        pipeline_secs: number(figures[1]),
        embedding_secs: number(figures[3]),
        usd: number(figures[4]),
        is_too_large: figures[5] == "True",
    }
}

/// The same as a file for `phzc sweep`: entries that are alike are one group.
pub fn toml(name: &str, preset: &str, counts: &str) -> Option<String> {
    let (model, fleet) = (transformer(name)?, fleet(preset)?);
    let groups = groups(&model);
    let mut text =
        format!("price_basis = \"FASOP, reference/fasop.md, section 2.1\"\nper_node = {}\n", fleet.per_node);
    for (kind, count) in fleet.kinds.iter().zip(counts.split(';')) {
        text += &format!("[[nodes]]\ndevice = {:?}\ncount = {count}\n", kind.device);
        text += &format!("between_bits_per_sec = {:e}\n", kind.between_bits_per_sec.at(1.0));
        text += &format!("inside_bits_per_sec = {:e}\n", kind.inside_bits_per_sec.at(1.0));
        text += &format!("usd_per_hour = {}\nmemory_gib = {:?}\n", kind.usd_per_hour, kind.memory_gib);
    }
    let layers: Vec<String> =
        groups.iter().map(|(first, n)| format!("\"{n} x {}\"", word(model.roles[*first]))).collect();
    text += &format!("[model]\nhidden = {}\nseq = {}\n", model.hidden, model.seq);
    text += &format!("vocab = {}\nheads = {}\nbatch = {}\n", model.vocab, model.heads, model.batch);
    text += &format!("layers = [{}]\nshares_embedding = {}\n", layers.join(", "), model.shares_embedding);
    for (kind, times) in fleet.kinds.iter().zip(&model.times) {
        text += &format!("[times.{}]\n", kind.device);
        for (power, times) in times.iter().enumerate() {
            let secs: Vec<String> =
                groups.iter().map(|(first, _)| format!("{:?}", times.forward_secs[*first])).collect();
            text += &format!("{} = [{}]\n", 1 << power, secs.join(", "));
        }
    }
    text += "[growth]\n";
    for (kind, times) in fleet.kinds.iter().zip(&model.times) {
        let points: Vec<String> =
            groups.iter().map(|(first, _)| growth_text(&times[0].growth[*first])).collect();
        text += &format!("{} = [{}]\n", kind.device, points.join(", "));
    }
    Some(text)
}

fn word(role: Role) -> &'static str {
    match role {
        Role::Embedding => "embedding",
        Role::Layer => "layer",
        Role::Head => "head",
    }
}

fn growth_text(growth: &Growth) -> String {
    let points: Vec<String> =
        growth.points.iter().map(|(size, factor)| format!("[{size}, {factor:?}]")).collect();
    if growth.is_linear { format!("[{}]", points.join(", ")) } else { "\"constant\"".to_owned() }
}

/// First entry and number of each run of entries that are alike.
fn groups(model: &Transformer) -> Vec<(usize, usize)> {
    let is_alike = |a: usize, b: usize| {
        let times = model.times.iter().flatten();
        model.roles[a] == model.roles[b]
            && times
                .into_iter()
                .all(|it| it.forward_secs[a] == it.forward_secs[b] && it.growth[a] == it.growth[b])
    };
    let mut groups: Vec<(usize, usize)> = Vec::new();
    for entry in 0..model.roles.len() {
        match groups.last_mut() {
            Some((first, n)) if is_alike(*first, entry) => *n += 1,
            _ => groups.push((entry, 1)),
        }
    }
    groups
}
