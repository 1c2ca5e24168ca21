//! phzc's factor rules of single StableHLO operations are Shardy's, or a table says why they are not.
//!
//! `../shared/data/shardy_rules.tsv` has Shardy's rules and the operations; `shardy_rules/completed.tsv`
//! writes out those that it cuts short, `shardy_rules/differences.tsv` lists where phzc splits more or less.

#[path = "shardy_rules/normal.rs"]
mod normal;
#[path = "shardy_rules/program.rs"]
mod program;

use phzc_driver::frontend::stablehlo;
use phzc_ir::{Instr, InstrId, Opcode, View, verify};
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

/// A rule of Shardy and the operations whose last one it is of.
struct Case {
    name: String,
    rule: String,
    operations: String,
}

/// The lines of a table, without comments.
fn lines(path: &Path) -> Vec<Vec<String>> {
    let text = fs::read_to_string(path).unwrap_or_default();
    let rows = text.lines().filter(|line| !line.starts_with('#'));
    rows.map(|line| line.split('\t').map(str::to_owned).collect()).collect()
}

fn own(file: &str) -> Vec<Vec<String>> {
    lines(&crate::common::root().join("tests/shardy_rules").join(file))
}

/// Every rule with its operations; none, said loudly, without the table.
fn cases() -> Vec<Case> {
    let rows = lines(&crate::common::root().join("../shared/data/shardy_rules.tsv"));
    if rows.is_empty() {
        eprintln!("SKIPPED: no ../shared/data/shardy_rules.tsv, Shardy's 0 rules are not compared");
    }
    let completed: BTreeMap<String, String> =
        own("completed.tsv").into_iter().map(|row| (row[0].clone(), row[1].clone())).collect();
    let mut found = Vec::new();
    for row in rows {
        for (at, rule) in row[1].split(" | ").enumerate() {
            let name = if at == 0 { row[0].clone() } else { format!("{}#{}", row[0], at + 1) };
            let operations = completed.get(&name).unwrap_or(&row[2]).clone();
            found.push(Case { name, rule: rule.to_owned(), operations });
        }
    }
    found
}

/// phzc's rule of the last operation, or why there is none.
fn ours(operations: &str) -> String {
    let text = program::program(operations);
    let module = match stablehlo::read(&text) {
        Ok(module) => module,
        Err(error) => return format!("not read: {}", error.message),
    };
    if let Some(error) = verify(&module).first() {
        return format!("not legal: {}", error.message);
    }
    let names_values = |instr: &Instr| matches!(instr.op, Opcode::Tuple | Opcode::GetTupleElement);
    let last = module.entry().instrs.iter().rposition(|instr| !names_values(instr)).unwrap_or_default();
    let view = View::new(&module, module.entry, InstrId::new(last));
    normal::of_phzc(&(view.instr.op.def().rule)(&view))
}

#[test]
fn every_rule_is_shardy_s_or_differs_for_a_reason() {
    let mut listed: BTreeMap<String, Vec<String>> =
        own("differences.tsv").into_iter().map(|row| (row[0].clone(), row)).collect();
    let (mut wrong, mut n_equal, mut n_listed) = (Vec::new(), 0, 0);
    let cases = cases();
    let is_there = !cases.is_empty();
    for case in cases {
        let wanted = normal::of_shardy(&case.rule).unwrap_or_else(|| "none".to_owned());
        let found = ours(&case.operations);
        match listed.remove(&case.name) {
            None if found == wanted => n_equal += 1,
            Some(row) if row[1] == found && row.len() == 3 && found != wanted => n_listed += 1,
            Some(row) => {
                wrong.push(format!("{}: listed as {}, is {found}, Shardy {wanted}", case.name, row[1]))
            }
            None => wrong.push(format!("{}\n  Shardy {wanted}\n  phzc   {found}", case.name)),
        }
    }
    if is_there {
        wrong.extend(listed.into_keys().map(|name| format!("{name}: Shardy has no such rule")));
    }
    eprintln!("{n_equal} rules are Shardy's, {n_listed} differ for a reason that is listed");
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
