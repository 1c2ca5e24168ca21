//! Siblings: contractions that read one tensor, such as query, key and value, or gate and up. Each has a loop
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

/// Ties the one dimension of each result that comes from elsewhere than the tensor read by both, if these are
/// equal.
///
/// Loops that meet in one op stay apart: `unify` refuses those.
pub fn tie(classes: &mut Classes, a: &Sibling, b: &Sibling) {
    if let (Some(mine), Some(other)) = (own_dim(classes, a), own_dim(classes, b)) {
        let size = |dim: &[ClassId]| dim.iter().map(|&class| classes.size(class)).product::<i64>();
        if size(&mine[0]) == size(&other[0]) {
            classes.unify(&mine, &other);
        }
    }
}

/// The only dimension of the result that the operand does not have.
fn own_dim(classes: &Classes, it: &Sibling) -> Option<ClassMap> {
    let (read, made) = (classes.resolve(it.read), classes.resolve(it.made));
    let is_read = |class: &ClassId| read.iter().any(|dim| dim.contains(class));
    let mut own: ClassMap = made;
    own.retain(|dim| dim.iter().any(|&class| classes.size(class) > 1) && !dim.iter().any(is_read));
    (own.len() == 1).then_some(own)
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
    fn a_result_with_two_dimensions_of_its_own_is_tied_to_none() {
        let mut classes = Classes::default();
        let a = classes.fresh_node([64, 32, 8, 16].into_iter());
        let map = |at: &[usize]| -> ClassMap { at.iter().map(|&at| smallvec![a[at]]).collect() };
        let (read, made) = (map(&[0, 1]), map(&[0, 2, 3]));
        assert_eq!(own_dim(&classes, &Sibling { read: &read, made: &made }), None);
        let made = map(&[0, 2]);
        assert_eq!(own_dim(&classes, &Sibling { read: &read, made: &made }), Some(map(&[2])));
    }
}
