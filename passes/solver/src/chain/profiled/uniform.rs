//! Stages whose operators are all split alike: their times by sums over operators, recomputation by layers.

use super::super::Span;
use super::algos::along;
use super::fill::{Piece, Shares, Slope, divided_ms, slopes, whole_ms};
use super::layers::Layers;
use super::patterns::{Candidate, Edge, Patterns, Use, hull_patterns, patterns};
use super::range_max::RangeMax;
use super::{Cap, Degrees, Setting};
use indexmap::IndexMap;
use phzc_cost::aceso::{OpChoice, StageChoice};
use phzc_cost::profile::OpProfile;
use rustc_hash::FxBuildHasher;
use std::hash::Hash;
use std::sync::{Arc, PoisonError, RwLock};

/// One split of all operators.
pub struct Uniform {
    degrees: Degrees,
    /// Per operator: the dimension that is split.
    algo: Vec<u32>,
    /// Per operator: what it takes.
    pub(super) profiles: Vec<OpProfile>,
    candidates: Vec<Candidate>,
    /// Sums over the operators before each.
    ms: Vec<f64>,
    weight_mib: Vec<f64>,
    state_mib: Vec<f64>,
    kept_mib: Vec<f64>,
    reserved: [RangeMax; 2],
    /// How much a run may hold, and the patterns that it allows.
    caps: Vec<Cap>,
    /// Per cap and class: the steps for what lies between it and the next.
    whole: Vec<Vec<Vec<Slope>>>,
    parts: Known<PartKey, SlopesPerBound>,
    part: Known<PatternsKey, Arc<Patterns>>,
}

/// A part of a layer: its class, first operator and the one after its last.
type PartKey = (usize, usize, usize);
/// The cap, whether for a plan, and the part.
type PatternsKey = (usize, bool, PartKey);
type SlopesPerBound = Arc<Vec<Vec<Slope>>>;
type Known<K, V> = RwLock<IndexMap<K, V, FxBuildHasher>>;

/// What all operators of a part keep, rounding allowed for.
const ALL: f64 = 1.0 + 1e-9;

/// What is known of a key, made if need be; threads that make it at once make the same.
fn known<K: Eq + Hash, V: Clone>(of: &Known<K, V>, key: K, make: impl FnOnce() -> V) -> V {
    if let Some(known) = of.read().unwrap_or_else(PoisonError::into_inner).get(&key) {
        return known.clone();
    }
    let made = make();
    of.write().unwrap_or_else(PoisonError::into_inner).insert(key, made.clone());
    made
}

/// Which layers of a stage are whole, and which operators are in parts of layers.
struct Cut {
    first: usize,
    end: usize,
    parts: [Option<(usize, usize, usize)>; 2],
}

/// What a stage's layers can save: how many whole ones there are of each class, and the steps of parts, per
/// bound.
struct Steps {
    whole: Vec<(usize, usize)>,
    parts: [Option<SlopesPerBound>; 2],
}

impl Steps {
    /// Those of one bound.
    fn of<'s>(&'s self, of: &'s Uniform, bound: usize, pieces: &mut Vec<(&'s [Slope], f64)>) {
        pieces.clear();
        pieces.extend(self.whole.iter().map(|&(class, n)| (&of.whole[bound][class][..], n as f64)));
        pieces.extend(self.parts.iter().flatten().map(|part| (&part[bound][..], 1.0)));
    }
}

/// How a stage's operators are recomputed: the cap, and per piece what its layers take.
type Recomputed = Option<(usize, Vec<Shares>)>;

impl Uniform {
    /// The split over `tensor * data` devices, if it was measured.
    pub fn new(of: &Setting, degrees: Degrees, purpose: Use) -> Option<Uniform> {
        let (algo, profiles): (Vec<u32>, Vec<OpProfile>) = along(of, degrees, purpose)?.into_iter().unzip();
        let n_ops = profiles.len();
        let candidates: Vec<Candidate> = (0..n_ops).map(|op| of.candidate(op, &profiles[op])).collect();
        let reserved: [fn(&OpProfile) -> f64; 2] =
            [|it| it.forward_reserved_mib, |it| it.backward_reserved_mib];
        let caps = Cap::all(&of.layers, &candidates);
        let whole =
            caps.iter().map(|cap| cap.loose.iter().map(|it| slopes(it).collect()).collect()).collect();
        Some(Uniform {
            ms: sums_before(n_ops, &|op| profiles[op].both_ms()),
            weight_mib: sums_before(n_ops, &|op| profiles[op].weight_mib),
            state_mib: sums_before(n_ops, &|op| profiles[op].state_mib),
            kept_mib: sums_before(n_ops, &|op| candidates[op].mib),
            reserved: reserved.map(|value| RangeMax::new(profiles.iter().map(value).collect())),
            whole,
            caps,
            degrees,
            algo,
            profiles,
            candidates,
            parts: RwLock::default(),
            part: RwLock::default(),
        })
    }

    /// Devices times milliseconds of one operator.
    pub(super) fn busy(&self, op: usize) -> f64 {
        f64::from(self.degrees.tensor * self.degrees.data) * self.profiles[op].both_ms()
    }

    /// Whether it takes no more than another one of the same devices in anything that counts.
    pub(super) fn is_never_worse(&self, other: &Uniform) -> bool {
        let is_no_more = |(own, other): (&OpProfile, &OpProfile)| {
            own.forward_ms <= other.forward_ms
                && own.backward_ms <= other.backward_ms
                && own.state_mib <= other.state_mib
                && own.forward_reserved_mib <= other.forward_reserved_mib
                && own.backward_reserved_mib <= other.backward_reserved_mib
        };
        (self.degrees.tensor, self.degrees.data) == (other.degrees.tensor, other.degrees.data)
            && self.profiles.iter().zip(&other.profiles).all(is_no_more)
    }

    /// Milliseconds of a microbatch without recomputation.
    pub(super) fn plain_ms(&self, of: &Setting, span: &Span) -> f64 {
        let (first, last) = (&self.profiles[span.start], &self.profiles[span.end - 1]);
        self.operators_ms(span) + of.sends_ms(span, first, last)
    }

    /// The same without transfers.
    pub(super) fn operators_ms(&self, span: &Span) -> f64 {
        self.ms[span.end] - self.ms[span.start]
    }

    /// MiB beyond the memory without recomputation.
    fn over_mib(&self, of: &Setting, span: &Span) -> f64 {
        let sum = |sums: &[f64]| sums[span.end] - sums[span.start];
        let (weight_mib, kept_mib) =
            (sum(&self.weight_mib), sum(&self.kept_mib) + self.profiles[span.start].input_mib);
        let [forward, backward] = self.reserved.each_ref().map(|most| most.of(span.start, span.end - 1));
        let fixed_mib = sum(&self.state_mib) + (forward + backward).max(weight_mib);
        fixed_mib + kept_mib * span.in_flight as f64 - of.machine.limit_mib
    }

    /// No recomputation takes fewer milliseconds: layers divided, and of runs between two caps the larger is
    /// made and the smaller held. `most_ms` where it is more than that.
    pub fn lower_ms(&self, of: &Setting, span: &Span, most_ms: f64) -> f64 {
        let plain_ms = self.plain_ms(of, span);
        if plain_ms >= most_ms {
            return most_ms;
        }
        let over_mib = self.over_mib(of, span);
        if over_mib <= 0.0 {
            return plain_ms;
        }
        let steps = self.steps(&of.layers, &Cut::new(&of.layers, span));
        let mut least_ms = most_ms - plain_ms;
        let mut pieces = Vec::new();
        for (bound, cap) in self.caps.iter().enumerate() {
            let need_mib = (over_mib + cap.mib) / span.in_flight as f64;
            steps.of(self, bound, &mut pieces);
            least_ms = divided_ms(&mut pieces, need_mib, least_ms);
        }
        if least_ms < most_ms - plain_ms { plain_ms + least_ms } else { most_ms }
    }

    /// Milliseconds of a way that fits, and what it recomputes; `most_ms` where it is more than that.
    pub fn upper_ms(&self, of: &Setting, span: &Span, most_ms: f64) -> (f64, Recomputed) {
        let (plain_ms, over_mib) = (self.plain_ms(of, span), self.over_mib(of, span));
        if over_mib <= 0.0 {
            return (plain_ms.min(most_ms), None);
        }
        let cut = Cut::new(&of.layers, span);
        let steps = self.steps(&of.layers, &cut);
        let mut pieces = Vec::new();
        let mut best = (most_ms, None);
        for (at, cap) in self.caps.iter().enumerate().skip(1) {
            let need_mib = (over_mib + cap.mib) / span.in_flight as f64;
            steps.of(self, at, &mut pieces);
            let least_ms = divided_ms(&mut pieces, need_mib, best.0 - plain_ms);
            if plain_ms + least_ms >= best.0 {
                continue;
            }
            if let Some((ms, shares)) = whole_ms(&self.pieces(&of.layers, &cut, at), need_mib)
                && plain_ms + ms < best.0
            {
                best = (plain_ms + ms, Some((at, shares)));
            }
        }
        best
    }

    /// The steps of a stage's layers.
    fn steps(&self, layers: &Layers, cut: &Cut) -> Steps {
        let counts = (0..layers.n_classes()).map(|class| (class, layers.count(class, cut.first, cut.end)));
        let whole = counts.filter(|(_, count)| *count > 0).collect();
        let of = |part: (usize, usize, usize)| {
            let steps = |cap: usize| slopes(&self.part(layers, cap, part, Use::Bound)).collect();
            known(&self.parts, part_key(layers, part), || Arc::new((0..self.caps.len()).map(steps).collect()))
        };
        Steps { whole, parts: cut.parts.map(|part| part.map(of)) }
    }

    /// The patterns of a part of a layer: of a plan under a cap, or all that some run below the next cap
    /// allows.
    fn part(&self, layers: &Layers, cap: usize, part: (usize, usize, usize), purpose: Use) -> Arc<Patterns> {
        let limit_mib = |cap: usize| match purpose {
            Use::Plan => self.caps[cap].mib,
            Use::Bound => self.caps.get(cap + 1).map_or(f64::INFINITY, |cap| cap.mib),
        };
        // Caps that no run of the part can exceed allow the same.
        let all_mib = (self.kept_mib[part.2] - self.kept_mib[part.1]) * ALL;
        let cap = (0..cap).find(|&cap| limit_mib(cap) >= all_mib).unwrap_or(cap);
        let (key, cap_mib) = ((cap, purpose == Use::Plan, part_key(layers, part)), limit_mib(cap));
        let (layer, first, end) = part;
        let is_whole_end = end == layers.starts[layer + 1];
        let edge = if is_whole_end { layers.edges[layers.class[layer]] } else { Edge::Stage };
        let made = match purpose {
            Use::Plan => patterns,
            Use::Bound => hull_patterns,
        };
        known(&self.part, key, || Arc::new(made(&self.candidates[first..end], cap_mib, edge, purpose)))
    }

    /// A stage's parts of layers and its whole layers by class.
    fn pieces(&self, layers: &Layers, cut: &Cut, cap: usize) -> Vec<Piece> {
        let parts = cut.parts.iter().flatten();
        let mut pieces: Vec<Piece> = parts
            .map(|&part| Piece { patterns: self.part(layers, cap, part, Use::Plan), n_layers: 1 })
            .collect();
        for (class, patterns) in self.caps[cap].full.iter().enumerate() {
            let n_layers = layers.count(class, cut.first, cut.end);
            if n_layers > 0 {
                pieces.push(Piece { patterns: patterns.clone(), n_layers });
            }
        }
        pieces
    }

    /// The stage as a part of a plan.
    pub fn stage(&self, of: &Setting, span: &Span) -> StageChoice {
        let mut recomputed = vec![false; span.end - span.start];
        if let (_, Some((cap, shares))) = self.upper_ms(of, span, f64::INFINITY) {
            self.mark(&of.layers, span, cap, &shares, &mut recomputed);
        }
        let choice = |op: usize| OpChoice {
            recompute: recomputed[op - span.start],
            ..self.degrees.choice(self.algo[op])
        };
        StageChoice {
            start: span.start,
            n_devices: span.n_devices,
            ops: (span.start..span.end).map(choice).collect(),
        }
    }

    fn mark(&self, layers: &Layers, span: &Span, cap: usize, shares: &[Shares], recomputed: &mut [bool]) {
        let cut = Cut::new(layers, span);
        let pieces = self.pieces(layers, &cut, cap);
        let mut starts: Vec<Vec<usize>> = cut.parts.iter().flatten().map(|part| vec![part.1]).collect();
        for class in 0..layers.n_classes() {
            let of_class = (cut.first..cut.end).filter(|&layer| layers.class[layer] == class);
            let found: Vec<usize> = of_class.map(|layer| layers.starts[layer]).collect();
            starts.extend((!found.is_empty()).then_some(found));
        }
        for ((piece, shares), starts) in pieces.iter().zip(shares).zip(starts) {
            let each = shares.iter().flat_map(|&(point, n)| std::iter::repeat_n(point, n));
            for (start, point) in starts.into_iter().zip(each) {
                let ops = piece.patterns.points[point].ops;
                (0..u64::BITS as usize)
                    .filter(|bit| ops >> bit & 1 == 1)
                    .for_each(|bit| recomputed[start - span.start + bit] = true);
            }
        }
    }
}

/// Without those that another one beats in every operator: ZeRO that only adds to what there is.
pub(super) fn undominated(splits: Vec<Uniform>) -> Vec<Uniform> {
    let mut kept: Vec<Uniform> = Vec::new();
    for split in splits {
        if !kept.iter().any(|other| other.is_never_worse(&split)) {
            kept.retain(|other| !split.is_never_worse(other));
            kept.push(split);
        }
    }
    kept
}

/// Per operator, and at the end: the sum over those before it.
fn sums_before(n_ops: usize, value: &dyn Fn(usize) -> f64) -> Vec<f64> {
    let mut sum = 0.0;
    let each = (0..n_ops).map(|op| {
        sum += value(op);
        sum
    });
    std::iter::once(0.0).chain(each).collect()
}

fn part_key(layers: &Layers, (layer, first, end): (usize, usize, usize)) -> PartKey {
    let start = layers.starts[layer];
    (layers.class[layer], first - start, end - start)
}

impl Cut {
    fn new(layers: &Layers, span: &Span) -> Cut {
        let (mut first, last) = (layers.layer_of[span.start], layers.layer_of[span.end - 1]);
        let mut end = last + 1;
        let mut parts = [None; 2];
        if span.start > layers.starts[first] {
            parts[0] = Some((first, span.start, span.end.min(layers.starts[first + 1])));
            first += 1;
        }
        if first < end && span.end < layers.starts[end] {
            end -= 1;
            parts[1] = Some((end, span.start.max(layers.starts[end]), span.end));
        }
        Cut { first: first.min(end), end, parts }
    }
}
