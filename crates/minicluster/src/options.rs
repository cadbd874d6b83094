//! What an API server is started with.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;

/// What an API server is started with.
#[derive(Clone, Debug)]
pub struct ServerOptions {
    /// Where it listens; port 0 takes a free one, or the one of the last run with the same data directory.
    pub listen: SocketAddr,
    /// Where objects, keys and the port are kept; without it objects are in memory and the rest in a temporary directory.
    pub data_dir: Option<PathBuf>,
    /// Where the admin's kubeconfig is written; by default `kubeconfig` beside the keys.
    pub kubeconfig: Option<PathBuf>,
    /// Whether the extensions to Kubernetes' affinity are on.
    pub extensions: bool,
}

impl Default for ServerOptions {
    fn default() -> Self {
        ServerOptions {
            listen: SocketAddr::from((Ipv4Addr::LOCALHOST, 0)),
            data_dir: None,
            kubeconfig: None,
            extensions: true,
        }
    }
}
