//! Reading programs: one line per format in `FRONTENDS`, one file per format beside this one.

mod element;
mod hlo;
pub mod hlo_proto;
mod onnx;
mod own_kernels;
pub mod stablehlo;
mod torch_export;
pub mod zoo;

use phzc_io::render::Source;
use phzc_io::{Failure, Io, files};
use phzc_ir::eval::Array;
use phzc_ir::loops::give_trips;
use phzc_ir::{Diagnostic, Module};
use std::path::{Path, PathBuf};

/// How a program is read, whatever is done with it.
#[derive(Debug, Default, clap::Args)]
pub struct ReadArgs {
    /// Size of a dimension that the program only names: `batch=8`
    #[arg(long = "dim", value_name = "NAME=SIZE", value_parser = named_size)]
    pub dims: Vec<(String, i64)>,
    /// How often a loop runs, where the program does not say: `while.3=100`
    #[arg(long = "trips", value_name = "LOOP=N", value_parser = named_count)]
    pub trips: Vec<(String, u64)>,
    /// Table of kernels that the program calls: their loops and their work (docs/kernels.md)
    #[arg(long = "kernels", value_name = "FILE")]
    pub kernels: Vec<PathBuf>,
}

/// A format that programs come in.
struct Frontend {
    /// As messages call it.
    name: &'static str,
    /// Whether a file of these (unpacked) bytes at this path is in the format.
    recognises: fn(&[u8], &Path) -> bool,
    reader: Reader,
}

/// How a format is read.
enum Reader {
    /// From text; the diagnostics' spans point into it.
    Text(fn(&str) -> phzc_ir::Result<Module>),
    /// From bytes.
    Binary(fn(Vec<u8>, &Options) -> phzc_ir::Result<Binary>),
}

/// What bytes hold: a program, and the arrays that come with it.
type Binary = (Module, Option<Weights>);

/// All formats; the first that recognises a file reads it. HLO text, the last, takes everything.
const FRONTENDS: &[Frontend] = &[
    Frontend {
        name: "torch.export",
        recognises: torch_export::recognises,
        reader: Reader::Binary(torch_export::read),
    },
    Frontend { name: "ONNX", recognises: onnx::recognises, reader: Reader::Binary(onnx::read) },
    Frontend {
        name: "HLO protobuf",
        recognises: hlo_proto::recognises,
        reader: Reader::Binary(|bytes, _| hlo_proto::read(&bytes).map(|module| (module, None))),
    },
    Frontend {
        name: "StableHLO text",
        recognises: |bytes, _| stablehlo::recognises(bytes),
        reader: Reader::Text(stablehlo::read),
    },
    Frontend { name: "HLO text", recognises: |_, _| true, reader: Reader::Text(hlo::read) },
];

/// What a reader may want to know besides the bytes.
#[derive(Clone, Copy, Debug)]
pub struct Options<'a> {
    /// The file, for what lies beside it; `-` is standard input.
    pub path: &'a Path,
    /// Sizes of dimensions that the file only names.
    pub dims: &'a [(String, i64)],
}

/// Reads the arrays that come with a program: the values of its last parameters.
pub type Weights = Box<dyn FnOnce() -> phzc_ir::Result<Vec<Array>>>;

/// A program that was read.
pub struct Program {
    /// The program.
    pub module: Module,
    /// The text that spans point into; empty for a binary format.
    pub source: Source,
    /// Of formats that hold arrays.
    pub weights: Option<Weights>,
}

/// Reads the program of a command line, in whatever format it is.
///
/// # Errors
/// A file that cannot be read; text or bytes that are no program.
pub fn load(path: &Path, args: &ReadArgs, io: &mut Io) -> Result<Program, Failure> {
    let bytes = read(path, io)?;
    let options = Options { path, dims: &args.dims };
    let is_known = |frontend: &&Frontend| (frontend.recognises)(&bytes, path);
    let frontend = FRONTENDS.iter().find(is_known).ok_or_else(|| unknown(path))?;
    let mut source = Source { name: shown(path), text: String::new() };
    let read = match frontend.reader {
        Reader::Text(_) if !args.dims.is_empty() => return Err(no_names(frontend.name).into()),
        Reader::Text(read) => {
            source.text = files::text(bytes, &quoted(path), files::MAX_TEXT_BYTES)?;
            read(&source.text).map(|module| (module, None))
        }
        Reader::Binary(read) => read(bytes, &options).map_err(|error| named(path, error)),
    };
    match read {
        Ok((mut module, weights)) => {
            let mut given = args.trips.iter();
            given.try_for_each(|(name, n_trips)| give_trips(&mut module, name, *n_trips))?;
            own_kernels::describe(&mut module, &args.kernels)?;
            Ok(Program { module, source, weights })
        }
        Err(error) => Err(Failure::new(Some(source), error)),
    }
}

fn no_names(format: &str) -> Diagnostic {
    Diagnostic::error(format!("`--dim` is for formats that name dimensions; {format} does not"))
}

/// An error without a place in a text, with the file that it is about.
fn named(path: &Path, error: Diagnostic) -> Diagnostic {
    Diagnostic { message: format!("{}: {}", quoted(path), error.message), ..error }
}

fn read(path: &Path, io: &mut Io) -> phzc_ir::Result<Vec<u8>> {
    let limit = files::MAX_BINARY_BYTES;
    if path == Path::new("-") {
        return files::read_from(&mut *io.stdin, &quoted(path), limit);
    }
    // Of an archive its reader reads what it needs: the weights may be larger than the memory.
    let first = files::first(path, torch_export::MAGIC.len())?;
    if first == torch_export::MAGIC { Ok(first) } else { files::read_unpacked(path, limit) }
}

fn unknown(path: &Path) -> Diagnostic {
    let known: Vec<&str> = FRONTENDS.iter().map(|frontend| frontend.name).collect();
    let error = Diagnostic::error(format!("{} is in no known format", quoted(path)));
    error.help(format!("known: {}", known.join(", ")))
}

/// A file in the header of a source excerpt.
fn shown(path: &Path) -> String {
    if path == Path::new("-") { "<stdin>".to_owned() } else { path.display().to_string() }
}

/// A file in a sentence.
fn quoted(path: &Path) -> String {
    if path == Path::new("-") { "standard input".to_owned() } else { format!("`{}`", path.display()) }
}

/// The name of a loop, and how often it runs.
fn named_count(text: &str) -> Result<(String, u64), String> {
    let parts = text.rsplit_once('=').filter(|(name, _)| !name.is_empty());
    let count = parts.and_then(|(name, n)| Some((name.trim_start_matches('%').to_owned(), n.parse().ok()?)));
    count.ok_or_else(|| "expected a loop and how often it runs, such as while.3=100".to_owned())
}

/// A name and a size from 1 up.
fn named_size(text: &str) -> Result<(String, i64), String> {
    let parts = text.split_once('=').filter(|(name, _)| !name.is_empty());
    let size = parts.and_then(|(name, size)| Some((name.to_owned(), size.parse().ok()?)));
    size.filter(|(_, size)| *size > 0).ok_or_else(|| "expected a name and a size, such as batch=8".to_owned())
}
