//! `berth apiserver`.

use berth_apiserver::ApiServer;
use berth_client::connect;
use futures::FutureExt;

use super::admission_args::{self, AdmissionArgs};
use super::provisioner_args::ProvisionerArgs;
use super::server_args::ServerArgs;
use crate::ExitStatus;
use crate::cluster::components::Components;
use crate::cluster::log::LogArgs;
use crate::cluster::runtime;
use crate::error::CliError;
use crate::output;

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

Exit codes: 0 stopped by SIGINT or SIGTERM, 2 failed to start or to continue")]
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
    /// Disable Berth's extensions: validate exactly as kube-apiserver does
    #[arg(long)]
    strict_v1: bool,
    #[command(flatten)]
    log: LogArgs,
}

/// Serves until SIGINT or SIGTERM.
pub fn run(args: &Args) -> Result<ExitStatus, CliError> {
    args.log.start();
    let mut options = args.server.options(!args.strict_v1);
    let follows = args.admission.put_into(&mut options, !args.strict_v1)?;
    runtime::run(async |stop| {
        let server = ApiServer::start(options).await?;
        let mut components = Components::new(stop.child_token());
        if args.controllers {
            let client = connect::client(server.admin_config())?;
            args.provisioner.install(client.clone()).await?;
            let controllers = args.provisioner.controllers();
            let running = |stop| berth_controllers::run(client, controllers, stop).map(Ok::<(), String>);
            components.start("controllers", running);
        }
        if let Some(admission) = follows {
            admission_args::mirror(admission, server.admin_config(), &mut components).await?;
        }
        output::kubeconfig_line(server.kubeconfig_path())?;
        let ended = tokio::select! {
            () = stop.cancelled() => Ok(()),
            failed = components.failed() => failed,
        };
        components.stop().await;
        server.shutdown().await;
        ended.map(|()| ExitStatus::Success)
    })
}
