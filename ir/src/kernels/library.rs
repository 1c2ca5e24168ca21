//! Products and convolutions of libraries: cuBLAS's from `dot_dimension_numbers` of their configuration,
//! cuDNN's from `dim_labels`.

use crate::attr::{DimLabels, Key, LabelledDims, Value, WindowDim};
use crate::dtype::DType;
use crate::ops::maps::{dim, leaf_dims, operand_dims, operand_leaves, result_dims};
use crate::ops::positions::valid_positions;
use crate::rule::{FactorId, FactorKind, Reducer, Rule, TensorMap};
use crate::shape::{ArrayShape, Shape};
use crate::view::View;
use crate::work::Work;
use smallvec::SmallVec;

/// The roles of both operands' dimensions in a product of matrices.
struct Product<'a> {
    sizes: [&'a [i64]; 2],
    batch: [Vec<usize>; 2],
    contracting: [Vec<usize>; 2],
}

impl<'a> Product<'a> {
    /// What the configuration says, if that fits the shapes.
    fn read(view: &View<'a>, config: &str) -> Option<Product<'a>> {
        let list = |key: &str| positions(config, key);
        let product = Product {
            sizes: [operand_dims(view, 0), operand_dims(view, 1)],
            batch: [list("lhs_batch_dimensions:["), list("rhs_batch_dimensions:[")],
            contracting: [list("lhs_contracting_dimensions:["), list("rhs_contracting_dimensions:[")],
        };
        let fits = product.meets(&product.batch) && product.meets(&product.contracting);
        let made: Vec<i64> = product.made().map(|(side, at)| product.sizes[side][at]).collect();
        (fits && made == result_dims(view)).then_some(product)
    }

    /// Whether dimensions of both operands are there and of equal sizes.
    fn meets(&self, [left, right]: &[Vec<usize>; 2]) -> bool {
        let size = |side: usize, at: usize| self.sizes[side].get(at);
        let are_equal = |(&a, &b)| size(0, a).is_some() && size(0, a) == size(1, b);
        left.len() == right.len() && left.iter().zip(right).all(are_equal)
    }

    /// The dimensions that the result has, in order: batch, rows, columns.
    fn made(&self) -> impl Iterator<Item = (usize, usize)> {
        let in_range = |at: &&usize| **at < self.sizes[0].len();
        let batch = self.batch[0].iter().filter(in_range).map(|&at| (0, at));
        batch.chain(self.free(0)).chain(self.free(1))
    }

    /// The dimensions of one operand that the other lacks.
    fn free(&self, side: usize) -> impl Iterator<Item = (usize, usize)> {
        let shared = move |at: &usize| self.batch[side].contains(at) || self.contracting[side].contains(at);
        (0..self.sizes[side].len()).filter(move |at| !shared(at)).map(move |at| (side, at))
    }
}

/// The numbers of a list behind a key.
fn positions(config: &str, key: &str) -> Vec<usize> {
    let inside = config.split_once(key).and_then(|(_, rest)| rest.split(']').next()).unwrap_or_default();
    inside.split(',').filter_map(|number| number.parse().ok()).collect()
}

/// Rows, columns and batches pass. What is contracted adds up where nothing is done with the sum.
pub(super) fn rule_dot(view: &View, config: &str) -> Option<Rule> {
    let product = Product::read(view, config)?;
    let mut rule = Rule::default();
    let is_plain = !config.contains("epilogue:") || config.contains("epilogue:DEFAULT");
    let adds_up = is_plain && is_alone(view);
    let contracted = if adds_up { FactorKind::Reduce(Reducer::Add) } else { FactorKind::Replicate };
    let left = product.sizes[0].iter().enumerate().map(|(at, &size)| {
        let sums = product.contracting[0].contains(&at);
        rule.factor(size, if sums { contracted } else { FactorKind::Pass })
    });
    let left: Vec<FactorId> = left.collect();
    let right = product.sizes[1].iter().enumerate().map(|(at, &size)| {
        let met =
            |lists: &[Vec<usize>; 2]| lists[1].iter().position(|&it| it == at).map(|at| left[lists[0][at]]);
        let shared = met(&product.batch).or_else(|| met(&product.contracting));
        shared.unwrap_or_else(|| rule.factor(size, FactorKind::Pass))
    });
    let right: Vec<FactorId> = right.collect();
    let result: TensorMap =
        product.made().map(|(side, at)| dim(if side == 0 { left[at] } else { right[at] })).collect();
    let operands = [left, right].map(|ids| ids.into_iter().map(dim).collect());
    let columns = result.len().checked_sub(1);
    with_rest(view, rule, operands, result, columns)
}

/// Whether all that a call reads besides two operands are scalars.
fn is_alone(view: &View) -> bool {
    operand_leaves(view).into_iter().skip(2).all(|leaf| leaf_dims(leaf).is_empty())
}

/// The rule with whatever else is read and made. Tensors of the result's shape (a matrix that is added, a
/// side input, what an epilogue keeps) are split as it is, and a vector (a bias) as the result's dimension
/// `features`; scalars and scratch memory are whole. `None` if there is anything else: the call is whole
/// then.
fn with_rest(
    view: &View,
    mut rule: Rule,
    operands: [TensorMap; 2],
    result: TensorMap,
    features: Option<usize>,
) -> Option<Rule> {
    let sizes = result_dims(view);
    let vector = features.and_then(|at| Some((sizes.get(at)?, TensorMap::from_iter([result[at].clone()]))));
    rule.operands.extend(operands);
    for leaf in operand_leaves(view).into_iter().skip(2) {
        let map = match (leaf_dims(leaf), &vector) {
            (own, _) if own.iter().all(|&size| size == 1) => rule.fresh(own, FactorKind::Replicate),
            (own, _) if own == sizes => result.clone(),
            ([own], Some((size, map))) if own == *size => map.clone(),
            _ => return None,
        };
        rule.operands.push(map);
    }
    rule.results.push(result.clone());
    for leaf in view.instr.shape.leaves().into_iter().skip(1) {
        let map = match leaf_dims(leaf) {
            own if is_scratch(leaf) => rule.fresh(own, FactorKind::Replicate),
            own if own == sizes => result.clone(),
            // The largest element of the result is known when all of it is.
            _ => return None,
        };
        rule.results.push(map);
    }
    Some(rule)
}

/// Whether a result is a library's scratch memory: a vector of bytes.
fn is_scratch(leaf: &Shape) -> bool {
    let is_bytes = |array: &ArrayShape| matches!(array.dtype, DType::S8 | DType::U8) && array.dims.len() == 1;
    leaf.as_array().is_some_and(is_bytes)
}

/// A multiply and an add per element of the result and contracted index.
pub(super) fn work_dot(view: &View, config: &str) -> Work {
    let Some(product) = Product::read(view, config) else { return Work::default() };
    let sizes = product.contracting[0].iter().map(|&at| product.sizes[0][at]);
    let all = result_dims(view).iter().copied().chain(sizes).map(|size| size as f64);
    Work { products: 2.0 * all.product::<f64>(), ..Work::default() }
}

/// The three tensors of a convolution, by what they are in the forward one: input, kernel, output.
struct Convolution<'a> {
    labels: [&'a LabelledDims; 3],
    sizes: [&'a [i64]; 3],
    window: &'a [WindowDim],
    n_groups: i64,
    /// Which of the three the first operand, the second and the result are.
    order: [usize; 3],
}

impl<'a> Convolution<'a> {
    fn read(view: &View<'a>) -> Option<Convolution<'a>> {
        let (Value::DimLabels(labels), Value::Window(window)) =
            (view.instr.attr(Key::DimLabels)?, view.instr.attr(Key::Window)?)
        else {
            return None;
        };
        let order = match super::target(view.instr)? {
            target if target.contains("BackwardInput") => [2, 1, 0],
            target if target.contains("BackwardFilter") => [0, 2, 1],
            _ => [0, 1, 2],
        };
        let found = [operand_dims(view, 0), operand_dims(view, 1), result_dims(view)];
        let mut sizes = found;
        order.iter().zip(found).for_each(|(&role, dims)| sizes[role] = dims);
        let DimLabels { lhs, rhs, out, .. } = &**labels;
        let n_groups = view.instr.int(Key::FeatureGroupCount).unwrap_or(1);
        let read = Convolution { labels: [lhs, rhs, out], sizes, window: &window.dims, n_groups, order };
        read.fits().then_some(read)
    }

    /// Whether the labels are of these ranks, and equal sizes meet.
    fn fits(&self) -> bool {
        let rank = self.window.len() + 2;
        let is_whole = |(labels, sizes): (&&LabelledDims, &&[i64])| {
            let mut all: Vec<usize> = labels.spatial.to_vec();
            all.extend([labels.major, labels.minor]);
            all.sort_unstable();
            sizes.len() == rank && all.into_iter().eq(0..rank)
        };
        self.labels.iter().zip(&self.sizes).all(is_whole)
            && self.n_groups >= 1
            && self.major(0) == self.major(2)
            && self.major(1) == self.minor(2)
            && self.minor(1).checked_mul(self.n_groups) == Some(self.minor(0))
    }

    /// Images, or output features of the kernel.
    fn major(&self, role: usize) -> i64 {
        self.sizes[role][self.labels[role].major]
    }

    /// Features, or input features of the kernel.
    fn minor(&self, role: usize) -> i64 {
        self.sizes[role][self.labels[role].minor]
    }
}

/// Images and features pass or add up; positions are whole, and so are the features of grouped convolutions.
pub(super) fn rule_convolution(view: &View) -> Option<Rule> {
    let it = Convolution::read(view)?;
    let mut rule = Rule::default();
    // Per role: the loop of the major label, then that of the minor one.
    let shared = [[0, 1], [2, 1], [0, 2]];
    let result = it.order[2];
    // A fused graph may do anything with the sum.
    let is_plain = !super::target(view.instr)?.contains("Graph");
    let adds_up = is_plain && is_alone(view);
    let kind = |loop_: usize| match () {
        () if it.n_groups > 1 && loop_ > 0 => FactorKind::Replicate,
        () if shared[result].contains(&loop_) => FactorKind::Pass,
        () if adds_up => FactorKind::Reduce(Reducer::Add),
        () => FactorKind::Replicate,
    };
    let sizes = [it.major(0), it.minor(1), it.major(1)];
    let ids: Vec<FactorId> = (0..3).map(|at| rule.factor(sizes[at], kind(at))).collect();
    let maps = it.order.map(|role| {
        let (labels, own) = (it.labels[role], shared[role].map(|at| ids[at]));
        let mut map: TensorMap = SmallVec::new();
        for (at, &size) in it.sizes[role].iter().enumerate() {
            // The input of a grouped convolution has all groups' features.
            let has = |label: usize, id: FactorId| label == at && rule.factors[id as usize].size == size;
            let factor = match () {
                () if has(labels.major, own[0]) => own[0],
                () if has(labels.minor, own[1]) => own[1],
                () => rule.factor(size, FactorKind::Replicate),
            };
            map.push(dim(factor));
        }
        map
    });
    let [first, second, made] = maps;
    let features = (result == 2).then_some(it.labels[2].minor);
    with_rest(view, rule, [first, second], made, features)
}

/// XLA's rule: only positions at which the kernel meets an input element count; all three directions do the
/// same.
pub(super) fn work_convolution(view: &View) -> Work {
    let Some(it) = Convolution::read(view) else { return Work::default() };
    let [input, kernel, output] = it.labels;
    let features = it.sizes[1][kernel.minor] as f64 * it.sizes[2][output.minor] as f64;
    let mut fmas = features * it.sizes[0][input.major] as f64;
    for (at, dim) in it.window.iter().enumerate() {
        fmas *= valid_positions(it.sizes[0][input.spatial[at]], it.sizes[2][output.spatial[at]], dim);
    }
    Work { products: 2.0 * fmas, ..Work::default() }
}
