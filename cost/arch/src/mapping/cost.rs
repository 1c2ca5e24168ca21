//! What a mapping takes: words over every level boundary, cycles and energy.
//!
//! Source: the model of Sunstone (ISPASS 2023) as Phaze configures it, `reference/phaze.md`, section 2a. The
//! registers hold one operand; the other two pass from the core's buffer to the PEs.

use super::fit::{fit_axes, fit_core, fit_global, fit_registers};
use super::machine::Machine;
use super::nest::{Loops, N_LOOPS, Nest, SLIDING, Tensor, times, volume};
use phzc_ir::{Diagnostic, Result};

/// Levels at which a mapping has factors, innermost first: [`REGISTERS`] to [`HBM`].
pub const N_LEVELS: usize = 6;
/// Loops over what the registers of a PE hold.
pub const REGISTERS: usize = 0;
/// Loops unrolled over the PEs of an array.
pub const ARRAY: usize = 1;
/// Loops over what the buffer of a core holds.
pub const CORE: usize = 2;
/// Loops unrolled over the grid of cores.
pub const GRID: usize = 3;
/// Loops over what the global buffer holds.
pub const GLOBAL: usize = 4;
/// Loops over the whole, in HBM.
pub const HBM: usize = 5;

/// The order of the loops right outside a memory: which tile stays there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Order {
    /// The loops that do not index this tensor are the innermost ones.
    pub stationary: Tensor,
    /// A loop that moves the window with the rest of the input in place: after those loops where the input is
    /// stationary, before the others of them where it is not.
    pub slide: Option<usize>,
}

/// How a contraction runs: a factor of each loop at each level, and the orders outside the three memories.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Mapping {
    /// By level, innermost first; the product over levels is the size of the loop.
    pub factors: [Loops; N_LEVELS],
    /// Outside the registers, the core buffers, and the global buffer.
    pub orders: [Order; 3],
}

/// What an operator takes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Cost {
    /// Clock cycles.
    pub cycles: f64,
    /// Energy.
    pub energy_pj: f64,
}

/// What the cycles of a mapping are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Limit {
    /// Multiplications.
    Compute,
    /// Words into the registers.
    Feed,
    /// Words into the buffers of the cores.
    Refill,
    /// Words out of and into the HBM.
    Load,
}

impl Cost {
    /// Energy-delay product.
    pub fn edp(&self) -> f64 {
        self.cycles * self.energy_pj
    }
}

/// Words of one tensor over one level boundary.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Crossing {
    /// Into the lower memories, all copies counted.
    pub lower: f64,
    /// Out of the upper memory, a broadcast counted once.
    pub upper: f64,
}

/// What crosses a level boundary and what that takes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Boundary {
    /// Clock cycles of the slower direction.
    pub cycles: f64,
    /// Energy on both sides.
    pub energy_pj: f64,
}

/// The orders that differ for a nest.
///
/// A tile of the input may slide along one loop of a window where both the loop and its partner exist, as
/// long as the input is not the tensor that is summed.
pub(super) fn orders(nest: &Nest) -> Vec<Order> {
    let mut orders: Vec<Order> =
        Tensor::ALL.map(|stationary| Order { stationary, slide: None }).into_iter().collect();
    let slides = (SLIDING..N_LOOPS).filter(|at| nest.sizes[*at] > 1 && nest.sizes[partner(*at)] > 1);
    for slide in slides.filter(|_| nest.roles[2] != Tensor::Input) {
        let fits = |tensor: &Tensor| *tensor == Tensor::Input || !tensor.has(slide);
        let with = Tensor::ALL.into_iter().filter(fits);
        orders.extend(with.map(|stationary| Order { stationary, slide: Some(slide) }));
    }
    orders
}

/// The other loop of the same window.
pub(super) fn partner(slide: usize) -> usize {
    if slide < SLIDING + 2 { slide + 2 } else { slide - 2 }
}

/// The words of one tensor between the memories that hold `tile` and the one above them, with `spatial` of
/// them side by side and the loops `above` right outside, in `order`.
pub(super) fn crossing(nest: &Nest, tensor: Tensor, tiles: [&Loops; 3], order: Order) -> Crossing {
    let [tile, spatial, above] = tiles;
    let (mut words, mut loops) = (nest.words(tensor, tile), volume(tile));
    let mut copies = 1.0;
    for at in (0..N_LOOPS).filter(|at| !tensor.has(*at)) {
        copies *= spatial[at] as f64;
        loops *= if order.stationary == tensor { above[at] as f64 } else { 1.0 };
    }
    if let Some(slide) = order.slide.filter(|_| tensor == Tensor::Input)
        && spatial[slide] == 1
        && spatial[partner(slide)] == 1
    {
        let mut swept = *tile;
        swept[slide] *= above[slide];
        words = nest.words(tensor, &swept);
        loops *= above[slide] as f64;
    }
    let lower = words * (nest.macs() / loops);
    Crossing { lower, upper: lower / copies }
}

/// Cycles and energy of the boundary above memory `level`: 0 the registers, 1 core buffers, 2 global buffer.
///
/// The first partial sums are zero and are not read.
pub(super) fn boundary(
    nest: &Nest,
    machine: &Machine,
    level: usize,
    tiles: [&Loops; 3],
    order: Order,
) -> Boundary {
    let [streamed, held, summed] = nest.roles.map(|tensor| crossing(nest, tensor, tiles, order));
    let output_words = nest.output_words();
    let reads = streamed.upper + held.upper + summed.upper - output_words;
    let words_per_cycle = machine.words_per_cycle[level];
    let (lower, upper) = (machine.access[level], machine.access[level + 1]);
    let moved = |it: Crossing| lower.write_pj * it.lower + upper.read_pj * it.upper;
    let passing_pj = match level {
        0 => passing_pj(nest, machine, tiles[1]),
        _ => {
            let sums = Crossing { lower: summed.lower - output_words, upper: summed.upper - output_words };
            moved(streamed) + moved(sums) + upper.write_pj * summed.upper
        }
    };
    Boundary { cycles: reads.max(summed.upper) / words_per_cycle, energy_pj: moved(held) + passing_pj }
}

/// Energy of the two operands that pass the registers: every PE has its own from the core's buffer, those
/// side by side that have the same share it.
fn passing_pj(nest: &Nest, machine: &Machine, array: &Loops) -> f64 {
    let [streamed_copies, _, summed_copies] = nest.roles.map(|tensor| {
        let same = (0..N_LOOPS).filter(|at| !tensor.has(*at));
        same.map(|at| array[at]).product::<u64>() as f64
    });
    let (macs, core) = (nest.macs(), machine.access[1]);
    let sums_pj = core.write_pj * macs + core.read_pj * (macs - nest.output_words());
    core.read_pj * macs / streamed_copies + sums_pj / summed_copies
}

/// Energy that every mapping takes: the multiplications, each with its operand from a register.
pub(super) fn least_pj(nest: &Nest, machine: &Machine) -> f64 {
    nest.macs() * (machine.mac_pj + machine.access[0].read_pj)
}

/// Cycles of the boundary above the registers: a shared feed, or one feed per core at work.
pub(super) fn feed_cycles(machine: &Machine, cycles: f64, n_cores: f64) -> f64 {
    if machine.is_fed_per_core { cycles / n_cores } else { cycles }
}

impl Mapping {
    /// What is held up to and at a level.
    pub fn tile(&self, level: usize) -> Loops {
        self.factors[..=level].iter().fold([1; N_LOOPS], |tile, factors| times(&tile, factors))
    }

    /// What it takes: `max(multiply-accumulates / PEs at work, words / (words per cycle))` over boundaries,
    /// and the energy of all.
    ///
    /// Source: `reference/phaze.md`, section 2a.
    pub fn price(&self, nest: &Nest, machine: &Machine) -> Cost {
        let (cycles, energy_pj) = self.parts(nest, machine);
        Cost { cycles: cycles.into_iter().fold(0.0, f64::max), energy_pj }
    }

    /// What its cycles wait for: of equal parts the innermost.
    pub fn limit(&self, nest: &Nest, machine: &Machine) -> Limit {
        let (cycles, _) = self.parts(nest, machine);
        let most = cycles.into_iter().fold(0.0, f64::max);
        let limits = [Limit::Compute, Limit::Feed, Limit::Refill, Limit::Load];
        cycles.into_iter().zip(limits).find(|(cycles, _)| *cycles == most).map_or(Limit::Compute, |it| it.1)
    }

    /// Cycles of the multiplications and of the three boundaries from the inside, and the energy of all.
    fn parts(&self, nest: &Nest, machine: &Machine) -> ([f64; 4], f64) {
        let [_, array, core, grid, global, hbm] = &self.factors;
        let (registers, core_tile, global_tile) = (self.tile(REGISTERS), self.tile(CORE), self.tile(GLOBAL));
        let ones = [1; N_LOOPS];
        let feed = boundary(nest, machine, 0, [&registers, array, core], self.orders[0]);
        let refill = boundary(nest, machine, 1, [&core_tile, grid, global], self.orders[1]);
        let load = boundary(nest, machine, 2, [&global_tile, &ones, hbm], self.orders[2]);
        let n_cores = volume(grid);
        let compute_cycles = nest.macs() / (volume(array) * n_cores);
        let feed_cycles = feed_cycles(machine, feed.cycles, n_cores);
        let energy_pj = least_pj(nest, machine) + feed.energy_pj + refill.energy_pj + load.energy_pj;
        ([compute_cycles, feed_cycles, refill.cycles, load.cycles], energy_pj)
    }

    /// Whether the factors are those of the nest and everything fits where it is put.
    ///
    /// # Errors
    /// For the first level at which it does not.
    pub fn check(&self, nest: &Nest, machine: &Machine) -> Result<()> {
        let fits = [
            (self.tile(HBM) == nest.sizes, "the factors are not those of the loops"),
            (fit_registers(nest, machine, &self.tile(REGISTERS)), "a tile exceeds the registers"),
            (fit_axes(&self.factors[ARRAY], machine.array), "a tile exceeds the array"),
            (fit_core(nest, machine, &self.tile(CORE)), "a tile exceeds the core's buffer"),
            (fit_axes(&self.factors[GRID], machine.grid), "there are more tiles than cores"),
            (fit_global(nest, machine, &self.tile(GLOBAL)), "a tile exceeds the global buffer"),
        ];
        match fits.into_iter().find(|(fits, _)| !fits) {
            Some((_, problem)) => Err(Diagnostic::error(problem)),
            None => Ok(()),
        }
    }
}
