//! What the tests of the whole program share: running it in process and finding programs to run it on.
#![allow(dead_code, reason = "each test uses its own part")]

pub mod bounds;
pub mod changes;
pub mod corrupt;
pub mod fasop;
pub mod judged;
pub mod mutate;
pub mod other_inputs;
pub mod plant;
pub mod runs;

pub use phzc_testing::Random;

use flate2::read::GzDecoder;
use phzc_cost::Cluster;
use phzc_driver::{Interrupt, Io};
use phzc_ir::Module;
use phzc_passes::Context;
use std::ffi::OsString;
use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

/// What a run left behind.
#[derive(Debug)]
pub struct Outcome {
    pub stdout: String,
    pub stderr: String,
    pub code: u8,
}

/// Runs the program in process: no colours, no progress, a clock that stands still.
pub fn phzc(args: &[impl AsRef<str>], stdin: &[u8]) -> Outcome {
    let (mut stdin, mut stdout, mut stderr) = (stdin, Vec::new(), Vec::new());
    let mut io = Io {
        stdin: &mut stdin,
        stdout: &mut stdout,
        stderr: &mut stderr,
        color: false,
        progress: &|_| {},
        interrupt: &Interrupt::default(),
        clock: &|| 0.0,
    };
    let args = args.iter().map(|arg| OsString::from(arg.as_ref()));
    let code = phzc_driver::run([OsString::from("phzc")].into_iter().chain(args), &mut io);
    let text = |bytes| String::from_utf8(bytes).expect("phzc writes UTF-8");
    Outcome { stdout: text(stdout), stderr: text(stderr), code }
}

/// Runs the program on a file of results until so many bytes are there, when it is killed (SIGKILL), or until
/// it has ended.
pub fn killed(args: &[&str], results: &str, n_bytes: usize) {
    let mut run = Command::new(env!("CARGO_BIN_EXE_phzc"));
    let run = run.args(args).args(["-o", results]).current_dir(root());
    let mut run = run.stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("it starts");
    while run.try_wait().expect("its state").is_none() {
        if fs::metadata(results).is_ok_and(|it| it.len() as usize >= n_bytes) {
            run.kill().expect("it is running");
        }
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// The checkout.
pub fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// A fresh, empty directory for a test of this name.
pub fn scratch(name: &str) -> PathBuf {
    let dir = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    let _ = fs::remove_dir_all(&dir);
    fs::create_dir_all(&dir).expect("the target directory is writable");
    dir
}

/// Every file below `dir`, sorted.
pub fn files(dir: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut work = vec![dir.to_path_buf()];
    while let Some(dir) = work.pop() {
        for entry in fs::read_dir(&dir).into_iter().flatten().flatten() {
            let path = entry.path();
            if path.is_dir() { work.push(path) } else { found.push(path) }
        }
    }
    found.sort();
    found
}

/// The golden files.
pub fn golden() -> Vec<PathBuf> {
    with_extension(files(&root().join("tests/golden")), "ir")
}

/// The programs in `examples/`.
pub fn examples() -> Vec<PathBuf> {
    with_extension(files(&root().join("examples")), "ir")
}

/// The programs of the corpus beside the checkout, if it is there; says loudly when it is not.
pub fn corpus() -> Vec<PathBuf> {
    let found = hlo(&root().join("../shared/corpus"));
    if found.is_empty() {
        eprintln!("SKIPPED: no corpus at ../shared/corpus, its 0 programs are not read");
    }
    found
}

/// XLA's own benchmarks beside the checkout.
pub fn xla_bench() -> Vec<PathBuf> {
    hlo(&root().join("../shared/xla_bench"))
}

/// Training steps that are hard to prove, written by `tools/hard_programs.py`.
pub fn hard_programs() -> Vec<PathBuf> {
    hlo(&root().join("tests/hard_programs"))
}

/// A program's file name, without what says that it is HLO text.
pub fn stem(path: &Path) -> String {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    name.trim_end_matches(".gz").trim_end_matches(".hlo").to_owned()
}

fn hlo(dir: &Path) -> Vec<PathBuf> {
    let is_hlo = |path: &PathBuf| [".hlo", ".hlo.gz"].iter().any(|end| path.to_string_lossy().ends_with(end));
    files(dir).into_iter().filter(is_hlo).collect()
}

fn with_extension(files: Vec<PathBuf>, extension: &str) -> Vec<PathBuf> {
    files.into_iter().filter(|path| path.extension().is_some_and(|found| found == extension)).collect()
}

/// A program's text, unpacked.
pub fn program(path: &Path) -> String {
    let bytes = fs::read(path).expect("the file was listed");
    if !path.to_string_lossy().ends_with(".gz") {
        return String::from_utf8(bytes).expect("programs are UTF-8");
    }
    let mut text = String::new();
    GzDecoder::new(&bytes[..]).read_to_string(&mut text).expect("programs are UTF-8");
    text
}

/// The program after the passes of a pipeline.
///
/// # Errors
/// The first that a pass finds.
pub fn plan(original: &Module, pipeline: &str, cluster: &Cluster) -> phzc_ir::Result<Module> {
    let mut module = original.clone();
    let mut cx = Context::new(cluster);
    for step in &phzc_passes::pipeline(pipeline).expect("a legal pipeline").steps {
        step.run(&mut module, &mut cx)?;
    }
    Ok(module)
}

/// The most memory that a process (`self` or a number) has had, in MiB, where the system says so.
pub fn peak_mib(process: &str) -> Option<f64> {
    let status = fs::read_to_string(format!("/proc/{process}/status")).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    Some(line.trim().strip_suffix(" kB")?.parse::<f64>().ok()? / 1024.0)
}

/// CPU seconds of this process so far, its threads included; 0 where the system does not say.
pub fn cpu_secs() -> f64 {
    // Fields 14 and 15 of /proc/self/stat, in ticks of 10 ms; the second has the name, in brackets.
    let text = fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let fields = text.rsplit(") ").next().unwrap_or_default().split(' ');
    let ticks = fields.skip(11).take(2).filter_map(|field| field.parse::<f64>().ok());
    ticks.sum::<f64>() / 100.0
}
