//! The outer half of the mapper: grid of cores, core buffers, global buffer and HBM.

use super::cost::{Boundary, Order, boundary, crossing, partner};
use super::feed::Shares;
use super::fit::{fit_axes, fit_core, fit_global};
use super::machine::Machine;
use super::nest::{Loops, N_LOOPS, Nest, Tensor, over, times, volume};
use super::tiles::Tiles;

/// How the global buffer is filled.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Load {
    /// What the global buffer holds.
    pub tile: Loops,
    /// Outside it.
    pub order: Order,
    /// What crosses from HBM.
    pub cost: Boundary,
}

/// How the cores get their tiles.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Refill {
    /// What the buffer of a core holds.
    pub core: Loops,
    /// The factors of the grid.
    pub grid: Loops,
    /// Cores at work.
    pub n_cores: f64,
    /// The factors of the global buffer.
    pub global: Loops,
    /// Outside the core buffers.
    pub order: Order,
    /// What crosses from the global buffer.
    pub cost: Boundary,
}

/// The ways to fill the global buffer, none worse than another for the same tile.
///
/// A smaller tile than the loops in HBM allow is never better and is left out.
pub(super) fn loads(nest: &Nest, machine: &Machine, tiles: &Tiles, orders: &[Order]) -> Vec<Load> {
    let largest = tiles.largest(&nest.sizes, &|tile| fit_global(nest, machine, tile));
    largest.iter().flat_map(|tile| loads_of(nest, machine, orders, tile)).collect()
}

/// What crosses from HBM at least: every tensor once.
pub(super) fn load_floor(nest: &Nest, machine: &Machine) -> Boundary {
    let order = Order { stationary: Tensor::Output, slide: None };
    boundary(nest, machine, 2, [&nest.sizes, &[1; N_LOOPS], &[1; N_LOOPS]], order)
}

fn loads_of(nest: &Nest, machine: &Machine, orders: &[Order], tile: &Loops) -> Vec<Load> {
    let hbm = over(&nest.sizes, tile);
    let mut front: Vec<Load> = Vec::new();
    for order in orders {
        let cost = boundary(nest, machine, 2, [tile, &[1; N_LOOPS], &hbm], *order);
        let is_worse =
            |known: &Load| known.cost.cycles <= cost.cycles && known.cost.energy_pj <= cost.energy_pj;
        if !front.iter().any(is_worse) {
            front.push(Load { tile: *tile, order: *order, cost });
        }
    }
    front
}

/// The ways to hand out a tile of the global buffer in tiles of a core; none worse than another.
///
/// Left out is what is never better: a smaller tile in a core than the loops in the global buffer allow, and
/// fewer cores than loops allow that keep nothing in place.
pub(super) fn refills(
    nest: &Nest,
    machine: &Machine,
    (tiles, orders): (&Tiles, &[Order]),
    core: &Loops,
    global_tile: &Loops,
) -> Vec<Refill> {
    let mut front = Vec::new();
    let room = over(global_tile, core);
    let fits_core = |tile: &Loops| fit_core(nest, machine, tile);
    let Some(forced) = tiles.forced(core, global_tile, machine.grid[0] * machine.grid[1], &fits_core) else {
        return front;
    };
    let (fits_grid, growable) = (|tile: &Loops| fit_axes(tile, machine.grid), over(&room, &forced));
    tiles.each(&growable, &|grid| fits_grid(&times(&forced, grid)), &mut |grid| {
        let (grid, global) = (times(&forced, grid), over(&growable, grid));
        for order in orders {
            if !tiles.can_grow(&grid, &global, serial_loops(*order), &fits_grid) {
                let cost = boundary(nest, machine, 1, [core, &grid, &global], *order);
                let n_cores = volume(&grid);
                insert(&mut front, Refill { core: *core, grid, n_cores, global, order: *order, cost });
            }
        }
    });
    front
}

/// Cycles and energy of the boundary above the buffer of a core, at least, whatever the grid and the load.
pub(super) fn refill_floor(nest: &Nest, machine: &Machine, orders: &[Order], core: &Loops) -> Boundary {
    let room = over(&nest.sizes, core);
    let shares = Shares::between(&[1; N_LOOPS], &room, (machine.grid[0] * machine.grid[1]) as f64);
    let output_words = nest.output_words();
    let (lower, upper) = (machine.access[1], machine.access[2]);
    let mut least = Boundary { cycles: f64::INFINITY, energy_pj: f64::INFINITY };
    for order in orders {
        let tiles = [core, &[1; N_LOOPS], &room];
        let words = Tensor::ALL.map(|tensor| crossing(nest, tensor, tiles, *order).upper);
        let upper_words = shares.floor(order.stationary, words, [1.0; 3]);
        let mut read_pj = [upper.read_pj; 3];
        read_pj[nest.roles[2] as usize] += upper.write_pj;
        let upper_pj = shares.floor(order.stationary, words, read_pj) - upper.read_pj * output_words;
        let lower_pj = lower.write_pj * (words.iter().sum::<f64>() - output_words);
        let cycles = (upper_words - output_words) / machine.words_per_cycle[1];
        least.cycles = least.cycles.min(cycles);
        least.energy_pj = least.energy_pj.min(upper_pj + lower_pj);
    }
    least
}

/// Adds to what nothing in it dominates, and drops what it dominates.
fn insert(front: &mut Vec<Refill>, new: Refill) {
    let dominates = |a: &Refill, b: &Refill| {
        a.n_cores >= b.n_cores && a.cost.cycles <= b.cost.cycles && a.cost.energy_pj <= b.cost.energy_pj
    };
    if !front.iter().any(|known| dominates(known, &new)) {
        front.retain(|known| !dominates(&new, known));
        front.push(new);
    }
}

/// The loops, as bits, that may be better one step after the other than side by side on the cores.
fn serial_loops(order: Order) -> u8 {
    let slide = order.slide.map_or(0, |slide| 1 << slide | 1 << partner(slide));
    (0..N_LOOPS).filter(|at| !order.stationary.has(*at)).fold(slide, |bits, at| bits | 1 << at)
}
