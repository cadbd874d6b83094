//! Arguments for leader election among replicas.

use std::time::Duration;

use berth_client::lease::LeaseOptions;

use super::node_args::duration;
use crate::error::CliError;

/// Leader election. The default name of the Lease depends on the command.
#[derive(Debug, clap::Args)]
pub struct LeaseArgs {
    /// Enable leader election: one replica is active, and another one takes over if it fails
    #[arg(long)]
    leader_elect: bool,
    /// Name of the Lease [default: berth for the scheduler, berth-enforcer for the enforcer]
    #[arg(long, value_name = "NAME", requires = "leader_elect")]
    leader_elect_resource_name: Option<String>,
    /// Namespace of the Lease
    #[arg(long, value_name = "NAMESPACE", default_value = "kube-system", requires = "leader_elect")]
    leader_elect_resource_namespace: String,
    /// Time without a renewal after which another replica acquires the lease
    #[arg(long, value_name = "DURATION", default_value = "12s", requires = "leader_elect", value_parser = duration)]
    leader_elect_lease_duration: Duration,
    /// Time without a successful renewal after which the leader stops
    #[arg(long, value_name = "DURATION", default_value = "7s", requires = "leader_elect", value_parser = duration)]
    leader_elect_renew_deadline: Duration,
    /// Renewal interval of the lease
    #[arg(long, value_name = "DURATION", default_value = "2s", requires = "leader_elect", value_parser = duration)]
    leader_elect_retry_period: Duration,
}

impl LeaseArgs {
    /// Namespace of the Lease, and of other objects of the leader.
    pub fn namespace(&self) -> &str {
        &self.leader_elect_resource_namespace
    }

    /// The options of leader election, if it is enabled; `name` is the default name of the Lease.
    ///
    /// # Errors
    /// The durations contradict each other.
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
                "--leader-elect-retry-period must be less than --leader-elect-renew-deadline, which must be less than \
                 --leader-elect-lease-duration, which must be at least 1s"
                    .to_owned(),
            ));
        }
        Ok(Some(lease))
    }
}

/// The identity of this replica: host name, process ID and a random part, since containers can share a host name.
pub fn identity(default: &str) -> String {
    let host = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    let host = if host.trim().is_empty() { "berth" } else { host.trim() };
    let random = default.rsplit_once('-').map_or(default, |(_, random)| random);
    format!("{host}_{}_{random}", std::process::id())
}
