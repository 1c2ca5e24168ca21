//! The `phzc` binary: hands the process' streams and arguments to the driver.

use phzc_driver::{Interrupt, Io, on_ctrl_c, on_terminal, run};
use std::io::{IsTerminal, stderr, stdin, stdout};
use std::process::ExitCode;
use std::time::Instant;

/// Plans are made of many small vectors and strings: a fifth of the time goes to the system's allocator.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// mimalloc's `mi_option_purge_delay`, which its bindings leave without a name.
const PURGE_DELAY: std::ffi::c_int = 15;

/// Keeps memory once the system has given it: texts come and go, and new memory has to be cleared first.
#[expect(unsafe_code, reason = "a foreign function that sets a number")]
fn keep_memory() {
    // SAFETY: the allocator may be told so at any time.
    unsafe { libmimalloc_sys::mi_option_set(PURGE_DELAY, -1) }
}

fn main() -> ExitCode {
    keep_memory();
    let start = Instant::now();
    let is_terminal = stderr().is_terminal();
    let interrupt = Interrupt::default();
    // Without a handler Ctrl-C ends the process, as it does anyway while there is no plan.
    let _ = on_ctrl_c(&interrupt);
    let mut io = Io {
        stdin: &mut stdin().lock(),
        stdout: &mut stdout().lock(),
        stderr: &mut stderr(),
        color: is_terminal,
        progress: if is_terminal { &on_terminal } else { &|_| {} },
        interrupt: &interrupt,
        clock: &|| start.elapsed().as_secs_f64(),
    };
    ExitCode::from(run(std::env::args_os(), &mut io))
}
