//! Cuts for schedules that only the replay knows: boundary by boundary what it finds faster; for interleaved
//! pipelines from stages as equal as can be.
//!
//! What counts is what the stages of a group take together and how they follow one another, which no sum over
//! stages shows; but where stages are equal, so are groups.

use super::order::{of_groups, replayed_secs, update_secs};
use super::table::StageTable;
use std::ops::Range;

/// A stage has so many times as many layers as the mean of all at most, and no boundary is further from where
/// equal numbers of layers have it than twice that: of a thousand layers all cuts would take minutes.
const REACH: usize = 2;
const MIN_REACH: usize = 16;

/// Each move of a boundary is replayed, all stages of all microbatches: of more stages they are left as they
/// are.
const MAX_CLIMBED: usize = 64;
/// The same for zero-bubble, whose boundaries are moved further.
pub(super) const MAX_FILLED: usize = 16;

/// How often all boundaries are gone through.
const MAX_SWEEPS: usize = 4;

/// A boundary must make a step shorter by this share to be moved: rounding is no reason.
const FASTER: f64 = 1e-9;

impl StageTable<'_> {
    /// First layer of each stage; `None` when memory forbids all cuts, or there are fewer layers than stages.
    pub fn even_starts(&self) -> Option<Vec<usize>> {
        let starts = self.equal_starts()?;
        if self.n_stages() > MAX_CLIMBED {
            return Some(starts);
        }
        let climbed = self.climbed(starts.clone(), 1);
        [starts, climbed].into_iter().min_by(|a, b| self.step_secs(a).total_cmp(&self.step_secs(b)))
    }

    /// The starts of stages as equal as can be.
    fn equal_starts(&self) -> Option<Vec<usize>> {
        let (n_layers, n_stages) = (self.n_layers(), self.n_stages());
        if n_layers < n_stages {
            return None;
        }
        // Per number of stages and their end: the least sum of squares, and where the last of them starts.
        let mut least = vec![vec![(f64::INFINITY, 0); n_layers + 1]; n_stages + 1];
        least[0][0].0 = 0.0;
        let most = MIN_REACH.max(REACH * n_layers / n_stages);
        for stage in 0..n_stages {
            let mean = (stage + 1) * n_layers / n_stages;
            let ends = mean.saturating_sub(2 * most).max(stage + 1)
                ..=(mean + 2 * most).min(n_layers - (n_stages - stage - 1));
            for end in ends {
                let sum = |from: usize| least[stage][from].0 + self.step_share_secs(stage, from, end).powi(2);
                let all = (stage.max(end.saturating_sub(most))..end).map(|from| (sum(from), from));
                least[stage + 1][end] = all.min_by(|a, b| a.0.total_cmp(&b.0)).expect("a layer");
            }
        }
        if !least[n_stages][n_layers].0.is_finite() {
            return None;
        }
        let (mut starts, mut end) = (Vec::new(), n_layers);
        for stage in (0..n_stages).rev() {
            end = least[stage + 1][end].1;
            starts.push(end);
        }
        starts.reverse();
        Some(starts)
    }

    /// This cut or one of equal stages, boundaries moved as far as the replay finds that faster. Sums over
    /// stages, which 1F1B's cuts go by, do not tell with few microbatches how weight gradients fill bubbles.
    pub fn filled_starts(&self, starts: Vec<usize>) -> Vec<usize> {
        if starts.len() > MAX_FILLED {
            return starts;
        }
        let climbed = self.equal_starts().into_iter().chain([starts]).map(|it| self.climbed(it, MIN_REACH));
        climbed.min_by(|a, b| self.short_secs(a).total_cmp(&self.short_secs(b))).expect("two at most")
    }

    fn climbed(&self, starts: Vec<usize>, reach: usize) -> Vec<usize> {
        climbed(starts, (reach, self.n_layers()), |starts| self.short_secs(starts))
    }

    /// Seconds of a step, replayed with no more microbatches than show how stages follow one another; each
    /// further one takes what the longest device group does.
    fn short_secs(&self, starts: &[usize]) -> f64 {
        let (schedule, times) = (self.schedule(), self.all_times(starts));
        let n_replayed = self.n_microbatches().min(2 * schedule.n_groups(starts.len()));
        let longest = of_groups(times.iter().map(|it| it.secs), times.len(), schedule);
        let others = (self.n_microbatches() - n_replayed) as f64 * longest;
        replayed_secs(&times, n_replayed, schedule) + others + update_secs(&times, schedule)
    }
}

/// Moves boundaries by a layer, or two, four and so on up to so many, one or with all later ones, as long as
/// that makes a step shorter.
pub(super) fn climbed(
    mut starts: Vec<usize>,
    (reach, n_layers): (usize, usize),
    secs: impl Fn(&[usize]) -> f64,
) -> Vec<usize> {
    let steps = (0..).map(|power| 1_usize << power).take_while(|step| *step <= reach);
    let steps: Vec<isize> = steps.flat_map(|step| [-(step as isize), step as isize]).collect();
    let (n_stages, mut best) = (starts.len(), secs(&starts));
    for _ in 0..MAX_SWEEPS {
        let before = best;
        for boundary in 1..n_stages {
            for (&by, last) in steps.iter().flat_map(|by| [(by, boundary + 1), (by, n_stages)]) {
                let moved = shifted(&starts, boundary..last, by);
                let Some(moved) = moved.filter(|it| it[it.len() - 1] < n_layers) else { continue };
                let moved_secs = secs(&moved);
                if moved_secs < best * (1.0 - FASTER) {
                    (best, starts) = (moved_secs, moved);
                }
            }
        }
        if best == before {
            break;
        }
    }
    starts
}

/// Some boundaries moved by so many layers, if every stage keeps one.
fn shifted(starts: &[usize], which: Range<usize>, by: isize) -> Option<Vec<usize>> {
    let mut moved = starts.to_vec();
    for start in &mut moved[which] {
        *start = start.checked_add_signed(by)?;
    }
    moved.windows(2).all(|pair| pair[0] < pair[1]).then_some(moved)
}

#[cfg(test)]
mod tests {
    use super::super::tests::chain;
    use super::super::{Chain, Cut};
    use super::StageTable;
    use phzc_cost::Schedule;

    fn cut(chain: &Chain, n_stages: usize, n_microbatches: usize, limit_bytes: f64) -> Option<Cut> {
        Chain { schedule: Schedule::Interleaved(2), ..chain.clone() }.cut(
            n_stages,
            n_microbatches,
            limit_bytes,
        )
    }

    #[test]
    fn equal_layers_take_what_the_closed_form_says() {
        let found = cut(&chain(&[1.0; 16]), 4, 8, f64::INFINITY).expect("it fits");
        // Stages of four layers, two on each of two groups: B V t + (p - 1) t.
        assert_eq!(found.starts, [0, 4, 8, 12]);
        assert!((found.step_secs - (8.0 * 2.0 + 1.0) * 4.0).abs() < 1e-9, "{}", found.step_secs);
    }

    /// A table of equal layers, so many of them.
    fn with_table<T>(
        secs: &[f64],
        n_stages: usize,
        n_microbatches: usize,
        of: impl Fn(&StageTable) -> T,
    ) -> T {
        let chain = Chain { schedule: Schedule::Interleaved(2), ..chain(secs) };
        of(&StageTable::new(&chain, n_stages, n_microbatches, f64::INFINITY))
    }

    #[test]
    fn a_boundary_is_as_far_from_the_mean_as_its_layers_are_long() {
        let starts = |secs: &[f64]| with_table(secs, 4, 8, |table| table.even_starts());
        let long = [vec![6.0], vec![1.0; 18]].concat();
        assert_eq!(starts(&long), Some(vec![0, 1, 7, 13]));
        let reversed: Vec<f64> = long.into_iter().rev().collect();
        assert_eq!(starts(&reversed), Some(vec![0, 6, 12, 18]));
    }

    #[test]
    fn a_boundary_is_moved_either_way() {
        let climbed =
            |starts: &[usize]| with_table(&[1.0; 16], 4, 8, |table| table.climbed(starts.to_vec(), 1));
        assert_eq!(climbed(&[0, 4, 8, 12]), [0, 4, 8, 12]);
        for starts in [[0, 3, 8, 12], [0, 5, 8, 12]] {
            assert_eq!(climbed(&starts), [0, 4, 8, 12], "{starts:?}");
        }
    }

    #[test]
    fn of_one_microbatch_later_stages_have_the_weight_gradients_that_earlier_ones_wait_for() {
        let it = Chain { schedule: Schedule::ZeroBubble, ..chain(&[3.0; 16]) };
        let table = StageTable::new(&it, 4, 1, f64::INFINITY);
        let cuts =
            (1..14).flat_map(|a| (a + 1..15).flat_map(move |b| (b + 1..16).map(move |c| [0, a, b, c])));
        let least = cuts.map(|starts| table.short_secs(&starts)).fold(f64::INFINITY, f64::min);
        assert!(least < table.short_secs(&[0, 4, 8, 12]));
        let found = table.short_secs(&table.filled_starts(vec![0, 4, 8, 12]));
        assert!(found <= 1.03 * least, "{found} s, {least} s at best");
    }

    #[test]
    fn microbatches_that_are_not_replayed_take_what_the_longest_group_does() {
        let secs = |n_microbatches| {
            with_table(&[1.0; 6], 6, n_microbatches, |table| table.short_secs(&[0, 1, 2, 3, 4, 5]))
        };
        // Three groups of two stages of a second: B V t + (p - 1) t; at most six microbatches are replayed.
        assert!((secs(3) - (3.0 * 2.0 + 2.0)).abs() < 1e-9, "{}", secs(3));
        assert!((secs(9) - (9.0 * 2.0 + 2.0)).abs() < 1e-9, "{}", secs(9));
    }

    #[test]
    fn groups_are_balanced_where_stages_cannot_be() {
        // Six equal layers in four stages: groups of three layers each are as fast as equal stages would be,
        // but for the bubble.
        let found = cut(&chain(&[1.0; 6]), 4, 8, f64::INFINITY).expect("it fits");
        assert!(found.step_secs >= 8.0 * 3.0 && found.step_secs <= 8.0 * 3.0 + 3.0, "{found:?}");
    }

    #[test]
    fn a_group_has_the_memory_of_all_its_stages() {
        let it = Chain { flight_bytes: vec![1.0; 8], ..chain(&[1.0; 8]) };
        let free = cut(&it, 4, 8, f64::INFINITY).expect("it fits");
        // The first group: four layers' parameters, and 2 (p - 1) + (V - 1) p + 1 = 5 activations of two
        // layers each.
        assert!((free.memory_bytes - (4.0 + 5.0 * 2.0)).abs() < 1e-9, "{}", free.memory_bytes);
        assert!(cut(&it, 4, 8, free.memory_bytes + 1e-6).is_some());
        assert_eq!(cut(&it, 4, 8, 0.7 * free.memory_bytes), None);
        assert_eq!(cut(&it, 10, 8, f64::INFINITY), None);
    }
}
