//! The inner half of the mapper: what the registers and the array of a core make of a tile.
//!
//! The loops that do not index a tensor form its group: unrolled over the array, they share each of its
//! words. Traffic and energy depend on an array's factors only over the three products of groups, so that
//! bounds hold for all arrays with the same products.

use super::cost::{Boundary, Order, crossing, partner};
use super::fit::fit_registers;
use super::machine::Machine;
use super::nest::{BATCH, Loops, N_LOOPS, Nest, Tensor, over};
use super::tiles::Tiles;

/// The registers' tile of a core's tile, in an order: what crosses per tensor without an array.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Feed {
    /// What the registers hold.
    pub registers: Loops,
    /// Factors that the array has at least: without them the registers could hold more, which is never worse.
    pub forced: Loops,
    /// Cycles and energy of the boundary above the registers, at least.
    pub floor: Boundary,
    /// Outside them.
    pub order: Order,
    /// Words out of the core's buffer, by tensor.
    words: [f64; 3],
    /// Of the tensors that are not stationary, less the first partial sums, at least.
    pub shared_words: f64,
}

/// An array as far as it matters: products of the groups of the three tensors, and of all factors.
///
/// A partly chosen array has a range of each.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Shares {
    /// At least.
    pub least: [f64; 3],
    /// At most.
    pub most: [f64; 3],
    /// All factors together, at most.
    pub n_pes: f64,
}

impl Feed {
    /// Of a tile of the registers in a core that holds the whole nest.
    fn relaxed(nest: &Nest, machine: &Machine, registers: &Loops, order: Order) -> Feed {
        let (above, ones) = (over(&nest.sizes, registers), [1; N_LOOPS]);
        let words = Tensor::ALL.map(|tensor| crossing(nest, tensor, [registers, &ones, &above], order).upper);
        let floor = Boundary { cycles: 0.0, energy_pj: 0.0 };
        let feed = Feed { registers: *registers, forced: ones, floor, order, words, shared_words: 0.0 };
        let shares = feed.shares(machine, &above);
        let all_words = shares.floor(order.stationary, words, [1.0; 3]);
        let shared_words = all_words - words[order.stationary as usize] - nest.output_words();
        Feed { shared_words, floor: feed.floor(nest, machine, &shares), ..feed }
    }

    /// The same in a core's tile, which its registers' tile divides.
    pub fn within(&self, nest: &Nest, machine: &Machine, core: &Loops) -> Feed {
        let (above, mut feed) = (over(core, &self.registers), *self);
        // What passes does not depend on the loops in the core.
        let slides = |tensor| tensor == Tensor::Input && self.order.slide.is_some();
        for tensor in Tensor::ALL.into_iter().filter(|it| *it == self.order.stationary || slides(*it)) {
            let tiles = [&self.registers, &[1; N_LOOPS], &above];
            feed.words[tensor as usize] = crossing(nest, tensor, tiles, self.order).upper;
        }
        Feed { floor: feed.floor(nest, machine, &feed.shares(machine, &above)), ..feed }
    }

    /// The same with the factors that its array must have; `None` where the registers' tile is too small for
    /// the loops in the core, which is never better.
    pub fn forced(&self, nest: &Nest, machine: &Machine, tiles: &Tiles, core: &Loops) -> Option<Feed> {
        let fits = |tile: &Loops| fit_registers(nest, machine, tile);
        let n_pes = machine.array[0] * machine.array[1];
        let feed = Feed { forced: tiles.forced(&self.registers, core, n_pes, &fits)?, ..*self };
        let shares = feed.shares(machine, &over(core, &self.registers));
        Some(Feed { floor: feed.floor(nest, machine, &shares), ..feed })
    }

    /// Of the arrays that it may have.
    fn shares(&self, machine: &Machine, above: &Loops) -> Shares {
        let n_pes = (machine.array[0] * machine.array[1]) as f64;
        Shares::between(&self.forced, &over(above, &self.forced), n_pes)
    }

    /// Whether a loop must stay out of the array: the window that slides does so step by step.
    pub fn is_serial(&self, at: usize) -> bool {
        self.order.slide.is_some_and(|slide| at == slide || at == partner(slide))
    }

    /// Cycles and energy of the boundary above the registers, at least; exact for one array.
    ///
    /// Where two groups divide what crosses, `a / x + b / y >= 2 sqrt(a b / (x y))`.
    pub fn floor(&self, nest: &Nest, machine: &Machine, shares: &Shares) -> Boundary {
        let [streamed, held, summed] = nest.roles.map(|tensor| tensor as usize);
        let stationary = self.order.stationary as usize;
        let upper = |at: usize| self.words[at] / if at == stationary { 1.0 } else { shares.most[at] };
        let output_words = nest.output_words();
        let reads = shares.floor(self.order.stationary, self.words, [1.0; 3]) - output_words;
        let held_lower = self.words[held] * if held == stationary { shares.least[held] } else { 1.0 };
        let (macs, core) = (nest.macs(), machine.access[1]);
        let sums_pj = core.write_pj * macs + core.read_pj * (macs - output_words);
        let passing_pj = shares.least_sum([streamed, summed], [core.read_pj * macs, sums_pj]);
        let held_pj = machine.access[0].write_pj * held_lower + core.read_pj * upper(held);
        Boundary {
            cycles: reads.max(upper(summed)) / machine.words_per_cycle[0],
            energy_pj: held_pj + passing_pj,
        }
    }
}

impl Shares {
    /// Of one array.
    pub fn of(array: &Loops) -> Shares {
        let products = group_products(array);
        Shares {
            least: products,
            most: products,
            n_pes: products.iter().product::<f64>() * array[BATCH] as f64,
        }
    }

    /// Of the arrays that have the factors chosen so far, and in the other loops at most those of `room`.
    pub fn between(chosen: &Loops, room: &Loops, n_pes: f64) -> Shares {
        let least = group_products(chosen);
        let rest = n_pes / (least.iter().product::<f64>() * chosen[BATCH] as f64);
        let most = group_products(room);
        let most = std::array::from_fn(|at| least[at] * most[at].min(rest));
        Shares { least, most, n_pes }
    }

    /// Words by tensor, each weighed, that cross at least: those of the stationary tensor as they are, the
    /// others shared by their groups.
    pub fn floor(&self, stationary: Tensor, words: [f64; 3], weights: [f64; 3]) -> f64 {
        let [own, first, second] = [0, 1, 2].map(|step| (stationary as usize + step) % 3);
        let weighed = |at: usize| words[at] * weights[at];
        weighed(own) + self.least_sum([first, second], [weighed(first), weighed(second)])
    }

    /// The least `a / x + b / y`.
    fn least_sum(&self, [first, second]: [usize; 2], [a, b]: [f64; 2]) -> f64 {
        let apart = a / self.most[first] + b / self.most[second];
        let third = 3 - first - second;
        let both = self.n_pes / self.least[third];
        // Most of the time one of the ranges is a point, and the root is not needed.
        if self.most[first] * self.most[second] <= both {
            apart
        } else {
            apart.max(2.0 * (a * b / both).sqrt())
        }
    }
}

/// What the registers can hold, in every order, in a core that holds the whole nest: a floor of the same tile
/// and order in every core.
pub(super) fn relaxed_feeds(
    nest: &Nest,
    machine: &Machine,
    (tiles, orders): (&Tiles, &[Order]),
) -> Vec<Feed> {
    let mut feeds = Vec::new();
    tiles.each(&nest.sizes, &|tile| fit_registers(nest, machine, tile), &mut |tile| {
        feeds.extend(orders.iter().map(|order| Feed::relaxed(nest, machine, tile, *order)));
    });
    feeds
}

/// By tensor: the product over the loops that do not index it.
fn group_products(loops: &Loops) -> [f64; 3] {
    let [_, n, c, k, p, q, r, s] = *loops;
    [k as f64, (n * p * q) as f64, (c * r * s) as f64]
}
