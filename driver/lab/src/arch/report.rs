//! What `phzc arch` found, as tables and as JSON.

use super::planned::{OnDevice, Planned};
use super::solve::{Chosen, Found, ModeFound};
use comfy_table::presets::NOTHING;
use comfy_table::{CellAlignment, Table};
use phzc_arch::mapping::Mode;
use phzc_io::units::secs;
use serde_json::{Value, json};

/// The name and version of the JSON.
const FORMAT: &str = "phzc-arch 1";

/// The name of a mode on the command line.
pub(super) fn name(mode: Mode) -> &'static str {
    match mode {
        Mode::Phaze => "phaze",
        Mode::Native => "native",
    }
}

/// Seconds of every kind of layer, as JSON lines.
pub(super) fn estimates_text(found: &Found) -> String {
    let mut text = String::new();
    for mode in &found.modes {
        for chosen in &mode.shown {
            let line = json!({
                "mode": name(mode.mode), "arch": arch(found, chosen), "layers": layers(found, chosen),
            });
            text += &format!("{line}\n");
        }
    }
    text
}

/// The whole result as one object.
pub(super) fn json(found: &Found) -> String {
    let chosen = |it: &Option<Chosen>| it.as_ref().map(|it| object(found, it));
    let mode = |it: &ModeFound| {
        json!({
            "mode": name(it.mode),
            "n_architectures": it.counts[0], "n_estimated": it.counts[1], "n_placed": it.counts[2],
            "best": it.best.iter().map(chosen).collect::<Vec<_>>(),
            "best_common": chosen(&it.common),
            if found.is_list { "listed" } else { "front" }:
                it.shown.iter().map(|it| object(found, it)).collect::<Vec<_>>(),
        })
    };
    let modes: Vec<Value> = found.modes.iter().map(mode).collect();
    let mut value = json!({
        "format": FORMAT, "models": found.models, "batch": found.batch, "devices": found.n_devices,
        "modes": modes,
    });
    if let Some(planned) = &found.planned {
        value["planned"] = planned.chips.iter().map(|it| on_device(found, it)).collect();
    }
    format!("{value:#}\n")
}

/// An accelerator with what plans take on its device file.
fn on_device(found: &Found, chip: &OnDevice) -> Value {
    let mut value = arch(found, &chip.chosen);
    value["samples_per_sec"] = json!(chip.samples_per_sec);
    let run = |(model, secs): (usize, &f64)| {
        json!({
            "model": found.models[model], "step_secs": secs,
            "samples_per_sec": found.batch as f64 / secs, "searched_secs": searched_secs(chip, model),
        })
    };
    value["runs"] = chip.step_secs.iter().enumerate().map(run).collect();
    value
}

fn searched_secs(chip: &OnDevice, model: usize) -> Option<f64> {
    chip.chosen.plans[model].as_ref().map(|plan| plan.1)
}

fn arch(found: &Found, chosen: &Chosen) -> Value {
    let point = &chosen.candidate.point;
    let name = found.space.template(point.cores).name;
    json!({"name": name, "cores": point.cores, "area_mm2": point.um2 / 1e6, "peak_watts": point.watts})
}

fn object(found: &Found, chosen: &Chosen) -> Value {
    let mut value = arch(found, chosen);
    value["samples_per_sec"] = json!(chosen.candidate.samples_per_sec);
    value["runs"] = (0..found.models.len()).map(|model| run(found, chosen, model)).collect();
    value
}

/// The run of a model, or null where none fits.
fn run(found: &Found, chosen: &Chosen, model: usize) -> Value {
    let (Some((run, rate)), Some((plan, secs))) = (&chosen.candidate.runs[model], &chosen.plans[model])
    else {
        return Value::Null;
    };
    let stages: Vec<[usize; 2]> = plan.stages.iter().map(|it| [it.layers.start, it.layers.end]).collect();
    json!({
        "model": found.models[model], "samples_per_sec": rate, "step_secs": secs,
        "microbatch": chosen.samples[model], "hbm_bytes": run.hbm_bytes, "recompute": run.recompute,
        "pipelines": plan.data_parallel, "stages": stages, "layer_secs": seconds(chosen, model),
    })
}

fn layers(found: &Found, chosen: &Chosen) -> Vec<Value> {
    let of = |model| json!({"model": found.models[model], "layer_secs": seconds(chosen, model)});
    (0..found.models.len()).map(of).collect()
}

fn seconds(chosen: &Chosen, model: usize) -> Vec<[f64; 2]> {
    chosen.times[model].iter().map(|it| [it.forward, it.backward]).collect()
}

/// The result as tables, one per mode.
pub(super) fn text(found: &Found) -> String {
    let mut text = String::new();
    for mode in &found.modes {
        text += &heading(mode);
        text += &table(found, mode);
    }
    if let Some(planned) = &found.planned {
        text += &planned_text(found, planned);
    }
    text
}

/// What plans take on device files, or why there are none.
fn planned_text(found: &Found, planned: &Planned) -> String {
    if let Some(why_not) = &planned.why_not {
        return format!("not planned, the device file is that of the search's best: {why_not}\n");
    }
    let mut table = Table::new();
    table.load_style(NOTHING);
    table.set_header(["accelerator", "model", "mm2", "searched", "planned", "samples/s"]);
    for chip in &planned.chips {
        let point = &chip.chosen.candidate.point;
        for (model, step_secs) in chip.step_secs.iter().enumerate() {
            table.add_row([
                found.space.template(point.cores).name,
                found.models[model].clone(),
                format!("{:.1}", point.um2 / 1e6),
                searched_secs(chip, model).map_or_else(|| "-".to_owned(), secs),
                secs(*step_secs),
                format!("{:.4}", found.batch as f64 / step_secs),
            ]);
        }
    }
    table.column_iter_mut().skip(2).for_each(|column| column.set_cell_alignment(CellAlignment::Right));
    let failed = planned.failed.as_ref().map(|(n, why)| format!("{n} more without a plan: {why}\n"));
    let failed = failed.unwrap_or_default();
    format!("planned on their device files, of which the first is written:\n{table}\n{failed}")
}

/// What was looked at, in words.
pub(super) fn heading(mode: &ModeFound) -> String {
    let [n_points, n_estimated, n_placed] = mode.counts;
    let name = name(mode.mode);
    match n_points == n_estimated {
        true => format!("{name}: {n_points} accelerators, all estimated and placed\n"),
        false => format!(
            "{name}: {n_points} accelerators, {n_estimated} estimated, {n_placed} placed, the others excluded \
             by bounds; {}\n",
            match mode.shown.len() {
                0 => "no front is asked for".to_owned(),
                n if mode.limits > 0 => {
                    format!("{n} best within {} limits of area and power", mode.limits)
                }
                n => format!("{n} in the front of throughput against area and power"),
            }
        ),
    }
}

const HEADER: [&str; 14] = [
    "",
    "model",
    "tensor",
    "vector",
    "width",
    "depth",
    "MiB",
    "mm2",
    "W",
    "samples/s",
    "microbatch",
    "HBM GiB",
    "stages x pipelines",
    "recompute",
];

fn table(found: &Found, mode: &ModeFound) -> String {
    let mut table = Table::new();
    table.load_style(NOTHING);
    table.set_header(HEADER);
    for model in 0..found.models.len() {
        if let Some(chosen) = &mode.best[model] {
            table.add_row(cells("best", found, chosen, model));
        }
    }
    let rows = mode.common.iter().map(|it| ("common", it));
    let rows = rows.chain(mode.shown.iter().map(|it| (if found.is_list { "listed" } else { "front" }, it)));
    for (label, chosen) in rows.filter(|(label, _)| *label != "common" || found.models.len() > 1) {
        for model in 0..found.models.len() {
            table.add_row(cells(label, found, chosen, model));
        }
    }
    table.column_iter_mut().skip(2).for_each(|column| column.set_cell_alignment(CellAlignment::Right));
    format!("{table}\n\n")
}

fn cells(label: &str, found: &Found, chosen: &Chosen, model: usize) -> Vec<String> {
    let (point, candidate) = (&chosen.candidate.point, &chosen.candidate);
    let cores = &point.cores;
    let mut cells = vec![label.to_owned(), found.models[model].clone()];
    let counts = [cores.n_tensor, cores.n_vector, cores.width, cores.depth, cores.global_bytes >> 20];
    cells.extend(counts.map(|count| count.to_string()));
    cells.extend([format!("{:.1}", point.um2 / 1e6), format!("{:.0}", point.watts)]);
    let (Some((run, rate)), Some((plan, _))) = (&candidate.runs[model], &chosen.plans[model]) else {
        cells.push("does not fit".to_owned());
        return cells;
    };
    cells.extend([format!("{rate:.4}"), chosen.samples[model].to_string()]);
    cells.push(format!("{:.0}", run.hbm_bytes as f64 / f64::from(1 << 30)));
    cells.push(format!("{} x {}", plan.stages.len(), plan.data_parallel));
    cells.push(if run.recompute { "yes" } else { "no" }.to_owned());
    cells
}
