//! Arguments for running several replicas of which one leads.

use std::time::Duration;

use berth_client::lease::LeaseOptions;

use super::node_args::duration;
use crate::error::CliError;

/// The election. The Lease has the name of the command unless another one is given.
#[derive(Debug, clap::Args)]
pub struct LeaseArgs {
    /// Run beside other replicas: one leads, and another takes over when it fails
    #[arg(long)]
    leader_elect: bool,
    /// Name of the Lease that the replicas share [default: berth for the scheduler, berth-enforcer for the enforcer]
    #[arg(long, value_name = "NAME", requires = "leader_elect")]
    leader_elect_resource_name: Option<String>,
    /// Namespace of the Lease
    #[arg(long, value_name = "NAMESPACE", default_value = "kube-system", requires = "leader_elect")]
    leader_elect_resource_namespace: String,
    /// How long the others wait for a sign of the leader before they take over
    #[arg(long, value_name = "DURATION", default_value = "12s", requires = "leader_elect", value_parser = duration)]
    leader_elect_lease_duration: Duration,
    /// How long the leader goes on without having been able to give a sign
    #[arg(long, value_name = "DURATION", default_value = "7s", requires = "leader_elect", value_parser = duration)]
    leader_elect_renew_deadline: Duration,
    /// Between two signs
    #[arg(long, value_name = "DURATION", default_value = "2s", requires = "leader_elect", value_parser = duration)]
    leader_elect_retry_period: Duration,
}

impl LeaseArgs {
    /// Where the Lease is, and what else whoever leads keeps.
    pub fn namespace(&self) -> &str {
        &self.leader_elect_resource_namespace
    }

    /// How to be elected, if that is wanted. `name` is the Lease's unless another one is given.
    ///
    /// # Errors
    /// The times contradict each other.
    pub fn options(&self, name: &str, identity: &str) -> Result<Option<LeaseOptions>, CliError> {
        if !self.leader_elect {
            return Ok(None);
        }
        let name = self.leader_elect_resource_name.as_deref().unwrap_or(name);
        let lease = LeaseOptions {
            lease_duration: self.leader_elect_lease_duration,
            renew_deadline: self.leader_elect_renew_deadline,
            retry_period: self.leader_elect_retry_period,
            ..LeaseOptions::new(&self.leader_elect_resource_namespace, name, identity)
        };
        let is_ordered = Duration::ZERO < lease.retry_period
            && lease.retry_period < lease.renew_deadline
            && lease.renew_deadline < lease.lease_duration;
        if !is_ordered || lease.lease_duration < Duration::from_secs(1) {
            return Err(CliError::Usage(
                "--leader-elect-retry-period must be less than --leader-elect-renew-deadline, and that less than \
                 --leader-elect-lease-duration, which is at least 1s"
                    .to_owned(),
            ));
        }
        Ok(Some(lease))
    }
}

/// Who this process is among replicas: machine, process, and something that tells apart processes of containers that
/// take themselves for one machine.
pub fn identity(default: &str) -> String {
    let host = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    let host = if host.trim().is_empty() { "berth" } else { host.trim() };
    let random = default.rsplit_once('-').map_or(default, |(_, random)| random);
    format!("{host}_{}_{random}", std::process::id())
}
