//! The mapper against every mapping there is, on small random contractions.

use super::*;
use crate::mapping::cost::{ARRAY, CORE, GLOBAL, GRID, HBM, N_LEVELS, REGISTERS, boundary};
use crate::mapping::nest::N_LOOPS;
use crate::technology::Access;
use crate::testing::is_close;

/// Numbers below a limit, the same ones in every run (Knuth's multiplier).
struct Random(u64);

impl Random {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (self.0 >> 33) % limit
    }

    fn one_of<T: Copy>(&mut self, choices: &[T]) -> T {
        choices[self.below(choices.len() as u64) as usize]
    }

    fn machine(&mut self) -> Machine {
        let access = std::array::from_fn(|level| Access {
            read_pj: 1.0 + (self.below(9) << level) as f64,
            write_pj: 1.0 + (self.below(9) << level) as f64,
        });
        Machine {
            array: [self.one_of(&[2, 3, 4]), self.one_of(&[1, 2, 3])],
            grid: [self.one_of(&[1, 2, 4]), self.one_of(&[1, 2])],
            register_words: 3 + self.below(10),
            core_words: 6 + self.below(30),
            is_per_operand: self.below(2) == 0,
            global_words: 20 + self.below(100),
            words_per_cycle: [1, 2, 3].map(|least| (least + self.below(4)) as f64),
            is_fed_per_core: self.below(2) == 0,
            access,
            mac_pj: 1.0,
        }
    }

    fn product(&mut self) -> Nest {
        let [rows, columns, reduction] = [(); 3].map(|()| self.one_of(&[1, 2, 3, 4, 5, 6, 8]));
        Nest { roles: self.roles(), ..Nest::batched(self.one_of(&[1, 1, 2]), rows, columns, reduction) }
    }

    fn convolution(&mut self) -> Nest {
        let [rows, columns, reduction] = [(); 3].map(|()| self.one_of(&[1, 2, 3]));
        let (output, window) = ([self.one_of(&[2, 4]), self.one_of(&[1, 2])], [self.one_of(&[2, 3]), 1]);
        let strides = [self.one_of(&[1, 2]), 1];
        let nest = Nest::convolution(rows, [reduction, columns], output, window);
        Nest { strides, roles: self.roles(), ..nest }
    }

    fn roles(&mut self) -> [Tensor; 3] {
        let nest = Nest::product(1, 1, 1);
        let [input, weight] = nest.backward().map(|nest| nest.roles);
        self.one_of(&[nest.roles, input, weight])
    }
}

/// Every mapping that fits, one after the other; the least score.
fn brute_force(nest: &Nest, machine: &Machine, objective: Objective) -> Option<f64> {
    let mut least = None;
    let mut factors = [[1; N_LOOPS]; N_LEVELS];
    each_factors(nest, machine, 0, &mut factors, &mut |factors| {
        let score = least_over_orders(nest, machine, objective, factors);
        least = Some(least.map_or(score, |least: f64| least.min(score)));
    });
    least
}

fn each_factors(
    nest: &Nest,
    machine: &Machine,
    at: usize,
    factors: &mut [Loops; N_LEVELS],
    visit: &mut impl FnMut(&[Loops; N_LEVELS]),
) {
    if at == N_LOOPS {
        let order = Order { stationary: Tensor::Input, slide: None };
        let mapping = Mapping { factors: *factors, orders: [order; 3] };
        if mapping.check(nest, machine).is_ok() {
            visit(factors);
        }
        return;
    }
    let size = nest.sizes[at];
    let divisors = |number: u64| (1..=number).filter(move |it| number.is_multiple_of(*it));
    for inner in divisors(size) {
        for array in divisors(size / inner) {
            for core in divisors(size / inner / array) {
                for grid in divisors(size / inner / array / core) {
                    for global in divisors(size / inner / array / core / grid) {
                        let hbm = size / (inner * array * core * grid * global);
                        for (level, factor) in [inner, array, core, grid, global, hbm].into_iter().enumerate()
                        {
                            factors[level][at] = factor;
                        }
                        each_factors(nest, machine, at + 1, factors, visit);
                    }
                }
            }
        }
    }
}

fn least_over_orders(
    nest: &Nest,
    machine: &Machine,
    objective: Objective,
    factors: &[Loops; N_LEVELS],
) -> f64 {
    let order = Order { stationary: Tensor::Input, slide: None };
    let mapping = Mapping { factors: *factors, orders: [order; 3] };
    let tiles = [REGISTERS, CORE, GLOBAL].map(|level| mapping.tile(level));
    let ones = [1; N_LOOPS];
    let spatial = [factors[ARRAY], factors[GRID], ones];
    let above = [factors[CORE], factors[GLOBAL], factors[HBM]];
    let levels: Vec<Vec<_>> = (0..3)
        .map(|level| {
            let tiles = [&tiles[level], &spatial[level], &above[level]];
            orders(nest).into_iter().map(|order| boundary(nest, machine, level, tiles, order)).collect()
        })
        .collect();
    let n_cores = volume(&factors[GRID]);
    let compute_cycles = nest.macs() / (volume(&factors[ARRAY]) * n_cores);
    let mut least = f64::INFINITY;
    for feed in &levels[0] {
        for refill in &levels[1] {
            for load in &levels[2] {
                let cycles = [feed_cycles(machine, feed.cycles, n_cores), refill.cycles, load.cycles];
                let cycles = cycles.into_iter().fold(compute_cycles, f64::max);
                let energy_pj = least_pj(nest, machine) + feed.energy_pj + refill.energy_pj + load.energy_pj;
                least = least.min(objective.score(Cost { cycles, energy_pj }).0);
            }
        }
    }
    least
}

fn check(nest: &Nest, machine: &Machine) {
    for objective in [Objective::Edp, Objective::Latency, Objective::Cycles] {
        let found = best(nest, machine, objective).ok().map(|(mapping, cost)| {
            mapping.check(nest, machine).expect("the best mapping fits");
            let again = mapping.price(nest, machine);
            assert!(is_close(again.edp(), cost.edp(), 1e-12), "{again:?}, not {cost:?}");
            let floor = floor(nest, machine).expect("there is a mapping");
            let is_below = floor.cycles <= cost.cycles * (1.0 + 1e-12);
            assert!(is_below && floor.energy_pj <= cost.energy_pj * (1.0 + 1e-12), "{floor:?}, not {cost:?}");
            objective.score(cost).0
        });
        let expected = brute_force(nest, machine, objective);
        let is_equal = match (found, expected) {
            (Some(found), Some(expected)) => is_close(found, expected, 1e-12),
            (found, expected) => found.is_none() && expected.is_none(),
        };
        assert!(is_equal, "{found:?}, not {expected:?}: {objective:?} {nest:?} {machine:?}");
    }
}

#[test]
fn products_get_the_best_of_all_mappings() {
    let mut random = Random(1);
    (0..200).for_each(|_| check(&random.product(), &random.machine()));
}

#[test]
fn convolutions_get_the_best_of_all_mappings() {
    let mut random = Random(2);
    (0..200).for_each(|_| check(&random.convolution(), &random.machine()));
}

#[test]
fn a_machine_without_registers_has_no_mapping() {
    let machine = Machine { register_words: 2, ..Random(3).machine() };
    assert!(best(&Nest::product(2, 2, 2), &machine, Objective::Edp).is_err());
}
