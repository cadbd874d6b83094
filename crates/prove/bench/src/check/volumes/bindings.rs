//! Rules between claims and volumes.

use std::collections::HashMap;

use berth_api::object::NamespacedName;
use berth_api::object::volume::{PersistentVolume, PersistentVolumeClaim};

use super::{VolumeRule, VolumeState, VolumeViolation, violation};

/// The annotation of claims and volumes that a controller bound, not a user.
const BOUND_BY_CONTROLLER: &str = "pv.kubernetes.io/bound-by-controller";

/// Checks all claims and volumes.
pub fn check(state: &VolumeState) -> Vec<VolumeViolation> {
    let mut violations = Vec::new();
    let mut volumes_of: HashMap<NamespacedName, Vec<&str>> = HashMap::new();
    for volume in state.volumes.values().filter(|v| v.status.phase == "Bound") {
        let Some(claim) = &volume.spec.claim_ref else { continue };
        let name = NamespacedName::new(&claim.namespace, &claim.name);
        // A claim of the same name that was created later is another one.
        let is_it = |c: &PersistentVolumeClaim| claim.uid.is_empty() || claim.uid == c.metadata.uid;
        if state.claims.get(&name).is_some_and(is_it) {
            volumes_of.entry(name).or_default().push(&volume.metadata.name);
        }
    }
    for (claim, mut volumes) in volumes_of {
        volumes.sort_unstable();
        if volumes.len() > 1 {
            let detail = volumes.join(", ");
            violations.push(violation(VolumeRule::ClaimBoundTwice, claim_text(&claim), detail));
        }
    }
    let mut claims_of: HashMap<&str, Vec<String>> = HashMap::new();
    for (name, claim) in state.claims.iter().filter(|(_, claim)| claim.status.phase == "Bound") {
        let volume_name = claim.spec.volume_name.as_str();
        claims_of.entry(volume_name).or_default().push(name.to_string());
        let Some(volume) = state.volumes.get(volume_name) else {
            let detail = format!("there is no volume {volume_name:?}");
            violations.push(violation(VolumeRule::HalfBound, claim_text(name), detail));
            continue;
        };
        let refers_back = volume.spec.claim_ref.as_ref().is_some_and(|r| {
            NamespacedName::new(&r.namespace, &r.name) == *name
                && (r.uid.is_empty() || r.uid == claim.metadata.uid)
        });
        if !refers_back {
            let detail = format!("volume {volume_name} is not reserved for it");
            violations.push(violation(VolumeRule::HalfBound, claim_text(name), detail));
        }
        if claim.metadata.annotation(BOUND_BY_CONTROLLER).is_some()
            && let Some(detail) = unsuitable(claim, volume)
        {
            violations.push(violation(VolumeRule::UnsuitableVolume, claim_text(name), detail));
        }
    }
    for (volume, mut claims) in claims_of {
        claims.sort_unstable();
        if claims.len() > 1 {
            let object = format!("PersistentVolume {volume}");
            violations.push(violation(VolumeRule::VolumeBoundTwice, object, claims.join(", ")));
        }
    }
    violations
}

/// Why a volume does not have what a claim asks for.
fn unsuitable(claim: &PersistentVolumeClaim, volume: &PersistentVolume) -> Option<String> {
    let name = &volume.metadata.name;
    if volume.capacity() < claim.requested() {
        return Some(format!("volume {name} is too small"));
    }
    if volume.storage_class() != claim.storage_class() {
        return Some(format!("volume {name} is of class {:?}", volume.storage_class()));
    }
    let mode = |mode: &Option<String>| mode.clone().unwrap_or_else(|| "Filesystem".to_owned());
    if mode(&volume.spec.volume_mode) != mode(&claim.spec.volume_mode) {
        return Some(format!("volume {name} has the mode {}", mode(&volume.spec.volume_mode)));
    }
    let missing = claim.spec.access_modes.iter().find(|mode| !volume.spec.access_modes.contains(mode));
    missing.map(|mode| format!("volume {name} lacks the access mode {mode}"))
}

pub(super) fn claim_text(claim: &NamespacedName) -> String {
    format!("PersistentVolumeClaim {claim}")
}
