//! Arguments of the embedded API server.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::time::Duration;

use berth_api::feature_gates::FeatureGates;
use berth_apiserver::{ServerOptions, StorageOptions};

use super::node_args::duration;
use super::record_args::bytes;

/// Address and storage of the API server.
#[derive(Debug, clap::Args)]
pub struct ServerArgs {
    /// Address to listen on; an address other than loopback exposes the API server to the network
    #[arg(long, value_name = "ADDRESS", default_value_t = IpAddr::V4(Ipv4Addr::LOCALHOST))]
    listen: IpAddr,
    /// Port to listen on; 0 selects a free port, or with --data-dir the port of the last run
    #[arg(long, value_name = "PORT", default_value_t = 0)]
    port: u16,
    /// Store the state in this directory and continue from it; without it, state is lost on exit
    #[arg(long, value_name = "DIR")]
    data_dir: Option<PathBuf>,
    /// Write the administrator's kubeconfig to this file [default: in the data directory or a temporary directory]
    ///
    /// An existing file is overwritten only if Berth wrote it.
    #[arg(long, value_name = "FILE")]
    kubeconfig_out: Option<PathBuf>,
    /// How long Events are kept
    #[arg(long, value_name = "DURATION", default_value = "1h", value_parser = duration)]
    event_ttl: Duration,
    /// Maximum size of all stored objects, as JSON; writes that make it larger are refused, deletions are not
    #[arg(long, value_name = "SIZE", default_value = "2Gi", value_parser = bytes)]
    quota_backend_bytes: u64,
}

fn absolute(path: &Path) -> PathBuf {
    std::path::absolute(path).unwrap_or_else(|_| path.to_owned())
}

impl ServerArgs {
    pub fn data_dir(&self) -> Option<&Path> {
        self.data_dir.as_deref()
    }

    pub fn options(&self, extensions: bool, feature_gates: FeatureGates) -> ServerOptions {
        ServerOptions {
            listen: SocketAddr::new(self.listen, self.port),
            data_dir: self.data_dir.as_deref().map(absolute),
            // The printed command must also work in another directory.
            kubeconfig: self.kubeconfig_out.as_deref().map(absolute),
            extensions,
            feature_gates,
            taints_new_nodes: true,
            event_ttl: self.event_ttl,
            storage: StorageOptions { max_bytes: self.quota_backend_bytes, ..StorageOptions::default() },
            ..ServerOptions::default()
        }
    }
}
