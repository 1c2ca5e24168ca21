//! The table that a person reads after a run: stages, devices, layouts, time and where it goes, memory.

use comfy_table::presets::NOTHING;
use comfy_table::{CellAlignment, Table};
use phzc_cost::Cluster;
use phzc_io::units::{bytes, energy, percent, secs};
use phzc_ir::counted;
use phzc_passes::report::{BigTensor, Breakdown, CollectiveUse, Plan, Stage, StageDevice};

mod idle;
mod parallelism;
mod replicas;
mod throughput;

pub(crate) use idle::idle;
pub(crate) use throughput::count;

/// Collectives that are listed; the rest is summed up.
const MAX_COLLECTIVES: usize = 8;
/// Tensors that are listed.
const MAX_TENSORS: usize = 8;

/// The plan as text, with what is said of given layouts.
pub(crate) fn plan(plan: &Plan, given: &str) -> String {
    let parts = [
        headline(plan, given),
        stages(plan) + &replicas::text(plan) + &limits(plan),
        breakdown(&plan.breakdown) + &plan.throughput.as_ref().map_or_else(String::new, throughput::text),
        collectives(plan),
        tensors(plan),
    ];
    parts.into_iter().filter(|part| !part.is_empty()).map(|part| part + "\n").collect()
}

/// How long the program took as it was partitioned, beside its plan.
pub(crate) fn before(before: &phzc_ir::Result<Plan>, plan: &Plan) -> String {
    let before = match before {
        Ok(before) => before,
        Err(error) => return format!("as it was partitioned: not compared, {}\n", error.message),
    };
    let (was, is) = (before.time_secs, plan.time_secs);
    let share = percent((was - is).abs() / was);
    let how = if is > was { "more" } else { "less" };
    format!(
        "as it was partitioned: {} per step on {}; this plan: {}, {share} {how}\n",
        secs(was),
        counted(before.n_devices, "device"),
        secs(is)
    )
}

/// What a step costs; nothing where the cluster's nodes have no prices.
pub(crate) fn price(plan: &Plan, cluster: &Cluster, egress_usd: f64) -> String {
    let bill = cluster.bill(plan.time_secs);
    let energy = bill.kwh.map(|kwh| format!("energy: {} per step\n", energy(kwh))).unwrap_or_default();
    if bill.expected_secs.is_infinite() {
        return format!("expected: none, the nodes are never there all at once\n{energy}");
    }
    let waits = match bill.expected_secs > plan.time_secs {
        true => format!(
            "expected: {} per step with the time in which nodes are not there\n",
            secs(bill.expected_secs)
        ),
        false => String::new(),
    };
    let Some(nodes_usd) = bill.usd else {
        let has_some = cluster.kinds().any(|kind| kind.alone().usd_per_hour().is_some());
        let price = if has_some { "price: not known, some nodes have none\n" } else { "" };
        return waits + price + &energy;
    };
    let (paid, all) = (3600.0 * nodes_usd / bill.expected_secs, cluster.usd_per_hour().unwrap_or(0.0));
    let while_there = match bill.expected_secs > plan.time_secs {
        true => format!(" ({all:.2} if all nodes were always there)"),
        false => String::new(),
    };
    let usd = nodes_usd + egress_usd;
    let egress = match egress_usd > 0.0 {
        true => format!(", {egress_usd:.6} of these for bytes between zones"),
        false => String::new(),
    };
    let tokens = plan.throughput.and_then(|it| it.tokens_per_sec).map(|rate| rate * plan.time_secs);
    let per_token = tokens.map(|tokens| format!(", {:.4} USD per million tokens", 1e6 * usd / tokens));
    format!(
        "{waits}price: {paid:.2} USD per hour{while_there}, {usd:.6} USD per step{egress}{} ({})\n{energy}",
        per_token.unwrap_or_default(),
        cluster.price_basis().unwrap_or("-")
    )
}

/// How long each pass took.
pub(crate) fn passes(secs_per_pass: &[(&str, f64)]) -> String {
    let each: Vec<String> =
        secs_per_pass.iter().map(|(name, took)| format!("{name} {}", secs(*took))).collect();
    if each.is_empty() { String::new() } else { format!("passes: {}\n", each.join(", ")) }
}

fn headline(plan: &Plan, given: &str) -> String {
    let mut out = format!(
        "{} per step on {} of {}",
        secs(plan.time_secs),
        counted(plan.n_devices, "device"),
        plan.cluster
    );
    if plan.stages.len() > 1 || plan.n_microbatches > 1 {
        out += &format!(", {}, schedule {}", counted(plan.n_microbatches, "microbatch"), plan.schedule);
    }
    out + "\n" + &stragglers(plan) + &planner(plan) + given + &parallelism::text(plan)
}

/// What is expected of slow devices.
fn stragglers(plan: &Plan) -> String {
    let Some(it) = &plan.straggling else { return String::new() };
    let (any, even) = (percent(it.any_slow), secs(it.even_secs));
    format!(
        "expected with stragglers {}: any is slow in {any} of steps, {even} where none is\n",
        it.straggler
    )
}

/// What the planner says of its plan, in its own model, and how far the final text is from that.
fn planner(plan: &Plan) -> String {
    let planned = plan.planned_secs.map(|planned| format!("planned {}", secs(planned)));
    let bound = plan.lower_bound_secs.map(|bound| format!("lower bound {}", secs(bound)));
    let gap = plan.gap.map(|gap| format!("gap {}", percent(gap)));
    let stop = plan.stop.as_ref().map(|stop| format!("stop {stop}"));
    let claims: Vec<String> = [planned, bound, gap, stop].into_iter().flatten().collect();
    let mut out = if claims.is_empty() { String::new() } else { format!("planner: {}\n", claims.join(", ")) };
    if let Some(planned) = plan.planned_secs {
        out += &format!("report: the final text takes {}\n", compared(plan.time_secs, planned));
    }
    out
}

/// `12.3 % more than planned`.
fn compared(time_secs: f64, planned_secs: f64) -> String {
    let off = (time_secs - planned_secs) / planned_secs;
    match percent(off.abs()) {
        _ if time_secs == planned_secs => "as long as planned".to_owned(),
        _ if !off.is_finite() => format!("{}, which the planner does not count", secs(time_secs)),
        none if none == percent(0.0) => "as long as planned".to_owned(),
        share => format!("{share} {} than planned", if off > 0.0 { "more" } else { "less" }),
    }
}

fn stages(plan: &Plan) -> String {
    let row = |(index, stage): (usize, &Stage)| {
        let share = stage.memory_share(plan.memory_limit_bytes);
        let over = if share > 1.0 { " OVER" } else { "" };
        vec![
            index.to_string(),
            devices(stage.devices, stage.device.as_ref()),
            if stage.mesh.is_empty() { "-".to_owned() } else { stage.mesh.clone() },
            stage.n_instrs.to_string(),
            secs(stage.forward_secs),
            secs(stage.backward_secs),
            secs(stage.update_secs),
            bytes(stage.memory_bytes),
            format!("{}{over}", percent(share)),
        ]
    };
    let header =
        ["stage", "devices", "mesh", "instrs", "forward", "backward", "update", "memory", "of limit"];
    table(&header, 3..9, plan.stages.iter().enumerate().map(row).collect())
}

/// `0-31`, of unlike ones with what they are: `0-31 a100-80`.
fn devices([first, last]: [usize; 2], device: Option<&StageDevice>) -> String {
    let kind = device.map_or_else(String::new, |device| format!(" {}", device.name));
    if first == last { format!("{first}{kind}") } else { format!("{first}-{last}{kind}") }
}

/// The memory that may be used, by kind of device.
fn limits(plan: &Plan) -> String {
    let mut kinds: Vec<&StageDevice> = Vec::new();
    let of_replicas = plan.replicas.iter().flat_map(|it| &it.stages).filter_map(|it| it.device.as_ref());
    for device in plan.stages.iter().filter_map(|stage| stage.device.as_ref()).chain(of_replicas) {
        if !kinds.contains(&device) {
            kinds.push(device);
        }
    }
    let of = |kind: &&StageDevice| format!("{} per {}", bytes(kind.memory_limit_bytes), kind.name);
    match kinds.is_empty() {
        true => format!("memory limit: {} per device\n", bytes(plan.memory_limit_bytes)),
        false => format!("memory limit: {}\n", kinds.iter().map(of).collect::<Vec<_>>().join(", ")),
    }
}

fn breakdown(parts: &Breakdown) -> String {
    let named = [
        ("compute", parts.compute_secs),
        ("memory traffic", parts.memory_bound_secs),
        ("communication", parts.collective_secs),
        ("waiting", parts.bubble_secs),
    ];
    let all: f64 = named.iter().map(|(_, part)| part).sum();
    let shares = named.iter().map(|(name, part)| format!("{name} {} ({})", secs(*part), percent(part / all)));
    if all > 0.0 { format!("time: {}\n", shares.collect::<Vec<_>>().join(", ")) } else { String::new() }
}

fn collectives(plan: &Plan) -> String {
    let mut uses: Vec<&CollectiveUse> = plan.collectives.iter().collect();
    uses.sort_by(|a, b| b.time_secs.total_cmp(&a.time_secs));
    let row = |one: &&CollectiveUse| {
        vec![
            one.kind.clone(),
            one.axes.join(","),
            one.stage.to_string(),
            one.count.to_string(),
            bytes(one.bytes),
            secs(one.time_secs),
        ]
    };
    let rows: Vec<Vec<String>> = uses.iter().take(MAX_COLLECTIVES).map(row).collect();
    let mut out = table(&["communication", "axes", "stage", "per step", "bytes", "time"], 2..6, rows);
    if uses.len() > MAX_COLLECTIVES {
        let rest: f64 = uses[MAX_COLLECTIVES..].iter().map(|one| one.time_secs).sum();
        out += &format!("and {} more: {}\n", uses.len() - MAX_COLLECTIVES, secs(rest));
    }
    let hidden_secs: f64 = uses.iter().map(|one| one.hidden_secs).sum();
    if hidden_secs > 0.0 {
        out += &format!("{} of that beside computation, where it takes no time\n", secs(hidden_secs));
    }
    if plan.n_implicit_collectives > 0 {
        out += &format!("{} of them are left to the partitioner\n", plan.n_implicit_collectives);
    }
    out
}

fn tensors(plan: &Plan) -> String {
    let row = |one: &BigTensor| {
        vec![
            one.name.clone(),
            one.shape.clone(),
            one.layout.clone(),
            one.stage.to_string(),
            one.count.to_string(),
            bytes(one.bytes),
        ]
    };
    let rows = plan.tensors.iter().take(MAX_TENSORS).map(row).collect();
    let mut out = table(&["tensor", "shape", "layout", "stage", "count", "per device"], 3..6, rows);
    let is_whole = |one: &BigTensor| !one.layout.contains(char::is_alphabetic);
    let is_planned = plan.planned_secs.is_some() && plan.stages.len() == 1 && plan.n_devices > 1;
    if is_planned && plan.tensors.iter().all(is_whole) {
        out += "no large tensor is split: every device does the whole step, which costs less here than any split that is allowed\n";
    }
    out
}

/// Columns under a header, those of numbers to the right; nothing when there are no rows.
pub(crate) fn table(
    header: &[&str],
    numbers: impl IntoIterator<Item = usize>,
    rows: Vec<Vec<String>>,
) -> String {
    if rows.is_empty() {
        return String::new();
    }
    let mut table = Table::new();
    table.load_style(NOTHING).set_header(header.to_vec()).add_rows(rows);
    for number in numbers {
        if let Some(column) = table.column_mut(number) {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    let lines =
        table.lines().map(|line| line.strip_prefix(' ').unwrap_or(&line).trim_end().to_owned() + "\n");
    lines.collect()
}

#[cfg(test)]
mod tests;
