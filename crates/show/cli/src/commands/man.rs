//! `berth man`.

use std::fs;
use std::io::Write;
use std::path::PathBuf;

use berth_terminal::output;
use berth_terminal::process::ExitStatus;
use clap::CommandFactory;

use crate::error::CliError;

/// Print the man page of berth, or write the man pages of all commands
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  berth man | man -l -
  berth man ~/.local/share/man/man1 && man berth-up

Exit codes: 0 success, 2 invalid usage, or the directory cannot be written")]
pub struct Args {
    /// Write one page for each command (berth.1, berth-up.1, ...) to this directory
    #[arg(value_name = "DIR")]
    directory: Option<PathBuf>,
}

/// Writes the pages of `C`.
pub fn run<C: CommandFactory>(args: &Args) -> Result<ExitStatus, CliError> {
    // Without pages for `berth help`.
    let command = C::command().disable_help_subcommand(true);
    match &args.directory {
        Some(directory) => {
            let written =
                fs::create_dir_all(directory).and_then(|()| clap_mangen::generate_to(command, directory));
            written.map_err(|error| CliError::File { path: directory.clone(), error })?;
        }
        None => {
            let mut out = output::stdout();
            clap_mangen::Man::new(command).render(&mut out)?;
            out.flush()?;
        }
    }
    Ok(ExitStatus::Success)
}
