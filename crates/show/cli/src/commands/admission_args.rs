//! Arguments for the admission policy of an embedded API server.

use std::sync::Arc;

use berth_admission::AdmissionController;
use berth_apiserver::ServerOptions;
use berth_client::{WatchGroup, connect};
use berth_rules::RuleOptions;

use super::policy_file;
use crate::cluster::admission::InProcess;
use crate::cluster::components::Components;
use crate::error::CliError;

/// The admission policy.
#[derive(Debug, clap::Args)]
pub struct AdmissionArgs {
    /// File with an AdmissionPolicy [default: the default policy]
    ///
    /// The default policy requires the topology key kubernetes.io/hostname for required anti-affinity over all
    /// namespaces, and warns about text that has different meanings in the two dialects. Budgets and the binding guard
    /// are off unless enabled here.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["no_admission", "strict_v1"])]
    admission_config: Option<String>,
    /// Disable admission policies; --strict-v1 implies it
    #[arg(long)]
    no_admission: bool,
}

impl AdmissionArgs {
    /// Sets the admission of a server that will start, and returns it. `scheduler_names` are the names of the schedulers
    /// that read Berth's annotations, besides those in the policy.
    pub fn put_into(
        &self,
        server: &mut ServerOptions,
        scheduler_names: &[String],
    ) -> Result<Option<Arc<AdmissionController>>, CliError> {
        let mut policy = policy_file::read(self.admission_config.as_deref())?;
        if self.no_admission || !server.extensions {
            return Ok(None);
        }
        for name in scheduler_names {
            if !policy.scheduler_names.contains(name) {
                policy.scheduler_names.push(name.clone());
            }
        }
        policy.rule_options = RuleOptions { extensions: true, feature_gates: server.feature_gates };
        let in_process = InProcess::new(policy);
        let admission = in_process.admission();
        server.admission = Some(Arc::new(in_process));
        Ok(Some(admission))
    }
}

/// Follows the server's cluster for admission, and waits until the state is complete.
pub async fn follow(
    admission: Arc<AdmissionController>,
    config: kube::Config,
    components: &mut Components,
) -> Result<(), CliError> {
    let client = connect::client(config)?;
    start_following(admission.clone(), client, WatchGroup::new(usize::MAX), components);
    tokio::select! {
        () = admission.complete() => Ok(()),
        failed = components.failed() => failed.map_err(CliError::from),
    }
}

/// Follows a cluster's placement policies and, if the policy needs it, its state, until the components stop.
pub fn start_following(
    admission: Arc<AdmissionController>,
    client: kube::Client,
    group: WatchGroup,
    components: &mut Components,
) {
    components.start("admission", |stop| async move {
        stop.run_until_cancelled(admission.follow(client, group)).await.transpose().map(drop)
    });
}
