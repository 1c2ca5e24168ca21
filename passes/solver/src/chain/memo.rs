//! What has been asked of stages: a row per end, devices, links and microbatches in flight, in it a figure
//! per length.

use super::Span;
use indexmap::IndexMap;
use rustc_hash::FxBuildHasher;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The figures of stages that differ by their first unit only, by their length; NaN where none was made,
/// below nothing where all that is known is that the figure is above the amount.
type Row = Arc<Mutex<Vec<f64>>>;

/// The stages that begin at a unit or after it take what those take that are shifted to another end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Twin {
    /// The first unit.
    pub from: usize,
    /// The other end, not before theirs.
    pub end: usize,
}

impl Twin {
    /// The stage of which the figure is made.
    pub(in crate::chain) fn of(self, span: &Span) -> Span {
        let shift = if span.start >= self.from { self.end - span.end } else { 0 };
        Span { start: span.start + shift, end: span.end + shift, ..*span }
    }
}

/// The figures of stages with one end, devices, links and microbatches in flight.
pub(super) struct Rows {
    twin: Twin,
    near: Row,
    far: Row,
}

impl Rows {
    fn row(&self, start: usize) -> MutexGuard<'_, Vec<f64>> {
        lock(if start >= self.twin.from { &self.near } else { &self.far })
    }

    /// The figure of a stage, if it was made.
    pub(super) fn known(&self, span: &Span) -> Option<f64> {
        self.row(span.start).get(span.end - span.start).copied().filter(|ms| *ms >= 0.0)
    }

    /// The figure of a stage; it is made of its twin when asked for first, and is not NaN. Threads that make
    /// it at once make the same.
    pub(super) fn get_or(&self, span: &Span, make: impl FnOnce(&Span) -> f64) -> f64 {
        if let Some(known) = self.known(span) {
            return known;
        }
        let ms = make(&self.twin.of(span));
        self.set(span, ms);
        ms
    }

    /// The figure of a stage if it is no more than `cap`, else one that is above it: `make` says infinite
    /// where it did not look further.
    pub(super) fn within(&self, span: &Span, cap: f64, make: impl FnOnce(&Span) -> f64) -> f64 {
        let known = self.row(span.start).get(span.end - span.start).copied();
        match known {
            Some(ms) if ms >= 0.0 => return ms,
            Some(more) if -more >= cap => return f64::INFINITY,
            _ => {}
        }
        let ms = make(&self.twin.of(span));
        self.set(span, if ms.is_finite() || cap.is_infinite() { ms } else { -cap });
        ms
    }

    /// Remembers the figure of a stage, whatever it was.
    pub(super) fn set(&self, span: &Span, ms: f64) {
        let (mut row, n_units) = (self.row(span.start), span.end - span.start);
        if row.len() <= n_units {
            row.resize(n_units + 1, f64::NAN);
        }
        row[n_units] = ms;
    }
}

/// Rows by their stages, the first unit left out. Threads share it: what they find does not depend on who
/// asked first.
#[derive(Debug, Default)]
pub(super) struct Memo(Mutex<IndexMap<Span, Row, FxBuildHasher>>);

impl Memo {
    /// The figures of stages that differ from this one by their first unit.
    pub(super) fn rows(&self, span: &Span, twin: Twin) -> Rows {
        let mut all = lock(&self.0);
        let mut row = |end: usize| all.entry(Span { start: 0, end, ..*span }).or_default().clone();
        let near = row(twin.end);
        let far = if twin.from == 0 || twin.end == span.end { near.clone() } else { row(span.end) };
        Rows { twin, near, far }
    }
}

/// The lock; what a thread that panicked left behind is a panic there already.
pub(in crate::chain) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_above_a_cap_is_made_again_for_a_higher_one_only() {
        let memo = Memo::default();
        let span = Span { start: 2, end: 5, n_devices: 1, links: 0, in_flight: 1 };
        let rows = memo.rows(&span, Twin { from: 0, end: 5 });
        let mut caps = Vec::new();
        let mut asked = |cap: f64| {
            rows.within(&span, cap, |_| {
                caps.push(cap);
                if cap < 7.0 { f64::INFINITY } else { 7.0 }
            })
        };
        let found = [4.0, 3.0, 6.0, 9.0, 5.0].map(&mut asked);
        assert_eq!(found, [f64::INFINITY, f64::INFINITY, f64::INFINITY, 7.0, 7.0]);
        assert_eq!(caps, [4.0, 6.0, 9.0]);
        assert_eq!(rows.known(&span), Some(7.0));
    }
}
