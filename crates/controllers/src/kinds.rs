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

const RBAC: &str = "rbac.authorization.k8s.io/v1";

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

pub(crate) static CONFIG_MAPS: Kind = namespaced("v1", "ConfigMap", "configmaps");
pub(crate) static SECRETS: Kind = namespaced("v1", "Secret", "secrets");
pub(crate) static SERVICES: Kind = namespaced("v1", "Service", "services");
pub(crate) static PERSISTENT_VOLUMES: Kind = cluster("v1", "PersistentVolume", "persistentvolumes");
pub(crate) static PRIORITY_CLASSES: Kind =
    cluster("scheduling.k8s.io/v1", "PriorityClass", "priorityclasses");
pub(crate) static CLUSTER_ROLES: Kind = cluster(RBAC, "ClusterRole", "clusterroles");
pub(crate) static CLUSTER_ROLE_BINDINGS: Kind = cluster(RBAC, "ClusterRoleBinding", "clusterrolebindings");
pub(crate) static ROLES: Kind = namespaced(RBAC, "Role", "roles");
pub(crate) static ROLE_BINDINGS: Kind = namespaced(RBAC, "RoleBinding", "rolebindings");
pub(crate) static STORAGE_CLASSES: Kind = cluster("storage.k8s.io/v1", "StorageClass", "storageclasses");
pub(crate) static MUTATING_WEBHOOKS: Kind = cluster(
    "admissionregistration.k8s.io/v1",
    "MutatingWebhookConfiguration",
    "mutatingwebhookconfigurations",
);
pub(crate) static VALIDATING_WEBHOOKS: Kind = cluster(
    "admissionregistration.k8s.io/v1",
    "ValidatingWebhookConfiguration",
    "validatingwebhookconfigurations",
);

/// Every kind that is stored.
pub(crate) static ALL: [&Kind; 27] = [
    &NAMESPACES,
    &NODES,
    &PODS,
    &EVENTS,
    &SERVICE_ACCOUNTS,
    &PERSISTENT_VOLUME_CLAIMS,
    &REPLICATION_CONTROLLERS,
    &DEPLOYMENTS,
    &REPLICA_SETS,
    &STATEFUL_SETS,
    &DAEMON_SETS,
    &CONTROLLER_REVISIONS,
    &JOBS,
    &POD_DISRUPTION_BUDGETS,
    &LEASES,
    &CONFIG_MAPS,
    &SECRETS,
    &SERVICES,
    &PERSISTENT_VOLUMES,
    &CLUSTER_ROLES,
    &CLUSTER_ROLE_BINDINGS,
    &ROLES,
    &ROLE_BINDINGS,
    &PRIORITY_CLASSES,
    &STORAGE_CLASSES,
    &MUTATING_WEBHOOKS,
    &VALIDATING_WEBHOOKS,
];

/// The kind that an owner reference names; its version does not matter.
pub(crate) fn find(api_version: &str, kind: &str) -> Option<&'static Kind> {
    let group = api_version.split_once('/').map_or("", |(group, _)| group);
    ALL.into_iter().find(|known| known.kind == kind && known.group() == group)
}

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

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use berth_schema::resource::{RESOURCES, Storage};

    #[test]
    fn every_stored_resource_is_known() {
        let stored = RESOURCES.iter().filter(|resource| resource.storage == Storage::Own);
        let stored: BTreeSet<_> = stored.map(|r| (r.api_version(), r.kind, r.plural, r.namespaced)).collect();
        let known = ALL.map(|kind| (kind.api_version.to_owned(), kind.kind, kind.plural, kind.namespaced));
        assert_eq!(BTreeSet::from(known), stored);
        assert_eq!(find("apps/v1beta1", "Deployment"), Some(&DEPLOYMENTS));
        assert_eq!(find("v1", "Deployment"), None);
    }
}
