//! Arguments of an API server.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::PathBuf;

use berth_apiserver::ServerOptions;

/// Where the API server is, and where it keeps things.
#[derive(Debug, clap::Args)]
pub struct ServerArgs {
    /// The address to listen on; any other than a loopback address lets the network in
    #[arg(long, value_name = "ADDRESS", default_value_t = IpAddr::V4(Ipv4Addr::LOCALHOST))]
    listen: IpAddr,
    /// The port to listen on; 0 takes a free one, or the last one again with --data-dir
    #[arg(long, value_name = "PORT", default_value_t = 0)]
    port: u16,
    /// Keep everything in this directory and go on from there; without it all is gone in the end
    #[arg(long, value_name = "DIR")]
    data_dir: Option<PathBuf>,
    /// Write the admin's kubeconfig to this file; by default into the data directory, or a temporary one
    ///
    /// A file that Berth did not write is never overwritten.
    #[arg(long, value_name = "FILE")]
    kubeconfig_out: Option<PathBuf>,
}

impl ServerArgs {
    /// What the server is started with.
    pub fn options(&self, extensions: bool) -> ServerOptions {
        ServerOptions {
            listen: SocketAddr::new(self.listen, self.port),
            data_dir: self.data_dir.clone(),
            kubeconfig: self.kubeconfig_out.clone(),
            extensions,
            ..ServerOptions::default()
        }
    }
}
