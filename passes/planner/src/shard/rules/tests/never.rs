//! What is no rule (reference/cfp-alpa.md 7.4, the row "never"): each is wrong by its values, and its sides
//! have types that differ, so that not even a rule that said so would fire.

use super::simulate::{Case, Meaning, Op, cases, meaning};
use super::{ELEMENTWISE, compare_as, differ, type_of};
use crate::shard::rules::tests::ast;
use crate::shard::rules::{Kinds, Move, Type, Typing};
use egg::Id;
use indexmap::IndexMap;
use phzc_ir::FactorKind::{Pass, Permute, Reduce, Replicate};
use phzc_ir::{Dims, Layout, Mesh, Reducer};

/// How often both sides have one type for an op's operands.
fn n_fired(op: Op, from: &str, to: &str) -> usize {
    let (from, to) = (ast(from), ast(to));
    cases(&[4, 4], op).iter().map(|case| compare_as(&case.typing, &from, &to, case)[0]).sum()
}

/// Asserts that two terms mean different things for an op, and that no rule could join them.
fn check(op: Op, from: &str, to: &str) {
    assert!(differ(op, from, to), "{from} is {to}");
    assert_eq!(n_fired(op, from, to), 0, "{from} has the type of {to}");
}

#[test]
fn a_function_of_a_sum_is_no_sum_of_functions() {
    check(ELEMENTWISE, "(f (ar ?a ?t))", "(ar ?a (f ?t))");
}

#[test]
fn a_product_of_two_sums_is_no_sum_of_products() {
    let product: Op = (&[Pass, Pass], &[&[true, true], &[true, true]]);
    check(product, "(f (ar ?a ?t))", "(ar ?a (f ?t))");
}

#[test]
fn a_norm_needs_its_features_whole() {
    let norm: Op = (&[Pass, Replicate], &[&[true, true]]);
    check(norm, "(f (ag ?a 1 ?t))", "(ag ?a 1 (f ?t))");
}

#[test]
fn what_moves_elements_along_a_dimension_needs_it_whole() {
    // Concatenation, slice, pad, reverse: elements pass the borders of tiles.
    let shift: Op = (&[Pass, Permute], &[&[true, true]]);
    check(shift, "(f (ag ?a 1 ?t))", "(ag ?a 1 (f ?t))");
}

#[test]
fn a_maximum_of_sums_is_no_sum_of_maxima() {
    let (sums, maxima): (Op, Op) =
        ((&[Pass, Pass], &[&[true, true]]), (&[Reduce(Reducer::Max), Pass], &[&[true, true]]));
    let leaf = |case: &Case| meaning(&Move::Leaf, case, |_| None);
    let id = |at: usize| Id::from(at);
    let mut n_different = 0;
    for (sum, max) in cases(&[4, 4], sums).iter().zip(cases(&[4, 4], maxima)) {
        if sum.typing.source.1 & 1 == 0 {
            continue;
        }
        let add = |value: Option<Meaning>| {
            meaning(&Move::AllReduce([id(0), id(1)]), sum, |it| {
                if it == id(0) { Some(Meaning::Num(0)) } else { value.clone() }
            })
        };
        let largest = |value: Option<Meaning>| meaning(&Move::Apply([id(0)]), &max, |_| value.clone());
        let (right, wrong) = (largest(add(leaf(sum))), add(largest(leaf(sum))));
        n_different += usize::from(right.is_some() && wrong.is_some() && right != wrong);
    }
    assert!(n_different > 0);
}

#[test]
fn one_axis_splits_one_loop() {
    // Rows of the left operand and columns of the right one on the same devices make only the blocks of a
    // diagonal.
    let typing = Typing {
        mesh: Mesh::new(&[2, 2]),
        dims: Dims::from_slice(&[4, 4, 4]),
        kinds: Kinds::from_slice(&[Pass, Reduce(Reducer::Add), Pass]),
        source: (Layout::REPLICATED, 0),
    };
    let type_of = |term: &str| type_of(&ast(term), &typing, &IndexMap::new());
    assert!(matches!(type_of("(f (sl 1 2 (sl 0 0 ?t)))"), Type::Value(..)));
    assert_eq!(type_of("(f (sl 0 2 (sl 0 0 ?t)))"), Type::Bad);
}
