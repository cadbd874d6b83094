//! Which volume fits a claim: `FindMatchingVolume` and `checkVolumeSatisfyClaim` of Kubernetes.

use std::cmp::Reverse;
use std::ops::Deref;

use berth_api::object::ObjectMeta;
use berth_api::object::volume::{PersistentVolume, PersistentVolumeClaim};
use berth_rules::Selector;

/// The annotation of the class for claims that name none.
const IS_DEFAULT_CLASS: &str = "storageclass.kubernetes.io/is-default-class";

pub fn is_default_class(class: &ObjectMeta) -> bool {
    class.annotation(IS_DEFAULT_CLASS) == Some("true")
}

/// The name of the default class: of several the newest, and of these the first by name.
pub fn default_class<'a>(classes: impl Iterator<Item = &'a ObjectMeta>) -> Option<&'a str> {
    let defaults = classes.filter(|class| is_default_class(class));
    let default = defaults.min_by_key(|class| (Reverse(class.creation_timestamp), &class.name))?;
    Some(&default.name)
}

/// The volume to bind a claim to: the one that is reserved for it, or otherwise the one with the fewest access modes, of
/// these the smallest, and of these the first by name.
///
/// `reserved` are volumes that refer to the claim, `free` those of its class that refer to none.
pub fn best_match<'a, V: Deref<Target = PersistentVolume>>(
    claim: &PersistentVolumeClaim,
    reserved: &'a [V],
    free: &'a [V],
) -> Option<&'a V> {
    let selector = claim.spec.selector.as_ref();
    let selector = selector.map(|selector| Selector::parse(Some(selector)).unwrap_or(Selector::Nothing));
    let rank =
        |volume: &&V| (volume.spec.access_modes.len(), volume.capacity(), volume.metadata.name.clone());
    let fits = |volume: &&V| mismatch_but_for_class(volume, claim).is_none();
    let reserved = reserved.iter().filter(|volume| volume.is_for(claim)).filter(fits).min_by_key(rank);
    reserved.or_else(|| {
        let candidates = free.iter().filter(|volume| {
            let label = |key: &str| volume.metadata.label(key);
            volume.status.phase == "Available"
                && volume.storage_class() == claim.storage_class()
                && selector.as_ref().is_none_or(|selector| selector.matches(label))
        });
        candidates.filter(fits).min_by_key(rank)
    })
}

/// Why the volume that a claim names does not have what the claim requests.
pub fn mismatch(volume: &PersistentVolume, claim: &PersistentVolumeClaim) -> Option<String> {
    if volume.storage_class() != claim.storage_class() {
        return Some("storageClassName does not match".to_owned());
    }
    mismatch_but_for_class(volume, claim)
}

fn mismatch_but_for_class(volume: &PersistentVolume, claim: &PersistentVolumeClaim) -> Option<String> {
    let (has, wants) = (&volume.spec, &claim.spec);
    let mode = |mode: &Option<String>| mode.as_deref() == Some("Block");
    let attributes = |class: &Option<String>| class.clone().unwrap_or_default();
    if volume.metadata.is_deleting() {
        return Some(format!("the volume is marked for deletion {:?}", volume.metadata.name));
    }
    let why = if volume.capacity() < claim.requested() {
        "requested PV is too small"
    } else if attributes(&has.volume_attributes_class_name) != attributes(&wants.volume_attributes_class_name)
    {
        "volumeAttributesClassName does not match"
    } else if mode(&has.volume_mode) != mode(&wants.volume_mode) {
        "incompatible volumeMode"
    } else if !wants.access_modes.iter().all(|mode| has.access_modes.contains(mode)) {
        "incompatible accessMode"
    } else {
        return None;
    };
    Some(why.to_owned())
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn merge(into: &mut Value, fields: Value) {
        let Value::Object(fields) = fields else { return };
        fields.into_iter().for_each(|(field, value)| into[field] = value);
    }

    fn volume(name: &str, size: &str, spec: Value) -> Box<PersistentVolume> {
        let mut volume = json!({"metadata": {"name": name, "labels": {"name": name}}, "status": {"phase": "Available"},
            "spec": {"capacity": {"storage": size}, "accessModes": ["ReadWriteOnce"], "storageClassName": "s"}});
        merge(&mut volume["spec"], spec);
        Box::new(serde_json::from_value(volume).unwrap())
    }

    fn claim(spec: Value) -> PersistentVolumeClaim {
        let mut claim = json!({"metadata": {"name": "c", "namespace": "n", "uid": "u"},
            "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "2Gi"}},
                "storageClassName": "s"}});
        merge(&mut claim["spec"], spec);
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
            volume("fast", "2Gi", json!({"volumeAttributesClassName": "gold"})),
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
            (json!({"volumeAttributesClassName": "gold"}), vec![], Some("fast")),
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
