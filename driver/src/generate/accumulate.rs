//! Gradient accumulation: a step over a batch as a loop over microbatches whose gradients add up.

use phzc_ir::build::{Builder, Loop};
use phzc_ir::{CompId, DType, InstrId, Module, Shape, notes};

/// What the loop does with a parameter of the program of one microbatch.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Role {
    /// The same for all.
    Fixed,
    /// A part of it for each.
    Batch,
    /// The state of random numbers, another for each.
    Random,
    /// Handed from one to the next: this result of the one before.
    State(usize),
}

struct Param {
    name: String,
    shape: Shape,
    role: Role,
}

/// A result; gradients have a note.
struct Output {
    shape: Shape,
    note: Option<String>,
}

/// Makes of the program of one microbatch that of `n`: its loss and gradients are the means of theirs, summed
/// in 32 bits or more.
///
/// The program returns its loss, the new values of its states (parameters called `state.…`), its gradients.
/// What is called `batch.…` is split along its first dimension.
pub fn accumulate(mut module: Module, n: i64) -> Module {
    let (params, outputs) = (parameters(&module), outputs(&mut module));
    let (mut b, callee) = Builder::around(module);
    b.module().comps[callee.index()].name = "microbatch".into();
    let given: Vec<InstrId> = params.iter().map(|param| b.parameter(&param.name, param.whole(n))).collect();
    let state_of = |at: usize| params.iter().position(|param| param.role == Role::State(at));
    let initial = |at: usize, b: &mut Builder| match state_of(at) {
        Some(state) => given[state],
        None => zeros(b, &outputs[at].shape),
    };
    let mut state: Vec<InstrId> = (0..outputs.len()).map(|at| initial(at, &mut b)).collect();
    state.extend(&given);
    let open = b.begin_loop(n, &state);
    let made = run(&mut b, callee, &params, &open);
    let (sums, inputs) = open.values.split_at(outputs.len());
    let mut next: Vec<InstrId> = (0..outputs.len())
        .map(|at| if state_of(at).is_some() { made[at] } else { added(&mut b, sums[at], made[at]) })
        .collect();
    next.extend(inputs);
    let mut left = b.end_loop(open.clone(), &next);
    left.truncate(outputs.len());
    for (at, output) in outputs.iter().enumerate().filter(|&(at, _)| state_of(at).is_none()) {
        left[at] = b.scale(left[at], 1.0 / n as f64);
        if let Some(note) = &output.note {
            b.instr_mut(left[at]).set_note(notes::GRAD, note);
        }
    }
    let root = b.tuple(&left);
    b.finish(root)
}

/// The results of one trip's microbatch.
fn run(b: &mut Builder, callee: CompId, params: &[Param], open: &Loop) -> Vec<InstrId> {
    let (sums, inputs) = open.values.split_at(open.values.len() - params.len());
    let mut arg = |(param, &input): (&Param, &InstrId)| match param.role {
        Role::State(at) => sums[at],
        Role::Fixed => input,
        Role::Batch => part(b, input, &param.shape, open.trip),
        Role::Random => another(b, input, open.trip),
    };
    let args: Vec<InstrId> = params.iter().zip(inputs).map(&mut arg).collect();
    let made = b.call(callee, &args);
    b.elements(made)
}

/// The trip's part along the first dimension.
fn part(b: &mut Builder, input: InstrId, shape: &Shape, trip: InstrId) -> InstrId {
    let sizes = &shape.as_array().expect("data are arrays").dims;
    let (size, zero) = (b.scalar(DType::S32, sizes[0] as f64), b.scalar(DType::S32, 0.0));
    let start = b.mul(trip, size);
    let starts: Vec<InstrId> = (0..sizes.len()).map(|dim| if dim == 0 { start } else { zero }).collect();
    b.dynamic_slice(input, &starts, sizes)
}

/// The state of random numbers plus the trip's number.
fn another(b: &mut Builder, state: InstrId, trip: InstrId) -> InstrId {
    let trip = b.convert(trip, b.dtype(state));
    let trip = b.broadcast_like(trip, state, &[]);
    b.add(state, trip)
}

fn zeros(b: &mut Builder, shape: &Shape) -> InstrId {
    let array = shape.as_array().expect("a result is an array");
    let dtype = if array.dtype.bits() < 32 { DType::F32 } else { array.dtype };
    b.full(dtype, &array.dims, 0.0)
}

fn added(b: &mut Builder, sum: InstrId, more: InstrId) -> InstrId {
    let more = b.convert(more, b.dtype(sum));
    b.add(sum, more)
}

impl Param {
    /// The parameter's shape in the whole step.
    fn whole(&self, n: i64) -> Shape {
        match (self.role, self.shape.as_array()) {
            (Role::Batch, Some(array)) => {
                let mut dims = array.dims.clone();
                dims[0] *= n;
                Shape::array(array.dtype, &dims)
            }
            _ => self.shape.clone(),
        }
    }
}

fn parameters(module: &Module) -> Vec<Param> {
    let entry = module.entry();
    // The loss is the first result, the states follow.
    let mut next_state = 1;
    let mut role = |name: &str, shape: &Shape| {
        let is_random = shape.as_array().is_some_and(|array| array.dtype == DType::U64);
        if name.starts_with("state.") {
            next_state += 1;
            return Role::State(next_state - 1);
        }
        match name.starts_with("batch.") {
            true if is_random => Role::Random,
            true => Role::Batch,
            false => Role::Fixed,
        }
    };
    let instrs = entry.params().into_iter().map(|id| entry.instr(id));
    instrs
        .map(|instr| {
            let (name, shape) = (instr.name.to_string(), instr.shape.clone());
            Param { role: role(&name, &shape), name, shape }
        })
        .collect()
}

/// The results, without their notes: these move to the means.
fn outputs(module: &mut Module) -> Vec<Output> {
    let comp = &mut module.comps[module.entry.index()];
    let parts = comp.root().operands.clone();
    let mut output = |id: &InstrId| {
        let instr = &mut comp.instrs[id.index()];
        let note = instr.note(notes::GRAD).map(str::to_owned);
        instr.remove_note(notes::GRAD);
        Output { shape: instr.shape.clone(), note }
    };
    parts.iter().map(&mut output).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use phzc_frontends::zoo::{FAMILIES, Settings};
    use phzc_ir::eval::{Options, inputs, run};

    fn losses(name: &str, batch: i64, n: i64) -> f64 {
        let family = FAMILIES.iter().find(|family| family.name == name).expect("a family");
        let settings = Settings::plain(batch / n);
        let module = family.forward(family.sizes[0].values, settings).expect("dimensions that fit");
        let module = if n > 1 { accumulate(module, n) } else { module };
        assert_eq!(phzc_ir::verify(&module), [], "{}", phzc_ir::print(&module));
        let given = inputs(&module, 1).expect("fixed shapes");
        run(&module, &given, &Options::default()).expect("it runs").leaves()[0].to_f64_vec()[0]
    }

    #[test]
    fn the_mean_of_microbatches_is_the_batch_s() {
        for name in ["mlp", "gpt", "t5"] {
            let (one, four) = (losses(name, 8, 1), losses(name, 8, 4));
            assert!((one - four).abs() < 1e-5 * one.abs(), "{name}: {one} and {four}");
        }
    }
}
