//! Options of an enforcer.

use std::collections::BTreeMap;
use std::time::Duration;

use berth_client::lease::LeaseOptions;
use berth_client::serving::ServingOptions;
use berth_engine::{Settings, ViolatedRule};
use berth_rebalance::Request;
use jiff::{SignedDuration, Timestamp};

pub use crate::limiter::LimitOptions;

/// Grace periods: how long a rule may be violated before a pod is evicted, by kind of rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Graces {
    pub node_affinity: Duration,
    pub pod_affinity: Duration,
    pub pod_anti_affinity: Duration,
}

impl Default for Graces {
    /// None; 5 minutes, so that a restart of the required pod causes no eviction; and 30 seconds.
    fn default() -> Self {
        Graces {
            node_affinity: Duration::ZERO,
            pod_affinity: Duration::from_secs(300),
            pod_anti_affinity: Duration::from_secs(30),
        }
    }
}

impl Graces {
    pub(crate) fn of(&self, rule: ViolatedRule) -> Duration {
        match rule {
            ViolatedRule::PodAffinity => self.pod_affinity,
            ViolatedRule::PodAntiAffinity => self.pod_anti_affinity,
            // Other rules are not required during execution and are never reported.
            _ => self.node_affinity,
        }
    }
}

/// The factor of the hold period for workloads with one replica and bare pods, unless an annotation sets the period.
const ONE_REPLICA: u32 = 6;

/// How long a pod that is to be evicted stays because no node is feasible for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HoldPeriod {
    /// For this time from the first selection without a feasible node. Then the pod is evicted anyway.
    For(Duration),
    /// Until a node is feasible.
    Always,
}

impl HoldPeriod {
    /// 10 minutes.
    pub const DEFAULT: HoldPeriod = HoldPeriod::For(Duration::from_secs(600));

    /// Until when a pod is held that has been held since a time; none: until a node is feasible.
    pub fn until(self, since: Timestamp) -> Option<Timestamp> {
        let HoldPeriod::For(duration) = self else { return None };
        // What is beyond the last timestamp has no end.
        since.checked_add(SignedDuration::try_from(duration).ok()?).ok()
    }
}

/// How long pods without a feasible node are held.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HoldOptions {
    /// In namespaces without their own.
    pub default: HoldPeriod,
    pub namespaces: BTreeMap<String, HoldPeriod>,
}

impl Default for HoldOptions {
    fn default() -> Self {
        HoldOptions { default: HoldPeriod::DEFAULT, namespaces: BTreeMap::new() }
    }
}

impl HoldOptions {
    /// How long a pod is held that has no annotation.
    pub(crate) fn of(&self, namespace: &str, n_replicas: usize) -> HoldPeriod {
        match *self.namespaces.get(namespace).unwrap_or(&self.default) {
            HoldPeriod::For(duration) if n_replicas <= 1 => {
                HoldPeriod::For(duration.saturating_mul(ONE_REPLICA))
            }
            hold => hold,
        }
    }
}

#[derive(Clone, Debug)]
pub struct RebalanceOptions {
    /// The goals, which pods may move, and the limits of the search. Its time is not read.
    pub request: Request,
    /// How long after a plan without moves the next one is made, if no node changes.
    pub interval: Duration,
    /// How long an evicted pod may be there, and then its replacement may take until it is ready.
    pub step_timeout: Duration,
    /// The scheduler names of pods whose scheduler puts a replacement where the move says: Berth's scheduler. Pods of others
    /// are moved only where their scheduler would put them anyway.
    pub following_schedulers: Vec<String>,
}

impl RebalanceOptions {
    pub fn new(request: Request) -> RebalanceOptions {
        RebalanceOptions {
            request,
            interval: Duration::from_secs(300),
            step_timeout: Duration::from_secs(300),
            following_schedulers: vec!["berth".to_owned()],
        }
    }
}

#[derive(Clone, Debug)]
pub struct EnforcerOptions {
    /// How rules are read, and the profiles for the search of feasible nodes.
    pub settings: Settings,
    pub graces: Graces,
    /// How long pods are held for which no node is feasible.
    pub holds: HoldOptions,
    /// Whether to write nothing: no evictions, events, conditions, leases and ledger.
    pub dry_run: bool,
    pub limits: LimitOptions,
    /// Pods in these namespaces are never evicted, besides those of the settings.
    pub exempt_namespaces: Vec<String>,
    pub ledger_namespace: String,
    pub ledger_name: String,
    /// Evictions in flight at one time.
    pub eviction_concurrency: usize,
    /// Timeout of a request. With leader election it is at most the time between the end of a leadership and the earliest
    /// beginning of the next.
    pub request_timeout: Duration,
    /// The back-off after the first rejection or failure of an eviction.
    pub first_backoff: Duration,
    pub longest_backoff: Duration,
    /// How often pods without a feasible node are evaluated again.
    pub look_again: Duration,
    /// What is rebalanced, if anything.
    pub rebalance: Option<RebalanceOptions>,
    /// Leader election; none: this process is the only enforcer.
    pub leader_election: Option<LeaseOptions>,
    /// Where `/healthz`, `/readyz` and `/metrics` are served.
    pub serving: ServingOptions,
    /// How often the state is compared with full lists.
    pub resync_interval: Duration,
    /// How long after a detected difference the check is repeated. Events in flight arrive meanwhile.
    pub resync_grace: Duration,
    /// How long to wait for evictions in flight when stopping.
    pub stop_timeout: Duration,
    /// See [`WatchOptions::idle_timeout`](berth_client::WatchOptions).
    pub watch_idle_timeout: Duration,
    /// What all watches may keep, in bytes; see [`WatchGroup`](berth_client::WatchGroup).
    pub cache_limit: usize,
    /// Name of this process in events; unique among replicas.
    pub identity: String,
}

impl Default for EnforcerOptions {
    fn default() -> Self {
        EnforcerOptions {
            settings: Settings::default(),
            graces: Graces::default(),
            holds: HoldOptions::default(),
            dry_run: false,
            limits: LimitOptions::default(),
            exempt_namespaces: Vec::new(),
            ledger_namespace: "kube-system".to_owned(),
            ledger_name: "berth-enforcer".to_owned(),
            eviction_concurrency: 8,
            request_timeout: Duration::from_secs(10),
            first_backoff: Duration::from_secs(1),
            longest_backoff: Duration::from_secs(60),
            look_again: Duration::from_secs(10),
            rebalance: None,
            leader_election: None,
            serving: ServingOptions::default(),
            resync_interval: Duration::from_secs(600),
            resync_grace: Duration::from_secs(15),
            stop_timeout: Duration::from_secs(10),
            watch_idle_timeout: Duration::from_secs(90),
            cache_limit: berth_client::WatchGroup::DEFAULT_LIMIT,
            identity: format!("berth-enforcer-{:08x}", fastrand::u32(..)),
        }
    }
}

/// Why an enforcer cannot start, or ended.
#[derive(Debug, thiserror::Error)]
pub enum EnforcerError {
    /// The client configuration is not valid.
    #[error(transparent)]
    Connect(#[from] berth_client::connect::ConnectError),
    /// `/metrics` and its like cannot be served.
    #[error(transparent)]
    Serve(#[from] berth_client::serving::ServeError),
    #[error("the enforcer cannot continue: {0}")]
    Broken(#[from] berth_client::component::ComponentError),
}

impl EnforcerOptions {
    /// How long a request that only a leader may send can take.
    pub(crate) fn request_timeout(&self) -> Duration {
        LeaseOptions::request_timeout(self.leader_election.as_ref(), self.request_timeout)
    }
}
