//! `berth record`.

use berth_api::feature_gates::FeatureGates;
use berth_engine::Settings;
use berth_input::config::SchedulerConfig;
use berth_scheduler::RecordOptions;
use berth_terminal::process::ExitStatus;
use berth_terminal::runtime;

use super::connection_args::ConnectionArgs;
use super::feature_gate_args::KubernetesArgs;
use super::record_args::bytes;
use super::rules_args::{config_in_file, resolve};
use crate::cluster::log::LogArgs;
use crate::error::CliError;

/// Record the decisions of kube-scheduler by watching a cluster
///
/// Records which node each pod gets, and why a pod is unschedulable, together with the state of the cluster that the API server
/// reported until then. The cluster is not changed. `berth replay` compares the decisions with Berth's, and
/// `berth explain --recording` explains pods at any recorded time.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  berth record --live recordings/
  berth record --live --context staging --config kube-scheduler.yaml recordings/
  berth replay recordings/

Exit codes: 0 stopped by SIGINT or SIGTERM, 2 invalid input or usage

See docs/recordings.md for the format and for the limits of watching from outside.")]
pub struct Args {
    /// Directory of the recordings; it must not be used by another process
    #[arg(value_name = "DIR")]
    directory: std::path::PathBuf,
    /// Watch the cluster that kubectl uses
    #[arg(long, required = true)]
    live: bool,
    #[command(flatten)]
    connection: ConnectionArgs,
    /// The KubeSchedulerConfiguration v1 of the scheduler [default: the defaults of kube-scheduler]
    #[arg(long, value_name = "FILE")]
    config: Option<String>,
    /// Maximum size of the recordings in the directory; the oldest are deleted
    #[arg(long, value_name = "SIZE", default_value = "1Gi", value_parser = bytes)]
    record_limit: u64,
    #[command(flatten)]
    log: LogArgs,
}

/// Records until SIGINT or SIGTERM.
pub fn run(args: &Args, kubernetes: KubernetesArgs) -> Result<ExitStatus, CliError> {
    args.log.start();
    let feature_gates = FeatureGates::from(kubernetes.version(None));
    let config = args
        .config
        .as_ref()
        .map(|path| config_in_file(path).and_then(|file| resolve(&file, false, feature_gates)))
        .transpose()?;
    let config = config.unwrap_or_else(|| SchedulerConfig { feature_gates, ..SchedulerConfig::default() });
    let settings = Settings::strict_v1(config);
    let record = RecordOptions { directory: args.directory.clone(), max_bytes: args.record_limit };
    runtime::run(async move |stop| {
        let config = args.connection.options().config().await?;
        berth_scheduler::observe(config, settings, &record, stop).await?;
        Ok(ExitStatus::Success)
    })
}
