//! `berth version`.

use std::io::Write;

use berth_terminal::output::{self, OutputArgs};
use berth_terminal::process::ExitStatus;
use serde::Serialize;

use super::feature_gate_args::KubernetesArgs;
use crate::error::CliError;

/// Print the version of Berth and the version of Kubernetes that it decides as
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
    /// The Kubernetes version that Berth decides as: of --kubernetes, or the default.
    kubernetes_version: &'static str,
}

pub fn run(args: &Args, kubernetes: KubernetesArgs) -> Result<ExitStatus, CliError> {
    let version = Version {
        version: env!("CARGO_PKG_VERSION"),
        git_commit: option_env!("BERTH_GIT_COMMIT"),
        kubernetes_version: kubernetes.version(None).name(),
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
