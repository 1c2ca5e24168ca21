//! Memory of a device of each group over the step, below its limit.

use super::View;
use super::canvas::{
    COLORS, Canvas, GREY, INK, LIGHT, Picture, WIDTH, drawn, legend, ok, short, ticks, write,
};
use crate::compare::most_bytes;
use phzc_io::units::{bytes, percent, secs};
use phzc_passes::report::StepEvent;
use plotters::element::PathElement;
use plotters::style::text_anchor::HPos;
use plotters::style::{Color, RGBColor};

/// Groups that are drawn, each in its colour.
const MAX_GROUPS: usize = COLORS.len();
/// Margins and the height of the plot, in pixels.
const LEFT: i32 = 90;
const TOP: i32 = 44;
const HIGH: i32 = 260;

/// A line per group; nothing where no memory is followed.
pub(super) fn picture(view: &View) -> Option<Picture> {
    let groups = fullest(view);
    let (most, limit) = (most_bytes(view.plan), view.plan.one_memory_limit_bytes());
    let top = limit.unwrap_or(f64::INFINITY).min(1.25 * most).max(most);
    if groups.is_empty() || top <= 0.0 {
        return None;
    }
    let svg = drawn((TOP + HIGH + 40) as u32, |canvas| draw(view, canvas, &groups, top));
    let most = bytes(most);
    let held = match limit {
        Some(limit) => format!("at most {most}, the limit is {}", bytes(limit)),
        None => format!(
            "at most {most}, and {} of the limit of its device",
            percent(view.plan.most_memory_share())
        ),
    };
    let left_out = view.step.groups.len() - groups.len();
    let more = if left_out > 0 { format!(" The {} fullest groups.", groups.len()) } else { String::new() };
    Some(Picture {
        name: "memory",
        title: "Memory over time",
        alt: format!("Memory of a device over the step: {held}."),
        caption: format!(
            "Memory of each device of a group: {held}. What holds it at the peak is in the table below.{more}"
        ),
        svg,
    })
}

/// The groups whose devices need most, in order.
fn fullest(view: &View) -> Vec<usize> {
    let peak = |group: usize| {
        let of = |event: &StepEvent| match *event {
            StepEvent::Memory { group: own, bytes, .. } if own == group => bytes,
            _ => 0.0,
        };
        view.step.events.iter().map(of).fold(0.0, f64::max)
    };
    let mut all: Vec<(usize, f64)> = (0..view.step.groups.len()).map(|group| (group, peak(group))).collect();
    all.retain(|(_, peak)| *peak > 0.0);
    all.sort_by(|a, b| b.1.total_cmp(&a.1).then(a.0.cmp(&b.0)));
    all.truncate(MAX_GROUPS);
    let mut groups: Vec<usize> = all.into_iter().map(|(group, _)| group).collect();
    groups.sort_unstable();
    groups
}

fn draw(view: &View, canvas: &Canvas, groups: &[usize], top: f64) {
    let names: Vec<String> = groups.iter().map(|&group| short(&view.step.groups[group], 17)).collect();
    let entries: Vec<(RGBColor, &str)> = COLORS.into_iter().zip(names.iter().map(String::as_str)).collect();
    legend(canvas, 20, &entries);
    let (end, width) = (view.step.secs.max(f64::MIN_POSITIVE), WIDTH as i32 - LEFT - 20);
    let x = |at: f64| LEFT + (at.min(end) / end * f64::from(width)).round() as i32;
    let y = |bytes: f64| TOP + HIGH - (bytes.min(top) / top * f64::from(HIGH)).round() as i32;
    for at in ticks(top / GIB) {
        line(canvas, vec![(LEFT, y(at * GIB)), (LEFT + width, y(at * GIB))], LIGHT, 1);
        write(canvas, &bytes(at * GIB), (LEFT - 8, y(at * GIB)), HPos::Right);
    }
    for at in ticks(end) {
        write(canvas, &secs(at), (x(at).min(WIDTH as i32 - 40), TOP + HIGH + 20), HPos::Center);
    }
    if let Some(at) = view.plan.one_memory_limit_bytes().filter(|&limit| limit <= top).map(y) {
        line(canvas, vec![(LEFT, at), (LEFT + width, at)], INK, 2);
        write(canvas, "limit", (LEFT + width, at + 12), HPos::Right);
    }
    for (&group, color) in groups.iter().zip(COLORS) {
        line(canvas, steps(view, group, (&x, &y), LEFT + width), color, 2);
    }
    line(canvas, vec![(LEFT, TOP), (LEFT, TOP + HIGH), (LEFT + width, TOP + HIGH)], GREY, 1);
}

/// A GiB.
const GIB: f64 = (1u64 << 30) as f64;

/// A group's memory as corners of a line: of what one column of pixels shows, the most.
fn steps(
    view: &View,
    group: usize,
    (x, y): (&dyn Fn(f64) -> i32, &dyn Fn(f64) -> i32),
    end: i32,
) -> Vec<(i32, i32)> {
    let mut columns: Vec<(i32, i32)> = Vec::new();
    for event in &view.step.events {
        let StepEvent::Memory { group: own, at_secs, bytes } = *event else { continue };
        if own != group {
            continue;
        }
        match columns.last_mut() {
            Some((at, high)) if *at == x(at_secs) => *high = (*high).min(y(bytes)),
            _ => columns.push((x(at_secs), y(bytes))),
        }
    }
    let mut corners: Vec<(i32, i32)> = Vec::new();
    for (at, high) in columns {
        if let Some(&(_, before)) = corners.last() {
            corners.push((at, before));
        }
        corners.push((at, high));
    }
    corners.extend(corners.last().map(|&(_, high)| (end, high)));
    corners
}

fn line(canvas: &Canvas, points: Vec<(i32, i32)>, color: RGBColor, width: u32) {
    ok(canvas.draw(&PathElement::new(points, color.stroke_width(width))));
}
