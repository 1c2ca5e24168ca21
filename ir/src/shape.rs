//! Shapes: element type, dimensions and, for round trips, the physical layout.

use crate::dtype::DType;
use smallvec::SmallVec;

/// Dimension sizes, major to minor.
pub type Dims = SmallVec<[i64; 5]>;

/// The size that an unbounded dynamic dimension (`?`) has in [`ArrayShape::dims`].
pub const UNBOUNDED: i64 = -1;

/// A value's shape.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Shape {
    /// A dense array.
    Array(ArrayShape),
    /// A tuple of values.
    Tuple(Vec<Shape>),
    /// `token[]`: orders effects.
    Token,
    /// `opaque[]`: a value without structure.
    Opaque,
    /// `b(shape)`: a pinned buffer.
    Buffer(Box<Shape>),
}

/// The shape of an array.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ArrayShape {
    /// Element type.
    pub dtype: DType,
    /// Sizes (elements), major to minor; upper bounds where dynamic.
    pub dims: Dims,
    /// Bit `d` set: dimension `d` is dynamic with this bound (`<=n`).
    pub dynamic: u32,
    /// Physical layout, kept for round trips only.
    pub layout: Option<PhysicalLayout>,
}

/// The physical layout `{1,0:T(8,128)}`: no part of the meaning, kept and printed back.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PhysicalLayout {
    /// Dimensions from the fastest to the slowest varying.
    pub minor_to_major: SmallVec<[u8; 8]>,
    /// What follows the colon: tiles, memory space, element size.
    pub tail: Option<Box<str>>,
}

impl ArrayShape {
    /// A static array shape without a physical layout.
    pub fn new(dtype: DType, dims: &[i64]) -> ArrayShape {
        ArrayShape { dtype, dims: Dims::from_slice(dims), dynamic: 0, layout: None }
    }

    /// Number of dimensions.
    pub fn rank(&self) -> usize {
        self.dims.len()
    }

    /// Number of elements (an `f64`, exact to 2^53; unbounded dimensions count as 1).
    pub fn n_elements(&self) -> f64 {
        self.dims.iter().map(|&size| if size == UNBOUNDED { 1.0 } else { size as f64 }).product()
    }

    /// Bytes of the unpadded array.
    pub fn bytes(&self) -> f64 {
        self.dtype.bytes_of(self.n_elements())
    }

    /// Same element type and sizes, whatever the physical layout.
    pub fn same_type(&self, other: &ArrayShape) -> bool {
        self.dtype == other.dtype && self.dims == other.dims
    }
}

impl Shape {
    /// A static array shape without a physical layout.
    pub fn array(dtype: DType, dims: &[i64]) -> Shape {
        Shape::Array(ArrayShape::new(dtype, dims))
    }

    /// The array shape, if this is an array.
    pub fn as_array(&self) -> Option<&ArrayShape> {
        match self {
            Shape::Array(array) => Some(array),
            Shape::Buffer(inner) => inner.as_array(),
            _ => None,
        }
    }

    /// The parts of a tuple; empty for anything else.
    pub fn parts(&self) -> &[Shape] {
        match self {
            Shape::Tuple(parts) => parts,
            _ => &[],
        }
    }

    /// Calls `visit` on every non-tuple part, in pre-order.
    pub fn for_each_leaf<'a>(&'a self, visit: &mut impl FnMut(&'a Shape)) {
        match self {
            Shape::Tuple(parts) => parts.iter().for_each(|part| part.for_each_leaf(visit)),
            leaf => visit(leaf),
        }
    }

    /// Every non-tuple part, in pre-order.
    pub fn leaves(&self) -> SmallVec<[&Shape; 2]> {
        let mut leaves = SmallVec::new();
        self.for_each_leaf(&mut |leaf| leaves.push(leaf));
        leaves
    }

    /// The first leaf of each part of a tuple.
    pub fn part_starts(&self) -> Vec<usize> {
        let starts = self.parts().iter().scan(0, |next, part| {
            *next += part.n_leaves();
            Some(*next - part.n_leaves())
        });
        starts.collect()
    }

    /// The first leaf of what is at an index into nested tuples, and its shape; `starts` are the tuple's own
    /// [`Self::part_starts`]. `None` where nothing is there.
    pub fn leaf_at(&self, starts: &[usize], index: &[usize]) -> Option<(usize, &Shape)> {
        let Some((&first, rest)) = index.split_first() else { return Some((0, self)) };
        let part = self.parts().get(first)?;
        let (leaf, shape) = part.leaf_at(&part.part_starts(), rest)?;
        Some((starts.get(first)? + leaf, shape))
    }

    /// Number of non-tuple parts.
    pub fn n_leaves(&self) -> usize {
        match self {
            Shape::Tuple(parts) => parts.iter().map(Shape::n_leaves).sum(),
            _ => 1,
        }
    }

    /// Bytes of all arrays in the shape.
    pub fn bytes(&self) -> f64 {
        let mut total = 0.0;
        self.for_each_leaf(&mut |leaf| total += leaf.as_array().map_or(0.0, ArrayShape::bytes));
        total
    }

    /// Equal up to physical layouts and dynamic marks.
    pub fn same_type(&self, other: &Shape) -> bool {
        match (self, other) {
            (Shape::Array(a), Shape::Array(b)) => a.same_type(b),
            (Shape::Tuple(a), Shape::Tuple(b)) => {
                a.len() == b.len() && a.iter().zip(b).all(|(a, b)| a.same_type(b))
            }
            (Shape::Buffer(a), Shape::Buffer(b)) => a.same_type(b),
            (a, b) => a == b,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `(f32[2], (s8[3], f64[]), token[])`.
    fn nested() -> Shape {
        let [two, three, none] = [(DType::F32, &[2][..]), (DType::S8, &[3]), (DType::F64, &[])]
            .map(|(dtype, dims)| Shape::array(dtype, dims));
        Shape::Tuple(vec![two, Shape::Tuple(vec![three, none]), Shape::Token])
    }

    #[test]
    fn leaves_of_nested_tuples_are_counted_through() {
        let shape = nested();
        assert_eq!((shape.part_starts(), shape.n_leaves()), (vec![0, 1, 3], 4));
        let at = |index: &[usize]| shape.leaf_at(&shape.part_starts(), index).map(|(leaf, _)| leaf);
        assert_eq!(
            [at(&[]), at(&[0]), at(&[1]), at(&[1, 1]), at(&[2])],
            [Some(0), Some(0), Some(1), Some(2), Some(3)]
        );
        assert_eq!([at(&[3]), at(&[1, 2]), at(&[0, 0])], [None, None, None]);
        assert_eq!(shape.leaf_at(&shape.part_starts(), &[1, 0]), Some((1, &Shape::array(DType::S8, &[3]))));
    }

    #[test]
    fn bytes_are_those_of_all_arrays_and_buffers_are_arrays() {
        assert_eq!(nested().bytes(), 8.0 + 3.0 + 8.0);
        let buffer = Shape::Buffer(Box::new(Shape::array(DType::F32, &[2])));
        assert_eq!(buffer.as_array().map(ArrayShape::bytes), Some(8.0));
        assert_eq!(ArrayShape::new(DType::F32, &[UNBOUNDED, 3]).n_elements(), 3.0);
    }

    #[test]
    fn types_are_the_same_whatever_their_order_in_memory() {
        let mut ordered = ArrayShape::new(DType::F32, &[2]);
        ordered.layout = Some(PhysicalLayout { minor_to_major: SmallVec::new(), tail: None });
        let (plain, ordered) = (Shape::array(DType::F32, &[2]), Shape::Array(ordered));
        assert!(plain.same_type(&ordered) && plain != ordered);
        assert!(
            !plain.same_type(&Shape::array(DType::F32, &[3]))
                && !plain.same_type(&Shape::array(DType::S32, &[2]))
        );
        let pair = |a: &Shape, b: &Shape| Shape::Tuple(vec![a.clone(), b.clone()]);
        assert!(pair(&plain, &Shape::Token).same_type(&pair(&ordered, &Shape::Token)));
        assert!(!pair(&plain, &plain).same_type(&pair(&ordered, &Shape::Token)));
        assert!(!Shape::Tuple(vec![plain.clone()]).same_type(&pair(&plain, &plain)));
        let buffer = |shape: &Shape| Shape::Buffer(Box::new(shape.clone()));
        assert!(buffer(&plain).same_type(&buffer(&ordered)) && !buffer(&plain).same_type(&plain));
    }
}
