//! What a device's array is of the whole one: how its dimensions are made of parts of the whole one's.
//!
//! ```text
//! whole f32[16,64] over x=2, y=4     one device: f32[8,16]     [x 8, y 16]: two dimensions of two parts each
//! ```
//!
//! A part is whole on every device, or numbered by an axis, of which each device has one element. A device
//! may see parts in another order than the whole array has them: reshapes, transposes and exchanges between
//! devices change how it sees them, and nothing else.

use phzc_ir::{CompId, InstrId, Reducer};
use std::collections::{BTreeMap, VecDeque};

/// A part of a dimension.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Part {
    /// Elements in the whole array.
    pub size: i64,
    /// How devices have them.
    pub kind: Kind,
}

/// How devices have a part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// All of them on every device.
    Whole,
    /// One on each device, by its place along an axis.
    Axis(usize),
    /// All of them are equal: it may be as long as whoever reads it likes.
    Free,
    /// As [`Kind::Whole`], unless a reader shows that it is split.
    Open(Origin),
}

/// A dimension of a parameter of which the text does not say how it is split.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Origin {
    /// The parameter's computation.
    pub comp: CompId,
    /// The leaf among those of all parameters.
    pub leaf: usize,
    /// The dimension.
    pub dim: usize,
}

/// A dimension's parts, major to minor.
pub type Dim = Vec<Part>;

/// Why two arrays do not go together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Clash {
    /// They do if this dimension is split like that.
    Open(Origin, Dim),
    /// They are split differently.
    Layouts,
}

impl Part {
    /// Elements on one device.
    pub fn local(self) -> i64 {
        if self.axis().is_some() { 1 } else { self.size }
    }

    /// The axis that numbers it.
    pub fn axis(self) -> Option<usize> {
        if let Kind::Axis(axis) = self.kind { Some(axis) } else { None }
    }

    /// Whether it may be as long as a reader likes.
    pub fn is_free(self) -> bool {
        self.kind == Kind::Free
    }

    fn halved(self, size: i64) -> Part {
        let kind = if let Kind::Open(_) = self.kind { Kind::Whole } else { self.kind };
        Part { size, kind }
    }
}

/// Elements of a dimension on one device.
pub fn local(dim: &[Part]) -> i64 {
    dim.iter().map(|part| part.local()).product()
}

/// Elements of a dimension of the whole array; what is free is left out.
pub fn global(dim: &[Part]) -> i64 {
    dim.iter().filter(|part| !part.is_free()).map(|part| part.size).product()
}

/// What is left of a dimension while it is read from its major end.
struct Rest {
    dim: VecDeque<Part>,
    /// A free part was read last, or there was nothing at all.
    was_free: bool,
}

impl Rest {
    fn new(dim: &[Part]) -> Rest {
        Rest { dim: dim.iter().copied().collect(), was_free: dim.is_empty() }
    }

    fn head(&self) -> Option<Part> {
        self.dim.front().copied()
    }

    /// Whether an axis may be put in here.
    fn stretches(&self) -> bool {
        self.was_free || self.head().is_some_and(Part::is_free)
    }

    /// Whether all that is left is known to be equal on devices along axes that it does not name.
    fn is_settled(&self) -> bool {
        !self.dim.iter().any(|part| matches!(part.kind, Kind::Open(_)))
    }

    fn take(&mut self, size: i64) {
        let Some(head) = self.head() else { return };
        self.was_free = head.is_free();
        if head.axis().is_none() && head.size != size {
            self.dim[0] = head.halved(head.size / size);
        } else {
            self.dim.pop_front();
        }
    }

    /// Takes an axis if it is among those that come next: on a device they have one element each, so their
    /// order does not matter to it.
    fn take_axis(&mut self, axis: Part) {
        let leading = self.dim.iter().take_while(|part| part.axis().is_some());
        if let Some(at) = leading.into_iter().position(|part| *part == axis) {
            self.was_free = false;
            self.dim.remove(at);
        }
    }
}

/// A dimension that two arrays have in common, as finely cut as both need it. What only one has a tile of,
/// devices combine with the same part of the other: it is repeated along that axis.
///
/// # Errors
/// When sizes differ, or one may be split as the other is, but is not known to be.
pub fn merge(a: &[Part], b: &[Part]) -> Result<Dim, Clash> {
    let (mut left, mut right, mut made) = (Rest::new(a), Rest::new(b), Dim::new());
    loop {
        let next = match (left.head(), right.head()) {
            (None, None) => return Ok(made),
            (Some(x), _) if x.axis().is_some() && (right.stretches() || right.is_settled()) => {
                left.take(1);
                right.take_axis(x);
                x
            }
            (_, Some(y)) if y.axis().is_some() && (left.stretches() || left.is_settled()) => {
                right.take(1);
                left.take_axis(y);
                y
            }
            (Some(x), Some(y)) if x.axis().is_none() && y.axis().is_none() => {
                let (low, high) = (x.size.min(y.size), x.size.max(y.size));
                if low != high && (low == 0 || high % low != 0) {
                    return Err(Clash::Layouts);
                }
                let is_halved = x.size != y.size;
                let one = if x.is_free() { y } else { x };
                let one = if let (Kind::Open(_), Kind::Whole) = (one.kind, y.kind) { y } else { one };
                take(&mut left, &mut right, low);
                if is_halved { one.halved(low) } else { one }
            }
            // Only one element is left of what the other still has.
            (Some(x), None) if x.local() == 1 && x.is_free() => {
                left.take(1);
                continue;
            }
            (None, Some(y)) if y.local() == 1 && y.is_free() => {
                right.take(1);
                continue;
            }
            _ => return Err(clash(a, b)),
        };
        made.push(next);
    }
}

fn take(left: &mut Rest, right: &mut Rest, size: i64) {
    left.take(size);
    right.take(size);
}

/// Which of two dimensions would have to be split like the other.
fn clash(a: &[Part], b: &[Part]) -> Clash {
    match (a, b) {
        ([Part { kind: Kind::Open(origin), .. }], like) | (like, [Part { kind: Kind::Open(origin), .. }])
            if local(a) == local(b) =>
        {
            Clash::Open(*origin, like.to_vec())
        }
        _ => Clash::Layouts,
    }
}

/// A device's array: parts of a whole one.
#[derive(Clone, Debug)]
pub struct Tile {
    /// The whole array.
    pub base: InstrId,
    /// The parts of each of its dimensions.
    pub order: Vec<Vec<usize>>,
    /// The parts of each dimension of the device's array.
    pub dims: Vec<Vec<usize>>,
    /// The parts; free ones are only in `dims`.
    pub parts: Vec<Part>,
    /// The axes over which devices have summands of it, and what adds them up.
    pub partial: BTreeMap<usize, Reducer>,
}

impl Tile {
    /// An array whose device's dimensions are made of these parts in the order in which the whole one has
    /// them.
    pub fn new(base: InstrId, dims: &[Dim]) -> Tile {
        let mut tile =
            Tile { base, order: Vec::new(), dims: Vec::new(), parts: Vec::new(), partial: BTreeMap::new() };
        for dim in dims {
            let ids: Vec<usize> = (tile.parts.len()..).take(dim.len()).collect();
            tile.parts.extend(dim);
            tile.order.push(ids.iter().copied().filter(|&id| !tile.parts[id].is_free()).collect());
            tile.dims.push(ids);
        }
        tile
    }

    /// The parts of a dimension.
    pub fn dim(&self, dim: usize) -> Dim {
        self.dims[dim].iter().map(|&id| self.parts[id]).collect()
    }

    /// The parts of all dimensions.
    pub fn all(&self) -> Vec<Dim> {
        (0..self.dims.len()).map(|dim| self.dim(dim)).collect()
    }

    /// Adds a part that is in no dimension yet.
    pub fn add(&mut self, part: Part) -> usize {
        self.parts.push(part);
        self.parts.len() - 1
    }

    /// Cuts a part in two: `size` major elements, and the rest, whose number is returned.
    pub fn halve(&mut self, id: usize, size: i64) -> usize {
        let whole = self.parts[id];
        self.parts[id] = whole.halved(size);
        let rest = self.add(whole.halved(whole.size / size));
        for dim in self.order.iter_mut().chain(&mut self.dims) {
            if let Some(at) = dim.iter().position(|&other| other == id) {
                dim.insert(at + 1, rest);
            }
        }
        rest
    }

    /// The same tile, axes in the dimensions and the order in which `wanted` has them: on a device they have
    /// one element, so that it sees its array alike.
    pub fn with_axes_as(&self, wanted: &[Dim]) -> Tile {
        let mut tile = self.clone();
        for (at, wanted) in wanted.iter().enumerate().take(self.dims.len()) {
            let axes: Vec<usize> = wanted.iter().map_while(|part| part.axis()).collect();
            let of_axis =
                |axis: &usize| (0..self.parts.len()).find(|&id| self.parts[id].axis() == Some(*axis));
            let own: Vec<usize> = axes.iter().filter_map(of_axis).collect();
            tile.dims.iter_mut().for_each(|dim| dim.retain(|id| !own.contains(id)));
            tile.dims[at].splice(0..0, own);
        }
        tile
    }

    /// The parts that no dimension has: each device has one element of each, and is to find it by the axes of
    /// whoever reads it.
    pub fn hidden(&self) -> impl Iterator<Item = usize> + '_ {
        let is_seen = |id: &usize| self.dims.iter().any(|dim| dim.contains(id));
        self.order.iter().flatten().copied().filter(move |id| !is_seen(id))
    }

    /// Whether all hidden parts are axes that some dimensions have.
    pub fn is_found_in(&self, dims: &[Dim]) -> bool {
        let has =
            |axis: Option<usize>| dims.iter().flatten().any(|part| axis.is_some() && part.axis() == axis);
        self.hidden().all(|id| has(self.parts[id].axis()))
    }

    /// Whether an axis numbers a part of it.
    pub fn is_split_by(&self, axis: usize) -> bool {
        self.parts.iter().any(|part| part.axis() == Some(axis))
    }
}

#[cfg(test)]
mod tests;
