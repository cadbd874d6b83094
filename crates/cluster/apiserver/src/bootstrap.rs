//! The objects that exist in every new cluster.

use berth_schema::resource::{self, Resource, of_kind};
use serde_json::{Value, json};

use crate::lifecycle::dependents;
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
    for role in roles().into_iter().chain(volume_roles()) {
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
        &[
            "",
            "apps",
            "autoscaling",
            "batch",
            "discovery.k8s.io",
            "events.k8s.io",
            "metrics.k8s.io",
            "policy",
        ],
        &[
            "bindings",
            "configmaps",
            "controllerrevisions",
            "cronjobs",
            "cronjobs/status",
            "daemonsets",
            "daemonsets/status",
            "deployments",
            "deployments/scale",
            "deployments/status",
            "endpoints",
            "endpointslices",
            "events",
            "horizontalpodautoscalers",
            "horizontalpodautoscalers/status",
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
        &["", "apps", "autoscaling", "batch", "policy"],
        &[
            "configmaps",
            "cronjobs",
            "daemonsets",
            "deployments",
            "deployments/scale",
            "events",
            "horizontalpodautoscalers",
            "jobs",
            "persistentvolumeclaims",
            "poddisruptionbudgets",
            "pods",
            "pods/eviction",
            "pods/resize",
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
        json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role",
            "metadata": {"name": "extension-apiserver-authentication-reader", "namespace": "kube-system",
                "labels": {"kubernetes.io/bootstrapping": "rbac-defaults"}},
            "rules": [{"apiGroups": [""], "resources": ["configmaps"], "verbs": ["get", "list", "watch"],
                "resourceNames": ["extension-apiserver-authentication"]}]}),
    ]
}

/// The roles of the components that handle volumes, with Kubernetes' names.
fn volume_roles() -> Vec<Value> {
    const READ: &[&str] = &["get", "list", "watch"];
    const CHANGE: &[&str] = &["get", "list", "watch", "patch", "update"];
    const EVENT: &[&str] = &["create", "patch", "update"];
    type Rule = (&'static str, &'static [&'static str], &'static [&'static str]);
    let role = |name: &str, rules: &[Rule]| {
        let rules: Vec<Value> = rules
            .iter()
            .map(|(group, resources, verbs)| json!({"apiGroups": [group], "resources": resources, "verbs": verbs}))
            .collect();
        json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole",
            "metadata": {"name": name, "labels": {"kubernetes.io/bootstrapping": "rbac-defaults"}}, "rules": rules})
    };
    let events: Rule = ("", &["events"], EVENT);
    let new_events: Rule = ("events.k8s.io", &["events"], EVENT);
    vec![
        role(
            "system:volume-scheduler",
            &[
                ("", &["persistentvolumeclaims", "persistentvolumes"], CHANGE),
                ("storage.k8s.io", &["storageclasses"], READ),
            ],
        ),
        json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding",
            "metadata": {"name": "system:volume-scheduler",
                "labels": {"kubernetes.io/bootstrapping": "rbac-defaults"}},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole",
                "name": "system:volume-scheduler"},
            "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "system:kube-scheduler"}]}),
        role(
            "system:controller:persistent-volume-binder",
            &[
                (
                    "",
                    &["persistentvolumes"],
                    &["create", "delete", "get", "list", "patch", "update", "watch"],
                ),
                ("", &["persistentvolumeclaims"], CHANGE),
                ("", &["persistentvolumeclaims/status", "persistentvolumes/status"], &["patch", "update"]),
                ("", &["pods"], READ),
                ("storage.k8s.io", &["storageclasses"], READ),
                events,
                new_events,
            ],
        ),
        role(
            "system:controller:pvc-protection-controller",
            &[("", &["persistentvolumeclaims"], CHANGE), ("", &["pods"], READ), events, new_events],
        ),
        role(
            "system:controller:pv-protection-controller",
            &[("", &["persistentvolumes"], CHANGE), events, new_events],
        ),
        role(
            "system:controller:ephemeral-volume-controller",
            &[
                ("", &["persistentvolumeclaims"], &["create", "get", "list", "watch"]),
                ("", &["pods"], READ),
                ("", &["pods/finalizers"], &["update"]),
                events,
                new_events,
            ],
        ),
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
    for dependent in dependents(&resource::NAMESPACES, name) {
        ensure(store, dependent).await?;
    }
    Ok(())
}

/// Creates an object if it is missing.
///
/// # Errors
/// The storage is broken.
pub(crate) async fn ensure(store: &Store, mut value: Value) -> Result<(), WriteError> {
    let text = |field: &str| value[field].as_str().unwrap_or_default();
    let Some(resource): Option<&'static Resource> = of_kind(text("apiVersion"), text("kind")) else {
        return Ok(());
    };
    value["metadata"]["uid"] = Value::from(uuid::Uuid::new_v4().to_string());
    value["metadata"]["creationTimestamp"] = Value::from(now());
    match store.write(Write { resource, change: Change::Import, object: value.into() }).await {
        Ok(_) | Err(WriteError::AlreadyExists) => Ok(()),
        Err(error) => Err(error),
    }
}
