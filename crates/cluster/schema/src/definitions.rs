//! The definitions of the API's types as JSON schemas, with what the generated bindings leave out.

use std::borrow::Cow;

use k8s_openapi::Resource;
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
use k8s_openapi::apimachinery::pkg::apis::meta::v1 as meta;
use k8s_openapi::kube_aggregator::pkg::apis::apiregistration::v1 as apiregistration;
use schemars::JsonSchema;
use schemars::generate::{SchemaGenerator, SchemaSettings};
use serde_json::{Map, Value, json};

use super::semantics;

/// Where references between definitions point to.
pub(super) const REFERENCE: &str = "#/components/schemas/";

/// The fields of the proposals that Kubernetes' own types lack.
pub(super) const PROPOSED_FIELD: &str = "requiredDuringSchedulingRequiredDuringExecution";
const LIMIT: &str = "limit";
const MATCH_ANNOTATIONS: &str = "matchAnnotations";
const NODE_SELECTOR_TERM: &str = "io.k8s.api.core.v1.NodeSelectorTerm";
const POD_AFFINITY_TERM: &str = "io.k8s.api.core.v1.PodAffinityTerm";

/// A kind with a known type.
pub(super) struct Kind {
    pub(super) group: &'static str,
    pub(super) version: &'static str,
    pub(super) kind: &'static str,
    /// The name of its definition, such as `io.k8s.api.core.v1.Pod`.
    pub(super) definition: fn() -> Cow<'static, str>,
    /// Adds its definition, and those it refers to, to a generator.
    register: fn(&mut SchemaGenerator),
}

const fn kind<T: Resource + JsonSchema>() -> Kind {
    Kind {
        group: T::GROUP,
        version: T::VERSION,
        kind: T::KIND,
        definition: T::schema_name,
        register: |generator| {
            generator.subschema_for::<T>();
        },
    }
}

pub(super) static KINDS: &[Kind] = &[
    kind::<core::Binding>(),
    kind::<core::ComponentStatus>(),
    kind::<core::ConfigMap>(),
    kind::<core::Endpoints>(),
    kind::<core::Event>(),
    kind::<core::LimitRange>(),
    kind::<core::Namespace>(),
    kind::<core::Node>(),
    kind::<core::PersistentVolume>(),
    kind::<core::PersistentVolumeClaim>(),
    kind::<core::Pod>(),
    kind::<core::PodTemplate>(),
    kind::<core::ReplicationController>(),
    kind::<core::ResourceQuota>(),
    kind::<core::Secret>(),
    kind::<core::Service>(),
    kind::<core::ServiceAccount>(),
    kind::<admissionregistration::MutatingAdmissionPolicy>(),
    kind::<admissionregistration::MutatingAdmissionPolicyBinding>(),
    kind::<admissionregistration::MutatingWebhookConfiguration>(),
    kind::<admissionregistration::ValidatingAdmissionPolicy>(),
    kind::<admissionregistration::ValidatingAdmissionPolicyBinding>(),
    kind::<admissionregistration::ValidatingWebhookConfiguration>(),
    kind::<apiextensions::CustomResourceDefinition>(),
    kind::<apiregistration::APIService>(),
    kind::<apps::ControllerRevision>(),
    kind::<apps::DaemonSet>(),
    kind::<apps::Deployment>(),
    kind::<apps::ReplicaSet>(),
    kind::<apps::StatefulSet>(),
    kind::<authentication::SelfSubjectReview>(),
    kind::<authentication::TokenRequest>(),
    kind::<authentication::TokenReview>(),
    kind::<authorization::LocalSubjectAccessReview>(),
    kind::<authorization::SelfSubjectAccessReview>(),
    kind::<authorization::SelfSubjectRulesReview>(),
    kind::<authorization::SubjectAccessReview>(),
    kind::<autoscaling::Scale>(),
    kind::<autoscaling::HorizontalPodAutoscaler>(),
    kind::<autoscaling_v2::HorizontalPodAutoscaler>(),
    kind::<batch::CronJob>(),
    kind::<batch::Job>(),
    kind::<certificates::CertificateSigningRequest>(),
    kind::<coordination::Lease>(),
    kind::<discovery::EndpointSlice>(),
    kind::<events::Event>(),
    kind::<flowcontrol::FlowSchema>(),
    kind::<flowcontrol::PriorityLevelConfiguration>(),
    kind::<networking::IPAddress>(),
    kind::<networking::Ingress>(),
    kind::<networking::IngressClass>(),
    kind::<networking::NetworkPolicy>(),
    kind::<networking::ServiceCIDR>(),
    kind::<node::RuntimeClass>(),
    kind::<policy::Eviction>(),
    kind::<policy::PodDisruptionBudget>(),
    kind::<rbac::ClusterRole>(),
    kind::<rbac::ClusterRoleBinding>(),
    kind::<rbac::Role>(),
    kind::<rbac::RoleBinding>(),
    kind::<resource::DeviceClass>(),
    kind::<resource::ResourceClaim>(),
    kind::<resource::ResourceClaimTemplate>(),
    kind::<resource::ResourceSlice>(),
    kind::<scheduling::PriorityClass>(),
    kind::<scheduling_v1alpha2::PodGroup>(),
    kind::<scheduling_v1alpha2::Workload>(),
    kind::<storage::CSIDriver>(),
    kind::<storage::CSINode>(),
    kind::<storage::CSIStorageCapacity>(),
    kind::<storage::StorageClass>(),
    kind::<storage::VolumeAttachment>(),
    kind::<storage::VolumeAttributesClass>(),
];

/// The definitions of the chosen kinds and of all that they refer to, by name. `common` adds what every
/// document of the API refers to: `Status` and `DeleteOptions`.
pub(super) fn generate(chosen: impl Fn(&Kind) -> bool, common: bool) -> Map<String, Value> {
    let settings = SchemaSettings::draft2020_12().with(|s| {
        s.meta_schema = None;
        s.definitions_path = "/components/schemas".into();
    });
    let mut generator = settings.into_generator();
    for kind in KINDS.iter().filter(|kind| chosen(kind)) {
        (kind.register)(&mut generator);
    }
    if common {
        generator.subschema_for::<meta::Status>();
        generator.subschema_for::<meta::DeleteOptions>();
        generator.subschema_for::<meta::ListMeta>();
        generator.subschema_for::<meta::ObjectMeta>();
    }
    let mut definitions = generator.take_definitions(false);
    for (name, definition) in &mut definitions {
        add_proposed_fields(name, definition);
        // The bindings have an object where any JSON is allowed.
        if name.ends_with("apiextensions.v1.JSON") {
            definition.as_object_mut().map(|definition| definition.shift_remove("type"));
        }
        semantics::annotate(name, definition);
    }
    definitions
}

/// The definition that a schema refers to, directly or as the only member of `allOf`.
pub(super) fn referred(schema: &Value) -> Option<&str> {
    let reference = schema.get("$ref").or_else(|| schema.pointer("/allOf/0/$ref"))?;
    reference.as_str()?.strip_prefix(REFERENCE)
}

/// The fields of the node affinity and inter-pod affinity proposals that Kubernetes' own types lack.
fn add_proposed_fields(definition: &str, schema: &mut Value) {
    let field = match definition {
        "io.k8s.api.core.v1.NodeAffinity" => json!({
            "description": "Like requiredDuringSchedulingIgnoredDuringExecution, and the rule is also kept \
                while the pod runs: a pod whose node stops satisfying it is evicted.",
            "$ref": format!("{REFERENCE}io.k8s.api.core.v1.NodeSelector"),
        }),
        "io.k8s.api.core.v1.PodAffinity" | "io.k8s.api.core.v1.PodAntiAffinity" => json!({
            "description": "Like requiredDuringSchedulingIgnoredDuringExecution, and the rule is also kept \
                while the pod runs: a pod for which it stops being satisfied is evicted.",
            "type": "array",
            "items": { "$ref": format!("{REFERENCE}{POD_AFFINITY_TERM}") },
        }),
        POD_AFFINITY_TERM => json!({
            "description": "In requiredDuringSchedulingRequiredDuringExecution of podAntiAffinity only: the number \
                of other matching pods that may share the domain. Defaults to 0.",
            "type": "integer",
            "format": "int32",
        }),
        NODE_SELECTOR_TERM => json!({
            "description": "In requiredDuringSchedulingRequiredDuringExecution only: requirements on annotations of \
                the node.",
            "type": "array",
            "items": { "$ref": format!("{REFERENCE}io.k8s.api.core.v1.NodeSelectorRequirement") },
        }),
        _ => return,
    };
    if let Some(properties) = schema.get_mut("properties").and_then(Value::as_object_mut) {
        properties.insert(proposed_field(definition).to_owned(), field);
    }
}

fn proposed_field(definition: &str) -> &'static str {
    match definition {
        NODE_SELECTOR_TERM => MATCH_ANNOTATIONS,
        POD_AFFINITY_TERM => LIMIT,
        _ => PROPOSED_FIELD,
    }
}

/// Removes the extension field of a definition, for a server without the extensions.
pub(super) fn remove_proposed_fields(definition: &str, schema: &mut Value) {
    if let Some(properties) = schema.get_mut("properties").and_then(Value::as_object_mut) {
        properties.remove(proposed_field(definition));
    }
}
