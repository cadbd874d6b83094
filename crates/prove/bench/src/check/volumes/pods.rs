//! Rules between pods, their nodes and their volumes.

use std::collections::{BTreeMap, BTreeSet};

use berth_api::object::volume::{CsiNode, PersistentVolume, PersistentVolumeClaim, Volume};
use berth_api::object::{NamespacedName, Node, Pod};
use berth_testkit::naive::{attached_disk, cannot_share, selects_node};

use super::bindings::claim_text;
use super::{VolumeRule, VolumeState, VolumeViolation, violation};

/// The labels of zones and regions: the present one and the former one.
const TOPOLOGY_LABELS: [(&str, &str); 2] = [
    ("topology.kubernetes.io/zone", "failure-domain.beta.kubernetes.io/zone"),
    ("topology.kubernetes.io/region", "failure-domain.beta.kubernetes.io/region"),
];

/// Checks all pods.
pub fn check(state: &VolumeState) -> Vec<VolumeViolation> {
    let mut violations = Vec::new();
    let mut by_node: BTreeMap<&str, Vec<&Pod>> = BTreeMap::new();
    let mut users: BTreeMap<NamespacedName, BTreeSet<String>> = BTreeMap::new();
    for pod in &state.pods {
        if pod.spec.node_name.is_empty() {
            if !pod.metadata.is_deleting() && !has_reason(pod) {
                let detail = "no condition PodScheduled with a reason".to_owned();
                violations.push(violation(VolumeRule::NoReason, pod_text(pod), detail));
            }
            continue;
        }
        by_node.entry(&pod.spec.node_name).or_default().push(pod);
        for volume in &pod.spec.volumes {
            let Some(name) = claim_name(pod, volume) else { continue };
            check_claim(state, pod, volume, &name, &mut violations);
            users.entry(name).or_default().insert(pod.key());
        }
    }
    for (claim, users) in users {
        let is_exclusive = |claim: &PersistentVolumeClaim| {
            claim.spec.access_modes.iter().any(|mode| mode == "ReadWriteOncePod")
        };
        if users.len() > 1 && state.claims.get(&claim).is_some_and(is_exclusive) {
            let detail = users.into_iter().collect::<Vec<_>>().join(", ");
            violations.push(violation(VolumeRule::ReadWriteOncePod, claim_text(&claim), detail));
        }
    }
    for (node, pods) in by_node {
        check_disks(node, &pods, &mut violations);
        if let Some(csi_node) = state.csi_nodes.get(node) {
            check_attachments(state, csi_node, &pods, &mut violations);
        }
    }
    violations
}

/// The claim of a pod's volume; that of a generic ephemeral volume is named after both.
fn claim_name(pod: &Pod, volume: &Volume) -> Option<NamespacedName> {
    let name = match (&volume.persistent_volume_claim, &volume.ephemeral) {
        (Some(claim), _) => claim.claim_name.clone(),
        (None, Some(_)) => format!("{}-{}", pod.metadata.name, volume.name),
        (None, None) => return None,
    };
    Some(NamespacedName::new(&pod.metadata.namespace, &name))
}

fn check_claim(
    state: &VolumeState,
    pod: &Pod,
    volume: &Volume,
    name: &NamespacedName,
    violations: &mut Vec<VolumeViolation>,
) {
    let mut add = |rule, detail| violations.push(violation(rule, pod_text(pod), detail));
    let Some(claim) = state.claims.get(name) else {
        return add(VolumeRule::UnboundClaim, format!("claim {name} does not exist"));
    };
    if volume.ephemeral.is_some() && !claim.metadata.is_controlled_by(&pod.metadata.uid) {
        add(VolumeRule::ForeignClaim, format!("claim {name} is not its own"));
    }
    let Some(bound) = state.volumes.get(&claim.spec.volume_name) else {
        // The claim of a pod that runs can be lost later.
        if claim.status.phase != "Lost" {
            add(VolumeRule::UnboundClaim, format!("claim {name} is not bound"));
        }
        return;
    };
    let Some(node) = state.nodes.get(&pod.spec.node_name) else { return };
    let affinity = bound.spec.node_affinity.as_ref().and_then(|a| a.required.as_ref());
    let (volume, node_name) = (&bound.metadata.name, &node.metadata.name);
    if affinity.is_some_and(|selector| !selects_node(selector, node)) {
        add(VolumeRule::VolumeNodeAffinity, format!("volume {volume} cannot be used on {node_name}"));
    }
    if let Some(key) = other_zone(bound, node) {
        add(VolumeRule::VolumeZone, format!("{key} of volume {volume} excludes {node_name}"));
    }
}

/// The label of a volume that excludes a node. A node without any of these labels can use all volumes.
fn other_zone(volume: &PersistentVolume, node: &Node) -> Option<&'static str> {
    let keys = || TOPOLOGY_LABELS.into_iter().flat_map(|(key, former)| [(key, former), (former, key)]);
    if keys().all(|(key, _)| node.metadata.label(key).is_none()) {
        return None;
    }
    keys().find_map(|(key, other)| {
        let allowed = volume.metadata.label(key)?;
        let value = node.metadata.label(key).or(node.metadata.label(other));
        let is_allowed = value.is_some_and(|value| allowed.split("__").any(|zone| zone.trim() == value));
        (!is_allowed).then_some(key)
    })
}

/// Compares each disk with those of the pods before.
fn check_disks(node: &str, pods: &[&Pod], violations: &mut Vec<VolumeViolation>) {
    let with_disks: Vec<_> = pods.iter().filter(|pod| !pod.spec.volumes.is_empty()).collect();
    for (i, pod) in with_disks.iter().enumerate() {
        for other in &with_disks[..i] {
            let is_shared = |volume: &&Volume| other.spec.volumes.iter().any(|o| cannot_share(volume, o));
            if let Some(volume) = pod.spec.volumes.iter().find(is_shared) {
                let detail = format!("disk {} on {node} is also used by {}", volume.name, other.key());
                violations.push(violation(VolumeRule::DiskConflict, pod_text(pod), detail));
            }
        }
    }
}

/// A disk as its driver sees it: driver and handle.
type Disk = (String, String);

/// Counts the disks of each driver; a disk of several pods counts once.
fn check_attachments(
    state: &VolumeState,
    csi_node: &CsiNode,
    pods: &[&Pod],
    violations: &mut Vec<VolumeViolation>,
) {
    let disk = |pod: &Pod, volume: &Volume| -> Option<Disk> {
        let Some(name) = claim_name(pod, volume) else {
            return attached_disk(volume.in_tree_disks(), csi_node);
        };
        let volume = state.volumes.get(&state.claims.get(&name)?.spec.volume_name)?;
        match &volume.spec.csi {
            Some(csi) => Some((csi.driver.clone(), csi.volume_handle.clone())),
            None => attached_disk(volume.spec.in_tree_disks(), csi_node),
        }
    };
    let attached: BTreeSet<Disk> =
        pods.iter().flat_map(|pod| pod.spec.volumes.iter().filter_map(|v| disk(pod, v))).collect();
    for driver in &csi_node.spec.drivers {
        let Some(limit) = driver.allocatable.as_ref().and_then(|a| a.count) else { continue };
        let n_attached = attached.iter().filter(|(name, _)| *name == driver.name).count();
        if n_attached as i128 > i128::from(limit) {
            let object = format!("Node {}", csi_node.metadata.name);
            let detail = format!("{}: {n_attached} volumes of {limit}", driver.name);
            violations.push(violation(VolumeRule::AttachLimit, object, detail));
        }
    }
}

fn has_reason(pod: &Pod) -> bool {
    let scheduled = pod.status.conditions.iter().find(|c| c.condition_type == "PodScheduled");
    scheduled.is_some_and(|c| c.status == "False" && !c.reason.is_empty() && !c.message.is_empty())
}

fn pod_text(pod: &Pod) -> String {
    format!("Pod {}", pod.key())
}
