//! Windows that reach over the edges of tiles: the loops that run over tiles of equal place in what is read
//! and what is made, and what each tile lacks of its neighbours.

use super::convolution::{labels, window};
use crate::attr::{Key, PadDim, SliceDim, Value, WindowDim};
use crate::opcode::Opcode;
use crate::rule::{Factor, FactorId, FactorKind, Halo, Reducer, Rule, TensorMap};
use crate::view::View;
use smallvec::SmallVec;

/// The factor rule of an op, with loops along which tiles need no more than their neighbours' edges.
///
/// A stencil's loop (`~` in the rule of the op alone) is one of operand and result here, of a kind that may
/// be split; [`Rule::halos`] says what is exchanged, as GSPMD does (Xu et al., arXiv 2105.04663: halo
/// exchange).
pub fn split_rule(view: &View) -> Rule {
    let mut rule = (view.instr.op.def().rule)(view);
    if !(0..view.n_operands()).any(|operand| is_mixed(view, operand)) {
        places(view).iter().for_each(|at| tie(&mut rule, view, at));
    }
    rule
}

/// Whether what lies outside an operand is of another type than the operand: no tile can hold both.
fn is_mixed(view: &View, operand: usize) -> bool {
    let dtype = |index: usize| view.array(index).ok().map(|array| array.dtype);
    let beyond = outside(view, operand).and_then(dtype);
    beyond.is_some_and(|beyond| dtype(operand) != Some(beyond))
}

/// A window along one dimension, and that dimension in the operands, the kernel and the results.
struct Place {
    window: WindowDim,
    read: usize,
    kernel: Option<usize>,
    made: usize,
}

fn places(view: &View) -> Vec<Place> {
    let alike = |(dim, window)| Place { window, read: dim, kernel: None, made: dim };
    match (view.instr.op, view.instr.attr(Key::Window), view.instr.attr(Key::Padding), slices(view)) {
        (Opcode::Convolution, ..) => convolved(view),
        (Opcode::ReduceWindow, Some(Value::Window(window)), ..) => {
            window.dims.iter().copied().enumerate().map(alike).collect()
        }
        (Opcode::Pad, _, Some(Value::Padding(padding)), _) => {
            padding.iter().map(of_padding).enumerate().map(alike).collect()
        }
        (Opcode::Slice, _, _, Some(ranges)) => ranges.iter().map(of_slice).enumerate().map(alike).collect(),
        _ => Vec::new(),
    }
}

fn slices<'a>(view: &View<'a>) -> Option<&'a [SliceDim]> {
    match view.instr.attr(Key::Slice) {
        Some(Value::Slices(ranges)) => Some(ranges),
        _ => None,
    }
}

fn convolved(view: &View) -> Vec<Place> {
    let Some(labels) = labels(view) else { return Vec::new() };
    let place = |(at, &window): (usize, &WindowDim)| Place {
        window,
        read: labels.lhs.spatial[at],
        kernel: Some(labels.rhs.spatial[at]),
        made: labels.out.spatial[at],
    };
    window(view).iter().enumerate().map(place).collect()
}

/// A window of one element, which finds the edges' value outside of the array.
fn of_padding(padding: &PadDim) -> WindowDim {
    let PadDim { low, high, interior } = *padding;
    WindowDim { pad_low: low, pad_high: high, lhs_dilate: interior.saturating_add(1), ..WindowDim::default() }
}

fn of_slice(range: &SliceDim) -> WindowDim {
    WindowDim { pad_low: -range.start, stride: range.stride, ..WindowDim::default() }
}

/// Makes one loop of those over what a window reads and what it makes, where tiles of both lie side by side.
fn tie(rule: &mut Rule, view: &View, at: &Place) {
    let only = |map: Option<&TensorMap>, dim: usize| match map?.get(dim)?[..] {
        [id] => Some(id),
        _ => None,
    };
    let ids = only(rule.operands.first(), at.read).zip(only(rule.results.first(), at.made));
    let moves = |id: FactorId| rule.factors[id as usize].kind == FactorKind::Permute;
    let Some((from, to)) = ids.filter(|&(from, to)| moves(from) && moves(to)) else { return };
    let position = at.kernel.and_then(|dim| only(rule.operands.get(1), dim));
    let sizes = [from, to].map(|id| rule.factors[id as usize].size);
    if let Some(tiles) = Tiles::of_windows(&at.window, sizes) {
        let inner = Factor { size: tiles.read.max(tiles.made), kind: FactorKind::Replicate };
        rule.factors[to as usize] = inner;
        rule.factors[from as usize] = Factor { size: tiles.n, kind: FactorKind::Pass };
        let n_read = if view.instr.op == Opcode::ReduceWindow { rule.results.len() } else { 1 };
        for operand in 0..n_read {
            rule.operands[operand][at.read] = tiled(from, (tiles.read, to));
            rule.halos.push(tiles.halo(operand, from));
        }
        rule.results.iter_mut().for_each(|result| result[at.made] = tiled(from, (tiles.made, to)));
    } else if let Some((position, tiles)) = position.zip(Tiles::of_sums(&at.window, sizes)) {
        rule.factors[position as usize] = Factor { size: tiles.n, kind: FactorKind::Reduce(Reducer::Add) };
        rule.factors[from as usize] = Factor { size: tiles.read, kind: FactorKind::Replicate };
        rule.factors[to as usize].kind = FactorKind::Replicate;
        rule.operands[0][at.read] = tiled(position, (tiles.read, from));
        rule.halos.push(tiles.halo(0, position));
    }
}

/// A dimension of tiles of so many elements.
fn tiled(tile: FactorId, (size, inner): (i64, FactorId)) -> SmallVec<[FactorId; 2]> {
    [tile].into_iter().chain((size > 1).then_some(inner)).collect()
}

/// How an operand falls into tiles of which each makes its own part, its neighbours' edges aside.
struct Tiles {
    /// As small as they get, so many.
    n: i64,
    /// Elements of the operand, and of the result, in each.
    read: i64,
    made: i64,
    /// Elements that are read before and behind a tile of the operand.
    low: i64,
    high: i64,
}

impl Tiles {
    fn halo(&self, operand: usize, factor: FactorId) -> Halo {
        Halo { operand, factor, low: self.low, high: self.high }
    }

    /// Result `j` reads `j * stride - pad_low` and on of the dilated operand: tiles of `stride` elements
    /// make one each, or one element makes `lhs_dilate`.
    fn of_windows(window: &WindowDim, [from, to]: [i64; 2]) -> Option<Tiles> {
        let (stride, dilate) = (window.stride, window.lhs_dilate);
        let is_even = to.checked_mul(stride)? == from.checked_mul(dilate)?;
        if !is_even || from == 0 || window.size < 1 || stride > 1 && dilate > 1 {
            return None;
        }
        let last = (window.size - 1).checked_mul(window.rhs_dilate)?.checked_sub(window.pad_low)?;
        let beyond = last.checked_sub(stride)?;
        Some(Tiles {
            n: from.min(to),
            read: stride,
            made: dilate,
            low: (window.pad_low / dilate).max(0),
            high: if beyond < 0 { 0 } else { beyond / dilate + 1 },
        })
    }

    /// The gradient of a kernel: what is summed over are the windows' places, `rhs_dilate` elements apart.
    fn of_sums(window: &WindowDim, [from, to]: [i64; 2]) -> Option<Tiles> {
        let apart = window.rhs_dilate;
        let is_even = window.size.checked_mul(apart)? == from;
        if !is_even || from == 0 || to < 1 || window.lhs_dilate > 1 || window.reversed {
            return None;
        }
        let reach = (to - 1).checked_mul(window.stride)?.checked_sub(window.pad_low)?;
        let high = reach.checked_sub(apart)?.checked_add(1)?.max(0);
        Some(Tiles { n: window.size, read: apart, made: 1, low: window.pad_low.max(0), high })
    }
}

/// The window along one dimension as one device has it, whose tile of the operand has `low` elements of its
/// neighbour before it: `read` elements in all, from which it makes `made`.
pub fn local_window(window: &WindowDim, low: i64, [read, made]: [i64; 2]) -> WindowDim {
    let extent = |size: i64, apart: i64| if size == 0 { 0 } else { (size - 1) * apart + 1 };
    let pad_low = window.pad_low - low * window.lhs_dilate;
    let reached = (made - 1) * window.stride + extent(window.size, window.rhs_dilate);
    let pad_high = reached - extent(read, window.lhs_dilate) - pad_low;
    WindowDim { pad_low, pad_high, ..*window }
}

/// The padding along one dimension as one device has it: [`local_window`] of a window of one element.
pub fn local_padding(padding: &PadDim, low: i64, sizes: [i64; 2]) -> PadDim {
    let window = local_window(&of_padding(padding), low, sizes);
    PadDim { low: window.pad_low, high: window.pad_high, ..*padding }
}

/// The value that windows find outside of the array, as an operand's position; zero where there is none.
pub fn outside(view: &View, operand: usize) -> Option<usize> {
    match view.instr.op {
        Opcode::Pad => Some(1),
        Opcode::ReduceWindow => Some(view.n_operands() / 2 + operand),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ops::check::with_root;

    /// The rule, and per halo the operand and the elements before and behind a tile.
    fn check(body: &str, rule: &str, halos: &[(usize, i64, i64)]) {
        let found = with_root(body, split_rule);
        let widths: Vec<_> = found.halos.iter().map(|it| (it.operand, it.low, it.high)).collect();
        assert_eq!((found.to_string().as_str(), &widths[..]), (rule, halos));
    }

    fn check_convolution(sizes: [i64; 3], window: &str, rule: &str, halo: (usize, i64, i64)) {
        let [read, kernel, made] = sizes;
        let body = format!(
            "x: f32[8,{read},3]; k: f32[{kernel},3,16]
            ROOT c = f32[8,{made},16] convolution(x, k), window={{size={kernel} {window}}}, dim_labels=b0f_0io->b0f"
        );
        check(&body, rule, &[halo]);
    }

    #[test]
    fn windows_reach_over_the_edges_of_tiles() {
        let rule = "([a,d,b],[f,b,c])->([a,d,c]) {a=8, b=3+, c=16, d=32, e=1!, f=3!}";
        check_convolution([32, 3, 32], "pad=1_1", rule, (0, 1, 1));
        let rule = "([a,d,b],[f,b,c])->([a,d,c]) {a=8, b=3+, c=16, d=32, e=1!, f=5!}";
        check_convolution([32, 5, 32], "pad=4_0", rule, (0, 4, 0));
    }

    #[test]
    fn strides_make_tiles_of_several_elements() {
        let rule = "([a,de,b],[f,b,c])->([a,d,c]) {a=8, b=3+, c=16, d=16, e=2!, f=3!}";
        check_convolution([32, 3, 16], "stride=2 pad=0_1", rule, (0, 0, 1));
        check_convolution([32, 3, 16], "stride=2 pad=1_1", rule, (0, 1, 0));
        // Windows with gaps between them.
        let rule = "([a,de,b],[f,b,c])->([a,d,c]) {a=8, b=3+, c=16, d=16, e=2!, f=1!}";
        check_convolution([32, 1, 16], "stride=2", rule, (0, 0, 0));
    }

    #[test]
    fn gradients_of_a_convolution_exchange_the_same_edges() {
        let rule = "([a,d,b],[f,b,c])->([a,de,c]) {a=8, b=3+, c=16, d=16, e=2!, f=3!}";
        check_convolution([16, 3, 32], "pad=1_2 lhs_dilate=2 rhs_reversal=1", rule, (0, 0, 1));
        let rule = "([a,f,b],[f,b,c])->([a,e,c]) {a=8, b=3+, c=16, d=1!, e=3!, f=32+}";
        check_convolution([32, 32, 3], "pad=1_1", rule, (0, 1, 1));
        let rule = "([a,fd,b],[f,b,c])->([a,e,c]) {a=8, b=3+, c=16, d=2!, e=3!, f=16+}";
        check_convolution([32, 16, 3], "pad=0_1 rhs_dilate=2", rule, (0, 0, 1));
    }

    #[test]
    fn pooled_shifted_and_skipped_elements_are_those_of_a_window() {
        let body = "x: f32[8,32]; z: f32[]; ROOT y = f32[8,16] reduce-window(x, z), window={size=1x3 stride=1x2 pad=0_0x1_0}, to_apply=add";
        check(body, "([a,bc],[])->([a,b]) {a=8, b=16, c=2!}", &[(0, 1, 0)]);
        // What lies outside is of another type: no tile can hold both.
        check(&body.replace("x: f32", "x: f16"), "([a,b],[])->([a,c]) {a=8, b=32~, c=16~}", &[]);
        let body = "x: f32[8]; z: f32[]; ROOT y = f32[8] pad(x, z), padding=-1_1";
        check(body, "([a],[])->([a]) {a=8}", &[(0, 0, 1)]);
        let body = "x: f32[8]; z: f32[]; ROOT y = f32[16] pad(x, z), padding=0_1_1";
        check(body, "([a],[])->([ab]) {a=8, b=2!}", &[(0, 0, 0)]);
        let body = "x: f32[8]; ROOT y = f32[4] slice(x), slice={[1:8:2]}";
        check(body, "([ab])->([a]) {a=4, b=2!}", &[(0, 0, 0)]);
    }

    #[test]
    fn sizes_without_equal_tiles_keep_their_rule() {
        check("x: f32[8]; ROOT y = f32[4] slice(x), slice={[1:5]}", "([a])->([b]) {a=8~, b=4~}", &[]);
        let body = "x: f32[8]; z: f32[]; ROOT y = f32[10] pad(x, z), padding=1_1";
        check(body, "([a],[])->([b]) {a=8~, b=10~}", &[]);
        check("x: f32[8]; ROOT y = f32[8] reverse(x), dimensions={0}", "([a])->([a]) {a=8~}", &[]);
    }

    #[test]
    fn a_tile_has_to_hold_what_its_neighbours_read() {
        let body = "x: f32[8,32,3]; k: f32[7,3,16]
            ROOT c = f32[8,16,16] convolution(x, k), window={size=7 stride=2 pad=2_3}, dim_labels=b0f_0io->b0f";
        let rule = with_root(body, split_rule);
        let halo = rule.halos[0];
        assert_eq!((halo.low, halo.high, rule.least_tile(halo.factor)), (2, 3, Some(2)));
        assert_eq!((rule.n_elements(&halo, 4), rule.least_tile(0)), (8, None));
    }
}
