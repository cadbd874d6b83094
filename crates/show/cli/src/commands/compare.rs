//! `berth compare`.

use std::io::Write;

use berth_api::feature_gates::KubernetesVersion;
use berth_console::report::compare::report;
use berth_simulate::compare::{Side, compare};
use berth_simulate::what_if::topology_key;
use berth_terminal::output;
use berth_terminal::process::ExitStatus;
use berth_terminal::progress;

use super::cluster_args::{ClusterArgs, warn, warn_about};

use crate::error::CliError;
use crate::pictures::ReportOutputArgs;

/// Compare the placement under two configurations or versions, in two dumps or with two sets of manifests
///
/// Places the pending pods of both sides, and shows the pods with different nodes, the scores of these nodes side by side, the spread
/// of workloads over domains, and the utilization of resources. The second side is like the first, except for what the --to
/// arguments replace. The cluster is not changed.
#[derive(Debug, clap::Args)]
#[command(
    override_usage = "berth compare [OPTIONS] --dump FILE... --to-config FILE\n       berth compare [OPTIONS] --dump FILE... --to-dump FILE...\n       \
                      berth compare [OPTIONS] -f FILE... --to-filename FILE...",
    after_help = "\
Examples:
  berth compare --dump cluster.yaml --to-config packing.yaml --replace-all
  berth compare --dump monday.yaml --to-dump friday.yaml
  berth compare --dump cluster.yaml --kubernetes 1.37 --against 1.38 --replace-all
  berth compare --dump cluster.yaml -f app-v1/ --to-filename app-v2/ -o json

Exit codes: 0 no pod is placed differently, 1 some pods are, 2 invalid input or usage

See docs/compare.md for the fields of -o json."
)]
pub struct Args {
    #[command(flatten)]
    cluster: ClusterArgs,
    /// KubeSchedulerConfiguration of the second side
    #[arg(long, value_name = "FILE", required_unless_present_any = ["to_dump", "to_filename", "against"])]
    to_config: Option<String>,
    /// Version of Kubernetes of the second side
    #[arg(long, value_name = "VERSION")]
    against: Option<KubernetesVersion>,
    /// Objects of the cluster on the second side; can be repeated
    #[arg(long, value_name = "FILE", num_args = 1)]
    to_dump: Vec<String>,
    /// The files of the second side instead of those of -f
    #[arg(long, value_name = "FILE", num_args = 1..)]
    to_filename: Vec<String>,
    /// Place all pods again on both sides: by priority, then by namespace and name
    ///
    /// Pods of DaemonSets and pods that are being deleted keep their nodes. Pods of workloads that are not in the input come before
    /// others of their priority, in input order.
    #[arg(long)]
    replace_all: bool,
    /// Node label whose values are the domains: zone, region, node, or a label key
    #[arg(long, value_name = "KEY", default_value = "zone")]
    topology_key: String,
    #[command(flatten)]
    output: ReportOutputArgs,
}

pub fn run(args: &Args) -> Result<ExitStatus, CliError> {
    let mut other = args.cluster.with(&args.to_dump, &args.to_filename, args.to_config.as_deref());
    if let Some(version) = args.against {
        let (of_version, lost) = other.of_version(version);
        warn(&lost);
        other = of_version;
    }
    let mut from = side(&args.cluster, args.replace_all)?;
    let mut to = side(&other, args.replace_all)?;
    let comparison = compare(&mut from, &mut to, &topology_key(&args.topology_key));
    let mut out = output::stdout();
    args.output.write(&mut out, &comparison, "Comparison of placements", &report(&comparison))?;
    out.flush()?;
    Ok(if comparison.moved.is_empty() { ExitStatus::Success } else { ExitStatus::Failure })
}

fn side(cluster: &ClusterArgs, replace_all: bool) -> Result<Side, CliError> {
    let inventory = cluster.inventory(false)?;
    cluster.check(&inventory)?;
    let options = cluster.options(cluster.settings(&inventory)?);
    let placing = progress::of_pods();
    let side = Side::new(inventory, options, replace_all, |n_placed, n_pending| {
        placing.set_length(n_pending as u64);
        placing.set_position(n_placed as u64);
    })?;
    placing.finish_and_clear();
    warn_about(side.simulation());
    Ok(side)
}
