//! The module around the functions: its name, parameters, donated arguments, shardings, partitions.

use super::ast::{Attr, Op};
use super::lower::{Lowerer, identifier};
use super::parse::{File, Names};
use super::sharding;
use indexmap::IndexSet;
use phzc_ir::{Diagnostic, Instr, InstrId, Key, Module, Result, Sharding, Tiling, Value};

/// The module of a file.
pub(super) fn module(file: &File) -> Result<Module> {
    let mut functions: Names<&Op> = Names::default();
    for op in file.module.regions.iter().flat_map(|region| &region.ops) {
        match (op.name, op.symbol) {
            ("func.func", Some(name)) => {
                if functions.insert(name, op).is_some() {
                    return Err(op.error(format!("the function `@{name}` is defined twice")));
                }
            }
            ("sdy.mesh" | "mhlo.mesh", _) => {}
            _ => return Err(op.error(format!("a module consists of functions, `{}` is none", op.name))),
        }
    }
    let main = main(&functions)?;
    let name = file.module.symbol.map_or_else(|| "module".to_owned(), identifier);
    let mut cx = Lowerer::new(&name, file, functions);
    let params = params(&mut cx, main)?;
    let returned = cx.entry(main, &params)?;
    let root = cx.packed(&returned);
    let root = set_result_shardings(&mut cx, main, root, returned.len())?;
    let header = header(file, main, returned.len());
    let mut module = cx.b.finish(root);
    for (key, value) in header {
        module.set_attr(key, value);
    }
    Ok(module)
}

/// The function that a run starts in: `main`, or the only public one.
fn main<'a, 'f>(functions: &Names<'a, &'f Op<'a>>) -> Result<&'f Op<'a>> {
    if let Some(&main) = functions.get("main") {
        return Ok(main);
    }
    let is_public = |op: &&&Op| op.attr(&["sym_visibility"]).and_then(Attr::word) != Some("private");
    let mut public = functions.values().filter(is_public);
    match (public.next(), public.next()) {
        (Some(&one), None) => Ok(one),
        _ => Err(Diagnostic::error("the program has no function `@main`")),
    }
}

/// One parameter per argument, with its name and sharding.
fn params<'a, 'f>(cx: &mut Lowerer<'a, 'f>, main: &Op<'a>) -> Result<Vec<InstrId>> {
    let mut taken: IndexSet<String> = IndexSet::new();
    let mut params = Vec::new();
    for (index, arg) in main.region(0)?.args.iter().enumerate() {
        let name = arg.loc.and_then(|loc| cx.loc_name(loc)).map_or_else(|| identifier(arg.name), identifier);
        let numbered = |n: usize| if n == 0 { name.clone() } else { format!("{name}_{n}") };
        let name = (0..).map(numbered).find(|name| !taken.contains(name)).unwrap_or_default();
        taken.insert(name.clone());
        cx.b.span = main.span;
        let id = cx.b.parameter(&name, arg.shape.clone());
        let rank = arg.shape.as_array().map_or(0, phzc_ir::ArrayShape::rank);
        if let Some(notes) = main.attr(&["arg_attrs"]).and_then(|list| list.items().get(index)) {
            set_sharding(cx.b.instr_mut(id), sharding::noted(cx.file, notes, rank, main.span)?);
        }
        params.push(id);
    }
    Ok(params)
}

/// What HLO cannot say is kept as the note that XLA keeps it as.
fn set_sharding(instr: &mut Instr, (sharding, kept): (Option<Sharding>, Option<String>)) {
    if let Some(sharding) = sharding {
        instr.set_attr(Key::Sharding, Value::Sharding(Box::new(sharding)));
    }
    if let Some(text) = kept {
        instr.set_note("xla.sdy.sharding", &text);
    }
}

/// The shardings of the results, as one of the root. Returns the root.
fn set_result_shardings<'a>(
    cx: &mut Lowerer<'a, '_>,
    main: &Op<'a>,
    root: InstrId,
    n_results: usize,
) -> Result<InstrId> {
    let notes = main.attr(&["res_attrs"]).map(Attr::items).unwrap_or_default();
    let mut tilings = Vec::new();
    for (index, shape) in main.types.iter().enumerate() {
        let rank = shape.as_array().map_or(0, phzc_ir::ArrayShape::rank);
        let noted =
            notes.get(index).map(|notes| sharding::noted(cx.file, notes, rank, main.span)).transpose()?;
        tilings.push(match noted.and_then(|(sharding, _)| sharding) {
            Some(Sharding::Single(tiling)) => Some(tiling),
            _ => None,
        });
    }
    // A root that other instructions read, or that the caller gives, is not the place for it.
    if n_results < 2 || tilings.iter().all(Option::is_none) || tilings.len() != n_results {
        return Ok(root);
    }
    let tilings = tilings.into_iter().map(|tiling| tiling.unwrap_or_else(Tiling::replicated)).collect();
    cx.b.instr_mut(root).set_attr(Key::Sharding, Value::Sharding(Box::new(Sharding::Tuple(tilings))));
    Ok(root)
}

/// Attributes of the `HloModule` line.
fn header(file: &File, main: &Op, n_results: usize) -> Vec<(&'static str, String)> {
    let mut header = Vec::new();
    let args = main.attr(&["arg_attrs"]).map(Attr::items).unwrap_or_default();
    let (mut aliases, mut donors) = (Vec::new(), Vec::new());
    for (number, notes) in args.iter().enumerate() {
        if let Some(result) = notes.field("tf.aliasing_output").and_then(Attr::int) {
            let index = if n_results == 1 { String::new() } else { result.to_string() };
            aliases.push((result, format!("{{{index}}}: ({number}, {{}}, may-alias)")));
        }
        if let Some(Attr::Bool(true)) = notes.field("jax.buffer_donor") {
            donors.push(format!("({number}, {{}})"));
        }
    }
    aliases.retain(|(result, _)| (0..n_results as i64).contains(result));
    aliases.sort_unstable();
    aliases.dedup_by_key(|(result, _)| *result);
    if !aliases.is_empty() {
        let texts: Vec<String> = aliases.into_iter().map(|(_, text)| text).collect();
        header.push(("input_output_alias", format!("{{ {} }}", texts.join(", "))));
    }
    if !donors.is_empty() {
        header.push(("buffer_donor", format!("{{ {} }}", donors.join(", "))));
    }
    for (name, key) in [("mhlo.num_replicas", "replica_count"), ("mhlo.num_partitions", "num_partitions")] {
        let count = file.module.int(&[name]).filter(|&count| count > 1);
        header.extend(count.map(|count| (key, count.to_string())));
    }
    header
}
