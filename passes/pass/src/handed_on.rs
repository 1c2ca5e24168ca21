//! What a pass hands on to the next besides the text: what it has worked out about the module.
//!
//! Everything in it follows from the text. A run that resumes from a dump has nothing handed on and works it
//! out again, to the same bytes.

use std::any::Any;

/// A value about the module as the pass that put it here has left it. Its type is the passes' own affair.
#[derive(Default)]
pub struct HandedOn {
    value: Option<Box<dyn Any>>,
    is_new: bool,
}

impl HandedOn {
    /// Hands a value on: it is about the module as it is when the pass that runs now is done.
    pub fn put<T: Any>(&mut self, value: T) {
        *self = HandedOn { value: Some(Box::new(value)), is_new: true };
    }

    /// What has been handed on, if it is of this type.
    pub fn take<T: Any>(&mut self) -> Option<T> {
        self.value.take()?.downcast().ok().map(|value| *value)
    }

    /// A pass is done: what it found here and left is worth nothing once it has changed the module.
    pub fn settle(&mut self, is_changed: bool) {
        if is_changed && !self.is_new {
            self.value = None;
        }
        self.is_new = false;
    }
}

#[cfg(test)]
mod tests {
    use super::HandedOn;

    /// What is left of a value that one pass puts when the next, which does not know it, is done.
    fn left(is_changed: bool) -> Option<u32> {
        let mut handed_on = HandedOn::default();
        handed_on.put(7_u32);
        handed_on.settle(true);
        handed_on.settle(is_changed);
        handed_on.take()
    }

    #[test]
    fn a_value_outlives_passes_that_change_nothing() {
        assert_eq!([left(false), left(true)], [Some(7), None]);
    }

    #[test]
    fn a_value_is_taken_once_and_by_its_type() {
        let mut handed_on = HandedOn::default();
        handed_on.put(7_u32);
        assert_eq!(handed_on.take::<u32>(), Some(7));
        assert_eq!(handed_on.take::<u32>(), None);
        handed_on.put(7_u32);
        assert_eq!(handed_on.take::<i8>(), None);
    }
}
