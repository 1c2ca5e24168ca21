//! Tiles of a nest: divisors of its loops, and those that are as large as a memory allows.

use super::nest::{Loops, N_LOOPS, Nest, common_divisor};

/// The loops of a nest that have an extent, with their divisors and their primes.
#[derive(Clone, Debug)]
pub(super) struct Tiles {
    loops: Vec<Factors>,
}

#[derive(Clone, Debug)]
struct Factors {
    at: usize,
    divisors: Vec<u64>,
    /// Each with its largest power that divides the extent.
    primes: Vec<(u64, u64)>,
}

impl Tiles {
    /// Of a nest.
    pub fn new(nest: &Nest) -> Tiles {
        let of = |at: usize| {
            let divisors = divisors(nest.sizes[at]);
            let primes = divisors.iter().filter(|it| is_prime(**it));
            Factors { at, primes: primes.map(|it| (*it, power_in(*it, nest.sizes[at]))).collect(), divisors }
        };
        let mut loops: Vec<Factors> = (0..N_LOOPS).filter(|at| nest.sizes[*at] > 1).map(of).collect();
        loops.sort_by_key(|factors| factors.divisors.len());
        Tiles { loops }
    }

    /// Calls `visit` with every tile that divides `room` and fits; larger tiles fit where none smaller does
    /// not.
    pub fn each(&self, room: &Loops, fits: &impl Fn(&Loops) -> bool, visit: &mut impl FnMut(&Loops)) {
        let mut tile = [1; N_LOOPS];
        if fits(&tile) {
            descend(&self.loops, room, fits, visit, &mut tile);
        }
    }

    /// The tiles that divide `room`, fit, and cannot take in another prime of it.
    pub fn largest(&self, room: &Loops, fits: &impl Fn(&Loops) -> bool) -> Vec<Loops> {
        if fits(room) {
            return vec![*room];
        }
        let mut found = Vec::new();
        self.each(room, fits, &mut |tile| {
            let left = std::array::from_fn(|at| room[at] / tile[at]);
            if !self.can_grow(tile, &left, 0, fits) {
                found.push(*tile);
            }
        });
        found
    }

    /// The divisors of a loop, rising.
    pub fn divisors(&self, at: usize) -> &[u64] {
        self.loops.iter().find(|factors| factors.at == at).map_or(&[1], |factors| &factors.divisors)
    }

    /// The loops that have an extent, those with most divisors first.
    pub fn loops(&self) -> Vec<usize> {
        self.loops.iter().rev().map(|factors| factors.at).collect()
    }

    /// The factors that must lie beside a tile, of those of `whole` that it lacks, so that no loop after them
    /// could make it larger: all powers of the primes with which it still fits. `None` where their product
    /// exceeds `most`.
    pub fn forced(
        &self,
        tile: &Loops,
        whole: &Loops,
        most: u64,
        fits: &impl Fn(&Loops) -> bool,
    ) -> Option<Loops> {
        let (mut forced, mut product) = ([1; N_LOOPS], 1);
        // The loop with most divisors first: it excludes most tiles.
        for Factors { at, primes, .. } in self.loops.iter().rev() {
            let room = whole[*at] / common_divisor(whole[*at], tile[*at]);
            for (prime, power) in primes.iter().filter(|(prime, _)| room.is_multiple_of(*prime)) {
                let mut larger = *tile;
                larger[*at] *= prime;
                if fits(&larger) {
                    let part = common_divisor(room, *power);
                    (forced[*at], product) = (forced[*at] * part, product * part);
                }
                if product > most {
                    return None;
                }
            }
        }
        Some(forced)
    }

    /// Whether a tile still fits with a prime of `left`, in a loop whose bit is not in `except`.
    pub fn can_grow(&self, tile: &Loops, left: &Loops, except: u8, fits: &impl Fn(&Loops) -> bool) -> bool {
        let growing =
            self.loops.iter().rev().filter(|loops| left[loops.at] > 1 && except >> loops.at & 1 == 0);
        growing.into_iter().any(|Factors { at, primes, .. }| {
            let mut larger = *tile;
            primes.iter().filter(|(prime, _)| left[*at].is_multiple_of(*prime)).any(|(prime, _)| {
                larger[*at] = tile[*at] * prime;
                fits(&larger)
            })
        })
    }
}

fn descend(
    loops: &[Factors],
    room: &Loops,
    fits: &impl Fn(&Loops) -> bool,
    visit: &mut impl FnMut(&Loops),
    tile: &mut Loops,
) {
    let Some((Factors { at, divisors, .. }, rest)) = loops.split_first() else { return visit(tile) };
    for divisor in divisors.iter().take_while(|divisor| **divisor <= room[*at]) {
        if !room[*at].is_multiple_of(*divisor) {
            continue;
        }
        tile[*at] = *divisor;
        if !fits(tile) {
            break;
        }
        descend(rest, room, fits, visit, tile);
    }
    tile[*at] = 1;
}

fn divisors(number: u64) -> Vec<u64> {
    let small: Vec<u64> =
        (1..).take_while(|it| it * it <= number).filter(|it| number.is_multiple_of(*it)).collect();
    let large = small.iter().rev().map(|it| number / it).filter(|it| it * it > number);
    small.iter().copied().chain(large).collect()
}

/// The largest power of a prime that divides a number.
fn power_in(prime: u64, number: u64) -> u64 {
    let mut power = 1;
    while (number / power).is_multiple_of(prime) {
        power *= prime;
    }
    power
}

fn is_prime(number: u64) -> bool {
    number > 1 && (2..).take_while(|it| it * it <= number).all(|it| !number.is_multiple_of(it))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn divisors_rise_and_a_square_s_root_is_there_once() {
        assert_eq!(divisors(36), [1, 2, 3, 4, 6, 9, 12, 18, 36]);
    }

    #[test]
    fn the_largest_tiles_cannot_grow() {
        let nest = Nest::product(6, 4, 1);
        let largest = Tiles::new(&nest).largest(&nest.sizes, &|tile| tile.iter().product::<u64>() <= 6);
        let mut sides: Vec<_> = largest.iter().map(|tile| (tile[1], tile[3])).collect();
        sides.sort();
        assert_eq!(sides, [(1, 4), (2, 2), (3, 2), (6, 1)]);
    }
}
