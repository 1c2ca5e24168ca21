//! Random look-ups, windows and loops.

use super::{CONSTANTS, LARGE, Value, Writer, list, shape};
use crate::Random;
use std::fmt::Write;

/// Windows over 8 positions, with how many results they make: of one element, overlapping, with steps between
/// them or between elements, side by side, and over all (what is left of a gradient's are kernel positions).
const WINDOWS: &[(&str, i64)] = &[
    ("size=1", 8),
    ("size=3 pad=1_1", 8),
    ("size=3 stride=2 pad=0_1", 4),
    ("size=3 pad=1_2 lhs_dilate=2", 16),
    ("size=4 stride=4", 2),
    ("size=8", 1),
    ("size=8 pad=1_1", 3),
];

impl Writer {
    /// A slice at a computed place, or an update there.
    pub(super) fn dynamic(&mut self, random: &mut Random, value: &Value) {
        let mut part = value.dims.clone();
        for size in &mut part {
            if random.below(2) == 0 {
                *size = random.pick(&[1, 1, (*size + 1) / 2]);
            }
        }
        let dtype = random.pick(&["s32", "s32", "u32", "s64"]);
        let starts: Vec<String> = (0..part.len()).map(|_| self.start(dtype, random)).collect();
        let starts = starts.join(", ");
        if random.below(3) == 0 {
            let sizes = list(part.iter().copied());
            let op = format!("dynamic-slice({}, {starts}), dynamic_slice_sizes={{{sizes}}}", value.name);
            return self.push(part, &op, value.bound);
        }
        let update = self.parameter(&part);
        let op = format!("dynamic-update-slice({}, {}, {starts})", value.name, update.name);
        self.push(value.dims.clone(), &op, value.bound.max(3.0));
    }

    /// Where a slice starts; some places are out of range.
    fn start(&mut self, dtype: &str, random: &mut Random) -> String {
        let first = random.below(8) as i64 - if dtype == "u32" { 0 } else { 2 };
        match self.is_inner {
            true => "i".to_owned(),
            false => self.line(&format!("{dtype}[]"), &format!("constant({first})")),
        }
    }

    pub(super) fn reverse(&mut self, random: &mut Random, value: &Value) {
        let at = random.below(value.dims.len());
        self.push(value.dims.clone(), &format!("reverse({}), dimensions={{{at}}}", value.name), value.bound);
    }

    /// Rows, or single elements, of an array.
    pub(super) fn gather(&mut self, random: &mut Random, value: &Value) {
        let rank = value.dims.len();
        let at = random.below(rank);
        let n = random.pick(&[4, 8, 6]);
        let (vector, dims) = if random.below(2) == 0 { (1, vec![n]) } else { (1, vec![n, 1]) };
        let indices = self.indices(&dims);
        let windows = (0..rank).map(|dim| if dim == at { 1 } else { value.dims[dim] });
        let offsets = list((0..rank as i64 - 1).map(|dim| dim + 1));
        let op = format!(
            "gather({}, {indices}), offset_dims={{{offsets}}}, collapsed_slice_dims={{{at}}}, start_index_map={{{at}}}, \
             index_vector_dim={vector}, slice_sizes={{{}}}",
            value.name,
            list(windows)
        );
        let others = (0..rank).filter(|&dim| dim != at).map(|dim| value.dims[dim]);
        self.push(std::iter::once(n).chain(others).collect(), &op, value.bound);
    }

    /// Rows added up, or overwritten, at computed places.
    pub(super) fn scatter(&mut self, random: &mut Random, value: &Value) {
        let rank = value.dims.len();
        let at = random.below(rank);
        let n = random.pick(&[4, 8]);
        let indices = self.indices(&[n]);
        let others = (0..rank).filter(|&dim| dim != at).map(|dim| value.dims[dim]);
        let update: Vec<i64> = std::iter::once(n).chain(others).collect();
        let update = self.parameter(&update);
        let zeros = self.line(&shape("f32", &value.dims), "broadcast(zero), dimensions={}");
        let start = if random.below(2) == 0 { zeros } else { value.name.clone() };
        let apply = random.pick(&["add", "add", "max"]);
        let windows = list((1..rank as i64).collect::<Vec<_>>());
        let op = format!(
            "scatter({start}, {indices}, {}), update_window_dims={{{windows}}}, inserted_window_dims={{{at}}}, \
             scatter_dims_to_operand_dims={{{at}}}, index_vector_dim=1, to_apply={apply}",
            update.name
        );
        self.push(value.dims.clone(), &op, value.bound + n as f64 * update.bound);
    }

    pub(super) fn convolution(&mut self, random: &mut Random) {
        let (groups, inner, outer) = random.pick(&[(1, 4, 8), (2, 2, 2), (4, 1, 2), (4, 2, 1), (1, 8, 4)]);
        let is_batch = groups > 1 && random.below(3) == 0;
        let (batch, (window, made)) = (random.pick(&[4, 8]), random.pick(WINDOWS));
        let size: i64 = window[5..6].parse().unwrap_or(1);
        let features = if is_batch { inner } else { groups * inner };
        let x = self.parameter(&[batch * if is_batch { groups } else { 1 }, 8, features]);
        let kernel = self.parameter(&[size, inner, groups * outer]);
        let count = match is_batch {
            true => format!("batch_group_count={groups}"),
            false => format!("feature_group_count={groups}"),
        };
        let op = format!(
            "convolution({}, {}), window={{{window}}}, dim_labels=b0f_0io->b0f, {count}",
            x.name, kernel.name
        );
        self.push(vec![batch, made, groups * outer], &op, size as f64 * inner as f64 * 9.0);
    }

    /// Windows over one dimension, or one dimension sorted.
    pub(super) fn windows(&mut self, random: &mut Random, value: &Value) {
        let at = random.below(value.dims.len());
        if random.below(2) == 0 {
            let op = format!("sort({}), dimensions={{{at}}}, to_apply=less", value.name);
            return self.push(value.dims.clone(), &op, value.bound);
        }
        let of = |one: &str, other: &str| {
            let all = (0..value.dims.len()).map(|dim| if dim == at { one } else { other });
            all.collect::<Vec<_>>().join("x")
        };
        let op = format!(
            "reduce-window({}, zero), window={{size={} pad={}}}, to_apply=add",
            value.name,
            of("3", "1"),
            of("1_1", "0_0")
        );
        self.push(value.dims.clone(), &op, 3.0 * value.bound);
    }

    /// A loop that carries a value, reads a slice per trip and writes one.
    pub(super) fn loop_over(&mut self, random: &mut Random, value: &Value) {
        const TRIPS: i64 = 2;
        let dims = value.dims.clone();
        let stacked: Vec<i64> = std::iter::once(TRIPS).chain(dims.iter().copied()).collect();
        let xs = self.parameter(&stacked);
        let name = self.fresh();
        let (own, all) = (shape("f32", &dims), shape("f32", &stacked));
        let state = format!("(s32[], {own}, {all}, {all})");
        self.comps += &body(random, &name, value, &stacked, &state);
        let _ = writeln!(
            self.comps,
            "{name}c {{\n  s = {state} parameter(0)\n  i = s32[] get-tuple-element(s), index=0\n  \
             n = s32[] constant({TRIPS})\n  ROOT l = pred[] compare(i, n), direction=LT\n}}"
        );
        let first = self.line("s32[]", "constant(0)");
        let ys = self.line(&all, "broadcast(zero), dimensions={}");
        let start = self.line(&state, &format!("tuple({first}, {}, {}, {ys})", value.name, xs.name));
        let run = self.line(&state, &format!("while({start}), condition={name}c, body={name}b"));
        self.push(dims, &format!("get-tuple-element({run}), index=1"), LARGE);
        self.push(stacked, &format!("get-tuple-element({run}), index=3"), LARGE);
    }
}

/// A loop's body: `s = (i, carried, xs, ys)`.
fn body(random: &mut Random, name: &str, carried: &Value, stacked: &[i64], state: &str) -> String {
    let (own, all) = (shape("f32", &carried.dims), shape("f32", stacked));
    let one: Vec<i64> = std::iter::once(1).chain(carried.dims.iter().copied()).collect();
    let zeros = ", o".repeat(carried.dims.len());
    let mut inner = Writer { is_inner: true, prefix: format!("{name}."), ..Writer::default() };
    let value = |name: &str| Value { name: name.to_owned(), dims: carried.dims.clone(), bound: LARGE };
    inner.values = vec![value("c"), value("x")];
    (0..random.below(4)).for_each(|_| inner.op(random));
    let equal: Vec<Value> = inner.values.iter().filter(|it| it.dims == carried.dims).cloned().collect();
    let (a, b) = (random.pick(&equal), equal[equal.len() - 1].clone());
    inner.line(&own, &format!("add({}, {})", a.name, b.name));
    let sum = format!("{name}.v{}", inner.n_names);
    let next = inner.line(&own, &format!("clamp(low, {sum}, high)"));
    format!(
        "{comps}{name}b {{\n  s = {state} parameter(0)\n{CONSTANTS}  i = s32[] get-tuple-element(s), index=0\n  \
         c = {own} get-tuple-element(s), index=1\n  xs = {all} get-tuple-element(s), index=2\n  \
         ys = {all} get-tuple-element(s), index=3\n  o = s32[] constant(0)\n  \
         xr = {row} dynamic-slice(xs, i{zeros}), dynamic_slice_sizes={{{row_sizes}}}\n  x = {own} reshape(xr)\n\
         {body}  yr = {row} reshape({next})\n  yn = {all} dynamic-update-slice(ys, yr, i{zeros})\n  \
         one = s32[] constant(1)\n  j = s32[] add(i, one)\n  ROOT t = {state} tuple(j, {next}, xs, yn)\n}}\n",
        comps = inner.comps,
        row = shape("f32", &one),
        row_sizes = list(one.iter().copied()),
        body = inner.body,
    )
}
