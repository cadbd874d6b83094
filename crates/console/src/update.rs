//! Changes of a cluster, as a watch reports them.

use std::collections::HashSet;

use berth_api::object::{NamespacedName, Node, Pod};
use berth_api::read::{Kind, Manifest};

use crate::ClusterEvent;

/// What has changed.
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

    /// A pod that is new, or has changed. What no page shows and no rule reads is left out: there are many of them.
    pub fn pod(mut pod: Pod) -> Update {
        let metadata = &mut pod.metadata;
        metadata.resource_version.clear();
        metadata.generate_name = String::new();
        metadata.finalizers = Vec::new();
        metadata.annotations.retain(|key, _| ANNOTATIONS.iter().any(|beginning| key.starts_with(beginning)));
        metadata.owner_references.retain(|owner| owner.controller == Some(true));
        let conditions = &mut pod.status.conditions;
        conditions.retain(|condition| CONDITIONS.contains(&condition.condition_type.as_str()));
        conditions.shrink_to_fit();
        Update::Pod(Box::new(pod))
    }
}
