//! Arguments of an API server.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};

use berth_minicluster::ServerOptions;

use crate::error::CliError;

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
    pub data_dir: Option<PathBuf>,
    /// Write the admin's kubeconfig to this file; by default into the data directory, or a temporary one
    ///
    /// A kubeconfig that kubectl uses anyway ($KUBECONFIG, ~/.kube/config) is not overwritten, unless it is one that
    /// Berth wrote.
    #[arg(long, value_name = "FILE")]
    kubeconfig_out: Option<PathBuf>,
}

impl ServerArgs {
    /// What the server is started with.
    ///
    /// # Errors
    /// The kubeconfig would overwrite the user's own.
    pub fn options(&self, extensions: bool) -> Result<ServerOptions, CliError> {
        if let Some(path) = &self.kubeconfig_out
            && is_of_the_user(path)
            && !is_of_berth(path)
        {
            return Err(CliError::Usage(format!(
                "{}: this is your own kubeconfig, which stays as it is: name another file with --kubeconfig-out",
                path.display()
            )));
        }
        Ok(ServerOptions {
            listen: SocketAddr::new(self.listen, self.port),
            data_dir: self.data_dir.clone(),
            kubeconfig: self.kubeconfig_out.clone(),
            extensions,
        })
    }
}

/// Whether kubectl would use the file without being told to.
fn is_of_the_user(path: &Path) -> bool {
    let variable = std::env::var_os("KUBECONFIG").unwrap_or_default();
    let home = std::env::var_os("HOME").map(|home| Path::new(&home).join(".kube/config"));
    let same = |other: PathBuf| {
        other == path || other.canonicalize().ok().is_some_and(|o| path.canonicalize().ok() == Some(o))
    };
    std::env::split_paths(&variable).chain(home).any(same)
}

/// Whether Berth wrote it: its one cluster is called `berth`.
fn is_of_berth(path: &Path) -> bool {
    let Ok(text) = std::fs::read_to_string(path) else { return !path.exists() };
    let manifests = berth_api::read::collect_manifests(&text, "kubeconfig").unwrap_or_default();
    let [config] = manifests.as_slice() else { return false };
    let clusters = config.value.get("clusters").and_then(|c| c.as_array());
    clusters.is_some_and(|c| c.len() == 1 && c[0].get("name").is_some_and(|name| name == "berth"))
}
