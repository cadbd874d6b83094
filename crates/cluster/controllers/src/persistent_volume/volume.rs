//! What happens to a volume next. Pure.

use berth_api::object::volume::{
    BOUND_BY_CONTROLLER_ANNOTATION as BOUND_BY_CONTROLLER, PROVISIONED_BY_ANNOTATION as PROVISIONED_BY,
    PersistentVolume, PersistentVolumeClaim,
};

use crate::events::Notice;

#[derive(Debug)]
pub(super) enum Step {
    /// Nothing, or another controller's turn.
    Nothing,
    /// Its phase, with the reason for `Failed`.
    Phase(&'static str, Option<Notice>),
    /// It loses its claim: the claim is bound to another volume.
    Unbind,
    /// The claim completes the binding.
    SyncClaim,
}

/// The next step of a volume. `claim` is the claim of the name that the volume refers to.
pub(super) fn plan(volume: &PersistentVolume, claim: Option<&PersistentVolumeClaim>) -> Step {
    let Some(reference) = &volume.spec.claim_ref else { return phase(volume, "Available") };
    if reference.uid.is_empty() {
        // Reserved: as soon as the claim exists, it completes the binding.
        return match claim {
            Some(claim) if claim.spec.volume_name.is_empty() && volume.status.phase == "Available" => {
                Step::SyncClaim
            }
            _ => phase(volume, "Available"),
        };
    }
    let deletes = volume.spec.persistent_volume_reclaim_policy == "Delete";
    match claim.filter(|claim| claim.metadata.uid == reference.uid) {
        None => released(volume),
        Some(claim) if claim.spec.volume_name.is_empty() => Step::SyncClaim,
        Some(claim) if claim.spec.volume_name == volume.metadata.name => phase(volume, "Bound"),
        Some(_) if deletes && volume.metadata.annotation(PROVISIONED_BY).is_some() => released(volume),
        Some(_) => Step::Unbind,
    }
}

fn phase(volume: &PersistentVolume, phase: &'static str) -> Step {
    if volume.status.phase == phase { Step::Nothing } else { Step::Phase(phase, None) }
}

/// Its claim is deleted. The provisioner deletes the volumes that it has created.
fn released(volume: &PersistentVolume) -> Step {
    let failed = |reason, message: String| Step::Phase("Failed", Some(Notice::warning(reason, message)));
    let is_provisioned = volume.metadata.annotation(PROVISIONED_BY).is_some();
    match (volume.status.phase.as_str(), volume.spec.persistent_volume_reclaim_policy.as_str()) {
        ("Failed", _) | ("Released", "Retain" | "") => Step::Nothing,
        ("Released", "Delete") if is_provisioned => Step::Nothing,
        ("Released", "Delete") => {
            let name = &volume.metadata.name;
            let why = "no deletable volume plugin matched";
            failed(
                "VolumeFailedDelete",
                format!("error getting deleter volume plugin for volume {name:?}: {why}"),
            )
        }
        ("Released", "Recycle") => {
            failed("VolumeFailedRecycle", "No recycler plugin found for the volume!".to_owned())
        }
        ("Released", _) => failed(
            "VolumeUnknownReclaimPolicy",
            "Volume has unrecognized PersistentVolumeReclaimPolicy".to_owned(),
        ),
        _ => Step::Phase("Released", None),
    }
}

/// The claim reference and annotations of a volume that loses its claim: a reservation by a user stays.
pub(super) fn unbound(volume: &PersistentVolume) -> serde_json::Value {
    if volume.metadata.annotation(BOUND_BY_CONTROLLER).is_some() {
        serde_json::json!({"metadata": {"annotations": {BOUND_BY_CONTROLLER: null}}, "spec": {"claimRef": null}})
    } else {
        serde_json::json!({"spec": {"claimRef": {"uid": null}}})
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    #[test]
    fn phases_follow_the_claim_and_the_reclaim_policy() {
        let reference = |uid: &str| json!({"claimRef": {"name": "c", "namespace": "n", "uid": uid}});
        let with = |policy: &str| {
            let mut spec = reference("u");
            spec["persistentVolumeReclaimPolicy"] = policy.into();
            spec
        };
        let provisioned = json!({PROVISIONED_BY: "p"});
        let none = json!({});
        for (phase, spec, annotations, claim, wanted) in [
            ("Pending", json!({}), &none, None, "Available"),
            ("Available", json!({}), &none, None, ""),
            ("Pending", reference(""), &none, None, "Available"),
            ("Available", reference(""), &none, Some(("u", "")), "sync claim"),
            ("Available", reference("u"), &none, Some(("u", "")), "sync claim"),
            ("Available", reference("u"), &none, Some(("u", "v")), "Bound"),
            ("Bound", reference("u"), &none, Some(("u", "v")), ""),
            ("Bound", with("Retain"), &none, None, "Released"),
            ("Released", with("Retain"), &none, None, ""),
            ("Bound", with("Retain"), &none, Some(("other", "")), "Released"),
            ("Released", with("Delete"), &provisioned, None, ""),
            ("Released", with("Delete"), &none, None, "Failed: VolumeFailedDelete"),
            ("Failed", with("Delete"), &none, None, ""),
            ("Released", with("Recycle"), &none, None, "Failed: VolumeFailedRecycle"),
            ("Available", with("Retain"), &none, Some(("u", "w")), "unbind"),
            ("Available", with("Delete"), &provisioned, Some(("u", "w")), "Released"),
        ] {
            let volume: Value = json!({"metadata": {"name": "v", "annotations": annotations}, "spec": spec,
                "status": {"phase": phase}});
            let volume: PersistentVolume = serde_json::from_value(volume).unwrap();
            let claim = claim.map(|(uid, name)| {
                serde_json::from_value(json!({"metadata": {"uid": uid}, "spec": {"volumeName": name}}))
                    .unwrap()
            });
            let shown = match plan(&volume, claim.as_ref()) {
                Step::Nothing => String::new(),
                Step::Phase(phase, None) => phase.to_owned(),
                Step::Phase(phase, Some(notice)) => format!("{phase}: {}", notice.reason),
                Step::Unbind => "unbind".to_owned(),
                Step::SyncClaim => "sync claim".to_owned(),
            };
            assert_eq!(shown, wanted, "{phase} {spec} {claim:?}");
        }
    }
}
