//! The sharding of the entry's tuple of outputs, as constraints of the outputs themselves.

use super::{CONSTRAINT, has_mesh};
use crate::attr::{Attr, Key, Value};
use crate::edit::Names;
use crate::module::{Instr, InstrId, Module, Payload};
use crate::opcode::Opcode;
use crate::sharding::{Sharding, Tiling, TilingKind};
use smallvec::SmallVec;

/// Makes what a root tuple's own sharding says of its elements, JAX's `out_shardings`, calls that constrain
/// these. Says whether there was one.
///
/// ```text
/// ROOT r = (f32[8], f32[8]) tuple(a, b), sharding={{devices=[8]<=[8]}, {unknown}}
///     →
/// a.out = f32[8] custom-call(a), custom_call_target="Sharding", sharding={devices=[8]<=[8]}
/// ROOT r = (f32[8], f32[8]) tuple(a.out, b)
/// ```
pub fn constrain_outputs(module: &mut Module) -> bool {
    let is_meant = has_mesh(module);
    let entry = &mut module.comps[module.entry.index()];
    let root = entry.root;
    let tuple = &mut entry.instrs[root.index()];
    let Some(sharding) = tuple.sharding().filter(|_| tuple.op == Opcode::Tuple) else { return false };
    let tilings: Vec<Tiling> = match sharding {
        Sharding::Tuple(tilings) => tilings.clone(),
        Sharding::Single(tiling) => vec![tiling.clone(); tuple.operands.len()],
    };
    tuple.attrs.retain(|attr| attr.key != Key::Sharding);
    let is_flat = tuple.operands.len() == tilings.len();
    let operands = tuple.operands.clone();
    let (mut names, mut calls) = (Names::of(entry), Vec::new());
    for (at, (tiling, &operand)) in tilings.into_iter().zip(&operands).enumerate() {
        let made = entry.instr(operand);
        let is_said = is_meant && is_flat && tiling.kind != TilingKind::Unknown;
        let is_so = made.sharding() == Some(&Sharding::Single(tiling.clone()));
        if is_said && !is_so && made.shape.as_array().is_some_and(|array| !array.dims.is_empty()) {
            let call = constraint(made, names.derive(&made.name, "out"), operand, tiling);
            calls.push((root, call));
            let id = InstrId::new(entry.instrs.len() + calls.len() - 1);
            entry.instrs[root.index()].operands[at] = id;
        }
    }
    entry.insert_before(calls);
    true
}

/// A call that says how `made` is to be sharded.
fn constraint(made: &Instr, name: Box<str>, operand: InstrId, tiling: Tiling) -> Instr {
    let attr = |key, value| Attr { key, value };
    Instr {
        name,
        op: Opcode::CustomCall,
        operands: SmallVec::from_slice(&[operand]),
        shape: made.shape.clone(),
        payload: Payload::None,
        attrs: vec![
            attr(Key::CustomCallTarget, Value::Str(CONSTRAINT.into())),
            attr(Key::Sharding, Value::Sharding(Box::new(Sharding::Single(tiling)))),
        ],
        span: made.span,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parse;

    /// The tuple's operands, then what is said of those that are new.
    fn constrained(sharding: &str) -> Vec<String> {
        let text = format!(
            "HloModule m, num_partitions=8\n\nENTRY e {{
              a = f32[64] parameter(0)
              s = f32[] parameter(1)
              ROOT r = (f32[64], f32[], f32[64]) tuple(a, s, a), sharding={sharding}
            }}\n"
        );
        let mut module = parse(&text).expect("legal");
        assert!(constrain_outputs(&mut module) && !constrain_outputs(&mut module));
        assert!(crate::verify(&module).is_empty());
        let entry = module.entry();
        let read: Vec<&str> = entry.root().operands.iter().map(|&id| &*entry.instr(id).name).collect();
        let said = entry.instrs.iter().filter_map(|instr| Some(instr.sharding()?.to_string()));
        std::iter::once(read.join(" ")).chain(said).collect()
    }

    #[test]
    fn each_output_gets_the_constraint_that_the_tuple_has_for_it() {
        let split = "{devices=[8]<=[8]}";
        let all = constrained(&format!("{{{split}, {{replicated}}, {{replicated}}}}"));
        assert_eq!(all, ["a.out s a.out1", split, "{replicated}"]);
        assert_eq!(constrained(&format!("{{{{unknown}}, {{replicated}}, {split}}}")), ["a s a.out", split]);
        assert_eq!(constrained("{replicated}"), ["a.out s a.out1", "{replicated}", "{replicated}"]);
    }
}
