//! `phzc verify --pieces`: plans proven instruction by instruction, and faults planted in them.

mod common;

use common::{phzc, program, root, scratch};
use phzc_ir::{Instr, InstrId, Key, Layout, Mesh, Module, Opcode, Payload, Sharding, Value, parse};
use phzc_passes::verify::{Settings, Verdict, verify};
use std::fs;
use std::path::Path;

/// A plan of a program for eight devices.
fn plan(model: &Path, passes: &str, test: &str) -> Module {
    let path = scratch(test).join("plan.ir").to_string_lossy().into_owned();
    let cluster = "tests/clusters/slow-8.toml";
    let outcome =
        phzc(&[&model.to_string_lossy(), "--cluster", cluster, "--passes", passes, "-o", &path], b"");
    assert_eq!(outcome.code, 0, "{}", outcome.stderr);
    parse(&fs::read_to_string(path).expect("it was written")).expect("a legal plan")
}

/// An instruction with a fault; `None` where it cannot have it.
type Plant = fn(&Module, InstrId) -> Option<Instr>;

/// Faults and the examples to plant them in, each in one instruction.
const FAULTS: &[(&str, &str, Plant)] = &[
    ("another opcode", "gpt", opcode),
    ("another constant", "gpt", constant),
    ("another operand", "gpt", operand),
    ("a slice that starts elsewhere", "llama", slice),
    ("another dimension", "gpt", dimension),
    ("another layout", "gpt", layout),
];

fn opcode(module: &Module, id: InstrId) -> Option<Instr> {
    let mut instr = module.entry().instr(id).clone();
    instr.op = match instr.op {
        Opcode::Add => Opcode::Subtract,
        Opcode::Multiply => Opcode::Add,
        Opcode::Exponential => Opcode::Tanh,
        Opcode::Maximum => Opcode::Minimum,
        _ => return None,
    };
    Some(instr)
}

fn constant(module: &Module, id: InstrId) -> Option<Instr> {
    let mut instr = module.entry().instr(id).clone();
    let Payload::Literal(text) = &instr.payload else { return None };
    let number: f64 = text.parse().ok().filter(|x: &f64| x.is_finite())?;
    instr.payload = Payload::Literal(format!("{}", number + 1.0).into());
    Some(instr)
}

/// Reads another value of the same type and layout.
fn operand(module: &Module, id: InstrId) -> Option<Instr> {
    let (entry, mut instr) = (module.entry(), module.entry().instr(id).clone());
    let wanted = entry.instr(*instr.operands.first()?);
    let is_like = |(other, found): &(InstrId, &Instr)| {
        found.shape.same_type(&wanted.shape)
            && found.sharding() == wanted.sharding()
            && found.note("phzc.partial") == wanted.note("phzc.partial")
            && found.shape.as_array().is_some_and(|array| array.rank() > 0)
            && *other != instr.operands[0]
            && found.op != wanted.op
    };
    let (other, _) = entry.iter().take(id.index()).filter(is_like).last()?;
    instr.operands[0] = other;
    Some(instr)
}

fn slice(module: &Module, id: InstrId) -> Option<Instr> {
    let mut instr = module.entry().instr(id).clone();
    let size = module.entry().instr(*instr.operands.first()?).shape.as_array()?.dims.clone();
    let attr = instr.attrs.iter_mut().find(|attr| attr.key == Key::Slice)?;
    let Value::Slices(slices) = &mut attr.value else { return None };
    let (slice, size) =
        slices.iter_mut().zip(size).find(|(slice, size)| slice.limit - slice.start < *size)?;
    let by = if slice.limit < size { 1 } else { -1 };
    (slice.start, slice.limit) = (slice.start + by, slice.limit + by);
    Some(instr)
}

/// Swaps two dimensions of one size.
fn dimension(module: &Module, id: InstrId) -> Option<Instr> {
    let mut instr = module.entry().instr(id).clone();
    if !matches!(instr.op, Opcode::Transpose | Opcode::Broadcast | Opcode::Reduce) {
        return None;
    }
    let source = module.entry().instr(*instr.operands.first()?).shape.as_array()?;
    let array = if instr.op == Opcode::Broadcast { instr.shape.as_array()? } else { source };
    let dims = array.dims.clone();
    let attr = instr.attrs.iter_mut().find(|attr| attr.key == Key::Dimensions)?;
    let Value::Ints(ints) = &mut attr.value else { return None };
    let first = *ints.first()?;
    let like = |dim: &i64| *dim != first && dims[*dim as usize] == dims[first as usize];
    let other = (0..dims.len() as i64).find(like)?;
    ints.iter_mut().for_each(|dim| {
        *dim = if *dim == first {
            other
        } else if *dim == other {
            first
        } else {
            *dim
        }
    });
    if instr.op == Opcode::Reduce || instr.op == Opcode::Broadcast {
        ints.sort_unstable();
    }
    Some(instr)
}

/// Moves a mesh axis to another dimension.
fn layout(module: &Module, id: InstrId) -> Option<Instr> {
    let mesh = Mesh::parse(&module.note("phzc.mesh")?).ok()?;
    let mut instr = module.entry().instr(id).clone();
    let rank = instr.shape.as_array()?.rank();
    let Sharding::Single(tiling) = instr.sharding()? else { return None };
    let layout = Layout::from_tiling(tiling, rank, &mesh)?;
    let (axis, dim) = (0..mesh.n_axes()).find_map(|axis| Some((axis, layout.dim_of(axis)?)))?;
    let moved = layout.with(axis, Some((dim + 1) % rank));
    let dims = &instr.shape.as_array()?.dims;
    let tiling = (moved != layout && moved.divides(dims, &mesh)).then(|| moved.to_tiling(rank, &mesh))?;
    instr.set_attr(Key::Sharding, Value::Sharding(Box::new(Sharding::Single(tiling))));
    Some(instr)
}

/// The verdict, or none if the plan is refused.
fn verdict(original: &Module, plan: &Module, by_pieces: bool) -> Option<Verdict> {
    let settings = Settings { by_pieces, ..Settings::default() };
    verify(original, plan, &settings).ok().map(|verified| verified.verdict())
}

/// What is equal in pieces is equal as a whole, whatever was planted.
#[test]
fn planted_faults_are_found_in_pieces_as_they_are_in_whole_programs() {
    for (kind, example, fault) in FAULTS {
        let model = root().join(format!("examples/{example}.ir"));
        let original = parse(&program(&model)).expect("a legal program");
        let planned = plan(&model, "fuse,shard,place{stages=1,microbatches=1}", "planted");
        let ids: Vec<InstrId> = planned.entry().iter().map(|(id, _)| id).collect();
        let faulty = |&id: &InstrId| {
            let mut faulty = planned.clone();
            let entry = faulty.entry.index();
            faulty.comps[entry].instrs[id.index()] = fault(&planned, id)?;
            phzc_ir::verify(&faulty).is_empty().then_some(faulty)
        };
        let candidates: Vec<Module> = ids.iter().filter_map(faulty).collect();
        let step = (candidates.len() / 8).max(1);
        let (mut n_found, mut n_harmless) = (0, 0);
        for faulty in candidates.iter().step_by(step) {
            match verdict(&original, faulty, true) {
                Some(Verdict::Equal) => {
                    assert_eq!(verdict(&original, faulty, false), Some(Verdict::Equal), "{kind}");
                    n_harmless += 1;
                }
                _ => n_found += 1,
            }
        }
        eprintln!("{kind}: {n_found} found, {n_harmless} change nothing, of {}", candidates.len());
        assert!(n_found > 0, "{kind}");
    }
}

#[test]
fn a_plan_is_proven_in_pieces_and_what_differs_is_named() {
    let model = root().join("examples/mlp.ir");
    let planned = phzc_ir::print(&plan(&model, "fuse,shard,place{stages=2,microbatches=4}", "pieces_cli"));
    let path = scratch("pieces_cli").join("plan.ir");
    let run = |text: &str| {
        fs::write(&path, text).expect("writable");
        phzc(&["verify", "examples/mlp.ir", &path.to_string_lossy(), "--pieces"], b"")
    };
    let outcome = run(&planned);
    assert_eq!((outcome.code, outcome.stderr.as_str()), (0, ""), "{}", outcome.stdout);
    assert!(outcome.stdout.contains("100.0 % of the operations proven"), "{}", outcome.stdout);
    let line = planned.lines().find(|line| line.contains(" subtract(")).expect("an update");
    let name = line.trim().split(' ').next().expect("a name");
    let outcome = run(&planned.replace(line, &line.replace(" subtract(", " add(")));
    assert_eq!(outcome.code, 1, "{}", outcome.stdout);
    assert!(outcome.stdout.contains(&format!("\n{name} ")), "{}", outcome.stdout);
}

#[test]
fn what_is_not_proven_has_an_exit_code_of_its_own() {
    let text = "HloModule m\nENTRY e { x = f32[2] parameter(0) a = f32[2] negate(x)
        ROOT y = f32[2] custom-call(a), custom_call_target=\"magic\" }";
    let path = scratch("not_proven").join("model.ir").to_string_lossy().into_owned();
    fs::write(&path, text).expect("writable");
    let outcome = phzc(&["verify", &path, &path, "--pieces"], b"");
    assert_eq!(outcome.code, 3, "{}{}", outcome.stdout, outcome.stderr);
    assert!(outcome.stderr.contains("not proven, because of `y`: "), "{}", outcome.stderr);
}
