//! What a piece may take, and what it is run on.

use super::*;
use phzc_ir::eval::Array;
use phzc_ir::{DType, parse};

/// A program and the same as a plan for two devices that hold all of it.
fn both(body: &str) -> [Module; 2] {
    let header = "HloModule m, num_partitions=2, frontend_attributes={phzc.mesh=\"x=2\",phzc.plan=\"{}\"}\n";
    let whole = body.replace(';', ", sharding={replicated}\n");
    [format!("HloModule m\n{}", body.replace(';', "\n")), format!("{header}{whole}")].map(|text| {
        let module = parse(&text).expect("legal");
        assert_eq!(phzc_ir::verify(&module), []);
        module
    })
}

/// What is known of a piece after others with so many operations, and the operations of all.
fn judged(body: &str, flops: f64) -> (Outcome, f64) {
    let settings = Settings::default();
    let mut judge = Judge { flops, ..Judge::new(&settings) };
    (judge.judge(&both(body), 1), judge.flops)
}

/// A convolution of a picture of this size with a window of this size: sizes that stay.
fn convolution(size: usize, window: usize) -> String {
    let out = size - window + 1;
    format!(
        "ENTRY e {{ x = f32[1,{size},{size},1] parameter(0); w = f32[{window},{window},1,1] parameter(1);
        ROOT y = f32[1,{out},{out},1] convolution(x, w), window={{size={window}x{window}}}, dim_labels=b01f_01io->b01f; }}"
    )
}

#[test]
fn a_small_piece_runs_in_its_sizes_on_every_device_and_once_as_a_program() {
    // 2 * 16 * 3 * 4 bytes of three values, on two devices.
    let body = "ENTRY e { x = f32[16,8] parameter(0); ROOT y = f32[16,8] negate(x); }";
    assert_eq!(judged(body, 0.0), (Outcome::Equal, 3.0 * 128.0));
    assert_eq!(judged(body, 1.0), (Outcome::Equal, 1.0 + 3.0 * 128.0));
}

#[test]
fn a_piece_of_many_bytes_shrinks() {
    let body = |n: usize| format!("ENTRY e {{ x = f32[{n}] parameter(0); ROOT y = f32[{n}] negate(x); }}");
    // Two values of 4 bytes each on two devices are 100,000 bytes.
    assert_eq!(judged(&body(6250), 0.0), (Outcome::Equal, 3.0 * 6250.0));
    assert_eq!(judged(&body(6251), 0.0), (Outcome::Equal, 3.0 * LEAST as f64));
}

#[test]
fn a_piece_of_too_many_operations_stays_open() {
    let Outcome::Open(why) = judged(&convolution(4096, 64), 0.0).0 else { panic!("it was run") };
    // 2 * 4033^2 * 64^2 operations and (4096^2 + 4033^2 + 64^2) * 8 bytes, once and on two devices.
    assert_eq!(why, "it takes 4e11 operations and 8e8 bytes");
}

#[test]
fn all_pieces_together_have_a_limit() {
    let body = "ENTRY e { x = f32[16,8] parameter(0); ROOT y = f32[16,8] negate(x); }";
    let why = "all pieces together take more than 4e11 operations".to_owned();
    assert_eq!(judged(body, 4e11 - 384.0), (Outcome::Equal, 4e11));
    assert_eq!(judged(body, 4e11 - 383.0), (Outcome::Open(why), 4e11 - 383.0));
}

#[test]
fn bytes_are_those_of_all_values() {
    let [program, _] = both(
        "ENTRY e { x = f32[16,8] parameter(0); y = bf16[16,8] convert(x); ROOT z = (bf16[16,8]) tuple(y); }",
    );
    assert_eq!(bytes(&program), 128.0 * (4.0 + 2.0 + 2.0));
}

#[test]
fn every_other_draw_is_without_negative_numbers_and_the_last_two_are_large() {
    let [narrow, wide, ints] = [DType::F32, DType::F64, DType::S64].map(|dtype| match dtype {
        DType::F32 => Array::from_vec(dtype, &[2], vec![-1.5f32, 2.0]),
        DType::F64 => Array::from_vec(dtype, &[2], vec![-1.5f64, 2.0]),
        _ => Array::from_vec(dtype, &[2], vec![-3i64, 2]),
    });
    let given: Vec<Value> = [narrow, wide, ints].map(|array| Value::Array(array.expect("its type"))).to_vec();
    let found = |draw: u64| {
        let drawn = drawn(given.clone(), draw);
        let of =
            |value: &Value| value.leaves().iter().flat_map(|leaf| leaf.to_f64_vec()).collect::<Vec<f64>>();
        drawn.iter().flat_map(of).collect::<Vec<f64>>()
    };
    let (as_is, positive) = ([-1.5, 2.0, -1.5, 2.0, -3.0, 2.0], [1.5, 2.0, 1.5, 2.0, -3.0, 2.0]);
    let times = |by: f64, [a, b, c, d, n, m]: [f64; 6]| [by * a, by * b, by * c, by * d, n, m];
    let large = [times(FAR * FAR, as_is), times(FAR, positive)];
    assert_eq!([found(0), found(1), found(2), found(3)], [as_is, positive, large[0], large[1]]);
}

#[test]
fn a_piece_that_is_negative_or_zero_is_tried_on_positive_numbers_too() {
    // The root of a negative number is no number; its largest with zero is zero.
    let body = "ENTRY e { x = f32[] parameter(0); z = f32[] constant(0); ROOT y = f32[] sqrt(x); }";
    assert_eq!(judged(body, 0.0).0, Outcome::Equal);
    let body =
        "ENTRY e { x = f32[8] parameter(0); z = f32[] constant(-1); b = f32[8] broadcast(z), dimensions={};
        s = f32[8] subtract(x, x); m = f32[8] subtract(s, s); ROOT y = f32[8] multiply(m, b); }";
    assert_eq!(judged(body, 0.0).0, Outcome::Zero);
    let body = "ENTRY e { x = f32[8] parameter(0); s = f32[8] subtract(x, x); ROOT y = f32[8] log(s); }";
    let why = "its values are not finite on any inputs tried".to_owned();
    assert_eq!(judged(body, 0.0).0, Outcome::Open(why));
}

#[test]
fn floats_that_are_compared_are_equal_in_places() {
    // The gradient of a maximum: of equal values half goes either way.
    let body = |x: &str, direction: &str| {
        format!(
            "ENTRY e {{ x = f32[16] parameter(0); m = f32[16] parameter(1); z = f32[16] parameter(2);
            s = f32[16] add(x, z); k = pred[16] compare({x}, m), direction={direction}; ROOT y = f32[16] select(k, z, x); }}"
        )
    };
    let outcome = |right: &str, wrong: &str| {
        let settings = Settings::default();
        let ([program, _], [_, plan]) = (both(right), both(wrong));
        Judge::new(&settings).judge(&[program, plan], 1)
    };
    let right = body("x", "EQ");
    assert_eq!(outcome(&right, &right), Outcome::Equal);
    assert!(matches!(outcome(&right, &body("z", "EQ")), Outcome::Differs { .. }), "another operand");
    assert!(
        matches!(outcome(&body("s", "EQ"), &body("z", "EQ")), Outcome::Differs { .. }),
        "a tie of the plan's"
    );
    assert!(matches!(outcome(&body("x", "GE"), &body("x", "GT")), Outcome::Differs { .. }), "a tie");
}
