//! Arguments that say which cluster to talk to.

use std::path::PathBuf;

use berth_client::connect::Options;

/// The cluster.
#[derive(Debug, clap::Args)]
pub struct ConnectionArgs {
    /// The kubeconfig file; without it $KUBECONFIG, else ~/.kube/config, else the service account of the pod
    /// this runs in
    #[arg(long, value_name = "FILE")]
    kubeconfig: Option<PathBuf>,
    /// The context of the kubeconfig; its current one without it
    #[arg(long, value_name = "NAME")]
    context: Option<String>,
    /// Another address of the API server than the kubeconfig has
    #[arg(long, value_name = "URL")]
    server: Option<String>,
}

impl ConnectionArgs {
    /// What clients are made from.
    pub fn options(&self) -> Options {
        Options {
            kubeconfig: self.kubeconfig.clone(),
            context: self.context.clone(),
            server: self.server.clone(),
        }
    }
}
