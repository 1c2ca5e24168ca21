//! Random programs: every family of ops that a device's program treats in its own way.
//!
//! All numbers are small integers, also where they are floats: sums are then exact in any order, and results
//! can be compared for equality.

mod more;

use crate::Random;
use phzc_ir::Opcode;
use phzc_ir::eval::is_evaluated;
use std::fmt::Write;

/// Values below this stay exact for a while; others are clamped.
const LARGE: f64 = 60.0;

#[derive(Clone)]
struct Value {
    name: String,
    dims: Vec<i64>,
    /// No element is larger.
    bound: f64,
}

/// A program in the making; a loop's body is one of its own.
#[derive(Default)]
struct Writer {
    params: String,
    body: String,
    comps: String,
    values: Vec<Value>,
    n_params: usize,
    n_names: usize,
    /// Parameters cannot be added: this is a loop's body.
    is_inner: bool,
    prefix: String,
}

const REDUCERS: &str = "add { a = f32[] parameter(0) b = f32[] parameter(1) ROOT c = f32[] add(a, b) }\n\
    max { a = f32[] parameter(0) b = f32[] parameter(1) ROOT c = f32[] maximum(a, b) }\n\
    min { a = f32[] parameter(0) b = f32[] parameter(1) ROOT c = f32[] minimum(a, b) }\n\
    set { a = f32[] parameter(0) ROOT b = f32[] parameter(1) }\n\
    less { a = f32[] parameter(0) b = f32[] parameter(1) ROOT c = pred[] compare(a, b), direction=LT }\n";

/// A program of `n_ops` ops.
pub fn program(random: &mut Random, n_ops: usize) -> String {
    let mut writer = Writer::default();
    for _ in 0..1 + random.below(2) {
        let rank = 1 + random.below(3);
        let dims = sizes(random, rank);
        writer.parameter(&dims);
    }
    (0..n_ops).for_each(|_| writer.op(random));
    writer.finish(random)
}

fn sizes(random: &mut Random, rank: usize) -> Vec<i64> {
    (0..rank).map(|_| random.pick(&[2, 4, 8, 8, 16, 3])).collect()
}

fn list(items: impl IntoIterator<Item = i64>) -> String {
    items.into_iter().map(|item| item.to_string()).collect::<Vec<_>>().join(",")
}

fn shape(dtype: &str, dims: &[i64]) -> String {
    format!("{dtype}[{}]", list(dims.iter().copied()))
}

impl Writer {
    fn fresh(&mut self) -> String {
        self.n_names += 1;
        format!("{}v{}", self.prefix, self.n_names)
    }

    /// A line that is no value to be picked.
    fn line(&mut self, shape: &str, op: &str) -> String {
        let name = self.fresh();
        let _ = writeln!(self.body, "  {name} = {shape} {op}");
        name
    }

    /// A new value of floats, clamped if it may be large.
    fn push(&mut self, dims: Vec<i64>, op: &str, bound: f64) {
        let mut name = self.line(&shape("f32", &dims), op);
        let is_large = bound > LARGE;
        if is_large {
            name = self.line(&shape("f32", &dims), &format!("clamp(low, {name}, high)"));
        }
        self.values.push(Value { name, dims, bound: if is_large { 3.0 } else { bound } });
    }

    /// An input of floats; in a loop's body, a constant.
    fn parameter(&mut self, dims: &[i64]) -> Value {
        let name = match self.is_inner {
            true => self.line(&shape("f32", dims), "broadcast(high), dimensions={}"),
            false => self.input("f32", dims),
        };
        let value = Value { name, dims: dims.to_vec(), bound: 3.0 };
        self.values.push(value.clone());
        value
    }

    fn input(&mut self, dtype: &str, dims: &[i64]) -> String {
        let (number, shape) = (self.n_params, shape(dtype, dims));
        self.n_params += 1;
        let _ = writeln!(self.params, "  p{number} = {shape} parameter({number})");
        format!("p{number}")
    }

    /// Integers, some of them out of the range that they index.
    fn indices(&mut self, dims: &[i64]) -> String {
        match self.is_inner {
            true => self.line(&shape("s32", dims), "iota(), iota_dimension=0"),
            false => self.input("s32", dims),
        }
    }

    fn op(&mut self, random: &mut Random) {
        let value = random.pick(&self.values.clone());
        let rank = value.dims.len();
        if value.dims.iter().product::<i64>() > 1024 {
            return self.reduce(random, &value);
        }
        match random.below(24) {
            0..=3 if rank >= 1 => self.dot(random, &value),
            4 if rank >= 2 => self.transpose(random, &value),
            5 | 6 => self.reshape(random, &value),
            7 if rank < 4 => self.broadcast(random, &value),
            8 | 9 if rank >= 1 => self.reduce(random, &value),
            10 => self.select(random, &value),
            11 if rank >= 1 => self.slice(random, &value),
            12 if rank >= 1 => self.pad(random, &value),
            13 if rank >= 1 => self.concatenate(random, &value),
            14 => self.made(random, &value),
            15 | 16 if rank >= 1 => self.dynamic(random, &value),
            17 if rank >= 1 && is_evaluated(Opcode::Reverse) => self.reverse(random, &value),
            18 if rank >= 1 && is_evaluated(Opcode::Gather) => self.gather(random, &value),
            19 if rank >= 1 && is_evaluated(Opcode::Scatter) => self.scatter(random, &value),
            20 if is_evaluated(Opcode::Convolution) => self.convolution(random),
            21 if rank >= 1 && is_evaluated(Opcode::Sort) && is_evaluated(Opcode::ReduceWindow) => {
                self.windows(random, &value)
            }
            22 if !self.is_inner && rank >= 1 => self.loop_over(random, &value),
            _ => self.elementwise(random, &value),
        }
    }

    fn elementwise(&mut self, random: &mut Random, value: &Value) {
        let (name, bound) = (&value.name, value.bound);
        let equal: Vec<Value> = self.values.iter().filter(|it| it.dims == value.dims).cloned().collect();
        let other = random.pick(&equal);
        let (op, bound) = match random.below(6) {
            0 => (format!("negate({name})"), bound),
            1 => (format!("abs({name})"), bound),
            2 => (format!("multiply({name}, {})", other.name), bound * other.bound),
            3 => (format!("maximum({name}, {})", other.name), bound.max(other.bound)),
            _ => (format!("subtract({name}, {})", other.name), bound + other.bound),
        };
        self.push(value.dims.clone(), &op, bound);
    }

    /// With a batch dimension now and then.
    fn dot(&mut self, random: &mut Random, value: &Value) {
        let rank = value.dims.len();
        let at = random.below(rank);
        let batch = Some(random.below(rank)).filter(|&batch| batch != at && random.below(2) == 0);
        let mut dims: Vec<i64> = batch.iter().map(|&dim| value.dims[dim]).collect();
        dims.push(value.dims[at]);
        let n_free = usize::from(random.below(4) > 0);
        dims.extend(sizes(random, n_free));
        let fitting: Vec<Value> = self.values.iter().filter(|it| it.dims == dims).cloned().collect();
        let other = match fitting.is_empty() || random.below(2) == 0 {
            true => self.parameter(&dims),
            false => random.pick(&fitting),
        };
        let n_batch = usize::from(batch.is_some());
        let free = (0..rank).filter(|&dim| dim != at && Some(dim) != batch).map(|dim| value.dims[dim]);
        let made = dims[..n_batch].iter().copied().chain(free).chain(dims[n_batch + 1..].iter().copied());
        let mut op = format!("dot({}, {})", value.name, other.name);
        if let Some(batch) = batch {
            let _ = write!(op, ", lhs_batch_dims={{{batch}}}, rhs_batch_dims={{0}}");
        }
        let _ = write!(op, ", lhs_contracting_dims={{{at}}}, rhs_contracting_dims={{{n_batch}}}");
        let bound = value.dims[at] as f64 * value.bound * other.bound;
        self.push(made.collect(), &op, bound);
    }

    fn transpose(&mut self, random: &mut Random, value: &Value) {
        let mut order: Vec<usize> = (0..value.dims.len()).collect();
        let by = 1 + random.below(order.len() - 1);
        order.rotate_left(by);
        let made = order.iter().map(|&dim| value.dims[dim]).collect();
        let order = list(order.iter().map(|&dim| dim as i64));
        self.push(made, &format!("transpose({}), dimensions={{{order}}}", value.name), value.bound);
    }

    /// Neighbours merge, a dimension splits, or all is one dimension.
    fn reshape(&mut self, random: &mut Random, value: &Value) {
        let mut made = value.dims.clone();
        if !made.is_empty() {
            let at = random.below(made.len());
            match random.below(3) {
                0 if at + 1 < made.len() => {
                    let minor = made.remove(at + 1);
                    made[at] *= minor;
                }
                1 => made = vec![made.iter().product()],
                _ if made.len() < 4 && made[at] % 2 == 0 => {
                    made[at] /= 2;
                    made.insert(at + random.below(2), 2);
                }
                _ => made.insert(at, 1),
            }
        }
        self.push(made, &format!("reshape({})", value.name), value.bound);
    }

    fn broadcast(&mut self, random: &mut Random, value: &Value) {
        let at = random.below(value.dims.len() + 1);
        let mut made = value.dims.clone();
        made.insert(at, random.pick(&[2, 4, 8]));
        let kept = list((0..made.len()).filter(|&dim| dim != at).map(|dim| dim as i64));
        self.push(made, &format!("broadcast({}), dimensions={{{kept}}}", value.name), value.bound);
    }

    fn reduce(&mut self, random: &mut Random, value: &Value) {
        let rank = value.dims.len();
        let first = random.below(rank);
        let second = Some(random.below(rank)).filter(|&dim| dim != first && random.below(3) == 0);
        let gone: Vec<usize> = std::iter::once(first).chain(second).collect();
        let kept = (0..rank).filter(|dim| !gone.contains(dim)).map(|dim| value.dims[dim]).collect();
        // An initial value of 3 counts once only: such a sum cannot be done in parts.
        let (apply, start) = random.pick(&[
            ("add", "zero"),
            ("add", "zero"),
            ("max", "low"),
            ("min", "high"),
            ("add", "high"),
        ]);
        let n: i64 = gone.iter().map(|&dim| value.dims[dim]).product();
        let bound = if apply == "add" { n as f64 * value.bound + 3.0 } else { value.bound.max(3.0) };
        let gone = list(gone.iter().map(|&dim| dim as i64));
        let op = format!("reduce({}, {start}), dimensions={{{gone}}}, to_apply={apply}", value.name);
        self.push(kept, &op, bound);
    }

    fn select(&mut self, random: &mut Random, value: &Value) {
        let Some(dim) = (!value.dims.is_empty()).then(|| random.below(value.dims.len())) else { return };
        let places = self.line(&shape("s32", &value.dims), &format!("iota(), iota_dimension={dim}"));
        let other = self.indices(&value.dims);
        let direction = random.pick(&["LT", "EQ", "GE"]);
        let compare = format!("compare({places}, {other}), direction={direction}");
        let chosen = self.line(&shape("pred", &value.dims), &compare);
        let numbers = self.line(&shape("f32", &value.dims), &format!("convert({places})"));
        let op = format!("select({chosen}, {}, {numbers})", value.name);
        self.push(value.dims.clone(), &op, value.bound.max(value.dims[dim] as f64));
    }

    fn slice(&mut self, random: &mut Random, value: &Value) {
        let at = random.below(value.dims.len());
        let mut made = value.dims.clone();
        let stride = 1 + random.below(2) as i64;
        made[at] = (value.dims[at] - 1 + stride - 1) / stride;
        if made[at] == 0 {
            return;
        }
        let range = |(dim, &size): (usize, &i64)| match dim == at {
            true => format!("[1:{size}:{stride}]"),
            false => format!("[0:{size}:1]"),
        };
        let ranges: Vec<String> = value.dims.iter().enumerate().map(range).collect();
        self.push(made, &format!("slice({}), slice={{{}}}", value.name, ranges.join(", ")), value.bound);
    }

    fn pad(&mut self, random: &mut Random, value: &Value) {
        let at = random.below(value.dims.len());
        let (low, high) = random.pick(&[(1, 1), (2, 0), (-1, 1), (0, 2)]);
        let mut made = value.dims.clone();
        made[at] += low + high;
        let of = |dim: usize| if dim == at { format!("{low}_{high}") } else { "0_0".to_owned() };
        let padding: Vec<String> = (0..made.len()).map(of).collect();
        self.push(
            made,
            &format!("pad({}, high), padding={}", value.name, padding.join("x")),
            value.bound.max(3.0),
        );
    }

    fn concatenate(&mut self, random: &mut Random, value: &Value) {
        let at = random.below(value.dims.len());
        let mut made = value.dims.clone();
        made[at] *= 2;
        self.push(made, &format!("concatenate({0}, {0}), dimensions={{{at}}}", value.name), value.bound);
    }

    /// Something out of nothing: constants and positions.
    fn made(&mut self, random: &mut Random, value: &Value) {
        match random.below(4) {
            0 if !value.dims.is_empty() => {
                let dim = random.below(value.dims.len());
                let bound = value.dims[dim] as f64;
                self.push(value.dims.clone(), &format!("iota(), iota_dimension={dim}"), bound);
            }
            1 => self.push(vec![8], "constant({1, 2, 3, 0, -1, -2, -3, 2})", 3.0),
            2 => self.push(vec![2, 4], "constant({{2, 2, 2, 2}, {2, 2, 2, 2}})", 2.0),
            _ => self.push(value.dims.clone(), "broadcast(high), dimensions={}", 3.0),
        }
    }

    fn finish(self, random: &mut Random) -> String {
        let last = self.values.last().cloned().into_iter();
        let more = (0..random.below(3)).map(|_| random.pick(&self.values));
        let outputs: Vec<Value> = last.chain(more.collect::<Vec<_>>()).collect();
        let shapes: Vec<String> = outputs.iter().map(|it| shape("f32", &it.dims)).collect();
        let names: Vec<&str> = outputs.iter().map(|it| it.name.as_str()).collect();
        let root = format!("  ROOT out = ({}) tuple({})", shapes.join(", "), names.join(", "));
        let Writer { params, body, comps, .. } = self;
        format!("HloModule m\n{REDUCERS}{comps}ENTRY e {{\n{params}{CONSTANTS}{body}{root}\n}}\n")
    }
}

const CONSTANTS: &str =
    "  zero = f32[] constant(0)\n  low = f32[] constant(-3)\n  high = f32[] constant(3)\n";
