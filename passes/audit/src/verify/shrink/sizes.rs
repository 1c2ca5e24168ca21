//! The new size of every class: the smallest that the layouts divide.

use super::cuts::Cut;
use super::ends::gcd;
use super::ties::{Place, Ties};
use phzc_analysis::classes::ClassId;
use phzc_ir::{CompId, InstrId};
use smallvec::SmallVec;

/// Sizes per class; only unsplit representatives count.
pub struct Sizes {
    least: i64,
    cuts: Vec<Cut>,
    is_fixed: Vec<bool>,
}

impl Sizes {
    /// Sizes that divide as `cut` asks for.
    pub fn new(ties: &Ties, cut: impl Fn(Place) -> Cut, least: i64) -> Sizes {
        let n_classes = ties.classes.n_classes();
        let mut sizes = Sizes {
            least: least.max(2),
            cuts: vec![Cut::default(); n_classes],
            is_fixed: vec![false; n_classes],
        };
        ties.fixed.iter().for_each(|&class| {
            sizes.fix(ties, class);
        });
        for [a, b] in &ties.moving {
            // A dimension of several loops has no number of elements that it could lose.
            if [a, b].into_iter().any(|loops| unsplit(ties, loops).len() != 1) {
                a.iter().chain(b).for_each(|&class| {
                    sizes.fix(ties, class);
                });
            }
        }
        for program in 0..ties.programs.len() {
            for (comp, instr) in ties.instrs(program) {
                for (leaf, map) in ties.leaves(program, comp, instr).iter().enumerate() {
                    for (dim, loops) in map.iter().enumerate() {
                        let wanted = cut(Place { program, comp, instr, leaf, dim });
                        sizes.divide(ties, loops, wanted);
                    }
                }
            }
        }
        sizes
    }

    /// The sizes as things stand.
    pub fn settle(&self, ties: &Ties) -> Settled {
        let mut new: Vec<i64> =
            (0..self.cuts.len() as ClassId).map(|class| self.class(ties, class)).collect();
        for group in moving_groups(ties) {
            let shorter = self.shorter(ties, &group);
            for class in group {
                new[class as usize] = ties.classes.size(class) - shorter;
            }
        }
        Settled(new)
    }

    /// Keeps the sizes of an instruction and of all it reads; whether that is new.
    pub fn keep(&mut self, ties: &Ties, program: usize, (comp, id): (CompId, InstrId)) -> bool {
        if ties.values[program][comp.index()].is_empty() {
            return false;
        }
        let instr = ties.programs[program].comp(comp).instr(id);
        let mut is_new = false;
        for &value in instr.operands.iter().chain([&id]) {
            for &class in ties.leaves(program, comp, value).iter().flatten().flatten() {
                is_new |= self.fix(ties, class);
            }
        }
        is_new
    }

    /// The smallest size from `least` on that divides as asked, if it is below the old one.
    fn class(&self, ties: &Ties, class: ClassId) -> i64 {
        let (old, cut) = (ties.classes.size(class), self.cuts[class as usize]);
        if self.is_fixed[class as usize] || old <= self.least {
            return old;
        }
        let wanted = cut.tiles.checked_mul(cut.parts);
        let new = wanted.and_then(|divisor| ((self.least + divisor - 1) / divisor).checked_mul(divisor));
        new.map_or(old, |new| new.min(old))
    }

    /// By how much all classes of a group can get shorter.
    fn shorter(&self, ties: &Ties, group: &[ClassId]) -> i64 {
        let most = |&class: &ClassId| match self.is_fixed[class as usize] {
            true => 0,
            false => (ties.classes.size(class) - self.least).max(0),
        };
        let fits = |by: &i64| {
            group.iter().all(|&class| {
                let Cut { tiles, parts } = self.cuts[class as usize];
                (ties.classes.size(class) - by) % tiles.saturating_mul(parts) == 0
            })
        };
        (0..=group.iter().map(most).min().unwrap_or(0)).rev().find(fits).unwrap_or(0)
    }

    fn fix(&mut self, ties: &Ties, class: ClassId) -> bool {
        let mut is_new = false;
        for class in unsplit(ties, &[class]) {
            is_new |= !std::mem::replace(&mut self.is_fixed[class as usize], true);
        }
        is_new
    }

    /// Layouts split the major part of a dimension: its outermost loop takes the tiles, the next what it
    /// cannot.
    fn divide(&mut self, ties: &Ties, loops: &[ClassId], cut: Cut) {
        if cut == Cut::default() {
            return;
        }
        let Cut { mut tiles, mut parts } = cut;
        for class in unsplit(ties, loops) {
            let (size, all) = (ties.classes.size(class), tiles.saturating_mul(parts));
            if size % all == 0 {
                let own = Cut { tiles, parts };
                self.cuts[class as usize] = self.cuts[class as usize].and(own);
                return;
            }
            self.fix(ties, class);
            (tiles, parts) = (all / gcd(size, all), 1);
        }
    }
}

/// The new size per class.
pub struct Settled(Vec<i64>);

impl Settled {
    /// The new size of a dimension of these classes.
    pub fn of(&self, ties: &Ties, loops: &[ClassId]) -> i64 {
        unsplit(ties, loops).iter().map(|&class| self.0[class as usize]).product()
    }
}

/// Classes that get shorter together.
fn moving_groups(ties: &Ties) -> Vec<Vec<ClassId>> {
    let mut groups: Vec<Vec<ClassId>> = Vec::new();
    for [a, b] in &ties.moving {
        let mut joined: Vec<ClassId> = unsplit(ties, a).into_iter().chain(unsplit(ties, b)).collect();
        let is_met = |group: &mut Vec<ClassId>| group.iter().any(|class| joined.contains(class));
        let met: Vec<Vec<ClassId>> = groups.extract_if(.., is_met).collect();
        joined.extend(met.into_iter().flatten());
        joined.sort_unstable();
        joined.dedup();
        groups.push(joined);
    }
    groups
}

/// The unsplit representatives of a dimension's classes, major to minor, without those of size 1.
fn unsplit(ties: &Ties, loops: &[ClassId]) -> SmallVec<[ClassId; 2]> {
    let mut found = SmallVec::new();
    loops.iter().for_each(|&class| ties.classes.leaves(class, &mut found));
    found
}
