//! `phzc completions`, `phzc man`: what a shell and `man` are told of the command line.

use crate::args::Args;
use clap::{Command, CommandFactory};
use clap_complete::Shell;
use clap_mangen::Man;
use phzc_io::{Failure, Io, files, write_stdout};
use std::path::PathBuf;

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
    /// Directory for a page of each subcommand too [default: phzc's own page, to standard output]
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
    let own = Args::command();
    let pages = own.get_subcommands().map(|it| (format!("phzc-{}", it.get_name()), it));
    for (name, command) in pages.chain([("phzc".to_owned(), &own)]) {
        let path = dir.join(format!("{name}.1"));
        let typed = name.replacen('-', " ", 1);
        files::write(&path, &page(command.clone().display_name(&name).bin_name(typed)))?;
    }
    Ok(())
}

/// A page in roff; no date, so that it is the same every day.
fn page(command: Command) -> String {
    let mut text = Vec::new();
    let title = command.get_display_name().unwrap_or("phzc").to_uppercase();
    let _ = Man::new(command).title(title).date("").render(&mut text);
    String::from_utf8_lossy(&text).into_owned()
}
