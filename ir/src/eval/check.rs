//! What the evaluator's tests say in one line: a program's root, its inputs and its result, all as literals.

use super::{Array, Data, Options, Value, eval, literal};
use crate::diag::Result;
use crate::dtype::{Class, DType};
use crate::module::Module;
use crate::ops::check::module;
use ndarray::ArrayViewD;

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
        Value::Array(array) => array_text(array),
    }
}

fn array_text(array: &Array) -> String {
    let unsigned = array.dtype().class() == Class::Unsigned && array.dtype() == DType::U64;
    match array.clone().dense() {
        Data::Pred(buf) => nested(buf.view(), &|x| x.to_string()),
        Data::Int(buf) if unsigned => nested(buf.view(), &|x| (*x as u64).to_string()),
        Data::Int(buf) => nested(buf.view(), &|x| x.to_string()),
        Data::F32(buf) => nested(buf.view(), &|x| x.to_string()),
        Data::F64(buf) => nested(buf.view(), &|x| x.to_string()),
        Data::C64(buf) => nested(buf.view(), &|x| format!("({}, {})", x.re, x.im)),
        Data::C128(buf) => nested(buf.view(), &|x| format!("({}, {})", x.re, x.im)),
    }
}

fn nested<T>(view: ArrayViewD<T>, show: &dyn Fn(&T) -> String) -> String {
    if view.ndim() == 0 {
        return show(&view[[]]);
    }
    let parts: Vec<String> = view.outer_iter().map(|part| nested(part, show)).collect();
    format!("{{{}}}", parts.join(", "))
}
