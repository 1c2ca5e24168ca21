//! What the evaluator's tests say in one line: a program's root, its inputs and its result, all as literals.

use super::{Options, Value, eval, literal};
use crate::diag::Result;
use crate::module::Module;
use crate::ops::check::module;

/// Runs a program (see [`module`]) on literals for its parameters; its result as a literal, or `error: …`.
pub(crate) fn result(body: &str, inputs: &[&str]) -> String {
    let module = module(body);
    shown(run(&module, &[inputs]).map(|mut results| results.swap_remove(0)))
}

/// Asserts the result of a program.
#[track_caller]
pub(crate) fn check(body: &str, inputs: &[&str], expected: &str) {
    assert_eq!(result(body, inputs), expected, "{body}");
}

/// Asserts the results of a program on several devices.
#[track_caller]
pub(crate) fn check_devices(body: &str, inputs: &[&[&str]], expected: &[&str]) {
    let module = module(body);
    match run(&module, inputs) {
        Ok(results) => {
            let found: Vec<String> = results.into_iter().map(|value| shown(Ok(value))).collect();
            assert_eq!(found, expected, "{body}");
        }
        Err(error) => assert_eq!(shown(Err(error)), expected[0], "{body}"),
    }
}

fn run(module: &Module, inputs: &[&[&str]]) -> Result<Vec<Value>> {
    let entry = module.entry();
    let shapes: Vec<_> = entry.params().into_iter().map(|id| &entry.instr(id).shape).collect();
    let own = |texts: &&[&str]| {
        let pairs = texts.iter().zip(&shapes);
        pairs.map(|(text, shape)| literal::parse(text, shape, None)).collect::<Result<Vec<_>>>()
    };
    let inputs = inputs.iter().map(own).collect::<Result<Vec<_>>>()?;
    eval(module, &inputs, &Options::default())
}

fn shown(result: Result<Value>) -> String {
    match result {
        Ok(value) => value_text(&value),
        Err(error) => format!("error: {}", error.message),
    }
}

fn value_text(value: &Value) -> String {
    match value {
        Value::Token => "token".to_owned(),
        Value::Tuple(parts) => {
            format!("({})", parts.iter().map(value_text).collect::<Vec<_>>().join(", "))
        }
        Value::Array(array) => literal::literal(array),
    }
}
