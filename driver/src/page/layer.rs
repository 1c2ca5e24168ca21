//! One layer's forward products with their layouts, and the communication before each.

use super::View;
use super::canvas::{BLUE, Canvas, INK, LIGHT, Picture, RED, WIDTH, drawn, fill, ok, short, write};
use phzc_io::units::{bytes, secs};
use phzc_passes::derive::Phase;
use phzc_passes::report::{Entry, Movement};
use plotters::element::PathElement;
use plotters::style::Color;
use plotters::style::text_anchor::HPos;

/// Products that are drawn.
const MAX_PRODUCTS: usize = 16;
/// Sizes, in pixels.
const LEFT: i32 = 16;
const BOX: i32 = 54;
const LINE: i32 = 24;

/// A product, and the communication between it and the one before.
struct Node<'a> {
    product: &'a Entry,
    moves: Vec<&'a Movement>,
}

impl Node<'_> {
    /// What makes products of two layers alike.
    fn kind(&self) -> (&str, &str) {
        (&self.product.shape, &self.product.layout)
    }

    fn height(&self) -> i32 {
        BOX + 14 + LINE * self.moves.len() as i32
    }
}

/// The products of the first layer, or the first ones where none repeat; nothing where there are none.
pub(super) fn picture(view: &View) -> Option<Picture> {
    let all = nodes(&view.ledger);
    let (from, n) = layer(&all);
    let shown = &all[from..(from + n).min(from + MAX_PRODUCTS)];
    if shown.is_empty() {
        return None;
    }
    let height = 20 + shown.iter().map(Node::height).sum::<i32>();
    let svg = drawn(height as u32, |canvas| draw(canvas, shown));
    let n_moves: usize = shown.iter().map(|node| node.moves.len()).sum();
    let left_out = n.saturating_sub(shown.len());
    let more = if left_out > 0 { format!(" and {left_out} more") } else { String::new() };
    Some(Picture {
        name: "layer",
        title: "A layer, its layouts and its communication",
        alt: format!(
            "{} products of the forward part in order, with {n_moves} collectives between them.",
            shown.len()
        ),
        caption: format!(
            "{} of {} products of the forward part, in the program's order{more}: type, mesh axes that split each dimension, time per step. In red the communication since the product before.",
            shown.len(),
            all.len()
        ),
        svg,
    })
}

/// The products of the forward part; what follows the last one is left out.
fn nodes(ledger: &[Entry]) -> Vec<Node<'_>> {
    let (mut found, mut moves): (Vec<Node>, Vec<&Movement>) = (Vec::new(), Vec::new());
    for entry in ledger.iter().filter(|entry| entry.phase == Phase::Forward) {
        let is_product = ["dot", "convolution"].contains(&entry.op) && entry.kernel_secs > 0.0;
        if is_product {
            found.push(Node { product: entry, moves: std::mem::take(&mut moves) });
        }
        moves.extend(&entry.moves);
    }
    found
}

/// The first stretch of products that comes twice in a row, shortest first: its start and its length; all
/// of them where none does. A stretch of equal products is one product.
fn layer(all: &[Node]) -> (usize, usize) {
    for length in 2..=all.len() / 2 {
        for from in 0..=all.len() - 2 * length {
            let stretch = |at: usize| all[at..at + length].iter().map(Node::kind);
            let is_mixed = stretch(from).any(|kind| kind != all[from].kind());
            if is_mixed && stretch(from).eq(stretch(from + length)) {
                return (from, length);
            }
        }
    }
    (0, all.len())
}

fn draw(canvas: &Canvas, nodes: &[Node]) {
    let mut y = 10;
    let width = WIDTH as i32 - 2 * LEFT;
    for node in nodes {
        let end = y + 14 + LINE * node.moves.len() as i32;
        ok(canvas.draw(&PathElement::new(vec![(LEFT + 30, y), (LEFT + 30, end)], INK.stroke_width(2))));
        for (index, it) in node.moves.iter().enumerate() {
            let at = y + 16 + LINE * index as i32;
            fill(canvas, (LEFT + 22, at - 8), (16, 16), RED);
            let text = format!(
                "{} over {}: {} x {}, {}",
                it.kind,
                it.axes,
                it.times,
                bytes(it.bytes / it.times.max(1) as f64),
                secs(it.secs)
            );
            write(canvas, &text, (LEFT + 50, at), HPos::Left);
        }
        fill(canvas, (LEFT, end), (width, BOX - 6), LIGHT);
        fill(canvas, (LEFT, end), (6, BOX - 6), BLUE);
        let source = node.product.source.as_ref().map_or_else(String::new, |source| format!(" at {source}"));
        write(
            canvas,
            &short(&format!("{}{source}", node.product.name), 90),
            (LEFT + 18, end + 14),
            HPos::Left,
        );
        let text = format!("{} {}", node.product.shape, node.product.layout);
        write(canvas, &short(&text, 100), (LEFT + 18, end + 35), HPos::Left);
        write(canvas, &secs(node.product.kernel_secs), (LEFT + width - 12, end + 14), HPos::Right);
        y = end + BOX;
    }
}

#[cfg(test)]
mod tests {
    use super::{layer, nodes};
    use phzc_passes::report::Entry;

    /// Where the layer of products of these types is, and how long.
    fn of(types: &str) -> (usize, usize) {
        let entry =
            |shape: char| Entry { op: "dot", shape: shape.to_string(), kernel_secs: 1.0, ..Entry::default() };
        let ledger: Vec<Entry> = types.chars().map(entry).collect();
        layer(&nodes(&ledger))
    }

    #[test]
    fn a_layer_is_the_shortest_stretch_that_comes_again() {
        assert_eq!(of("eabcabcabcv"), (1, 3));
        assert_eq!(of("aabaabv"), (0, 3));
        assert_eq!(of("abcd"), (0, 4));
        assert_eq!(of("aaaa"), (0, 4));
    }
}
