//! `phzc completions`, `phzc man`: what a shell and `man` are told of the command line.

use crate::args::Args;
use clap::{Command, CommandFactory};
use clap_complete::Shell;
use clap_mangen::Man;
use phzc_io::{Failure, Io, files, write_stdout};
use std::path::{Path, PathBuf};

/// The arguments of `phzc completions`.
#[derive(Debug, clap::Args)]
pub struct CompletionsArgs {
    /// The shell; put what is printed where it looks for completions
    #[arg(value_name = "SHELL")]
    pub shell: Shell,
}

/// The arguments of `phzc man`.
#[derive(Debug, clap::Args)]
pub struct ManArgs {
    /// Directory for a page of each subcommand and family too [default: phzc's own page, to standard output]
    #[arg(short, long, value_name = "DIR")]
    pub output: Option<PathBuf>,
}

/// Prints a shell's completions.
pub(crate) fn completions(args: &CompletionsArgs, io: &mut Io) -> Result<(), Failure> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut Args::command(), "phzc", &mut script);
    write_stdout(io, &String::from_utf8_lossy(&script))
}

/// Prints or writes pages of the manual.
pub(crate) fn man(args: &ManArgs, io: &mut Io) -> Result<(), Failure> {
    let Some(dir) = &args.output else { return write_stdout(io, &page(Args::command())) };
    files::make_dir(dir)?;
    pages("phzc", "phzc", &Args::command(), dir)
}

/// Writes the page of a command, and those of its subcommands, to which it refers.
fn pages(name: &str, typed: &str, command: &Command, dir: &Path) -> Result<(), Failure> {
    let own = command.clone().display_name(name).bin_name(typed);
    files::write(&dir.join(format!("{name}.1")), &page(own))?;
    command.get_subcommands().try_for_each(|it| {
        pages(&format!("{name}-{}", it.get_name()), &format!("{typed} {}", it.get_name()), it, dir)
    })
}

/// A page in roff; no date, so that it is the same every day.
fn page(command: Command) -> String {
    let mut text = Vec::new();
    let title = command.get_display_name().unwrap_or("phzc").to_uppercase();
    // `help` has no page.
    let _ = Man::new(command.disable_help_subcommand(true)).title(title).date("").render(&mut text);
    String::from_utf8_lossy(&text).into_owned()
}
