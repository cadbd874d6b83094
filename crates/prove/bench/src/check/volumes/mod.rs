//! The state of volumes, claims and pods: what of it violates a rule.
//!
//! The check looks at one state of a cluster, with no decision under way: claims and volumes that belong together, pods that may
//! use their volumes where they are, and pods that wait.

mod bindings;
mod pods;

use std::collections::HashMap;

use berth_api::object::volume::{CsiNode, PersistentVolume, PersistentVolumeClaim, VolumeObject};
use berth_api::object::{NamespacedName, Node, Pod};
use serde::Serialize;

/// The objects of a cluster that are checked.
#[derive(Default)]
pub struct VolumeState {
    nodes: HashMap<String, Node>,
    pods: Vec<Pod>,
    volumes: HashMap<String, PersistentVolume>,
    claims: HashMap<NamespacedName, PersistentVolumeClaim>,
    csi_nodes: HashMap<String, CsiNode>,
}

/// A violated rule.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct VolumeViolation {
    /// The rule.
    pub rule: VolumeRule,
    /// The object that violates it: `Pod default/web`.
    pub object: String,
    /// What is wrong.
    pub detail: String,
}

/// The rules that are checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum VolumeRule {
    /// A claim is bound to several volumes.
    ClaimBoundTwice,
    /// A volume is bound to several claims.
    VolumeBoundTwice,
    /// A claim and its volume do not refer to each other.
    HalfBound,
    /// A volume that is too small for its claim, or of another class, mode or access mode.
    UnsuitableVolume,
    /// A pod has a node, but one of its claims has no volume.
    UnboundClaim,
    /// The claim of a generic ephemeral volume belongs to another owner.
    ForeignClaim,
    /// The node is none of those that can use the volume.
    VolumeNodeAffinity,
    /// The node is in another zone or region than the volume.
    VolumeZone,
    /// More volumes of a driver than the node can attach.
    AttachLimit,
    /// A claim with `ReadWriteOncePod` is used by several pods.
    ReadWriteOncePod,
    /// Two pods of a node use a disk that only one can use.
    DiskConflict,
    /// A pod waits without a condition that says why.
    NoReason,
}

impl VolumeState {
    /// Collects the objects.
    pub fn new(
        nodes: impl IntoIterator<Item = Node>,
        pods: impl IntoIterator<Item = Pod>,
        objects: impl IntoIterator<Item = VolumeObject>,
    ) -> VolumeState {
        let mut state = VolumeState {
            nodes: nodes.into_iter().map(|node| (node.metadata.name.clone(), node)).collect(),
            pods: pods.into_iter().filter(|pod| !pod.is_terminal()).collect(),
            ..VolumeState::default()
        };
        for object in objects {
            let metadata = object.metadata();
            let (key, name) = (metadata.namespaced_name(), metadata.name.clone());
            match object {
                VolumeObject::PersistentVolume(volume) => {
                    state.volumes.insert(name, *volume);
                }
                VolumeObject::PersistentVolumeClaim(claim) => {
                    state.claims.insert(key, *claim);
                }
                VolumeObject::CsiNode(csi_node) => {
                    state.csi_nodes.insert(name, csi_node);
                }
                _ => {}
            }
        }
        state
    }

    /// Checks all rules. The violations are in the order of rules and objects.
    pub fn check(&self) -> Vec<VolumeViolation> {
        let mut violations = bindings::check(self);
        violations.extend(pods::check(self));
        violations.sort_by(|a, b| (a.rule, &a.object, &a.detail).cmp(&(b.rule, &b.object, &b.detail)));
        violations
    }
}

fn violation(rule: VolumeRule, object: String, detail: String) -> VolumeViolation {
    VolumeViolation { rule, object, detail }
}

#[cfg(test)]
mod tests;
