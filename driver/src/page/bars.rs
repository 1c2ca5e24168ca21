//! Where the time goes, by op and by source line, as bars.

use super::View;
use super::canvas::{
    BLUE, Canvas, GREEN, GREY, Picture, RED, WIDTH, YELLOW, drawn, fill, legend, short, write,
};
use phzc_io::units::{percent, secs};
use phzc_passes::report::{Bound, Entry};
use plotters::style::RGBColor;
use plotters::style::text_anchor::HPos;
use std::collections::BTreeMap;

/// Bars of a picture.
const MAX_BARS: usize = 14;
/// Margins and sizes, in pixels.
const LEFT: i32 = 330;
const RIGHT: i32 = 190;
const TOP: i32 = 44;
const ROW: i32 = 26;

/// What takes the time, and its colour.
const LEGEND: [(RGBColor, &str); 5] = [
    (BLUE, "matrix units"),
    (GREEN, "vector units"),
    (YELLOW, "memory"),
    (GREY, "launches"),
    (RED, "communication"),
];

/// Seconds by what takes them, as in the legend.
type Parts = [f64; 5];

/// Time by kind of op.
pub(super) fn by_op(view: &View) -> Option<Picture> {
    let svg = bars(view, |entry| Some(entry.op.to_owned()))?;
    Some(Picture {
        name: "ops",
        title: "Time by op",
        alt: format!("Bars of device seconds by kind of op: {}.", svg.1),
        caption: CAPTION.to_owned(),
        svg: svg.0,
    })
}

/// Time by source line, where the program says lines.
pub(super) fn by_source(view: &View) -> Option<Picture> {
    let svg = bars(view, |entry| entry.source.clone())?;
    Some(Picture {
        name: "lines",
        title: "Time by source line",
        alt: format!("Bars of device seconds by source line: {}.", svg.1),
        caption: CAPTION.to_owned(),
        svg: svg.0,
    })
}

/// What stands below bars.
const CAPTION: &str = "Seconds of one step on a device, added up over the stages, with the communication of an op's value; stages run at the same time.";

/// Bars of what instructions are called, longest first, and the first three in words.
fn bars(view: &View, name: impl Fn(&Entry) -> Option<String>) -> Option<(String, String)> {
    let mut sums: BTreeMap<String, Parts> = BTreeMap::new();
    for entry in &view.ledger {
        if let Some(name) = name(entry) {
            add(sums.entry(name).or_default(), entry);
        }
    }
    let all: f64 = sums.values().flatten().sum();
    let mut rows: Vec<(String, Parts)> = sums.into_iter().filter(|(_, parts)| total(parts) > 0.0).collect();
    rows.sort_by(|a, b| total(&b.1).total_cmp(&total(&a.1)));
    let first = rows.iter().take(3).map(|(name, parts)| format!("{name} {}", percent(total(parts) / all)));
    let words = first.collect::<Vec<_>>().join(", ");
    rows.truncate(MAX_BARS);
    let height = TOP + ROW * rows.len() as i32 + 12;
    (!rows.is_empty()).then(|| (drawn(height as u32, |canvas| draw(canvas, &rows, all)), words))
}

fn total(parts: &Parts) -> f64 {
    parts.iter().sum()
}

fn add(parts: &mut Parts, entry: &Entry) {
    let at = match entry.bound {
        Some(Bound::Matrix) => 0,
        Some(Bound::Vector) => 1,
        Some(Bound::Launch) => 3,
        _ => 2,
    };
    parts[at] += entry.kernel_secs;
    parts[4] += entry.moves.iter().map(|it| it.secs).sum::<f64>();
}

fn draw(canvas: &Canvas, rows: &[(String, Parts)], all: f64) {
    legend(canvas, 20, &LEGEND);
    let most = rows.iter().map(|(_, parts)| total(parts)).fold(f64::MIN_POSITIVE, f64::max);
    let width = f64::from(WIDTH as i32 - LEFT - RIGHT);
    for (index, (name, parts)) in rows.iter().enumerate() {
        let y = TOP + ROW * index as i32;
        write(canvas, &short(name, 40), (LEFT - 8, y + 10), HPos::Right);
        let mut before = 0.0;
        for (secs, (color, _)) in parts.iter().zip(LEGEND).filter(|(secs, _)| **secs > 0.0) {
            let x = |sum: f64| LEFT + (sum / most * width).round() as i32;
            fill(canvas, (x(before), y + 2), (x(before + secs) - x(before), ROW - 8), color);
            before += secs;
        }
        let end = LEFT + (before / most * width).round() as i32;
        let text = format!("{} ({})", secs(before), percent(before / all));
        write(canvas, &text, (end + 8, y + 10), HPos::Left);
    }
}
