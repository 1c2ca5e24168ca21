//! Drawing with plotters into text: colours, type sizes and legends that all pictures share.

use plotters::coord::Shift;
use plotters::prelude::{DrawingArea, IntoDrawingArea, IntoFont, Rectangle, SVGBackend, Text, WHITE};
use plotters::style::text_anchor::{HPos, Pos, VPos};
use plotters::style::{Color, RGBColor, TextStyle};

/// A drawn picture.
pub(super) struct Picture {
    /// Of its file and its section.
    pub name: &'static str,
    /// In a few words.
    pub title: &'static str,
    /// What it shows, for those who do not see it.
    pub alt: String,
    /// What stands below it.
    pub caption: String,
    /// The picture, an XML document.
    pub svg: String,
}

/// What is drawn on.
pub(super) type Canvas<'a> = DrawingArea<SVGBackend<'a>, Shift>;

/// Width of all pictures, in pixels.
pub(super) const WIDTH: u32 = 1080;
/// Size of type, in pixels.
pub(super) const TYPE: i32 = 15;

/// Colours that are told apart also by those who see few.
pub(super) const BLUE: RGBColor = RGBColor(0x33, 0x6f, 0xb0);
pub(super) const GREEN: RGBColor = RGBColor(0x4f, 0xa0, 0x6a);
pub(super) const YELLOW: RGBColor = RGBColor(0xe8, 0xb2, 0x3a);
pub(super) const RED: RGBColor = RGBColor(0xc8, 0x4a, 0x3c);
pub(super) const VIOLET: RGBColor = RGBColor(0x8a, 0x62, 0xa8);
pub(super) const GREY: RGBColor = RGBColor(0x8c, 0x95, 0x9f);
pub(super) const INK: RGBColor = RGBColor(0x1b, 0x1f, 0x24);
pub(super) const LIGHT: RGBColor = RGBColor(0xe4, 0xe9, 0xee);

/// Colours of things without an order.
pub(super) const COLORS: [RGBColor; 6] = [BLUE, RED, GREEN, VIOLET, YELLOW, GREY];

/// What `draw` draws, as SVG.
pub(super) fn drawn(height: u32, draw: impl FnOnce(&Canvas)) -> String {
    let mut svg = String::new();
    {
        let canvas = SVGBackend::with_string(&mut svg, (WIDTH, height)).into_drawing_area();
        ok(canvas.fill(&WHITE));
        draw(&canvas);
        ok(canvas.present());
    }
    svg
}

/// Drawing into a text cannot fail.
pub(super) fn ok<T, E: std::fmt::Debug>(result: Result<T, E>) -> T {
    result.expect("a text takes every picture")
}

/// Type of the usual size.
pub(super) fn type_of(anchor: HPos) -> TextStyle<'static> {
    ("sans-serif", TYPE).into_font().color(&INK).pos(Pos::new(anchor, VPos::Center))
}

/// A line of type, its left or right end or its middle at a point.
pub(super) fn write(canvas: &Canvas, text: &str, at: (i32, i32), anchor: HPos) {
    ok(canvas.draw(&Text::new(text.to_owned(), at, type_of(anchor))));
}

/// A filled box with a left upper corner and a size.
pub(super) fn fill(canvas: &Canvas, (x, y): (i32, i32), (width, height): (i32, i32), color: RGBColor) {
    ok(canvas.draw(&Rectangle::new([(x, y), (x + width, y + height)], color.filled())));
}

/// What colours mean, in a line at a height.
pub(super) fn legend(canvas: &Canvas, y: i32, entries: &[(RGBColor, &str)]) {
    let mut x = 16;
    for (color, text) in entries {
        fill(canvas, (x, y - 6), (12, 12), *color);
        write(canvas, text, (x + 18, y), HPos::Left);
        x += 44 + (text.chars().count() as i32 * TYPE * 11) / 20;
    }
}

/// At most so many characters of a text.
pub(super) fn short(text: &str, n_chars: usize) -> String {
    match text.chars().count() > n_chars {
        true => text.chars().take(n_chars - 1).chain(['\u{2026}']).collect(),
        false => text.to_owned(),
    }
}

/// Round steps of an axis from nothing to an end: three to six of them.
pub(super) fn ticks(end: f64) -> Vec<f64> {
    if end <= 0.0 || !end.is_finite() {
        return vec![0.0];
    }
    let power = 10f64.powf((end / 3.0).log10().floor());
    let step =
        [5.0, 2.0, 1.0].into_iter().map(|it| it * power).find(|step| end / step >= 3.0).unwrap_or(power);
    (0..).map(|index| f64::from(index) * step).take_while(|at| *at <= end * (1.0 + 1e-9)).collect()
}

#[cfg(test)]
mod tests {
    use super::{drawn, short, ticks, write};
    use plotters::style::text_anchor::HPos;

    #[test]
    fn axes_have_three_to_six_round_steps() {
        assert_eq!(ticks(1.0), [0.0, 0.2, 0.4, 0.6000000000000001, 0.8, 1.0]);
        assert_eq!(ticks(35.0), [0.0, 10.0, 20.0, 30.0]);
        assert_eq!(ticks(0.0), [0.0]);
        for end in [1e-6, 0.37, 9.99, 123.0, 8e10] {
            assert!((4..=7).contains(&ticks(end).len()), "{end}: {:?}", ticks(end));
        }
    }

    #[test]
    fn what_a_program_calls_things_is_escaped_in_pictures() {
        let svg = drawn(40, |canvas| write(canvas, "a<b>&c", (0, 20), HPos::Left));
        assert!(svg.contains("a&lt;b&gt;&amp;c"), "{svg}");
        assert_eq!(short("abcdef", 4), "abc\u{2026}");
    }
}
