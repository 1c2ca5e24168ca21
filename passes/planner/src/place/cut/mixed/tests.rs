//! Cuts with different sizes and kinds, against brute force.

use super::*;
use crate::testing::Random;
use phzc_cost::Schedule;

const SIZES: [usize; 3] = [1, 2, 4];
const N_MICROBATCHES: usize = 4;

fn group(kind: usize, n_devices: usize) -> Group {
    Group { kind, n_devices }
}

fn pool(kind: usize, n_devices: usize, domains: &[usize]) -> Pool {
    Pool { kind, n_devices, domains: domains.to_vec(), memory_share: 1.0 }
}

fn part(random: &mut Random) -> f64 {
    random.below(1 << 20) as f64 / f64::from(1 << 20)
}

fn chain(n_layers: usize, size: usize, random: &mut Random) -> Chain {
    let mut all = |most: f64| -> Vec<f64> { (0..n_layers).map(|_| most * part(random)).collect() };
    let share = 1.0 / (size as f64).sqrt();
    let (secs, send_secs) = (all(share), all(0.2 * share));
    let (fixed_bytes, flight_bytes) = (all(share), all(share));
    Chain {
        forward_secs: secs.iter().map(|secs| secs / 3.0).collect(),
        weight_secs: secs.iter().map(|secs| secs / 3.0).collect(),
        secs,
        schedule: Schedule::default(),
        update_secs: vec![0.0; n_layers],
        fixed_bytes,
        flight_bytes,
        send_secs,
        kind: (0..n_layers).collect(),
        ..Chain::default()
    }
}

/// The least seconds, by brute force, of ways that begin with these stages, all of one size or not.
fn brute(mix: &Mix, from: usize, is_equal: bool, spans: &mut Vec<(usize, usize, usize)>) -> f64 {
    let used = spans.iter().map(|span| span.2).sum::<usize>();
    if from == mix.chains[0].1.secs.len() {
        let is_whole = used == mix.n_devices() && mix.n_stages.contains(&spans.len());
        let is_wanted = spans.iter().all(|span| span.2 == spans[0].2) == is_equal;
        return if is_whole && is_wanted { secs(mix, spans) } else { f64::INFINITY };
    }
    let mut best = f64::INFINITY;
    for to in from + 1..=mix.chains[0].1.secs.len() {
        for size in SIZES.into_iter().filter(|size| used + size <= mix.n_devices()) {
            let is_inside = |domain: &usize| {
                used / domain == (used + size - 1) / domain || used % domain == 0 && size % domain == 0
            };
            if mix.pools[0].domains.iter().all(is_inside) {
                spans.push((from, to, size));
                best = best.min(brute(mix, to, is_equal, spans));
                spans.pop();
            }
        }
    }
    best
}

fn secs(mix: &Mix, spans: &[(usize, usize, usize)]) -> f64 {
    let stage = |(at, &(from, to, size)): (usize, &(usize, usize, usize))| {
        let chain = &mix.chains[mix.place(0, size).expect("a size")].1;
        let in_flight = (spans.len() - at).min(mix.n_microbatches) as f64;
        let bytes = |layer: usize| chain.fixed_bytes[layer] + in_flight * chain.flight_bytes[layer];
        let is_small = (from..to).map(bytes).sum::<f64>() <= mix.limit_bytes;
        let secs = (from..to).map(|layer| chain.secs[layer]).sum::<f64>();
        if is_small { secs + chain.send_secs.get(to).copied().unwrap_or(0.0) } else { f64::INFINITY }
    };
    let all: Vec<f64> = spans.iter().enumerate().map(stage).collect();
    all.iter().sum::<f64>() + (mix.n_microbatches as f64 - 1.0) * all.iter().copied().fold(0.0, f64::max)
}

#[test]
fn equals_brute_force_over_all_cuts_and_sizes() {
    let (mut n_found, mut n_alike) = (0, 0);
    for seed in 0..150 {
        let mut random = Random(seed);
        let n_layers = 3 + random.below(4);
        let chains = SIZES.map(|size| (group(0, size), chain(n_layers, size, &mut random)));
        let domains = [[2, 8], [4, 8], [8, 8]][random.below(3)];
        let n_stages = [2..=6, 3..=3, 2..=2][random.below(3)].clone();
        let limit_bytes = 1.0 + 8.0 * part(&mut random);
        let mix = Mix {
            chains: &chains,
            pools: &[pool(0, 8, &domains)],
            n_stages,
            n_microbatches: N_MICROBATCHES,
            limit_bytes,
        };
        let [equal, wanted] = [true, false].map(|is_equal| brute(&mix, 0, is_equal, &mut Vec::new()));
        let found = mix.cut(f64::INFINITY);
        let secs = found.as_ref().map_or(f64::INFINITY, |found| found.cut.step_secs);
        // Where equal sizes are best for their number of stages, no others with as many are looked for.
        let is_like = secs == wanted || (secs - wanted).abs() < 1e-9;
        assert!(is_like || wanted > equal && secs >= wanted, "seed {seed}: {secs} {wanted}, equal {equal}");
        n_alike += usize::from(is_like);
        assert!(mix.floor_secs() <= wanted, "seed {seed}");
        n_found += usize::from(found.is_some());
    }
    assert!(n_found > 75 && n_alike > 100, "{n_found} found, {n_alike} of 150 as by brute force");
}

/// Two layers whose figures are whole: devices busy with the first for 4 s, or 3 s on two at once.
fn two_sizes(schedule: Schedule) -> [(Group, Chain); 2] {
    let of = |secs: [f64; 2]| Chain {
        secs: secs.to_vec(),
        update_secs: vec![1.0; 2],
        forward_secs: vec![0.0; 2],
        weight_secs: vec![0.0; 2],
        fixed_bytes: vec![0.0; 2],
        flight_bytes: vec![0.0; 2],
        send_secs: vec![0.0; 2],
        kind: vec![0, 1],
        schedule,
        ..Chain::default()
    };
    [(group(0, 1), of([4.0, 6.0])), (group(0, 2), of([1.5, 5.0]))]
}

fn mix<'a>(chains: &'a [(Group, Chain)], pools: &'a [Pool]) -> Mix<'a> {
    Mix { chains, pools, n_stages: 2..=6, n_microbatches: 3, limit_bytes: f64::INFINITY }
}

#[test]
fn no_cut_takes_less_than_equally_busy_devices() {
    // Three and six seconds of one device are 2.25 s of four, a microbatch alone 1.5 s and 5 s.
    let floor = |schedule| mix(&two_sizes(schedule), &[pool(0, 4, &[2, 4])]).floor_secs();
    assert_eq!(floor(Schedule::OneFOneB), 6.5 + 2.0 * 2.25);
    assert_eq!(floor(Schedule::ZeroBubble), 3.0 * 2.25);
    // With half of the update: five seconds, for one on two devices has two such halves, and 6.5 s.
    assert_eq!(busy(&two_sizes(Schedule::OneFOneB), &[0.5; 2]), [0.0, 4.0, 4.0 + 6.5]);
}

#[test]
fn numbers_of_stages_that_equal_sizes_have_are_searched_alone() {
    assert_eq!(
        mix(&two_sizes(Schedule::OneFOneB), &[pool(0, 4, &[2, 4])]).ranges(),
        [2..=2, 3..=3, 4..=4, 5..=6]
    );
}

#[test]
fn stages_lie_in_one_node_or_have_whole_ones() {
    let chains = [1, 2, 3, 4].map(|size| (group(0, size), Chain::default()));
    let pools = [pool(0, 4, &[2, 4])];
    let mixed = Mixed {
        mix: &mix(&chains, &pools),
        n_stages: 2..=6,
        tables: Vec::new(),
        groups: vec![1, 2],
        busy: vec![0.0, 2.0],
        rounds: 2.0,
    };
    let allowed = [(0, 1), (1, 1), (0, 2), (2, 2), (0, 4)].map(|(first, n)| mixed.is_allowed(first, n));
    let refused = [(1, 2), (0, 3), (1, 3)].map(|(first, n)| mixed.is_allowed(first, n));
    assert_eq!((allowed, refused), ([true; 5], [false; 3]));
    assert_eq!((mixed.min_stages(), mixed.max_stages(), mixed.rounds()), (2, 6, 2.0));
    assert_eq!(mixed.busy_before(1), 2.0 * MS);
}

#[test]
fn stages_take_the_kinds_one_after_the_other_each_within_its_memory() {
    let alike = |secs: f64| Chain {
        secs: vec![secs; 6],
        forward_secs: vec![secs / 3.0; 6],
        weight_secs: vec![secs / 3.0; 6],
        update_secs: vec![0.0; 6],
        fixed_bytes: vec![1.0; 6],
        flight_bytes: vec![0.0; 6],
        send_secs: vec![0.0; 6],
        kind: vec![0; 6],
        ..Chain::default()
    };
    // Two devices of kind 1 are half as fast as one of kind 0.
    let chains = [(group(0, 1), alike(1.0)), (group(1, 2), alike(2.0))];
    let cut = |limit_bytes: f64, memory_share: f64| {
        let slow = Pool { memory_share, ..pool(1, 2, &[2]) };
        let pools = [slow, pool(0, 1, &[1])];
        let mix = Mix { limit_bytes, n_stages: 2..=2, n_microbatches: 64, ..mix(&chains, &pools) };
        mix.cut(f64::INFINITY).map(|found| (found.cut.starts, found.chain_of))
    };
    assert_eq!(cut(f64::INFINITY, 1.0), Some((vec![0, 2], vec![1, 0])));
    // A fourth of the memory of kind 0 holds one layer.
    assert_eq!(cut(5.0, 0.25), Some((vec![0, 1], vec![1, 0])));
    assert_eq!(cut(4.0, 0.25), None);
}
