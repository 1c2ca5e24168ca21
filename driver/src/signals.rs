//! Ctrl-C (SIGINT): ends the search with its best plan, or the process.

use phzc_io::interrupt::Interrupt;
use signal_hook::consts::SIGINT;
use signal_hook::flag::{register, register_conditional_shutdown};
use std::io;
use std::sync::Arc;

/// The exit code of a process that SIGINT ended, as shells have it: 128 and the signal's number.
const EXIT_CODE: i32 = 130;

/// From now on Ctrl-C asks for the end of the search. Where that has no plan yet, and the second time, it
/// ends the process at once; files are whole or not there, whenever that is.
///
/// # Errors
/// The system allows no handler: Ctrl-C ends the process, as without one.
pub fn on_ctrl_c(interrupt: &Interrupt) -> io::Result<()> {
    // The handlers run in this order: the last one arms the first for the next signal.
    register_conditional_shutdown(SIGINT, EXIT_CODE, Arc::clone(&interrupt.ends_process))?;
    register(SIGINT, Arc::clone(&interrupt.is_requested))?;
    register(SIGINT, Arc::clone(&interrupt.ends_process))?;
    Ok(())
}
