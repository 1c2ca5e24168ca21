//! What the tests of the families say in one line: the rule, the work or the error of a program's root.

use crate::module::{CompId, InstrId, Module};
use crate::view::View;
use crate::work::Work;

/// Computations that the tests apply.
const PRELUDE: &str = "
add { a = f32[] parameter(0) b = f32[] parameter(1) ROOT c = f32[] add(a, b) }
max { a = f32[] parameter(0) b = f32[] parameter(1) ROOT c = f32[] maximum(b, a) }
addb { a = bf16[] parameter(0) b = bf16[] parameter(1) ROOT c = bf16[] add(a, b) }
fst { t = (f32[], f32[]) parameter(0) ROOT a = f32[] get-tuple-element(t), index=0 }
snd { t = (f32[], f32[]) parameter(0) ROOT a = f32[] get-tuple-element(t), index=1 }
halve {
  a = f32[] parameter(0) b = f32[] parameter(1) s = f32[] add(a, b) h = f32[] constant(0.5)
  ROOT c = f32[] multiply(s, h)
}
set { a = f32[] parameter(0) ROOT b = f32[] parameter(1) }
ge { a = f32[] parameter(0) b = f32[] parameter(1) ROOT c = pred[] compare(a, b), direction=GE }
less_first {
  a = f32[] parameter(0) b = f32[] parameter(1) i = s32[] parameter(2) j = s32[] parameter(3)
  ROOT c = pred[] compare(a, b), direction=LT
}
less { a = f32[] parameter(0) b = f32[] parameter(1) ROOT c = pred[] compare(a, b), direction=LT }
argmax {
  a = f32[] parameter(0) i = s32[] parameter(1) b = f32[] parameter(2) j = s32[] parameter(3)
  c = pred[] compare(a, b), direction=GT
  x = f32[] select(c, a, b) y = s32[] select(c, i, j)
  ROOT t = (f32[], s32[]) tuple(x, y)
}
sums {
  a = f32[] parameter(0) i = s32[] parameter(1) b = f32[] parameter(2) j = s32[] parameter(3)
  x = f32[] add(a, b) y = s32[] add(j, i)
  ROOT t = (f32[], s32[]) tuple(x, y)
}
";

/// A program of these entry instructions; `p: shape` stands for the next parameter, and what stands before a
/// line of `---` for computations of its own.
fn program(body: &str) -> String {
    let (comps, body) = body.split_once("\n---\n").unwrap_or(("", body));
    let mut n_params = 0;
    let lines = body.split(['\n', ';']).map(|line| match line.split_once(": ") {
        Some((name, shape)) => {
            n_params += 1;
            format!("{name} = {shape} parameter({})", n_params - 1)
        }
        None => line.to_owned(),
    });
    format!("HloModule m\n{PRELUDE}{comps}\nENTRY e {{\n{}\n}}\n", lines.collect::<Vec<_>>().join("\n"))
}

/// The verified program of these entry instructions.
pub(crate) fn module(body: &str) -> Module {
    let module = crate::parse(&program(body)).unwrap_or_else(|error| panic!("{error}"));
    let errors = crate::verify::verify(&module);
    assert!(errors.is_empty(), "{}", errors[0]);
    module
}

/// What `read` makes of the root.
pub(crate) fn with_root<T>(body: &str, read: impl Fn(&View) -> T) -> T {
    let module = module(body);
    read(&View::new(&module, module.entry, module.entry().root))
}

/// The factor rule of the root.
pub(crate) fn rule(body: &str) -> String {
    with_root(body, |view| (view.instr.op.def().rule)(view).to_string())
}

/// The work of the root, without bytes.
pub(crate) fn work(body: &str) -> Work {
    with_root(body, |view| (view.instr.op.def().work)(view))
}

/// What parser or verifier say of a broken program.
pub(crate) fn error(body: &str) -> String {
    match crate::parse(&program(body)) {
        Err(error) => error.message,
        Ok(module) => {
            let errors = crate::verify::verify(&module).into_iter().map(|error| error.message);
            errors.collect::<Vec<_>>().join("\n")
        }
    }
}

/// Runs everything that must not panic on a verified module.
pub(crate) fn read_all(module: &Module) {
    for (index, comp) in module.comps.iter().enumerate() {
        for at in 0..comp.instrs.len() {
            let view = View::new(module, CompId::new(index), InstrId::new(at));
            let rule = (view.instr.op.def().rule)(&view);
            assert_eq!(rule.results.len(), view.instr.shape.n_leaves(), "{}", view.instr.op.as_str());
            let _ = (rule.to_string(), crate::flops::work(&view));
        }
    }
    let _ = (crate::flops::totals(module), crate::flops::multiplicities(module, crate::flops::Runs::Trips));
}
