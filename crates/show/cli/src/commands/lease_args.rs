//! Arguments for leader election among replicas.

use std::time::Duration;

use berth_client::lease::LeaseOptions;
use berth_input::config::LeaderElectionConfig;

use super::node_args::duration;
use crate::error::CliError;

/// Leader election. The default name of the Lease depends on the command.
#[derive(Debug, clap::Args)]
pub struct LeaseArgs {
    /// Enable leader election: one replica is active, and another one takes over if it fails
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    leader_elect: Option<bool>,
    /// Name of the Lease [default: berth for the scheduler, berth-enforcer for the enforcer]
    #[arg(long, value_name = "NAME")]
    leader_elect_resource_name: Option<String>,
    /// Namespace of the Lease [default: kube-system]
    #[arg(long, value_name = "NAMESPACE")]
    leader_elect_resource_namespace: Option<String>,
    /// Time without a renewal after which another replica acquires the lease [default: 12s]
    #[arg(long, value_name = "DURATION", value_parser = duration)]
    leader_elect_lease_duration: Option<Duration>,
    /// Time without a successful renewal after which the leader stops [default: 7s]
    #[arg(long, value_name = "DURATION", value_parser = duration)]
    leader_elect_renew_deadline: Option<Duration>,
    /// Renewal interval of the lease [default: 2s]
    #[arg(long, value_name = "DURATION", value_parser = duration)]
    leader_elect_retry_period: Option<Duration>,
}

/// The default namespace of the Lease.
const NAMESPACE: &str = "kube-system";

impl LeaseArgs {
    /// Namespace of the Lease, and of other objects of the leader.
    pub fn namespace(&self) -> &str {
        self.leader_elect_resource_namespace.as_deref().unwrap_or(NAMESPACE)
    }

    /// The options of leader election, if it is enabled; `name` is the default name of the Lease.
    ///
    /// # Errors
    /// The durations contradict each other.
    pub fn options(&self, name: &str, identity: &str) -> Result<Option<LeaseOptions>, CliError> {
        self.configured(&LeaderElectionConfig::default(), name, identity)
    }

    /// As [`LeaseArgs::options`]; what no flag sets comes from a configuration file.
    pub fn configured(
        &self,
        file: &LeaderElectionConfig,
        default_name: &str,
        identity: &str,
    ) -> Result<Option<LeaseOptions>, CliError> {
        if !self.leader_elect.unwrap_or(file.leader_elect) {
            return Ok(None);
        }
        let name = self.leader_elect_resource_name.as_ref().or(file.resource_name.as_ref());
        let namespace = self.leader_elect_resource_namespace.as_ref().or(file.resource_namespace.as_ref());
        let defaults = LeaseOptions::new(
            namespace.map_or(NAMESPACE, String::as_str),
            name.map_or(default_name, String::as_str),
            identity,
        );
        let lease = LeaseOptions {
            lease_duration: self
                .leader_elect_lease_duration
                .or(file.lease_duration)
                .unwrap_or(defaults.lease_duration),
            renew_deadline: self
                .leader_elect_renew_deadline
                .or(file.renew_deadline)
                .unwrap_or(defaults.renew_deadline),
            retry_period: self
                .leader_elect_retry_period
                .or(file.retry_period)
                .unwrap_or(defaults.retry_period),
            ..defaults
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
