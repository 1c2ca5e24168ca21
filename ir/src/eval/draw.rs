//! Random arrays: reproducible, and such as a parameter's role asks for.

use super::role::{Places, Role};
use super::value::{Array, Data, Sizes};
use crate::dtype::{Class, DType};
use ndarray::{ArrayD, IxDyn};
use num_complex::Complex;

/// A reproducible stream of numbers (splitmix64).
pub(crate) struct Stream {
    state: u64,
}

/// What an array is drawn for.
pub(crate) struct Drawing<'a> {
    /// Rotates what does not fit into one array.
    pub seed: u64,
    /// How often an array of this seed was drawn before.
    pub attempt: u64,
    /// Numbers of parts that a table may be split into.
    pub parts: &'a [i64],
    pub role: &'a Role,
    /// The size of what is added to a state, if it is known.
    pub scale: Option<f64>,
}

impl Stream {
    pub fn new(seed: u64) -> Stream {
        Stream { state: seed }
    }

    fn next(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.state;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    fn below(&mut self, n: i64) -> i64 {
        (self.next() >> 1) as i64 % n.max(1)
    }

    /// Uniform in -1..1, with 24 random bits: exact in `f32`.
    fn signed(&mut self) -> f64 {
        (self.next() >> 40) as f64 / f64::from(1 << 23) - 1.0
    }

    /// Uniform in 1/2..3/2.
    fn near_one(&mut self) -> f64 {
        1.0 + self.signed() / 2.0
    }

    /// Floats uniform in ±1/2, integers below 8, mixed truth values.
    pub fn plain(&mut self, dtype: DType, dims: &Sizes) -> Array {
        let role = Role::default();
        let drawing = Drawing { seed: 0, attempt: 0, parts: &[], role: &role, scale: None };
        let n = dims.iter().product();
        match Data::zeros(dtype, &[]) {
            Data::Pred(_) | Data::Int(_) => drawing.array(self, dtype, dims),
            _ => floats(dtype, dims, n, || self.signed() / 2.0),
        }
    }
}

impl Drawing<'_> {
    /// An array of this type; `role` and `scale` say what is in it.
    pub fn array(&self, stream: &mut Stream, dtype: DType, dims: &Sizes) -> Array {
        let n: usize = dims.iter().product();
        match Data::zeros(dtype, &[]) {
            Data::Pred(_) => {
                let values = self.mixed(stream, n, vec![0, 1], |stream| stream.below(2));
                shaped(dtype, dims, values.into_iter().map(|x| x != 0).collect::<Vec<bool>>())
            }
            Data::Int(_) => shaped(dtype, dims, self.integers(stream, dtype, dims, n)),
            _ => {
                let rows = if dims.len() < 2 { 4 } else { dims[dims.len() - 2].max(4) };
                let plain = 1.0 / (rows as f64).sqrt();
                let is_real = dtype.class() != Class::Complex;
                let means = if is_real { self.column_means(stream, dims, plain) } else { Vec::new() };
                let mut means = means.into_iter().cycle();
                floats(dtype, dims, n, || means.next().unwrap_or(0.0) + self.float(stream, plain))
            }
        }
    }

    /// What all rows of a matrix have in common, so that what is made of them leans to one side: experts
    /// overflow, and a sum of what should cancel does not.
    fn column_means(&self, stream: &mut Stream, dims: &Sizes, plain: f64) -> Vec<f64> {
        let is_plain = !self.role.is_positive && self.scale.is_none() && self.role.compared.is_empty();
        let n_columns = if dims.len() < 2 || !is_plain { 0 } else { dims[dims.len() - 1] };
        (0..n_columns).map(|_| stream.signed() * plain).collect()
    }

    /// One float: usually uniform in `-plain..plain`.
    fn float(&self, stream: &mut Stream, plain: f64) -> f64 {
        let (role, compared) = (self.role, &self.role.compared);
        if role.is_positive {
            return stream.near_one() * self.scale.unwrap_or(plain * plain);
        }
        if let Some(scale) = self.scale {
            return stream.near_one() * if stream.below(2) == 0 { scale } else { -scale };
        }
        if compared.is_empty() {
            return stream.signed() * plain;
        }
        let one = compared[stream.below(compared.len() as i64) as usize];
        match (stream.below(4), one.is_equality) {
            (0, true) => one.with,
            (0 | 1, false) => one.with + stream.signed() * plain,
            _ => stream.signed() * plain,
        }
    }

    fn integers(&self, stream: &mut Stream, dtype: DType, dims: &Sizes, n: usize) -> Vec<i64> {
        let is_narrow = dtype.bits() <= 8;
        let least = if dtype.class() == Class::Unsigned { 0 } else { i64::MIN };
        let sides = self.role.compared.iter().flat_map(|it| neighbors(it.with, it.splits_below));
        let sides: Vec<i64> = sides.filter(|&side| side >= least).collect();
        if let Some(places) = self.role.places {
            let wanted = self.borders(places);
            let outside = self.role.compared.iter().filter(|it| it.is_equality).map(|it| it.with as i64);
            let outside = outside.filter(|x| !(places.low..places.high).contains(x));
            let wanted = wanted.into_iter().chain(outside).collect();
            let (low, n_places) = (places.low, places.high.saturating_sub(places.low));
            return self.mixed(stream, n, wanted, |stream| low + stream.below(n_places));
        }
        if self.role.is_bits || (is_narrow && sides.is_empty()) {
            return (0..n).map(|_| stream.next() as i64).collect();
        }
        if dims.is_empty() {
            // A counter stays small: after billions of steps `1 - 0.9^n` is 1, whatever its numbers are.
            let flags = self.role.compared.iter().filter(|it| it.is_equality);
            let flags: Vec<i64> = flags.flat_map(|it| neighbors(it.with, it.splits_below)).collect();
            let n_counts = 3 + self.attempt as i64;
            return vec![match stream.below(4) {
                0 if !flags.is_empty() => flags[stream.below(flags.len() as i64) as usize],
                _ => 1 + stream.below(n_counts),
            }];
        }
        let (low, high) = (sides.iter().min().copied(), sides.iter().max().copied());
        let (low, high) = low.zip(high).unwrap_or((0, 7));
        let most = i64::MAX >> (64 - dtype.bits());
        let n_values = high.min(most).saturating_sub(low).saturating_add(1);
        self.mixed(stream, n, sides, |stream| low.saturating_add(stream.below(n_values)))
    }

    /// Random numbers, and each of `wanted` at a random place: all of them where three quarters of the places
    /// are enough; otherwise the first two and, seed by seed, the others in turn.
    fn mixed(
        &self,
        stream: &mut Stream,
        n: usize,
        mut wanted: Vec<i64>,
        one: impl Fn(&mut Stream) -> i64,
    ) -> Vec<i64> {
        let mut values: Vec<i64> = (0..n).map(|_| one(stream)).collect();
        if n < 2 {
            return values;
        }
        let n_wanted = (n - n / 4).max(2);
        if wanted.len() > n_wanted {
            let (turn, n_others) = (n_wanted - 2, wanted.len() - 2);
            wanted[2..].rotate_left((self.seed as usize).wrapping_mul(turn) % n_others);
            wanted.truncate(n_wanted);
        }
        // The first places of a random order.
        let mut order: Vec<usize> = (0..n).collect();
        for (at, value) in wanted.into_iter().enumerate() {
            order.swap(at, at + stream.below((n - at) as i64) as usize);
            values[order[at]] = value;
        }
        values
    }

    /// The ends of a table and of the parts that it may be split into.
    fn borders(&self, places: Places) -> Vec<i64> {
        let mut found = vec![0, places.high - 1];
        found.extend((places.low < 0).then_some(places.low));
        found.extend((places.low < 0).then_some(-1).filter(|_| places.high == places.size));
        for &n_parts in self.parts.iter().filter(|&&n_parts| n_parts > 1 && places.size % n_parts == 0) {
            let starts = (1..n_parts).map(|part| part * (places.size / n_parts));
            found.extend(starts.flat_map(|start| [start - 1, start]).filter(|&at| at < places.high));
        }
        let mut seen = std::collections::BTreeSet::new();
        found.retain(|&at| seen.insert(at));
        found
    }
}

/// Two neighbours that a comparison with a number tells apart.
fn neighbors(with: f64, splits_below: bool) -> [i64; 2] {
    let with = with as i64;
    if splits_below { [with.saturating_sub(1), with] } else { [with, with.saturating_add(1)] }
}

fn floats(dtype: DType, dims: &Sizes, n: usize, mut next: impl FnMut() -> f64) -> Array {
    match Data::zeros(dtype, &[]) {
        Data::F64(_) => shaped(dtype, dims, (0..n).map(|_| next()).collect::<Vec<f64>>()),
        Data::C64(_) => {
            let one = |_| Complex::new(next() as f32, next() as f32);
            shaped(dtype, dims, (0..n).map(one).collect())
        }
        Data::C128(_) => shaped(dtype, dims, (0..n).map(|_| Complex::new(next(), next())).collect()),
        _ => shaped(dtype, dims, (0..n).map(|_| next() as f32).collect::<Vec<f32>>()),
    }
}

fn shaped<T: super::Element>(dtype: DType, dims: &Sizes, values: Vec<T>) -> Array {
    let buf = ArrayD::from_shape_vec(IxDyn(dims), values).expect("as many as the sizes say");
    Array::new(dtype, T::wrap(buf.into_shared()))
}
