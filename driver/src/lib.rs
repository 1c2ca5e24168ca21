//! The `phzc` command: arguments in, files read, passes run, files and tables written.
//!
//! [`run`] is the whole program but for the process around it, so that tests run it in process.
//! It reads no environment variable; files are touched in [`phzc_io::files`] alone.

mod alternatives;
pub mod arch;
pub mod args;
mod cluster;
mod compare;
mod controls;
mod convert;
mod diff;
mod dumps;
pub mod emit;
mod eval;
mod explain;
pub mod export;
pub mod fleet;
mod generate;
mod given;
mod help;
mod hints;
mod npz;
mod page;
mod planned;
pub mod price;
mod profile;
mod programs;
mod remarks;
mod replan;
mod sample;
mod session;
mod shell;
mod signals;
mod summary;
mod verify;
mod what_if;

pub use phzc_frontends as frontend;
pub use phzc_io::interrupt::Interrupt;
pub use phzc_io::progress::on_terminal;
pub use phzc_io::render::Source;
pub use phzc_io::{Failure, Io};
pub use signals::on_ctrl_c;

pub use phzc_lab::{calibrate, choose, devices, phaze_plan, profile_plan, sweep, validate};

use args::Args;
use std::ffi::OsString;

/// Runs the program; `args` starts with its name. Returns the exit code: 0, 1, or 2 for a wrong command line.
pub fn run(args: impl IntoIterator<Item = OsString>, io: &mut Io) -> u8 {
    match Args::read(args) {
        Ok(args) => finish(session::run(&args, io), io),
        Err(error) => {
            let text = error.render();
            let text = if io.color { text.ansi().to_string() } else { text.to_string() };
            if error.use_stderr() {
                let _ = io.stderr.write_all(text.as_bytes());
                2
            } else {
                finish(phzc_io::write_stdout(io, &text), io)
            }
        }
    }
}

/// Reports a failure, if it is one.
fn finish(result: Result<(), Failure>, io: &mut Io) -> u8 {
    let Err(failure) = result else { return 0 };
    let text = phzc_io::render::render(failure.source.as_ref(), &failure.errors, io.color);
    // Nothing is left to be done when stderr does not take the message.
    let _ = io.stderr.write_all(text.as_bytes());
    failure.code
}
