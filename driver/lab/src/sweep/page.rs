//! The front of time and money as one page: a picture of all clusters, then the plan of every point.

use super::file::Sweep;
use super::front::{Point, Told, nodes, shown};
use phzc_io::units::secs;
use std::fmt::Write;

/// Width and height of the picture, and the margin around the axes, in pixels.
const SIZE: [f64; 2] = [760.0, 420.0];
const MARGIN: f64 = 64.0;
/// Marks on an axis.
const N_TICKS: usize = 5;

const STYLE: &str = "body{font:14px sans-serif;max-width:60em;margin:2em auto;padding:0 1em}\
table{border-collapse:collapse}td,th{padding:.2em .8em .2em 0;text-align:right;vertical-align:top}\
th:nth-child(n+6),td:nth-child(n+6){text-align:left}details{margin:.4em 0}";

/// The page.
pub(super) fn html(sweep: &Sweep, cost: &str, points: &[Point], wanted: &[&Point]) -> String {
    let planned = wanted.iter().filter_map(|point| Some((*point, point.plan.as_ref()?)));
    let wanted = &planned.collect::<Vec<(&Point, &Told)>>()[..];
    let kinds: Vec<&str> = sweep.names.iter().map(String::as_str).collect();
    let head = "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><title>phzc sweep</title>";
    let basis = escaped(&sweep.price_basis);
    let n_planned = points.iter().filter(|point| point.plan.is_some()).count();
    format!(
        "{head}<style>{STYLE}</style></head><body>\n<h1>Time and money of a step</h1>\n\
         <p>Cost model <code>{cost}</code>; prices: {basis}. {n_planned} of {} clusters have a plan that fits. \
         Points below: what was asked for.</p>\n{}{}{}</body></html>\n",
        points.len(),
        picture(points, wanted, &kinds),
        table(wanted, &kinds),
        plans(sweep, wanted, &kinds)
    )
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

/// Seconds to the right, dollars up; the points that were asked for are joined.
fn picture(points: &[Point], wanted: &[(&Point, &Told)], kinds: &[&str]) -> String {
    let all: Vec<(&Point, &Told)> =
        points.iter().filter_map(|point| Some((point, point.plan.as_ref()?))).collect();
    let most = |figure: fn(&Told) -> f64| 1.05 * all.iter().map(|one| figure(one.1)).fold(0.0, f64::max);
    let most = [most(|plan| plan.expected_secs), most(|plan| plan.usd)];
    let at = |plan: &Told| place([plan.expected_secs / most[0], plan.usd / most[1]]);
    let mut body = axes(most);
    for (point, plan) in &all {
        let [x, y] = at(plan);
        let is_wanted = wanted.iter().any(|(other, _)| other.counts == point.counts);
        let [radius, color] = if is_wanted { ["5", "#d55e00"] } else { ["3", "#999999"] };
        let title = escaped(&nodes(&point.counts, kinds));
        let _ = writeln!(
            body,
            r#"<circle cx="{x:.1}" cy="{y:.1}" r="{radius}" fill="{color}"><title>{title}: {}, {:.6} USD</title></circle>"#,
            secs(plan.expected_secs),
            plan.usd
        );
    }
    let corners: Vec<String> =
        wanted.iter().map(|(_, plan)| at(plan)).map(|[x, y]| format!("{x:.1},{y:.1}")).collect();
    let _ = writeln!(body, r##"<polyline points="{}" fill="none" stroke="#d55e00"/>"##, corners.join(" "));
    let [width, height] = SIZE;
    format!("<svg viewBox=\"0 0 {width} {height}\" width=\"{width}\" font-size=\"11\">\n{body}</svg>\n")
}

/// Parts of both axes, in pixels.
fn place([x, y]: [f64; 2]) -> [f64; 2] {
    let [width, height] = SIZE.map(|size| size - 2.0 * MARGIN);
    [MARGIN + x * width, MARGIN + (1.0 - y) * height]
}

fn axes(most: [f64; 2]) -> String {
    let ([left, bottom], [right, top]) = (place([0.0, 0.0]), place([1.0, 1.0]));
    let mut out = format!(
        "<path d=\"M{left} {top}V{bottom}H{right}\" fill=\"none\" stroke=\"black\"/>\n\
         <text x=\"{right}\" y=\"{:.1}\" text-anchor=\"end\">seconds of a step</text>\n\
         <text x=\"{left}\" y=\"{:.1}\">USD of a step</text>\n",
        bottom + 34.0,
        top - 12.0
    );
    for tick in 0..=N_TICKS {
        let part = tick as f64 / N_TICKS as f64;
        let [x, y] = place([part, part]);
        let _ = writeln!(
            out,
            "<text x=\"{x:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{:.3}</text>\
             <text x=\"{:.1}\" y=\"{y:.1}\" text-anchor=\"end\">{:.4}</text>",
            bottom + 18.0,
            part * most[0],
            left - 6.0,
            part * most[1]
        );
    }
    out
}

fn table(wanted: &[(&Point, &Told)], kinds: &[&str]) -> String {
    let mut out = "<table><tr><th>step</th><th>USD</th><th>of these egress</th><th>kWh</th><th>gap %</th>\
                   <th>nodes</th></tr>\n"
        .to_owned();
    for (point, plan) in wanted {
        let gap = 100.0 * (1.0 - point.bound_secs.unwrap_or(plan.step_secs) / plan.step_secs);
        let _ = writeln!(
            out,
            "<tr><td>{}</td><td>{:.6}</td><td>{:.6}</td><td>{:.6}</td><td>{gap:.2}</td><td>{}</td></tr>",
            secs(plan.expected_secs),
            plan.usd,
            plan.egress_usd,
            plan.kwh,
            escaped(&nodes(&point.counts, kinds))
        );
    }
    out + "</table>\n"
}

/// The plan of each point.
fn plans(sweep: &Sweep, wanted: &[(&Point, &Told)], kinds: &[&str]) -> String {
    let mut out = "<h2>Plans</h2>\n".to_owned();
    for (point, plan) in wanted {
        let runs: Vec<String> = plan
            .order
            .chunk_by(|a, b| a == b)
            .map(|run| format!("{} {}", run.len(), escaped(kinds.get(run[0]).unwrap_or(&"-"))))
            .collect();
        let _ = writeln!(
            out,
            "<details><summary>{}: {}, {:.6} USD</summary><p>{} devices a node in the order {}; {} \
             tensor-parallel devices, {} copies, {} stages, {} sequences a microbatch; layers of the stages \
             {}; at most {:.1} GiB a device.</p></details>",
            escaped(&nodes(&point.counts, kinds)),
            secs(plan.expected_secs),
            plan.usd,
            sweep.fleet.per_node,
            runs.join(", "),
            plan.tensor,
            plan.data,
            plan.stages,
            plan.micro_batch,
            shown(&plan.cut),
            plan.memory_gib
        );
    }
    out
}
