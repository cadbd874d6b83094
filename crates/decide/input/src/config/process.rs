//! Settings of the scheduler process: they do not influence where a pod goes.

use core::time::Duration;

use berth_api::read::fields::{Fields, Kind, NO_DURATION, Node};

#[derive(Clone, Debug, PartialEq)]
pub struct ProcessConfig {
    pub pod_initial_backoff: Duration,
    pub pod_max_backoff: Duration,
    pub leader_election: LeaderElectionConfig,
    pub client_connection: ClientConnectionConfig,
}

impl Default for ProcessConfig {
    fn default() -> Self {
        ProcessConfig {
            pod_initial_backoff: Duration::from_secs(1),
            pod_max_backoff: Duration::from_secs(10),
            leader_election: LeaderElectionConfig::default(),
            client_connection: ClientConnectionConfig::default(),
        }
    }
}

/// `leaderElection`; a field that is absent is `None`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LeaderElectionConfig {
    /// Whether one of several replicas is active. As in kube-scheduler, it is if the section leaves it open; without the
    /// section it is not.
    pub leader_elect: bool,
    /// Time without a renewal after which another replica acquires the lease.
    pub lease_duration: Option<Duration>,
    /// Time without a successful renewal after which the leader stops.
    pub renew_deadline: Option<Duration>,
    /// Renewal interval of the lease.
    pub retry_period: Option<Duration>,
    pub resource_name: Option<String>,
    pub resource_namespace: Option<String>,
}

#[derive(Clone, Debug, Default, PartialEq)]
pub struct ClientConnectionConfig {
    pub kubeconfig: Option<String>,
    /// Requests per second in the long run; none: without a limit.
    pub qps: Option<f64>,
    /// Requests at once after an idle time.
    pub burst: Option<u32>,
}

impl ProcessConfig {
    pub(super) fn read(root: &mut Fields<'_>) -> ProcessConfig {
        without_effect(root, "enableProfiling", Kind::Bool, "no profiles are served");
        without_effect(root, "enableContentionProfiling", Kind::Bool, "no profiles are served");
        without_effect(root, "delayCacheUntilActive", Kind::Bool, "replicas always keep the state");
        let leader_election = leader_election(root).unwrap_or_default();
        let client_connection = client_connection(root).unwrap_or_default();
        check_percentage(root);
        if let Some(node) = root.get("parallelism") {
            match node.int32() {
                Some(..=0) => node.invalid("should be an integer value greater than zero"),
                Some(_) => {
                    node.findings.warn(node.path.as_str(), "has no effect: one thread makes all decisions")
                }
                None => {}
            }
        }
        let (pod_initial_backoff, pod_max_backoff) = backoff(root);
        ProcessConfig { pod_initial_backoff, pod_max_backoff, leader_election, client_connection }
    }
}

fn backoff(root: &mut Fields<'_>) -> (Duration, Duration) {
    let initial = root.get("podInitialBackoffSeconds");
    let initial_seconds = initial.as_ref().map_or(Some(1), |node| node.int64());
    if let Some(node) = initial.filter(|_| initial_seconds.is_some_and(|seconds| seconds <= 0)) {
        node.invalid("must be greater than 0");
    }
    let most = root.get("podMaxBackoffSeconds");
    let most_seconds = most.as_ref().map_or(Some(10), |node| node.int64());
    if most_seconds.zip(initial_seconds).is_some_and(|(most, initial)| most < initial) {
        let text = "must be greater than or equal to podInitialBackoffSeconds";
        root.findings.error(root.path_of("podMaxBackoffSeconds"), format!("Invalid value: {text}"));
    }
    let seconds = |n: Option<i64>| Duration::from_secs(n.unwrap_or_default().unsigned_abs());
    (seconds(initial_seconds), seconds(most_seconds))
}

fn leader_election(root: &mut Fields<'_>) -> Option<LeaderElectionConfig> {
    let mut election = root.get("leaderElection")?.fields()?;
    let leader_elect = election.get("leaderElect").map_or(Some(true), |node| node.bool()).unwrap_or_default();
    if let Some(node) = election.get("resourceLock")
        && node.string().is_some_and(|lock| leader_elect && !matches!(lock, "" | "leases"))
    {
        node.invalid("must be \"leases\"");
    }
    let config = LeaderElectionConfig {
        leader_elect,
        lease_duration: duration(&mut election, "leaseDuration"),
        renew_deadline: duration(&mut election, "renewDeadline"),
        retry_period: duration(&mut election, "retryPeriod"),
        resource_name: text(&mut election, "resourceName"),
        resource_namespace: text(&mut election, "resourceNamespace"),
    };
    election.finish();
    Some(config)
}

fn client_connection(root: &mut Fields<'_>) -> Option<ClientConnectionConfig> {
    let mut connection = root.get("clientConnection")?.fields()?;
    let only_json = "requests and responses are JSON";
    without_effect(&mut connection, "acceptContentTypes", Kind::String, only_json);
    without_effect(&mut connection, "contentType", Kind::String, only_json);
    connection.accept(&[("qps", Kind::Number)]);
    // As in client-go, 0 is the default and a negative value is no limit; Berth's default has none either.
    let qps = connection.get("qps").and_then(|node| node.value.as_f64()).filter(|qps| *qps > 0.0);
    let burst = connection.get("burst").and_then(|node| {
        let burst = node.int32()?;
        if burst < 0 {
            node.invalid("must be non-negative");
        }
        u32::try_from(burst).ok().filter(|burst| *burst > 0)
    });
    let config = ClientConnectionConfig { kubeconfig: text(&mut connection, "kubeconfig"), qps, burst };
    connection.finish();
    Some(config)
}

/// A text; an empty one is absent.
fn text(fields: &mut Fields<'_>, name: &'static str) -> Option<String> {
    let text = fields.get(name)?.string()?;
    (!text.is_empty()).then(|| text.to_owned())
}

/// A Go duration such as `1m30s`; 0 is absent, as in Kubernetes' defaults.
fn duration(fields: &mut Fields<'_>, name: &'static str) -> Option<Duration> {
    let node = fields.get(name)?;
    let duration = Duration::try_from(node.duration()?).ok();
    if duration.is_none() {
        node.invalid(NO_DURATION);
    }
    duration.filter(|duration| !duration.is_zero())
}

/// Checks the type of a field, and warns that it has no effect.
fn without_effect(fields: &mut Fields<'_>, name: &'static str, kind: Kind, why: &str) {
    fields.accept(&[(name, kind)]);
    warn_without_effect(fields.get(name), why);
}

/// Warns that a field has no effect, if it is set.
pub(super) fn warn_without_effect(node: Option<Node<'_>>, why: &str) {
    if let Some(node) = node.filter(|node| *node.value != false && node.value != "") {
        node.findings.warn(node.path.as_str(), format!("has no effect: {why}"));
    }
}

/// Checks fields of the configuration or of a profile.
pub(super) fn check_percentage(fields: &mut Fields<'_>) {
    for (name, what) in
        [("percentageOfNodesToScore", "nodes"), ("percentageOfPlacementsToScore", "placements")]
    {
        if let Some(node) = fields.get(name)
            && node.int_between(0, 100).is_some_and(|percentage| !matches!(percentage, 0 | 100))
        {
            node.findings
                .warn(node.path.as_str(), format!("has no effect: all {what} are always considered"));
        }
    }
}
