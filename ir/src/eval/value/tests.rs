//! Arrays and values: what fits, what is equal, parts of them, and the limit of their size.

use super::*;
use crate::eval::check::check;

fn ints(dims: &[usize], values: &[i64]) -> Array {
    Array::from_vec(DType::S32, dims, values.to_vec()).expect("fits")
}

#[test]
fn values_fit_their_type_and_their_sizes() {
    assert!(Array::from_vec(DType::S32, &[2, 2], vec![1_i64; 3]).is_none());
    assert!(Array::from_vec(DType::F32, &[2], vec![1_i64; 2]).is_none());
    assert!(
        Data::zeros(DType::Bf16, &[2]).fits(DType::F32) && !Data::zeros(DType::F64, &[2]).fits(DType::F32)
    );
    // What does not fit the width is cut down.
    assert_eq!(
        Array::from_vec(DType::S8, &[1], vec![300_i64]).map(|array| array.to_f64_vec()),
        Some(vec![44.0])
    );
}

#[test]
fn a_part_lies_within_the_array() {
    let array = ints(&[2, 3], &[1, 2, 3, 4, 5, 6]);
    assert_eq!(array.slice(&[1, 1], &[2, 3]).expect("a part"), ints(&[1, 2], &[5, 6]));
    assert_eq!(array.slice(&[1, 1], &[1, 3]).expect("nothing").dims(), [0, 2]);
    for (start, limit) in
        [(&[0, 2][..], &[2, 1][..]), (&[0, 0], &[2, 4]), (&[0], &[2]), (&[0, 0], &[2]), (&[0], &[2, 3])]
    {
        let error = array.slice(start, limit).expect_err("no part").message;
        assert_eq!(error, format!("no part {start:?}..{limit:?} of an array of sizes [2, 3]"));
    }
    let spread = Array::scalar(DType::S32, 7_i64).spread(&[4, 4]);
    assert_eq!(spread.slice(&[1, 0], &[2, 3]).expect("a part"), ints(&[1, 3], &[7, 7, 7]));
}

#[test]
fn arrays_are_equal_by_type_sizes_and_elements_however_they_are_stored() {
    let spread = |value: i64, dims: &[usize]| Array::scalar(DType::S32, value).spread(dims);
    assert_eq!(spread(7, &[2]), ints(&[2], &[7, 7]));
    assert_eq!(spread(7, &[2]), spread(7, &[2]));
    assert_ne!(spread(7, &[2]), spread(8, &[2]));
    assert_ne!(spread(7, &[2]), spread(7, &[3]));
    assert_ne!(ints(&[2], &[7, 7]), Array::from_vec(DType::S64, &[2], vec![7_i64, 7]).expect("fits"));
    assert_ne!(ints(&[2], &[7, 7]), ints(&[2], &[7, 8]));
    assert!(ints(&[0], &[]).is_empty() && !spread(7, &[2]).is_empty() && spread(7, &[2]).is_spread());
}

#[test]
fn numbers_of_every_storage() {
    assert_eq!(
        Array::from_vec(DType::U64, &[1], vec![-1_i64]).expect("fits").to_f64_vec(),
        [18446744073709551615.0]
    );
    assert_eq!(Array::from_vec(DType::S64, &[1], vec![-1_i64]).expect("fits").to_f64_vec(), [-1.0]);
    assert_eq!(Array::from_vec(DType::Pred, &[2], vec![true, false]).expect("fits").to_f64_vec(), [1.0, 0.0]);
    assert_eq!(
        Array::from_vec(DType::C64, &[1], vec![Complex::new(1.0_f32, 2.0)]).expect("fits").to_f64_vec(),
        [1.0, 2.0]
    );
    assert_eq!(
        Array::from_vec(DType::C128, &[1], vec![Complex::new(1.0_f64, 2.0)]).expect("fits").to_f64_vec(),
        [1.0, 2.0]
    );
}

#[test]
fn a_value_has_one_shape() {
    let shape = |dims: &[i64]| Shape::array(DType::S32, dims);
    let value = Value::from(ints(&[2, 3], &[0; 6]));
    assert!(value.has_shape(&shape(&[2, 3])));
    assert!(![&[2, 4][..], &[2], &[2, 3, 1]].iter().any(|dims| value.has_shape(&shape(dims))));
    assert!(!value.has_shape(&Shape::array(DType::S64, &[2, 3])) && !value.has_shape(&Shape::Token));
    let pair = Value::Tuple(vec![value.clone(), Value::Token]);
    assert!(pair.has_shape(&Shape::Tuple(vec![shape(&[2, 3]), Shape::Token])));
    assert!(!pair.has_shape(&Shape::Tuple(vec![shape(&[2, 3])])));
    assert!(!pair.has_shape(&Shape::Tuple(vec![shape(&[2, 3]), shape(&[2, 3])])));
    assert_eq!(pair.leaves(), [&ints(&[2, 3], &[0; 6])]);
}

#[test]
fn arrays_above_the_limit_are_refused_by_what_their_storage_takes() {
    let body = |dtype: &str, size: u64| {
        format!(
            "c: {dtype}[]; x = {dtype}[{size}] broadcast(c), dimensions={{}}; ROOT y = {dtype}[1] slice(x), slice={{[0:1]}}"
        )
    };
    let refused = |gigabytes: &str| format!("error: an array of {gigabytes} GB is above the limit of 8.0 GB");
    check(&body("f32", 2_000_000_000), &["1"], "{1}");
    check(&body("f32", 3_000_000_000), &["1"], &refused("12.0"));
    check(&body("bf16", 3_000_000_000), &["1"], &refused("12.0"));
    check(&body("s8", 1_000_000_000), &["1"], "{1}");
    check(&body("s8", 1_500_000_000), &["1"], &refused("12.0"));
    check(&body("pred", 9_000_000_000), &["true"], &refused("9.0"));
    check(&body("c128", 1_000_000_000), &["(1, 0)"], &refused("16.0"));
}
