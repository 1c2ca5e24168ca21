//! The `phzc` binary: hands the process' streams and arguments to the driver.

use phzc_driver::{Io, on_terminal, run};
use std::io::{IsTerminal, stderr, stdin, stdout};
use std::process::ExitCode;
use std::time::Instant;

/// Plans are made of many small vectors and strings: a fifth of the time goes to the system's allocator.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    let start = Instant::now();
    let is_terminal = stderr().is_terminal();
    let mut io = Io {
        stdin: &mut stdin().lock(),
        stdout: &mut stdout().lock(),
        stderr: &mut stderr(),
        color: is_terminal,
        progress: if is_terminal { &on_terminal } else { &|_| {} },
        clock: &|| start.elapsed().as_secs_f64(),
    };
    ExitCode::from(run(std::env::args_os(), &mut io))
}
