//! Arguments that settle what an embedded API server admits.

use std::sync::Arc;

use berth_admission::Admission;
use berth_apiserver::ServerOptions;
use berth_client::connect;

use crate::cluster::admission::{self, InProcess};
use crate::cluster::parts::Parts;
use crate::error::CliError;

/// Admission.
#[derive(Debug, clap::Args)]
pub struct AdmissionArgs {
    /// Admission policy (AdmissionPolicy); the default policy without it
    ///
    /// By default, required anti-affinity over all namespaces must be by host name, and what the dialects read
    /// differently is warned about. Budgets and the guard of bindings are for this file to ask for.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["no_admission", "strict_v1"])]
    admission_config: Option<String>,
    /// Admit whatever is valid, as --strict-v1 does
    #[arg(long)]
    no_admission: bool,
}

impl AdmissionArgs {
    /// Puts admission into a server that is about to start, and returns it if it has to be told of the cluster.
    ///
    /// # Errors
    /// The policy cannot be read or is not valid.
    pub fn put_into(
        &self,
        server: &mut ServerOptions,
        extensions: bool,
    ) -> Result<Option<Arc<Admission>>, CliError> {
        let policy = admission::policy(self.admission_config.as_deref())?;
        if self.no_admission || !extensions {
            return Ok(None);
        }
        let in_process = InProcess::new(policy);
        let follows = in_process.admission().policy().needs_state().then(|| in_process.admission());
        server.admission = Some(Arc::new(in_process));
        Ok(follows)
    }
}

/// Tells admission of the server's cluster, and waits until it knows everything.
///
/// # Errors
/// There is no client.
pub async fn follow(
    admission: Arc<Admission>,
    config: kube::Config,
    parts: &mut Parts,
) -> Result<(), CliError> {
    let client = connect::client(config)?;
    let told = admission.clone();
    parts.start("admission", |stop| admission::follow(client, told, stop));
    tokio::select! {
        () = admission.complete() => Ok(()),
        failed = parts.failed() => failed,
    }
}
