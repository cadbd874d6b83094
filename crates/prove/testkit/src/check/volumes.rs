//! Claims, volumes and the pods that use them: what of a state with no decision under way violates a rule.

use std::collections::BTreeMap;

use berth_api::object::volume::{PersistentVolume, PersistentVolumeClaim};
use berth_api::object::{NamespacedName, Pod};
use berth_input::config::{Plugin, Profile};

use crate::naive::storage::claim_name;
use crate::naive::{Options, World, check_node};

/// The annotation of claims and volumes that a controller bound, not a user.
const BOUND_BY_CONTROLLER: &str = "pv.kubernetes.io/bound-by-controller";
/// The plugins that judge where a pod can use its volumes.
const PLUGINS: [Plugin; 4] =
    [Plugin::VolumeRestrictions, Plugin::NodeVolumeLimits, Plugin::VolumeBinding, Plugin::VolumeZone];

/// What is wrong, a sentence each: claims and volumes that do not belong together in pairs, pods that cannot use their volumes
/// where they are, and pods that wait without a reason.
pub fn check(world: &World) -> Vec<String> {
    let mut findings = Vec::new();
    pairs(world, &mut findings);
    pods(world, &mut findings);
    findings.sort();
    findings
}

fn pairs(world: &World, findings: &mut Vec<String>) {
    let is_of = |volume: &PersistentVolume, claim: &PersistentVolumeClaim| {
        // A claim of the same name that was created later is another one.
        volume.spec.claim_ref.as_ref().is_some_and(|r| {
            NamespacedName::new(&r.namespace, &r.name) == claim.metadata.namespaced_name()
                && (r.uid.is_empty() || r.uid == claim.metadata.uid)
        })
    };
    let volumes = &world.storage.volumes;
    let mut claims_of: BTreeMap<&str, Vec<String>> = BTreeMap::new();
    for claim in &world.storage.claims {
        let name = claim.metadata.namespaced_name();
        let bound = volumes.iter().filter(|v| v.status.phase == "Bound" && is_of(v, claim));
        let bound: Vec<_> = bound.map(|volume| volume.metadata.name.as_str()).collect();
        if bound.len() > 1 {
            findings.push(format!("claim {name} is bound to several volumes: {}", bound.join(", ")));
        }
        if claim.status.phase != "Bound" {
            continue;
        }
        let volume_name = claim.spec.volume_name.as_str();
        claims_of.entry(volume_name).or_default().push(name.to_string());
        let Some(volume) = world.storage.volume(volume_name) else {
            findings.push(format!("claim {name} is bound, but there is no volume {volume_name:?}"));
            continue;
        };
        if !is_of(volume, claim) {
            findings.push(format!("claim {name} is bound, but volume {volume_name} is not reserved for it"));
        }
        if claim.metadata.annotation(BOUND_BY_CONTROLLER).is_some()
            && let Some(reason) = unsuitable(claim, volume)
        {
            findings.push(format!("volume {volume_name} of claim {name} {reason}"));
        }
    }
    for (volume, claims) in claims_of.into_iter().filter(|(_, claims)| claims.len() > 1) {
        findings.push(format!("volume {volume} is bound to several claims: {}", claims.join(", ")));
    }
}

/// Why a volume does not have what a claim asks for.
fn unsuitable(claim: &PersistentVolumeClaim, volume: &PersistentVolume) -> Option<String> {
    let mode = |mode: &Option<String>| mode.clone().unwrap_or_else(|| "Filesystem".to_owned());
    if volume.capacity() < claim.requested() {
        return Some("is too small".to_owned());
    }
    if volume.storage_class() != claim.storage_class() {
        return Some(format!("is of class {:?}", volume.storage_class()));
    }
    if mode(&volume.spec.volume_mode) != mode(&claim.spec.volume_mode) {
        return Some(format!("has the mode {}", mode(&volume.spec.volume_mode)));
    }
    let missing = claim.spec.access_modes.iter().find(|mode| !volume.spec.access_modes.contains(mode));
    missing.map(|mode| format!("lacks the access mode {mode}"))
}

fn pods(world: &World, findings: &mut Vec<String>) {
    let mut profile = Profile::default();
    profile.pre_filter.retain(|plugin| PLUGINS.contains(plugin));
    profile.filter.retain(|plugin| PLUGINS.contains(plugin));
    // Pods run on while their claims are deleted, and their own volumes are attached.
    let mut world = world.clone();
    world.storage.claims.iter_mut().for_each(|claim| claim.metadata.deletion_timestamp = None);
    world.storage.attachments.clear();
    for (i, pod) in world.pods.iter().enumerate() {
        let node = &pod.spec.node_name;
        if node.is_empty() {
            if !pod.metadata.is_deleting() && !has_reason(pod) {
                findings.push(format!("{} waits without a condition PodScheduled with a reason", pod.key()));
            }
            continue;
        }
        let storage = &world.storage;
        let without_volume = |name: &String| {
            let claim = storage.claim(&pod.metadata.namespace, name);
            claim.is_none_or(|claim| storage.volume(&claim.spec.volume_name).is_none())
        };
        let unbound: Vec<String> = pod
            .spec
            .volumes
            .iter()
            .filter_map(|volume| claim_name(pod, volume))
            .map(|(name, _)| name)
            .filter(without_volume)
            .collect();
        for name in &unbound {
            // The claim of a pod that runs can be lost later.
            if storage.claim(&pod.metadata.namespace, name).is_none_or(|claim| claim.status.phase != "Lost") {
                findings.push(format!("{} has a node, but claim {name} is not bound", pod.key()));
            }
        }
        if unbound.is_empty()
            && !pod.spec.volumes.is_empty()
            && world.nodes.iter().any(|n| n.metadata.name == *node)
        {
            let mut others = world.clone();
            others.pods.remove(i);
            if let Err(reason) = check_node(&others, pod, &profile, &Options::default(), node) {
                findings.push(format!("{} cannot use its volumes on {node}: {reason}", pod.key()));
            }
        }
    }
}

fn has_reason(pod: &Pod) -> bool {
    let scheduled = pod.status.conditions.iter().find(|c| c.condition_type == "PodScheduled");
    scheduled.is_some_and(|c| c.status == "False" && !c.reason.is_empty() && !c.message.is_empty())
}
