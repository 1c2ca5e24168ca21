//! Modules, their attributes and the notes of instructions.

use super::*;
use crate::attr::Value;
use crate::parse;

const TEXT: &str = "HloModule m, a=1

f { y = f32[2] parameter(1) x = f32[2] parameter(0) ROOT z = f32[2] add(x, y) }

ENTRY e { x = f32[2] parameter(0) ROOT z = f32[2] call(x, x), to_apply=f }
";

#[test]
fn parameters_come_in_the_order_of_their_numbers() {
    let module = parse(TEXT).expect("legal");
    let params = module.comps[0].params();
    assert_eq!(params, [InstrId(1), InstrId(0)]);
    assert_eq!(module.comps[0].instr(params[0]).param_number(), Some(0));
    assert_eq!(module.entry().root().param_number(), None);
    assert_eq!(module.n_instrs(), 5);
}

#[test]
fn header_attributes_are_set_in_place_or_at_the_end() {
    let mut module = parse(TEXT).expect("legal");
    module.set_attr("b", "2");
    module.set_attr("a", "3");
    let attrs: Vec<(&str, &str)> = module.attrs.iter().map(|attr| (&*attr.key, &*attr.value)).collect();
    assert_eq!(attrs, [("a", "3"), ("b", "2")]);
    assert_eq!((module.attr("b"), module.attr("c")), (Some("2"), None));
}

#[test]
fn a_module_without_its_entry_has_all_else() {
    let module = parse(TEXT).expect("legal");
    let bare = module.without_entry();
    assert_eq!(bare.comps.iter().map(|comp| comp.instrs.len()).collect::<Vec<_>>(), [3, 0]);
    assert_eq!((&*bare.name, bare.entry, bare.attr("a")), ("m", module.entry, Some("1")));
}

#[test]
fn attributes_of_instructions_are_set_in_place_or_at_the_end() {
    let mut module = parse(TEXT).expect("legal");
    let call = &mut module.comps[1].instrs[1];
    assert_eq!(call.called().collect::<Vec<_>>(), [CompId::new(0)]);
    call.set_attr(Key::Index, Value::Int(3));
    call.set_attr(Key::Index, Value::Int(4));
    assert_eq!((call.attrs.len(), call.int(Key::Index), call.ints(Key::Index)), (2, Some(4), &[4][..]));
    assert_eq!((call.comp(Key::Index), call.word(Key::Index), call.int(Key::ToApply)), (None, None, None));
}

#[test]
fn notes_are_written_changed_and_removed() {
    let mut module = parse(TEXT).expect("legal");
    let call = &mut module.comps[1].instrs[1];
    assert_eq!(call.note("stage"), None);
    call.set_note("stage", "1");
    call.set_note("block", "7");
    call.set_note("stage", "2");
    assert_eq!((call.note("stage"), call.note("block"), call.note("other")), (Some("2"), Some("7"), None));
    let text = crate::print(&module);
    assert!(text.contains("frontend_attributes={stage=\"2\",block=\"7\"}"), "{text}");
    let call = &mut module.comps[1].instrs[1];
    call.remove_note("stage");
    assert_eq!((call.note("stage"), call.note("block")), (None, Some("7")));
    call.remove_note("block");
    assert_eq!(call.attrs.len(), 1);
}
