//! What goes from a stage to one with another plan, on another mesh: sums are done where they are made, and a
//! value lands in the layout that is smallest of those which its reader's plan brings it through; what is
//! made of constants alone each stage makes for itself.

use super::expand::Writer;
use phzc_ir::{
    Attr, Instr, InstrId, Key, Layout, Opcode, Payload, Shape, Sharding, Tiling, TilingKind, Value, notes,
};
use phzc_plan::derive::{Phase, is_move};
use phzc_plan::partial;
use smallvec::SmallVec;

/// The notes of phases, in their order.
const PHASES: [Option<&str>; 4] = [None, Some("fwd"), Some("bwd"), Some("upd")];

impl Writer<'_> {
    /// What the plan's instruction `planned` is for a reader, if it comes from a stage with another plan.
    pub(super) fn received(
        &mut self,
        planned: InstrId,
        operand: Option<InstrId>,
        stage: usize,
    ) -> Option<InstrId> {
        if self.templates.len() == 1 {
            return None;
        }
        let chain = self.chain(planned, stage);
        let base = chain[0];
        let plain = self.plan(stage).plain[base.index()]?;
        let maker = operand.unwrap_or(self.short.whole_of[plain.index()]);
        let home = self.stages.of[maker.index()];
        if self.stages.plan_of[home] == self.stages.plan_of[stage] {
            return None;
        }
        if self.stages.is_free[maker.index()] {
            let own = self.cloned(maker, stage);
            return Some(chain[1..].iter().fold(own, |from, &step| self.movement(from, step, stage)));
        }
        Some(self.handed_on(maker, &chain, stage))
    }

    /// The movements of a stage's plan that lead to one of its instructions, from what they start with.
    fn chain(&self, planned: InstrId, stage: usize) -> Vec<InstrId> {
        let comp = self.plan(stage).comp;
        let before =
            |at: &InstrId| Some(*comp.instr(*at).operands.first()?).filter(|_| is_move(comp.instr(*at)));
        let is_added = |at: InstrId| self.plan(stage).plain[at.index()].is_none();
        let mut chain: Vec<InstrId> =
            std::iter::successors(Some(planned), |at| before(at).filter(|_| is_added(*at))).collect();
        chain.reverse();
        chain
    }

    /// Brings a value from its stage, and along what is left of its reader's movements.
    fn handed_on(&mut self, maker: InstrId, chain: &[InstrId], stage: usize) -> InstrId {
        let plan = self.plan(stage);
        let whole = (0..chain.len()).filter(|&at| !partial::is_noted(plan.comp.instr(chain[at])));
        // Of equally small ones the last: then less is left to do.
        let landing = whole.max_by_key(|&at| self.n_tiles(chain[at], stage));
        let is_array = matches!(self.whole.instr(maker).shape, Shape::Array(_));
        let Some(landing) = landing.filter(|_| is_array) else {
            self.is_legal = false;
            return self.map[maker.index()];
        };
        let tiling = single(self.plan(stage).comp.instr(chain[landing]));
        let from = self.summed(maker);
        // What only names values has no phase: it is brought no sooner than it is made.
        let made = self.out[from.index()].note(notes::PHASE);
        let wanted = self.whole.instr(self.reader).note(notes::PHASE).or(made).map(str::to_owned);
        let like = |phase: Option<&str>| movement(&self.out[from.index()], "send", phase, tiling.clone());
        // What has come before need not come again.
        let is_early = |phase: &Option<&str>| Phase::parse(*phase) <= Phase::parse(wanted.as_deref());
        let mut open = PHASES.into_iter().filter(is_early);
        let before = open.find_map(|phase| Some((self.made(from, &like(phase), stage)?, phase)));
        let (landed, phase) = match before {
            Some((landed, phase)) => (landed, phase.map(str::to_owned)),
            None => (self.moved(from, &like(wanted.as_deref()), stage, None), wanted),
        };
        let after = &chain[landing + 1..];
        after.iter().fold(landed, |from, &step| self.movement_in(phase.as_deref(), from, step, stage))
    }

    /// A movement like the plan's, no sooner than in a phase.
    fn movement_in(&mut self, phase: Option<&str>, from: InstrId, planned: InstrId, stage: usize) -> InstrId {
        let mut like = self.plan(stage).comp.instr(planned).clone();
        if let Some(phase) =
            phase.filter(|&phase| Phase::parse(like.note(notes::PHASE)) < Phase::parse(Some(phase)))
        {
            like.set_note(notes::PHASE, phase);
        }
        self.moved(from, &like, stage, Some(planned))
    }

    /// Among how many devices of a stage a value is divided.
    fn n_tiles(&self, planned: InstrId, stage: usize) -> i64 {
        let plan = self.plan(stage);
        let instr = plan.comp.instr(planned);
        let rank = instr.shape.as_array().map_or(0, |array| array.rank());
        let layout = Layout::from_tiling(&single(instr), rank, &plan.mesh);
        layout.map_or(1, |layout| layout.n_tiles(&plan.mesh))
    }

    /// A value in its own stage, no sum that is still to be done: as the stage's plan brings it to its
    /// reader, or reduced where it lies.
    fn summed(&mut self, maker: InstrId) -> InstrId {
        let (from, home) = (self.map[maker.index()], self.stages.of[maker.index()]);
        if !partial::is_noted(&self.out[from.index()]) {
            return from;
        }
        if let Some(steps) = self.own_sum(maker, home) {
            return steps.into_iter().fold(from, |from, step| self.movement(from, step, home));
        }
        let own = &self.out[from.index()];
        let like = movement(own, "all-reduce", own.note(notes::PHASE), single(own));
        self.moved(from, &like, home, None)
    }

    /// The movements with which the plan of a value's stage does its sum for the reader that is being
    /// written.
    fn own_sum(&self, maker: InstrId, home: usize) -> Option<Vec<InstrId>> {
        let at = self.whole.instr(self.reader).operands.iter().position(|&operand| operand == maker)?;
        let planned = self.planned(self.reader, maker, home).operands[at];
        let chain = self.chain(planned, home);
        let comp = self.plan(home).comp;
        let is_own = self.plan(home).plain[chain[0].index()].is_some();
        let done = (1..chain.len()).find(|&at| !partial::is_noted(comp.instr(chain[at])))?;
        is_own.then(|| chain[1..=done].to_vec())
    }

    /// What a stage makes for itself of constants alone.
    fn cloned(&mut self, maker: InstrId, stage: usize) -> InstrId {
        if let Some(&made) = self.clones.get(&(maker, stage)) {
            return made;
        }
        let instr = self.whole.instr(maker);
        let (mut new, like) = self.like(maker, instr, stage);
        new.name = self.names.derive(&instr.name, &format!("s{stage}"));
        new.set_note(notes::REMADE, &instr.name);
        let made = self.push(new, stage, Some(like));
        self.clones.insert((maker, stage), made);
        made
    }
}

/// The layout of an array; whole if it has none.
fn single(instr: &Instr) -> Tiling {
    match instr.sharding() {
        Some(Sharding::Single(tiling)) => tiling.clone(),
        _ => Tiling { kind: TilingKind::Replicated, suffix: None },
    }
}

/// A movement of a value to a layout.
fn movement(source: &Instr, kind: &str, phase: Option<&str>, tiling: Tiling) -> Instr {
    let attrs = vec![
        Attr { key: Key::CustomCallTarget, value: Value::Str("Sharding".into()) },
        Attr { key: Key::Sharding, value: Value::Sharding(Box::new(Sharding::Single(tiling))) },
    ];
    let mut instr = Instr {
        name: source.name.clone(),
        op: Opcode::CustomCall,
        operands: SmallVec::new(),
        shape: source.shape.clone(),
        payload: Payload::None,
        attrs,
        span: source.span,
    };
    phase.into_iter().for_each(|phase| instr.set_note(notes::PHASE, phase));
    instr.set_note(notes::MOVE, kind);
    instr
}
