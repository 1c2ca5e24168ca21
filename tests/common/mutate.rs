//! Edits of program texts that often leave them legal, and the loops that try them.

use super::Random;
use phzc_ir::{DType, Opcode};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// No case of a plain `cargo test` may take longer.
pub const MAX_CASE: Duration = Duration::from_secs(20);

/// Pieces that mutations put in.
const TOKENS: &[&str] = &[
    "{",
    "}",
    "(",
    ")",
    "[",
    "]",
    ",",
    "=",
    "\"",
    "%",
    "/*",
    "*/",
    "//",
    "\n",
    "-",
    "0",
    "1",
    "-1",
    "64",
    "9223372036854775807",
    "-9223372036854775808",
    "18446744073709551616",
    "1e999",
    "nan",
    "inf",
    "f32[]",
    "f32[0]",
    "s32[]",
    "pred[]",
    "token[]",
    "(f32[2], s32[])",
    "<=4",
    "?",
    "{...}",
    "{1,0}",
    "{1,0:T(8,128)}",
    "ROOT ",
    "ENTRY ",
    "HloModule ",
    "parameter(0)",
    "constant(1)",
    "tuple()",
    "after-all()",
    "get-tuple-element(",
    "while(",
    "dot(",
    "reduce(",
    "reshape(",
    "broadcast(",
    "transpose(",
    "convolution(",
    "gather(",
    "scatter(",
    "sort(",
    "fusion(",
    "conditional(",
    "custom-call(",
    "iota()",
    ", index=0",
    ", index=9",
    ", dimensions={0}",
    ", dimensions={0,0}",
    ", dimensions={7}",
    ", dimensions={-1}",
    ", lhs_contracting_dims={0}",
    ", rhs_batch_dims={1}",
    ", to_apply=",
    ", window={size=3 stride=0}",
    ", window={size=0x1 pad=-9_9x1_1}",
    ", padding=-1_-1_-1",
    ", slice={[5:1:0]}",
    ", dim_labels=b01f_01io->b01f",
    ", sharding={devices=[2,4]<=[8]}",
    ", sharding={devices=[0]<=[0]}",
    ", sharding={devices=[4294967296,4294967296]<=[8]}",
    ", sharding={maximal device=-1}",
    ", sharding={{replicated}}",
    ", frontend_attributes={a=\"b\"}",
    ", replica_groups={{0,1},{2,3}}",
    ", channel_id=1",
    ", feature_group_count=0",
    ", iota_dimension=5",
    ", exponent_bits=99",
    ", feature_index=3",
    ", epsilon=1",
    ", fft_length={0}",
];

/// Tries one edit of the seeds; what `examine` says of it. A finding panics with the file that has the text.
pub fn case(name: &str, seeds: &[String], number: u64, examine: impl Fn(&str) -> bool) -> bool {
    let (said, took) = timed_case(name, seeds, number, examine);
    assert!(took < MAX_CASE, "case {number}: too slow: {took:?}");
    said
}

/// The same however long it takes, with the time that it took.
pub fn timed_case(
    name: &str,
    seeds: &[String],
    number: u64,
    examine: impl Fn(&str) -> bool,
) -> (bool, Duration) {
    let text = mutated(seeds, &mut Random(number));
    let start = Instant::now();
    let result = catch_unwind(AssertUnwindSafe(|| examine(&text)));
    let took = start.elapsed();
    if let (Ok(said), true) = (&result, took < MAX_CASE) {
        return (*said, took);
    }
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("{name}_{number}.ir"));
    std::fs::write(&path, &text).expect("the target directory is writable");
    eprintln!("case {number} took {took:?}: {}", path.display());
    (result.unwrap_or_else(|_| panic!("case {number}: a panic: {}", path.display())), took)
}

/// Tries cases on all cores for that long; how many there were, and of how many `case` said yes.
pub fn for_secs(secs: u64, case: impl Fn(u64) -> bool + Sync) -> (u64, u64) {
    let start = Instant::now();
    on_all_cores(|_| start.elapsed() < Duration::from_secs(secs), case)
}

/// Tries cases on all cores until `case` said yes to that many; how many there were.
pub fn until_said(n_said: u64, case: impl Fn(u64) -> bool + Sync) -> u64 {
    on_all_cores(|n_so_far| n_so_far < n_said, case).0
}

/// Tries cases while `goes_on`, which is told to how many `case` said yes; both counts.
fn on_all_cores(goes_on: impl Fn(u64) -> bool + Sync, case: impl Fn(u64) -> bool + Sync) -> (u64, u64) {
    let n_threads = std::thread::available_parallelism().map_or(1, usize::from) as u64;
    let n_said = AtomicU64::new(0);
    let worker = |first: u64| {
        let mut n_cases = 0;
        while goes_on(n_said.load(Ordering::Relaxed)) {
            // Numbers that a plain `cargo test` does not reach.
            let said = case(1 << 32 | (first + n_cases * n_threads));
            n_said.fetch_add(u64::from(said), Ordering::Relaxed);
            n_cases += 1;
        }
        n_cases
    };
    let n_cases = std::thread::scope(|scope| {
        let workers: Vec<_> = (0..n_threads).map(|first| scope.spawn(move || worker(first))).collect();
        workers.into_iter().map(|worker| worker.join().expect("no finding")).sum()
    });
    (n_cases, n_said.into_inner())
}

/// One of the seeds with one edit or a few.
pub fn mutated(seeds: &[String], random: &mut Random) -> String {
    let mut text = seeds[random.below(seeds.len())].clone().into_bytes();
    let n_edits = 1 + random.below(2) * random.below(5);
    for _ in 0..n_edits {
        mutate(&mut text, seeds, random);
    }
    String::from_utf8_lossy(&text).into_owned()
}

/// One edit: mostly of tokens, for a random byte seldom parses.
fn mutate(text: &mut Vec<u8>, seeds: &[String], random: &mut Random) {
    let at = random.below(text.len() + 1);
    let end = (at + random.below(40)).min(text.len());
    match random.below(16) {
        0 => text.truncate(at),
        1 => drop(text.drain(at..end)),
        2 => text.splice(at..at, text[at..end].to_vec()).for_each(drop),
        3 => text.insert(at, random.next() as u8),
        4 => {
            let other = seeds[random.below(seeds.len())].as_bytes();
            let from = random.below(other.len());
            let to = (from + random.below(200)).min(other.len());
            text.splice(at..end, other[from..to].iter().copied()).for_each(drop);
        }
        5 | 6 => replace_number(text, at, random),
        7 => swap_lines(text, at, random),
        8 | 9 => {
            replace_word(text, at, random, |text, random| word_at(text, random.below(text.len())).to_vec())
        }
        10 | 11 => replace_word(text, at, random, |_, random| {
            Opcode::ALL[random.below(Opcode::ALL.len())].as_str().as_bytes().to_vec()
        }),
        12 => replace_word(text, at, random, |_, random| {
            DType::ALL[random.below(DType::ALL.len())].as_str().as_bytes().to_vec()
        }),
        _ => {
            let token = TOKENS[random.below(TOKENS.len())].as_bytes();
            let at = word_end(text, at);
            text.splice(at..at, token.iter().copied()).for_each(drop);
        }
    }
}

/// Replaces the word at `at`: names by names, opcodes by opcodes, if luck will have it.
fn replace_word(
    text: &mut Vec<u8>,
    at: usize,
    random: &mut Random,
    word: impl Fn(&[u8], &mut Random) -> Vec<u8>,
) {
    let (new, n_bytes) = (word(text, random), word_at(text, at).len());
    let end = word_end(text, at);
    text.splice(end - n_bytes..end, new).for_each(drop);
}

/// The whole word that `at` is in or before.
fn word_at(text: &[u8], at: usize) -> &[u8] {
    let end = word_end(text, at.min(text.len()));
    let start = text[..end].iter().rposition(|&byte| !is_word(byte)).map_or(0, |before| before + 1);
    &text[start..end]
}

fn word_end(text: &[u8], at: usize) -> usize {
    (at..text.len()).find(|&at| !is_word(text[at])).unwrap_or(text.len())
}

fn is_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'.' | b'-')
}

/// Replaces the next number by another, small or extreme.
fn replace_number(text: &mut Vec<u8>, at: usize, random: &mut Random) {
    let Some(start) = (at..text.len()).find(|&at| text[at].is_ascii_digit()) else { return };
    let end = (start..text.len()).find(|&at| !text[at].is_ascii_digit()).unwrap_or(text.len());
    let extremes = ["0", "1", "4294967296", "9223372036854775807", "9223372036854775808"];
    let number = match random.below(3) {
        0 => extremes[random.below(extremes.len())].to_owned(),
        _ => random.below(9).to_string(),
    };
    text.splice(start..end, number.bytes()).for_each(drop);
}

/// Exchanges the line at `at` with another one.
fn swap_lines(text: &mut Vec<u8>, at: usize, random: &mut Random) {
    let mut lines: Vec<Vec<u8>> = text.split(|&byte| byte == b'\n').map(<[u8]>::to_vec).collect();
    let here = text[..at].iter().filter(|&&byte| byte == b'\n').count();
    let there = random.below(lines.len());
    lines.swap(here, there);
    *text = lines.join(&b'\n');
}
