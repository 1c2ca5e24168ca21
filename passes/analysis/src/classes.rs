//! Union-find over factors: loops of different ops that have to be split alike.
//!
//! A class is a loop that several nodes share. Classes split when a reshape shows finer structure
//! (32 = 4 x 8), and two classes that occur in one node interfere: they may never become one.

use phzc_ir::TensorMap;
use smallvec::SmallVec;

/// A class' position; ask [`Classes::find`] for its representative.
pub type ClassId = u32;

/// Classes of one tensor: per dimension, major to minor, size-1 classes left out.
pub type ClassMap = SmallVec<[SmallVec<[ClassId; 2]>; 5]>;

/// The union-find.
#[derive(Debug, Default)]
pub struct Classes {
    parent: Vec<ClassId>,
    size: Vec<i64>,
    /// A split class is its major part followed by its minor part.
    parts: Vec<Option<[ClassId; 2]>>,
    interferes: Vec<SmallVec<[ClassId; 6]>>,
}

impl Classes {
    /// A new class of `size` iterations.
    pub fn fresh(&mut self, size: i64) -> ClassId {
        self.parent.push(self.parent.len() as ClassId);
        self.size.push(size);
        self.parts.push(None);
        self.interferes.push(SmallVec::new());
        (self.parent.len() - 1) as ClassId
    }

    /// New classes for one node's factors, each interfering with the others.
    pub fn fresh_node(&mut self, sizes: impl Iterator<Item = i64>) -> Vec<ClassId> {
        let ids: Vec<ClassId> = sizes.map(|size| self.fresh(size)).collect();
        for &a in &ids {
            self.interferes[a as usize] = ids.iter().copied().filter(|&b| b != a).collect();
        }
        ids
    }

    /// The representative.
    pub fn find(&self, mut class: ClassId) -> ClassId {
        while self.parent[class as usize] != class {
            class = self.parent[class as usize];
        }
        class
    }

    /// Lets a class and what it consists of point at their representatives: chains would grow with the
    /// layers.
    fn shorten(&mut self, mut class: ClassId) {
        let root = self.find(class);
        while class != root {
            class = std::mem::replace(&mut self.parent[class as usize], root);
        }
        self.parts[root as usize].into_iter().flatten().for_each(|part| self.shorten(part));
    }

    /// Lets every class point at its representative, which is never a later one.
    pub fn shorten_all(&mut self) {
        (0..self.parent.len())
            .for_each(|class| self.parent[class] = self.parent[self.parent[class] as usize]);
    }

    /// Number of classes so far, those that became others or were split included.
    pub fn n_classes(&self) -> usize {
        self.parent.len()
    }

    /// Iterations of a class.
    pub fn size(&self, class: ClassId) -> i64 {
        self.size[self.find(class) as usize]
    }

    /// Unsplit representatives that `class` consists of, major to minor, without those of size 1.
    pub fn leaves(&self, class: ClassId, out: &mut SmallVec<[ClassId; 2]>) {
        let root = self.find(class);
        match self.parts[root as usize] {
            Some(parts) => parts.iter().for_each(|&part| self.leaves(part, out)),
            None if self.size[root as usize] != 1 => out.push(root),
            None => {}
        }
    }

    /// A tensor's map in unsplit representatives.
    pub fn resolve(&self, map: &ClassMap) -> ClassMap {
        let dim = |classes: &SmallVec<[ClassId; 2]>| {
            let mut out = SmallVec::new();
            classes.iter().for_each(|&class| self.leaves(class, &mut out));
            out
        };
        map.iter().map(dim).collect()
    }

    /// Makes two maps of one tensor equal; false, and nothing done, when that cannot be.
    pub fn unify(&mut self, a: &ClassMap, b: &ClassMap) -> bool {
        a.iter().chain(b).flatten().for_each(|&class| self.shorten(class));
        let (a, b) = (self.resolve(a), self.resolve(b));
        if a.len() != b.len() {
            return false;
        }
        // Checked on sizes first, so that a later dimension cannot fail after an earlier one merged.
        let is_possible = a.iter().zip(&b).all(|(a, b)| self.can_align(a, b));
        is_possible && a.iter().zip(&b).all(|(a, b)| self.align(a, b))
    }

    fn can_align(&self, a: &[ClassId], b: &[ClassId]) -> bool {
        let (mut i, mut j) = (0, 0);
        let (mut left, mut right) = (0i64, 0i64);
        loop {
            left = if left == 0 && i < a.len() { self.size(a[i]) } else { left };
            right = if right == 0 && j < b.len() { self.size(b[j]) } else { right };
            if left == 0 || right == 0 {
                return left == right;
            }
            let whole = left == self.size(a[i]) && right == self.size(b[j]);
            if whole && self.find(a[i]) != self.find(b[j]) && self.interfere(a[i], b[j]) {
                return false;
            }
            if left == right {
                (i, j, left, right) = (i + 1, j + 1, 0, 0);
            } else if left % right == 0 {
                (j, left, right) = (j + 1, left / right, 0);
            } else if right % left == 0 {
                (i, right, left) = (i + 1, right / left, 0);
            } else {
                return false;
            }
        }
    }

    fn align(&mut self, a: &[ClassId], b: &[ClassId]) -> bool {
        let (mut a, mut b): (Vec<ClassId>, Vec<ClassId>) = (a.to_vec(), b.to_vec());
        a.reverse();
        b.reverse();
        while let (Some(&x), Some(&y)) = (a.last(), b.last()) {
            let (x, y) = (self.find(x), self.find(y));
            let (large, small, list) =
                if self.size(x) >= self.size(y) { (x, y, &mut a) } else { (y, x, &mut b) };
            if self.size(large) == self.size(small) {
                if x != y && !self.union(x, y) {
                    return false;
                }
                a.pop();
                b.pop();
                continue;
            }
            let [major, minor] = self.split(large, self.size(small));
            list.pop();
            list.extend([minor, major]);
        }
        true
    }

    /// Splits a class into a major part of `size` iterations and the rest.
    fn split(&mut self, class: ClassId, size: i64) -> [ClassId; 2] {
        let rest = self.size(class) / size;
        let parts = [self.fresh(size), self.fresh(rest)];
        let others = self.interferes[class as usize].clone();
        for (index, part) in parts.into_iter().enumerate() {
            self.interferes[part as usize] = others.clone();
            self.interferes[part as usize].push(parts[1 - index]);
        }
        for other in others {
            let root = self.find(other);
            self.interferes[root as usize].extend_from_slice(&parts);
        }
        self.parts[class as usize] = Some(parts);
        parts
    }

    fn interfere(&self, a: ClassId, b: ClassId) -> bool {
        let (a, b) = (self.find(a), self.find(b));
        self.interferes[a as usize].iter().any(|&other| self.find(other) == b)
    }

    fn union(&mut self, a: ClassId, b: ClassId) -> bool {
        if self.interfere(a, b) || self.interfere(b, a) {
            return false;
        }
        let (keep, gone) = (a.min(b), a.max(b));
        self.parent[gone as usize] = keep;
        let mut all: Vec<ClassId> = self.interferes[keep as usize]
            .iter()
            .chain(&self.interferes[gone as usize])
            .map(|&other| self.find(other))
            .collect();
        all.sort_unstable();
        all.dedup();
        self.interferes[keep as usize] = all.into_iter().collect();
        true
    }
}

/// A tensor map of a rule in the classes that its factors were given.
pub fn class_map(map: &TensorMap, classes: &[ClassId]) -> ClassMap {
    map.iter().map(|dim| dim.iter().map(|&factor| classes[factor as usize]).collect()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn map(dims: &[&[ClassId]]) -> ClassMap {
        dims.iter().map(|dim| dim.iter().copied().collect()).collect()
    }

    #[test]
    fn a_reshape_splits_the_class_it_refines() {
        let mut classes = Classes::default();
        let whole = classes.fresh(32);
        let parts = classes.fresh_node([4, 8].into_iter());
        assert!(classes.unify(&map(&[&[whole]]), &map(&[&parts])));
        assert_eq!(classes.resolve(&map(&[&[whole]])), classes.resolve(&map(&[&parts])));
    }

    #[test]
    fn two_loops_of_one_node_never_become_one() {
        let mut classes = Classes::default();
        let seq = classes.fresh(8);
        let scores = classes.fresh_node([8, 8].into_iter());
        assert!(classes.unify(&map(&[&[seq]]), &map(&[&[scores[0]]])));
        assert!(!classes.unify(&map(&[&[seq]]), &map(&[&[scores[1]]])));
    }

    #[test]
    fn sizes_without_a_common_factor_do_not_align() {
        let mut classes = Classes::default();
        let (a, b) = (classes.fresh_node([6, 4].into_iter()), classes.fresh_node([8, 3].into_iter()));
        assert!(!classes.unify(&map(&[&a]), &map(&[&b])));
    }
}
