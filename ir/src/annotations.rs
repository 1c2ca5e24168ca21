//! Shardings that a program brings with it: whether they restrict a plan, and how they are taken out.
//!
//! JAX writes a constraint as a `Sharding` call, and one for every typed random key: without a mesh it says
//! nothing. XLA drops such calls when it partitions for one device.

mod outputs;

pub use outputs::constrain_outputs;

use crate::attr::{Key, Value};
use crate::module::{Computation, Instr, InstrId, Module};
use crate::opcode::Opcode;
use crate::sharding::{LastDims, Sharding, Tiling, TilingKind};
use smallvec::SmallVec;
use std::collections::BTreeSet;

/// The target of a call that constrains a value's sharding.
pub const CONSTRAINT: &str = "Sharding";

/// The note that keeps Shardy's own text of a sharding.
pub const SHARDY: &str = "xla.sdy.sharding";

/// The call by which Shardy's round trip through HLO marks a function's result.
const RESULT: &str = "xla.sdy.FuncResultSharding";

/// Whether the instruction hands its operand on and says how it is sharded.
pub fn is_constraint(instr: &Instr) -> bool {
    let target = instr.word(Key::CustomCallTarget);
    instr.op == Opcode::CustomCall && instr.operands.len() == 1 && target == Some(CONSTRAINT)
}

/// The dimensions that a constraint leaves to the partitioner: GSPMD's
/// `backend_config="unspecified_dims=[0,1]"`, and `{?}` of Shardy's text.
pub fn open_dims(instr: &Instr) -> SmallVec<[usize; 4]> {
    if !is_constraint(instr) {
        return SmallVec::new();
    }
    if let Some(Value::Raw(config)) = instr.attr(Key::BackendConfig) {
        let list = config.split_once("unspecified_dims=[").and_then(|(_, rest)| rest.split_once(']'));
        if let Some((dims, _)) = list {
            return dims.split(',').filter_map(|dim| dim.trim().parse().ok()).collect();
        }
    }
    let dims = instr.note(SHARDY).and_then(|text| text.split_once(", [")).map_or("", |(_, dims)| dims);
    let groups = dims.split(']').next().unwrap_or_default().split('{').skip(1);
    let is_open = |group: &&str| group.split('}').next().is_some_and(|axes| axes.contains('?'));
    groups.enumerate().filter(|(_, group)| is_open(group)).map(|(dim, _)| dim).collect()
}

/// Whether Shardy's text names the mesh of no devices.
fn is_on_no_mesh(instr: &Instr) -> bool {
    instr.note(SHARDY).is_some_and(|text| text.contains("<@empty_mesh,"))
}

/// Takes out what restricts no plan: constraints of scalars, without a mesh or without a specified dimension,
/// shardings that say `{unknown}`, and the marks of a function's results, whose shardings the root has. Says
/// whether there were any.
pub fn drop_idle(module: &mut Module) -> bool {
    let has_mesh = has_mesh(module);
    let is_idle = |instr: &Instr| {
        let tilings = instr.sharding().map(|it| it.leaves(1)).unwrap_or_default();
        let rank = instr.shape.as_array().map_or(0, |array| array.dims.len());
        let open = open_dims(instr);
        let is_whole = tilings.iter().all(|it| it.kind == TilingKind::Replicated);
        let is_open = is_whole && rank > 0 && (0..rank).all(|dim| open.contains(&dim));
        let is_unknown = tilings.iter().any(|it| it.kind == TilingKind::Unknown);
        is_constraint(instr) && (rank == 0 || is_open || is_unknown || !has_mesh || is_on_no_mesh(instr))
    };
    let mut is_changed = false;
    for comp in &mut module.comps {
        is_changed |= bypass(comp, |instr| is_idle(instr) || is_result_mark(instr));
        for instr in comp.instrs.iter_mut().filter(|instr| instr.sharding().is_some_and(is_unknown)) {
            instr.attrs.retain(|attr| attr.key != Key::Sharding);
            is_changed = true;
        }
    }
    is_changed
}

/// Takes out the shardings of the instructions that `is_meant`, constraints with their calls. Says how many.
pub fn drop_shardings(module: &mut Module, is_meant: impl Fn(&Instr) -> bool) -> usize {
    let mut n_dropped = 0;
    for comp in &mut module.comps {
        let is_given = |instr: &Instr| {
            (instr.sharding().is_some() || is_constraint(instr) || instr.note(SHARDY).is_some())
                && !is_border(instr)
                && !instr.sharding().is_some_and(is_manual)
        };
        let meant: Vec<bool> = comp.instrs.iter().map(|instr| is_given(instr) && is_meant(instr)).collect();
        for (instr, _) in comp.instrs.iter_mut().zip(&meant).filter(|(_, is_meant)| **is_meant) {
            n_dropped += 1;
            instr.attrs.retain(|attr| attr.key != Key::Sharding);
            instr.remove_note(SHARDY);
        }
        let is_mark = |instr: &Instr| is_constraint(instr) || is_result_mark(instr);
        bypass(comp, |instr| is_mark(instr) && is_meant(instr) && !instr.sharding().is_some_and(is_manual));
    }
    n_dropped
}

/// Whether a sharding says nothing.
pub fn is_unknown(sharding: &Sharding) -> bool {
    matches!(sharding, Sharding::Single(tiling) if tiling.kind == TilingKind::Unknown)
}

/// Whether a value is one device's part already.
pub fn is_manual(sharding: &Sharding) -> bool {
    sharding.all().iter().any(|tiling| match &tiling.kind {
        TilingKind::Manual => true,
        TilingKind::Tiled(tiles) => match &tiles.last {
            LastDims::Types(types) => types.iter().any(|it| &**it == "manual"),
            _ => false,
        },
        _ => false,
    })
}

/// Whether the call changes between a whole array and one device's part: without its sharding it has no
/// meaning.
pub fn is_border(instr: &Instr) -> bool {
    let borders = ["SPMDFullToShardShape", "SPMDShardToFullShape"];
    let shardy = ["xla.sdy.GlobalToLocalShape", "xla.sdy.LocalToGlobalShape"];
    let target = instr.word(Key::CustomCallTarget).unwrap_or_default();
    instr.op == Opcode::CustomCall && borders.iter().chain(&shardy).any(|border| *border == target)
}

/// How many devices the program's shardings are over; none where none splits or places anything.
pub fn n_devices(module: &Module) -> Option<i64> {
    let of = |tiling: &Tiling| match &tiling.kind {
        TilingKind::Tiled(tiles) => tiles.n_devices(),
        _ => None,
    };
    shardings(module).flat_map(Sharding::all).filter_map(of).max()
}

/// Whether something is split or placed, or the program is for several partitions.
fn has_mesh(module: &Module) -> bool {
    let partitions = module.attr("num_partitions").and_then(|text| text.parse().ok()).unwrap_or(1i64);
    let says_nothing = |tiling: &&Tiling| {
        matches!(tiling.kind, TilingKind::Replicated | TilingKind::Unknown | TilingKind::Maximal(_))
    };
    partitions > 1 || !shardings(module).flat_map(Sharding::all).all(|tiling| says_nothing(&tiling))
}

fn shardings(module: &Module) -> impl Iterator<Item = &Sharding> {
    module.comps.iter().flat_map(|comp| &comp.instrs).filter_map(Instr::sharding)
}

fn is_result_mark(instr: &Instr) -> bool {
    let target = instr.word(Key::CustomCallTarget);
    instr.op == Opcode::CustomCall
        && instr.operands.len() == 1
        && target == Some(RESULT)
        && instr.sharding().is_none()
}

/// Makes the readers of the instructions that are `out` read their operands, and takes them out.
fn bypass(comp: &mut Computation, out: impl Fn(&Instr) -> bool) -> bool {
    let waited_for = comp.instrs.iter().flat_map(|instr| comp.control_predecessors(instr)).collect();
    let keep: Vec<bool> = comp.instrs.iter().map(|instr| !is_out(comp, instr, &waited_for, &out)).collect();
    if keep.iter().all(|&keep| keep) {
        return false;
    }
    let mut source: Vec<InstrId> = (0..keep.len()).map(InstrId::new).collect();
    for at in 0..keep.len() {
        let instr = &mut comp.instrs[at];
        instr.operands.iter_mut().for_each(|operand| *operand = source[operand.index()]);
        if !keep[at] {
            source[at] = instr.operands[0];
        }
    }
    comp.root = source[comp.root.index()];
    comp.retain(&keep);
    true
}

/// Whether an instruction can go: its operand has its shape, and nothing waits for it by name.
fn is_out(
    comp: &Computation,
    instr: &Instr,
    waited_for: &BTreeSet<&str>,
    out: impl Fn(&Instr) -> bool,
) -> bool {
    let is_alike = |id: &InstrId| comp.instr(*id).shape.same_type(&instr.shape);
    out(instr)
        && instr.operands.first().is_some_and(is_alike)
        && instr.attr(Key::ControlPredecessors).is_none()
        && !waited_for.contains(&*instr.name)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The names of what is left, with their operands' and whether they have a sharding.
    fn left(header: &str, lines: &str, edit: impl Fn(&mut Module)) -> Vec<String> {
        let mut module = crate::parse(&format!("HloModule m{header}\ne {{\n{lines}\n}}")).expect("legal");
        edit(&mut module);
        assert!(crate::verify(&module).is_empty());
        let line = |instr: &Instr| {
            let operands = instr.operands.iter().map(|&id| &*module.entry().instr(id).name);
            let mark = if instr.sharding().is_some() { "*" } else { "" };
            format!("{}{mark}({})", instr.name, operands.collect::<Vec<_>>().join(","))
        };
        module.entry().instrs.iter().map(line).collect()
    }

    fn without_idle(header: &str, lines: &str) -> Vec<String> {
        left(header, lines, |module| assert!(drop_idle(module) || module.n_instrs() == 3))
    }

    const KEY: &str = "k = u32[2] parameter(0)
        c = u32[2] custom-call(k), custom_call_target=\"Sharding\", sharding={replicated}
        ROOT y = u32[2] negate(c)";

    #[test]
    fn constraints_without_a_mesh_say_nothing() {
        assert_eq!(without_idle("", KEY), ["k()", "y(k)"]);
        assert_eq!(without_idle(", num_partitions=1", KEY), ["k()", "y(k)"]);
        assert_eq!(without_idle(", num_partitions=2", KEY), ["k()", "c*(k)", "y(c)"]);
        let placed = KEY.replace("{replicated}", "{maximal device=0}");
        assert_eq!(without_idle("", &placed), ["k()", "y(k)"]);
        let split = KEY.replace("parameter(0)", "parameter(0), sharding={devices=[2]<=[2]}");
        assert_eq!(without_idle("", &split), ["k*()", "c*(k)", "y(c)"]);
        let root = KEY.replace("ROOT y", "y").replace("c =", "ROOT c =");
        assert_eq!(without_idle("", &root), ["k()", "y(k)"]);
    }

    #[test]
    fn what_another_instruction_waits_for_stays() {
        let waited = KEY.replace("negate(c)", "negate(k), control-predecessors={c}");
        assert_eq!(without_idle("", &waited), ["k()", "c*(k)", "y(k)"]);
    }

    #[test]
    fn a_constraint_of_no_dimension_says_nothing() {
        let open = |dims: &str| {
            let config = format!("sharding={{replicated}}, backend_config=\"unspecified_dims=[{dims}]\"");
            KEY.replace("u32[2]", "u32[2,4]").replace("sharding={replicated}", &config)
        };
        assert_eq!(without_idle(", num_partitions=2", &open("0,1")), ["k()", "y(k)"]);
        assert_eq!(without_idle(", num_partitions=2", &open("1")), ["k()", "c*(k)", "y(c)"]);
        let shardy = |dims: &str| {
            let text = format!("#sdy.sharding_per_value<[<{dims}>]>");
            let note = format!("sharding={{replicated}}, frontend_attributes={{{SHARDY}=\"{text}\"}}");
            let lines = KEY.replace("u32[2]", "u32[2,4]").replace("sharding={replicated}", &note);
            without_idle(", num_partitions=2", &lines).len()
        };
        assert_eq!([shardy("@mesh, [{?}, {?}]"), shardy("@mesh, [{?}, {}]")], [2, 3]);
        assert_eq!([shardy("@mesh, [{}, {?}p1]"), shardy("@empty_mesh, [{}, {}]")], [3, 2]);
    }

    #[test]
    fn marks_of_results_go_and_others_calls_stay() {
        let marked = KEY.replace("\"Sharding\", sharding={replicated}", "\"xla.sdy.FuncResultSharding\"");
        assert_eq!(without_idle(", num_partitions=2", &marked), ["k()", "y(k)"]);
        let other = KEY.replace("\"Sharding\"", "\"mine\"");
        assert_eq!(without_idle("", &other), ["k()", "c*(k)", "y(c)"]);
    }

    #[test]
    fn shardings_are_dropped_by_name() {
        let lines = "a = f32[4] parameter(0), sharding={devices=[2]<=[2]}
            b = f32[4] custom-call(a), custom_call_target=\"Sharding\", sharding={devices=[2]<=[2]}
            c = f32[2] custom-call(b), custom_call_target=\"SPMDFullToShardShape\", sharding={manual}
            ROOT d = f32[2] negate(c), sharding={manual}";
        let drop = |name: &'static str| {
            left("", lines, move |module| assert!(drop_shardings(module, |it| it.name.contains(name)) > 0))
        };
        assert_eq!(drop("a"), ["a()", "b*(a)", "c*(b)", "d*(c)"]);
        assert_eq!(drop("b"), ["a*()", "c*(a)", "d*(c)"]);
        assert_eq!(drop(""), ["a()", "c*(a)", "d*(c)"]);
    }

    #[test]
    fn a_program_is_for_the_devices_of_its_shardings() {
        let n = |sharding: &str| {
            let text = format!("e {{ ROOT x = f32[8] parameter(0), sharding={sharding} }}");
            n_devices(&crate::parse(&text).expect("legal"))
        };
        assert_eq!(n("{devices=[2,4]<=[8] last_tile_dim_replicate}"), Some(8));
        assert_eq!(n("{replicated}"), None);
    }
}
