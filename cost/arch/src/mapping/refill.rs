//! The outer half of the mapper: grid of cores, core buffers, global buffer and HBM.

use super::cost::{Order, boundary};
use super::feed::{insert, slide_loops};
use super::fit::{fit_axes, fit_core, fit_global};
use super::machine::Machine;
use super::nest::{Loops, N_LOOPS, Nest, over, times, volume};
use super::tiles::Tiles;
use std::collections::BTreeMap;

/// How the cores get their tiles.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Refill {
    /// Cores at work.
    pub n_cores: f64,
    /// Cycles of the slower of the boundaries above core buffers and global buffer.
    pub cycles: f64,
    /// Energy of both.
    pub energy_pj: f64,
    /// The factors of the grid.
    pub grid: Loops,
    /// The factors of the global buffer.
    pub global: Loops,
    /// Outside the core buffers and the global buffer.
    pub orders: [Order; 2],
}

impl Refill {
    fn key(&self) -> [f64; 3] {
        [-self.n_cores, self.cycles, self.energy_pj]
    }
}

/// What the boundary above the global buffer takes.
struct Load {
    cycles: f64,
    energy_pj: f64,
    order: Order,
}

/// The ways to hand out tiles, by the tile of a core; for each tile, none worse than another.
///
/// Left out is what cannot be better: a smaller tile in a buffer than the loops outside allow, and fewer cores
/// than loops that keep no tensor in place allow.
pub(super) fn refills(
    nest: &Nest,
    machine: &Machine,
    tiles: &Tiles,
    orders: &[Order],
) -> BTreeMap<Loops, Vec<Refill>> {
    let mut found = BTreeMap::new();
    let fits_grid = |tile: &Loops| fit_axes(tile, machine.grid);
    for global_tile in tiles.largest(&nest.sizes, &|tile| fit_global(nest, machine, tile)) {
        let loads = loads(nest, machine, orders, &global_tile);
        tiles.each(&global_tile, &fits_grid, &mut |grid| {
            let room = over(&global_tile, grid);
            for core in tiles.largest(&room, &|tile| fit_core(nest, machine, tile)) {
                let global = over(&room, &core);
                for order in orders {
                    if !tiles.can_grow(grid, &global, serial_loops(*order), &fits_grid) {
                        let own = boundary(nest, machine, 1, [&core, grid, &global], *order);
                        let front: &mut Vec<Refill> = found.entry(core).or_default();
                        for load in &loads {
                            let refill = Refill {
                                n_cores: volume(grid),
                                cycles: own.cycles.max(load.cycles),
                                energy_pj: own.energy_pj + load.energy_pj,
                                grid: *grid,
                                global,
                                orders: [*order, load.order],
                            };
                            insert(front, refill, Refill::key);
                        }
                    }
                }
            }
        });
    }
    found
}

fn loads(nest: &Nest, machine: &Machine, orders: &[Order], global_tile: &Loops) -> Vec<Load> {
    let mut front = Vec::new();
    let hbm = over(&nest.sizes, global_tile);
    for order in orders {
        let found = boundary(nest, machine, 2, [global_tile, &[1; N_LOOPS], &hbm], *order);
        let load = Load { cycles: found.cycles, energy_pj: found.energy_pj, order: *order };
        insert(&mut front, load, |load| [load.cycles, load.energy_pj, 0.0]);
    }
    front
}

/// The loops, as bits, that may be better one step after the other than side by side on the cores.
fn serial_loops(order: Order) -> u8 {
    let in_place = (0..N_LOOPS).filter(|at| !order.stationary.has(*at));
    in_place.fold(slide_loops(order), |bits, at| bits | 1 << at)
}

/// The tile of the global buffer.
pub(super) fn global_tile(core: &Loops, refill: &Refill) -> Loops {
    times(&times(core, &refill.grid), &refill.global)
}
