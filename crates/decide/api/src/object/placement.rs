//! Which fields of a pod matter for placement. This is the one definition: caches and watches compare pods by it.

use std::hash::Hash;

use super::group::{
    GROUP_ANNOTATION, GROUP_MIN_ANNOTATION, GROUP_OF_WORKLOAD_ANNOTATION, GROUP_TOPOLOGY_ANNOTATIONS,
};
use super::{Pod, TOPOLOGY_LABELS};
use crate::syntax::annotations::{
    AFFINITY_ANNOTATION, RELAX_AFTER_ANNOTATION, RELAXED_ANNOTATION, TOLERATION_ANNOTATION,
};

/// The fields of `metadata` that placement or the scheduling queue reads, besides those that name the pod.
pub const METADATA_FIELDS: [&str; 5] =
    ["labels", "annotations", "ownerReferences", "creationTimestamp", "deletionTimestamp"];

/// The fields of `spec` that placement or the scheduling queue reads, besides `nodeName`.
pub const SPEC_FIELDS: [&str; 18] = [
    "nodeSelector",
    "affinity",
    "tolerations",
    "topologySpreadConstraints",
    "schedulerName",
    "schedulingGates",
    "priority",
    "priorityClassName",
    "preemptionPolicy",
    "volumes",
    "initContainers",
    "containers",
    "overhead",
    "resources",
    "hostNetwork",
    "hostUsers",
    "resourceClaims",
    "schedulingGroup",
];

/// The fields of `spec` that are read for other reasons.
pub const OTHER_SPEC_FIELDS: [&str; 3] = ["runtimeClassName", "os", "activeDeadlineSeconds"];

/// The lists of containers in `spec`. Of each container, placement reads the [`CONTAINER_FIELDS`].
pub const CONTAINERS: [&str; 2] = ["containers", "initContainers"];

pub const CONTAINER_FIELDS: [&str; 6] =
    ["name", "image", "resources", "ports", "restartPolicy", "restartPolicyRules"];

/// The fields of a volume in `spec` that are read. Those with none but a name do not matter.
pub const VOLUME_FIELDS: [&str; 16] = [
    "name",
    "persistentVolumeClaim",
    "ephemeral",
    "csi",
    "awsElasticBlockStore",
    "gcePersistentDisk",
    "azureDisk",
    "azureFile",
    "cinder",
    "vsphereVolume",
    "portworxVolume",
    "iscsi",
    "rbd",
    "image",
    "emptyDir",
    "hostPath",
];

/// The fields of `status` that placement or the scheduling queue reads, besides `conditions`.
pub const STATUS_FIELDS: [&str; 7] = [
    "phase",
    "startTime",
    "nominatedNodeName",
    "resources",
    "allocatedResources",
    "resourceClaimStatuses",
    "nodeAllocatableResourceClaimStatuses",
];

/// The annotations that are rules of their pod, or say which of its rules count.
const RULE_ANNOTATIONS: [&str; 4] =
    [AFFINITY_ANNOTATION, TOLERATION_ANNOTATION, RELAX_AFTER_ANNOTATION, RELAXED_ANNOTATION];

/// The lists of container statuses in `status`. Of each status, placement reads the [`CONTAINER_STATUS_FIELDS`]; the
/// others change often, and without effect on placement.
pub const CONTAINER_STATUSES: [&str; 2] = ["containerStatuses", "initContainerStatuses"];

pub const CONTAINER_STATUS_FIELDS: [&str; 3] = ["name", "allocatedResources", "resources"];

/// The types of the conditions that placement reads. The other conditions change often, and without effect on
/// placement.
pub const CONDITION_TYPES: [&str; 2] = ["DisruptionTarget", "PodResizePending"];

/// The condition of a pod that has to be evicted and stays because no node is feasible for it. Placement does not read it; the
/// enforcer, which writes it, follows its status and message.
pub const HELD_CONDITION: &str = "scheduling.berth.dev/EvictionHeld";

/// The condition of a pod that is evicted so that its replacement goes to another node, which is its message. A scheduler of Berth
/// nominates that node for the next pod of the same controller.
pub const MOVE_CONDITION: &str = "scheduling.berth.dev/Moves";

impl Pod {
    /// Whether both pods have the same rules, and are the same to the rules of others: the pods of a workload are, wherever
    /// they run.
    pub fn is_like(&self, other: &Pod) -> bool {
        self.likeness() == other.likeness()
    }

    fn likeness(&self) -> impl PartialEq + '_ {
        let Pod { metadata, spec, status } = self;
        let annotation = |key| metadata.annotations.get(key);
        (
            (&metadata.namespace, &metadata.labels, metadata.is_deleting(), metadata.controller()),
            RULE_ANNOTATIONS.map(annotation),
            (spec.node_name.is_empty(), spec.without_node()),
            (&status.container_statuses, &status.init_container_statuses, status.is_resize_infeasible()),
            (&status.resources, &status.allocated_resources),
        )
    }

    /// The values that decide where the pod may run and what it does to other pods, apart from its node. Two pods in
    /// one namespace with equal values are interchangeable for placement.
    ///
    /// The values depend only on fields that this module lists. They are coarser than those: `creationTimestamp` and
    /// `nominatedNodeName` matter to the scheduling queue alone, other annotations to nothing. The second part has the
    /// labels that a binding adds ([`TOPOLOGY_LABELS`]).
    pub fn placement_fields(
        &self,
    ) -> (impl Hash + PartialEq + std::fmt::Debug + '_, Vec<(&String, &String)>) {
        let Pod { metadata, spec, status } = self;
        let annotation = |key| metadata.annotations.get(key);
        let group = annotation(GROUP_ANNOTATION).map(|group| {
            (group, annotation(GROUP_MIN_ANNOTATION), GROUP_TOPOLOGY_ANNOTATIONS.map(annotation))
        });
        let volumes: Vec<_> = spec.volumes.iter().filter(|volume| volume.matters()).collect();
        let is_added = |(key, _): &(&String, _)| TOPOLOGY_LABELS.contains(&key.as_str());
        let (added, labels): (Vec<_>, Vec<_>) = metadata.labels.iter().partition(is_added);
        // Before the pod has a node, they are a note of the attempt to bind it.
        let taken = &status.node_allocatable_resource_claim_statuses[..];
        let taken = if spec.node_name.is_empty() { &[] } else { taken };
        let fields = (
            (labels, group, annotation(GROUP_OF_WORKLOAD_ANNOTATION), metadata.controller()),
            RULE_ANNOTATIONS.map(annotation),
            (metadata.deletion_timestamp.is_some(), self.is_terminal(), &spec.scheduler_name),
            (&spec.node_selector, &spec.affinity, &spec.tolerations, &spec.topology_spread_constraints),
            (&spec.scheduling_gates, spec.priority, &spec.preemption_policy),
            (&spec.init_containers, &spec.containers, &spec.overhead, &spec.resources),
            (self.started(), self.is_being_preempted(), volumes),
            (spec.host_network, spec.host_users, &spec.scheduling_group),
            (&spec.resource_claims, &status.resource_claim_statuses, taken),
            (&status.container_statuses, &status.init_container_statuses, status.is_resize_infeasible()),
            (&status.resources, &status.allocated_resources),
        );
        (fields, added)
    }
}

#[cfg(test)]
mod tests {
    use std::fmt;

    use serde::de::{Deserialize, Deserializer, Error, Visitor, value};
    use serde::forward_to_deserialize_any;
    use serde_json::{Value, json};

    use super::*;
    use crate::object::volume::Volume;
    use crate::object::{Container, ContainerStatus, ObjectMeta, PodSpec, PodStatus};

    /// Finds out which fields a type reads.
    struct FieldsOf<'a>(&'a mut Vec<&'static str>);

    impl<'de> Deserializer<'de> for FieldsOf<'_> {
        type Error = value::Error;

        fn deserialize_struct<V: Visitor<'de>>(
            self,
            _: &'static str,
            fields: &'static [&'static str],
            _: V,
        ) -> Result<V::Value, value::Error> {
            self.0.extend(fields);
            Err(value::Error::custom("only the fields are wanted"))
        }

        fn deserialize_any<V: Visitor<'de>>(self, _: V) -> Result<V::Value, value::Error> {
            Err(value::Error::custom("not a struct"))
        }

        forward_to_deserialize_any! {
            bool i8 i16 i32 i64 u8 u16 u32 u64 f32 f64 char str string bytes byte_buf option unit unit_struct
            newtype_struct seq tuple tuple_struct map enum identifier ignored_any
        }
    }

    fn assert_listed<T: for<'a> Deserialize<'a> + fmt::Debug>(listed: &[&str], others: &[&str]) {
        let mut fields = Vec::new();
        T::deserialize(FieldsOf(&mut fields)).unwrap_err();
        fields.sort_unstable();
        let mut known = [listed, others].concat();
        known.sort_unstable();
        assert_eq!(fields, known, "a field is missing in one of the lists");
    }

    #[test]
    fn every_field_of_a_pod_is_listed_or_known_not_to_matter() {
        assert_listed::<ObjectMeta>(
            &METADATA_FIELDS,
            &[
                "name",
                "generateName",
                "namespace",
                "uid",
                "resourceVersion",
                "generation",
                "finalizers",
                "deletionGracePeriodSeconds",
            ],
        );
        assert_listed::<PodSpec>(&[&SPEC_FIELDS[..], &OTHER_SPEC_FIELDS].concat(), &["nodeName"]);
        assert_listed::<Container>(&CONTAINER_FIELDS, &[]);
        assert_listed::<Volume>(&VOLUME_FIELDS, &[]);
        assert_listed::<PodStatus>(
            &[&STATUS_FIELDS[..], &CONTAINER_STATUSES].concat(),
            &["conditions", "reason", "message", "extendedResourceClaimStatus"],
        );
        assert_listed::<ContainerStatus>(&CONTAINER_STATUS_FIELDS, &[]);
    }

    #[test]
    fn fields_that_matter_differ_and_others_do_not() {
        let base = json!({"metadata": {"labels": {"a": "b"}}, "status": {"conditions": []}, "spec": {}});
        let pod = |value: &Value| serde_json::from_value::<Pod>(value.clone()).unwrap();
        for (path, value, matters) in [
            ("/metadata/labels", json!({"a": "c"}), true),
            ("/metadata/labels", json!({"a": "b", TOPOLOGY_LABELS[0]: "r"}), true),
            ("/metadata/annotations", json!({AFFINITY_ANNOTATION: "{}"}), true),
            ("/metadata/annotations", json!({GROUP_ANNOTATION: "g", GROUP_MIN_ANNOTATION: "2"}), true),
            ("/metadata/annotations", json!({TOLERATION_ANNOTATION: "*"}), true),
            ("/metadata/annotations", json!({RELAX_AFTER_ANNOTATION: "5m"}), true),
            ("/metadata/annotations", json!({RELAXED_ANNOTATION: "spec.affinity"}), true),
            ("/metadata/annotations", json!({"other": "{}"}), false),
            ("/metadata/ownerReferences", json!([{"kind": "Job", "controller": true}]), true),
            ("/metadata/deletionTimestamp", json!("2026-01-01T00:00:00Z"), true),
            ("/metadata/resourceVersion", json!("2"), false),
            ("/spec/nodeName", json!("node-1"), false),
            ("/spec/nodeSelector", json!({"a": "b"}), true),
            ("/spec/affinity", json!({}), true),
            ("/spec/tolerations", json!([{"key": "a"}]), true),
            ("/spec/topologySpreadConstraints", json!([{"maxSkew": 1}]), true),
            ("/spec/schedulerName", json!("other"), true),
            ("/spec/schedulingGates", json!([{"name": "g"}]), true),
            ("/spec/priority", json!(1), true),
            ("/spec/preemptionPolicy", json!("Never"), true),
            ("/spec/containers", json!([{"resources": {"requests": {"cpu": "1"}}}]), true),
            ("/spec/volumes", json!([{"name": "v", "persistentVolumeClaim": {"claimName": "c"}}]), true),
            ("/spec/volumes", json!([{"name": "v", "emptyDir": {}}]), false),
            ("/spec/overhead", json!({"cpu": "1"}), true),
            ("/spec/activeDeadlineSeconds", json!(1), false),
            ("/status/phase", json!("Running"), false),
            ("/status/phase", json!("Failed"), true),
            ("/status/startTime", json!("2026-01-01T00:00:00Z"), true),
            ("/spec/hostUsers", json!(false), true),
            ("/spec/resourceClaims", json!([{"name": "gpu"}]), true),
            ("/status/resourceClaimStatuses", json!([{"name": "gpu", "resourceClaimName": "p-gpu-x"}]), true),
            // Of a pod without a node.
            ("/status/nodeAllocatableResourceClaimStatuses", json!([{"resourceClaimName": "c"}]), false),
            ("/status/extendedResourceClaimStatus", json!({"resourceClaimName": "p-extended"}), false),
            ("/spec/schedulingGroup", json!({"podGroupName": "g"}), true),
            ("/status/containerStatuses", json!([{"name": "c", "restartCount": 1}]), false),
            ("/status/containerStatuses", json!([{"name": "c", "allocatedResources": {"cpu": "1"}}]), true),
            ("/status/allocatedResources", json!({"cpu": "1"}), true),
            ("/status/conditions", json!([{"type": "Ready", "status": "True"}]), false),
            ("/status/conditions", json!([{"type": "PodResizePending", "reason": "Infeasible"}]), true),
        ] {
            let mut changed = base.clone();
            let (section, field) = path.rsplit_once('/').unwrap();
            changed.pointer_mut(section).unwrap()[field] = value;
            let (before, after) = (pod(&base), pod(&changed));
            assert_eq!(before.placement_fields() != after.placement_fields(), matters, "{path}");
            let of_one_pod = ["/status/startTime", "/status/phase", "/status/resourceClaimStatuses"];
            let is_group = after.metadata.annotations.contains_key(GROUP_ANNOTATION);
            if matters && !is_group && !of_one_pod.contains(&path) {
                assert!(!before.is_like(&after), "{path}");
            }
        }
        let mut moved = pod(&base);
        moved.spec.node_name = "a".to_owned();
        assert!(!moved.is_like(&pod(&base)), "rules that were relaxed for a binding count with a node");
        let there = moved.clone();
        moved.spec.node_name = "b".to_owned();
        moved.metadata.name = "other".to_owned();
        assert!(moved.is_like(&there));
        let taken = json!([{"resourceClaimName": "c", "resources": {"cpu": "1"}}]);
        let [before, after] = [json!([]), taken].map(|taken| {
            json!({"spec": {"nodeName": "n"}, "status": {"nodeAllocatableResourceClaimStatuses": taken}})
        });
        let (before, after) = (pod(&before), pod(&after));
        assert!(before.placement_fields() != after.placement_fields());
    }
}
