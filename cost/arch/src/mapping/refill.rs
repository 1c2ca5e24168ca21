//! The outer half of the mapper: grid of cores, core buffers, global buffer and HBM.

use super::cost::{Boundary, Order, boundary, partner};
use super::fit::{fit_axes, fit_core, fit_global};
use super::machine::Machine;
use super::nest::{Loops, N_LOOPS, Nest, is_divisor, over, times, volume};
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

/// Calls `visit` with the ways to hand out a tile of the global buffer; `cores` are all tiles that a core's
/// buffer holds.
///
/// Left out is what is never better: a smaller tile in a core than the loops in the global buffer allow, and
/// fewer cores than loops allow that keep nothing in place.
pub(super) fn each_refill(
    nest: &Nest,
    machine: &Machine,
    (tiles, orders): (&Tiles, &[Order]),
    cores: &[Loops],
    global_tile: &Loops,
    visit: &mut impl FnMut(Refill),
) {
    let fits_grid = |tile: &Loops| fit_axes(tile, machine.grid);
    for core in cores.iter().filter(|core| is_divisor(core, global_tile)) {
        let room = over(global_tile, core);
        let Some(forced) = forced_grid(nest, machine, tiles, core, &room) else { continue };
        let growable = over(&room, &forced);
        tiles.each(&growable, &|grid| fits_grid(&times(&forced, grid)), &mut |grid| {
            let (grid, global) = (times(&forced, grid), over(&growable, grid));
            for order in orders {
                if !tiles.can_grow(&grid, &global, serial_loops(*order), &fits_grid) {
                    let cost = boundary(nest, machine, 1, [core, &grid, &global], *order);
                    let n_cores = volume(&grid);
                    visit(Refill { core: *core, grid, n_cores, global, order: *order, cost });
                }
            }
        });
    }
}

/// The factors that the grid must have so that a core's tile cannot grow: all of `room` in the primes by which
/// it fits; `None` where those are too many.
fn forced_grid(nest: &Nest, machine: &Machine, tiles: &Tiles, core: &Loops, room: &Loops) -> Option<Loops> {
    let n_cores = machine.grid[0] * machine.grid[1];
    let (mut forced, mut product) = ([1; N_LOOPS], 1);
    let is_full = tiles.each_prime(room, &mut |at, prime, part| {
        let mut larger = *core;
        larger[at] *= prime;
        if fit_core(nest, machine, &larger) {
            forced[at] *= part;
            product *= part;
        }
        product <= n_cores
    });
    is_full.then_some(forced)
}

/// The loops, as bits, that may be better one step after the other than side by side on the cores.
fn serial_loops(order: Order) -> u8 {
    let slide = order.slide.map_or(0, |slide| 1 << slide | 1 << partner(slide));
    (0..N_LOOPS).filter(|at| !order.stationary.has(*at)).fold(slide, |bits, at| bits | 1 << at)
}
