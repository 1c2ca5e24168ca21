//! What a reader wants of a value: a layout, and sums that may stay undone.

use super::reshard_cost::Source;
use phzc_ir::Layout;

/// A value as its reader wants it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Want {
    /// Its layout.
    pub layout: Layout,
    /// The axes over which it is to stay partial, a bit each.
    pub partial: u8,
}

impl From<Layout> for Want {
    fn from(layout: Layout) -> Want {
        Want { layout, partial: 0 }
    }
}

impl Want {
    /// What is as a value already is.
    pub(super) fn of(source: Source) -> Want {
        Want { layout: source.layout, partial: source.partial }
    }
}
