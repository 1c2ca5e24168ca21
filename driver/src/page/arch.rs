//! `phzc arch --html`: accelerators and their front, time against area, what bounds each operator.

use super::canvas::{
    BLUE, COLORS, Canvas, GREEN, GREY, LIGHT, Picture, RED, VIOLET, WIDTH, YELLOW, drawn, fill, legend, ok,
    short, ticks, write,
};
use super::tables::table;
use super::{document, figure};
use phzc_arch::estimate::{Bound, Operator};
use phzc_io::units::{percent, secs};
use phzc_lab::arch::{ArchPage, LayerOperators, ModePage, Shown};
use plotters::element::{Circle, PathElement};
use plotters::style::text_anchor::HPos;
use plotters::style::{Color, RGBColor};

/// Margins and heights, in pixels.
const LEFT: i32 = 90;
const NAMES: i32 = 400;
const TOP: i32 = 44;
const HIGH: i32 = 320;
const WIDE: i32 = WIDTH as i32 - LEFT - 40;
const ROW: i32 = 26;
/// Operators of a picture.
const MAX_BARS: usize = 12;
/// Operators of a table.
const MAX_OPERATORS: usize = 60;

/// What bounds an operator, and its colour.
const BOUNDS: [(RGBColor, &str, Bound); 5] = [
    (BLUE, "tensor cores", Bound::TensorCores),
    (GREEN, "vector cores", Bound::VectorCores),
    (YELLOW, "HBM", Bound::Hbm),
    (VIOLET, "core buffers", Bound::CoreBuffers),
    (RED, "global buffer", Bound::GlobalBuffer),
];

/// The whole page.
pub(crate) fn html(page: &ArchPage) -> String {
    let title = format!("Accelerators for {}", page.models.join(", "));
    let sections: Vec<(String, String, String)> =
        page.modes.iter().flat_map(|mode| sections(page, mode)).collect();
    let sections: Vec<(&str, &str, String)> =
        sections.iter().map(|(id, title, body)| (id.as_str(), title.as_str(), body.clone())).collect();
    document(&title, "", &sections)
}

fn sections(page: &ArchPage, mode: &ModePage) -> Vec<(String, String, String)> {
    let titled = |what: &str| format!("{what}, mode {}", mode.name);
    let id = |what: &str| format!("{what}-{}", mode.name);
    let area = format!("<p>{}</p>\n{}", super::escaped(mode.heading.trim()), time_against_area(page, mode));
    let mut found = vec![
        (id("area"), titled("Time against area"), area),
        (id("accelerators"), titled("Accelerators"), accelerators(page, mode)),
    ];
    for (at, (model, layers)) in page.models.iter().zip(&mode.operators).enumerate() {
        let rows = longest(layers);
        if !rows.is_empty() {
            let body = bars(model, mode.name, &rows) + &operators(&rows);
            let title = titled(&format!("What bounds {} on its best accelerator", super::escaped(model)));
            found.push((id(&format!("bounds-{at}")), title, body));
        }
    }
    found
}

/// By model: area and time, which is over that of the fastest where there are several models.
fn points(page: &ArchPage, mode: &ModePage) -> Vec<Vec<(f64, f64)>> {
    let of = |model: usize| {
        let point = |it: &Shown| Some((it.area_mm2, it.step_secs[model]?));
        let mut points: Vec<(f64, f64)> = mode.accelerators.iter().filter_map(point).collect();
        let least = points.iter().map(|it| it.1).fold(f64::INFINITY, f64::min);
        if page.models.len() > 1 {
            points.iter_mut().for_each(|it| it.1 /= least);
        }
        points
    };
    (0..page.models.len()).map(of).collect()
}

fn time_against_area(page: &ArchPage, mode: &ModePage) -> String {
    let points = points(page, mode);
    let svg = drawn((TOP + HIGH + 50) as u32, |canvas| draw(canvas, page, &points));
    let n_shown = mode.accelerators.len();
    figure(&Picture {
        name: "area",
        title: "Time against area",
        alt: format!("Seconds of a step of {} accelerators against their areas, by model.", n_shown),
        caption:
            "One dot per accelerator and model; the front is of throughput against area and power, so that \
                  some accelerators on it are slower and take less power."
                .to_owned(),
        svg,
    })
}

/// Where areas and times are drawn.
struct Scale {
    /// The largest area and the longest time that there is room for.
    ends: [f64; 2],
}

impl Scale {
    fn of(points: &[Vec<(f64, f64)>]) -> Scale {
        let mut ends = [f64::MIN_POSITIVE; 2];
        for (area, time) in points.iter().flatten() {
            ends = [ends[0].max(1.05 * area), ends[1].max(1.05 * time)];
        }
        Scale { ends }
    }

    fn x(&self, area: f64) -> i32 {
        LEFT + (area / self.ends[0] * f64::from(WIDE)).round() as i32
    }

    fn y(&self, time: f64) -> i32 {
        TOP + HIGH - (time / self.ends[1] * f64::from(HIGH)).round() as i32
    }
}

fn draw(canvas: &Canvas, page: &ArchPage, points: &[Vec<(f64, f64)>]) {
    let colors = || COLORS.into_iter().cycle();
    let entries: Vec<(RGBColor, &str)> = colors().zip(page.models.iter().map(String::as_str)).collect();
    legend(canvas, 20, &entries);
    let scale = Scale::of(points);
    axes(canvas, &scale, points.len() > 1);
    for (points, color) in points.iter().zip(colors()) {
        for (area, time) in points {
            ok(canvas.draw(&Circle::new((scale.x(*area), scale.y(*time)), 5, color.filled())));
        }
    }
}

/// `is_ratio`: times are over the fastest one's.
fn axes(canvas: &Canvas, scale: &Scale, is_ratio: bool) {
    for at in ticks(scale.ends[1]) {
        line(canvas, vec![(LEFT, scale.y(at)), (LEFT + WIDE, scale.y(at))], LIGHT);
        let text = if is_ratio { format!("{at:.1}") } else { secs(at) };
        write(canvas, &text, (LEFT - 8, scale.y(at)), HPos::Right);
    }
    for at in ticks(scale.ends[0]) {
        write(canvas, &format!("{at:.0} mm2"), (scale.x(at), TOP + HIGH + 18), HPos::Center);
    }
    let what = if is_ratio { "time per step over the fastest's" } else { "time per step" };
    write(canvas, &format!("{what} against area"), (LEFT + WIDE, TOP + HIGH + 38), HPos::Right);
    line(canvas, vec![(LEFT, TOP), (LEFT, TOP + HIGH), (LEFT + WIDE, TOP + HIGH)], GREY);
}

fn line(canvas: &Canvas, points: Vec<(i32, i32)>, color: RGBColor) {
    ok(canvas.draw(&PathElement::new(points, color.stroke_width(1))));
}

fn accelerators(page: &ArchPage, mode: &ModePage) -> String {
    let models = page.models.iter().map(|name| super::escaped(name));
    let header: Vec<String> =
        ["", "accelerator", "mm2", "W"].map(str::to_owned).into_iter().chain(models).collect();
    let header: Vec<&str> = header.iter().map(String::as_str).collect();
    let numbers: Vec<usize> = (2..header.len()).collect();
    let rows = mode.accelerators.iter().map(|it| {
        let mut cells = vec![it.label.clone(), it.name.clone()];
        cells.extend([format!("{:.1}", it.area_mm2), format!("{:.0}", it.watts)]);
        cells.extend(it.step_secs.iter().map(|step| step.map_or("does not fit".to_owned(), secs)));
        cells
    });
    format!("<p>Time per step of each model.</p>\n{}", table("Accelerators", &header, &numbers, rows))
}

/// An operator with the layers that it is in and its seconds over all of them.
struct Row<'a> {
    layer: &'a LayerOperators,
    operator: &'a Operator,
    secs: f64,
    share: f64,
}

/// The longest first.
fn longest(layers: &[LayerOperators]) -> Vec<Row<'_>> {
    let mut rows: Vec<Row> = Vec::new();
    for layer in layers {
        let row = |operator| Row { layer, operator, secs: layer.n_layers as f64 * operator.secs, share: 0.0 };
        rows.extend(layer.operators.iter().map(row).filter(|row: &Row| row.secs > 0.0));
    }
    let all: f64 = rows.iter().map(|row| row.secs).sum();
    rows.iter_mut().for_each(|row| row.share = row.secs / all);
    rows.sort_by(|a, b| b.secs.total_cmp(&a.secs));
    rows
}

fn words(bound: Bound) -> (RGBColor, &'static str) {
    BOUNDS.into_iter().find(|it| it.2 == bound).map_or((GREY, ""), |it| (it.0, it.1))
}

fn bars(model: &str, mode: &str, rows: &[Row]) -> String {
    let shown = &rows[..rows.len().min(MAX_BARS)];
    let svg = drawn((TOP + ROW * shown.len() as i32 + 12) as u32, |canvas| draw_bars(canvas, shown));
    let sums = BOUNDS.iter().filter_map(|(_, name, bound)| {
        let share: f64 = rows.iter().filter(|row| row.operator.bound == *bound).map(|row| row.share).sum();
        (share > 0.0).then(|| format!("{name} {}", percent(share)))
    });
    figure(&Picture {
        name: "bounds",
        title: "What bounds each operator",
        alt: format!("The operators of {model} that take longest in mode {mode}, by what bounds them."),
        caption: format!(
            "Seconds of one microbatch, and of one update, over all layers. What all of it waits for: {}.",
            sums.collect::<Vec<_>>().join(", ")
        ),
        svg,
    })
}

fn draw_bars(canvas: &Canvas, rows: &[Row]) {
    legend(canvas, 20, &BOUNDS.map(|(color, name, _)| (color, name)));
    let most = rows.first().map_or(1.0, |row| row.secs);
    let width = f64::from(WIDTH as i32 - NAMES - 170);
    for (index, row) in rows.iter().enumerate() {
        let y = TOP + ROW * index as i32;
        let name = format!("{} {}", row.operator.pass, row.operator.name);
        write(canvas, &short(&name, 48), (NAMES - 8, y + 10), HPos::Right);
        let long = (row.secs / most * width).round() as i32;
        fill(canvas, (NAMES, y + 2), (long, ROW - 8), words(row.operator.bound).0);
        let text = format!("{} ({})", secs(row.secs), percent(row.share));
        write(canvas, &text, (NAMES + long + 8, y + 10), HPos::Left);
    }
}

fn operators(rows: &[Row]) -> String {
    let header = ["layer", "layers", "pass", "operator", "bound by", "time", "share"];
    let cells = |row: &Row| {
        vec![
            row.layer.name.clone(),
            row.layer.n_layers.to_string(),
            row.operator.pass.to_owned(),
            row.operator.name.clone(),
            words(row.operator.bound).1.to_owned(),
            secs(row.secs),
            percent(row.share),
        ]
    };
    let listed = table("Operators", &header, &[1, 5, 6], rows.iter().take(MAX_OPERATORS).map(cells));
    let n_more = rows.len().saturating_sub(MAX_OPERATORS);
    if n_more > 0 { format!("{listed}<p>And {n_more} shorter ones.</p>\n") } else { listed }
}
