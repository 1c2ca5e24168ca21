//! How often loops run: what the text or the user says, and which loops nobody says it of.

use crate::attr::{Key, Value};
use crate::diag::{Diagnostic, Result, Span, counted};
use crate::module::{CompId, Instr, InstrId, Module};
use crate::nearest;
use crate::notes;
use crate::opcode::Opcode;
use crate::trip::{said_trip_count, trip_count};

/// The loops that the entry reaches and whose trip count nobody says, in program order.
pub fn unknown_loops(module: &Module) -> Vec<(CompId, InstrId)> {
    let is_reached = reached(module);
    let comps = (0..module.comps.len()).filter(|&index| is_reached[index]).map(CompId::new);
    let loops = comps.flat_map(|comp| module.comp(comp).iter().map(move |(id, instr)| (comp, id, instr)));
    let unknown = loops
        .filter(|&(comp, id, instr)| instr.op == Opcode::While && trip_count(module, comp, id).is_none());
    unknown.map(|(comp, id, _)| (comp, id)).collect()
}

fn reached(module: &Module) -> Vec<bool> {
    let mut found = vec![false; module.comps.len()];
    found[module.entry.index()] = true;
    for index in (0..module.comps.len()).rev().filter(|&index| index <= module.entry.index()) {
        if found[index] {
            let called = module.comps[index].instrs.iter().flat_map(Instr::called);
            called.for_each(|comp| found[comp.index()] = true);
        }
    }
    found
}

/// The warning about a loop whose trip count is unknown.
pub fn unknown_trips(instr: &Instr) -> Diagnostic {
    let name = &instr.name;
    let warning = Diagnostic::warning(format!("the trip count of `{name}` is unknown; costs assume 1"));
    let warning = if instr.span == Span::default() { warning } else { warning.at(instr.span) };
    let warning = source(instr).into_iter().fold(warning, |warning, text| warning.note(None, text));
    warning.help(format!("say how often it runs: `--trips {name}=N`"))
}

/// File and line of an instruction, as its metadata says: `model.py:12`.
pub fn source_line(instr: &Instr) -> Option<String> {
    let Some(Value::Raw(text)) = instr.attr(Key::Metadata) else { return None };
    let file = after(text, "source_file=\"", &['"'])?;
    Some(match after(text, "source_line=", &[' ', '}']) {
        Some(line) => format!("{file}:{line}"),
        None => file.to_owned(),
    })
}

/// What the program that an instruction is of calls it, as its metadata says: of a JAX argument its key path,
/// `params['w']`.
pub fn op_name(instr: &Instr) -> Option<String> {
    let Some(Value::Raw(text)) = instr.attr(Key::Metadata) else { return None };
    after(text, "op_name=\"", &['"']).map(|name| name.replace("\\'", "'"))
}

/// Where an instruction comes from, as its metadata says: `jit(f)/while at model.py:12`.
pub fn source(instr: &Instr) -> Option<String> {
    let Some(Value::Raw(text)) = instr.attr(Key::Metadata) else { return None };
    match (after(text, "op_name=\"", &['"']), source_line(instr)) {
        (Some(name), Some(place)) => Some(format!("it is `{name}` at {place}")),
        (Some(name), None) => Some(format!("it is `{name}`")),
        (None, place) => place.map(|place| format!("it is at {place}")),
    }
}

/// What stands behind a key, up to one of some ends.
fn after<'t>(text: &'t str, key: &str, ends: &[char]) -> Option<&'t str> {
    let (_, rest) = text.split_once(key)?;
    rest.split(ends).next().filter(|found| !found.is_empty())
}

/// Notes how often a loop runs. A name that inlining has made, `call.loop`, means the loop of its last part.
///
/// # Errors
/// When no loop has the name, the program itself says another count, or the count is 0.
pub fn give_trips(module: &mut Module, name: &str, n_trips: u64) -> Result<()> {
    let is_loop = |instr: &&mut Instr| instr.op == Opcode::While;
    let own = |loop_name: &str| loop_name == name || name.ends_with(&format!(".{loop_name}"));
    let longest = loop_names(module).into_iter().filter(|it| own(it)).max_by_key(String::len);
    let Some(longest) = longest else { return Err(no_loop(module, name)) };
    refuse_count(module, &longest, n_trips)?;
    let instrs = module.comps.iter_mut().flat_map(|comp| &mut comp.instrs).filter(is_loop);
    for instr in instrs.filter(|instr| *instr.name == *longest) {
        instr.set_note(notes::TRIPS, &n_trips.to_string());
    }
    Ok(())
}

/// Errors where a loop cannot run so often.
fn refuse_count(module: &Module, name: &str, n_trips: u64) -> Result<()> {
    let comps = (0..module.comps.len()).map(CompId::new);
    let loops = comps.flat_map(|comp| module.comp(comp).iter().map(move |(id, instr)| (comp, id, instr)));
    let mut own = loops
        .filter(|(_, _, instr)| instr.op == Opcode::While && *instr.name == *name)
        .filter_map(|(comp, id, instr)| Some((said_trip_count(module, comp, id)?, instr)));
    match own.find(|(known, _)| *known != n_trips) {
        Some((known, instr)) => {
            let message = format!("`{name}` runs {}, as the program says", counted(known as usize, "time"));
            Err(Diagnostic::error(message).at(instr.span).help("leave its `--trips` out"))
        }
        None if n_trips == 0 => {
            Err(Diagnostic::error(format!("`{name}` must run once at least to have a price")))
        }
        None => Ok(()),
    }
}

fn loop_names(module: &Module) -> Vec<String> {
    let instrs = module.comps.iter().flat_map(|comp| &comp.instrs);
    instrs.filter(|instr| instr.op == Opcode::While).map(|instr| instr.name.to_string()).collect()
}

fn no_loop(module: &Module, name: &str) -> Diagnostic {
    /// As many names are listed.
    const MAX_LISTED: usize = 5;
    let names = loop_names(module);
    let error = Diagnostic::error(format!("no loop of the program is called `{name}`"));
    if let Some(near) = nearest(name, names.iter().map(String::as_str)) {
        return error.help(format!("did you mean `{near}`?"));
    }
    let shown: Vec<String> = names.iter().take(MAX_LISTED).map(|name| format!("`{name}`")).collect();
    match names.len() {
        0 => error.help("it has no loop"),
        n if n > shown.len() => error.help(format!("it has {}: {}, …", counted(n, "loop"), shown.join(", "))),
        _ => error.help(format!("its loops: {}", shown.join(", "))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LOOP: &str = "f { ROOT t = (s32[]) parameter(0) } g { t = (s32[]) parameter(0) ROOT c = pred[] constant(false) }
        ENTRY e { t = (s32[]) parameter(0) ROOT rollout.3 = (s32[]) while(t), condition=g, body=f, METADATA }";

    fn module(metadata: &str) -> Module {
        crate::parse(&LOOP.replace("METADATA", metadata)).unwrap_or_else(|error| panic!("{error}"))
    }

    #[test]
    fn a_loop_that_nobody_counts_is_named_with_its_source_line() {
        let module = module("metadata={op_name=\"jit(step)/while\" source_file=\"sim.py\" source_line=12}");
        assert_eq!(unknown_loops(&module), [(module.entry, module.entry().root)]);
        assert_eq!(
            unknown_trips(module.entry().root()).to_string(),
            "the trip count of `rollout.3` is unknown; costs assume 1; it is `jit(step)/while` at sim.py:12; \
             say how often it runs: `--trips rollout.3=N`"
        );
    }

    #[test]
    fn a_count_that_is_given_is_the_loop_s_under_any_name_that_inlining_makes() {
        for name in ["rollout.3", "call.7.rollout.3"] {
            let mut module = module("metadata={}");
            assert_eq!(give_trips(&mut module, name, 7), Ok(()));
            assert_eq!(trip_count(&module, module.entry, module.entry().root), Some(7));
            assert!(unknown_loops(&module).is_empty());
        }
    }

    #[test]
    fn a_count_that_the_program_says_is_not_contradicted() {
        let mut known = module("backend_config={\"known_trip_count\":{\"n\":\"12\"}}");
        assert_eq!(give_trips(&mut known, "rollout.3", 12), Ok(()));
        let error = give_trips(&mut known, "rollout.3", 7).expect_err("another count").to_string();
        assert_eq!(error, "`rollout.3` runs 12 times, as the program says; leave its `--trips` out");
        let error = give_trips(&mut module("metadata={}"), "rollout.3", 0).expect_err("no count").to_string();
        assert_eq!(error, "`rollout.3` must run once at least to have a price");
    }

    #[test]
    fn a_count_that_is_only_assumed_gives_way_to_the_user_s() {
        let text =
            "f { t = (s32[]) parameter(0) i = s32[] get-tuple-element(t), index=0 one = s32[] constant(1)
              j = s32[] add(i, one) ROOT u = (s32[]) tuple(j) }
            g { t = (s32[]) parameter(0) i = s32[] get-tuple-element(t), index=0 n = s32[] constant(9)
              ROOT c = pred[] compare(i, n), direction=LT }
            ENTRY e { t = (s32[]) parameter(0) ROOT w = (s32[]) while(t), condition=g, body=f }";
        let mut module = crate::parse(text).unwrap_or_else(|error| panic!("{error}"));
        let count = |module: &Module| trip_count(module, module.entry, module.entry().root);
        assert_eq!(count(&module), Some(9), "as if it began at 0");
        assert_eq!(give_trips(&mut module, "w", 5), Ok(()));
        assert_eq!(count(&module), Some(5));
    }

    #[test]
    fn a_loop_that_is_not_there_is_refused_with_what_is() {
        let refused =
            |name: &str| give_trips(&mut module("metadata={}"), name, 7).expect_err("none").to_string();
        assert!(refused("rolout.3").ends_with("did you mean `rollout.3`?"), "{}", refused("rolout.3"));
        assert!(refused("x").ends_with("its loops: `rollout.3`"), "{}", refused("x"));
    }
}
