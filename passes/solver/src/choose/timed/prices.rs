//! The price of a byte at every time: found so that the bound is high, and the choice at the prices nearly
//! fits.
//!
//! The volume algorithm (Barahona, Anbil, "The volume algorithm: producing primal solutions with a
//! subgradient method", Mathematical Programming 2000) over the messages of `dual`, which are kept from price
//! to price.

use super::super::Usage;
use super::super::dual::Dual;
use super::super::memory::Memory;
use super::super::reduce::Reduced;

/// Message passes at each price.
const PASSES: usize = 2;
/// Message passes at the best prices.
const LAST_PASSES: usize = 100;
/// The share of the latest choice in the mean of choices.
const LATEST: f64 = 0.1;
/// The first step, as a share of the bound.
const FIRST_STEP: f64 = 0.05;
/// Prices in a row that raise no bound, before steps get shorter.
const PATIENCE: usize = 10;
/// Where steps are so much shorter than the first one, the search ends.
const LAST_STEP: f64 = 1e-3;
/// By how much a step grows that the mean agrees with, and shrinks that leads nowhere.
const STEPS: [f64; 2] = [1.1, 0.66];
/// Costs that differ by less, as a share of the bound, are equal.
const EQUAL: f64 = 1e-9;
/// The most prices tried.
const MAX_PRICES: usize = 3000;

/// Prices under way.
pub(super) struct Prices<'m> {
    reduced: &'m Reduced,
    memory: &'m Memory,
    /// The cheapest choice seen that fits, and its cost.
    pub fitting: Option<(f64, Vec<u32>)>,
    /// Per time: the price of a byte with the highest bound.
    pub best: Vec<f64>,
    /// The highest bound.
    pub bound: f64,
    /// Per time: by how many bytes choices exceed the room, in the mean.
    excess_bytes: Vec<f64>,
    step: f64,
    n_vain: usize,
}

impl<'m> Prices<'m> {
    pub fn new(reduced: &'m Reduced, memory: &'m Memory) -> Self {
        let none = vec![0.0; memory.room.len()];
        Self {
            reduced,
            memory,
            fitting: None,
            best: none.clone(),
            bound: f64::NEG_INFINITY,
            excess_bytes: none,
            step: FIRST_STEP,
            n_vain: 0,
        }
    }

    /// Raises the bound as far as it goes; leaves the messages at the best prices.
    pub fn raise(&mut self, dual: &mut Dual) {
        let mut prices = self.best.clone();
        for at in 0..MAX_PRICES {
            let bound = self.bound_at(dual, &prices, PASSES);
            let excess = self.excess(dual);
            let latest = if at == 0 { 1.0 } else { LATEST };
            let agrees = excess.iter().zip(&self.excess_bytes).map(|(p, q)| p * q).sum::<f64>() > 0.0;
            for (mean, bytes) in self.excess_bytes.iter_mut().zip(&excess) {
                *mean += latest * (bytes - *mean);
            }
            self.adapt(bound, &prices, agrees);
            if self.step < LAST_STEP * FIRST_STEP || self.excess_bytes.is_empty() && self.n_vain > PATIENCE {
                break;
            }
            prices = self.next();
        }
        let best = self.best.clone();
        self.bound = self.bound.max(self.bound_at(dual, &best, LAST_PASSES));
    }

    /// Keeps prices with a higher bound, and says how far to go from the best ones.
    fn adapt(&mut self, bound: f64, prices: &[f64], agrees: bool) {
        if self.consider(bound, prices) {
            self.n_vain = 0;
            self.step *= if agrees { STEPS[0] } else { 1.0 };
            return;
        }
        self.n_vain += 1;
        if self.n_vain.is_multiple_of(PATIENCE) {
            self.step *= STEPS[1];
        }
    }

    /// From the best prices along the mean of what does not fit.
    fn next(&self) -> Vec<f64> {
        let counts = |bytes: f64, price: f64| if price <= 0.0 && bytes < 0.0 { 0.0 } else { bytes * bytes };
        let length: f64 =
            self.excess_bytes.iter().zip(&self.best).map(|(&bytes, &price)| counts(bytes, price)).sum();
        let step = self.step * self.bound.abs() / length.max(f64::MIN_POSITIVE);
        self.best
            .iter()
            .zip(&self.excess_bytes)
            .map(|(price, bytes)| (price + step * bytes).max(0.0))
            .collect()
    }

    /// The bound at some prices, after so many passes.
    pub fn bound_at(&self, dual: &mut Dual, prices: &[f64], n_passes: usize) -> f64 {
        dual.set_prices(self.memory.priced(prices, &dual.sizes()));
        let bound = (0..n_passes).map(|_| dual.pass()).last().unwrap_or(f64::NEG_INFINITY);
        bound - prices.iter().zip(&self.memory.room).map(|(price, room)| price * room).sum::<f64>()
    }

    /// Keeps prices with a higher bound.
    pub fn consider(&mut self, bound: f64, prices: &[f64]) -> bool {
        let is_better = bound > self.bound;
        if is_better {
            (self.bound, self.best) = (bound, prices.to_vec());
        }
        is_better
    }

    /// Per time: by how many bytes exceed the room what the messages favour, in the mean of the choice that
    /// they suggest and of all options that are equally good.
    pub fn excess(&mut self, dual: &mut Dual) -> Vec<f64> {
        let choice = dual.decode();
        let mut used = self.memory.used(&choice);
        let fits = used.iter().zip(&self.memory.room).all(|(used, room)| used <= room);
        let favoured = self.memory.sum(|node, usage| self.favoured(dual, node, usage));
        used.iter_mut().zip(&favoured).for_each(|(used, favoured)| *used = 0.5 * (*used + favoured));
        if fits {
            let cost = self.reduced.total(&choice);
            let known = self.fitting.as_ref().map_or(f64::INFINITY, |(known, _)| *known);
            self.fitting = if cost < known { Some((cost, choice)) } else { self.fitting.take() };
        }
        used.iter().zip(&self.memory.room).map(|(used, room)| used - room).collect()
    }

    /// The bytes of a node's options that the messages favour; equally good ones share.
    fn favoured(&self, dual: &Dual, node: usize, usage: &Usage) -> f64 {
        let marginals = &dual.marginals[node];
        let least = marginals.iter().copied().fold(f64::INFINITY, f64::min);
        let room = least + EQUAL * self.bound.abs();
        let favoured = marginals.iter().zip(&dual.kept[node]).filter(|(cost, _)| **cost <= room);
        let (sum, n) = favoured.fold((0.0, 0), |(sum, n), (_, &at)| (sum + usage.bytes[at as usize], n + 1));
        sum / f64::from(n.max(1))
    }
}
