//! Siblings: contractions that read one tensor, such as query, key and value, or gate and up. Each has loops
//! of its own; one mesh axis is to split them all, as Megatron's column-parallel layers do, so equal ones are
//! tied.

use crate::classes::{ClassId, ClassMap, Classes};

/// A contraction as one of its operands sees it.
pub struct Sibling<'a> {
    /// The operand that is read by both.
    pub read: &'a ClassMap,
    /// The result.
    pub made: &'a ClassMap,
}

/// Ties the dimensions of each result that come from elsewhere than the tensor read by both, if these have
/// the same sizes in the same order: the columns of query, key and value; the batch and the sequence of
/// products with one weight, of which the second may be a gradient that reads nothing else of the first
/// because `jax.checkpoint` has made all its other operands again.
///
/// Loops that meet in one op stay apart: `unify` refuses those.
pub fn tie(classes: &mut Classes, a: &Sibling, b: &Sibling) {
    let (mine, other) = (own_dims(classes, a), own_dims(classes, b));
    let sizes = |dims: &ClassMap| -> Vec<i64> {
        dims.iter().map(|dim| dim.iter().map(|&class| classes.size(class)).product()).collect()
    };
    if sizes(&mine) == sizes(&other) {
        classes.unify(&mine, &other);
    }
}

/// The dimensions of the result that the operand does not have.
fn own_dims(classes: &Classes, it: &Sibling) -> ClassMap {
    let (read, made) = (classes.resolve(it.read), classes.resolve(it.made));
    let is_read = |class: &ClassId| read.iter().any(|dim| dim.contains(class));
    let mut own: ClassMap = made;
    own.retain(|dim| dim.iter().any(|&class| classes.size(class) > 1) && !dim.iter().any(is_read));
    own
}

#[cfg(test)]
mod tests {
    use super::*;
    use smallvec::smallvec;

    /// Two products of one tensor of 64 by 32, and whether their own columns are one loop afterwards.
    fn are_tied(columns: [i64; 2]) -> bool {
        let mut classes = Classes::default();
        let [a, b] = columns.map(|columns| classes.fresh_node([64, 32, columns].into_iter()));
        let dims = |of: &[ClassId], at: [usize; 2]| -> ClassMap {
            at.map(|at| smallvec![of[at]]).into_iter().collect()
        };
        classes.unify(&dims(&a, [0, 1]), &dims(&b, [0, 1]));
        let ([read, made], [other_read, other_made]) =
            ([[0, 1], [0, 2]].map(|at| dims(&a, at)), [[0, 1], [0, 2]].map(|at| dims(&b, at)));
        let sibling = |read, made| Sibling { read, made };
        tie(&mut classes, &sibling(&read, &made), &sibling(&other_read, &other_made));
        classes.find(a[2]) == classes.find(b[2])
    }

    #[test]
    fn columns_of_one_size_are_one_loop() {
        assert!(are_tied([128, 128]));
    }

    #[test]
    fn columns_of_two_sizes_stay_two_loops() {
        assert!(!are_tied([128, 64]));
    }

    #[test]
    fn a_batch_and_a_sequence_are_tied_if_both_are_equal() {
        let are_tied = |rows: [[i64; 2]; 2]| {
            let mut classes = Classes::default();
            let [a, b] = rows.map(|[batch, seq]| classes.fresh_node([32, 128, batch, seq].into_iter()));
            let map = |of: &[ClassId], at: &[usize]| -> ClassMap {
                at.iter().map(|&at| smallvec![of[at]]).collect()
            };
            let (read, other_read) = (map(&a, &[0, 1]), map(&b, &[0, 1]));
            classes.unify(&read, &other_read);
            let (made, other_made) = (map(&a, &[2, 3, 1]), map(&b, &[2, 3, 0]));
            let sibling = |read, made| Sibling { read, made };
            tie(&mut classes, &sibling(&read, &made), &sibling(&other_read, &other_made));
            [2, 3].map(|at| classes.find(a[at]) == classes.find(b[at]))
        };
        assert_eq!(are_tied([[8, 64], [8, 64]]), [true, true]);
        assert_eq!(are_tied([[8, 64], [8, 16]]), [false, false]);
    }
}
