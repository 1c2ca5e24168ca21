//! Predicted over measured times as a picture: logarithmic axes, the diagonal, one colour per file.

use super::Outcome;
use std::fmt::Write;

/// Width and height of the picture, and the margin around the axes, in pixels.
const SIZE: f64 = 640.0;
const MARGIN: f64 = 56.0;
/// Colours that tell files apart (Okabe and Ito).
const COLORS: [&str; 8] =
    ["#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#000000", "#999999"];

/// The picture as SVG.
pub(crate) fn svg(outcomes: &[Outcome]) -> String {
    let points = |one: &Outcome| one.rows.iter().filter_map(|row| row.secs).collect::<Vec<[f64; 2]>>();
    let all: Vec<f64> = outcomes.iter().flat_map(|one| points(one).into_iter().flatten()).collect();
    let least = all.iter().copied().fold(f64::INFINITY, f64::min);
    let most = all.iter().copied().fold(0.0, f64::max);
    if all.is_empty() {
        return frame("");
    }
    let (low, high) = (least.log10().floor(), most.log10().ceil().max(least.log10().floor() + 1.0));
    let at = |secs: f64| MARGIN + (secs.log10() - low) / (high - low) * (SIZE - 2.0 * MARGIN);
    let mut body = axes(low, high, &at);
    for (index, one) in outcomes.iter().enumerate() {
        let color = COLORS[index % COLORS.len()];
        for [measured, predicted] in points(one) {
            let (x, y) = (at(measured), SIZE - at(predicted));
            let _ = writeln!(
                body,
                r#"<circle cx="{x:.1}" cy="{y:.1}" r="2.5" fill="{color}" fill-opacity="0.6"/>"#
            );
        }
        let y = MARGIN + 14.0 * index as f64;
        let name = escaped(&one.score.file);
        let _ = writeln!(body, r#"<text x="{:.0}" y="{y:.0}" fill="{color}">{name}</text>"#, MARGIN + 8.0);
    }
    frame(&body)
}

fn frame(body: &str) -> String {
    let open = format!(
        r#"<svg xmlns="http://www.w3.org/2000/svg" width="{SIZE}" height="{SIZE}" font-family="sans-serif" font-size="11">"#
    );
    format!("{open}\n<rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n{body}</svg>\n")
}

/// The decades, and the line where prediction and measurement agree.
fn axes(low: f64, high: f64, at: &impl Fn(f64) -> f64) -> String {
    let (first, last) = (at(10_f64.powf(low)), at(10_f64.powf(high)));
    let mut out = format!(
        "<line x1=\"{first:.1}\" y1=\"{:.1}\" x2=\"{last:.1}\" y2=\"{:.1}\" stroke=\"black\"/>\n",
        SIZE - first,
        SIZE - last
    );
    for power in low as i32..=high as i32 {
        let place = at(10_f64.powi(power));
        let (left, bottom) = (MARGIN - 6.0, SIZE - MARGIN + 16.0);
        let _ = writeln!(
            out,
            r##"<path d="M{place:.1} {MARGIN} V{:.1} M{MARGIN} {:.1} H{:.1}" stroke="#dddddd"/>"##,
            SIZE - MARGIN,
            SIZE - place,
            SIZE - MARGIN
        );
        let _ = writeln!(out, r#"<text x="{place:.1}" y="{bottom}" text-anchor="middle">1e{power}</text>"#);
        let _ =
            writeln!(out, r#"<text x="{left}" y="{:.1}" text-anchor="end">1e{power}</text>"#, SIZE - place);
    }
    let _ = writeln!(
        out,
        r#"<text x="{:.0}" y="{:.0}" text-anchor="middle">measured s</text>"#,
        SIZE / 2.0,
        SIZE - 12.0
    );
    let _ = writeln!(
        out,
        r#"<text x="14" y="{:.0}" text-anchor="middle" transform="rotate(-90 14 {:.0})">predicted s</text>"#,
        SIZE / 2.0,
        SIZE / 2.0
    );
    out
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;")
}
