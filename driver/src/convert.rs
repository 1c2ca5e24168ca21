//! `phzc convert`: reads a program in any format and writes it as HLO text.

use crate::args::ConvertArgs;
use crate::npz;
use phzc_frontends::{Program, load};
use phzc_io::{Failure, Io, deliver, files};
use phzc_ir::eval::Array;
use phzc_ir::{Diagnostic, Module, print, verify};
use phzc_passes::inline;
use phzc_passes::verify::LEAST;
use phzc_passes::verify::shrink::{Cut, shrink};

/// Does what the command line says.
pub(crate) fn run(args: &ConvertArgs, io: &mut Io) -> Result<(), Failure> {
    args.output.iter().chain(&args.write_weights).try_for_each(|path| files::check_parent(path))?;
    let Program { mut module, source, weights } = load(&args.model, &args.read, io)?;
    let errors = verify(&module);
    if !errors.is_empty() {
        return Err(Failure { code: 1, source: Some(source), errors });
    }
    if let Some(path) = &args.write_weights {
        let none = || Diagnostic::error(format!("`{}` holds no weights", args.model.display()));
        let arrays = weights.ok_or_else(none)?()?;
        files::write_bytes(path, &npz::write_from(first_weight(&module, &arrays), &borrowed(&arrays))?)?;
    }
    if args.shrink {
        module = smaller(module)?;
    }
    deliver(args.output.as_deref(), &print(&module), io)
}

/// The same instructions with smaller sizes.
fn smaller(mut module: Module) -> phzc_ir::Result<Module> {
    inline::flatten(&mut module)?;
    let mut shrunk = shrink(&[&module], |_| Cut::default(), LEAST);
    Ok(shrunk.swap_remove(0))
}

fn borrowed(arrays: &[Array]) -> Vec<&Array> {
    arrays.iter().collect()
}

/// The number of the first parameter that these arrays are values of.
fn first_weight(module: &Module, arrays: &[Array]) -> usize {
    module.entry().params().len().saturating_sub(arrays.len())
}
