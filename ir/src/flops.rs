//! What a whole program costs: the work of one instruction, of computations, of a module.
//!
//! Conventions are those of XLA's `HloCostAnalysis`, but loops can be counted with their trip counts, a
//! custom call counts what its kernel's line says, and of a conditional the costliest branch, per quantity.

use crate::attr::{Key, Value};
use crate::fusion::FusionKind;
use crate::module::{CompId, Computation, Instr, InstrId, Module};
use crate::opcode::Opcode;
use crate::ops::window::scan_work;
use crate::shape::Shape;
use crate::trip::trip_count;
use crate::view::View;
use crate::work::Work;
use smallvec::SmallVec;

/// How often a loop's body counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Runs {
    /// Once, as XLA counts.
    Once,
    /// As often as it runs; once where that is unknown.
    Trips,
}

/// A module's work.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Totals {
    /// Every loop body counted once, as XLA does.
    pub once: Work,
    /// Every loop body counted as often as it runs.
    pub with_trips: Work,
    /// FLOPs of contractions, loop bodies once.
    pub dot_conv_once: f64,
    /// FLOPs of contractions with trip counts.
    pub dot_conv_with_trips: f64,
    /// Loops whose trip count is not known; they are counted once.
    pub unknown_trips: Vec<Box<str>>,
}

/// Loops longer than this are counted as this long, so that nested ones stay finite.
const MAX_RUNS: f64 = 1e18;

/// Whether the op contracts two arrays: the ops that parallel blocks grow from.
pub fn is_contraction(op: Opcode) -> bool {
    op.def().fusion == FusionKind::Matrix
}

/// FLOPs, transcendentals and bytes of one instruction, without what it calls (see [`multiplicities`]).
pub fn work(view: &View) -> Work {
    Work { bytes: bytes(view), ..(view.instr.op.def().work)(view) }
}

/// FLOPs and transcendentals of one instruction as it runs: those that XLA counts, but of scans.
pub fn executed(view: &View) -> Work {
    scan_work(view).unwrap_or_else(|| (view.instr.op.def().work)(view))
}

/// Bytes read and written: operands and result, or what a slice or a look-up touches of them.
pub fn bytes(view: &View) -> f64 {
    let operand = |index: usize| view.operand_shape(index).map_or(0.0, Shape::bytes);
    let from = |first: usize| (first..view.n_operands()).map(operand).sum::<f64>();
    let result = view.instr.shape.bytes();
    match view.instr.op {
        op if is_free(op) => 0.0,
        Opcode::Slice => 2.0 * result,
        Opcode::DynamicSlice | Opcode::Gather => 2.0 * result + from(1),
        Opcode::DynamicUpdateSlice => 2.0 * operand(1) + from(2),
        Opcode::Scatter => {
            let n_arrays = view.n_operands() / 2;
            operand(n_arrays) + 3.0 * from(n_arrays + 1)
        }
        _ => from(0) + result,
    }
}

/// Ops that touch no element themselves.
fn is_free(op: Opcode) -> bool {
    use Opcode::*;
    matches!(
        op,
        Parameter
            | Constant
            | Tuple
            | GetTupleElement
            | Bitcast
            | AfterAll
            | AddDependency
            | OptBarrier
            | Domain
            | While
            | Call
            | Conditional
            | AsyncStart
            | AsyncUpdate
            | AsyncDone
    )
}

/// A computation that an instruction runs, and what it is to it.
#[derive(Clone, Copy, PartialEq)]
enum Role {
    /// Once.
    Called,
    /// Once, without memory traffic of its own.
    Fused,
    /// A loop's body.
    Body,
    /// A loop's condition: once more than the body.
    Condition,
    /// Perhaps.
    Branch,
}

/// The computations that control passes through; those applied to scalars belong to the op's own work.
fn entered(instr: &Instr) -> SmallVec<[(CompId, Role); 2]> {
    let mut found = SmallVec::new();
    for attr in &instr.attrs {
        let role = match (instr.op, &attr.key) {
            (Opcode::Call, Key::ToApply) => Role::Called,
            (Opcode::Fusion, Key::Calls) => Role::Fused,
            (Opcode::AsyncStart, Key::Calls) => Role::Called,
            (Opcode::While, Key::Body) => Role::Body,
            (Opcode::While, Key::Condition) => Role::Condition,
            (Opcode::Conditional, Key::BranchComputations | Key::TrueComputation | Key::FalseComputation) => {
                Role::Branch
            }
            _ => continue,
        };
        match &attr.value {
            Value::Comp(comp) => found.push((*comp, role)),
            Value::Comps(comps) => found.extend(comps.iter().map(|&comp| (comp, role))),
            _ => {}
        }
    }
    found
}

/// How often a loop's body runs, if this is a loop.
fn runs(module: &Module, comp: CompId, id: InstrId, mode: Runs) -> (f64, bool) {
    if mode == Runs::Once {
        return (1.0, true);
    }
    match trip_count(module, comp, id) {
        Some(count) => ((count as f64).min(MAX_RUNS), true),
        None => (1.0, false),
    }
}

/// How often each computation runs per run of the program, through calls, fusions, loops and branches.
///
/// Every branch of a conditional counts as taken. Computations that ops apply to scalars count 0: they
/// are part of those ops' own work.
pub fn multiplicities(module: &Module, mode: Runs) -> Vec<f64> {
    let mut times = vec![0.0f64; module.comps.len()];
    times[module.entry.index()] = 1.0;
    for index in (0..module.comps.len()).rev() {
        if times[index] == 0.0 {
            continue;
        }
        let comp = CompId::new(index);
        for (id, instr) in module.comps[index].iter() {
            for (callee, role) in entered(instr) {
                let factor = match role {
                    Role::Body => runs(module, comp, id, mode).0,
                    Role::Condition if mode == Runs::Trips => runs(module, comp, id, mode).0 + 1.0,
                    _ => 1.0,
                };
                let total = times[callee.index()] + times[index] * factor;
                times[callee.index()] = total.min(MAX_RUNS);
            }
        }
    }
    times
}

/// Work of a computation, with what it calls.
#[derive(Clone, Copy, Default)]
struct Sum {
    work: Work,
    contractions: f64,
}

impl Sum {
    fn add(&mut self, other: Sum, times: f64) {
        self.work += other.work * times;
        self.contractions += other.contractions * times;
    }

    /// The larger of each quantity.
    fn max(self, other: Sum) -> Sum {
        let (a, b) = (self.work, other.work);
        let work = a.max(b);
        Sum { work, contractions: self.contractions.max(other.contractions) }
    }
}

/// A verified module's work.
pub fn totals(module: &Module) -> Totals {
    let mut unknown_trips = Vec::new();
    let once = sum(module, Runs::Once, &mut unknown_trips);
    let with_trips = sum(module, Runs::Trips, &mut unknown_trips);
    Totals {
        once: once.work,
        with_trips: with_trips.work,
        dot_conv_once: once.contractions,
        dot_conv_with_trips: with_trips.contractions,
        unknown_trips,
    }
}

/// Callees come first, so every computation is summed once.
fn sum(module: &Module, mode: Runs, unknown: &mut Vec<Box<str>>) -> Sum {
    let reached = multiplicities(module, Runs::Once);
    let mut sums = vec![Sum::default(); module.comps.len()];
    for index in 0..module.comps.len() {
        if reached[index] == 0.0 {
            continue;
        }
        let comp = CompId::new(index);
        let mut total = Sum::default();
        for (id, instr) in module.comps[index].iter() {
            let own = work(&View::new(module, comp, id));
            let contractions = if is_contraction(instr.op) { own.flops } else { own.products };
            total.add(Sum { work: own, contractions }, 1.0);
            let (times, is_known) =
                if instr.op == Opcode::While { runs(module, comp, id, mode) } else { (1.0, true) };
            if !is_known {
                unknown.push(instr.name.clone());
            }
            enter(&mut total, &entered(instr), times, mode, |callee| sums[callee.index()]);
        }
        sums[index] = total;
    }
    sums[module.entry.index()]
}

fn enter(
    total: &mut Sum,
    entered: &[(CompId, Role)],
    times: f64,
    mode: Runs,
    sum_of: impl Fn(CompId) -> Sum,
) {
    let mut branches = Sum::default();
    for &(callee, role) in entered {
        let sum = sum_of(callee);
        match role {
            Role::Called => total.add(sum, 1.0),
            Role::Fused => total.add(Sum { work: Work { bytes: 0.0, ..sum.work }, ..sum }, 1.0),
            Role::Body => total.add(sum, times),
            Role::Condition => total.add(sum, if mode == Runs::Trips { times + 1.0 } else { 1.0 }),
            Role::Branch => branches = branches.max(sum),
        }
    }
    total.add(branches, 1.0);
}

/// FLOPs and transcendentals of a computation that an op applies to scalars.
///
/// Verified modules keep such computations small and shallow, so plain recursion does.
pub(crate) fn of_comp(comps: &[Computation], id: CompId) -> Work {
    let Some(comp) = comps.get(id.index()) else { return Work::default() };
    let mut total = Sum::default();
    for instr in &comp.instrs {
        let own = (instr.op.def().work)(&View { comps, instrs: &comp.instrs, instr });
        total.add(Sum { work: own, contractions: 0.0 }, 1.0);
        let callees = entered(instr);
        enter(&mut total, &callees, 1.0, Runs::Once, |callee| Sum {
            work: of_comp(comps, callee),
            contractions: 0.0,
        });
    }
    total.work
}

#[cfg(test)]
mod tests {
    use super::*;

    const PROGRAM: &str = "
        sum { a = f32[] parameter(0) b = f32[] parameter(1) ROOT c = f32[] add(a, b) }
        exp { a = f32[4,4] parameter(0) ROOT b = f32[4,4] exponential(a) }
        neg { a = f32[4,4] parameter(0) ROOT b = f32[4,4] negate(a) }
        body {
            t = (s32[], f32[4,4]) parameter(0)
            i = s32[] get-tuple-element(t), index=0
            x = f32[4,4] get-tuple-element(t), index=1
            one = s32[] constant(1)
            j = s32[] add(i, one)
            y = f32[4,4] dot(x, x), lhs_contracting_dims={1}, rhs_contracting_dims={0}
            z = f32[4,4] fusion(y), kind=kLoop, calls=exp
            ROOT r = (s32[], f32[4,4]) tuple(j, z)
        }
        cond {
            t = (s32[], f32[4,4]) parameter(0)
            i = s32[] get-tuple-element(t), index=0
            n = s32[] constant(5)
            ROOT c = pred[] compare(i, n), direction=LT
        }
        ENTRY e {
            x = f32[4,4] parameter(0)
            p = pred[] parameter(1)
            zero = s32[] constant(0)
            start = f32[] constant(0)
            t = (s32[], f32[4,4]) tuple(zero, x)
            w = (s32[], f32[4,4]) while(t), condition=cond, body=body
            y = f32[4,4] get-tuple-element(w), index=1
            z = f32[4,4] conditional(p, y, y), true_computation=exp, false_computation=neg
            ROOT s = f32[] reduce(z, start), dimensions={0,1}, to_apply=sum
        }";

    fn module() -> Module {
        crate::parse(PROGRAM).unwrap_or_else(|error| panic!("{error}"))
    }

    #[test]
    fn loops_count_once_or_as_often_as_they_run() {
        let found = totals(&module());
        // Dot, step, condition, the branch of 16 FLOPs, the reduction.
        assert_eq!(found.once.flops, 128.0 + 1.0 + 1.0 + 16.0 + 15.0);
        assert_eq!(found.with_trips.flops, 5.0 * 129.0 + 6.0 + 16.0 + 15.0);
        assert_eq!((found.once.transcendentals, found.with_trips.transcendentals), (32.0, 96.0));
        assert_eq!((found.dot_conv_once, found.dot_conv_with_trips), (128.0, 640.0));
        assert!(found.unknown_trips.is_empty());
    }

    #[test]
    fn a_fusion_moves_only_operands_and_result() {
        let found = totals(&module());
        let (matrix, dot) = (64.0, 192.0);
        let body = dot + 2.0 * matrix + 12.0;
        assert_eq!(found.once.bytes, body + 9.0 + 2.0 * matrix + (matrix + 8.0));
    }

    #[test]
    fn computations_run_as_often_as_they_are_entered() {
        let module = module();
        let runs = |mode| -> Vec<(String, f64)> {
            let names = module.comps.iter().map(|comp| comp.name.to_string());
            names.zip(multiplicities(&module, mode)).collect()
        };
        let expect = |counts: [f64; 6]| -> Vec<(String, f64)> {
            ["sum", "exp", "neg", "body", "cond", "e"]
                .iter()
                .map(|name| name.to_string())
                .zip(counts)
                .collect()
        };
        assert_eq!(runs(Runs::Once), expect([0.0, 2.0, 1.0, 1.0, 1.0, 1.0]));
        assert_eq!(runs(Runs::Trips), expect([0.0, 6.0, 1.0, 5.0, 6.0, 1.0]));
    }

    #[test]
    fn slices_and_updates_move_what_they_touch() {
        let moved = |body: &str| crate::ops::check::with_root(body, bytes);
        assert_eq!(moved("x: f32[9]; ROOT y = f32[2] slice(x), slice={[0:2]}"), 2.0 * 8.0);
        assert_eq!(
            moved("x: f32[9]; i: s32[]; ROOT y = f32[2] dynamic-slice(x, i), dynamic_slice_sizes={2}"),
            2.0 * 8.0 + 4.0
        );
        assert_eq!(
            moved("x: f32[9]; u: f32[2]; i: s32[]; ROOT y = f32[9] dynamic-update-slice(x, u, i)"),
            2.0 * 8.0 + 4.0
        );
        let scatter = "x: f32[9]; i: s32[2,1]; u: f32[2]; ROOT y = f32[9] scatter(x, i, u), to_apply=add, update_window_dims={}, inserted_window_dims={0}, scatter_dims_to_operand_dims={0}, index_vector_dim=1";
        assert_eq!(moved(scatter), 8.0 + 3.0 * 8.0);
        assert_eq!(moved("x: f32[9]; y: f32[9]; ROOT z = f32[9] add(x, y)"), 3.0 * 36.0);
        assert_eq!(moved("x: f32[9]; y: f32[9]; ROOT z = (f32[9], f32[9]) tuple(x, y)"), 0.0);
    }

    #[test]
    fn calls_count_each_time_and_of_branches_the_costliest() {
        let text = "
            f { a = f32[4] parameter(0) ROOT b = f32[4] negate(a) }
            g { a = f32[4] parameter(0) b = f32[4] call(a), to_apply=f ROOT c = f32[4] call(b), to_apply=f }
            ENTRY e {
                x = f32[4] parameter(0)
                n = s32[] parameter(1)
                y = f32[4] call(x), to_apply=g
                ROOT z = f32[4] conditional(n, y, y), branch_computations={f, g}
            }";
        let module = crate::parse(text).expect("legal");
        assert_eq!(totals(&module).once.flops, 8.0 + 8.0);
        assert_eq!(multiplicities(&module, Runs::Once), [5.0, 2.0, 1.0]);
    }

    #[test]
    fn a_loop_s_counter_is_exact_where_it_starts_at_a_constant() {
        let of = |text: &str| {
            let module = crate::parse(text).unwrap_or_else(|error| panic!("{error}"));
            let at =
                module.entry().instrs.iter().position(|instr| instr.op == Opcode::While).expect("a loop");
            crate::trip::counter(&module, module.entry, InstrId::new(at))
        };
        let counter = crate::trip::Counter { element: 0, start: 0, step: 1, n_trips: 5 };
        assert_eq!(of(PROGRAM), Some(counter));
        assert_eq!(of(&PROGRAM.replace("zero = s32[] constant(0)", "zero = s32[] parameter(2)")), None);
    }
}
