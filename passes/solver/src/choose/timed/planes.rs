//! The last of the way to the highest bound: every choice seen bounds it from above by a plane, and the next
//! prices are the best under all planes, near the best so far.
//!
//! Cutting planes in a trust region (Marsten, Hogan, Blankenship, "The boxstep method for large-scale
//! optimization", Operations Research 1975).

use std::collections::BTreeSet;

use super::super::dual::Dual;
use super::super::lagrangian::solver;
use super::super::memory::Memory;
use super::super::{Column, Program, Row, Solver};
use super::prices::Prices;

/// The most planes.
const MAX_PLANES: usize = 150;
/// Message passes at each price.
const PASSES: usize = 8;
/// How far from the best prices the next may be at first and at last, as a share of their mean.
const REACH: [f64; 2] = [0.5, 1e-4];
/// By how much the reach changes after prices that raise the bound, and after others.
const CHANGES: [f64; 2] = [1.5, 0.6];
/// Times that get a price because a choice exceeds the room there most.
const N_PEAKS: usize = 4;
/// The bound is near enough to the planes, relatively.
const NEAR: f64 = 1e-6;

/// No bound is higher than `value` at `prices`, and than by `slope` more or less elsewhere.
struct Plane {
    value: f64,
    prices: Vec<f64>,
    slope: Vec<f64>,
}

/// How often messages are passed on at the best prices, and planes collected anew.
const ROUNDS: usize = 10;
/// Message passes in between.
const LAST_PASSES: usize = 100;

/// Raises the bound of `prices` further; leaves the messages at the best prices.
pub(super) fn polish(prices: &mut Prices, memory: &Memory, dual: &mut Dual) {
    for _ in 0..ROUNDS {
        let before = prices.bound;
        collect(prices, memory, dual);
        let best = prices.best.clone();
        prices.bound = prices.bound.max(prices.bound_at(dual, &best, LAST_PASSES));
        if prices.bound - before <= NEAR * before.abs() {
            return;
        }
    }
}

/// Collects planes until the bound is near them.
fn collect(prices: &mut Prices, memory: &Memory, dual: &mut Dual) {
    let mut times: BTreeSet<usize> = (0..memory.room.len()).filter(|&time| prices.best[time] > 0.0).collect();
    let mean = prices.best.iter().sum::<f64>() / times.len().max(1) as f64;
    let (mut planes, mut reach, mut next) = (Vec::new(), REACH[0], prices.best.clone());
    let mut state = dual.state();
    while planes.len() < MAX_PLANES && reach > REACH[1] {
        let value = prices.bound_at(dual, &next, PASSES);
        let slope = prices.excess(dual);
        times.extend(peaks(&slope));
        let is_better = prices.consider(value, &next) && !planes.is_empty();
        if is_better || planes.is_empty() {
            state = dual.state();
        } else {
            dual.restore(&state);
        }
        planes.push(Plane { value, prices: next, slope });
        reach *= CHANGES[usize::from(!is_better)];
        let Some((best, found)) = under(&planes, &times, &prices.best, reach * mean) else { break };
        if best - prices.bound <= NEAR * prices.bound.abs() && reach >= REACH[0] {
            break;
        }
        next = found;
    }
    dual.restore(&state);
}

/// The times at which a choice exceeds the room most, none beside another.
fn peaks(excess: &[f64]) -> Vec<usize> {
    let at =
        |time: Option<usize>| time.and_then(|time| excess.get(time)).copied().unwrap_or(f64::NEG_INFINITY);
    let is_peak =
        |&time: &usize| excess[time] > at(time.checked_sub(1)).max(0.0) && excess[time] >= at(Some(time + 1));
    let mut peaks: Vec<usize> = (0..excess.len()).filter(is_peak).collect();
    peaks.sort_by(|&p, &q| excess[q].total_cmp(&excess[p]).then(p.cmp(&q)));
    peaks.truncate(N_PEAKS);
    peaks
}

/// The highest value under all planes no further than `reach` from some prices, and the prices there.
fn under(planes: &[Plane], times: &BTreeSet<usize>, around: &[f64], reach: f64) -> Option<(f64, Vec<f64>)> {
    let top = planes.iter().map(|plane| plane.value.abs()).fold(f64::MIN_POSITIVE, f64::max);
    // Prices in units of the reach, values in units of the largest: numbers near one.
    let column = |&time: &usize| Column {
        cost: 0.0,
        lower: (-around[time] / reach).max(-1.0),
        upper: 1.0,
        integer: false,
    };
    let mut program = Program { columns: times.iter().map(column).collect(), ..Program::default() };
    let value = program.columns.len() as u32;
    program.columns.push(Column { cost: -1.0, lower: -10.0, upper: 10.0, integer: false });
    for plane in planes {
        let slope = |&time: &usize| plane.slope[time] * reach / top;
        let here: f64 =
            times.iter().map(|&time| plane.slope[time] * (around[time] - plane.prices[time])).sum();
        let terms =
            (0..).zip(times).map(|(column, time)| (column, -slope(time))).filter(|(_, slope)| *slope != 0.0);
        let terms = terms.chain([(value, 1.0)]).collect();
        program.rows.push(Row::at_most((plane.value + here) / top, terms));
    }
    let found = solver(1).solve(&program).ok()?;
    let mut prices = around.to_vec();
    times
        .iter()
        .zip(&found.values)
        .for_each(|(&time, step)| prices[time] = (prices[time] + step * reach).max(0.0));
    Some((found.values[value as usize] * top, prices))
}
