//! Which volume fits a claim. Pure; the rules are those of "Persistent Volumes" in the Kubernetes documentation.

use std::sync::Arc;

use berth_rules::Selector;

use crate::view::{PersistentVolume, PersistentVolumeClaim, matches};

/// The volume to bind a claim to: the one that is reserved for it, or otherwise the one with the fewest access modes, of
/// these the smallest, and of these the first by name.
///
/// `reserved` are volumes that refer to the claim, `free` those of its class that refer to none.
pub(super) fn best_match<'a>(
    claim: &PersistentVolumeClaim,
    reserved: &'a [Arc<PersistentVolume>],
    free: &'a [Arc<PersistentVolume>],
) -> Option<&'a Arc<PersistentVolume>> {
    let selector = Selector::parse(claim.spec.selector.as_ref()).unwrap_or(Selector::Nothing);
    let no_selector = claim.spec.selector.is_none();
    let rank = |volume: &&Arc<PersistentVolume>| {
        (volume.spec.access_modes.len(), volume.size(), volume.metadata.name.clone())
    };
    let fits = |volume: &&Arc<PersistentVolume>| satisfies(volume, claim).is_ok();
    let reserved = reserved.iter().filter(|volume| volume.is_for(claim)).filter(fits).min_by_key(rank);
    reserved.or_else(|| {
        let candidates = free.iter().filter(|volume| {
            volume.status.phase == "Available"
                && volume.spec.storage_class_name == claim.class()
                && (no_selector || matches(&selector, &volume.metadata.labels))
        });
        candidates.filter(fits).min_by_key(rank)
    })
}

/// Whether a volume has what a claim requests, apart from the class and the labels; or why not.
fn satisfies(volume: &PersistentVolume, claim: &PersistentVolumeClaim) -> Result<(), String> {
    let mode = |mode: &str| if mode.is_empty() { "Filesystem".to_owned() } else { mode.to_owned() };
    if volume.metadata.is_deleting() {
        return Err(format!("the volume is marked for deletion {:?}", volume.metadata.name));
    }
    if volume.size() < claim.size() {
        return Err("requested PV is too small".to_owned());
    }
    if mode(&volume.spec.volume_mode) != mode(&claim.spec.volume_mode) {
        return Err("incompatible volumeMode".to_owned());
    }
    if !claim.spec.access_modes.iter().all(|mode| volume.spec.access_modes.contains(mode)) {
        return Err("incompatible accessMode".to_owned());
    }
    Ok(())
}

/// Whether the volume that a claim names has what the claim requests; or why not.
pub(super) fn satisfies_named(
    volume: &PersistentVolume,
    claim: &PersistentVolumeClaim,
) -> Result<(), String> {
    if volume.spec.storage_class_name != claim.class() {
        return Err("storageClassName does not match".to_owned());
    }
    satisfies(volume, claim)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn volume(name: &str, size: &str, spec: Value) -> Arc<PersistentVolume> {
        let mut volume = json!({"metadata": {"name": name, "labels": {"name": name}}, "status": {"phase": "Available"},
            "spec": {"capacity": {"storage": size}, "accessModes": ["ReadWriteOnce"], "storageClassName": "s"}});
        json_patch::merge(&mut volume["spec"], &spec);
        Arc::new(serde_json::from_value(volume).unwrap())
    }

    fn claim(spec: Value) -> PersistentVolumeClaim {
        let mut claim = json!({"metadata": {"name": "c", "namespace": "n", "uid": "u"},
            "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "2Gi"}},
                "storageClassName": "s"}});
        json_patch::merge(&mut claim["spec"], &spec);
        serde_json::from_value(claim).unwrap()
    }

    #[test]
    fn the_smallest_volume_that_fits_is_bound() {
        let reference =
            |name: &str, uid: &str| json!({"claimRef": {"name": name, "namespace": "n", "uid": uid}});
        let many = json!({"accessModes": ["ReadWriteOnce", "ReadOnlyMany"]});
        let free = [
            volume("small", "1Gi", json!({})),
            volume("large", "5Gi", json!({})),
            volume("block", "2Gi", json!({"volumeMode": "Block"})),
            volume("many", "2Gi", many.clone()),
            volume("medium", "3Gi", json!({})),
            volume("other", "2Gi", json!({"storageClassName": "t"})),
        ];
        let reserved =
            |name: &str, uid: &str, size: &str| vec![volume("reserved", size, reference(name, uid))];
        let labels = json!({"selector": {"matchLabels": {"name": "large"}}});
        for (spec, reserved, wanted) in [
            (json!({}), vec![], Some("medium")),
            (json!({"volumeMode": "Block"}), vec![], Some("block")),
            (many, vec![], Some("many")),
            (labels, vec![], Some("large")),
            (json!({"selector": {}}), vec![], Some("medium")),
            (json!({"storageClassName": "t"}), vec![], Some("other")),
            (json!({"resources": {"requests": {"storage": "6Gi"}}}), vec![], None),
            (json!({}), reserved("c", "", "9Gi"), Some("reserved")),
            (json!({}), reserved("c", "u", "9Gi"), Some("reserved")),
            (json!({}), reserved("c", "v", "9Gi"), Some("medium")),
            (json!({}), reserved("c", "u", "1Gi"), Some("medium")),
        ] {
            let claim = claim(spec.clone());
            let found = best_match(&claim, &reserved, &free).map(|volume| volume.metadata.name.as_str());
            assert_eq!(found, wanted, "{spec}");
        }
    }
}
