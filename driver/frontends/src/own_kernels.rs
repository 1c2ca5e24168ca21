//! Tables of kernels that a user brings: `--kernels FILE`.

use phzc_io::render::Source;
use phzc_io::{Failure, files};
use phzc_ir::{Diagnostic, Key, Module, Opcode, kernels};
use std::collections::BTreeSet;
use std::path::PathBuf;

/// As many targets are listed.
const MAX_LISTED: usize = 8;

/// Notes in the program what the tables say of the kernels that it calls.
pub(crate) fn describe(module: &mut Module, tables: &[PathBuf]) -> Result<(), Failure> {
    let mut all = Vec::new();
    for path in tables {
        let bytes = files::read_unpacked(path, files::MAX_TEXT_BYTES)?;
        let text = files::text(bytes, &super::quoted(path), files::MAX_TEXT_BYTES)?;
        let lines = kernels::read(&text);
        let source = || Source { name: super::shown(path), text: text.clone() };
        all.extend(lines.map_err(|error| Failure::new(Some(source()), error))?);
    }
    match kernels::describe(module, &all) {
        0 if !tables.is_empty() => Err(no_call(module, tables).into()),
        _ => Ok(()),
    }
}

fn no_call(module: &Module, tables: &[PathBuf]) -> Diagnostic {
    let files: Vec<String> = tables.iter().map(|path| super::quoted(path)).collect();
    let error = Diagnostic::error(format!("{} describes no kernel that the program calls", files.join(", ")));
    let instrs = module.comps.iter().flat_map(|comp| &comp.instrs);
    let calls = instrs.filter(|instr| instr.op == Opcode::CustomCall);
    let targets: BTreeSet<&str> = calls.filter_map(|call| call.word(Key::CustomCallTarget)).collect();
    let shown: Vec<String> = targets.iter().take(MAX_LISTED).map(|target| format!("`{target}`")).collect();
    match (targets.len(), shown.join(", ")) {
        (0, _) => error.help("it has no custom call"),
        (n, shown) if n > MAX_LISTED => error.help(format!("its targets are {shown}, …")),
        (_, shown) => error.help(format!("its targets: {shown}")),
    }
}
