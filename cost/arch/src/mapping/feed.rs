//! The inner half of the mapper: registers and array of a core, for a tile that the core's buffer holds.

use super::cost::{Order, boundary, partner};
use super::fit::{fit_axes, fit_registers};
use super::machine::Machine;
use super::nest::{Loops, N_LOOPS, Nest, over, volume};
use super::tiles::Tiles;

/// How a core works on its tile.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Feed {
    /// PEs at work.
    pub n_pes: f64,
    /// Cycles of the boundary above the registers, from one feed.
    pub cycles: f64,
    /// Its energy.
    pub energy_pj: f64,
    /// The factors of the registers.
    pub registers: Loops,
    /// The factors of the array.
    pub array: Loops,
    /// Outside the registers.
    pub order: Order,
}

impl Feed {
    /// What it is judged by; less is better.
    pub fn key(&self) -> [f64; 3] {
        [-self.n_pes, self.cycles, self.energy_pj]
    }
}

/// The ways to work on a tile, none worse than another.
///
/// Left out is what cannot be better: a smaller tile in the registers or the array than the loops in the core
/// allow. In one case a smaller array can be: loops that keep the registers' operand in place, or slide the
/// input's, save energy where they run one after the other.
pub(super) fn feeds(
    nest: &Nest,
    machine: &Machine,
    tiles: &Tiles,
    orders: &[Order],
    core: &Loops,
) -> Vec<Feed> {
    let mut front = Vec::new();
    let fits_array = |tile: &Loops| fit_axes(tile, machine.array);
    let fits_registers = |tile: &Loops| fit_registers(nest, machine, tile);
    tiles.each(core, &fits_registers, &mut |registers| {
        let room = over(core, registers);
        tiles.each(&room, &fits_array, &mut |array| {
            let left = over(&room, array);
            if tiles.can_grow(registers, &left, 0, &fits_registers) {
                return;
            }
            for order in orders {
                let serial = serial_loops(nest, *order);
                if !tiles.can_grow(array, &left, serial, &fits_array) {
                    let found = boundary(nest, machine, 0, [registers, array, &left], *order);
                    let (n_pes, cycles, energy_pj) = (volume(array), found.cycles, found.energy_pj);
                    let feed = Feed {
                        n_pes,
                        cycles,
                        energy_pj,
                        registers: *registers,
                        array: *array,
                        order: *order,
                    };
                    insert(&mut front, feed, Feed::key);
                }
            }
        });
    });
    front
}

/// The loops, as bits, that may be better one step after the other than side by side in the array.
fn serial_loops(nest: &Nest, order: Order) -> u8 {
    let held = nest.roles[1];
    let in_place = (0..N_LOOPS).filter(|at| order.stationary == held && !held.has(*at));
    in_place.fold(slide_loops(order), |bits, at| bits | 1 << at)
}

/// The loops, as bits, of the window that slides.
pub(super) fn slide_loops(order: Order) -> u8 {
    order.slide.map_or(0, |slide| 1 << slide | 1 << partner(slide))
}

/// Adds to what nothing in it dominates, and drops what it dominates.
pub(super) fn insert<T>(front: &mut Vec<T>, new: T, key: impl Fn(&T) -> [f64; 3]) {
    let own = key(&new);
    let dominates = |a: &[f64; 3], b: &[f64; 3]| a.iter().zip(b).all(|(a, b)| a <= b);
    if !front.iter().any(|known| dominates(&key(known), &own)) {
        front.retain(|known| !dominates(&own, &key(known)));
        front.push(new);
    }
}
