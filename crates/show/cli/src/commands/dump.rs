//! `berth dump`.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};

use berth_api::syntax::format::counted;
use berth_terminal::output;
use berth_terminal::process::ExitStatus;
use berth_terminal::progress;

use super::cluster_args::warn;
use super::connection_args::ConnectionArgs;
use crate::error::CliError;
use crate::live::LiveCluster;

/// Save everything that Berth reads of a cluster in one file
///
/// Reads the cluster that kubectl uses, as --live does, and writes its objects as a List in JSON, compressed with gzip, for --dump and
/// for up --from: nodes, namespaces, pods, workloads, autoscalers, budgets, quotas, limit ranges, classes, volumes, claims, devices, pod
/// groups, services, network policies and placement policies. Secrets and ConfigMaps are not read. The cluster is not changed.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  berth dump
  berth dump --context staging staging.json.gz
  berth explain --dump cluster.json.gz team-a/web-0

Exit codes: 0 written, 2 the cluster cannot be read, or the file cannot be written")]
pub struct Args {
    /// The file to write; - for standard output
    #[arg(value_name = "FILE", default_value = "cluster.json.gz")]
    file: PathBuf,
    #[command(flatten)]
    connection: ConnectionArgs,
}

pub fn run(args: &Args) -> Result<ExitStatus, CliError> {
    let progress = progress::of_objects();
    let dump = LiveCluster(args.connection.options()).dump(&progress)?;
    progress.finish_and_clear();
    warn(&dump.warnings);
    if args.file == Path::new("-") {
        let mut out = std::io::stdout().lock();
        out.write_all(&dump.bytes)?;
        out.flush()?;
        return Ok(ExitStatus::Success);
    }
    let file = args.file.display();
    fs::write(&args.file, &dump.bytes)
        .map_err(|error| CliError::Usage(format!("{file}: cannot write the dump: {error}")))?;
    output::note(&format!("{file}: {}", counted(dump.n_objects, "object")));
    Ok(ExitStatus::Success)
}
