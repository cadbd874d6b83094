//! The resources that controllers know by name.

/// A resource of the API: what its URLs are made of.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Kind {
    /// `v1`, `apps/v1`, ...
    pub(crate) api_version: &'static str,
    /// `Pod`, ...
    pub(crate) kind: &'static str,
    /// `pods`, ...
    pub(crate) plural: &'static str,
    /// Whether its objects live in namespaces.
    pub(crate) namespaced: bool,
}

const fn namespaced(api_version: &'static str, kind: &'static str, plural: &'static str) -> Kind {
    Kind { api_version, kind, plural, namespaced: true }
}

const fn cluster(api_version: &'static str, kind: &'static str, plural: &'static str) -> Kind {
    Kind { api_version, kind, plural, namespaced: false }
}

pub(crate) static NAMESPACES: Kind = cluster("v1", "Namespace", "namespaces");
pub(crate) static NODES: Kind = cluster("v1", "Node", "nodes");
pub(crate) static PODS: Kind = namespaced("v1", "Pod", "pods");
pub(crate) static EVENTS: Kind = namespaced("v1", "Event", "events");
pub(crate) static SERVICE_ACCOUNTS: Kind = namespaced("v1", "ServiceAccount", "serviceaccounts");
pub(crate) static PERSISTENT_VOLUME_CLAIMS: Kind =
    namespaced("v1", "PersistentVolumeClaim", "persistentvolumeclaims");
pub(crate) static REPLICATION_CONTROLLERS: Kind =
    namespaced("v1", "ReplicationController", "replicationcontrollers");
pub(crate) static DEPLOYMENTS: Kind = namespaced("apps/v1", "Deployment", "deployments");
pub(crate) static REPLICA_SETS: Kind = namespaced("apps/v1", "ReplicaSet", "replicasets");
pub(crate) static STATEFUL_SETS: Kind = namespaced("apps/v1", "StatefulSet", "statefulsets");
pub(crate) static DAEMON_SETS: Kind = namespaced("apps/v1", "DaemonSet", "daemonsets");
pub(crate) static CONTROLLER_REVISIONS: Kind =
    namespaced("apps/v1", "ControllerRevision", "controllerrevisions");
pub(crate) static JOBS: Kind = namespaced("batch/v1", "Job", "jobs");
pub(crate) static POD_DISRUPTION_BUDGETS: Kind =
    namespaced("policy/v1", "PodDisruptionBudget", "poddisruptionbudgets");
pub(crate) static LEASES: Kind = namespaced("coordination.k8s.io/v1", "Lease", "leases");

impl Kind {
    /// The group of the API; empty for the core one.
    pub(crate) fn group(&self) -> &'static str {
        self.api_version.split_once('/').map_or("", |(group, _)| group)
    }

    /// URL path of all objects, or of those in a namespace.
    pub(crate) fn path(&self, namespace: &str) -> String {
        let root = if self.group().is_empty() { "/api" } else { "/apis" };
        let (api_version, plural) = (self.api_version, self.plural);
        if namespace.is_empty() {
            format!("{root}/{api_version}/{plural}")
        } else {
            format!("{root}/{api_version}/namespaces/{namespace}/{plural}")
        }
    }
}
