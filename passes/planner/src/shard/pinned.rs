//! A layout that a tensor must have, by the program or a pin, with the dimensions that it leaves open.

use phzc_ir::{Layout, MAX_AXES};

/// A layout; dimensions that are open may be split by the axes that it does not use.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Pinned {
    /// What is asked.
    pub layout: Layout,
    /// Bit `d`: dimension `d` is open, as in Shardy's `{?}` and GSPMD's `unspecified_dims`.
    pub open: u32,
}

impl From<Layout> for Pinned {
    fn from(layout: Layout) -> Pinned {
        Pinned { layout, open: 0 }
    }
}

impl Pinned {
    /// The layout with these dimensions left open, except those that it splits.
    pub fn leaving(layout: Layout, open: impl IntoIterator<Item = usize>) -> Pinned {
        let is_whole = |dim: &usize| *dim < 32 && layout.axes_of(*dim).next().is_none();
        Pinned { layout, open: open.into_iter().filter(is_whole).fold(0, |open, dim| open | 1 << dim) }
    }

    /// A planned layout as it was given: these dimensions were open and whole.
    pub(super) fn reopened(self, open: u32) -> Pinned {
        let is_open =
            |axis: &usize| self.layout.dim_of(*axis).is_some_and(|dim| dim < 32 && open >> dim & 1 == 1);
        let layout = (0..MAX_AXES).filter(is_open).fold(self.layout, |layout, axis| layout.with(axis, None));
        Pinned { layout, open }
    }

    /// What becomes of a value that is made in a layout: where the pin is open, it stays split.
    pub fn of(self, made: Layout) -> Layout {
        (0..MAX_AXES).fold(self.layout, |layout, axis| match made.dim_of(axis) {
            Some(dim) if dim < 32 && self.open >> dim & 1 == 1 && layout.dim_of(axis).is_none() => {
                layout.with(axis, Some(dim))
            }
            _ => layout,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn open_dimensions_stay_split_by_axes_that_are_free() {
        let rows = Layout::REPLICATED.with(0, Some(0));
        let made = |x, y| Layout::REPLICATED.with(0, x).with(1, y);
        let pin = Pinned::leaving(rows, [1, 0]);
        assert_eq!(pin.open, 2);
        assert_eq!(pin.of(made(Some(0), Some(1))), made(Some(0), Some(1)));
        assert_eq!(pin.of(made(Some(1), None)), rows);
        assert_eq!(pin.of(made(None, Some(0))), rows);
        assert_eq!(Pinned::from(rows).of(made(Some(0), Some(1))), rows);
    }
}
