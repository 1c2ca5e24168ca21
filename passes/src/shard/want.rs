//! What a reader wants of a value: a layout, and sums that may stay undone.

use super::moves::{Moves, PriceFn, Source, Step};
use phzc_ir::{Dims, Layout, MAX_AXES};

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

impl Moves {
    /// The cheapest steps from `source` to what is wanted, and their seconds; `None` also where sums would have to be
    /// undone, or the axes over which they stay undone to be used meanwhile.
    pub fn cheapest_to(
        &mut self,
        source: Source,
        want: Want,
        dims: &Dims,
        bytes: f64,
        price: &PriceFn,
    ) -> Option<(f64, Vec<Step>)> {
        if want.partial & !source.partial != 0 {
            return None;
        }
        let rest = Source { partial: source.partial & !want.partial, ..source };
        let (secs, mut steps) = self.cheapest(rest, want.layout, dims, bytes, price)?;
        let is_used = |axis: usize| want.partial >> axis & 1 == 1;
        let uses =
            |step: &Step| (0..MAX_AXES).any(|axis| is_used(axis) && step.layout.dim_of(axis).is_some());
        if steps.iter().any(uses) {
            return None;
        }
        steps.iter_mut().for_each(|step| step.partial |= want.partial);
        Some((secs, steps))
    }
}
