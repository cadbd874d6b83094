//! `berth apiserver`.

use std::io::Write as _;
use std::path::Path;

use berth_apiserver::{ApiServer, Lost};
use berth_client::connect;
use berth_terminal::output;
use berth_terminal::process::ExitStatus;
use berth_terminal::runtime;
use futures::FutureExt;

use super::admission_args::{self, AdmissionArgs};
use super::feature_gate_args::FeatureGateArgs;
use super::provisioner_args::ProvisionerArgs;
use super::server_args::ServerArgs;
use crate::cluster::components::Components;
use crate::cluster::log::LogArgs;
use crate::error::CliError;

/// Run the embedded Kubernetes API server and its controllers
///
/// Prints the shell command that makes kubectl use it. It has no nodes and no scheduler: add them with `berth kubelet` and
/// `berth scheduler`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  berth apiserver
  berth apiserver --port 6443 --data-dir ~/.local/share/berth
  berth apiserver --kubeconfig-out ./kubeconfig --controllers=false -v
  berth apiserver --recover --data-dir ~/.local/share/berth

Exit codes: 0 stopped by SIGINT or SIGTERM, 2 failed to start or to continue; with --recover: 0 nothing is lost, 1 some data \
is lost, 2 nothing could be read")]
pub struct Args {
    #[command(flatten)]
    server: ServerArgs,
    #[command(flatten)]
    admission: AdmissionArgs,
    /// Run the controllers for Deployments, ReplicaSets, StatefulSets, DaemonSets, Jobs, volumes, node lifecycle, garbage
    /// collection and others
    #[arg(long, default_value_t = true, action = clap::ArgAction::Set, num_args = 0..=1, require_equals = true,
          default_missing_value = "true", value_name = "BOOL")]
    controllers: bool,
    #[command(flatten)]
    provisioner: ProvisionerArgs,
    /// Recover the readable part of a damaged store in --data-dir, report it, and exit
    ///
    /// The damaged file is kept beside the new one. A store that is not damaged is not changed.
    #[arg(long, requires = "data_dir")]
    recover: bool,
    /// Disable Berth's extensions: validate exactly as kube-apiserver does
    #[arg(long)]
    strict_v1: bool,
    #[command(flatten)]
    feature_gates: FeatureGateArgs,
    #[command(flatten)]
    log: LogArgs,
}

/// Serves until SIGINT or SIGTERM.
pub fn run(args: &Args) -> Result<ExitStatus, CliError> {
    args.log.start();
    if let Some(dir) = args.server.data_dir().filter(|_| args.recover) {
        return recover(dir);
    }
    let feature_gates = args.feature_gates.gates(None);
    let mut options = args.server.options(!args.strict_v1, feature_gates);
    let follows = args.admission.put_into(&mut options, &[])?;
    runtime::run(async |stop| {
        let server = ApiServer::start(options).await?;
        let mut components = Components::new(stop.child_token());
        if args.controllers {
            let client = connect::client(server.component_config("kube-controller-manager"))?;
            args.provisioner.install(client.clone()).await?;
            let controllers = args.provisioner.controllers(feature_gates);
            let running = |stop| berth_controllers::run(client, controllers, stop).map(Ok::<(), String>);
            components.start("controllers", running);
        }
        if let Some(admission) = follows {
            admission_args::follow(admission, server.component_config("berth-admission"), &mut components)
                .await?;
        }
        output::kubeconfig_line(server.kubeconfig_path())?;
        let ended = components.run_until(&stop).await;
        server.shutdown().await;
        Ok(ended.map(|()| ExitStatus::Success)?)
    })
}

fn recover(dir: &Path) -> Result<ExitStatus, CliError> {
    let recovery = berth_apiserver::recover(dir).map_err(berth_apiserver::StartError::from)?;
    let mut out = output::stdout();
    let n_saved: usize = recovery.saved.values().sum();
    match &recovery.damaged_file {
        None => writeln!(out, "{}: not damaged, {n_saved} objects", dir.display())?,
        Some(file) => {
            writeln!(
                out,
                "{}: {n_saved} objects saved; the damaged file is {}",
                dir.display(),
                file.display()
            )?;
        }
    }
    for (resource, n_objects) in &recovery.saved {
        writeln!(out, "  {n_objects} {resource}")?;
    }
    for lost in &recovery.lost {
        match lost {
            Lost::Bytes { from, to, why } => writeln!(out, "lost: bytes {from} to {to}: {why}")?,
            Lost::Objects(n_objects) => {
                writeln!(out, "lost: {n_objects} objects as they were before the latest changes")?
            }
            Lost::Changes { first, last } => writeln!(
                out,
                "lost: the changes with resource versions {first} to {last}: created objects are missing, updated objects have \
                 an earlier state, deleted objects exist again"
            )?,
        }
    }
    out.flush()?;
    Ok(if recovery.lost.is_empty() { ExitStatus::Success } else { ExitStatus::Failure })
}
