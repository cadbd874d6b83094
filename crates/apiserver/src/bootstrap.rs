//! The objects that exist in every new cluster.

use berth_schema::resource::{Resource, of_kind};
use serde_json::{Value, json};

use crate::store::{Change, Store, Write, WriteError};
use crate::strategy::now;

const NAMESPACES: [&str; 4] = ["default", "kube-system", "kube-public", "kube-node-lease"];

/// Creates missing objects: namespaces, the service `kubernetes`, two priority classes, the user-facing roles.
///
/// # Errors
/// The storage is broken.
pub(crate) async fn bootstrap(store: &Store) -> Result<(), WriteError> {
    for name in NAMESPACES {
        ensure_namespace(store, name).await?;
    }
    let service = json!({
        "apiVersion": "v1", "kind": "Service",
        "metadata": {"name": "kubernetes", "namespace": "default",
            "labels": {"component": "apiserver", "provider": "kubernetes"}},
        "spec": {
            "clusterIP": "10.96.0.1", "clusterIPs": ["10.96.0.1"], "internalTrafficPolicy": "Cluster",
            "ipFamilies": ["IPv4"], "ipFamilyPolicy": "SingleStack",
            "ports": [{"name": "https", "port": 443, "protocol": "TCP", "targetPort": 6443}],
            "sessionAffinity": "None", "type": "ClusterIP"},
        "status": {"loadBalancer": {}}
    });
    ensure(store, service).await?;
    for (name, value, description) in [
        (
            "system-cluster-critical",
            2_000_000_000,
            "Used for system critical pods that must run in the cluster, but can be moved to another node if necessary.",
        ),
        (
            "system-node-critical",
            2_000_001_000,
            "Used for system critical pods that must not be moved from their current node.",
        ),
    ] {
        let class = json!({
            "apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass",
            "metadata": {"name": name, "generation": 1}, "value": value, "description": description,
            "preemptionPolicy": "PreemptLowerPriority"
        });
        ensure(store, class).await?;
    }
    for role in roles() {
        ensure(store, role).await?;
    }
    Ok(())
}

/// The user-facing roles of every cluster, for the resources that are served.
fn roles() -> Vec<Value> {
    let rule = |groups: &[&str], resources: &[&str], verbs: &[&str]| json!({"apiGroups": groups, "resources": resources, "verbs": verbs});
    let role = |name: &str, rules: Vec<Value>| {
        json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole",
            "metadata": {"name": name, "labels": {"kubernetes.io/bootstrapping": "rbac-defaults"}}, "rules": rules})
    };
    let read = ["get", "list", "watch"];
    let write = ["create", "delete", "deletecollection", "patch", "update"];
    let view = rule(
        &["", "apps", "batch", "policy", "events.k8s.io"],
        &[
            "bindings",
            "configmaps",
            "controllerrevisions",
            "daemonsets",
            "daemonsets/status",
            "deployments",
            "deployments/scale",
            "deployments/status",
            "events",
            "jobs",
            "jobs/status",
            "namespaces",
            "namespaces/status",
            "persistentvolumeclaims",
            "persistentvolumeclaims/status",
            "poddisruptionbudgets",
            "poddisruptionbudgets/status",
            "pods",
            "pods/log",
            "pods/status",
            "replicasets",
            "replicasets/scale",
            "replicasets/status",
            "replicationcontrollers",
            "replicationcontrollers/scale",
            "replicationcontrollers/status",
            "serviceaccounts",
            "services",
            "services/status",
            "statefulsets",
            "statefulsets/scale",
            "statefulsets/status",
        ],
        &read,
    );
    let workloads = rule(
        &["", "apps", "batch", "policy"],
        &[
            "configmaps",
            "daemonsets",
            "deployments",
            "deployments/scale",
            "events",
            "jobs",
            "persistentvolumeclaims",
            "poddisruptionbudgets",
            "pods",
            "pods/eviction",
            "replicasets",
            "replicasets/scale",
            "replicationcontrollers",
            "replicationcontrollers/scale",
            "secrets",
            "serviceaccounts",
            "serviceaccounts/token",
            "services",
            "statefulsets",
            "statefulsets/scale",
        ],
        &write,
    );
    let secrets = rule(&[""], &["secrets"], &read);
    let of_roles =
        rule(&["rbac.authorization.k8s.io"], &["rolebindings", "roles"], &[&read[..], &write].concat());
    let anything = json!({"nonResourceURLs": ["*"], "verbs": ["*"]});
    vec![
        role("cluster-admin", vec![rule(&["*"], &["*"], &["*"]), anything]),
        role("admin", vec![view.clone(), workloads.clone(), secrets.clone(), of_roles]),
        role("edit", vec![view.clone(), workloads, secrets]),
        role("view", vec![view]),
        json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding",
            "metadata": {"name": "cluster-admin", "labels": {"kubernetes.io/bootstrapping": "rbac-defaults"}},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"},
            "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "Group", "name": "system:masters"}]}),
    ]
}

/// Makes a namespace and its service account if they are missing.
///
/// # Errors
/// The storage is broken.
pub(crate) async fn ensure_namespace(store: &Store, name: &str) -> Result<(), WriteError> {
    let namespace = json!({
        "apiVersion": "v1", "kind": "Namespace",
        "metadata": {"name": name, "labels": {"kubernetes.io/metadata.name": name}},
        "spec": {"finalizers": ["kubernetes"]},
        "status": {"phase": "Active"}
    });
    ensure(store, namespace).await?;
    ensure_service_account(store, name).await
}

/// Makes a namespace's service account `default` if it is missing.
///
/// # Errors
/// The storage is broken.
pub(crate) async fn ensure_service_account(store: &Store, namespace: &str) -> Result<(), WriteError> {
    let account = json!({
        "apiVersion": "v1", "kind": "ServiceAccount",
        "metadata": {"name": "default", "namespace": namespace}
    });
    ensure(store, account).await
}

async fn ensure(store: &Store, mut value: Value) -> Result<(), WriteError> {
    let text = |field: &str| value[field].as_str().unwrap_or_default();
    let Some(resource): Option<&'static Resource> = of_kind(text("apiVersion"), text("kind")) else {
        return Ok(());
    };
    value["metadata"]["uid"] = Value::from(uuid::Uuid::new_v4().to_string());
    value["metadata"]["creationTimestamp"] = Value::from(now());
    match store.write(Write { resource, change: Change::Create, value }).await {
        Ok(_) | Err(WriteError::AlreadyExists) => Ok(()),
        Err(error) => Err(error),
    }
}
