//! `berth version`.

use std::io::Write;

use berth_api::KUBERNETES_VERSION;
use berth_terminal::output::{self, OutputArgs};
use berth_terminal::process::ExitStatus;
use serde::Serialize;

use crate::error::CliError;

/// Print the version of Berth and the Kubernetes version that it follows
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  berth version
  berth version -o json

Exit codes: 0 success, 2 invalid usage")]
pub struct Args {
    #[command(flatten)]
    output: OutputArgs,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Version {
    version: &'static str,
    /// The commit that was built; none if the sources were not in a Git repository.
    git_commit: Option<&'static str>,
    /// The Kubernetes version whose API and decisions the engine follows.
    kubernetes_version: &'static str,
}

pub fn run(args: &Args) -> Result<ExitStatus, CliError> {
    let version = Version {
        version: env!("CARGO_PKG_VERSION"),
        git_commit: option_env!("BERTH_GIT_COMMIT"),
        kubernetes_version: KUBERNETES_VERSION,
    };
    let mut out = output::stdout();
    args.output.write(&mut out, &version, |out| {
        writeln!(out, "Version:     {}", version.version)?;
        writeln!(out, "Git commit:  {}", version.git_commit.unwrap_or("unknown"))?;
        writeln!(out, "Kubernetes:  {}", version.kubernetes_version)
    })?;
    out.flush()?;
    Ok(ExitStatus::Success)
}
