//! The table of resources.

use berth_api::resource as names;

use super::{ALL_VERBS, Resource, SelectableField, Storage, Subresource};

/// Namespaces cannot be deleted as a collection.
const NAMESPACE_VERBS: &[&str] = &["create", "delete", "get", "list", "patch", "update", "watch"];
const READ: &[&str] = &["get", "list"];
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

/// The subresource `status`, written by the component that implements the object.
const fn status(names: names::Resource) -> Subresource {
    sub("status", names.group, names.version, names.kind, CHANGE)
}

const SCALE: Subresource = sub("scale", "autoscaling", "v1", "Scale", CHANGE);

const fn field(
    name: &'static str,
    pointers: &'static [&'static str],
    default: &'static str,
) -> SelectableField {
    SelectableField { name, pointers, default }
}

/// A resource with its own collection and every verb.
const fn stored(names: names::Resource) -> Resource {
    Resource {
        names,
        categories: &[],
        verbs: ALL_VERBS,
        subresources: &[],
        storage: Storage::Own,
        create_on_update: false,
        selectable_fields: &[],
        custom: None,
    }
}

/// A request that is answered and not stored.
const fn review(names: names::Resource) -> Resource {
    Resource { verbs: CREATE, storage: Storage::None, ..stored(names) }
}

const POD_SUBRESOURCES: &[Subresource] = &[
    sub("binding", "", "v1", "Binding", CREATE),
    sub("ephemeralcontainers", "", "v1", "Pod", CHANGE),
    sub("eviction", "policy", "v1", "Eviction", CREATE),
    sub("log", "", "v1", "Pod", GET),
    sub("resize", "", "v1", "Pod", CHANGE),
    status(names::PODS),
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

macro_rules! resources {
    ($($name:ident: $base:ident { $($field:ident: $value:expr),* $(,)? })*) => {
        $(#[allow(missing_docs, reason = "berth_api::resource documents the constant of the same name")]
        pub static $name: Resource = Resource { $($field: $value,)* ..$base(names::$name) };)*

        /// All resources, grouped by API group in the order of discovery.
        pub static RESOURCES: &[&Resource] = &[$(&$name),*];
    };
}

resources! {
    BINDINGS: review {}
    COMPONENT_STATUSES: stored { verbs: READ }
    CONFIG_MAPS: stored {}
    ENDPOINTS: stored { create_on_update: true }
    EVENTS: stored { create_on_update: true, selectable_fields: EVENT_FIELDS }
    LIMIT_RANGES: stored { create_on_update: true }
    NAMESPACES: stored {
        verbs: NAMESPACE_VERBS,
        subresources: &[sub("finalize", "", "v1", "Namespace", UPDATE), status(names::NAMESPACES)],
        selectable_fields: &[field("status.phase", &["/status/phase"], "")],
    }
    NODES: stored {
        subresources: &[status(names::NODES)],
        selectable_fields: &[field("spec.unschedulable", &["/spec/unschedulable"], "false")],
    }
    PERSISTENT_VOLUME_CLAIMS: stored {
        subresources: &[status(names::PERSISTENT_VOLUME_CLAIMS)],
    }
    PERSISTENT_VOLUMES: stored { subresources: &[status(names::PERSISTENT_VOLUMES)] }
    PODS: stored {
        categories: &["all"],
        subresources: POD_SUBRESOURCES,
        selectable_fields: POD_FIELDS,
    }
    POD_TEMPLATES: stored {}
    REPLICATION_CONTROLLERS: stored {
        categories: &["all"],
        subresources: &[SCALE, status(names::REPLICATION_CONTROLLERS)],
        selectable_fields: &[field("status.replicas", &["/status/replicas"], "0")],
    }
    RESOURCE_QUOTAS: stored { create_on_update: true, subresources: &[status(names::RESOURCE_QUOTAS)] }
    SECRETS: stored { selectable_fields: &[field("type", &["/type"], "")] }
    SERVICE_ACCOUNTS: stored {
        subresources: &[sub("token", "authentication.k8s.io", "v1", "TokenRequest", CREATE)],
    }
    SERVICES: stored {
        create_on_update: true,
        categories: &["all"],
        subresources: &[status(names::SERVICES)],
        selectable_fields: &[field("spec.clusterIP", &["/spec/clusterIP"], ""), field("spec.type", &["/spec/type"], "")],
    }
    MUTATING_ADMISSION_POLICIES: stored { categories: &["api-extensions"] }
    MUTATING_ADMISSION_POLICY_BINDINGS: stored { categories: &["api-extensions"] }
    MUTATING_WEBHOOK_CONFIGURATIONS: stored { categories: &["api-extensions"] }
    VALIDATING_ADMISSION_POLICIES: stored {
        categories: &["api-extensions"],
        subresources: &[status(names::VALIDATING_ADMISSION_POLICIES)],
    }
    VALIDATING_ADMISSION_POLICY_BINDINGS: stored { categories: &["api-extensions"] }
    VALIDATING_WEBHOOK_CONFIGURATIONS: stored { categories: &["api-extensions"] }
    CUSTOM_RESOURCE_DEFINITIONS: stored {
        categories: &["api-extensions"],
        subresources: &[status(names::CUSTOM_RESOURCE_DEFINITIONS)],
    }
    API_SERVICES: stored { categories: &["api-extensions"], subresources: &[status(names::API_SERVICES)] }
    CONTROLLER_REVISIONS: stored {}
    DAEMON_SETS: stored {
        categories: &["all"],
        subresources: &[status(names::DAEMON_SETS)],
    }
    DEPLOYMENTS: stored {
        categories: &["all"],
        subresources: &[SCALE, status(names::DEPLOYMENTS)],
    }
    REPLICA_SETS: stored {
        categories: &["all"],
        subresources: &[SCALE, status(names::REPLICA_SETS)],
        selectable_fields: &[field("status.replicas", &["/status/replicas"], "0")],
    }
    STATEFUL_SETS: stored {
        categories: &["all"],
        subresources: &[SCALE, status(names::STATEFUL_SETS)],
    }
    SELF_SUBJECT_REVIEWS: review {}
    TOKEN_REVIEWS: review {}
    LOCAL_SUBJECT_ACCESS_REVIEWS: review {}
    SELF_SUBJECT_ACCESS_REVIEWS: review {}
    SELF_SUBJECT_RULES_REVIEWS: review {}
    SUBJECT_ACCESS_REVIEWS: review {}
    HORIZONTAL_POD_AUTOSCALERS: stored {
        categories: &["all"],
        subresources: &[status(names::HORIZONTAL_POD_AUTOSCALERS)],
    }
    HORIZONTAL_POD_AUTOSCALERS_V1: stored {
        categories: &["all"],
        storage: Storage::Shared(&HORIZONTAL_POD_AUTOSCALERS),
        subresources: &[status(names::HORIZONTAL_POD_AUTOSCALERS_V1)],
    }
    CRON_JOBS: stored {
        categories: &["all"],
        subresources: &[status(names::CRON_JOBS)],
    }
    JOBS: stored {
        categories: &["all"],
        subresources: &[status(names::JOBS)],
        selectable_fields: &[field("status.successful", &["/status/succeeded"], "0")],
    }
    CERTIFICATE_SIGNING_REQUESTS: stored {
        subresources: &[
            sub("approval", "certificates.k8s.io", "v1", "CertificateSigningRequest", CHANGE),
            status(names::CERTIFICATE_SIGNING_REQUESTS),
        ],
        selectable_fields: &[field("spec.signerName", &["/spec/signerName"], "")],
    }
    LEASES: stored { create_on_update: true }
    ENDPOINT_SLICES: stored {}
    NEW_EVENTS: stored {
        create_on_update: true,
        storage: Storage::Shared(&EVENTS),
        selectable_fields: NEW_EVENT_FIELDS,
    }
    FLOW_SCHEMAS: stored { subresources: &[status(names::FLOW_SCHEMAS)] }
    PRIORITY_LEVEL_CONFIGURATIONS: stored { subresources: &[status(names::PRIORITY_LEVEL_CONFIGURATIONS)] }
    INGRESS_CLASSES: stored {}
    INGRESSES: stored { subresources: &[status(names::INGRESSES)] }
    IP_ADDRESSES: stored {
        selectable_fields: &[
            field("spec.parentRef.resource", &["/spec/parentRef/resource"], ""),
            field("spec.parentRef.name", &["/spec/parentRef/name"], ""),
        ],
    }
    NETWORK_POLICIES: stored {}
    SERVICE_CIDRS: stored { subresources: &[status(names::SERVICE_CIDRS)] }
    RUNTIME_CLASSES: stored {}
    POD_DISRUPTION_BUDGETS: stored {
        subresources: &[status(names::POD_DISRUPTION_BUDGETS)],
    }
    CLUSTER_ROLE_BINDINGS: stored { create_on_update: true }
    CLUSTER_ROLES: stored { create_on_update: true }
    ROLE_BINDINGS: stored { create_on_update: true }
    ROLES: stored {}
    DEVICE_CLASSES: stored {}
    RESOURCE_CLAIMS: stored { subresources: &[status(names::RESOURCE_CLAIMS)] }
    RESOURCE_CLAIM_TEMPLATES: stored {}
    RESOURCE_SLICES: stored {
        selectable_fields: &[field("spec.nodeName", &["/spec/nodeName"], ""), field("spec.driver", &["/spec/driver"], "")],
    }
    PRIORITY_CLASSES: stored {}
    POD_GROUPS: stored { subresources: &[status(names::POD_GROUPS)] }
    WORKLOADS: stored {}
    CSI_DRIVERS: stored {}
    CSI_NODES: stored {}
    CSI_STORAGE_CAPACITIES: stored {}
    STORAGE_CLASSES: stored {}
    VOLUME_ATTACHMENTS: stored { subresources: &[status(names::VOLUME_ATTACHMENTS)] }
    VOLUME_ATTRIBUTES_CLASSES: stored {}
}
