//! The table of resources.

use berth_api::resource as names;
use k8s_openapi::api::{
    admissionregistration::v1 as admissionregistration, apps::v1 as apps,
    authentication::v1 as authentication, authorization::v1 as authorization, autoscaling::v1 as autoscaling,
    autoscaling::v2 as autoscaling_v2, batch::v1 as batch, certificates::v1 as certificates,
    coordination::v1 as coordination, core::v1 as core, discovery::v1 as discovery, events::v1 as events,
    flowcontrol::v1 as flowcontrol, networking::v1 as networking, node::v1 as node, policy::v1 as policy,
    rbac::v1 as rbac, resource::v1 as resource, scheduling::v1 as scheduling,
    scheduling::v1alpha2 as scheduling_v1alpha2, storage::v1 as storage,
};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1 as apiextensions;
use k8s_openapi::kube_aggregator::pkg::apis::apiregistration::v1 as apiregistration;
use schemars::JsonSchema;

use super::row::{CHANGE, GeneratedType, Resource, SelectableField, Storage, Subresource};
use super::{resource_1_37, scheduling_1_37};

/// Namespaces cannot be deleted as a collection.
const NAMESPACE_VERBS: &[&str] = &["create", "delete", "get", "list", "patch", "update", "watch"];
const READ: &[&str] = &["get", "list"];
const CREATE: &[&str] = &["create"];
const GET: &[&str] = &["get"];
const UPDATE: &[&str] = &["update"];

const fn sub<T: k8s_openapi::Resource + JsonSchema>(
    name: &'static str,
    verbs: &'static [&'static str],
) -> Subresource {
    let generated = Some(GeneratedType::of::<T>());
    Subresource { name, group: T::GROUP, version: T::VERSION, kind: T::KIND, verbs, generated }
}

/// The subresource `status`, written by the component that implements the object.
const fn status<T: k8s_openapi::Resource + JsonSchema>() -> Subresource {
    sub::<T>("status", CHANGE)
}

const SCALE: Subresource = sub::<autoscaling::Scale>("scale", CHANGE);

const fn field(
    name: &'static str,
    pointers: &'static [&'static str],
    default: &'static str,
) -> SelectableField {
    SelectableField { name, pointers, default }
}

/// A resource with its own collection and every verb. Its names are those of its type, or this does not compile.
const fn stored<T: k8s_openapi::Resource + JsonSchema>(names: names::Resource) -> Resource {
    assert!(is_same(names.group, T::GROUP) && is_same(names.version, T::VERSION));
    assert!(is_same(names.kind, T::KIND) && is_same(names.plural, T::URL_PATH_SEGMENT));
    Resource { generated: Some(GeneratedType::of::<T>()), ..Resource::new(names) }
}

/// The only subresource of most resources that have any.
struct Status<T>(std::marker::PhantomData<T>);

impl<T: k8s_openapi::Resource + JsonSchema> Status<T> {
    const ONLY: &[Subresource] = &[status::<T>()];
}

const fn with_status<T: k8s_openapi::Resource + JsonSchema>(names: names::Resource) -> Resource {
    Resource { subresources: Status::<T>::ONLY, ..stored::<T>(names) }
}

const fn is_same(a: &str, b: &str) -> bool {
    let (a, b) = (a.as_bytes(), b.as_bytes());
    let mut at = 0;
    while at < a.len() && at < b.len() && a[at] == b[at] {
        at += 1;
    }
    at == a.len() && at == b.len()
}

/// A request that is answered and not stored.
const fn review<T: k8s_openapi::Resource + JsonSchema>(names: names::Resource) -> Resource {
    Resource { verbs: CREATE, storage: Storage::None, ..stored::<T>(names) }
}

const POD_SUBRESOURCES: &[Subresource] = &[
    sub::<core::Binding>("binding", CREATE),
    sub::<core::Pod>("ephemeralcontainers", CHANGE),
    sub::<policy::Eviction>("eviction", CREATE),
    sub::<core::Pod>("log", GET),
    sub::<core::Pod>("resize", CHANGE),
    status::<core::Pod>(),
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
    ($($name:ident: $base:ident($type:ty) { $($field:ident: $value:expr),* $(,)? })*) => {
        $(pub static $name: Resource = Resource { $($field: $value,)* ..$base::<$type>(names::$name) };)*

        /// All resources, grouped by API group in the order of discovery.
        pub static RESOURCES: &[&Resource] = &[$(&$name),*];
    };
}

resources! {
    BINDINGS: review(core::Binding) {}
    COMPONENT_STATUSES: stored(core::ComponentStatus) { verbs: READ }
    CONFIG_MAPS: stored(core::ConfigMap) {}
    ENDPOINTS: stored(core::Endpoints) { create_on_update: true }
    EVENTS: stored(core::Event) { create_on_update: true, selectable_fields: EVENT_FIELDS }
    LIMIT_RANGES: stored(core::LimitRange) { create_on_update: true }
    NAMESPACES: stored(core::Namespace) {
        verbs: NAMESPACE_VERBS,
        subresources: &[sub::<core::Namespace>("finalize", UPDATE), status::<core::Namespace>()],
        selectable_fields: &[field("status.phase", &["/status/phase"], "")],
    }
    NODES: with_status(core::Node) { selectable_fields: &[field("spec.unschedulable", &["/spec/unschedulable"], "false")] }
    PERSISTENT_VOLUME_CLAIMS: with_status(core::PersistentVolumeClaim) {}
    PERSISTENT_VOLUMES: with_status(core::PersistentVolume) {}
    PODS: stored(core::Pod) {
        categories: &["all"],
        subresources: POD_SUBRESOURCES,
        selectable_fields: POD_FIELDS,
    }
    POD_TEMPLATES: stored(core::PodTemplate) {}
    REPLICATION_CONTROLLERS: stored(core::ReplicationController) {
        categories: &["all"],
        subresources: &[SCALE, status::<core::ReplicationController>()],
        selectable_fields: &[field("status.replicas", &["/status/replicas"], "0")],
    }
    RESOURCE_QUOTAS: with_status(core::ResourceQuota) { create_on_update: true }
    SECRETS: stored(core::Secret) { selectable_fields: &[field("type", &["/type"], "")] }
    SERVICE_ACCOUNTS: stored(core::ServiceAccount) {
        subresources: &[sub::<authentication::TokenRequest>("token", CREATE)],
    }
    SERVICES: with_status(core::Service) {
        create_on_update: true,
        categories: &["all"],
        selectable_fields: &[field("spec.clusterIP", &["/spec/clusterIP"], ""), field("spec.type", &["/spec/type"], "")],
    }
    MUTATING_ADMISSION_POLICIES: stored(admissionregistration::MutatingAdmissionPolicy) { categories: &["api-extensions"] }
    MUTATING_ADMISSION_POLICY_BINDINGS: stored(admissionregistration::MutatingAdmissionPolicyBinding) { categories: &["api-extensions"] }
    MUTATING_WEBHOOK_CONFIGURATIONS: stored(admissionregistration::MutatingWebhookConfiguration) { categories: &["api-extensions"] }
    VALIDATING_ADMISSION_POLICIES: with_status(admissionregistration::ValidatingAdmissionPolicy) { categories: &["api-extensions"] }
    VALIDATING_ADMISSION_POLICY_BINDINGS: stored(admissionregistration::ValidatingAdmissionPolicyBinding) { categories: &["api-extensions"] }
    VALIDATING_WEBHOOK_CONFIGURATIONS: stored(admissionregistration::ValidatingWebhookConfiguration) { categories: &["api-extensions"] }
    CUSTOM_RESOURCE_DEFINITIONS: with_status(apiextensions::CustomResourceDefinition) { categories: &["api-extensions"] }
    API_SERVICES: with_status(apiregistration::APIService) { categories: &["api-extensions"] }
    CONTROLLER_REVISIONS: stored(apps::ControllerRevision) {}
    DAEMON_SETS: with_status(apps::DaemonSet) { categories: &["all"] }
    DEPLOYMENTS: stored(apps::Deployment) {
        categories: &["all"],
        subresources: &[SCALE, status::<apps::Deployment>()],
    }
    REPLICA_SETS: stored(apps::ReplicaSet) {
        categories: &["all"],
        subresources: &[SCALE, status::<apps::ReplicaSet>()],
        selectable_fields: &[field("status.replicas", &["/status/replicas"], "0")],
    }
    STATEFUL_SETS: stored(apps::StatefulSet) {
        categories: &["all"],
        subresources: &[SCALE, status::<apps::StatefulSet>()],
    }
    SELF_SUBJECT_REVIEWS: review(authentication::SelfSubjectReview) {}
    TOKEN_REVIEWS: review(authentication::TokenReview) {}
    LOCAL_SUBJECT_ACCESS_REVIEWS: review(authorization::LocalSubjectAccessReview) {}
    SELF_SUBJECT_ACCESS_REVIEWS: review(authorization::SelfSubjectAccessReview) {}
    SELF_SUBJECT_RULES_REVIEWS: review(authorization::SelfSubjectRulesReview) {}
    SUBJECT_ACCESS_REVIEWS: review(authorization::SubjectAccessReview) {}
    HORIZONTAL_POD_AUTOSCALERS: with_status(autoscaling_v2::HorizontalPodAutoscaler) { categories: &["all"] }
    HORIZONTAL_POD_AUTOSCALERS_V1: with_status(autoscaling::HorizontalPodAutoscaler) {
        categories: &["all"],
        storage: Storage::Shared(&HORIZONTAL_POD_AUTOSCALERS),
    }
    CRON_JOBS: with_status(batch::CronJob) { categories: &["all"] }
    JOBS: with_status(batch::Job) { categories: &["all"], selectable_fields: &[field("status.successful", &["/status/succeeded"], "0")] }
    CERTIFICATE_SIGNING_REQUESTS: stored(certificates::CertificateSigningRequest) {
        subresources: &[
            sub::<certificates::CertificateSigningRequest>("approval", CHANGE),
            status::<certificates::CertificateSigningRequest>(),
        ],
        selectable_fields: &[field("spec.signerName", &["/spec/signerName"], "")],
    }
    LEASES: stored(coordination::Lease) { create_on_update: true }
    ENDPOINT_SLICES: stored(discovery::EndpointSlice) {}
    NEW_EVENTS: stored(events::Event) {
        create_on_update: true,
        storage: Storage::Shared(&EVENTS),
        selectable_fields: NEW_EVENT_FIELDS,
    }
    FLOW_SCHEMAS: with_status(flowcontrol::FlowSchema) {}
    PRIORITY_LEVEL_CONFIGURATIONS: with_status(flowcontrol::PriorityLevelConfiguration) {}
    INGRESS_CLASSES: stored(networking::IngressClass) {}
    INGRESSES: with_status(networking::Ingress) {}
    IP_ADDRESSES: stored(networking::IPAddress) {
        selectable_fields: &[
            field("spec.parentRef.resource", &["/spec/parentRef/resource"], ""),
            field("spec.parentRef.name", &["/spec/parentRef/name"], ""),
        ],
    }
    NETWORK_POLICIES: stored(networking::NetworkPolicy) {}
    SERVICE_CIDRS: with_status(networking::ServiceCIDR) {}
    RUNTIME_CLASSES: stored(node::RuntimeClass) {}
    POD_DISRUPTION_BUDGETS: with_status(policy::PodDisruptionBudget) {}
    CLUSTER_ROLE_BINDINGS: stored(rbac::ClusterRoleBinding) { create_on_update: true }
    CLUSTER_ROLES: stored(rbac::ClusterRole) { create_on_update: true }
    ROLE_BINDINGS: stored(rbac::RoleBinding) { create_on_update: true }
    ROLES: stored(rbac::Role) {}
    DEVICE_CLASSES: stored(resource::DeviceClass) {}
    DEVICE_TAINT_RULES: with_status(resource_1_37::DeviceTaintRule) {}
    RESOURCE_CLAIMS: with_status(resource::ResourceClaim) {}
    RESOURCE_CLAIM_TEMPLATES: stored(resource::ResourceClaimTemplate) {}
    RESOURCE_SLICES: stored(resource::ResourceSlice) {
        selectable_fields: &[
            field("spec.nodeName", &["/spec/nodeName"], ""),
            field("spec.driver", &["/spec/driver"], ""),
            field("spec.pool.name", &["/spec/pool/name"], ""),
        ],
    }
    PRIORITY_CLASSES: stored(scheduling::PriorityClass) {}
    COMPOSITE_POD_GROUPS: with_status(scheduling_1_37::CompositePodGroup) {}
    POD_GROUPS: with_status(scheduling_v1alpha2::PodGroup) { storage: Storage::Shared(&POD_GROUPS_V1BETA1) }
    POD_GROUPS_V1ALPHA3: with_status(scheduling_1_37::v1alpha3::PodGroup) { storage: Storage::Shared(&POD_GROUPS_V1BETA1) }
    POD_GROUPS_V1BETA1: with_status(scheduling_1_37::v1beta1::PodGroup) {}
    WORKLOADS: stored(scheduling_v1alpha2::Workload) { storage: Storage::Shared(&WORKLOADS_V1BETA1) }
    WORKLOADS_V1ALPHA3: stored(scheduling_1_37::v1alpha3::Workload) { storage: Storage::Shared(&WORKLOADS_V1BETA1) }
    WORKLOADS_V1BETA1: stored(scheduling_1_37::v1beta1::Workload) {}
    CSI_DRIVERS: stored(storage::CSIDriver) {}
    CSI_NODES: with_status(storage::CSINode) {}
    CSI_STORAGE_CAPACITIES: stored(storage::CSIStorageCapacity) {}
    STORAGE_CLASSES: stored(storage::StorageClass) {}
    VOLUME_ATTACHMENTS: with_status(storage::VolumeAttachment) {}
    VOLUME_ATTRIBUTES_CLASSES: stored(storage::VolumeAttributesClass) {}
}

/// Pod metrics. They are computed, and no part of the table: an aggregated API server serves them beside kube-apiserver.
pub static POD_METRICS: Resource =
    Resource { verbs: READ, storage: Storage::None, ..Resource::new(names::POD_METRICS) };
pub static NODE_METRICS: Resource =
    Resource { verbs: READ, storage: Storage::None, ..Resource::new(names::NODE_METRICS) };
/// The resources of `metrics.k8s.io`.
pub static METRICS: [&Resource; 2] = [&NODE_METRICS, &POD_METRICS];

impl Resource {
    /// The index in [`RESOURCES`]; custom resources follow.
    pub fn index(&self) -> usize {
        if let Some(custom) = self.custom {
            return RESOURCES.len() + custom.slot;
        }
        RESOURCES.iter().position(|resource| std::ptr::eq(*resource, self)).unwrap_or_default()
    }
}

/// The resource at `/apis/GROUP/VERSION/PLURAL`.
pub fn find(group: &str, version: &str, plural: &str) -> Option<&'static Resource> {
    let mut all = RESOURCES.iter().chain(&METRICS).copied();
    // Most plurals differ in length.
    all.find(|r| r.plural == plural && r.group == group && r.version == version)
}

/// The stored resource of objects with this `apiVersion` and `kind`.
pub fn of_kind(api_version: &str, kind: &str) -> Option<&'static Resource> {
    let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
    RESOURCES
        .iter()
        .copied()
        .find(|r| r.group == group && r.version == version && r.kind == kind && r.storage != Storage::None)
}
