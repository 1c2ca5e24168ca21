//! `unpartition`: the program before a partitioner partitioned it, from what each device runs.
//!
//! ```text
//! x = f32[8,16] parameter(0), sharding={devices=[4,1]<=[4]}    →    x = f32[32,16] parameter(0)
//! w = f32[4,64] parameter(1), sharding={devices=[4,1]<=[4]}         w = f32[16,64] parameter(1)
//! g = f32[16,64] all-gather(w), dimensions={0}, …                   d = f32[32,64] dot(x, w), …
//! d = f32[8,64] dot(x, g), …
//! ```
//!
//! Every value of a device is read as a part of a whole array (`tile.rs`): the text says it of parameters,
//! factor rules carry it on. Collectives and slices that start where a device's tile does then change how a
//! device sees a whole array, and are left out; ops are written on whole arrays, with the sizes of these. By
//! induction over the program each device's value is the tile, or the summand, that it is said to be: nothing
//! is guessed. What a parameter is whose text says nothing, and what a loop carries that starts as zeros, is
//! supposed to be whole until a reader shows otherwise; then all is read again. What cannot be folded is
//! named, and the program stays as it is.

mod axes;
pub(crate) mod border;
mod collective;
mod control;
mod device;
mod given;
mod lookups;
mod op;
mod place;
#[cfg(test)]
mod tests;
mod tile;
mod view;
mod walk;

use axes::Axes;
use border::Outside;
use phzc_ir::device_groups::Devices;
use phzc_ir::{CompId, Diagnostic, InstrId, Mesh, Module, Result, Span, counted, notes};
use phzc_opt::{dce, inline};
use phzc_pass::pass::{Changed, Context, Options, Pass};
use phzc_plan::partitioned::partitioned;
use std::collections::BTreeMap;
use walk::{Program, Stop};

/// The pass.
pub static PASS: Pass = Pass {
    name: "unpartition",
    summary: "recovers the program that a partitioner has partitioned: whole shapes, no collectives",
    options: &[],
    run,
};

/// Causes that are shown one by one.
const MAX_SHOWN: usize = 10;
/// How often parameters may turn out to be split otherwise than supposed.
const MAX_ROUNDS: usize = 10_000;

fn run(module: &mut Module, _: &Options, cx: &mut Context) -> Result<Changed> {
    let Some((devices, mesh)) = mesh(module)? else {
        cx.warn_once(Diagnostic::warning("the program is not partitioned: there is nothing to recover"));
        return Ok(Changed::No);
    };
    *module = whole(module, devices, &mesh)?;
    Ok(Changed::Yes)
}

/// The devices of a partitioned program, and their mesh.
fn mesh(module: &Module) -> Result<Option<(Devices, Mesh)>> {
    if let Some(text) = module.note(notes::SPMD) {
        let mesh = Mesh::parse(&text)?;
        let n_partitions = mesh.n_devices() as usize;
        return Ok(Some((Devices { n_replicas: 1, n_partitions, first: None }, mesh)));
    }
    Ok(partitioned(module).map(|it| (it.devices, it.mesh)))
}

/// The whole program.
///
/// # Errors
/// Names what cannot be folded.
fn whole(module: &Module, devices: Devices, mesh: &Mesh) -> Result<Module> {
    let mut local = module.clone();
    inline::flatten(&mut local)?;
    dce::remove_dead(&mut local);
    let refuse = |why: String| Diagnostic::error(format!("the whole program is not recovered: {why}"));
    if devices.n_replicas > 1 {
        let replicas = counted(devices.n_replicas, "replica");
        return Err(refuse(format!("it runs as {replicas}, whose inputs the text does not relate")));
    }
    let axes = Axes::of(mesh);
    let params = given::parameters(&local, &axes).map_err(refuse)?;
    let results = given::results(&local, &axes, &params).map_err(refuse)?;
    let help = "without `--unpartition` it is priced as it stands";
    let folded = folded(&local, (devices, mesh), params, &results, Outside::new());
    let mut whole =
        folded.map_err(|causes| named(&local, "the whole program is not recovered", &causes).help(help))?;
    finish(&mut whole);
    let errors = phzc_ir::verify(&whole);
    match errors.into_iter().next() {
        Some(error) => Err(refuse(format!("what was folded is not legal: {error}"))),
        None => Ok(whole),
    }
}

/// What cannot be folded, and why.
pub(crate) type Causes = Vec<(CompId, InstrId, String)>;

/// The program on whole arrays, or what is in the way.
pub(crate) fn folded(
    local: &Module,
    (devices, mesh): (Devices, &Mesh),
    params: walk::Signature,
    results: &walk::Wanted,
    outside: Outside,
) -> std::result::Result<Module, Causes> {
    let (causes, opened, axes) = (Vec::new(), BTreeMap::new(), Axes::of(mesh));
    let mut program = Program { local, whole: local.clone(), devices, mesh, axes, causes, opened, outside };
    let ran = read(&mut program, params, results);
    match program.causes.is_empty() && ran.is_ok() {
        true => Ok(program.whole),
        false => Err(program.causes),
    }
}

/// Reads the entry until no reader shows that a parameter is split otherwise than supposed.
fn read(
    program: &mut Program,
    mut params: walk::Signature,
    results: &walk::Wanted,
) -> std::result::Result<(), Stop> {
    let entry = program.local.entry;
    for _ in 0..MAX_ROUNDS {
        program.causes.clear();
        match program.lower(entry, &params, results) {
            Ok(_) => return Ok(()),
            Err(Stop::Open(origin, dim)) if origin.comp == entry => params[origin.leaf][origin.dim] = dim,
            Err(Stop::Open(origin, dim)) if !program.opened.contains_key(&origin) => {
                program.opened.insert(origin, dim);
            }
            Err(stop) => return Err(stop),
        }
    }
    Err(Stop::Lost)
}

/// The header of a whole program.
fn finish(whole: &mut Module) {
    let of_parts = ["num_partitions", "entry_computation_layout", "replica_count", "is_scheduled"];
    whole.attrs.retain(|attr| !of_parts.contains(&&*attr.key) && !attr.key.starts_with("allow_spmd"));
    for note in [notes::SPMD, notes::MESH] {
        whole.remove_note(note);
    }
    dce::remove_dead(whole);
}

/// What is in the way, the first of it one by one, all of it by kind.
pub(crate) fn named(module: &Module, what: &str, causes: &Causes) -> Diagnostic {
    let n = counted(causes.len().max(1), "instruction");
    let mut error = Diagnostic::error(format!("{what}: {n} cannot be folded"));
    for (comp, id, why) in causes.iter().take(MAX_SHOWN) {
        let instr = module.comp(*comp).instr(*id);
        let span = Some(instr.span).filter(|span| *span != Span::default());
        error = error.note(span, format!("`{}` {why}", instr.name));
    }
    let mut kinds: BTreeMap<String, usize> = BTreeMap::new();
    for (comp, id, why) in causes.iter().skip(MAX_SHOWN) {
        let op = module.comp(*comp).instr(*id).op.as_str();
        *kinds.entry(format!("`{op}` {}", without_names(why))).or_default() += 1;
    }
    for (kind, times) in kinds {
        error = error.note(None, format!("{times} more: {kind}"));
    }
    error
}

/// A cause without the operand that it names.
fn without_names(why: &str) -> String {
    let mut words = why.split('`');
    let before = words.next().unwrap_or_default();
    match (words.next(), words.next()) {
        (Some(_), Some(after)) if before == "reads " => format!("reads a value{after}"),
        _ => why.to_owned(),
    }
}
