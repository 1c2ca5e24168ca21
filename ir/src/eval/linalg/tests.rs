//! Roots, triangular systems and spectra of known matrices.

use crate::eval::check::{check, result};

#[test]
fn a_root_and_its_systems() {
    let lower = "x: f64[2,2]; ROOT c = f64[2,2] cholesky(x), lower=true";
    check(lower, &["{{4, 9}, {2, 5}}"], "{{2, 0}, {1, 2}}");
    let upper = "x: f64[2,2]; ROOT c = f64[2,2] cholesky(x), lower=false";
    check(upper, &["{{4, 2}, {9, 5}}"], "{{2, 1}, {0, 2}}");
    let solve = |attrs: &str| {
        format!("a: f64[2,2]; b: f64[2,2]; ROOT x = f64[2,2] triangular-solve(a, b), lower=true, {attrs}")
    };
    let (a, b) = ("{{2, 99}, {1, 4}}", "{{2, 4}, {5, 6}}");
    check(&solve("left_side=true, transpose_a=NO_TRANSPOSE"), &[a, b], "{{1, 2}, {1, 1}}");
    check(&solve("left_side=true, transpose_a=TRANSPOSE"), &[a, b], "{{0.375, 1.25}, {1.25, 1.5}}");
    check(&solve("left_side=false, transpose_a=NO_TRANSPOSE"), &[a, b], "{{0.5, 1}, {1.75, 1.5}}");
    check(
        &solve("left_side=true, unit_diagonal=true, transpose_a=NO_TRANSPOSE"),
        &[a, b],
        "{{2, 4}, {3, 2}}",
    );
}

#[test]
fn spectra_and_back() {
    let fft = "x: c128[4]; y = c128[4] fft(x), fft_type=FFT, fft_length={4}; r = f64[4] imag(y); n = f64[4] round-nearest-even(r); ROOT z = s32[4] convert(n)";
    check(fft, &["{(1, 0), (2, 0), (3, 0), (5, 0)}"], "{0, 3, 0, -3}");
    let back = "x: f64[2,6]; s = c128[2,4] fft(x), fft_type=RFFT, fft_length={2,6}; y = f64[2,6] fft(s), fft_type=IRFFT, fft_length={2,6}; ROOT z = s32[2,6] convert(r); ".replace("ROOT z", "r = f64[2,6] round-nearest-even(y); ROOT z");
    check(&back, &["{{1, 2, 3, 4, 5, 6}, {6, 5, 4, 3, 2, 1}}"], "{{1, 2, 3, 4, 5, 6}, {6, 5, 4, 3, 2, 1}}");
}

#[test]
fn roots_of_three_rows_in_every_type() {
    let root = |dtype: &str, lower: bool, x: &str| {
        result(&format!("x: {dtype}[3,3]; ROOT c = {dtype}[3,3] cholesky(x), lower={lower}"), &[x])
    };
    for dtype in ["f32", "f64"] {
        let lower = root(dtype, true, "{{4, 99, 99}, {2, 10, 99}, {8, 19, 77}}");
        assert_eq!(lower, "{{2, 0, 0}, {1, 3, 0}, {4, 5, 6}}");
        let upper = root(dtype, false, "{{4, 2, 8}, {99, 10, 19}, {99, 99, 77}}");
        assert_eq!(upper, "{{2, 1, 4}, {0, 3, 5}, {0, 0, 6}}");
    }
    // (2, 0; i, 2) times its conjugate transpose.
    for dtype in ["c64", "c128"] {
        let body = |lower: bool| format!("x: {dtype}[2,2]; ROOT c = {dtype}[2,2] cholesky(x), lower={lower}");
        let hermitian = "{{(4, 0), (0, -2)}, {(0, 2), (5, 0)}}";
        assert_eq!(result(&body(true), &[hermitian]), "{{(2, 0), (0, 0)}, {(0, 1), (2, 0)}}");
        let upper = result(&body(false), &[hermitian]).replace("-0", "0");
        assert_eq!(upper, "{{(2, 0), (0, -1)}, {(0, 0), (2, 0)}}");
    }
    let several = "x: f64[2,1,1]; ROOT c = f64[2,1,1] cholesky(x), lower=true";
    check(several, &["{{{4}}, {{9}}}"], "{{{2}}, {{3}}}");
}

#[test]
fn triangular_systems_from_either_side() {
    // Upper: 2 1 3, 4 5, 8; x is 1, 2, 3 and 0, 1, 0.
    let (upper, lower) = ("{{2, 1, 3}, {99, 4, 5}, {99, 99, 8}}", "{{2, 99, 99}, {1, 4, 99}, {3, 5, 8}}");
    let solve = |attrs: &str, a: &str, dims: &str, b: &str| {
        let body =
            format!("a: f32[3,3]; b: f32[{dims}]; ROOT x = f32[{dims}] triangular-solve(a, b), {attrs}");
        result(&body, &[a, b])
    };
    let left = |is_lower: bool, how: &str| format!("left_side=true, lower={is_lower}, transpose_a={how}");
    let right = |is_lower: bool, how: &str| left(is_lower, how).replace("left_side=true", "left_side=false");
    let (columns, wanted) = ("{{13, 1}, {23, 4}, {24, 0}}", "{{1, 0}, {2, 1}, {3, 0}}");
    assert_eq!(solve(&left(false, "NO_TRANSPOSE"), upper, "3,2", columns), wanted);
    assert_eq!(solve(&left(true, "TRANSPOSE"), lower, "3,2", columns), wanted);
    assert_eq!(solve(&left(true, "ADJOINT"), lower, "3,2", columns), wanted);
    let (rows, wanted) = ("{{2, 9, 37}, {0, 4, 5}}", "{{1, 2, 3}, {0, 1, 0}}");
    assert_eq!(solve(&right(false, "NO_TRANSPOSE"), upper, "2,3", rows), wanted);
    assert_eq!(solve(&right(true, "TRANSPOSE"), lower, "2,3", rows), wanted);
    assert_eq!(solve(&right(false, "TRANSPOSE"), upper, "1,3", "{{13, 23, 24}}"), "{{1, 2, 3}}");
    let complex = |how: &str| {
        format!("a: c64[1,1]; b: c64[1,1]; ROOT x = c64[1,1] triangular-solve(a, b), {}", left(true, how))
    };
    check(&complex("ADJOINT"), &["{{(0, 2)}}", "{{(2, 0)}}"], "{{(0, 1)}}");
    check(&complex("TRANSPOSE"), &["{{(0, 2)}}", "{{(2, 0)}}"], "{{(0, -1)}}");
}

/// The transform of these numbers, real and imaginary parts rounded to integers.
fn spectrum(kind: &str, lengths: &str, dims: &str, x: &str) -> [String; 2] {
    ["real", "imag"].map(|part| {
        let body = format!("x: f64[{dims}]; c = c128[{dims}] convert(x); y = c128[{dims}] fft(c), fft_type={kind}, fft_length={{{lengths}}}; r = f64[{dims}] {part}(y); n = f64[{dims}] round-nearest-even(r); ROOT z = s32[{dims}] convert(n)");
        result(&body, &[x])
    })
}

#[test]
fn the_spectrum_of_one_step_is_a_turn() {
    let step = |n: usize| format!("{{0, 1000{}}}", ", 0".repeat(n - 2));
    let of = |n: usize| spectrum("FFT", &n.to_string(), &n.to_string(), &step(n));
    assert_eq!(of(4), ["{1000, 0, -1000, 0}", "{0, -1000, 0, 1000}"]);
    assert_eq!(of(5), ["{1000, 309, -809, -809, 309}", "{0, -951, -588, 588, 951}"]);
    assert_eq!(of(6), ["{1000, 500, -500, -1000, -500, 500}", "{0, -866, -866, 0, 866, 866}"]);
    assert_eq!(of(8)[0], "{1000, 707, 0, -707, -1000, -707, 0, 707}");
    assert_eq!(of(9)[0], "{1000, 766, 174, -500, -940, -940, -500, 174, 766}");
    let back = spectrum("IFFT", "4", "4", "{0, 4000, 0, 0}");
    assert_eq!(back, ["{1000, 0, -1000, 0}", "{0, 1000, 0, -1000}"]);
}

#[test]
fn spectra_of_rows_and_of_planes() {
    let rows = spectrum("FFT", "2", "2,2", "{{1, 2}, {3, 5}}");
    assert_eq!(rows[0], "{{3, -1}, {8, -2}}");
    let plane = spectrum("FFT", "2,3", "2,3", "{{0, 0, 0}, {0, 1000, 0}}");
    assert_eq!(plane, ["{{1000, -500, -500}, {-1000, 500, 500}}", "{{0, -866, 866}, {0, 866, -866}}"]);
}

#[test]
fn spectra_of_real_numbers_are_halves() {
    let half = |n: usize, half: usize, x: &str| {
        let body = format!(
            "x: f32[{n}]; y = c64[{half}] fft(x), fft_type=RFFT, fft_length={{{n}}}; r = f32[{half}] real(y); q = f32[{half}] round-nearest-even(r); ROOT z = s32[{half}] convert(q)"
        );
        result(&body, &[x])
    };
    assert_eq!(half(4, 3, "{0, 1000, 0, 0}"), "{1000, 0, -1000}");
    assert_eq!(half(3, 2, "{0, 1000, 0}"), "{1000, -500}");
    let back = "x: c64[3]; y = f32[4] fft(x), fft_type=IRFFT, fft_length={4}; q = f32[4] round-nearest-even(y); ROOT z = s32[4] convert(q)";
    check(back, &["{(1000, 0), (0, -1000), (-1000, 0)}"], "{0, 1000, 0, 0}");
    let odd = back
        .replace("f32[4]", "f32[3]")
        .replace("s32[4]", "s32[3]")
        .replace("{4}", "{3}")
        .replace("c64[3]", "c64[2]");
    check(&odd, &["{(900, 0), (-450, 0)}"], "{0, 450, 450}");
}
