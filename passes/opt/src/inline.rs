//! `inline`: splices called computations and fusions into their callers.
//!
//! ```text
//! y = f32[8] call(x), to_apply=f        →    y = f32[8] negate(x)     // f's root takes the name
//! ```
//!
//! A computation that several calls share can hold one layout only, so XLA inlines calls before it
//! partitions and phzc does too. A loop body or a branch that several loops share is copied for each.
//! Reducers and comparators stay as they are.

use indexmap::{IndexMap, IndexSet};
use phzc_ir::ops::control::{callee, control_comps, control_keys};
use phzc_ir::{Attr, CompId, Computation, Diagnostic, Instr, InstrId, Key, Module, Opcode, Result, Value};
use phzc_pass::pass::{Changed, Context, Options, Pass};

/// The pass.
pub static PASS: Pass = Pass {
    name: "inline",
    summary: "splices calls and fusions into their callers; gives every loop a body of its own",
    options: &[],
    run,
};

/// More instructions than this after inlining is refused: nested calls can double at every level.
const MAX_INSTRS: usize = 20_000_000;

fn run(module: &mut Module, _: &Options, _: &mut Context) -> Result<Changed> {
    flatten(module)
}

/// Inlines every call and fusion that the entry reaches.
///
/// # Errors
/// When the result would have more than 20 million instructions.
pub fn flatten(module: &mut Module) -> Result<Changed> {
    if !needs_flattening(module) {
        return Ok(Changed::No);
    }
    let mut flattener = Flattener {
        old: module,
        comps: Vec::new(),
        shared: IndexMap::new(),
        names: IndexSet::new(),
        n_instrs: 0,
    };
    let entry = flattener.body(module.entry)?;
    let comps = flattener.comps;
    module.comps = comps;
    module.entry = entry;
    Ok(Changed::Yes)
}

fn needs_flattening(module: &Module) -> bool {
    let mut seen = IndexSet::new();
    let mut todo = vec![module.entry];
    while let Some(comp) = todo.pop() {
        for instr in &module.comp(comp).instrs {
            if callee(instr).is_some() {
                return true;
            }
            for body in control_comps(instr) {
                if !seen.insert(body) {
                    return true;
                }
                todo.push(body);
            }
        }
    }
    false
}

struct Flattener<'a> {
    old: &'a Module,
    comps: Vec<Computation>,
    /// Per-element computations, copied once.
    shared: IndexMap<CompId, CompId>,
    names: IndexSet<Box<str>>,
    n_instrs: usize,
}

/// A computation while it grows.
#[derive(Default)]
struct Body {
    instrs: Vec<Instr>,
    names: IndexSet<Box<str>>,
    /// Results of spliced computations that are tuples; those that nobody reads as a whole go.
    tuples: Vec<InstrId>,
}

impl Body {
    /// What an element of a spliced computation's result is; it needs no instruction unless it has a layout.
    fn element(&self, instr: &Instr, operands: &[InstrId]) -> Option<InstrId> {
        let is_plain = instr.op == Opcode::GetTupleElement && instr.sharding().is_none();
        let &tuple = operands.first().filter(|tuple| is_plain && self.tuples.contains(tuple))?;
        self.instrs[tuple.index()].operands.get(instr.int(Key::Index)? as usize).copied()
    }

    /// Removes the tuples that nobody reads any more; last to first, for they may nest.
    fn drop_tuples(&self, comp: &mut Computation) {
        let mut n_readers = vec![0; comp.instrs.len()];
        comp.instrs.iter().flat_map(|instr| &instr.operands).for_each(|id| n_readers[id.index()] += 1);
        n_readers[comp.root.index()] += 1;
        let mut keep = vec![true; comp.instrs.len()];
        for &tuple in self.tuples.iter().rev() {
            if n_readers[tuple.index()] == 0 && std::mem::replace(&mut keep[tuple.index()], false) {
                comp.instr(tuple).operands.iter().for_each(|id| n_readers[id.index()] -= 1);
            }
        }
        comp.retain(&keep);
    }
}

impl Flattener<'_> {
    /// A copy of a control-flow computation with everything spliced in.
    fn body(&mut self, id: CompId) -> Result<CompId> {
        let comp = self.old.comp(id);
        let mut body = Body::default();
        body.names.extend(comp.instrs.iter().map(|instr| instr.name.clone()));
        let root = self.splice(id, None, "", &mut body)?;
        let instrs = std::mem::take(&mut body.instrs);
        let id = self.push(comp, instrs, root);
        body.drop_tuples(&mut self.comps[id.index()]);
        Ok(id)
    }

    fn push(&mut self, comp: &Computation, instrs: Vec<Instr>, root: InstrId) -> CompId {
        let name = fresh(&self.names, &comp.name);
        self.names.insert(name.clone());
        self.comps.push(Computation { name, instrs, root, thread: comp.thread.clone() });
        CompId::new(self.comps.len() - 1)
    }

    /// Appends `id`'s instructions to `body`; parameters stand for `args` when there are any.
    fn splice(
        &mut self,
        id: CompId,
        args: Option<&[InstrId]>,
        prefix: &str,
        body: &mut Body,
    ) -> Result<InstrId> {
        let comp = self.old.comp(id);
        self.n_instrs += comp.instrs.len();
        if self.n_instrs > MAX_INSTRS {
            let error =
                Diagnostic::error(format!("inlining `{}` gives over {MAX_INSTRS} instructions", comp.name));
            return Err(error.help("calls that call each other twice at every level grow without bound"));
        }
        let mut map: Vec<InstrId> = Vec::with_capacity(comp.instrs.len());
        for (old_id, instr) in comp.iter() {
            let operands: Vec<InstrId> = instr.operands.iter().map(|operand| map[operand.index()]).collect();
            let name =
                if args.is_some() && old_id == comp.root { prefix.into() } else { join(prefix, &instr.name) };
            let new_id = match (args, instr.param_number(), callee(instr)) {
                (Some(args), Some(number), _) => args[number as usize],
                (_, _, Some(callee)) => self.splice(callee, Some(&operands), &name, body)?,
                _ if let Some(element) = body.element(instr, &operands) => element,
                _ => self.copy(instr, &operands, name, args.is_some(), body)?,
            };
            map.push(new_id);
        }
        let root = map[comp.root.index()];
        if args.is_some() && body.instrs[root.index()].op == Opcode::Tuple {
            body.tuples.push(root);
        }
        Ok(root)
    }

    fn copy(
        &mut self,
        instr: &Instr,
        operands: &[InstrId],
        name: Box<str>,
        is_spliced: bool,
        body: &mut Body,
    ) -> Result<InstrId> {
        let mut copy = instr.clone();
        copy.operands = operands.into();
        copy.name = if is_spliced { fresh(&body.names, &name) } else { name };
        body.names.insert(copy.name.clone());
        copy.attrs = self.attrs(instr)?;
        body.instrs.push(copy);
        Ok(InstrId::new(body.instrs.len() - 1))
    }

    /// The attributes, with computations renamed to their copies.
    fn attrs(&mut self, instr: &Instr) -> Result<Vec<Attr>> {
        let control = control_keys(instr.op);
        let mut attrs = Vec::with_capacity(instr.attrs.len());
        for attr in &instr.attrs {
            let is_control = control.contains(&attr.key);
            let value = match &attr.value {
                Value::Comp(comp) => Value::Comp(self.comp(*comp, is_control)?),
                Value::Comps(comps) => Value::Comps(
                    comps.iter().map(|&comp| self.comp(comp, is_control)).collect::<Result<_>>()?,
                ),
                other => other.clone(),
            };
            attrs.push(Attr { key: attr.key.clone(), value });
        }
        Ok(attrs)
    }

    fn comp(&mut self, id: CompId, is_control: bool) -> Result<CompId> {
        if is_control {
            return self.body(id);
        }
        if let Some(&copy) = self.shared.get(&id) {
            return Ok(copy);
        }
        let comp = self.old.comp(id);
        let mut instrs = comp.instrs.clone();
        for (new, old) in instrs.iter_mut().zip(&comp.instrs) {
            new.attrs = self.attrs(old)?;
        }
        let copy = self.push(comp, instrs, comp.root);
        self.shared.insert(id, copy);
        Ok(copy)
    }
}

fn join(prefix: &str, name: &str) -> Box<str> {
    if prefix.is_empty() { name.into() } else { format!("{prefix}.{name}").into() }
}

/// `name`, or `name.1`, `name.2`, … if it is taken.
fn fresh(taken: &IndexSet<Box<str>>, name: &str) -> Box<str> {
    if !taken.contains(name) {
        return name.into();
    }
    let candidates = (1u32..).map(|number| format!("{name}.{number}").into_boxed_str());
    candidates.into_iter().find(|candidate| !taken.contains(candidate)).expect("names do not run out")
}

#[cfg(test)]
mod tests {
    use crate::testing::check;
    use insta::assert_snapshot;

    #[test]
    fn calls_in_calls_are_spliced_and_their_instructions_named_after_them() {
        let text = "HloModule m
g { p = f32[8] parameter(0) ROOT n = f32[8] negate(p) }
f { p = f32[8] parameter(0) a = f32[8] call(p), to_apply=g ROOT b = f32[8] tanh(a) }
ENTRY e { x = f32[8] parameter(0) y = f32[8] call(x), to_apply=f ROOT z = f32[8] call(y), to_apply=f }";
        assert_snapshot!(check("inline", text), @r#"
        HloModule m

        ENTRY e {
          x = f32[8] parameter(0)
          y.a = f32[8] negate(x)
          y.1 = f32[8] tanh(y.a)
          z.a = f32[8] negate(y.1)
          ROOT z.1 = f32[8] tanh(z.a)
        }
        "#);
    }

    #[test]
    fn an_element_of_a_call_s_result_is_what_the_call_made() {
        let text = "HloModule m
f { p = f32[8] parameter(0) a = f32[8] negate(p) b = f32[8] tanh(p) ROOT t = (f32[8], f32[8]) tuple(a, b) }
ENTRY e { x = f32[8] parameter(0) t = (f32[8], f32[8]) call(x), to_apply=f ROOT z = f32[8] get-tuple-element(t), index=1 }";
        assert_snapshot!(check("inline", text), @r#"
        HloModule m

        ENTRY e {
          x = f32[8] parameter(0)
          t.a = f32[8] negate(x)
          ROOT t.b = f32[8] tanh(x)
        }
        "#);
    }

    #[test]
    fn every_loop_has_a_body_of_its_own() {
        let text = "HloModule m
b { p = f32[8] parameter(0) ROOT n = f32[8] negate(p) }
c { p = f32[8] parameter(0) ROOT k = pred[] constant(false) }
ENTRY e { x = f32[8] parameter(0) y = f32[8] while(x), condition=c, body=b ROOT z = f32[8] while(y), condition=c, body=b }";
        assert_snapshot!(check("inline", text), @r#"
        HloModule m

        c {
          p = f32[8] parameter(0)
          ROOT k = pred[] constant(false)
        }

        b {
          p = f32[8] parameter(0)
          ROOT n = f32[8] negate(p)
        }

        c.1 {
          p = f32[8] parameter(0)
          ROOT k = pred[] constant(false)
        }

        b.1 {
          p = f32[8] parameter(0)
          ROOT n = f32[8] negate(p)
        }

        ENTRY e {
          x = f32[8] parameter(0)
          y = f32[8] while(x), condition=c, body=b
          ROOT z = f32[8] while(y), condition=c.1, body=b.1
        }
        "#);
    }

    #[test]
    fn reducers_are_left_alone() {
        let text = "HloModule m
add { p = f32[] parameter(0) q = f32[] parameter(1) ROOT r = f32[] add(p, q) }
ENTRY e { x = f32[8] parameter(0) z = f32[] constant(0) a = f32[] reduce(x, z), dimensions={0}, to_apply=add ROOT b = f32[] negate(a) }";
        assert_eq!(check("inline", text), check("dce", text));
    }
}
