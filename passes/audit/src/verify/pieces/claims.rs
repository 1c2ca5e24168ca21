//! What every value of a plan has to be: a value of the program, and the pieces to prove for it.
//!
//! ```text
//! program              plan                                          claims                     pieces
//! h = dot(x, w)        h = dot(x, w)                                 h is h                     h of x, w
//!                      h.gather = custom-call(h)    // a movement    h.gather is h              h.gather of h
//! y = tanh(h)          y = tanh(h.gather)                            y is y                     y of h
//! z = add(y, h)        h.copy = dot(x, w)           // recomputed    h.copy is h                h.copy of x, w
//!                      z = add(y, h.copy)                            z is z                     z of y, h
//! ```
//!
//! An instruction that computes what one of the program does, of values that are those of the program, has
//! its value; a movement has its operand's. What computes something else is to have the value that its name
//! has in the program; without a namesake it has no value and is a part of its readers' pieces. Each piece is
//! proven for all values of what it reads, so all claims follow from the pieces' proofs by induction over the
//! plan, loops included: their bodies start from values that are claimed, and return such.

use super::text::{Made, comp_texts, signature};
use super::values::{Values, is_view, needed};
use phzc_ir::ops::control::control_comps;
use phzc_ir::{CompId, Computation, Instr, InstrId, Module, Opcode, View};
use phzc_plan::derive::{Readers, is_move, is_naming, operand_origins, origins};

/// A computation of the plan and the one of the program that it stands for.
pub struct Pair {
    /// In the plan.
    pub plan: CompId,
    /// In the program.
    pub program: CompId,
    /// Per instruction and leaf of the plan: the program's value.
    claims: Vec<Vec<Option<Made>>>,
    /// Instructions that nothing but one movement reads: they are proven with it.
    inner: Vec<bool>,
    /// Instructions that are claimed to be their namesakes, though what they read differs.
    by_name: Vec<bool>,
}

/// A piece to prove.
pub struct Piece {
    /// Of which pair, by number.
    pub pair: usize,
    /// What the plan makes.
    pub made: Vec<Made>,
    /// What the program makes.
    pub wanted: Vec<Made>,
    /// Whether a name alone says that these are the same: what they read may differ.
    pub is_by_name: bool,
}

/// All claims.
#[derive(Default)]
pub struct Claims {
    /// Pairs of computations.
    pub pairs: Vec<Pair>,
    /// Pieces.
    pub pieces: Vec<Piece>,
}

impl Claims {
    /// The claims of a plan about a program with the same parameters and results.
    pub fn of(plan: &Module, program: &Values) -> Claims {
        let mut claimer = Claimer { plan, program, texts: comp_texts(plan), claims: Claims::default() };
        claimer.pair(plan.entry, program.module.entry);
        claimer.claims
    }

    /// The program's value that a leaf of an instruction of the plan is.
    pub fn claim(&self, pair: usize, (id, leaf): Made) -> Option<Made> {
        self.pairs[pair].claims[id.index()].get(leaf).copied().flatten()
    }
}

impl Pair {
    /// Whether an instruction of the plan is proven with the movement that alone reads it.
    pub fn is_inner(&self, id: InstrId) -> bool {
        self.inner[id.index()]
    }
}

struct Claimer<'a> {
    plan: &'a Module,
    program: &'a Values<'a>,
    texts: Vec<String>,
    claims: Claims,
}

impl Claimer<'_> {
    fn pair(&mut self, plan: CompId, program: CompId) {
        let comp = self.plan.comp(plan);
        let (needed, inner) = (needed(comp), inner(comp));
        let number = self.claims.pairs.len();
        let by_name = vec![false; inner.len()];
        self.claims.pairs.push(Pair { plan, program, claims: Vec::new(), inner, by_name });
        for (id, instr) in comp.iter() {
            let found = match needed[id.index()] && !is_naming(instr) {
                true => self.instr(number, id, instr),
                false => vec![None; instr.shape.n_leaves()],
            };
            self.claims.pairs[number].claims.push(found);
        }
        let root = self.program.module.comp(program).root;
        let wanted = (0..comp.root().shape.n_leaves()).map(|leaf| self.program.value(program, root, leaf));
        self.demand(number, &origins(comp, comp.root), &wanted.collect::<Vec<_>>());
    }

    fn instr(&mut self, pair: usize, id: InstrId, instr: &Instr) -> Vec<Option<Made>> {
        let Pair { plan, program, .. } = self.claims.pairs[pair];
        let comp = self.plan.comp(plan);
        let read: Vec<Made> = operand_origins(comp, instr).collect();
        let claimed: Vec<Option<Made>> = read.iter().map(|&made| self.claims.claim(pair, made)).collect();
        let operands: Option<Vec<Made>> = claimed.iter().copied().collect();
        match instr.op {
            Opcode::Parameter => self.param(program, instr),
            _ if !control_comps(instr).is_empty() => self.control(pair, instr, &read, operands.as_deref()),
            _ if is_move(instr) => {
                if let ([Some(wanted)], [(maker, _)]) = (&claimed[..], &read[..]) {
                    let own = &mut self.claims.pairs[pair];
                    let is_by_name = own.inner[maker.index()] && own.by_name[maker.index()];
                    own.by_name[id.index()] = is_by_name;
                    self.piece(pair, vec![(id, 0)], vec![*wanted], is_by_name);
                }
                claimed
            }
            _ => self.op(pair, id, instr, operands.as_deref()),
        }
    }

    fn param(&self, program: CompId, instr: &Instr) -> Vec<Option<Made>> {
        let module = self.program.module;
        let params = module.comp(program).params();
        let twin = params.get(instr.param_number().unwrap_or_default() as usize);
        let twin = twin.filter(|&&id| module.comp(program).instr(id).shape.same_type(&instr.shape));
        self.leaves(program, twin.copied(), instr)
    }

    fn leaves(&self, program: CompId, id: Option<InstrId>, instr: &Instr) -> Vec<Option<Made>> {
        let leaf = |leaf: usize| id.map(|id| self.program.value(program, id, leaf));
        (0..instr.shape.n_leaves()).map(leaf).collect()
    }

    fn op(
        &mut self,
        pair: usize,
        id: InstrId,
        instr: &Instr,
        operands: Option<&[Made]>,
    ) -> Vec<Option<Made>> {
        let program = self.claims.pairs[pair].program;
        let plan = self.claims.pairs[pair].plan;
        let shape = instr.shape.as_array().filter(|_| is_view(&View::new(self.plan, plan, id)));
        let found = operands.and_then(|operands| match shape {
            Some(shape) => Some(vec![self.program.view_of(program, operands[0], shape)?]),
            None => {
                let text = signature(self.plan, instr, &self.texts);
                let twin = self.program.find(program, &text, operands)?;
                Some((0..instr.shape.n_leaves()).map(|leaf| (twin, leaf)).collect())
            }
        });
        let claims: Vec<Option<Made>> = match &found {
            Some(found) => found.iter().copied().map(Some).collect(),
            None => self.leaves(program, self.namesake(program, instr), instr),
        };
        if let Some(wanted) = claims.iter().copied().collect::<Option<Vec<Made>>>() {
            let made = (0..wanted.len()).map(|leaf| (id, leaf)).collect();
            self.claims.pairs[pair].by_name[id.index()] = found.is_none();
            self.piece(pair, made, wanted, found.is_none());
        }
        claims
    }

    fn namesake(&self, program: CompId, instr: &Instr) -> Option<InstrId> {
        let id = self.program.named(program, &instr.name)?;
        let twin = self.program.module.comp(program).instr(id);
        (twin.shape.same_type(&instr.shape) && !is_naming(twin)).then_some(id)
    }

    /// A loop or conditional is the program's if all that it starts from, runs and returns is.
    fn control(
        &mut self,
        pair: usize,
        instr: &Instr,
        read: &[Made],
        operands: Option<&[Made]>,
    ) -> Vec<Option<Made>> {
        let program = self.claims.pairs[pair].program;
        let comp = self.program.module.comp(program);
        let like = operands.map_or(&[][..], |operands| self.program.find_control(program, instr, operands));
        let is_namesake = |id: &InstrId| comp.instr(*id).name == instr.name;
        let found = like.iter().copied().find(is_namesake).or(like.first().copied());
        let fits = |id: &InstrId| comp.instr(*id).op == instr.op;
        let twin = found.or_else(|| self.namesake(program, instr).filter(fits));
        let Some(twin) = twin else { return vec![None; instr.shape.n_leaves()] };
        let wanted = self.program.operands(program, comp.instr(twin));
        let inner = control_comps(instr).into_iter().zip(control_comps(comp.instr(twin)));
        let inner: Vec<(CompId, CompId)> = inner.collect();
        if wanted.len() != read.len() || inner.len() != control_comps(instr).len() {
            return vec![None; instr.shape.n_leaves()];
        }
        self.demand(pair, read, &wanted);
        inner.into_iter().for_each(|(plan, program)| self.pair(plan, program));
        self.leaves(program, Some(twin), instr)
    }

    /// Pieces for what a plan hands over, unless it claims to be what is wanted anyway.
    fn demand(&mut self, pair: usize, made: &[Made], wanted: &[Made]) {
        for (&made, &wanted) in made.iter().zip(wanted) {
            if self.claims.claim(pair, made) != Some(wanted) {
                self.claims.pieces.push(Piece {
                    pair,
                    made: vec![made],
                    wanted: vec![wanted],
                    is_by_name: true,
                });
            }
        }
    }

    fn piece(&mut self, pair: usize, made: Vec<Made>, wanted: Vec<Made>, is_by_name: bool) {
        if made.iter().all(|&(id, _)| !self.claims.pairs[pair].is_inner(id)) {
            self.claims.pieces.push(Piece { pair, made, wanted, is_by_name });
        }
    }
}

/// What nothing but one movement reads, loops and parameters aside.
fn inner(comp: &Computation) -> Vec<bool> {
    let readers = Readers::of(comp);
    let is_inner = |(id, instr): (InstrId, &Instr)| {
        let is_made = instr.op != Opcode::Parameter && !is_naming(instr) && control_comps(instr).is_empty();
        let only = readers.only(id);
        is_made && only.is_some_and(|reader| reader != id && is_move(comp.instr(reader)))
    };
    comp.iter().map(is_inner).collect()
}
