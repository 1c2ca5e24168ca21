//! The tables of the page: stages, communication, what holds memory at the peak, instructions.

use super::{View, escaped};
use crate::planned::type_text;
use phzc_io::units::{bytes, percent, secs};
use phzc_ir::loops;
use phzc_passes::memory::at_peak;
use phzc_passes::report::{Entry, Plan};

/// Values at the peak that are listed.
const MAX_VALUES: usize = 20;
/// Instructions that are listed.
const MAX_INSTRS: usize = 200;

/// The sections after the pictures: id, title and HTML.
pub(super) fn sections(view: &View) -> Vec<(&'static str, &'static str, String)> {
    vec![
        ("time", "Where the time goes", breakdown(view.plan)),
        ("stages", "Stages", stages(view.plan) + &replicas(view.plan)),
        ("communication", "Communication", communication(view.plan)),
        ("peak", "What holds memory at the peak", peak(view)),
        ("instructions", "Instructions", instructions(view)),
    ]
}

/// A table that can be scrolled, its columns from `first_number` on to the right.
pub(super) fn table(
    name: &str,
    header: &[&str],
    numbers: &[usize],
    rows: impl Iterator<Item = Vec<String>>,
) -> String {
    let class = |at: usize| if numbers.contains(&at) { " class=\"n\"" } else { "" };
    let head = header.iter().enumerate();
    let head = head.map(|(at, text)| format!("<th scope=\"col\"{}>{text}</th>", class(at)));
    let row = |row: Vec<String>| {
        let cells =
            row.iter().enumerate().map(|(at, text)| format!("<td{}>{}</td>", class(at), escaped(text)));
        format!("<tr>{}</tr>\n", cells.collect::<String>())
    };
    format!(
        "<div class=\"wide\" tabindex=\"0\" role=\"region\" aria-label=\"{name}\">\n<table>\n\
         <thead><tr>{}</tr></thead>\n<tbody>\n{}</tbody>\n</table>\n</div>\n",
        head.collect::<String>(),
        rows.map(row).collect::<String>()
    )
}

fn breakdown(plan: &Plan) -> String {
    let parts = [
        ("compute", plan.breakdown.compute_secs),
        ("memory traffic", plan.breakdown.memory_bound_secs),
        ("communication", plan.breakdown.collective_secs),
        ("waiting for other stages", plan.breakdown.bubble_secs),
    ];
    let all: f64 = parts.iter().map(|(_, secs)| secs).sum();
    let share = |secs: f64| percent(if all > 0.0 { secs / all } else { 0.0 });
    let rows = parts.into_iter().map(|(name, part)| vec![name.to_owned(), secs(part), share(part)]);
    table("Where the time goes", &["on the busiest devices", "time", "share"], &[1, 2], rows)
}

fn stages(plan: &Plan) -> String {
    let rows = plan.stages.iter().enumerate().map(|(index, stage)| {
        let [first, last] = stage.devices;
        vec![
            index.to_string(),
            if first == last { first.to_string() } else { format!("{first}-{last}") },
            if stage.mesh.is_empty() { "-".to_owned() } else { stage.mesh.clone() },
            secs(stage.forward_secs),
            secs(stage.backward_secs),
            secs(stage.recompute_secs),
            secs(stage.update_secs),
            bytes(stage.memory_bytes),
            percent(stage.memory_share(plan.memory_limit_bytes)),
        ]
    });
    let header =
        ["stage", "devices", "mesh", "forward", "backward", "recompute", "update", "memory", "of limit"];
    table("Stages", &header, &[0, 3, 4, 5, 6, 7, 8], rows)
}

/// Which replica of the stages runs how many microbatches, if there are several.
fn replicas(plan: &Plan) -> String {
    if plan.replicas.is_empty() {
        return String::new();
    }
    let all = plan.replicas.iter().enumerate();
    let rows =
        all.flat_map(|(at, replica)| replica.stages.iter().enumerate().map(move |it| (at, replica, it)));
    let rows = rows.map(|(at, replica, (index, stage))| {
        let [first, last] = stage.devices;
        let kind = stage.device.as_ref().map_or_else(String::new, |device| format!(" {}", device.name));
        vec![
            at.to_string(),
            index.to_string(),
            format!("{first}-{last}{kind}"),
            replica.n_microbatches.to_string(),
            bytes(stage.memory_bytes),
            percent(stage.memory_share),
            secs(replica.pipeline_secs),
            secs(replica.once_secs),
        ]
    });
    let header = ["replica", "stage", "devices", "microbatches", "memory", "of limit", "gradients", "update"];
    table("Replicas", &header, &[0, 1, 3, 4, 5, 6, 7], rows)
}

fn communication(plan: &Plan) -> String {
    let mut uses: Vec<_> = plan.collectives.iter().collect();
    uses.sort_by(|a, b| b.time_secs.total_cmp(&a.time_secs));
    let rows = uses.into_iter().map(|it| {
        vec![
            it.kind.clone(),
            it.axes.join(", "),
            it.stage.to_string(),
            it.count.to_string(),
            bytes(it.bytes),
            secs(it.time_secs),
        ]
    });
    table("Communication", &["kind", "axes", "stage", "per step", "bytes", "time"], &[2, 3, 4, 5], rows)
}

fn peak(view: &View) -> String {
    let stages = view.plan.stages.iter().enumerate();
    let fullest = stages.reduce(|a, b| if b.1.memory_bytes > a.1.memory_bytes { b } else { a });
    let Some((stage, own)) = fullest else { return String::new() };
    let all = at_peak(view.module, view.facts, stage);
    let rows = all.iter().take(MAX_VALUES).map(|&(id, held)| {
        let instr = view.module.entry().instr(id);
        vec![
            instr.name.to_string(),
            loops::source_line(instr).unwrap_or_else(|| "-".to_owned()),
            type_text(instr),
            bytes(held),
            percent(held / own.memory_bytes),
        ]
    });
    let listed =
        table("Values at the peak", &["value", "source", "type", "bytes", "of the peak"], &[3, 4], rows);
    let n_more = all.len().saturating_sub(MAX_VALUES);
    let more = if n_more > 0 { format!("<p>And {n_more} smaller ones.</p>\n") } else { String::new() };
    format!("<p>Stage {stage}, the fullest: {} on each device.</p>\n{listed}{more}", bytes(own.memory_bytes))
}

fn instructions(view: &View) -> String {
    let mut all: Vec<&Entry> = view.ledger.iter().filter(|entry| entry.secs() > 0.0).collect();
    all.sort_by(|a, b| b.secs().total_cmp(&a.secs()));
    let n_all = all.len();
    let row = |entry: &&Entry| {
        let moves: Vec<String> =
            entry.moves.iter().map(|it| format!("{} over {}", it.kind, it.axes)).collect();
        vec![
            entry.name.clone(),
            entry.op.to_owned(),
            entry.source.clone().unwrap_or_else(|| "-".to_owned()),
            format!("{} {}", entry.shape, entry.layout),
            entry.stage.to_string(),
            moves.join(", "),
            secs(entry.kernel_secs),
            secs(entry.secs() - entry.kernel_secs),
        ]
    };
    let header = ["name", "op", "source", "type and layout", "stage", "communication", "kernels", "moves"];
    let listed = table("Instructions", &header, &[4, 6, 7], all.iter().take(MAX_INSTRS).map(row));
    format!(
        "<p>The {} that take longest of {n_all}, with what moves their values; seconds per step on a device.</p>\n\
         <label>Show only rows with <input id=\"filter\" type=\"search\"></label>\n{listed}",
        n_all.min(MAX_INSTRS)
    )
}
