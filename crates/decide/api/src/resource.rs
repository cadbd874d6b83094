//! The resources of the Kubernetes API that Berth knows: their groups, versions, kinds and names, and the URL paths
//! of their objects. This is the one table; clients, the API server and the controllers derive theirs from it.

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};

use crate::feature_gates::FeatureGates;
use crate::feature_gates::KubernetesVersion::V1_37;

/// A resource of the Kubernetes API.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Resource {
    /// The API group; empty for the core group.
    pub group: &'static str,
    /// The version within the group.
    pub version: &'static str,
    /// The kind of an object, such as `Pod`.
    pub kind: &'static str,
    /// The name in URL paths, such as `pods`.
    pub plural: &'static str,
    /// Whether objects live in a namespace.
    pub namespaced: bool,
    /// Whether objects can be listed, watched and deleted under these names: not requests that are only answered, nor
    /// second forms of stored objects. The garbage collector and the namespace controller follow these resources.
    pub deletable: bool,
    /// The short names that kubectl accepts, such as `po`.
    pub short_names: &'static [&'static str],
}

const fn resource(group: &'static str, kind: &'static str, plural: &'static str) -> Resource {
    Resource { group, version: "v1", kind, plural, namespaced: true, deletable: true, short_names: &[] }
}

const fn cluster_scoped(resource: Resource) -> Resource {
    Resource { namespaced: false, ..resource }
}

const fn short(short_names: &'static [&'static str], resource: Resource) -> Resource {
    Resource { short_names, ..resource }
}

const fn not_deletable(resource: Resource) -> Resource {
    Resource { deletable: false, ..resource }
}

const fn version(version: &'static str, resource: Resource) -> Resource {
    Resource { version, ..resource }
}

macro_rules! resources {
    ($($(#[$doc:meta])* $name:ident = $resource:expr;)*) => {
        $($(#[$doc])* pub const $name: Resource = $resource;)*

        /// All resources, in the order of discovery: by group, then by kind.
        pub const RESOURCES: &[Resource] = &[$($name),*];
    };
}

const REGISTRATION: &str = "admissionregistration.k8s.io";
const AUTHENTICATION: &str = "authentication.k8s.io";
const AUTHORIZATION: &str = "authorization.k8s.io";
const FLOW_CONTROL: &str = "flowcontrol.apiserver.k8s.io";
const NETWORKING: &str = "networking.k8s.io";
const RBAC: &str = "rbac.authorization.k8s.io";
const STORAGE: &str = "storage.k8s.io";

resources! {
    BINDINGS = not_deletable(resource("", "Binding", "bindings"));
    COMPONENT_STATUSES = not_deletable(short(&["cs"], cluster_scoped(resource("", "ComponentStatus", "componentstatuses"))));
    CONFIG_MAPS = short(&["cm"], resource("", "ConfigMap", "configmaps"));
    ENDPOINTS = short(&["ep"], resource("", "Endpoints", "endpoints"));
    EVENTS = short(&["ev"], resource("", "Event", "events"));
    LIMIT_RANGES = short(&["limits"], resource("", "LimitRange", "limitranges"));
    NAMESPACES = short(&["ns"], cluster_scoped(resource("", "Namespace", "namespaces")));
    NODES = short(&["no"], cluster_scoped(resource("", "Node", "nodes")));
    PERSISTENT_VOLUME_CLAIMS = short(&["pvc"], resource("", "PersistentVolumeClaim", "persistentvolumeclaims"));
    PERSISTENT_VOLUMES = short(&["pv"], cluster_scoped(resource("", "PersistentVolume", "persistentvolumes")));
    PODS = short(&["po"], resource("", "Pod", "pods"));
    POD_TEMPLATES = resource("", "PodTemplate", "podtemplates");
    REPLICATION_CONTROLLERS = short(&["rc"], resource("", "ReplicationController", "replicationcontrollers"));
    RESOURCE_QUOTAS = short(&["quota"], resource("", "ResourceQuota", "resourcequotas"));
    SECRETS = resource("", "Secret", "secrets");
    SERVICE_ACCOUNTS = short(&["sa"], resource("", "ServiceAccount", "serviceaccounts"));
    SERVICES = short(&["svc"], resource("", "Service", "services"));
    MUTATING_ADMISSION_POLICIES =
        cluster_scoped(resource(REGISTRATION, "MutatingAdmissionPolicy", "mutatingadmissionpolicies"));
    MUTATING_ADMISSION_POLICY_BINDINGS = cluster_scoped(resource(
        REGISTRATION,
        "MutatingAdmissionPolicyBinding",
        "mutatingadmissionpolicybindings",
    ));
    MUTATING_WEBHOOK_CONFIGURATIONS =
        cluster_scoped(resource(REGISTRATION, "MutatingWebhookConfiguration", "mutatingwebhookconfigurations"));
    VALIDATING_ADMISSION_POLICIES =
        cluster_scoped(resource(REGISTRATION, "ValidatingAdmissionPolicy", "validatingadmissionpolicies"));
    VALIDATING_ADMISSION_POLICY_BINDINGS = cluster_scoped(resource(
        REGISTRATION,
        "ValidatingAdmissionPolicyBinding",
        "validatingadmissionpolicybindings",
    ));
    VALIDATING_WEBHOOK_CONFIGURATIONS =
        cluster_scoped(resource(REGISTRATION, "ValidatingWebhookConfiguration", "validatingwebhookconfigurations"));
    CUSTOM_RESOURCE_DEFINITIONS = short(&["crd", "crds"], cluster_scoped(resource(
        "apiextensions.k8s.io",
        "CustomResourceDefinition",
        "customresourcedefinitions",
    )));
    API_SERVICES = cluster_scoped(resource("apiregistration.k8s.io", "APIService", "apiservices"));
    CONTROLLER_REVISIONS = resource("apps", "ControllerRevision", "controllerrevisions");
    DAEMON_SETS = short(&["ds"], resource("apps", "DaemonSet", "daemonsets"));
    DEPLOYMENTS = short(&["deploy"], resource("apps", "Deployment", "deployments"));
    REPLICA_SETS = short(&["rs"], resource("apps", "ReplicaSet", "replicasets"));
    STATEFUL_SETS = short(&["sts"], resource("apps", "StatefulSet", "statefulsets"));
    SELF_SUBJECT_REVIEWS = not_deletable(cluster_scoped(resource(AUTHENTICATION, "SelfSubjectReview", "selfsubjectreviews")));
    TOKEN_REVIEWS = not_deletable(cluster_scoped(resource(AUTHENTICATION, "TokenReview", "tokenreviews")));
    LOCAL_SUBJECT_ACCESS_REVIEWS = not_deletable(resource(AUTHORIZATION, "LocalSubjectAccessReview", "localsubjectaccessreviews"));
    SELF_SUBJECT_ACCESS_REVIEWS = not_deletable(cluster_scoped(resource(AUTHORIZATION, "SelfSubjectAccessReview", "selfsubjectaccessreviews")));
    SELF_SUBJECT_RULES_REVIEWS = not_deletable(cluster_scoped(resource(AUTHORIZATION, "SelfSubjectRulesReview", "selfsubjectrulesreviews")));
    SUBJECT_ACCESS_REVIEWS = not_deletable(cluster_scoped(resource(AUTHORIZATION, "SubjectAccessReview", "subjectaccessreviews")));
    HORIZONTAL_POD_AUTOSCALERS = short(&["hpa"], version("v2", resource("autoscaling", "HorizontalPodAutoscaler", "horizontalpodautoscalers")));
    HORIZONTAL_POD_AUTOSCALERS_V1 = not_deletable(short(&["hpa"], resource("autoscaling", "HorizontalPodAutoscaler", "horizontalpodautoscalers")));
    CRON_JOBS = short(&["cj"], resource("batch", "CronJob", "cronjobs"));
    JOBS = resource("batch", "Job", "jobs");
    CERTIFICATE_SIGNING_REQUESTS = short(&["csr"], cluster_scoped(resource(
        "certificates.k8s.io",
        "CertificateSigningRequest",
        "certificatesigningrequests",
    )));
    LEASES = resource("coordination.k8s.io", "Lease", "leases");
    ENDPOINT_SLICES = resource("discovery.k8s.io", "EndpointSlice", "endpointslices");
    NEW_EVENTS = not_deletable(short(&["ev"], resource("events.k8s.io", "Event", "events")));
    FLOW_SCHEMAS = cluster_scoped(resource(FLOW_CONTROL, "FlowSchema", "flowschemas"));
    PRIORITY_LEVEL_CONFIGURATIONS = cluster_scoped(resource(
        FLOW_CONTROL,
        "PriorityLevelConfiguration",
        "prioritylevelconfigurations",
    ));
    INGRESS_CLASSES = cluster_scoped(resource(NETWORKING, "IngressClass", "ingressclasses"));
    INGRESSES = short(&["ing"], resource(NETWORKING, "Ingress", "ingresses"));
    IP_ADDRESSES = short(&["ip"], cluster_scoped(resource(NETWORKING, "IPAddress", "ipaddresses")));
    NETWORK_POLICIES = short(&["netpol"], resource(NETWORKING, "NetworkPolicy", "networkpolicies"));
    SERVICE_CIDRS = cluster_scoped(resource(NETWORKING, "ServiceCIDR", "servicecidrs"));
    RUNTIME_CLASSES = cluster_scoped(resource("node.k8s.io", "RuntimeClass", "runtimeclasses"));
    POD_DISRUPTION_BUDGETS = short(&["pdb"], resource("policy", "PodDisruptionBudget", "poddisruptionbudgets"));
    CLUSTER_ROLE_BINDINGS = cluster_scoped(resource(RBAC, "ClusterRoleBinding", "clusterrolebindings"));
    CLUSTER_ROLES = cluster_scoped(resource(RBAC, "ClusterRole", "clusterroles"));
    ROLE_BINDINGS = resource(RBAC, "RoleBinding", "rolebindings");
    ROLES = resource(RBAC, "Role", "roles");
    DEVICE_CLASSES = cluster_scoped(resource("resource.k8s.io", "DeviceClass", "deviceclasses"));
    DEVICE_TAINT_RULES = cluster_scoped(resource("resource.k8s.io", "DeviceTaintRule", "devicetaintrules"));
    RESOURCE_CLAIMS = resource("resource.k8s.io", "ResourceClaim", "resourceclaims");
    RESOURCE_CLAIM_TEMPLATES =
        resource("resource.k8s.io", "ResourceClaimTemplate", "resourceclaimtemplates");
    RESOURCE_SLICES = cluster_scoped(resource("resource.k8s.io", "ResourceSlice", "resourceslices"));
    PRIORITY_CLASSES = short(&["pc"], cluster_scoped(resource("scheduling.k8s.io", "PriorityClass", "priorityclasses")));
    /// `scheduling.k8s.io/v1alpha3` CompositePodGroup, which API servers serve if [its gate](Resource::is_enabled) is on.
    COMPOSITE_POD_GROUPS = version("v1alpha3", resource("scheduling.k8s.io", "CompositePodGroup", "compositepodgroups"));
    POD_GROUPS = version("v1alpha2", resource("scheduling.k8s.io", "PodGroup", "podgroups"));
    POD_GROUPS_V1ALPHA3 = not_deletable(version("v1alpha3", resource("scheduling.k8s.io", "PodGroup", "podgroups")));
    POD_GROUPS_V1BETA1 = not_deletable(version("v1beta1", resource("scheduling.k8s.io", "PodGroup", "podgroups")));
    WORKLOADS = version("v1alpha2", resource("scheduling.k8s.io", "Workload", "workloads"));
    WORKLOADS_V1ALPHA3 = not_deletable(version("v1alpha3", resource("scheduling.k8s.io", "Workload", "workloads")));
    WORKLOADS_V1BETA1 = not_deletable(version("v1beta1", resource("scheduling.k8s.io", "Workload", "workloads")));
    CSI_DRIVERS = cluster_scoped(resource(STORAGE, "CSIDriver", "csidrivers"));
    CSI_NODES = cluster_scoped(resource(STORAGE, "CSINode", "csinodes"));
    CSI_STORAGE_CAPACITIES = resource(STORAGE, "CSIStorageCapacity", "csistoragecapacities");
    STORAGE_CLASSES = short(&["sc"], cluster_scoped(resource(STORAGE, "StorageClass", "storageclasses")));
    VOLUME_ATTACHMENTS = cluster_scoped(resource(STORAGE, "VolumeAttachment", "volumeattachments"));
    VOLUME_ATTRIBUTES_CLASSES = short(&["vac"], cluster_scoped(resource(STORAGE, "VolumeAttributesClass", "volumeattributesclasses")));
}

/// `scheduling.x-k8s.io/v1alpha1` PodGroup, a custom resource.
pub const COSCHEDULING_POD_GROUPS: Resource =
    version("v1alpha1", resource("scheduling.x-k8s.io", "PodGroup", "podgroups"));

const METRICS: &str = "metrics.k8s.io";

/// `metrics.k8s.io/v1beta1` PodMetrics, which an aggregated API server serves: read only, and computed from pods.
pub const POD_METRICS: Resource = not_deletable(version("v1beta1", resource(METRICS, "PodMetrics", "pods")));
/// Node metrics.
pub const NODE_METRICS: Resource =
    not_deletable(cluster_scoped(version("v1beta1", resource(METRICS, "NodeMetrics", "nodes"))));

const SCHEDULING: &str = "scheduling.berth.dev";

/// `scheduling.berth.dev/v1alpha1` PlacementPolicy, a custom resource.
pub const PLACEMENT_POLICIES: Resource =
    version("v1alpha1", resource(SCHEDULING, "PlacementPolicy", "placementpolicies"));
/// `scheduling.berth.dev/v1alpha1` ClusterPlacementPolicy, a custom resource.
pub const CLUSTER_PLACEMENT_POLICIES: Resource = cluster_scoped(version(
    "v1alpha1",
    resource(SCHEDULING, "ClusterPlacementPolicy", "clusterplacementpolicies"),
));

const MONITORING: &str = "monitoring.coreos.com";

/// `monitoring.coreos.com/v1` PodMonitor, a custom resource of the Prometheus Operator.
pub const POD_MONITORS: Resource = resource(MONITORING, "PodMonitor", "podmonitors");
/// `monitoring.coreos.com/v1` ServiceMonitor, a custom resource of the Prometheus Operator.
pub const SERVICE_MONITORS: Resource = resource(MONITORING, "ServiceMonitor", "servicemonitors");

/// `scheduling.berth.dev/v1alpha1` PlacementQuota, a custom resource.
pub const PLACEMENT_QUOTAS: Resource =
    version("v1alpha1", resource(SCHEDULING, "PlacementQuota", "placementquotas"));

/// The characters that RFC 3986 leaves as they are, and `:`, which is valid in segments and queries.
const UNRESERVED: &AsciiSet =
    &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~').remove(b':');

impl Resource {
    /// The resource of objects with this `kind`, of any version of the group in `api_version`; as owner references
    /// and manifests name it.
    pub fn of_kind(api_version: &str, kind: &str) -> Option<&'static Resource> {
        let group = group_of(api_version);
        RESOURCES.iter().find(|r| r.kind == kind && r.group == group)
    }

    /// Whether a server of Kubernetes may be without it: a custom resource, or one whose version is not stable.
    pub fn is_optional(&self) -> bool {
        self.version.contains("alpha")
            || self.version.contains("beta")
            || *self == DEVICE_TAINT_RULES
            || !RESOURCES.contains(self)
    }

    /// Whether the embedded API server answers requests for it.
    pub fn is_enabled(&self, gates: FeatureGates) -> bool {
        match *self {
            COMPOSITE_POD_GROUPS => gates.composite_pod_group,
            DEVICE_TAINT_RULES => gates.dra_device_taint_rules && gates.version >= V1_37,
            POD_GROUPS | WORKLOADS => gates.version < V1_37,
            POD_GROUPS_V1BETA1 | WORKLOADS_V1BETA1 => gates.version >= V1_37,
            POD_GROUPS_V1ALPHA3 | WORKLOADS_V1ALPHA3 => gates.composite_pod_group,
            _ => true,
        }
    }

    /// Whether API servers with these gates say that they have it. The embedded one answers requests for groups without their gate, but
    /// does not list them: `kubectl` would take them for custom resources of the same name.
    pub fn is_discoverable(&self, gates: FeatureGates) -> bool {
        let needs_gate = matches!(*self, POD_GROUPS_V1BETA1 | WORKLOADS_V1BETA1);
        self.is_enabled(gates) && (!needs_gate || gates.is_on("GenericWorkload"))
    }

    /// It in the version that the embedded API server has with these gates.
    pub fn served(&'static self, gates: FeatureGates) -> &'static Resource {
        match *self {
            POD_GROUPS if !self.is_enabled(gates) => &POD_GROUPS_V1BETA1,
            WORKLOADS if !self.is_enabled(gates) => &WORKLOADS_V1BETA1,
            _ => self,
        }
    }

    /// It in each version that a server may have, in the order in which clients try them.
    pub fn versions(self) -> impl Iterator<Item = Resource> {
        let (newer, older): (&[&str], &[&str]) = match self {
            POD_GROUPS | WORKLOADS => (&["v1beta1", "v1alpha3"], &[]),
            COMPOSITE_POD_GROUPS => (&["v1beta1"], &[]),
            DEVICE_TAINT_RULES => (&[], &["v1beta2"]),
            _ => (&[], &[]),
        };
        let of = move |version: &&'static str| Resource { version, ..self };
        newer.iter().map(of).chain([self]).chain(older.iter().map(of))
    }

    /// `v1` or `apps/v1`.
    pub fn api_version(&self) -> String {
        match self.group {
            "" => self.version.to_owned(),
            group => format!("{group}/{}", self.version),
        }
    }

    /// `pods` or `deployments.apps`, as messages and roles name a resource.
    pub fn group_resource(&self) -> String {
        match self.group {
            "" => self.plural.to_owned(),
            group => format!("{}.{group}", self.plural),
        }
    }

    /// The name of one object in messages, such as `pod`.
    pub fn singular(&self) -> String {
        self.kind.to_ascii_lowercase()
    }

    /// The URL path of the collection in a namespace; with an empty `namespace`, of the objects in all namespaces or
    /// of cluster-scoped ones.
    pub fn path(&self, namespace: &str) -> String {
        let root = if self.group.is_empty() { "api" } else { "apis" };
        let (api_version, plural) = (self.api_version(), self.plural);
        if namespace.is_empty() {
            format!("/{root}/{api_version}/{plural}")
        } else {
            format!("/{root}/{api_version}/namespaces/{}/{plural}", percent_encoded(namespace))
        }
    }

    /// The URL path of an object; `namespace` is empty for a cluster-scoped one.
    pub fn object_path(&self, namespace: &str, name: &str) -> String {
        format!("{}/{}", self.path(namespace), percent_encoded(name))
    }
}

/// Percent-encodes a text for a path segment or for a value in a query: a name cannot become another path.
pub fn percent_encoded(text: &str) -> impl std::fmt::Display + '_ {
    utf8_percent_encode(text, UNRESERVED)
}

/// The group of an `apiVersion`; empty for the core group (`v1`).
pub fn group_of(api_version: &str) -> &str {
    api_version.split_once('/').map_or("", |(group, _)| group)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_and_names() {
        assert_eq!(PODS.path(""), "/api/v1/pods");
        assert_eq!(PODS.object_path("a", "b"), "/api/v1/namespaces/a/pods/b");
        assert_eq!(NODES.object_path("", "n"), "/api/v1/nodes/n");
        assert_eq!(DEPLOYMENTS.path("a"), "/apis/apps/v1/namespaces/a/deployments");
        assert_eq!(
            CLUSTER_ROLES.object_path("", "system:node"),
            format!("{}/system:node", CLUSTER_ROLES.path(""))
        );
        assert_eq!(PODS.object_path("../x?y", "a/b"), "/api/v1/namespaces/..%2Fx%3Fy/pods/a%2Fb");
        assert_eq!((PODS.group_resource(), ROLES.singular()), ("pods".to_owned(), "role".to_owned()));
        assert_eq!(DEPLOYMENTS.group_resource(), "deployments.apps");
    }

    #[test]
    fn custom_and_alpha_resources_are_optional() {
        let optional = [&COSCHEDULING_POD_GROUPS, &POD_GROUPS, &PLACEMENT_QUOTAS, &POD_MONITORS];
        assert!(optional.iter().all(|resource| resource.is_optional()));
        assert!(![&PODS, &POD_DISRUPTION_BUDGETS, &DEVICE_CLASSES].iter().any(|r| r.is_optional()));
    }

    #[test]
    fn owners_are_found_whatever_their_version() {
        assert_eq!(Resource::of_kind("apps/v1beta1", "Deployment"), Some(&DEPLOYMENTS));
        assert_eq!(Resource::of_kind("v1", "Deployment"), None);
        assert_eq!(Resource::of_kind("v1", "Event"), Some(&EVENTS));
    }

    #[test]
    fn no_two_resources_are_one() {
        for (i, a) in RESOURCES.iter().enumerate() {
            let same = |b: &Resource| {
                b.group == a.group && b.version == a.version && (b.kind == a.kind || b.plural == a.plural)
            };
            assert_eq!(RESOURCES.iter().position(same), Some(i), "{a:?}");
        }
    }
}
