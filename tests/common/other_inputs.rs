//! Whether two programs that are equal on some inputs differ on others: other seeds, a second step, and
//! numbers that are drawn in another way.

use super::Random;
use phzc_ir::dtype::Class;
use phzc_ir::eval::{Array, Inputs, Options, Value, run};
use phzc_ir::{DType, Module, Shape};

/// Errors above this are no rounding, over the largest value of an output, or over `FLOOR` of that of all
/// outputs.
const TOLERANCE: f64 = 1e-9;
const FLOOR: f64 = 1e-4;
const SEEDS: [u64; 4] = [2, 3, 4, 1000];
/// Draws in another way.
const N_OTHER: u64 = 3;

/// What a program computes of many inputs, in 64-bit floats, on one device.
pub struct OtherInputs {
    given: Vec<Vec<Value>>,
    wanted: Vec<Vec<Vec<f64>>>,
}

impl OtherInputs {
    /// Runs a program; `parts` are the numbers of parts that tables are split into.
    pub fn of(program: &Module, parts: &[i64]) -> OtherInputs {
        let program = wide(program);
        let (inputs, options) = (Inputs::of(&program, parts), Options::default());
        let mut given: Vec<Vec<Value>> =
            SEEDS.iter().map(|&seed| inputs.draw(seed, &options).expect("fixed shapes")).collect();
        let made = run(&program, &given[0], &options).expect("it runs");
        let second = inputs.after(&given[0], &made, SEEDS[0], &options).expect("fixed shapes");
        given.push(second.inputs(&made));
        let seen = given.clone();
        given.extend((0..N_OTHER).map(|number| otherwise(&seen, &mut Random(number))));
        let wanted = given.iter().map(|given| results(&program, given).expect("it runs")).collect();
        OtherInputs { given, wanted }
    }

    /// How another program differs on one of them, if it does.
    pub fn difference(&self, other: &Module) -> Option<String> {
        let other = wide(other);
        for (number, (given, wanted)) in self.given.iter().zip(&self.wanted).enumerate() {
            // What cannot be run is refused, not called equal.
            let made = results(&other, given)?;
            if let Some((output, error)) = worst(wanted, &made).filter(|(_, error)| *error > TOLERANCE) {
                return Some(format!("output {output} by {error:.1e} on inputs {number}"));
            }
        }
        None
    }
}

/// Every array within the bounds of what was seen of it, floats also far beyond: states larger than what is
/// added to them, and smaller.
fn otherwise(seen: &[Vec<Value>], random: &mut Random) -> Vec<Value> {
    let one = |index: usize| {
        let all: Vec<&Array> = seen.iter().flat_map(|given| given[index].leaves()).collect();
        let Some(first) = all.first() else { return seen[0][index].clone() };
        let values: Vec<f64> = all.iter().flat_map(|array| array.to_f64_vec()).collect();
        let low = values.iter().copied().fold(f64::INFINITY, f64::min);
        let high = values.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        let grown = [0.1, 1.0, 10.0][random.below(3)];
        let mut share = || (random.next() >> 11) as f64 / (1u64 << 53) as f64;
        let mut float =
            || grown * if low > 0.0 { high * (share() + 0.01) } else { low + (high - low) * share() };
        let (dtype, dims, n) = (first.dtype(), first.dims(), first.len());
        let made = match (dtype.class(), dtype) {
            (Class::Bool, _) => Array::from_vec(dtype, dims, (0..n).map(|_| share() < 0.5).collect()),
            (Class::Float, DType::F64) => Array::from_vec(dtype, dims, (0..n).map(|_| float()).collect()),
            (Class::Signed | Class::Unsigned, _) => {
                let span = high - low + 1.0;
                let integer = |_| (low + span * share()).floor() as i64;
                Array::from_vec(dtype, dims, (0..n).map(integer).collect())
            }
            _ => None,
        };
        made.map_or_else(|| seen[0][index].clone(), Value::Array)
    };
    (0..seen[0].len()).map(one).collect()
}

fn results(program: &Module, given: &[Value]) -> Option<Vec<Vec<f64>>> {
    let made = run(program, given, &Options::default()).ok()?;
    Some(made.leaves().into_iter().map(Array::to_f64_vec).collect())
}

/// The output with the largest error.
fn worst(wanted: &[Vec<f64>], made: &[Vec<f64>]) -> Option<(usize, f64)> {
    let size = |values: &Vec<f64>| {
        values.iter().filter(|x| x.is_finite()).fold(0.0, |most: f64, x| most.max(x.abs()))
    };
    let floor = FLOOR * wanted.iter().map(size).fold(0.0, f64::max);
    let error = |(wanted, made): (&Vec<f64>, &Vec<f64>)| {
        let off = |(a, b): (&f64, &f64)| match (a.is_finite(), b.is_finite()) {
            (true, true) => (a - b).abs(),
            _ if a == b || (a.is_nan() && b.is_nan()) => 0.0,
            _ => f64::INFINITY,
        };
        let off = wanted.iter().zip(made).map(off).fold(0.0, f64::max);
        if off == 0.0 { 0.0 } else { off / size(wanted).max(size(made)).max(floor) }
    };
    wanted.iter().zip(made).map(error).enumerate().max_by(|a, b| a.1.total_cmp(&b.1))
}

/// The program in 64-bit floats.
fn wide(module: &Module) -> Module {
    fn widen(shape: &mut Shape) {
        match shape {
            Shape::Array(array) if array.dtype.class() == Class::Float => array.dtype = DType::F64,
            Shape::Tuple(parts) => parts.iter_mut().for_each(widen),
            _ => {}
        }
    }
    let mut module = module.clone();
    module.attrs.retain(|attr| &*attr.key != "entry_computation_layout");
    let instrs = module.comps.iter_mut().flat_map(|comp| &mut comp.instrs);
    instrs.for_each(|instr| widen(&mut instr.shape));
    module
}
