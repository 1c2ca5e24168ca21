//! The schedule: what each device group does when.

use super::View;
use super::canvas::{
    BLUE, Canvas, GREEN, GREY, LIGHT, Picture, RED, VIOLET, WIDTH, YELLOW, drawn, fill, legend, ticks, write,
};
use phzc_io::units::{percent, secs};
use phzc_passes::report::{StepEvent, TaskKind, When};
use plotters::style::RGBColor;
use plotters::style::text_anchor::HPos;

/// Rows that are drawn.
const MAX_GROUPS: usize = 32;
/// Margins and sizes, in pixels.
const LEFT: i32 = 16;
const TOP: i32 = 44;
const ROW: i32 = 52;
const BAR: i32 = 22;

/// What colours mean.
const LEGEND: [(RGBColor, &str); 6] = [
    (BLUE, "forward"),
    (YELLOW, "recompute"),
    (GREEN, "backward"),
    (GREY, "weight gradient"),
    (VIOLET, "update"),
    (RED, "sends"),
];

/// A stretch of one colour.
#[derive(Clone, Copy)]
struct Stretch {
    group: usize,
    color: RGBColor,
    when: When,
}

/// One row per device group.
pub(super) fn picture(view: &View) -> Picture {
    let n_groups = view.step.groups.len();
    let n_shown = n_groups.min(MAX_GROUPS);
    let height = TOP + ROW * n_shown as i32 + 40;
    let svg = drawn(height as u32, |canvas| draw(view, canvas, n_shown));
    let step = secs(view.step.secs);
    let idle = view.plan.breakdown.bubble_secs / view.plan.time_secs.max(f64::MIN_POSITIVE);
    let left_out = if n_groups > n_shown {
        format!(" The first {n_shown} of {n_groups} groups.")
    } else {
        String::new()
    };
    Picture {
        name: "timeline",
        title: "Schedule",
        alt: format!(
            "Timeline of {n_groups} device groups over {step}: tasks of every microbatch, sends and updates."
        ),
        caption: format!(
            "One step, by the replay of the schedule {}: a row per device group. The group that is busy longest waits {} of the step.{left_out}",
            view.plan.schedule,
            percent(idle)
        ),
        svg,
    }
}

fn draw(view: &View, canvas: &Canvas, n_shown: usize) {
    legend(canvas, 20, &LEGEND);
    let (end, width) = (view.step.secs.max(f64::MIN_POSITIVE), WIDTH as i32 - 2 * LEFT);
    let x = |at: f64| LEFT + (at / end * f64::from(width)).round() as i32;
    for (group, name) in view.step.groups.iter().take(n_shown).enumerate() {
        let y = TOP + ROW * group as i32;
        write(canvas, name, (LEFT, y + 9), HPos::Left);
        fill(canvas, (LEFT, y + 20), (width, BAR), LIGHT);
    }
    for it in stretches(view, end / f64::from(width)).iter().filter(|it| it.group < n_shown) {
        let is_send = it.color == RED;
        let y = TOP + ROW * it.group as i32 + 20;
        let (y, high) = if is_send { (y + BAR, 4) } else { (y, BAR) };
        let (from, to) = (x(it.when.from_secs), x(it.when.to_secs.min(end)));
        fill(canvas, (from, y), ((to - from - 1).max(1), high), it.color);
    }
    let bottom = TOP + ROW * n_shown as i32 + 16;
    for at in ticks(end) {
        let anchor = if at == 0.0 { HPos::Left } else { HPos::Center };
        write(canvas, &secs(at), (x(at).min(WIDTH as i32 - 30), bottom), anchor);
    }
}

/// What is to be drawn; neighbors of one colour that a pixel cannot tell apart are one.
fn stretches(view: &View, pixel_secs: f64) -> Vec<Stretch> {
    let mut found: Vec<Stretch> = Vec::new();
    let mut last: Vec<[Option<usize>; 2]> = vec![[None; 2]; view.step.groups.len()];
    for it in view.step.events.iter().filter_map(|event| stretch(view, event)) {
        let row = &mut last[it.group][usize::from(it.color == RED)];
        let is_short = it.when.to_secs - it.when.from_secs < 1.5 * pixel_secs;
        match row.map(|at| &mut found[at]) {
            Some(before)
                if is_short
                    && before.color == it.color
                    && it.when.from_secs - before.when.to_secs < pixel_secs =>
            {
                before.when.to_secs = before.when.to_secs.max(it.when.to_secs);
            }
            _ => {
                *row = Some(found.len());
                found.push(it);
            }
        }
    }
    found
}

fn stretch(view: &View, event: &StepEvent) -> Option<Stretch> {
    let group = |stage: usize| view.facts.header.group(stage);
    Some(match *event {
        StepEvent::Task { kind, stage, when, .. } => {
            let color = match kind {
                TaskKind::Forward => BLUE,
                TaskKind::Recompute => YELLOW,
                TaskKind::Backward => GREEN,
                TaskKind::WeightGradient => GREY,
            };
            Stretch { group: group(stage), color, when }
        }
        StepEvent::Transfer { stage, when, .. } => Stretch { group: group(stage), color: RED, when },
        StepEvent::Update { group, when } => Stretch { group, color: VIOLET, when },
        StepEvent::Memory { .. } | StepEvent::Op { .. } => return None,
    })
}
