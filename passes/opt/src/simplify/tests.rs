//! Every rule on the smallest program that shows it, and programs that no rule may touch.

mod arms;
mod cases;
mod random;
mod stays;

use super::*;
use phzc_ir::eval::{Options as Run, Value, inputs, run as evaluate};
use phzc_ir::{Module, Payload, parse, print, verify};

/// `x: f32[4]; ROOT y = f32[4] negate(x)` as a program.
fn module(body: &str) -> Module {
    let mut number = 0;
    let line = |line: &str| match line.split_once(": ").filter(|(name, _)| !name.contains(' ')) {
        Some((name, shape)) => {
            number += 1;
            format!("  {name} = {shape} parameter({})\n", number - 1)
        }
        None => format!("  {line}\n"),
    };
    let lines: String = body.split("; ").map(line).collect();
    parse(&format!("ENTRY e {{\n{lines}}}\n")).unwrap_or_else(|error| panic!("{body}: {error}"))
}

/// The instructions of the entry besides parameters; the name alone of a root that is a parameter.
fn body(module: &Module) -> String {
    let entry = module.entry();
    let text = |instr| phzc_ir::text::print_instr(module, entry, instr);
    let lines = entry.iter().filter(|(_, instr)| !matches!(instr.payload, Payload::Parameter(_)));
    let lines =
        lines.map(|(id, instr)| if id == entry.root { format!("ROOT {}", text(instr)) } else { text(instr) });
    let root =
        matches!(entry.root().payload, Payload::Parameter(_)).then(|| format!("ROOT {}", entry.root().name));
    lines.chain(root).collect::<Vec<_>>().join("; ")
}

/// What two programs of the same parameters make of the same inputs.
fn values(before: &Module, after: &Module, seed: u64) -> [Value; 2] {
    let given = inputs(before, seed).expect("its inputs can be made");
    [before, after].map(|module| evaluate(module, &given, &Run::default()).expect("it can be run"))
}

/// The simplified program; it verifies, means the same and is left alone when it comes again.
fn simplified(before: &Module) -> (Module, Counts) {
    let (mut after, mut counts) = (before.clone(), Counts::default());
    simplify(&mut after, &mut counts);
    assert_eq!(verify(&after), [], "{}", print(&after));
    let mut again = after.clone();
    assert_eq!(
        simplify(&mut again, &mut Counts::default()),
        Changed::No,
        "{}\n{}",
        print(&after),
        print(&again)
    );
    (after, counts)
}
