//! Start options of the API server.

use std::fmt;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use berth_api::feature_gates::FeatureGates;
use berth_serve::ConnectionLimits;

use crate::admission::Admission;
use crate::store::StorageOptions;

#[derive(Clone)]
pub struct ServerOptions {
    /// Listening address. Port 0 selects a free port, or the port of the last run with the same data directory.
    pub listen: SocketAddr,
    /// Where objects, keys and the port are kept; without it objects are in memory and the rest in a temporary directory.
    pub data_dir: Option<PathBuf>,
    /// Where the admin's kubeconfig is written; by default `kubeconfig` beside the keys.
    pub kubeconfig: Option<PathBuf>,
    /// Whether the extensions to Kubernetes' affinity are on.
    pub extensions: bool,
    pub feature_gates: FeatureGates,
    /// Whether new nodes get the taint `node.kubernetes.io/not-ready`, which the node lifecycle controller removes from ready nodes
    /// (the admission plugin TaintNodesByCondition).
    pub taints_new_nodes: bool,
    pub limits: Limits,
    pub storage: StorageOptions,
    /// How long an Event is kept after its last change.
    pub event_ttl: Duration,
    /// In-process admission plugin, called after the registered webhooks of the same phase.
    pub admission: Option<Arc<dyn Admission>>,
}

impl fmt::Debug for ServerOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ServerOptions")
            .field("listen", &self.listen)
            .field("data_dir", &self.data_dir)
            .field("kubeconfig", &self.kubeconfig)
            .field("extensions", &self.extensions)
            .field("feature_gates", &self.feature_gates)
            .field("taints_new_nodes", &self.taints_new_nodes)
            .field("limits", &self.limits)
            .field("storage", &self.storage)
            .field("event_ttl", &self.event_ttl)
            .field("admission", &self.admission.is_some())
            .finish()
    }
}

/// Request limits and timeouts. Together they bound the server's memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limits {
    pub connections: ConnectionLimits,
    /// Requests worked on or answered at once, watches excepted; more wait for their turn, and then get 429. Each
    /// priority level has its part, and one user half of that at most. Administrators have as many again.
    pub in_flight: usize,
    /// Watches open at once; more get 429. One user gets half of them at most.
    pub watches: usize,
    /// Bytes of the selectors of open watches; more get 429. One user gets half of them at most.
    pub watch_selector_bytes: usize,
    /// Bytes of request bodies held at once; more get 429. One user gets a quarter at most.
    pub body_bytes_held: usize,
    /// Bytes of responses held at once, until they are sent; what would exceed them gets 429, and a watch ends. One user gets
    /// half of them at most.
    pub response_bytes_held: usize,
    /// How long a client may take to send a body.
    pub body: Duration,
    /// How long a client may read nothing of a response; then it is disconnected.
    pub send: Duration,
    /// How long a request waits for its turn.
    pub queue: Duration,
    /// How long a request other than a watch may take until its response begins, and how long sending that may take. A change
    /// goes on without its client.
    pub request: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Limits {
            connections: ConnectionLimits {
                connections: 16_384,
                first_request: Duration::from_secs(15),
                drain: Duration::from_secs(5),
            },
            in_flight: 600,
            watches: 20_000,
            watch_selector_bytes: 16 << 20,
            body_bytes_held: 128 << 20,
            response_bytes_held: 256 << 20,
            body: Duration::from_secs(30),
            send: Duration::from_secs(30),
            queue: Duration::from_secs(5),
            request: Duration::from_secs(60),
        }
    }
}

impl Default for ServerOptions {
    fn default() -> Self {
        ServerOptions {
            listen: SocketAddr::from((Ipv4Addr::LOCALHOST, 0)),
            data_dir: None,
            kubeconfig: None,
            extensions: true,
            feature_gates: FeatureGates::default(),
            taints_new_nodes: false,
            limits: Limits::default(),
            storage: StorageOptions::default(),
            event_ttl: Duration::from_secs(3600),
            admission: None,
        }
    }
}
