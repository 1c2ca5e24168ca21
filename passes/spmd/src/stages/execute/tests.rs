//! What accumulators hold at first.

use super::*;

#[test]
fn an_accumulator_starts_as_what_its_reduction_leaves_alone() {
    let first = |shape: &str, start: &str| {
        let value = filled(shape, start).expect("a legal shape");
        let elements = value.leaves()[0].to_f64_vec();
        assert!(elements.len() == 2 && elements[0] == elements[1], "{elements:?}");
        elements[0]
    };
    assert_eq!(first("f32[2]", "zero"), 0.0);
    assert_eq!(first("pred[2]", "zero"), 0.0);
    assert_eq!(first("s32[2]", "one"), 1.0);
    assert_eq!(first("pred[2]", "ones"), 1.0);
    assert_eq!(first("u8[2]", "ones"), 255.0);
    assert_eq!(first("s8[2]", "ones"), -1.0);
    assert_eq!(first("bf16[2]", "lowest"), f64::NEG_INFINITY);
    assert_eq!(first("f32[2]", "highest"), f64::INFINITY);
    assert_eq!(first("s16[2]", "lowest"), -32768.0);
    assert_eq!(first("s16[2]", "highest"), 32767.0);
    assert_eq!(first("u16[2]", "lowest"), 0.0);
    assert_eq!(first("u16[2]", "highest"), 65535.0);
}
