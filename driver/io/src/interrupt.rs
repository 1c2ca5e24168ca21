//! What a user's Ctrl-C means: the best result so far will do, or, while there is none, nothing will.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Whether a search is to end, and whether it has a result that would be left.
#[derive(Debug)]
pub struct Interrupt {
    /// Set by Ctrl-C: the search is to end.
    pub is_requested: Arc<AtomicBool>,
    /// Whether Ctrl-C ends the process: before there is a result, and the second time.
    pub ends_process: Arc<AtomicBool>,
    has_result: AtomicBool,
}

impl Default for Interrupt {
    fn default() -> Interrupt {
        Interrupt {
            is_requested: Arc::default(),
            ends_process: Arc::new(AtomicBool::new(true)),
            has_result: AtomicBool::default(),
        }
    }
}

impl Interrupt {
    /// Whether the search is to end.
    pub fn is_requested(&self) -> bool {
        self.is_requested.load(Ordering::SeqCst)
    }

    /// There is a result that could be written; said again it changes nothing.
    pub fn has_result(&self) {
        if !self.has_result.swap(true, Ordering::SeqCst) {
            self.ends_process.store(false, Ordering::SeqCst);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Interrupt;
    use std::sync::atomic::Ordering;

    #[test]
    fn a_second_request_ends_the_process_whatever_results_there_are() {
        let interrupt = Interrupt::default();
        let ends_process = || interrupt.ends_process.load(Ordering::SeqCst);
        assert!(ends_process());
        interrupt.has_result();
        assert!(!ends_process());
        interrupt.ends_process.store(true, Ordering::SeqCst);
        interrupt.has_result();
        assert!(ends_process());
    }
}
