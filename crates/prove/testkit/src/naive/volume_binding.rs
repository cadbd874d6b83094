//! `VolumeBinding`: nodes from which bound volumes can be reached, and volumes for claims that wait for their first pod.

use std::collections::BTreeMap;

use berth_api::feature_gates::KubernetesVersion::V1_38;
use berth_api::object::volume::{
    BIND_COMPLETED_ANNOTATION, ClaimReference, CsiStorageCapacity, NO_PROVISIONER, PersistentVolume,
    PersistentVolumeClaim, STORAGE, StorageClass,
};
use berth_api::object::{Node, VolumeDecision};
use berth_api::syntax::quantity::Quantity;

use super::csi_migration::on_node;
use super::resources_fit::ratio_score;
use super::storage::{claim_name, claim_not_found, made_for};
use super::terms::Dialect;
use super::{Code, Question, Verdict, node_affinity, selector};

struct Claims<'a> {
    bound: Vec<&'a PersistentVolumeClaim>,
    waiting: Vec<&'a PersistentVolumeClaim>,
}

/// Whether the pod has claims; `Err` with the reason for every node.
pub fn pre_filter(q: Question) -> Result<bool, String> {
    let mut has_claims = false;
    for volume in &q.pod.spec.volumes {
        let Some((name, is_ephemeral)) = claim_name(q.pod, volume) else { continue };
        has_claims = true;
        let Some(claim) = q.world.storage.claim(&q.pod.metadata.namespace, &name) else {
            return Err(match is_ephemeral {
                true => format!(
                    "waiting for ephemeral volume controller to create the persistentvolumeclaim {name:?}"
                ),
                false => claim_not_found(&name),
            });
        };
        if claim.status.phase == "Lost" {
            let volume = &claim.spec.volume_name;
            return Err(format!(
                "persistentvolumeclaim {name:?} bound to non-existent persistentvolume {volume:?}"
            ));
        }
        if claim.metadata.is_deleting() {
            return Err(format!("persistentvolumeclaim {name:?} is being deleted"));
        }
        if is_ephemeral {
            made_for(q.pod, claim)?;
        }
    }
    claims(q).map(|_| has_claims)
}

fn claims(q: Question) -> Result<Claims, String> {
    let mut claims = Claims { bound: Vec::new(), waiting: Vec::new() };
    // A claim that the pod names twice is one claim; kube-scheduler looks for a volume each time.
    let mut names: Vec<String> = Vec::new();
    for (name, _) in q.pod.spec.volumes.iter().filter_map(|v| claim_name(q.pod, v)) {
        if !names.contains(&name) {
            names.push(name);
        }
    }
    for claim in names.iter().filter_map(|name| q.world.storage.claim(&q.pod.metadata.namespace, name)) {
        let has_volume = !claim.spec.volume_name.is_empty();
        let class = q.world.storage.class(claim.storage_class());
        if has_volume && claim.metadata.annotation(BIND_COMPLETED_ANNOTATION).is_some() {
            claims.bound.push(claim);
        } else if !has_volume && class.is_some_and(StorageClass::waits_for_first_consumer) {
            claims.waiting.push(claim);
        } else {
            return Err("pod has unbound immediate PersistentVolumeClaims".to_owned());
        }
    }
    Ok(claims)
}

/// `Err` when a volume cannot be translated, which breaks the whole decision.
pub fn filter(q: Question, node: &Node) -> Result<Verdict, String> {
    Ok(find(q, node)?.map(|_| ()).map_err(|reasons| {
        (Code::UnschedulableAndUnresolvable, reasons.into_iter().map(str::to_owned).collect())
    }))
}

/// What would be decided about the claims of a pod on a node where it fits.
pub fn decision(q: Question, node: &Node) -> Option<VolumeDecision> {
    let mut decision = find(q, node).ok()?.ok()?;
    decision.bind.sort();
    decision.provision.sort();
    Some(decision).filter(|d| !d.is_empty())
}

/// The decision, or the reasons against the node.
fn find(q: Question, node: &Node) -> Result<Result<VolumeDecision, Vec<&'static str>>, String> {
    let Ok(claims) = claims(q) else { return Ok(Ok(VolumeDecision::default())) };
    let (mut conflict, mut missing) = (false, false);
    let csi_node = q.world.storage.csi_node(&node.metadata.name);
    for claim in claims.bound {
        match q.world.storage.volume(&claim.spec.volume_name) {
            None => missing = true,
            Some(volume) => conflict = !reaches(&on_node(volume, csi_node)?, node),
        }
        if conflict || missing {
            break;
        }
    }
    let found = find_for_waiting(q, node, claims.waiting);
    let (no_volume, no_space) = match &found {
        Ok(_) => (false, false),
        Err(NotFound::Volume) => (true, false),
        Err(NotFound::Space) => (false, true),
    };
    let reasons = [
        (conflict, "node(s) didn't match PersistentVolume's node affinity"),
        (no_volume, "node(s) didn't find available persistent volumes to bind"),
        (no_space, "node(s) did not have enough free storage"),
        (missing, "node(s) unavailable due to one or more pvc(s) bound to non-existent pv(s)"),
    ];
    let reasons: Vec<&str> =
        reasons.into_iter().filter(|(holds, _)| *holds).map(|(_, reason)| reason).collect();
    Ok(if reasons.is_empty() { Ok(found.unwrap_or_default()) } else { Err(reasons) })
}

/// What a claim lacks on a node.
enum NotFound {
    Volume,
    Space,
}

/// The smallest volumes for the smallest claims; what has no volume is provisioned.
fn find_for_waiting(
    q: Question,
    node: &Node,
    claims: Vec<&PersistentVolumeClaim>,
) -> Result<VolumeDecision, NotFound> {
    let mut provision = Vec::new();
    let mut to_match = Vec::new();
    for claim in claims {
        match q.world.storage.selected_node(claim) {
            Some(selected) if selected != node.metadata.name => return Err(NotFound::Volume),
            Some(_) => provision.push(claim),
            None => to_match.push(claim),
        }
    }
    let mut decision = VolumeDecision::default();
    to_match.sort_by_key(|claim| claim.requested());
    for claim in to_match {
        let taken: Vec<&str> = decision.bind.iter().map(|(_, volume)| volume.as_str()).collect();
        match matching_volume(q, node, claim, &taken) {
            Some(volume) => {
                decision.bind.push((claim.metadata.name.clone(), volume.metadata.name.clone()));
            }
            None => provision.push(claim),
        }
    }
    for claim in provision {
        can_be_provisioned(q, node, claim)?;
        decision.provision.push(claim.metadata.name.clone());
    }
    Ok(decision)
}

/// Whether the labels of a node satisfy the node affinity of a volume. Its name does not count.
fn reaches(volume: &PersistentVolume, node: &Node) -> bool {
    let mut unnamed = node.clone();
    unnamed.metadata.name.clear();
    let required = volume.spec.node_affinity.as_ref().and_then(|a| a.required.as_ref());
    required.is_none_or(|required| node_affinity::node_matches(Dialect::V1, required, &unnamed))
}

/// The volume for a claim on a node: the one that is reserved for it, else the smallest.
fn matching_volume<'a>(
    q: Question<'a>,
    node: &Node,
    claim: &PersistentVolumeClaim,
    taken: &[&str],
) -> Option<&'a PersistentVolume> {
    let storage = &q.world.storage;
    let mode = |mode: &Option<String>| mode.clone().unwrap_or_else(|| "Filesystem".to_owned());
    let is_possible = |volume: &&PersistentVolume| {
        !taken.contains(&volume.metadata.name.as_str())
            && volume.storage_class() == claim.storage_class()
            && storage.claim_of(volume).is_none_or(|reference| refers_to(reference, claim))
            && volume.capacity() >= claim.requested()
            && mode(&volume.spec.volume_mode) == mode(&claim.spec.volume_mode)
            && volume.spec.volume_attributes_class_name.as_deref().unwrap_or_default()
                == claim.spec.volume_attributes_class_name.as_deref().unwrap_or_default()
            && !volume.metadata.is_deleting()
    };
    let mut possible: Vec<&PersistentVolume> = storage.volumes.iter().filter(is_possible).collect();
    possible.sort_by_key(|volume| (volume.capacity(), &volume.metadata.name));
    // kube-scheduler takes any of several reserved volumes. Here it is the first by name.
    let reserved = possible.iter().filter(|volume| storage.claim_of(volume).is_some());
    if let Some(reserved) = reserved.min_by_key(|volume| &volume.metadata.name) {
        return Some(*reserved).filter(|volume| reaches(volume, node));
    }
    possible.into_iter().find(|volume| {
        volume.status.phase == "Available"
            && claim
                .spec
                .selector
                .as_ref()
                .is_none_or(|s| selector::selects(Some(s), &volume.metadata.labels))
            && claim.spec.access_modes.iter().all(|mode| volume.spec.access_modes.contains(mode))
            && reaches(volume, node)
    })
}

/// Whether a volume's reference means this claim. A reference without UID means the claim of that name.
fn refers_to(reference: &ClaimReference, claim: &PersistentVolumeClaim) -> bool {
    (&reference.namespace, &reference.name) == (&claim.metadata.namespace, &claim.metadata.name)
        && (reference.uid.is_empty() || reference.uid == claim.metadata.uid)
}

fn can_be_provisioned(q: Question, node: &Node, claim: &PersistentVolumeClaim) -> Result<(), NotFound> {
    let class = q.world.storage.class(claim.storage_class()).ok_or(NotFound::Volume)?;
    if class.provisioner.is_empty() || class.provisioner == NO_PROVISIONER {
        return Err(NotFound::Volume);
    }
    let allowed = class.allowed_topologies.iter().any(|term| {
        let mut requirements = term.match_label_expressions.iter();
        !term.match_label_expressions.is_empty()
            && requirements.all(|r| node.metadata.labels.get(&r.key).is_some_and(|v| r.values.contains(v)))
    });
    if !class.allowed_topologies.is_empty() && !allowed {
        return Err(NotFound::Volume);
    }
    let driver = q.world.storage.csi_drivers.iter().find(|d| d.metadata.name == class.provisioner);
    let Some(size) = claim.spec.resources.requests.get(STORAGE) else { return Ok(()) };
    if driver.is_none_or(|d| d.spec.storage_capacity != Some(true)) {
        return Ok(());
    }
    if capacity_for(q, node, claim, *size).is_some() { Ok(()) } else { Err(NotFound::Space) }
}

/// The first capacity by namespace and name that a volume of this size can be provisioned from.
fn capacity_for<'a>(
    q: Question<'a>,
    node: &Node,
    claim: &PersistentVolumeClaim,
    size: Quantity,
) -> Option<&'a CsiStorageCapacity> {
    // Before Kubernetes 1.38, whole bytes are compared.
    let is_enough = |limit: Quantity| match q.options.feature_gates.version >= V1_38 {
        true => limit >= size,
        false => limit.units() >= size.units(),
    };
    let suffices = |capacity: &&CsiStorageCapacity| {
        let limit = capacity.maximum_volume_size.or(capacity.capacity);
        capacity.storage_class_name == claim.storage_class()
            && limit.is_some_and(is_enough)
            && selector::selects(capacity.node_topology.as_ref(), &node.metadata.labels)
    };
    let sufficient = q.world.storage.capacities.iter().filter(suffices);
    sufficient.min_by_key(|capacity| capacity.metadata.namespaced_name())
}

/// By class: the size of the pod's claims, and of the storage that they would be a part of. Free volumes count if there are any for
/// the pod on the node; otherwise it is the published capacity, once for all claims of a class.
pub fn score(q: Question, feasible: &[&Node]) -> Option<Vec<i64>> {
    let waiting = claims(q).ok()?.waiting;
    if !q.options.feature_gates.storage_capacity_scoring || waiting.is_empty() {
        return None;
    }
    Some(feasible.iter().map(|node| storage_score(q, node)).collect())
}

fn storage_score(q: Question, node: &Node) -> i64 {
    let Some(decision) = decision(q, node) else { return 0 };
    let storage = &q.world.storage;
    let claim =
        |name: &String| storage.claim(&q.pod.metadata.namespace, name).expect("a claim that was decided");
    let mut by_class: BTreeMap<&str, (i64, i64)> = BTreeMap::new();
    for (name, volume) in &decision.bind {
        let claim = claim(name);
        let volume = storage.volume(volume).expect("a volume that was decided");
        let (requested, capacity) = by_class.entry(claim.storage_class()).or_default();
        *requested += claim.requested().units();
        *capacity += volume.capacity().units();
    }
    for claim in decision.provision.iter().filter(|_| decision.bind.is_empty()).map(claim) {
        let provisioner = storage.class(claim.storage_class()).map(|class| &class.provisioner);
        let driver = storage.csi_drivers.iter().find(|d| Some(&d.metadata.name) == provisioner);
        let is_published = driver.is_some_and(|d| d.spec.storage_capacity == Some(true));
        let size = claim.spec.resources.requests.get(STORAGE).filter(|_| is_published);
        let Some(size) = size else { continue };
        let Some(found) = capacity_for(q, node, claim, *size) else { continue };
        let (requested, capacity) = by_class.entry(claim.storage_class()).or_default();
        *requested += size.units();
        *capacity = found.capacity.map_or(0, |capacity| capacity.units());
    }
    if by_class.is_empty() {
        return 0;
    }
    let scores = by_class.values().map(|(requested, capacity)| {
        let percent =
            if *capacity == 0 || requested > capacity { 100 } else { requested.wrapping_mul(100) / capacity };
        ratio_score(&q.profile.volume_binding.shape, percent)
    });
    (scores.sum::<i64>() as f64 / by_class.len() as f64).round() as i64
}
