//! A program with the signature of its unrolled plan: it joins the layers that it is given, and returns its
//! stacks layer by layer. That is all; its loops stay, so the plan is compared with what was written.

use phzc_ir::attr::SliceDim;
use phzc_ir::build::dimensions;
use phzc_ir::edit::Names;
use phzc_ir::unstacked::Unstacked;
use phzc_ir::{Attr, Diagnostic, Instr, InstrId, Key, Module, Opcode, Payload, Result, Shape, Value};

/// The program in the form of a plan; as it is where the plan has no note of layers.
///
/// # Errors
/// When the note says nothing, or what it names is no stack of the program.
pub(super) fn restacked(original: &Module, planned: &Module) -> Result<Module> {
    let error = |message: String| Diagnostic::error(message).help("give a plan that phzc made");
    let Some(unstacked) = Unstacked::of(planned).map_err(error)? else { return Ok(original.clone()) };
    let mut module = original.clone();
    let layers = Layers { names: Names::of(original.entry()), original, unstacked: &unstacked };
    let (instrs, root) = layers
        .rewritten()
        .ok_or_else(|| error("the plan's layers are not those of the program's stacks".to_owned()))?;
    let comp = &mut module.comps[original.entry.index()];
    (comp.instrs, comp.root) = (instrs, root);
    unstacked.rewrite_header(&mut module, original);
    Ok(module)
}

struct Layers<'m> {
    names: Names,
    original: &'m Module,
    unstacked: &'m Unstacked,
}

impl Layers<'_> {
    fn rewritten(mut self) -> Option<(Vec<Instr>, InstrId)> {
        let entry = self.original.entry();
        let (mut instrs, mut ids) = (Vec::new(), Vec::with_capacity(entry.instrs.len()));
        for (id, instr) in entry.iter() {
            let operands = instr.operands.iter().map(|id: &InstrId| ids[id.index()]).collect();
            let mut instr = Instr { operands, ..instr.clone() };
            match instr.param_number() {
                Some(number) => instr = self.joined(instr, number as usize, &mut instrs)?,
                None if id == entry.root => self.split_results(&mut instr, &mut instrs)?,
                None => {}
            }
            ids.push(InstrId::new(instrs.len()));
            instrs.push(instr);
        }
        Some((instrs, ids[entry.root.index()]))
    }

    /// A parameter, or its layers joined.
    fn joined(&mut self, instr: Instr, number: usize, instrs: &mut Vec<Instr>) -> Option<Instr> {
        let numbers = self.unstacked.params_of(number);
        if !self.unstacked.parameters.iter().any(|it| it.number == number) {
            return Some(Instr { payload: Payload::Parameter(numbers.start as u32), ..instr });
        }
        let shape = layer(&instr.shape, numbers.len())?;
        let first = instrs.len();
        for number in numbers.clone() {
            let name = self.names.derive(&instr.name, "layer");
            let payload = Payload::Parameter(number as u32);
            instrs.push(Instr { name, payload, shape: shape.clone(), ..instr.clone() });
        }
        let operands = (first..instrs.len()).map(InstrId::new).collect();
        let attrs = vec![dimensions(Key::Dimensions, &[0])];
        Some(Instr { op: Opcode::Concatenate, operands, attrs, payload: Payload::None, ..instr })
    }

    /// The root with the layers of stacks in their places.
    fn split_results(&mut self, root: &mut Instr, instrs: &mut Vec<Instr>) -> Option<()> {
        let results = std::mem::take(&mut root.operands);
        for (number, &result) in results.iter().enumerate() {
            let n_parts = self.unstacked.results_of(number).len();
            if !self.unstacked.results.iter().any(|it| it.number == number) {
                root.operands.push(result);
                continue;
            }
            let shape = layer(&root.shape.parts()[number], n_parts)?;
            for at in 0..n_parts {
                root.operands.push(InstrId::new(instrs.len()));
                instrs.push(self.sliced(result, &shape, at, root)?);
            }
        }
        let shapes = root.operands.iter().map(|id| instrs[id.index()].shape.clone()).collect();
        root.shape = Shape::Tuple(shapes);
        (root.op == Opcode::Tuple).then_some(())
    }

    fn sliced(&mut self, of: InstrId, shape: &Shape, at: usize, root: &Instr) -> Option<Instr> {
        let dims = &shape.as_array()?.dims;
        let slice = |(dim, &size): (usize, &i64)| {
            let start = if dim == 0 { at as i64 } else { 0 };
            SliceDim { start, limit: start + size, stride: 1 }
        };
        let slices = Value::Slices(dims.iter().enumerate().map(slice).collect());
        let name = self.names.derive(&root.name, "layer");
        let (op, operands) = (Opcode::Slice, [of].into_iter().collect());
        let attrs = vec![Attr { key: Key::Slice, value: slices }];
        Some(Instr { name, op, operands, shape: shape.clone(), attrs, ..Instr::nothing(root.span) })
    }
}

/// The shape of one layer of a stack, if it has so many.
fn layer(stack: &Shape, n_layers: usize) -> Option<Shape> {
    let array = stack.as_array().filter(|array| array.dims.first() == Some(&(n_layers as i64)))?;
    let dims: Vec<i64> = [1].iter().chain(&array.dims[1..]).copied().collect();
    Some(Shape::array(array.dtype, &dims))
}
