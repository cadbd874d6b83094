//! Changes of a cluster, as a watch reports them.

use std::collections::HashSet;

use berth_api::object::volume::Volume;
use berth_api::object::{NamespacedName, Node, Pod, ResourceRequirements};
use berth_api::read::{Kind, Manifest};

use crate::ClusterEvent;

pub enum Update {
    /// A node is new, or has changed.
    Node(Box<Node>),
    /// A pod is new, or has changed.
    Pod(Box<Pod>),
    /// An object of another kind is new, or has changed.
    Object(Box<Manifest>),
    /// An object does not exist any more.
    Removed(Kind, NamespacedName),
    /// Of this kind, only these objects exist.
    Listed(Kind, HashSet<NamespacedName>),
    /// An event was reported, or its count has changed.
    Event(Box<ClusterEvent>),
    /// Why the state may be incomplete or out of date; none if it is neither.
    Notice(Option<String>),
}

/// The annotations that placement reads begin with one of these.
const ANNOTATIONS: [&str; 3] = ["scheduling.", "kubernetes.io/config.mirror", "controller.kubernetes.io/"];

/// The conditions of pods that placement reads.
const CONDITIONS: [&str; 2] = ["DisruptionTarget", "PodResizePending"];

impl Update {
    /// A node that is new, or has changed. What changes with every report of its kubelet is left out.
    pub fn node(mut node: Node) -> Update {
        node.metadata.resource_version.clear();
        Update::Node(Box::new(node))
    }

    /// A pod that is new, or has changed. What no page shows and no rule reads is left out, and no memory is kept in reserve:
    /// there are many of them.
    pub fn pod(mut pod: Pod) -> Update {
        let metadata = &mut pod.metadata;
        metadata.resource_version.clear();
        metadata.generate_name = String::new();
        metadata.finalizers = Vec::new().into();
        metadata.annotations.retain(|key, _| ANNOTATIONS.iter().any(|beginning| key.starts_with(beginning)));
        metadata.owner_references.retain(|owner| owner.controller == Some(true));
        metadata.owner_references.shrink_to_fit();
        let conditions = &mut pod.status.conditions;
        conditions.retain(|condition| CONDITIONS.contains(&condition.condition_type.as_str()));
        conditions.shrink_to_fit();
        let spec = &mut *pod.spec;
        // Volumes of other sources decide nothing.
        spec.volumes.retain(Volume::has_source);
        spec.volumes.shrink_to_fit();
        spec.tolerations.shrink_to_fit();
        spec.topology_spread_constraints.shrink_to_fit();
        for containers in [&mut spec.containers, &mut spec.init_containers] {
            for container in &mut *containers {
                let ResourceRequirements { requests, limits, .. } = &mut container.resources;
                // Limits are the defaults of requests.
                limits.retain(|resource, _| !requests.contains_key(resource));
                container.ports.retain(|port| spec.host_network || port.host_port != 0);
                container.ports.shrink_to_fit();
            }
            containers.shrink_to_fit();
        }
        Update::Pod(Box::new(pod))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn of_pods_only_what_placement_reads_is_kept() {
        let pod = json!({
            "metadata": {"name": "a", "resourceVersion": "7", "finalizers": ["f"], "annotations": {"note": "n",
                "scheduling.berth.dev/affinity": "{}"}, "ownerReferences": [{"name": "o"}, {"name": "c", "controller": true}]},
            "spec": {"volumes": [{"name": "token", "projected": {}}, {"name": "data", "persistentVolumeClaim": {"claimName": "c"}}],
                "containers": [{"name": "c", "resources": {"requests": {"cpu": "1"}, "limits": {"cpu": "2", "memory": "1Gi"}},
                    "ports": [{"containerPort": 80}, {"containerPort": 81, "hostPort": 81}]}]},
            "status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]},
        });
        let Update::Pod(pod) = Update::pod(serde_json::from_value(pod).unwrap()) else { panic!("not a pod") };
        let kept = json!({
            "metadata": {"name": "a", "annotations": {"scheduling.berth.dev/affinity": "{}"},
                "ownerReferences": [{"name": "c", "controller": true}]},
            "spec": {"volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": "c"}}],
                "containers": [{"name": "c", "resources": {"requests": {"cpu": "1"}, "limits": {"memory": "1Gi"}},
                    "ports": [{"containerPort": 81, "hostPort": 81}]}]},
            "status": {"phase": "Running"},
        });
        assert_eq!(*pod, serde_json::from_value::<Pod>(kept).unwrap());
    }
}
