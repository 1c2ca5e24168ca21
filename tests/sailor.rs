//! `phzc sweep --cost sailor` on the requests that Sailor's planner was measured with (reference/fasop.md,
//! section 5): under its own cost model, no plan is slower than its own.

use crate::common::{phzc, root, scratch};
use phzc_cost::sailor::{Curve, Kind, LayerSize, LayerTimes, Part, Plan, Request, Stage};
use serde_json::Value;
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::time::Instant;

/// Model, devices (A100-40, V100-16), dollars a step, the step of Sailor's plan, and its planner's seconds on
/// the clock.
type Row = (&'static str, [usize; 2], Option<&'static str>, f64, f64);

const REQUESTS: [Row; 6] = [
    ("OPT-350", [32, 0], None, 8.097, 0.3),
    ("OPT-350", [32, 96], None, 5.260, 15.1),
    ("OPT-350", [80, 240], None, 2.760, 27.1),
    ("OPT-350", [128, 384], None, 1.902, 58.2),
    ("GPT-Neo-2.7", [32, 96], None, 35.63, 15.5),
    ("OPT-350", [32, 96], Some("1.2"), 5.260, 10.4),
];

/// A request in its form, or nothing where the data is not there.
fn request(model: &str, counts: [usize; 2]) -> Option<String> {
    let folder = root().join("../shared/data/fasop/sailor");
    if !folder.exists() {
        eprintln!("SKIPPED: no ../shared/data/fasop/sailor");
        return None;
    }
    let path = |name: &str| folder.join(name).to_string_lossy().into_owned();
    let mut text = format!(
        "price_basis = \"Sailor's planner\"\nmodel = {model:?}\nbatch = 1024\nzone = \"us-central1-a\"\n\
         sizes = {:?}\nlinks = {:?}\n",
        path("llm_info.json"),
        path("multizone_bandwidths_het.json")
    );
    let kinds = [("A100-40", 40, 3.74), ("V100-16", 16, 2.8)];
    for ((device, gib, usd), count) in kinds.into_iter().zip(counts).filter(|(_, n)| *n > 0) {
        let layers = path(&format!("layer_profiles/{model}/{device}/profile.json"));
        text += &format!("[[devices]]\ndevice = {device:?}\ncount = {count}\nmemory_gib = {gib}\n");
        text += &format!("usd_per_hour = {usd}\nlayers = {layers:?}\n");
    }
    Some(text)
}

fn plan(path: &Path, max_usd: Option<&str>) -> Value {
    let limit: Vec<&str> = max_usd.into_iter().flat_map(|usd| ["--max-price", usd]).collect();
    let file = path.to_string_lossy();
    let outcome = phzc(&[&["sweep", &file, "--cost", "sailor", "--json"], &limit[..]].concat(), b"");
    assert_eq!(outcome.code, 0, "{}", outcome.stderr);
    serde_json::from_str(&outcome.stdout).expect("one object")
}

#[test]
fn no_plan_of_sailor_s_is_faster_under_its_own_cost_model() {
    let path = scratch("sailor").join("request.toml");
    for (model, counts, max_usd, its_secs, its_wall_secs) in REQUESTS {
        let Some(text) = request(model, counts) else { return };
        fs::write(&path, text).expect("writable");
        let start = Instant::now();
        let plan = plan(&path, max_usd);
        let wall_secs = start.elapsed().as_secs_f64();
        let [secs, bound, usd] =
            ["step_secs", "bound_secs", "usd"].map(|key| plan[key].as_f64().expect("a number"));
        // Its steps were printed with four digits.
        assert!(secs <= its_secs * 1.0002, "{model} {counts:?}: {secs}, its {its_secs}");
        assert!(bound <= secs && max_usd.is_none_or(|most| usd <= most.parse().expect("dollars")), "{plan}");
        eprintln!(
            "{model} {counts:?} {max_usd:?}: {secs:.3} s {usd:.3} USD, bound {bound:.3}, in {wall_secs:.2} s; \
             Sailor {its_secs} s in {its_wall_secs} s; {} copies of {} stages",
            plan["copies"],
            plan["stages"].as_array().map_or(0, Vec::len)
        );
    }
}

/// A file of Sailor's.
fn json(name: &str) -> Value {
    let text = fs::read_to_string(root().join("../shared/data/fasop/sailor").join(name)).expect("readable");
    serde_json::from_str(&text).expect("JSON")
}

/// OPT-350 on 32 A100 and 96 V100, read without the program's own reader.
fn opt_350() -> Request {
    let (info, net) = (json("llm_info.json"), json("multizone_bandwidths_het.json"));
    let size = |degree: usize, layer: usize| {
        let own = &info["OPT-350"][degree.to_string()][layer.to_string()];
        let [params, kept, handed_on] = ["params_floats", "act_mem_floats", "act_output_floats"]
            .map(|key| own[key].as_f64().expect("a number"));
        LayerSize { params, kept, handed_on }
    };
    let names = ["A100-40", "V100-16"];
    let mut links = BTreeMap::new();
    for key in (0..2).flat_map(|a| (0..2).map(move |b| (a, b))) {
        for [from, to] in [1, 2, 4].into_iter().flat_map(|a| [1, 2, 4].map(move |b| [a, b])) {
            let zone = "us-central1-a";
            let own = &net[zone][names[key.0]][from.to_string()][zone][names[key.1]][to.to_string()];
            let coefficients = [0, 1, 2].map(|index| own[0][index].as_f64().expect("a number"));
            let peak_bytes_per_sec = own[1].as_f64().expect("a number");
            links.insert([key.0, from, key.1, to], Curve { coefficients, peak_bytes_per_sec });
        }
    }
    let sizes = [1, 2, 4].map(|degree| (degree, (0..26).map(|layer| size(degree, layer)).collect()));
    let kinds = [("A100-40", 32, 40.0, 3.74), ("V100-16", 96, 16.0, 2.8)].map(kind).to_vec();
    Request { batch: 1024, kinds, sizes: sizes.into_iter().collect(), links }
}

fn kind((device, count, gib, usd_per_hour): (&str, usize, f64, f64)) -> Kind {
    let profile = json(&format!("layer_profiles/OPT-350/{device}/profile.json"));
    let mut times = BTreeMap::new();
    for (size, degree) in [2, 8].into_iter().flat_map(|size| [1, 4].map(|degree| (size, degree))) {
        let own = &profile[size.to_string()][degree.to_string()];
        let layer = |layer: usize| {
            [0, 1, 2].map(|index| own[layer.to_string()][index].as_f64().unwrap_or(f64::INFINITY))
        };
        let mut prefix_secs = vec![0.0];
        (0..26).for_each(|at| prefix_secs.push(prefix_secs[at] + layer(at)[0] + layer(at)[1]));
        let update_secs = (0..26).map(|at| layer(at)[2]).fold(0.0, f64::max);
        times.insert((size, degree), LayerTimes { prefix_secs, update_secs });
    }
    let memory_bytes = gib * f64::from(1 << 30);
    Kind { device: device.to_owned(), count, memory_bytes, usd_per_hour, times }
}

#[test]
fn its_own_plans_take_what_it_says() {
    if request("OPT-350", [32, 96]).is_none() {
        return;
    }
    let request = opt_350();
    let part = |kind: usize, tensor: usize, copies: usize| Part { kind, tensor, copies };
    let one = vec![Stage { n_layers: 26, parts: vec![part(0, 4, 8)] }];
    let mixed = Stage { n_layers: 13, parts: vec![part(0, 1, 3), part(1, 4, 24)] };
    let two = vec![mixed, Stage { n_layers: 13, parts: vec![part(0, 1, 27)] }];
    for (stages, micro_batch, secs, usd) in [(one, 8, 8.097, 0.269), (two, 2, 5.260, 0.557)] {
        let cost = request.cost(&Plan { micro_batch, stages }).expect("all was measured");
        assert!((cost.step_secs - secs).abs() < 5e-4 && cost.fits, "{cost:?}");
        assert!((cost.usd - usd).abs() < 5e-4, "{cost:?}");
    }
}

#[test]
fn what_is_wrong_with_a_request_is_said() {
    let Some(text) = request("OPT-350", [32, 0]) else { return };
    let path = scratch("sailor_wrong").join("request.toml");
    let error = |from: &str, to: &str, rest: &[&str]| {
        fs::write(&path, text.replace(from, to)).expect("writable");
        let file = path.to_string_lossy();
        let outcome = phzc(&[&["sweep", &file, "--cost", "sailor"], rest].concat(), b"");
        assert_eq!(outcome.code, 1, "{}", outcome.stdout);
        outcome.stderr
    };
    assert!(error("\"OPT-350\"", "\"OPT-35\"", &[]).contains("it lacks the model"));
    assert!(error("llm_info.json", "llm_inf.json", &[]).contains("llm_inf.json"));
    assert!(error("count = 32", "count = 0", &[]).contains("expected 1 to 65536, found `0`"));
    assert!(error("zone = ", "zon = ", &[]).contains("unknown field `zon`"));
    assert!(error("us-central1-a", "nowhere", &[]).contains("it has no links"));
    assert!(error("memory_gib = 40", "memory_gib = 1", &[]).contains("no plan fits"));
    assert!(error("x", "x", &["--objective", "price"]).contains("plans one request for time"));
}
