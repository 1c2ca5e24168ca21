//! The root of an expanded program: every result as the plan of its stage hands it over.

use super::{Writer, take};
use indexmap::IndexMap;
use phzc_ir::{Instr, InstrId, Key, Opcode, Sharding, Tiling, TilingKind, Value};
use phzc_plan::partial;
use rustc_hash::FxBuildHasher;
use std::ops::Range;

impl Writer<'_> {
    /// The root hands all results over, each as that which stands for it is, in the plan of its own stage.
    pub(super) fn root(&mut self, mut new: Instr, stage: usize) -> Instr {
        let roots: Vec<Root> = self.templates.iter().map(|plan| Root::new(plan.comp.root())).collect();
        let places = self.root_places();
        let (mut tilings, mut partials) = (Vec::new(), Vec::new());
        let operands: Vec<InstrId> = new.operands.to_vec();
        for (at, operand) in operands.into_iter().enumerate() {
            // A new parameter is brought where the old one lies, which is the stage that makes it.
            let home = self.stages.of[operand.index()];
            let own = &roots[self.stages.plan_of[home]];
            new.operands[at] = self.value(own.instr.operands[places[at]], Some(operand), home);
            let leaves = own.leaves(places[at]);
            let tiling =
                |leaf: usize| own.tilings.get(leaf).map_or_else(replicated, |tiling| (*tiling).clone());
            tilings.extend(leaves.clone().map(tiling));
            partials.extend_from_slice(&own.sums[leaves]);
        }
        take(&mut new, self.plan(stage).comp.root());
        new.set_attr(Key::Sharding, Value::Sharding(Box::new(Sharding::Tuple(tilings))));
        partial::set(&mut new, &partials);
        self.stages.note(&mut new, stage);
        new
    }

    /// The entry's root; where it is an array that the plan brings to another layout, the movement.
    pub(super) fn handed_over(&mut self) -> InstrId {
        let root = self.whole.root;
        let stage = self.stages.of[root.index()];
        match self.whole.root().op {
            Opcode::Tuple => self.map[root.index()],
            _ => self.value(self.plan(stage).comp.root, Some(root), stage),
        }
    }

    /// Per result of the whole program: which of the short one's stands for it.
    fn root_places(&self) -> Vec<usize> {
        let short = self.short;
        let mut place_of: IndexMap<InstrId, usize, FxBuildHasher> = IndexMap::default();
        let plain = short.module.entry().root().operands.iter().enumerate();
        plain.for_each(|(at, &operand)| *place_of.entry(operand).or_insert(at) += 0);
        let mut n_kept = 0;
        let place = |&operand: &InstrId| {
            if short.is_dropped(operand) {
                return place_of[&short.stands[operand.index()][1]];
            }
            n_kept += 1;
            n_kept - 1
        };
        self.whole.root().operands.iter().map(place).collect()
    }
}

/// The results of a plan.
struct Root<'a> {
    instr: &'a Instr,
    tilings: Vec<&'a Tiling>,
    sums: Vec<u8>,
}

impl<'a> Root<'a> {
    fn new(instr: &'a Instr) -> Root<'a> {
        let n_leaves = instr.shape.n_leaves();
        let tilings = instr.sharding().map(|sharding| sharding.leaves(n_leaves)).unwrap_or_default();
        let sums = partial::read(instr, n_leaves).expect("the plan's own note");
        Root { instr, tilings, sums }
    }

    /// The leaves of a result.
    fn leaves(&self, place: usize) -> Range<usize> {
        let start = self.instr.shape.part_starts()[place];
        start..start + self.instr.shape.parts()[place].n_leaves()
    }
}

fn replicated() -> Tiling {
    Tiling { kind: TilingKind::Replicated, suffix: None }
}
