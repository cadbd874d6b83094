//! The table of resources.

use super::{Resource, SelectableField, Storage, Subresource};

const ALL_VERBS: &[&str] =
    &["create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"];
/// Namespaces cannot be deleted as a collection.
const NAMESPACE_VERBS: &[&str] = &["create", "delete", "get", "list", "patch", "update", "watch"];
const CREATE: &[&str] = &["create"];
const CHANGE: &[&str] = &["get", "patch", "update"];
const GET: &[&str] = &["get"];
const UPDATE: &[&str] = &["update"];

const fn sub(
    name: &'static str,
    group: &'static str,
    version: &'static str,
    kind: &'static str,
    verbs: &'static [&'static str],
) -> Subresource {
    Subresource { name, group, version, kind, verbs }
}

const fn field(
    name: &'static str,
    pointers: &'static [&'static str],
    default: &'static str,
) -> SelectableField {
    SelectableField { name, pointers, default }
}

/// What most resources are like.
const BASE: Resource = Resource {
    group: "",
    version: "v1",
    kind: "",
    plural: "",
    singular: "",
    short_names: &[],
    categories: &[],
    namespaced: true,
    verbs: ALL_VERBS,
    subresources: &[],
    storage: Storage::Own,
    create_on_update: false,
    selectable_fields: &[],
};

/// A request that is answered and forgotten.
const REVIEW: Resource = Resource { namespaced: false, verbs: CREATE, storage: Storage::None, ..BASE };

const POD_SUBRESOURCES: &[Subresource] = &[
    sub("binding", "", "v1", "Binding", CREATE),
    sub("ephemeralcontainers", "", "v1", "Pod", CHANGE),
    sub("eviction", "policy", "v1", "Eviction", CREATE),
    sub("log", "", "v1", "Pod", GET),
    sub("status", "", "v1", "Pod", CHANGE),
];

const POD_FIELDS: &[SelectableField] = &[
    field("spec.nodeName", &["/spec/nodeName"], ""),
    field("spec.restartPolicy", &["/spec/restartPolicy"], ""),
    field("spec.schedulerName", &["/spec/schedulerName"], ""),
    field("spec.serviceAccountName", &["/spec/serviceAccountName"], ""),
    field("spec.hostNetwork", &["/spec/hostNetwork"], "false"),
    field("status.phase", &["/status/phase"], ""),
    field("status.podIP", &["/status/podIP"], ""),
    field("status.nominatedNodeName", &["/status/nominatedNodeName"], ""),
];

const EVENT_FIELDS: &[SelectableField] = &[
    field("involvedObject.kind", &["/involvedObject/kind"], ""),
    field("involvedObject.namespace", &["/involvedObject/namespace"], ""),
    field("involvedObject.name", &["/involvedObject/name"], ""),
    field("involvedObject.uid", &["/involvedObject/uid"], ""),
    field("involvedObject.apiVersion", &["/involvedObject/apiVersion"], ""),
    field("involvedObject.resourceVersion", &["/involvedObject/resourceVersion"], ""),
    field("involvedObject.fieldPath", &["/involvedObject/fieldPath"], ""),
    field("reason", &["/reason"], ""),
    field("reportingComponent", &["/reportingComponent", "/source/component"], ""),
    field("source", &["/source/component", "/reportingComponent"], ""),
    field("type", &["/type"], ""),
];

/// The names of `events.k8s.io`; the pointers are those of the stored form, which is the core group's.
const NEW_EVENT_FIELDS: &[SelectableField] = &[
    field("regarding.kind", &["/involvedObject/kind"], ""),
    field("regarding.namespace", &["/involvedObject/namespace"], ""),
    field("regarding.name", &["/involvedObject/name"], ""),
    field("regarding.uid", &["/involvedObject/uid"], ""),
    field("regarding.apiVersion", &["/involvedObject/apiVersion"], ""),
    field("regarding.resourceVersion", &["/involvedObject/resourceVersion"], ""),
    field("regarding.fieldPath", &["/involvedObject/fieldPath"], ""),
    field("reason", &["/reason"], ""),
    field("reportingController", &["/reportingComponent", "/source/component"], ""),
    field("type", &["/type"], ""),
];

/// All resources, grouped by API group in the order of discovery.
pub static RESOURCES: &[Resource] = &[
    Resource { kind: "Binding", plural: "bindings", singular: "binding", namespaced: true, ..REVIEW },
    Resource { kind: "ConfigMap", plural: "configmaps", singular: "configmap", short_names: &["cm"], ..BASE },
    Resource {
        kind: "Event",
        plural: "events",
        singular: "event",
        short_names: &["ev"],
        create_on_update: true,
        selectable_fields: EVENT_FIELDS,
        ..BASE
    },
    Resource {
        kind: "Namespace",
        plural: "namespaces",
        singular: "namespace",
        short_names: &["ns"],
        namespaced: false,
        verbs: NAMESPACE_VERBS,
        subresources: &[
            sub("finalize", "", "v1", "Namespace", UPDATE),
            sub("status", "", "v1", "Namespace", CHANGE),
        ],
        selectable_fields: &[field("status.phase", &["/status/phase"], "")],
        ..BASE
    },
    Resource {
        kind: "Node",
        plural: "nodes",
        singular: "node",
        short_names: &["no"],
        namespaced: false,
        subresources: &[sub("status", "", "v1", "Node", CHANGE)],
        selectable_fields: &[field("spec.unschedulable", &["/spec/unschedulable"], "false")],
        ..BASE
    },
    Resource {
        kind: "PersistentVolumeClaim",
        plural: "persistentvolumeclaims",
        singular: "persistentvolumeclaim",
        short_names: &["pvc"],
        subresources: &[sub("status", "", "v1", "PersistentVolumeClaim", CHANGE)],
        ..BASE
    },
    Resource {
        kind: "PersistentVolume",
        plural: "persistentvolumes",
        singular: "persistentvolume",
        short_names: &["pv"],
        namespaced: false,
        subresources: &[sub("status", "", "v1", "PersistentVolume", CHANGE)],
        ..BASE
    },
    Resource {
        kind: "Pod",
        plural: "pods",
        singular: "pod",
        short_names: &["po"],
        categories: &["all"],
        subresources: POD_SUBRESOURCES,
        selectable_fields: POD_FIELDS,
        ..BASE
    },
    Resource {
        kind: "ReplicationController",
        plural: "replicationcontrollers",
        singular: "replicationcontroller",
        short_names: &["rc"],
        categories: &["all"],
        subresources: &[
            sub("scale", "autoscaling", "v1", "Scale", CHANGE),
            sub("status", "", "v1", "ReplicationController", CHANGE),
        ],
        selectable_fields: &[field("status.replicas", &["/status/replicas"], "0")],
        ..BASE
    },
    Resource {
        kind: "Secret",
        plural: "secrets",
        singular: "secret",
        selectable_fields: &[field("type", &["/type"], "")],
        ..BASE
    },
    Resource {
        kind: "ServiceAccount",
        plural: "serviceaccounts",
        singular: "serviceaccount",
        short_names: &["sa"],
        subresources: &[sub("token", "authentication.k8s.io", "v1", "TokenRequest", CREATE)],
        ..BASE
    },
    Resource {
        kind: "Service",
        plural: "services",
        singular: "service",
        short_names: &["svc"],
        create_on_update: true,
        categories: &["all"],
        subresources: &[sub("status", "", "v1", "Service", CHANGE)],
        selectable_fields: &[
            field("spec.clusterIP", &["/spec/clusterIP"], ""),
            field("spec.type", &["/spec/type"], ""),
        ],
        ..BASE
    },
    Resource {
        group: "admissionregistration.k8s.io",
        kind: "MutatingWebhookConfiguration",
        plural: "mutatingwebhookconfigurations",
        singular: "mutatingwebhookconfiguration",
        categories: &["api-extensions"],
        namespaced: false,
        ..BASE
    },
    Resource {
        group: "admissionregistration.k8s.io",
        kind: "ValidatingWebhookConfiguration",
        plural: "validatingwebhookconfigurations",
        singular: "validatingwebhookconfiguration",
        categories: &["api-extensions"],
        namespaced: false,
        ..BASE
    },
    Resource {
        group: "apps",
        kind: "ControllerRevision",
        plural: "controllerrevisions",
        singular: "controllerrevision",
        ..BASE
    },
    Resource {
        group: "apps",
        kind: "DaemonSet",
        plural: "daemonsets",
        singular: "daemonset",
        short_names: &["ds"],
        categories: &["all"],
        subresources: &[sub("status", "apps", "v1", "DaemonSet", CHANGE)],
        ..BASE
    },
    Resource {
        group: "apps",
        kind: "Deployment",
        plural: "deployments",
        singular: "deployment",
        short_names: &["deploy"],
        categories: &["all"],
        subresources: &[
            sub("scale", "autoscaling", "v1", "Scale", CHANGE),
            sub("status", "apps", "v1", "Deployment", CHANGE),
        ],
        ..BASE
    },
    Resource {
        group: "apps",
        kind: "ReplicaSet",
        plural: "replicasets",
        singular: "replicaset",
        short_names: &["rs"],
        categories: &["all"],
        subresources: &[
            sub("scale", "autoscaling", "v1", "Scale", CHANGE),
            sub("status", "apps", "v1", "ReplicaSet", CHANGE),
        ],
        selectable_fields: &[field("status.replicas", &["/status/replicas"], "0")],
        ..BASE
    },
    Resource {
        group: "apps",
        kind: "StatefulSet",
        plural: "statefulsets",
        singular: "statefulset",
        short_names: &["sts"],
        categories: &["all"],
        subresources: &[
            sub("scale", "autoscaling", "v1", "Scale", CHANGE),
            sub("status", "apps", "v1", "StatefulSet", CHANGE),
        ],
        ..BASE
    },
    Resource {
        group: "authentication.k8s.io",
        kind: "SelfSubjectReview",
        plural: "selfsubjectreviews",
        singular: "selfsubjectreview",
        ..REVIEW
    },
    Resource {
        group: "authentication.k8s.io",
        kind: "TokenReview",
        plural: "tokenreviews",
        singular: "tokenreview",
        ..REVIEW
    },
    Resource {
        group: "authorization.k8s.io",
        kind: "LocalSubjectAccessReview",
        plural: "localsubjectaccessreviews",
        singular: "localsubjectaccessreview",
        namespaced: true,
        ..REVIEW
    },
    Resource {
        group: "authorization.k8s.io",
        kind: "SelfSubjectAccessReview",
        plural: "selfsubjectaccessreviews",
        singular: "selfsubjectaccessreview",
        ..REVIEW
    },
    Resource {
        group: "authorization.k8s.io",
        kind: "SelfSubjectRulesReview",
        plural: "selfsubjectrulesreviews",
        singular: "selfsubjectrulesreview",
        ..REVIEW
    },
    Resource {
        group: "authorization.k8s.io",
        kind: "SubjectAccessReview",
        plural: "subjectaccessreviews",
        singular: "subjectaccessreview",
        ..REVIEW
    },
    Resource {
        group: "batch",
        kind: "Job",
        plural: "jobs",
        singular: "job",
        categories: &["all"],
        subresources: &[sub("status", "batch", "v1", "Job", CHANGE)],
        selectable_fields: &[field("status.successful", &["/status/succeeded"], "0")],
        ..BASE
    },
    Resource {
        group: "coordination.k8s.io",
        kind: "Lease",
        plural: "leases",
        singular: "lease",
        create_on_update: true,
        ..BASE
    },
    Resource {
        group: "events.k8s.io",
        kind: "Event",
        plural: "events",
        singular: "event",
        short_names: &["ev"],
        create_on_update: true,
        storage: Storage::Shared("", "events"),
        selectable_fields: NEW_EVENT_FIELDS,
        ..BASE
    },
    Resource {
        group: "policy",
        kind: "PodDisruptionBudget",
        plural: "poddisruptionbudgets",
        singular: "poddisruptionbudget",
        short_names: &["pdb"],
        subresources: &[sub("status", "policy", "v1", "PodDisruptionBudget", CHANGE)],
        ..BASE
    },
    Resource {
        group: "rbac.authorization.k8s.io",
        kind: "ClusterRoleBinding",
        plural: "clusterrolebindings",
        singular: "clusterrolebinding",
        create_on_update: true,
        namespaced: false,
        ..BASE
    },
    Resource {
        group: "rbac.authorization.k8s.io",
        kind: "ClusterRole",
        plural: "clusterroles",
        singular: "clusterrole",
        create_on_update: true,
        namespaced: false,
        ..BASE
    },
    Resource {
        group: "rbac.authorization.k8s.io",
        kind: "RoleBinding",
        plural: "rolebindings",
        singular: "rolebinding",
        create_on_update: true,
        ..BASE
    },
    Resource { group: "rbac.authorization.k8s.io", kind: "Role", plural: "roles", singular: "role", ..BASE },
    Resource {
        group: "scheduling.k8s.io",
        kind: "PriorityClass",
        plural: "priorityclasses",
        singular: "priorityclass",
        short_names: &["pc"],
        namespaced: false,
        ..BASE
    },
    Resource {
        group: "storage.k8s.io",
        kind: "StorageClass",
        plural: "storageclasses",
        singular: "storageclass",
        short_names: &["sc"],
        namespaced: false,
        ..BASE
    },
];
