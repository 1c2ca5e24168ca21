//! Siblings: contractions that read one tensor, such as query, key and value, or gate and up. Each has a loop of its own;
//! one mesh axis is to split them all, as Megatron's column-parallel layers do, so equal ones are tied.

use crate::classes::{ClassId, ClassMap, Classes};

/// A contraction as one of its operands sees it.
pub struct Sibling<'a> {
    /// The operand that is read by both.
    pub read: &'a ClassMap,
    /// The result.
    pub made: &'a ClassMap,
}

/// Ties the one dimension of each result that comes from elsewhere than the tensor read by both, if these are equal.
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
