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

#[cfg(test)]
mod tests {
    use super::*;

    /// Layers with patterns of so many MiB saved in so many milliseconds, some of them on the hull.
    fn piece(points: &[(f64, f64)], hull: &[usize], n_layers: usize) -> Piece {
        let point = |(at, &(saved_mib, ms)): (usize, &(f64, f64))| Pattern { saved_mib, ms, ops: at as u64 };
        let points = points.iter().enumerate().map(point).collect();
        Piece { patterns: Arc::new(Patterns { points, hull: hull.to_vec() }), n_layers }
    }

    /// Three layers that save ten MiB in a millisecond, ten more in three; and two that save four in two.
    fn pieces() -> [Piece; 2] {
        [
            piece(&[(0.0, 0.0), (10.0, 1.0), (20.0, 4.0)], &[0, 1, 2], 3),
            piece(&[(0.0, 0.0), (4.0, 2.0)], &[0, 1], 2),
        ]
    }

    #[test]
    fn steps_along_a_hull_have_their_price() {
        let found: Vec<(f64, f64, f64)> =
            slopes(&pieces()[0].patterns).map(|slope| (slope.ms_per_mib, slope.mib, slope.ms)).collect();
        assert_eq!(found, [(0.1, 10.0, 1.0), (0.3, 10.0, 3.0)]);
    }

    #[test]
    fn the_cheapest_bytes_are_saved_first_and_a_layer_may_be_divided() {
        let of = |need_mib: f64, most_ms: f64| {
            let steps: Vec<Vec<Slope>> =
                pieces().iter().map(|piece| slopes(&piece.patterns).collect()).collect();
            let mut pieces = [(&steps[0][..], 3.0), (&steps[1][..], 2.0)];
            divided_ms(&mut pieces, need_mib, most_ms)
        };
        for (need_mib, ms) in
            [(-1.0, 0.0), (0.0, 0.0), (5.0, 0.5), (30.0, 3.0), (35.0, 4.5), (60.0, 12.0), (68.0, 16.0)]
        {
            assert!((of(need_mib, 99.0) - ms).abs() < 1e-9, "{need_mib}: {}", of(need_mib, 99.0));
        }
        // Nothing saves more; and what takes too long takes that long.
        assert_eq!([of(68.5, 99.0), of(60.0, 9.0), of(5.0, 0.25)], [99.0, 9.0, 0.25]);
    }

    #[test]
    fn whole_layers_save_the_cheapest_bytes_first() {
        let of = |need_mib: f64| whole_ms(&pieces(), need_mib);
        assert_eq!(of(0.0), Some((0.0, vec![vec![(0, 3)], vec![(0, 2)]])));
        assert_eq!(of(20.0), Some((2.0, vec![vec![(0, 1), (1, 2)], vec![(0, 2)]])));
        // Five MiB more: the third layer's ten take a millisecond.
        assert_eq!(of(25.0), Some((3.0, vec![vec![(1, 2), (1, 1)], vec![(0, 2)]])));
        assert_eq!(of(68.0), Some((16.0, vec![vec![(2, 3)], vec![(1, 2)]])));
        assert_eq!(of(68.1), None);
    }

    #[test]
    fn the_rest_is_saved_by_the_best_change_of_one_layer_or_two() {
        // One layer goes on to its second pattern in three milliseconds; two others would take four.
        let (ms, shares) = whole_ms(&pieces(), 38.0).expect("it can be saved");
        assert_eq!((ms, &shares[1]), (6.0, &vec![(0, 2)]));
        let mut all: Vec<(usize, usize)> = shares[0].clone();
        all.sort_unstable();
        assert_eq!(all, [(1, 2), (2, 1)]);
        // Four MiB more are cheaper saved by a layer of the other kind.
        assert_eq!(whole_ms(&pieces(), 34.0), Some((5.0, vec![vec![(1, 3)], vec![(0, 1), (1, 1)]])));
        // A pattern above the hull is taken where it is enough: seven MiB in five milliseconds.
        let above = [piece(&[(0.0, 0.0), (7.0, 5.0), (10.0, 6.0)], &[0, 2], 1)];
        assert_eq!(whole_ms(&above, 7.0), Some((5.0, vec![vec![(1, 1)]])));
        assert_eq!(whole_ms(&above, 8.0), Some((6.0, vec![vec![(2, 1)]])));
    }

    #[test]
    fn two_changes_need_two_layers() {
        let of = |n_layers: usize| {
            whole_ms(&[piece(&[(0.0, 0.0), (6.0, 1.0), (11.0, 8.0)], &[0, 2], n_layers)], 11.5)
        };
        assert_eq!(of(1), None);
        let (ms, mut shares) = of(2).expect("two layers save twelve");
        shares[0].sort_unstable();
        // Each saves six; not eleven and six.
        assert_eq!((ms, &shares[0][..]), (2.0, &[(1, 1), (1, 1)][..]));
    }
}
