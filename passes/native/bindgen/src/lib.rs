//! The part of `bindgen` that highs-sys calls, answering with checked-in HiGHS 1.15 bindings so that libclang is not needed.

use std::fmt::Debug;
use std::path::{Path, PathBuf};

const BINDINGS: &str = include_str!("highs_1_15.rs");
const MAJOR_MINOR: [&str; 2] = ["1", "15"];

/// Hooks that highs-sys implements; none is called, because no header is read by a compiler.
pub mod callbacks {
    /// Same method names as the real trait; the defaults do nothing.
    pub trait ParseCallbacks: std::fmt::Debug {
        /// A header given to the builder.
        fn header_file(&self, _filename: &str) {}
        /// A header included by another.
        fn include_file(&self, _filename: &str) {}
        /// An environment variable that was read.
        fn read_env_var(&self, _key: &str) {}
    }
}

/// Collects the include folders; everything else it is told has no effect on the bindings.
#[derive(Debug, Default)]
pub struct Builder {
    include_dirs: Vec<PathBuf>,
}

impl Builder {
    /// Keeps `-I<dir>`, ignores other arguments.
    pub fn clang_arg(mut self, arg: impl Into<String>) -> Self {
        self.include_dirs.extend(arg.into().strip_prefix("-I").map(PathBuf::from));
        self
    }

    /// Ignored: the bindings hold no layout tests.
    pub fn layout_tests(self, _on: bool) -> Self {
        self
    }

    /// Ignored: the bindings are those of HiGHS's C interface.
    pub fn header(self, _header: impl Into<String>) -> Self {
        self
    }

    /// Ignored: no header is read.
    pub fn parse_callbacks(self, _callbacks: Box<dyn callbacks::ParseCallbacks>) -> Self {
        self
    }

    /// Checks that the HiGHS on the include path is the one the bindings were made from.
    pub fn generate(self) -> Result<Bindings, String> {
        let config = self.include_dirs.iter().map(|dir| dir.join("HConfig.h")).find(|path| path.exists());
        let path = config.ok_or_else(|| format!("no HConfig.h in {:?}", self.include_dirs))?;
        check_version(&path).map(|()| Bindings)
    }
}

/// The checked-in bindings.
#[derive(Debug)]
pub struct Bindings;

impl Bindings {
    /// Writes the bindings to `path`, less the `//!` line, which may not stand where highs-sys includes them.
    pub fn write_to_file(&self, path: impl AsRef<Path>) -> std::io::Result<()> {
        let (_, items) = BINDINGS.split_once('\n').expect("the file opens with a doc line");
        std::fs::write(path, items)
    }
}

fn check_version(config: &Path) -> Result<(), String> {
    let text = std::fs::read_to_string(config).map_err(|error| format!("{}: {error}", config.display()))?;
    let found = ["MAJOR", "MINOR"].map(|part| version_part(&text, part));
    let wide = text.lines().any(|line| line.trim() == "#define HIGHSINT64");
    if found == MAJOR_MINOR.map(Some) && !wide {
        return Ok(());
    }
    Err(format!(
        "the bindings in passes/native/bindgen are for HiGHS {} with 32-bit indices, but {} says {found:?}{}; \
         passes/native/README.md tells how to make them again",
        MAJOR_MINOR.join("."),
        config.display(),
        if wide { " with 64-bit indices" } else { "" },
    ))
}

fn version_part<'t>(text: &'t str, part: &str) -> Option<&'t str> {
    let key = format!("HIGHS_VERSION_{part}");
    text.lines().find_map(|line| line.strip_prefix("#define ")?.strip_prefix(&key)).map(str::trim)
}
