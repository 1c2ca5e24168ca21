//! FNV-1a of known arrays, worked out byte by byte, and the names of types.

use crate::dtype::DType;
use crate::eval::{Array, Value};
use num_complex::Complex;

fn array<T: crate::eval::value::Element>(dtype: DType, values: Vec<T>) -> Array {
    Array::from_vec(dtype, &[values.len()], values).expect("fits")
}

#[test]
fn a_digest_is_that_of_type_sizes_and_elements() {
    assert_eq!(array(DType::S32, vec![7_i64, -1]).digest(), 2059698297726863934);
    assert_eq!(array(DType::F64, vec![0.5]).digest(), 7963392732738091907);
    assert_eq!(array(DType::Pred, vec![true, false]).digest(), 4166345911731984525);
    assert_eq!(array(DType::C64, vec![Complex::new(1.0_f32, 2.0)]).digest(), 11864133247396388788);
}

#[test]
fn all_nans_count_as_one() {
    let of = |bits: u32| array(DType::F32, vec![f32::from_bits(bits)]).digest();
    assert_eq!([of(0x7fc0_0000), of(0xffc0_0001)], [1419763417262669656; 2]);
    assert_eq!(array(DType::F64, vec![f64::NAN]).digest(), array(DType::F64, vec![-f64::NAN]).digest());
}

#[test]
fn a_value_s_digest_is_that_of_its_arrays() {
    let parts = vec![array(DType::S32, vec![7_i64, -1]).into(), array(DType::F64, vec![0.5]).into()];
    assert_eq!(Value::Tuple(parts).digest(), 10594795303916487373);
}

#[test]
fn a_value_says_its_type() {
    let parts = vec![
        array(DType::S32, vec![7_i64, -1]).into(),
        Value::Token,
        Array::zeros(DType::F64, &[2, 3]).into(),
    ];
    assert_eq!(Value::Tuple(parts).type_text(), "(s32[2], token[], f64[2,3])");
}
