//! Arguments that select the cluster.

use std::path::PathBuf;

use berth_client::connect::Options;

/// The connection to the API server.
#[derive(Debug, clap::Args)]
pub struct ConnectionArgs {
    /// Kubeconfig file [default: $KUBECONFIG, else ~/.kube/config, else the service account of the pod]
    #[arg(long, value_name = "FILE")]
    kubeconfig: Option<PathBuf>,
    /// Context of the kubeconfig [default: the current context]
    #[arg(long, value_name = "NAME")]
    context: Option<String>,
    /// URL of the API server; overrides the kubeconfig
    #[arg(long, value_name = "URL")]
    server: Option<String>,
}

impl ConnectionArgs {
    /// As [`ConnectionArgs::options`], with the kubeconfig of a configuration file unless a flag names one.
    pub fn options_or(&self, kubeconfig: Option<&str>) -> Options {
        let options = self.options();
        Options { kubeconfig: options.kubeconfig.or_else(|| kubeconfig.map(PathBuf::from)), ..options }
    }

    pub fn options(&self) -> Options {
        Options {
            kubeconfig: self.kubeconfig.clone(),
            context: self.context.clone(),
            server: self.server.clone(),
        }
    }
}
