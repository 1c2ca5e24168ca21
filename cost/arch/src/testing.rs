//! What tests share: the reference data beside the checkout.

use crate::estimate::{Layer, Work};
use crate::mapping::Nest;
use crate::mapping::vector::Function;
use serde_json::Value;

/// A file of `../shared/data/phaze`; says loudly when it is not there.
pub fn reference_text(name: &str) -> Option<String> {
    let path = format!("{}/../../../shared/data/phaze/{name}", env!("CARGO_MANIFEST_DIR"));
    let text = std::fs::read_to_string(path).ok();
    if text.is_none() {
        eprintln!("SKIPPED: no ../shared/data/phaze/{name}, nothing is compared with it");
    }
    text
}

/// A JSON file of `../shared/data/phaze`.
pub fn reference(name: &str) -> Option<Value> {
    Some(serde_json::from_str(&reference_text(name)?).expect("reference data is JSON"))
}

/// Whether two numbers differ by at most `tolerance`, relatively.
pub fn is_close(ours: f64, theirs: f64, tolerance: f64) -> bool {
    (ours - theirs).abs() <= tolerance * theirs.abs()
}

/// SHA-256 in hexadecimal digits (FIPS 180-4), for checksums of the reference.
pub fn sha256(bytes: &[u8]) -> String {
    let mut state = [2, 3, 5, 7, 11, 13, 17, 19].map(|prime| root_bits(prime, 1.0 / 2.0));
    let constants: Vec<u32> = primes(64).map(|prime| root_bits(prime, 1.0 / 3.0)).collect();
    let mut padded = bytes.to_vec();
    padded.push(0x80);
    padded.resize((padded.len() + 8).next_multiple_of(64) - 8, 0);
    padded.extend((bytes.len() as u64 * 8).to_be_bytes());
    for block in padded.chunks_exact(64) {
        compress(&mut state, block, &constants);
    }
    state.map(|word| format!("{word:08x}")).concat()
}

/// The first 32 bits of the fraction of a root.
fn root_bits(prime: u32, power: f64) -> u32 {
    let root = f64::from(prime).powf(power);
    (root.fract() * 2_f64.powi(32)).floor() as u32
}

fn primes(count: usize) -> impl Iterator<Item = u32> {
    (2..).filter(|number| (2..*number).all(|divisor| number % divisor != 0)).take(count)
}

fn compress(state: &mut [u32; 8], block: &[u8], constants: &[u32]) {
    let words = block.chunks_exact(4).map(|word| u32::from_be_bytes([word[0], word[1], word[2], word[3]]));
    let mut schedule: Vec<u32> = words.collect();
    let mix =
        |word: u32, [a, b, shift]: [u32; 3]| word.rotate_right(a) ^ word.rotate_right(b) ^ (word >> shift);
    for at in 16..64 {
        let (near, far) = (mix(schedule[at - 2], [17, 19, 10]), mix(schedule[at - 15], [7, 18, 3]));
        let sum = schedule[at - 16].wrapping_add(schedule[at - 7]).wrapping_add(near).wrapping_add(far);
        schedule.push(sum);
    }
    let [mut a, mut b, mut c, mut d, mut e, mut f, mut g, mut h] = *state;
    let turn =
        |word: u32, [a, b, c]: [u32; 3]| word.rotate_right(a) ^ word.rotate_right(b) ^ word.rotate_right(c);
    for (word, constant) in schedule.iter().zip(constants) {
        let chosen = (e & f) ^ (!e & g);
        let first = h.wrapping_add(turn(e, [6, 11, 25])).wrapping_add(chosen).wrapping_add(*constant);
        let first = first.wrapping_add(*word);
        let second = turn(a, [2, 13, 22]).wrapping_add((a & b) ^ (a & c) ^ (b & c));
        [h, g, f, e, d, c, b, a] = [g, f, e, d.wrapping_add(first), c, b, a, first.wrapping_add(second)];
    }
    for (total, word) in state.iter_mut().zip([a, b, c, d, e, f, g, h]) {
        *total = total.wrapping_add(word);
    }
}

/// A layer of Llama-2-7B as Phaze extracts it, for a microbatch of so many samples of 4096 tokens: attention
/// and the gated perceptron, without the two rotary parts, and with the projection to words that Phaze takes
/// along. As in Phaze, projections have the rows of one sample.
pub fn llama_layer(n_samples: u64) -> Layer {
    let (tokens, hidden, wide, heads) = (4096, 4096, 11008, 32 * n_samples);
    let scores = heads * tokens * tokens;
    let product = |rows, columns, reduction| Work::Contraction {
        nest: Nest::product(rows, columns, reduction),
        fused: Vec::new(),
        is_moved: false,
    };
    let projection = || Some(product(tokens, hidden, hidden));
    let fused = |nest, function| Work::Contraction { nest, fused: vec![function], is_moved: false };
    let simple =
        |output: u64| Work::Elementwise { function: Function::Simple, output, inputs: vec![output; 2] };
    let norm = Work::Chain {
        functions: vec![Function::Power, Function::Mean, Function::Simple, Function::Power],
        output: n_samples * tokens * hidden,
    };
    let ops = vec![
        Some(norm.clone()),
        projection(),
        projection(),
        projection(),
        Some(fused(Nest::product(heads * tokens, tokens, 128), Function::Divide)),
        Some(simple(scores)),
        Some(Work::Softmax { rows: heads * tokens, columns: tokens }),
        Some(product(heads * tokens, 128, tokens)),
        projection(),
        Some(norm),
        Some(fused(Nest::product(tokens, wide, hidden), Function::Sigmoid)),
        Some(product(tokens, wide, hidden)),
        Some(simple(n_samples * tokens * wide)),
        Some(product(tokens, hidden, wide)),
        Some(product(tokens, 32000, hidden)),
    ];
    let attention = [(0, 1), (0, 2), (0, 3), (1, 4), (2, 4), (4, 5), (5, 6), (6, 7), (3, 7), (7, 8)];
    let rest = [(8, 9), (9, 10), (9, 11), (10, 12), (11, 12), (12, 13), (13, 14)];
    Layer { ops, edges: attention.into_iter().chain(rest).collect(), kernels: None }
}
