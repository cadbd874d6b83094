//! What the simulated nodes are and how they behave.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use berth_engine::Settings;

use crate::node::NodeTemplate;

/// Settings of [`crate::Kubelet`].
#[derive(Clone, Debug)]
pub struct KubeletOptions {
    /// Nodes to make. A node that exists already is taken over as it is.
    pub make: Vec<NodeTemplate>,
    /// Nodes of the API server to take over besides those that are made.
    pub adopt: Adopt,
    /// As whom requests are made.
    pub credentials: NodeCredentials,
    /// Heartbeats.
    pub heartbeat: Heartbeat,
    /// What pods do that say nothing else by annotation.
    pub pods: PodTimings,
    /// How affinity is read at a node's admission: extensions, exempt namespaces.
    pub admission: Settings,
    /// How long after a first refusal a pod is judged for good, against the node and the namespaces as the API
    /// server has them then. Pods that one scheduler binds at the same time arrive in any order.
    pub second_look_after: Duration,
    /// Whether pods get the events `Pulled`, `Created` and `Started`: three more writes a pod. At most ten events
    /// a second are written; refusals and failed containers are always told.
    pub events: bool,
    /// Requests about pods and nodes at a time, besides a quarter of it for leases.
    pub max_concurrent_requests: usize,
    /// How long one request may take.
    pub request_timeout: Duration,
}

impl Default for KubeletOptions {
    fn default() -> Self {
        KubeletOptions {
            make: Vec::new(),
            adopt: Adopt::default(),
            credentials: NodeCredentials::default(),
            heartbeat: Heartbeat::default(),
            pods: PodTimings::default(),
            admission: Settings::default(),
            second_look_after: Duration::from_secs(1),
            events: false,
            max_concurrent_requests: 32,
            request_timeout: Duration::from_secs(15),
        }
    }
}

/// Which existing nodes are taken over.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Adopt {
    /// None but those that would have been made.
    #[default]
    None,
    /// All, those that are created later included.
    All,
    /// Nodes that match a label selector in Kubernetes' text form (`zone in (a,b),!virtual`) and, where names are
    /// given, have one of them.
    Selected {
        /// Label selector; empty matches every node.
        labels: String,
        /// Names; empty allows every name.
        names: Vec<String>,
    },
}

/// Gives a node's bearer token by its name.
pub type TokenOf = dyn Fn(&str) -> Option<String> + Send + Sync;

/// How requests are made in the name of a node, `system:node:NAME` of the group `system:nodes`.
#[derive(Clone, Default)]
pub enum NodeCredentials {
    /// With `Impersonate-User` and `Impersonate-Group`, on top of the credential of the client configuration. That
    /// one must be allowed to impersonate.
    #[default]
    Impersonate,
    /// With a bearer token for each node; nodes without one are impersonated.
    Tokens(Arc<TokenOf>),
}

impl fmt::Debug for NodeCredentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            NodeCredentials::Impersonate => "Impersonate",
            NodeCredentials::Tokens(_) => "Tokens",
        })
    }
}

/// How nodes show that they are alive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Heartbeat {
    /// Between renewals of a node's Lease in `kube-node-lease`. The nodes' turns are spread evenly over it.
    pub lease_interval: Duration,
    /// `leaseDurationSeconds` of the Lease.
    pub lease_duration: Duration,
    /// Between writes of a node's status that has not changed.
    pub status_interval: Duration,
}

impl Default for Heartbeat {
    /// The kubelet's: 10 s, 40 s and 5 min.
    fn default() -> Self {
        Heartbeat {
            lease_interval: Duration::from_secs(10),
            lease_duration: Duration::from_secs(40),
            status_interval: Duration::from_secs(300),
        }
    }
}

/// How long things take in the life of a pod.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PodTimings {
    /// From the binding to running containers (or the first init container).
    pub start_after: Duration,
    /// From running to ready.
    pub ready_after: Duration,
    /// How long an init container takes, sidecars apart.
    pub init_run_for: Duration,
    /// How long pods with `restartPolicy` `Never` or `OnFailure` run before they succeed.
    pub run_for: Duration,
    /// How long containers take to end after being told to; the pod's grace period bounds it.
    pub stop_after: Duration,
    /// Wait before the second restart of a container; doubled with each further one. The first is immediate.
    pub restart_backoff: Duration,
    /// The longest such wait.
    pub max_restart_backoff: Duration,
    /// Part of `start_after` and `ready_after` by which each pod deviates at random, either way: 0 to 1.
    pub jitter: f64,
}

impl Default for PodTimings {
    fn default() -> Self {
        PodTimings {
            start_after: Duration::from_secs(1),
            ready_after: Duration::ZERO,
            init_run_for: Duration::ZERO,
            run_for: Duration::from_secs(5),
            stop_after: Duration::from_secs(1),
            restart_backoff: Duration::from_secs(10),
            max_restart_backoff: Duration::from_secs(300),
            jitter: 0.0,
        }
    }
}
