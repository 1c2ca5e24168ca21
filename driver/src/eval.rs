//! `phzc eval`: runs a program with the reference evaluator and prints what came out.

use crate::args::EvalArgs;
use crate::npz;
use comfy_table::Table;
use comfy_table::presets::NOTHING;
use phzc_frontends::{Program, Weights, load};
use phzc_io::render::render;
use phzc_io::{Failure, Io, files, write_stdout};
use phzc_ir::border;
use phzc_ir::eval::{Array, Options, Value, eval, filled, inputs_within, n_elided};
use phzc_ir::{Diagnostic, Module, Shape, verify};

/// Does what the command line says.
pub(crate) fn run(args: &EvalArgs, io: &mut Io) -> Result<(), Failure> {
    args.output.iter().chain(&args.write_inputs).try_for_each(|path| files::check_parent(path))?;
    let Program { module, source, weights } = load(&args.model, &args.read, io)?;
    match evaluated(args, &module, weights) {
        Ok((results, notes)) => {
            let _ = io.stderr.write_all(render(None, &notes, io.color).as_bytes());
            deliver(args, &results, io)
        }
        Err(errors) => Err(Failure { code: 1, source: Some(source), errors }),
    }
}

/// The results per device, and remarks.
fn evaluated(
    args: &EvalArgs,
    module: &Module,
    weights: Option<Weights>,
) -> Result<(Vec<Value>, Vec<Diagnostic>), Vec<Diagnostic>> {
    let errors = verify(module);
    if !errors.is_empty() {
        return Err(errors);
    }
    ran(args, module, weights).map_err(|error| vec![error])
}

fn ran(
    args: &EvalArgs,
    module: &Module,
    weights: Option<Weights>,
) -> phzc_ir::Result<(Vec<Value>, Vec<Diagnostic>)> {
    let weights = weights.map_or(Ok(Vec::new()), |read| read())?;
    let options = Options { fill_elided: args.fill_elided.then_some(args.seed), ..Options::default() };
    let given = if args.input.is_empty() {
        seeded(args, module, weights, &options)?
    } else {
        read_inputs(args, module, weights)?
    };
    if let Some(path) = &args.write_inputs {
        let leaves: Vec<&Array> = given.iter().flat_map(Value::leaves).collect();
        files::write_bytes(path, &npz::write(&leaves)?)?;
    }
    if args.inputs_only {
        return Ok((Vec::new(), Vec::new()));
    }
    let n_devices = match args.devices {
        // What regions of one device's part compute, their devices do together.
        1 if border::has_regions(module) => border::n_devices(module),
        n_devices => n_devices as usize,
    };
    let per_device = vec![given; n_devices];
    let results = eval(module, &per_device, &options)?;
    Ok((results, remarks(args, module)))
}

/// Inputs that follow from the seed, but for the weights.
fn seeded(
    args: &EvalArgs,
    module: &Module,
    weights: Vec<Array>,
    options: &Options,
) -> phzc_ir::Result<Vec<Value>> {
    let mut given = inputs_within(module, args.seed, options)?;
    let first = given.len().saturating_sub(weights.len());
    given.truncate(first);
    given.extend(weights.into_iter().map(Value::Array));
    Ok(given)
}

fn remarks(args: &EvalArgs, module: &Module) -> Vec<Diagnostic> {
    let n = n_elided(module);
    let made_up =
        || Diagnostic::warning(format!("the elements of {n} constants are made up: the text left them out"));
    (n > 0 && args.fill_elided).then(made_up).into_iter().collect()
}

/// The arrays of all files, put together as the parameters are; the program's own weights where the files end
/// before them.
fn read_inputs(args: &EvalArgs, module: &Module, weights: Vec<Array>) -> phzc_ir::Result<Vec<Value>> {
    let entry = module.entry();
    let shapes: Vec<&Shape> = entry.params().into_iter().map(|id| &entry.instr(id).shape).collect();
    let leaves: Vec<&Shape> = shapes.iter().flat_map(|shape| shape.leaves()).collect();
    let wanted: Vec<_> = leaves.iter().filter_map(|leaf| leaf.as_array()).map(|shape| shape.dtype).collect();
    let mut found = Vec::new();
    for path in &args.input {
        let bytes = files::read_bytes(path, files::MAX_ARRAY_BYTES)?;
        let name = path.display().to_string();
        npz::read(&name, &bytes, &wanted, &mut found)?;
    }
    if found.len() + weights.len() == wanted.len() {
        found.extend(weights);
    }
    if found.len() != wanted.len() {
        let (wanted, found) = (wanted.len(), found.len());
        return Err(Diagnostic::error(format!("the program takes {wanted} arrays, the files hold {found}")));
    }
    let mut arrays = found.into_iter();
    Ok(shapes.into_iter().map(|shape| filled(shape, &mut arrays)).collect())
}

fn deliver(args: &EvalArgs, results: &[Value], io: &mut Io) -> Result<(), Failure> {
    if let (Some(path), Some(first)) = (&args.output, results.first()) {
        files::write_bytes(path, &npz::write(&first.leaves())?)?;
    }
    let mut text = String::new();
    for (device, value) in results.iter().enumerate() {
        if results.len() > 1 {
            text += &format!("device {device}\n");
        }
        text += &table(&value.leaves());
        text += &format!("digest {:016x}\n", value.digest());
    }
    write_stdout(io, &text)
}

/// One line per result.
fn table(leaves: &[&Array]) -> String {
    let mut table = Table::new();
    table.load_style(NOTHING).set_header(["output", "shape", "min", "max", "mean", "nan", "digest"]);
    for (index, leaf) in leaves.iter().enumerate() {
        table.add_row(row(index, leaf));
    }
    let lines = table.to_string();
    lines.lines().map(|line| format!("{}\n", line.trim())).collect()
}

fn row(index: usize, leaf: &Array) -> [String; 7] {
    let values = leaf.to_f64_vec();
    let numbers = || values.iter().copied().filter(|x| !x.is_nan());
    let n_nan = values.len() - numbers().count();
    let shown = |x: f64| if numbers().next().is_none() { "-".to_owned() } else { format!("{x:.6e}") };
    let mean = numbers().sum::<f64>() / (values.len() - n_nan) as f64;
    [
        index.to_string(),
        leaf.type_text(),
        shown(numbers().fold(f64::INFINITY, f64::min)),
        shown(numbers().fold(f64::NEG_INFINITY, f64::max)),
        shown(mean),
        n_nan.to_string(),
        format!("{:016x}", leaf.digest()),
    ]
}
