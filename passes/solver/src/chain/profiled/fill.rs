//! The least time that saves a number of bytes, over layers of several classes.

use super::patterns::{Pattern, Patterns};
use std::sync::Arc;

/// A step along a hull: bytes saved, and time for them.
#[derive(Clone, Copy, Debug)]
pub struct Slope {
    /// Milliseconds per MiB.
    pub ms_per_mib: f64,
    /// MiB.
    pub mib: f64,
    /// Milliseconds.
    pub ms: f64,
}

/// Some layers with the same patterns.
#[derive(Clone)]
pub struct Piece {
    /// Their patterns.
    pub patterns: Arc<Patterns>,
    /// How many there are.
    pub n_layers: usize,
}

/// Which pattern how many layers of a piece take.
pub type Shares = Vec<(usize, usize)>;

/// The steps of a hull, the cheapest bytes first.
pub fn slopes(patterns: &Patterns) -> impl Iterator<Item = Slope> + '_ {
    patterns.hull.windows(2).map(move |pair| {
        let (a, b) = (&patterns.points[pair[0]], &patterns.points[pair[1]]);
        let (mib, ms) = (b.saved_mib - a.saved_mib, b.ms - a.ms);
        Slope { ms_per_mib: ms / mib, mib, ms }
    })
}

/// The least milliseconds that save `need_mib` if layers could be divided; `most_ms` where it is more than
/// that.
///
/// `pieces` are the steps of some layers, the cheapest bytes first, and how many layers have them.
pub fn divided_ms(pieces: &mut [(&[Slope], f64)], need_mib: f64, most_ms: f64) -> f64 {
    let (mut left_mib, mut ms) = (need_mib, 0.0);
    loop {
        let mut next: Option<(usize, &Slope)> = None;
        for (at, (steps, _)) in pieces.iter().enumerate() {
            let Some(step) = steps.first() else { continue };
            if next.is_none_or(|next| step.ms_per_mib < next.1.ms_per_mib) {
                next = Some((at, step));
            }
        }
        let Some((at, step)) = next else { break };
        let (steps, times) = &mut pieces[at];
        *steps = &steps[1..];
        if left_mib <= step.mib * *times {
            return most_ms.min(ms + step.ms_per_mib * left_mib.max(0.0));
        }
        left_mib -= step.mib * *times;
        ms += step.ms * *times;
        if ms >= most_ms {
            return most_ms;
        }
    }
    if left_mib <= EPSILON_MIB { most_ms.min(ms) } else { most_ms }
}

/// Bytes are compared up to this.
const EPSILON_MIB: f64 = 1e-9;

/// Few milliseconds that save `need_mib` with whole layers, and what each piece's layers take; `None` where
/// nothing saves as much.
///
/// The cheapest bytes first, as long as a whole layer's step fits; the rest by the best change of one or two
/// layers.
pub fn whole_ms(pieces: &[Piece], need_mib: f64) -> Option<(f64, Vec<Shares>)> {
    let mut steps: Vec<(f64, usize, usize)> = Vec::new();
    for (piece, of) in pieces.iter().enumerate() {
        steps.extend(slopes(&of.patterns).enumerate().map(|(at, slope)| (slope.ms_per_mib, piece, at)));
    }
    steps.sort_by(|a, b| a.0.total_cmp(&b.0));
    let mut shares: Vec<Shares> =
        pieces.iter().map(|piece| vec![(piece.patterns.hull[0], piece.n_layers)]).collect();
    let (mut left_mib, mut ms) = (need_mib, 0.0);
    for (_, piece, at) in steps {
        let Piece { patterns, n_layers } = &pieces[piece];
        let [from, to] = [at, at + 1].map(|at| patterns.hull[at]);
        let mib = patterns.points[to].saved_mib - patterns.points[from].saved_mib;
        let n = ((left_mib / mib).floor().max(0.0) as usize).min(*n_layers);
        left_mib -= mib * n as f64;
        ms += (patterns.points[to].ms - patterns.points[from].ms) * n as f64;
        shares[piece] = vec![(from, n_layers - n), (to, n)];
        shares[piece].retain(|share| share.1 > 0);
        if n < *n_layers {
            break;
        }
    }
    if left_mib <= EPSILON_MIB {
        return Some((ms, shares));
    }
    let (more_ms, changes) = best_changes(pieces, &shares, left_mib)?;
    changes.iter().for_each(|change| change.apply(&mut shares));
    Some((ms + more_ms, shares))
}

/// One layer of a piece takes another pattern.
#[derive(Clone, Copy)]
struct Change {
    piece: usize,
    from: usize,
    to: usize,
    mib: f64,
    ms: f64,
}

impl Change {
    fn apply(&self, shares: &mut [Shares]) {
        let shares = &mut shares[self.piece];
        if let Some(share) = shares.iter_mut().find(|share| share.0 == self.from && share.1 > 0) {
            share.1 -= 1;
        }
        shares.push((self.to, 1));
        shares.retain(|share| share.1 > 0);
    }
}

fn changes(pieces: &[Piece], shares: &[Shares]) -> Vec<Change> {
    let mut changes = Vec::new();
    for (piece, of) in pieces.iter().enumerate() {
        let points: &[Pattern] = &of.patterns.points;
        for &(from, _) in &shares[piece] {
            let others = (0..points.len()).filter(|&to| to != from);
            changes.extend(others.map(|to| {
                let mib = points[to].saved_mib - points[from].saved_mib;
                Change { piece, from, to, mib, ms: points[to].ms - points[from].ms }
            }));
        }
    }
    changes
}

/// The cheapest change of one layer, or of two, that saves as much.
fn best_changes(pieces: &[Piece], shares: &[Shares], need_mib: f64) -> Option<(f64, Vec<Change>)> {
    let mut all = changes(pieces, shares);
    all.sort_by(|a, b| b.mib.total_cmp(&a.mib));
    let mut best: Option<(f64, Vec<Change>)> = None;
    let mut keep = |ms: f64, changes: &[Change]| {
        if best.as_ref().is_none_or(|best| ms < best.0) {
            best = Some((ms, changes.to_vec()));
        }
    };
    // Per number of changes that save most: the cheapest among them.
    let mut cheapest: Vec<usize> = Vec::new();
    for (at, change) in all.iter().enumerate() {
        let last = cheapest.last().copied().unwrap_or(at);
        cheapest.push(if change.ms < all[last].ms { at } else { last });
    }
    for change in &all {
        if change.mib >= need_mib - EPSILON_MIB {
            keep(change.ms, &[*change]);
        }
        let n_enough = all.partition_point(|other| change.mib + other.mib >= need_mib - EPSILON_MIB);
        let Some(&other) = n_enough.checked_sub(1).and_then(|last| cheapest.get(last)) else { continue };
        if are_both_there(change, &all[other], shares) {
            keep(change.ms + all[other].ms, &[*change, all[other]]);
        }
    }
    best
}

fn are_both_there(a: &Change, b: &Change, shares: &[Shares]) -> bool {
    let is_same = (a.piece, a.from) == (b.piece, b.from);
    !is_same || shares[a.piece].iter().any(|share| share.0 == a.from && share.1 >= 2)
}
