//! The sharding of the entry's tuple of outputs, as constraints of the outputs themselves.

use super::{CONSTRAINT, has_mesh};
use crate::attr::{Attr, Key, Value};
use crate::edit::Names;
use crate::module::{Instr, InstrId, Module, Payload};
use crate::opcode::Opcode;
use crate::sharding::{Sharding, Tiling, TilingKind};
use smallvec::SmallVec;
use std::collections::BTreeMap;

/// Makes what a root tuple's own sharding says of its elements, JAX's `out_shardings`, calls that constrain
/// these. Says whether there was one.
///
/// ```text
/// ROOT r = (f32[8], f32[8]) tuple(a, b), sharding={{devices=[8]<=[8]}, {unknown}}
///     →
/// a.out = f32[8] custom-call(a), custom_call_target="Sharding", sharding={devices=[8]<=[8]}
/// ROOT r = (f32[8], f32[8]) tuple(a.out, b)
/// ```
///
/// An output that takes a parameter's buffer, `reused` by its number, lies as that does: there the parameter
/// gets the sharding, unless it has one. Tuples inside of the root are left out.
pub fn constrain_outputs(module: &mut Module, reused: &BTreeMap<usize, InstrId>) -> bool {
    let is_meant = has_mesh(module);
    let entry = &mut module.comps[module.entry.index()];
    let root = entry.root;
    let tuple = &mut entry.instrs[root.index()];
    let Some(sharding) = tuple.sharding().filter(|_| tuple.op == Opcode::Tuple) else { return false };
    let tilings: Vec<Tiling> = sharding.leaves(tuple.shape.n_leaves()).into_iter().cloned().collect();
    tuple.attrs.retain(|attr| attr.key != Key::Sharding);
    let (operands, span) = (tuple.operands.clone(), tuple.span);
    let (mut names, mut calls) = (Names::of(entry), Vec::new());
    let mut tilings = tilings.into_iter();
    for (at, &operand) in operands.iter().enumerate() {
        let mut own = tilings.by_ref().take(entry.instr(operand).shape.n_leaves());
        let Some(tiling) = own.next() else { continue };
        own.for_each(drop);
        let is_said = is_meant && tiling.kind != TilingKind::Unknown;
        if let Some(param) = reused.get(&at).filter(|_| is_said) {
            let param = &mut entry.instrs[param.index()];
            if param.sharding().is_none() {
                param.set_attr(Key::Sharding, Value::Sharding(Box::new(Sharding::Single(tiling))));
            }
            continue;
        }
        let made = entry.instr(operand);
        let is_so = made.sharding() == Some(&Sharding::Single(tiling.clone()));
        if is_said && !is_so && made.shape.as_array().is_some_and(|array| !array.dims.is_empty()) {
            let name = names.derive(&made.name, "out");
            let call = Instr { span, ..constraint(made, name, operand, tiling) };
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
        let reused = BTreeMap::new();
        assert!(constrain_outputs(&mut module, &reused) && !constrain_outputs(&mut module, &reused));
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

    #[test]
    fn an_output_in_a_parameters_buffer_constrains_that() {
        let text = "HloModule m, num_partitions=8\n\nENTRY e {
              a = f32[64] parameter(0)
              b = f32[64] negate(a)
              t = (f32[64]) tuple(b)
              ROOT r = ((f32[64]), f32[64], f32[64]) tuple(t, b, b), \
                sharding={{replicated}, {devices=[8]<=[8]}, {replicated}}
            }\n";
        let mut module = parse(text).expect("legal");
        assert!(constrain_outputs(&mut module, &BTreeMap::from([(1, InstrId::new(0))])));
        let entry = module.entry();
        let said = |name: &str| {
            entry.instrs.iter().find(|it| &*it.name == name)?.sharding().map(ToString::to_string)
        };
        assert_eq!(said("a").as_deref(), Some("{devices=[8]<=[8]}"));
        assert_eq!(said("b.out").as_deref(), Some("{replicated}"));
    }
}
