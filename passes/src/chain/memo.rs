//! What has been asked of stages: a row per end, devices, links and microbatches in flight, in it a figure per length.

use super::Span;
use indexmap::IndexMap;
use rustc_hash::FxBuildHasher;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The figures of stages that differ by their first unit only, by their length; NaN where none was made.
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
        self.row(span.start).get(span.end - span.start).copied().filter(|ms| !ms.is_nan())
    }

    /// The figure of a stage; it is made of its twin when asked for first, and is not NaN. Threads that make it at once make the same.
    pub(super) fn get_or(&self, span: &Span, make: impl FnOnce(&Span) -> f64) -> f64 {
        if let Some(known) = self.known(span) {
            return known;
        }
        let ms = make(&self.twin.of(span));
        self.set(span, ms);
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

/// Rows by their stages, the first unit left out. Threads share it: what they find does not depend on who asked first.
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
