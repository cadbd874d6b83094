//! The volume that the provisioner creates for a claim. Pure.

use berth_api::object::volume::{PROVISIONED_BY_ANNOTATION as PROVISIONED_BY, PersistentVolumeClaim};
use berth_api::resource::PERSISTENT_VOLUMES;
use berth_api::simulated_nodes::CSI_DRIVER;
use berth_control::volume::Segments;
use serde_json::{Value, json};

use crate::view::StorageClass;

/// Annotation of a claim with the provisioner that creates its volume.
pub(super) const PROVISIONER: &str = "volume.kubernetes.io/storage-provisioner";

pub(super) fn name(claim: &PersistentVolumeClaim) -> String {
    format!("pvc-{}", claim.metadata.uid)
}

/// A volume that is accessible from nodes with these labels.
pub(super) fn new_volume(claim: &PersistentVolumeClaim, class: &StorageClass, segments: Segments) -> Value {
    // The older provisioners of clouds, such as `kubernetes.io/aws-ebs`, have names that no driver has.
    let driver = if class.provisioner.contains('/') { CSI_DRIVER } else { &class.provisioner };
    let mut volume = berth_control::volume::new_volume(name(claim), claim, Some(driver), segments);
    volume.metadata.annotations.insert(PROVISIONED_BY.to_owned(), class.provisioner.clone());
    volume.spec.persistent_volume_reclaim_policy.clone_from(&class.reclaim_policy);
    let mut object = json!(volume);
    (object["apiVersion"], object["kind"]) =
        (PERSISTENT_VOLUMES.api_version().into(), PERSISTENT_VOLUMES.kind.into());
    let reference = &mut object["spec"]["claimRef"];
    (reference["apiVersion"], reference["kind"]) = ("v1".into(), "PersistentVolumeClaim".into());
    reference["resourceVersion"] = claim.metadata.resource_version.as_str().into();
    if !class.mount_options.is_empty() {
        object["spec"]["mountOptions"] = json!(class.mount_options);
    }
    object
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_volume_is_reserved_for_its_claim_and_restricted_to_its_zone() {
        let claim = serde_json::from_value(json!({"metadata": {"name": "c", "namespace": "n", "uid": "u"},
            "spec": {"accessModes": ["ReadWriteOnce"], "volumeMode": "Filesystem",
                "resources": {"requests": {"storage": "1Gi"}}}}))
        .unwrap();
        let class = json!({"metadata": {"name": "s"}, "provisioner": "p", "reclaimPolicy": "Retain"});
        let class: StorageClass = serde_json::from_value(class).unwrap();
        let volume = new_volume(&claim, &class, [("zone".to_owned(), "a".to_owned())].into());
        assert_eq!(volume["metadata"]["name"], "pvc-u");
        assert_eq!(volume["spec"]["claimRef"]["uid"], "u");
        assert_eq!(volume["spec"]["persistentVolumeReclaimPolicy"], "Retain");
        assert_eq!(volume["spec"]["capacity"], json!({"storage": "1Gi"}));
        let terms = &volume["spec"]["nodeAffinity"]["required"]["nodeSelectorTerms"];
        let requirement = json!({"key": "zone", "operator": "In", "values": ["a"]});
        assert_eq!(terms, &json!([{"matchExpressions": [requirement]}]));
        assert!(new_volume(&claim, &class, Segments::new())["spec"]["nodeAffinity"].is_null());
    }
}
