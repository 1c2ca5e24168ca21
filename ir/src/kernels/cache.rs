//! Lines that notes hold, read once per text.

use super::table::Kernel;
use std::collections::BTreeMap;
use std::sync::{Arc, PoisonError, RwLock};

/// As many texts are kept; others are read again each time.
const MAX_TEXTS: usize = 4096;

/// The lines of a text.
type Lines = Arc<[Arc<Kernel>]>;

/// What a text reads as.
pub(super) struct Cache {
    read: fn(&str) -> Vec<Kernel>,
    known: RwLock<BTreeMap<Box<str>, Lines>>,
}

impl Cache {
    pub(super) const fn new(read: fn(&str) -> Vec<Kernel>) -> Cache {
        Cache { read, known: RwLock::new(BTreeMap::new()) }
    }

    /// The lines of a text; none if it is not legal.
    pub(super) fn lines(&self, text: &str) -> Lines {
        // What is kept depends on the text alone, so a writer that panicked left nothing half done.
        let known = self.known.read().unwrap_or_else(PoisonError::into_inner).get(text).cloned();
        known.unwrap_or_else(|| {
            let lines: Lines = (self.read)(text).into_iter().map(Arc::new).collect();
            let mut known = self.known.write().unwrap_or_else(PoisonError::into_inner);
            if known.len() < MAX_TEXTS {
                known.insert(text.into(), lines.clone());
            }
            lines
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicUsize, Ordering};

    #[test]
    fn a_text_is_read_once() {
        static N_READ: AtomicUsize = AtomicUsize::new(0);
        let cache = Cache::new(|text| {
            N_READ.fetch_add(1, Ordering::Relaxed);
            super::super::table::lines(text).unwrap_or_default()
        });
        let text = "kernel=[{rule='(b) -> (b)'}]";
        let [first, again] = [cache.lines(text), cache.lines(text)];
        assert!(Arc::ptr_eq(&first[0], &again[0]));
        assert_eq!((cache.lines("no table").len(), cache.lines("no table").len()), (0, 0));
        assert_eq!(N_READ.load(Ordering::Relaxed), 2);
    }
}
