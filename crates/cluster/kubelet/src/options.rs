//! Settings of the simulated nodes.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use berth_engine::Settings;

use crate::node::{CsiDriverTemplate, NodeTemplate};

#[derive(Clone, Debug)]
pub struct KubeletOptions {
    /// Templates of the nodes to register. A node of the same name that already exists is adopted as it is.
    pub templates: Vec<NodeTemplate>,
    /// CSI drivers of all nodes. Without any, the nodes get no CSINode objects.
    pub csi_drivers: Vec<CsiDriverTemplate>,
    /// Existing nodes to adopt besides those of the templates.
    pub adopt: Adopt,
    pub credentials: NodeCredentials,
    pub heartbeat: Heartbeat,
    /// Timings of pods without annotations for them.
    pub pods: PodTimings,
    /// Engine settings of node admission: extensions, exempt namespaces.
    pub admission: Settings,
    /// Delay of the final check of a pod that its node rejected at first. The check reads node and namespaces from the
    /// API server again, because watch events of pods, nodes and namespaces arrive in any order.
    pub recheck_after: Duration,
    /// Whether pods get the events `Pulled`, `Created` and `Started`: three more writes per pod. The agent writes at most
    /// ten events per second; it always records rejections and failed containers.
    pub events: bool,
    /// Concurrent requests about pods and nodes; Leases may use a quarter of this number in addition.
    pub max_concurrent_requests: usize,
    pub request_timeout: Duration,
}

impl KubeletOptions {
    /// What the nodes report as the version of their kubelets.
    pub(crate) fn version(&self) -> String {
        format!("v{}.0", self.admission.config.feature_gates.version)
    }
}

impl Default for KubeletOptions {
    fn default() -> Self {
        KubeletOptions {
            templates: Vec::new(),
            csi_drivers: Vec::new(),
            adopt: Adopt::default(),
            credentials: NodeCredentials::default(),
            heartbeat: Heartbeat::default(),
            pods: PodTimings::default(),
            admission: Settings::default(),
            recheck_after: Duration::from_secs(1),
            events: false,
            max_concurrent_requests: 32,
            request_timeout: Duration::from_secs(15),
        }
    }
}

/// Which existing nodes are adopted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Adopt {
    /// Only nodes with the names of the templates.
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

pub type TokenOf = dyn Fn(&str) -> Option<String> + Send + Sync;

/// How a request gets the identity of a node: user `system:node:NAME`, group `system:nodes`.
#[derive(Clone, Default)]
pub enum NodeCredentials {
    /// With `Impersonate-User` and `Impersonate-Group` headers. The credential of the client configuration must be
    /// allowed to impersonate.
    #[default]
    Impersonate,
    /// With a bearer token per node; a node without a token is impersonated.
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

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Heartbeat {
    /// Interval between renewals of a node's Lease in `kube-node-lease`. The nodes are spread evenly over it.
    pub lease_interval: Duration,
    /// `leaseDurationSeconds` of the Lease.
    pub lease_duration: Duration,
    /// Interval between writes of a node's unchanged status.
    pub status_interval: Duration,
}

impl Default for Heartbeat {
    /// The defaults of a kubelet: 10 s, 40 s and 5 min.
    fn default() -> Self {
        Heartbeat {
            lease_interval: Duration::from_secs(10),
            lease_duration: Duration::from_secs(40),
            status_interval: Duration::from_secs(300),
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PodTimings {
    /// Time between the binding and running containers (or the first init container).
    pub start_after: Duration,
    /// Time between running and ready.
    pub ready_after: Duration,
    /// How long an init container runs, except sidecars.
    pub init_run_for: Duration,
    /// How long pods with `restartPolicy` `Never` or `OnFailure` run before they succeed.
    pub run_for: Duration,
    /// How long containers take to end after SIGTERM, at most the pod's grace period.
    pub stop_after: Duration,
    /// Wait before the second restart of a container; it doubles with each restart. The first restart is immediate.
    pub restart_backoff: Duration,
    /// The longest such wait.
    pub max_restart_backoff: Duration,
    /// Random deviation of `start_after` and `ready_after` per pod, in both directions, as a fraction from 0 to 1.
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
