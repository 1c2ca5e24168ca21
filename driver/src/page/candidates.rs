//! The plans that the search has kept: time against memory.

use super::View;
use super::canvas::{BLUE, Canvas, GREY, LIGHT, Picture, RED, WIDTH, drawn, legend, ok, ticks, write};
use crate::compare::most_bytes;
use phzc_io::units::{bytes, secs};
use plotters::element::{Circle, PathElement};
use plotters::style::text_anchor::HPos;
use plotters::style::{Color, RGBColor};

/// Margins and the height of the plot, in pixels.
const LEFT: i32 = 90;
const TOP: i32 = 44;
const HIGH: i32 = 280;

/// A point per plan; nothing where only one is known.
pub(super) fn picture(view: &View) -> Option<Picture> {
    if view.alternatives.len() < 2 {
        return None;
    }
    let points: Vec<(f64, f64)> =
        view.alternatives.iter().map(|it| (it.plan.time_secs, most_bytes(&it.plan))).collect();
    let svg = drawn((TOP + HIGH + 50) as u32, |canvas| draw(canvas, &points));
    let slowest = points.iter().map(|(time, _)| *time).fold(0.0, f64::max);
    Some(Picture {
        name: "candidates",
        title: "Candidates of the search",
        alt: format!("{} plans, time per step against memory of a device.", points.len()),
        caption: format!(
            "The {} best plans that the search has kept (`--top`): {} to {} per step.",
            points.len(),
            secs(points[0].0),
            secs(slowest)
        ),
        svg,
    })
}

fn draw(canvas: &Canvas, points: &[(f64, f64)]) {
    legend(canvas, 20, &[(RED, "chosen"), (BLUE, "others")]);
    let (last, top) = (end(points.iter().map(|it| it.0)), end(points.iter().map(|it| it.1)));
    let width = WIDTH as i32 - LEFT - 40;
    let x = |at: f64| LEFT + (at / last * f64::from(width)).round() as i32;
    let y = |at: f64| TOP + HIGH - (at / top * f64::from(HIGH)).round() as i32;
    let gib = (1u64 << 30) as f64;
    for at in ticks(top / gib).into_iter().map(|at| at * gib) {
        path(canvas, vec![(LEFT, y(at)), (LEFT + width, y(at))], LIGHT);
        write(canvas, &bytes(at), (LEFT - 8, y(at)), HPos::Right);
    }
    for at in ticks(last) {
        write(canvas, &secs(at), (x(at), TOP + HIGH + 18), HPos::Center);
    }
    write(canvas, "time per step", (LEFT + width, TOP + HIGH + 38), HPos::Right);
    path(canvas, vec![(LEFT, TOP), (LEFT, TOP + HIGH), (LEFT + width, TOP + HIGH)], GREY);
    for (index, point) in points.iter().enumerate().rev() {
        let color = if index == 0 { RED } else { BLUE };
        ok(canvas.draw(&Circle::new((x(point.0), y(point.1)), 6, color.filled())));
    }
}

/// Where an axis ends: a little behind the largest value.
fn end(values: impl Iterator<Item = f64>) -> f64 {
    1.05 * values.fold(f64::MIN_POSITIVE, f64::max)
}

fn path(canvas: &Canvas, points: Vec<(i32, i32)>, color: RGBColor) {
    ok(canvas.draw(&PathElement::new(points, color.stroke_width(1))));
}
