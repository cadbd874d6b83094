//! The types of `scheduling.k8s.io` of Kubernetes 1.37, which the bindings of 1.36 lack: in `v1beta1` and `v1alpha3`
//! those of `v1alpha2` with other fields, in `v1alpha3` also CompositePodGroups. Also the fields of both versions that are behind feature gates.

use std::borrow::Cow;

use k8s_openapi::api::scheduling::v1alpha2 as old;
use k8s_openapi::{NamespaceResourceScope, Resource};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde_json::{Map, Value, json};

use super::row::REFERENCE;

macro_rules! resources {
    ($($name:ident $version:literal $plural:literal)*) => {$(
        impl Resource for $name {
            type Scope = NamespaceResourceScope;
            const API_VERSION: &'static str = concat!("scheduling.k8s.io/", $version);
            const GROUP: &'static str = "scheduling.k8s.io";
            const KIND: &'static str = stringify!($name);
            const VERSION: &'static str = $version;
            const URL_PATH_SEGMENT: &'static str = $plural;
        }
    )*};
}

/// Types that are not constructed: they have a name and a schema.
macro_rules! types {
    ($version:literal, $($(#[$doc:meta])* $name:ident: $schema:expr;)*) => {$(
        $(#[$doc])*
        pub enum $name {}

        impl JsonSchema for $name {
            fn schema_name() -> Cow<'static, str> {
                concat!("io.k8s.api.scheduling.", $version, ".", stringify!($name)).into()
            }

            fn json_schema(generator: &mut SchemaGenerator) -> Schema {
                let schema: fn(&mut SchemaGenerator) -> Schema = $schema;
                schema(generator)
            }
        }
    )*};
}

/// The types that `v1beta1` and `v1alpha3` have.
macro_rules! versions {
    ($($module:ident $version:literal)*) => {$(
        pub mod $module {
            use super::*;

            types! {
                $version,
                /// A group of pods.
                PodGroup: |generator| {
                    with(old::PodGroup::json_schema(generator), |fields| {
                        fields.insert("spec".to_owned(), described::<PodGroupSpec>(generator, "Specification of the group."));
                    })
                };
                /// `spec` of a PodGroup.
                PodGroupSpec: |generator| {
                    with(old::PodGroupSpec::json_schema(generator), |fields| {
                        fields.shift_remove("podGroupTemplateRef");
                        let template = described::<WorkloadReference>(generator, "The template of a Workload that it was created from.");
                        fields.insert("workloadRef".to_owned(), template);
                        let mode = described::<DisruptionMode>(generator, "What of the group is disrupted at once.");
                        fields.insert("disruptionMode".to_owned(), mode);
                    })
                };
                /// A template of a PodGroup.
                PodGroupTemplate: |generator| {
                    with(old::PodGroupTemplate::json_schema(generator), |fields| {
                        let mode = described::<DisruptionMode>(generator, "What of the group is disrupted at once.");
                        fields.insert("disruptionMode".to_owned(), mode);
                        fields.insert("preemptionPolicy".to_owned(), preemption_policy());
                    })
                };
                /// A template of a CompositePodGroup.
                CompositePodGroupTemplate: |generator| {
                    let schema = with(PodGroupTemplate::json_schema(generator), |fields| {
                        fields.shift_remove("resourceClaims");
                        let policy = described::<CompositePodGroupSchedulingPolicy>(generator, "How its groups are scheduled.");
                        fields.insert("schedulingPolicy".to_owned(), policy);
                        add_templates(fields, generator.subschema_for::<PodGroupTemplate>(), generator.subschema_for::<CompositePodGroupTemplate>());
                    });
                    schema
                };
                /// `spec.schedulingPolicy` of a CompositePodGroup.
                CompositePodGroupSchedulingPolicy: |generator| {
                    let gang = described::<CompositeGangSchedulingPolicy>(generator, "A required number of groups, or none.");
                    json_schema!({
                        "description": "How the groups of a group are scheduled. Exactly one field is set.",
                        "type": "object",
                        "properties": {"basic": {"description": "Each group by itself.", "type": "object"}, "gang": gang},
                    })
                };
                /// `spec.schedulingPolicy.gang` of a CompositePodGroup.
                CompositeGangSchedulingPolicy: |_| json_schema!({
                    "description": "All or nothing.",
                    "type": "object",
                    "properties": {
                        "minGroupCount": {"description": "The required number of groups.", "type": "integer", "format": "int32"},
                    },
                    "required": ["minGroupCount"],
                });
                /// A Workload.
                Workload: |generator| {
                    with(old::Workload::json_schema(generator), |fields| {
                        fields.insert("spec".to_owned(), described::<WorkloadSpec>(generator, "Specification of the workload."));
                    })
                };
                /// `spec` of a Workload.
                WorkloadSpec: |generator| {
                    let mut schema = old::WorkloadSpec::json_schema(generator);
                    schema.remove("required");
                    with(schema, |fields| {
                        add_templates(fields, generator.subschema_for::<PodGroupTemplate>(), generator.subschema_for::<CompositePodGroupTemplate>());
                    })
                };
                /// A reference to a template of a Workload.
                WorkloadReference: |_| json_schema!({
                    "description": "A template of a Workload in the same namespace.",
                    "type": "object",
                    "properties": {
                        "templateName": {"description": "Name of the template.", "type": "string"},
                        "workloadName": {"description": "Name of the Workload.", "type": "string"},
                    },
                    "required": ["workloadName", "templateName"],
                });
                /// What is disrupted at once.
                DisruptionMode: |_| json_schema!({
                    "description": "What is disrupted at once. Exactly one field is set.",
                    "type": "object",
                    "properties": {
                        "all": {"description": "All members together.", "type": "object"},
                        "single": {"description": "Each member by itself.", "type": "object"},
                    },
                });
            }

            resources! { PodGroup $version "podgroups" Workload $version "workloads" }
        }
    )*};
}

versions! { v1beta1 "v1beta1" v1alpha3 "v1alpha3" }

use v1alpha3::{CompositePodGroupSchedulingPolicy, PodGroupSpec};

types! {
    "v1alpha3",
    /// A group of groups.
    CompositePodGroup: |generator| {
        with(old::PodGroup::json_schema(generator), |fields| {
            fields.insert("spec".to_owned(), described::<CompositePodGroupSpec>(generator, "Specification of the group."));
            fields.insert("status".to_owned(), described::<CompositePodGroupStatus>(generator, "What was last observed of the group."));
        })
    };
    /// `spec` of a CompositePodGroup.
    CompositePodGroupSpec: |generator| {
        let mut schema = PodGroupSpec::json_schema(generator);
        schema.insert("required".to_owned(), json!(["schedulingPolicy"]));
        with(schema, |fields| {
            fields.shift_remove("resourceClaims");
            let policy = described::<CompositePodGroupSchedulingPolicy>(generator, "How its groups are scheduled.");
            fields.insert("schedulingPolicy".to_owned(), policy);
        })
    };
    /// `status` of a CompositePodGroup.
    CompositePodGroupStatus: |generator| {
        with(old::PodGroupStatus::json_schema(generator), |fields| {
            fields.shift_remove("resourceClaimStatuses");
        })
    };
}

/// The two lists of templates of a Workload, and of a template of groups.
fn add_templates(fields: &mut Map<String, Value>, of_pods: Schema, of_groups: Schema) {
    for (list, of, items) in [
        ("podGroupTemplates", "PodGroups", of_pods),
        ("compositePodGroupTemplates", "CompositePodGroups", of_groups),
    ] {
        let list_type =
            json!({"description": format!("Templates of {of}."), "type": "array", "items": items});
        fields.insert(list.to_owned(), list_type);
    }
}

fn preemption_policy() -> Value {
    json!({"description": "Never or PreemptLowerPriority: whether pods are preempted for the group.", "type": "string"})
}

/// Adds the fields of the specification of a group that are behind the gates `CompositePodGroup` and `PodGroupPreemptionPolicy`.
pub(crate) fn add_gated_fields(spec: &mut Value) {
    spec["properties"]["parentCompositePodGroupName"] = json!({"description": "The CompositePodGroup in the same namespace that it belongs to.", "type": "string"});
    spec["properties"]["preemptionPolicy"] = preemption_policy();
}

/// Adds `spec.scheduling` of Jobs, which is behind the gate `WorkloadWithJob`, and its types.
pub(crate) fn add_job_scheduling(definitions: &mut Map<String, Value>) {
    let reference = |name: &str| json!({"$ref": format!("{REFERENCE}{name}")});
    let Some(job) = definitions.get_mut("io.k8s.api.batch.v1.JobSpec") else { return };
    job["properties"]["scheduling"] = reference(JOB_SCHEDULING);
    let text = |description: &str| json!({"description": description, "type": "string"});
    let list = |description: &str, items: Value| json!({"description": description, "type": "array", "items": items});
    let empty = |description: &str| json!({"description": description, "type": "object"});
    let min_count = json!({"description": "The required number of pods; by default, the parallelism of the Job.", "type": "integer",
        "format": "int32"});
    for (name, description, properties) in [
        (
            JOB_SCHEDULING,
            "How the pods of a Job are scheduled as a group.",
            json!({
                "schedulingPolicy": reference(JOB_POLICY),
                "schedulingConstraints": reference(JOB_CONSTRAINTS),
                "disruptionMode": reference(JOB_DISRUPTION),
                "resourceClaims": list("Claims of devices that the pods share.", reference(JOB_CLAIM)),
            }),
        ),
        (
            JOB_POLICY,
            "One of the fields is set.",
            json!({"basic": empty("As many pods as fit."), "gang": reference(JOB_GANG)}),
        ),
        (JOB_GANG, "All or nothing.", json!({ "minCount": min_count })),
        (
            JOB_CONSTRAINTS,
            "Constraints on the nodes of the pods.",
            json!({"topology": list("A topology whose domain the pods share.", reference(JOB_TOPOLOGY))}),
        ),
        (JOB_TOPOLOGY, "A topology.", json!({"key": text("A label key of nodes.")})),
        (
            JOB_DISRUPTION,
            "What is disrupted at once. One of the fields is set.",
            json!({"all": empty("All pods together."), "single": empty("Each pod by itself.")}),
        ),
        (
            JOB_CLAIM,
            "A claim of devices.",
            json!({
                "name": text("The name of the entry."),
                "resourceClaimName": text("The name of the claim."),
                "resourceClaimTemplateName": text("The template of the claim."),
            }),
        ),
    ] {
        let definition = json!({"description": description, "type": "object", "properties": properties});
        definitions.insert(name.to_owned(), definition);
    }
}

const JOB_SCHEDULING: &str = "io.k8s.api.batch.v1.JobSchedulingConfiguration";
const JOB_POLICY: &str = "io.k8s.api.scheduling.v1alpha3.WorkloadPodGroupSchedulingPolicy";
const JOB_GANG: &str = "io.k8s.api.scheduling.v1alpha3.WorkloadPodGroupGangSchedulingPolicy";
const JOB_CONSTRAINTS: &str = "io.k8s.api.scheduling.v1alpha3.WorkloadPodGroupSchedulingConstraints";
const JOB_TOPOLOGY: &str = "io.k8s.api.scheduling.v1alpha3.TopologyConstraint";
const JOB_DISRUPTION: &str = "io.k8s.api.scheduling.v1alpha3.WorkloadPodGroupDisruptionMode";
const JOB_CLAIM: &str = "io.k8s.api.scheduling.v1alpha3.WorkloadPodGroupResourceClaim";

/// A schema with other properties.
fn with(mut schema: Schema, change: impl FnOnce(&mut Map<String, Value>)) -> Schema {
    if let Some(fields) = schema.ensure_object().get_mut("properties").and_then(Value::as_object_mut) {
        change(fields);
    }
    schema
}

fn described<T: JsonSchema>(generator: &mut SchemaGenerator, description: &str) -> Value {
    let mut schema = generator.subschema_for::<T>();
    schema.ensure_object().insert("description".to_owned(), json!(description));
    schema.to_value()
}

resources! { CompositePodGroup "v1alpha3" "compositepodgroups" }
