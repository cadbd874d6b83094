//! `berth completions`.

use std::io::Write;

use berth_terminal::output;
use berth_terminal::process::ExitStatus;
use clap::CommandFactory;
use clap_complete::Shell;

use crate::error::CliError;

/// Print a shell completion script
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  berth completions bash > ~/.local/share/bash-completion/completions/berth
  berth completions zsh > \"${fpath[1]}/_berth\"
  berth completions fish > ~/.config/fish/completions/berth.fish")]
pub struct Args {
    /// Name of the shell
    shell: Shell,
}

/// Prints the script that completes the arguments of `C`.
pub fn run<C: CommandFactory>(args: &Args) -> Result<ExitStatus, CliError> {
    // The generator panics on write errors such as a closed pipe, so it writes to memory.
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut C::command(), "berth", &mut script);
    let mut out = output::stdout();
    out.write_all(&script)?;
    out.flush()?;
    Ok(ExitStatus::Success)
}
