//! What texts show of the memory that a chain may plan with.

use super::super::candidate::tests::staged;
use super::*;

#[test]
fn a_limit_follows_what_the_last_text_needed() {
    let mut limits = Limits::new(100.0);
    assert!(limits.is_guess(4) && limits.of(4) == 100.0);
    // It fits: the lesser of 80 + 100 - 90 bytes and 80 * 100 / 90, with some room.
    assert!((limits.correct(4, 80.0, 90.0) - 0.99 * 80.0 * 100.0 / 90.0).abs() < 1e-9);
    // It does not: what the chain does not know of stays.
    assert!((limits.correct(4, 80.0, 120.0) - 0.99 * 60.0).abs() < 1e-9);
    assert!(!limits.is_guess(4) && limits.is_guess(2));
    // At least a little less than before.
    assert!((limits.correct(2, 150.0, 120.0) - 98.0).abs() < 1e-9);
    // Where nothing would be left: in proportion.
    assert!((limits.correct(1, 10.0, 120.0) - 0.95 * 10.0 * 100.0 / 120.0).abs() < 1e-9);
    assert!((limits.correct(8, 40.0, 50.0) - 0.99 * 80.0).abs() < 1e-9);
}

#[test]
fn the_fastest_text_that_fits_is_kept_and_the_leanest_that_does_not() {
    let mut texts = Texts::new(100.0);
    assert!(texts.add(staged(1.0, 130.0)) && texts.add(staged(1.0, 120.0)) && texts.add(staged(1.0, 125.0)));
    let leanest = texts.leanest.as_ref().expect("too large");
    assert_eq!((leanest.peak_bytes, leanest.text.as_ref().map(|text| text.1)), (120.0, Some(0)));
    assert!(texts.best.is_none());
    assert!(!texts.add(staged(3.0, 99.0)));
    texts.add(staged(2.0, 98.0));
    texts.add(staged(2.5, 97.0));
    assert_eq!(texts.best.as_ref().map(|best| best.time_secs), Some(2.0));
}

#[test]
fn a_text_with_room_left_is_made_again_with_more_twice() {
    let limited = || Staged { is_limited: true, cut_bytes: 60.0, ..staged(1.0, 50.0) };
    let mut texts = Texts::new(100.0);
    // The limit rises from 100 to 108.9 and on; without one that memory set there is no use in it.
    assert!(!Texts::new(100.0).add(Staged { is_limited: false, ..limited() }));
    assert!(texts.add(limited()));
    assert!(texts.add(staged(1.0, 101.0)));
    assert!(!texts.add(staged(1.0, 101.0)));
}

#[test]
fn a_little_room_is_no_reason_for_another_text() {
    let limited =
        |memory_bytes: f64| Staged { is_limited: true, cut_bytes: 60.0, ..staged(1.0, memory_bytes) };
    // The limit becomes 0.99 (60 + 100 - 58), less than 5 % more than before; or 0.99 (60 + 100 - 53).
    assert!(!Texts::new(100.0).add(limited(58.0)));
    assert!(Texts::new(100.0).add(limited(53.0)));
}
