//! What has been asked of stages: a row per end, devices, links and microbatches in flight, in it a figure per length.

use super::Span;
use indexmap::IndexMap;
use rustc_hash::FxBuildHasher;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The figures of stages that differ by their first unit only.
#[derive(Debug, Default)]
pub(super) struct Row(Vec<f64>);

impl Row {
    /// The figure of a stage of so many units, if it was made.
    pub(super) fn known(&self, n_units: usize) -> Option<f64> {
        self.0.get(n_units).copied().filter(|ms| !ms.is_nan())
    }

    /// The figure of a stage of so many units; it is made when asked for first, and is not NaN.
    pub(super) fn get_or(&mut self, n_units: usize, make: impl FnOnce() -> f64) -> f64 {
        if self.0.len() <= n_units {
            self.0.resize(n_units + 1, f64::NAN);
        }
        if self.0[n_units].is_nan() {
            self.0[n_units] = make();
        }
        self.0[n_units]
    }
}

/// Rows by their stages, the first unit left out. Threads share it: what they find does not depend on who asked first.
#[derive(Debug, Default)]
pub(super) struct Memo(Mutex<IndexMap<Span, Arc<Mutex<Row>>, FxBuildHasher>>);

impl Memo {
    /// The row of a stage.
    pub(super) fn row(&self, span: &Span) -> Arc<Mutex<Row>> {
        lock(&self.0).entry(Span { start: 0, ..*span }).or_default().clone()
    }
}

/// The lock; what a thread that panicked left behind is a panic there already.
pub(in crate::chain) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
