//! The program around a gradient: its new results, its header, and loops whose results are read one by one.

use super::choice::Param;
use super::scope::Scope;
use phzc_ir::build::Builder;
use phzc_ir::edit::Names;
use phzc_ir::{Attr, Computation, Instr, InstrId, Key, Module, Opcode, Payload, Value, notes};

/// The gradient of a parameter, noted as such; zeros if nothing depends on it.
pub(super) fn gradient(b: &mut Builder, scope: &mut Scope, param: &Param) -> InstrId {
    let found = scope.take(b, (param.id, 0));
    let ct = found.unwrap_or_else(|| b.full_like(param.id, 0.0));
    let is_free = ct.index() >= scope.n_forward && b.instr(ct).note(notes::GRAD).is_none();
    let gradient = if is_free && b.instr(ct).op != Opcode::Constant {
        ct
    } else {
        b.op(Opcode::Copy, &[ct], Vec::new())
    };
    b.instr_mut(gradient).set_note(notes::GRAD, &param.number.to_string());
    gradient
}

/// The old results and then the gradients.
pub(super) fn root(b: &mut Builder, root: InstrId, gradients: &[(u32, InstrId)]) -> InstrId {
    let old = match b.instr(root).op {
        Opcode::Tuple => b.instr(root).operands.to_vec(),
        _ if b.shape(root).as_array().is_some() => vec![root],
        _ => b.elements(root),
    };
    let new = gradients.iter().map(|(_, id)| *id);
    let all: Vec<InstrId> = old.into_iter().chain(new).collect();
    b.tuple(&all)
}

/// What a header says of the old results goes, or is said of the new ones.
pub(super) fn header(module: &mut Module) {
    module.attrs.retain(|attr| {
        let is_per_result =
            matches!(&*attr.key, "entry_computation_layout" | "allow_spmd_sharding_propagation_to_output");
        !is_per_result
    });
    if let Some(alias) = module.attr("input_output_alias").filter(|alias| alias.contains("{}: (")) {
        let alias = alias.replacen("{}: (", "{0}: (", 1);
        module.set_attr("input_output_alias", alias);
    }
}

/// Makes every reader of a loop's whole state read a tuple of its elements instead.
pub(super) fn expose_loops(module: &mut Module) {
    module.comps.iter_mut().for_each(expose_in);
}

fn expose_in(comp: &mut Computation) {
    let is_loop = |id: InstrId| comp.instrs[id.index()].op == Opcode::While;
    let reads_whole =
        |instr: &Instr| instr.op != Opcode::GetTupleElement && instr.operands.iter().any(|&id| is_loop(id));
    let is_any = comp.instrs.iter().any(reads_whole) || is_loop(comp.root);
    if !is_any {
        return;
    }
    let loops: Vec<InstrId> =
        comp.iter().filter(|(_, instr)| instr.op == Opcode::While).map(|it| it.0).collect();
    let mut names = Names::of(comp);
    for id in loops {
        let tuple = tuple_of(comp, &mut names, id);
        let n = tuple.index();
        for instr in comp.instrs[..n].iter_mut().filter(|instr| instr.op != Opcode::GetTupleElement) {
            instr.operands.iter_mut().filter(|operand| **operand == id).for_each(|operand| *operand = tuple);
        }
        if comp.root == id {
            comp.root = tuple;
        }
    }
    comp.put_definitions_first();
}

/// Appends a tuple of the elements of a value.
fn tuple_of(comp: &mut Computation, names: &mut Names, id: InstrId) -> InstrId {
    let whole = comp.instr(id).clone();
    let mut parts = Vec::new();
    for (index, part) in whole.shape.parts().iter().enumerate() {
        let attrs = vec![Attr { key: Key::Index, value: Value::Int(index as i64) }];
        comp.instrs.push(Instr {
            name: names.derive(&whole.name, &index.to_string()),
            op: Opcode::GetTupleElement,
            operands: [id].into_iter().collect(),
            shape: part.clone(),
            payload: Payload::None,
            attrs,
            span: whole.span,
        });
        parts.push(InstrId::new(comp.instrs.len() - 1));
    }
    let (name, operands) = (names.derive(&whole.name, "all"), parts.into_iter().collect());
    comp.instrs.push(Instr { name, op: Opcode::Tuple, operands, attrs: Vec::new(), ..whole });
    InstrId::new(comp.instrs.len() - 1)
}
