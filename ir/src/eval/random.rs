//! `rng-bit-generator`: Threefry and Philox, counting as XLA's CPU backend does.

use super::Call;
use super::movement::joined;
use super::value::{Array, Value, sizes};
use crate::attr::Key;
use crate::diag::{Diagnostic, Result};
use crate::dtype::DType;
use crate::shape::ArrayShape;

/// `rng-bit-generator`: the new state and as many bits as the result holds.
///
/// `rng_default` is Philox, as on XLA's CPU and GPU backends.
pub(crate) fn bit_generator(call: &Call, mut args: Vec<Value>) -> Result<Value> {
    let state = args.swap_remove(0).array()?;
    let Some(shape) = call.view.instr.shape.parts().get(1).and_then(|part| part.as_array()) else {
        return Err(Diagnostic::error("`rng-bit-generator` makes its state and an array"));
    };
    let words: Vec<u64> = state.clone().buf::<i64>()?.iter().map(|&word| word as u64).collect();
    let is_threefry = call.view.instr.word(Key::Algorithm) == Some("rng_three_fry");
    if state.dtype() != DType::U64 || words.len() < 2 || shape.dtype.is_inexact() {
        return Err(Diagnostic::error(
            "`rng-bit-generator` needs a state of two or three u64 and makes integers",
        ));
    }
    let (state, bits) = match is_threefry {
        true => threefry_bits(&words, shape)?,
        false => philox_bits(&words, shape)?,
    };
    let n = state.len();
    let state = Array::from_vec(DType::U64, &[n], state.into_iter().map(|word| word as i64).collect());
    let state = state.ok_or_else(|| Diagnostic::error("the state is lost"))?;
    Ok(Value::Tuple(vec![state.into(), bits.into()]))
}

fn made(shape: &ArrayShape, dims: &[usize], bits: Vec<i64>) -> Result<Array> {
    Array::from_vec(shape.dtype, dims, bits)
        .ok_or_else(|| Diagnostic::error("the bits do not fill the result"))
}

/// Counters are elements' indices; of 32-bit results both halves of a block are used, in the two halves of
/// the first even dimension (of the largest, if all are odd), interleaved.
fn threefry_bits(state: &[u64], shape: &ArrayShape) -> Result<(Vec<u64>, Array)> {
    let (dims, key) = (sizes(&shape.dims)?, halves(state[0]));
    let block = |index: usize| threefry2x32(key, halves(state[1].wrapping_add(index as u64)));
    if shape.dtype.bits() == 64 {
        let n: usize = dims.iter().product();
        let bits = (0..n).map(|index| whole(block(index)) as i64).collect();
        return Ok((vec![state[0], state[1].wrapping_add(n as u64)], made(shape, &dims, bits)?));
    }
    let split = dims
        .iter()
        .position(|size| size.is_multiple_of(2))
        .unwrap_or_else(|| (0..dims.len()).rev().max_by_key(|&dim| dims[dim]).unwrap_or(0));
    let mut half: Vec<usize> = if dims.is_empty() { vec![1] } else { dims.to_vec() };
    half[split] = half[split].div_ceil(2);
    let n: usize = half.iter().product();
    let blocks: Vec<[u32; 2]> = (0..n).map(block).collect();
    let state = vec![state[0], state[1].wrapping_add(n as u64)];
    half.insert(split + 1, 1);
    let side = |side: usize| made(shape, &half, blocks.iter().map(|block| i64::from(block[side])).collect());
    let both = joined(&[side(0)?, side(1)?], split + 1)?;
    if dims.is_empty() {
        return Ok((state, both.slice(&[0, 0], &[1, 1])?.reshaped(&[])));
    }
    let mut even = dims.to_vec();
    even[split] = even[split].next_multiple_of(2);
    Ok((state, both.reshaped(&even).slice(&vec![0; dims.len()], &dims)?))
}

/// Counters are blocks of four words, used one after the other.
fn philox_bits(state: &[u64], shape: &ArrayShape) -> Result<(Vec<u64>, Array)> {
    let (dims, key) = (sizes(&shape.dims)?, halves(state[0]));
    let n: usize = dims.iter().product();
    let per_element = if shape.dtype.bits() == 64 { 2 } else { 1 };
    let n_blocks = (n * per_element).div_ceil(4);
    let start = u128::from(state[1]) | u128::from(state.get(2).copied().unwrap_or(0)) << 64;
    let words: Vec<u32> =
        (0..n_blocks as u128).flat_map(|block| philox4x32(key, start.wrapping_add(block))).collect();
    let bits = match per_element {
        1 => words.into_iter().take(n).map(i64::from).collect(),
        _ => words.chunks(2).take(n).map(|pair| whole([pair[0], pair[1]]) as i64).collect(),
    };
    let next = start.wrapping_add(n_blocks as u128);
    let state = [state[0], next as u64, (next >> 64) as u64][..state.len().min(3)].to_vec();
    Ok((state, made(shape, &dims, bits)?))
}

/// The lower and the upper half.
fn halves(word: u64) -> [u32; 2] {
    [word as u32, (word >> 32) as u32]
}

fn whole([low, high]: [u32; 2]) -> u64 {
    u64::from(low) | u64::from(high) << 32
}

/// Threefry-2x32 with 20 rounds (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", 2011).
fn threefry2x32(key: [u32; 2], counter: [u32; 2]) -> [u32; 2] {
    const ROTATIONS: [[u32; 4]; 2] = [[13, 15, 26, 6], [17, 29, 16, 24]];
    let keys = [key[0], key[1], key[0] ^ key[1] ^ 0x1bd1_1bda];
    let (mut x, mut y) = (counter[0].wrapping_add(keys[0]), counter[1].wrapping_add(keys[1]));
    for round in 0..5 {
        for rotation in ROTATIONS[round % 2] {
            x = x.wrapping_add(y);
            y = y.rotate_left(rotation) ^ x;
        }
        x = x.wrapping_add(keys[(round + 1) % 3]);
        y = y.wrapping_add(keys[(round + 2) % 3]).wrapping_add(round as u32 + 1);
    }
    [x, y]
}

/// Philox-4x32 with 10 rounds (the same paper).
fn philox4x32(mut key: [u32; 2], counter: u128) -> [u32; 4] {
    let mut x = [counter as u32, (counter >> 32) as u32, (counter >> 64) as u32, (counter >> 96) as u32];
    for _ in 0..10 {
        let (a, b) = (u64::from(x[0]) * 0xd251_1f53, u64::from(x[2]) * 0xcd9e_8d57);
        x = [(b >> 32) as u32 ^ x[1] ^ key[0], b as u32, (a >> 32) as u32 ^ x[3] ^ key[1], a as u32];
        key = [key[0].wrapping_add(0x9e37_79b9), key[1].wrapping_add(0xbb67_ae85)];
    }
    x
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::eval::check::check;

    /// Key 5, 7 and counter 3: the blocks are (265662270, 1771709263), (1204571538, 15483434), (2273038877,
    /// 3168857814).
    #[test]
    fn threefry_counts_elements_of_64_bits_and_halves_of_32() {
        let bits = |shape: &str, next: u32, expected: &str| {
            let body = format!(
                "s: u64[2]; ROOT r = (u64[2], {shape}) rng-bit-generator(s), algorithm=rng_three_fry"
            );
            check(&body, &["{30064771077, 3}"], &format!("({{30064771077, {next}}}, {expected})"));
        };
        bits("u64[2]", 5, "{7609433342870925118, 66500843864346002}");
        bits("u32[4]", 5, "{265662270, 1771709263, 1204571538, 15483434}");
        bits("u32[3]", 5, "{265662270, 1771709263, 1204571538}");
        bits("u32[]", 4, "265662270");
        bits("u32[3,2]", 6, "{{265662270, 1771709263}, {1204571538, 15483434}, {2273038877, 3168857814}}");
        bits("u32[2,3]", 6, "{{265662270, 1204571538, 2273038877}, {1771709263, 15483434, 3168857814}}");
        bits("u32[1,3]", 5, "{{265662270, 1771709263, 1204571538}}");
    }

    /// Key 5, 7 and the counter before 3 2^64.
    #[test]
    fn philox_counts_blocks_of_four_words() {
        let bits = |shape: &str, next: &str, expected: &str| {
            let body =
                format!("s: u64[3]; ROOT r = (u64[3], {shape}) rng-bit-generator(s), algorithm=rng_default");
            let state = "{30064771077, 18446744073709551615, 2}";
            check(&body, &[state], &format!("({{30064771077, {next}}}, {expected})"));
        };
        bits("u32[4]", "0, 3", "{3315271198, 2425218715, 3925906503, 1653345395}");
        bits("u32[5]", "1, 3", "{3315271198, 2425218715, 3925906503, 1653345395, 2604736074}");
        bits("u64[2]", "0, 3", "{10416235069887415838, 7101064404443108423}");
        bits("u8[1]", "0, 3", "{30}");
    }

    #[test]
    fn a_short_state_stays_short_and_others_are_errors() {
        let body = |state: &str, made: &str| {
            format!("s: {state}; ROOT r = ({state}, {made}) rng-bit-generator(s), algorithm=rng_philox")
        };
        check(&body("u64[2]", "u32[1]"), &["{0, 0}"], "({0, 1}, {1713891541})");
        let wrong = "error: `rng-bit-generator` needs a state of two or three u64 and makes integers";
        check(&body("u64[1]", "u32[1]"), &["{0}"], wrong);
        check(&body("u64[2]", "f32[1]"), &["{0, 0}"], wrong);
    }

    /// Known answers of the reference implementation, Random123's `kat_vectors`.
    #[test]
    fn blocks_are_those_of_the_reference_implementation() {
        assert_eq!(threefry2x32([0, 0], [0, 0]), [0x6b20_0159, 0x99ba_4efe]);
        assert_eq!(threefry2x32([u32::MAX; 2], [u32::MAX; 2]), [0x1cb9_96fc, 0xbb00_2be7]);
        assert_eq!(
            threefry2x32([0x1319_8a2e, 0x0370_7344], [0x243f_6a88, 0x85a3_08d3]),
            [0xc492_3a9c, 0x483d_f7a0]
        );
        assert_eq!(philox4x32([0, 0], 0), [0x6627_e8d5, 0xe169_c58d, 0xbc57_ac4c, 0x9b00_dbd8]);
        assert_eq!(
            philox4x32([u32::MAX; 2], u128::MAX),
            [0x408f_276d, 0x41c8_3b0e, 0xa20b_c7c6, 0x6d54_51fd]
        );
    }
}
