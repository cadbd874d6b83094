//! The volumes of `createPods`: each pod has its own claim, bound to a volume before the pod exists.

use berth_api::object::Pod;
use berth_api::object::volume::{
    BIND_COMPLETED_ANNOTATION, ClaimReference, ClaimVolume, CsiNode, CsiNodeDriver,
    MIGRATED_PLUGINS_ANNOTATION, PersistentVolume, PersistentVolumeClaim, Volume, VolumeNodeResources,
    VolumeObject,
};

use super::Stop;
use super::format::{CreatePods, NodeAllocatableStrategy};
use super::templates::Templates;

/// Gives the `i`th pod of an operation a claim and its volume, if it has templates for them. The pod refers to the claim from now on.
pub(super) fn give(
    op: &CreatePods,
    templates: &mut Templates<'_>,
    pod: &mut Pod,
    i: usize,
) -> Result<Option<[VolumeObject; 2]>, Stop> {
    let Some(path) = &op.persistent_volume_claim_template_path else { return Ok(None) };
    let mut claim: PersistentVolumeClaim = templates.numbered(path, "PersistentVolumeClaim", i)?;
    let Some(path) = &op.persistent_volume_template_path else {
        let needed = "persistentVolumeClaimTemplatePath without persistentVolumeTemplatePath";
        return Err(Stop::Failed(format!("createPods: {needed}")));
    };
    let mut volume: PersistentVolume = templates.numbered(path, "PersistentVolume", i)?;
    let namespace = pod.metadata.namespace.clone();
    let disk = format!("vol-{i}");
    volume.metadata.name = format!("{namespace}-{disk}");
    if let Some(csi) = &mut volume.spec.csi {
        csi.volume_handle.clone_from(&volume.metadata.name);
    } else if let Some(aws) = &mut volume.spec.aws_elastic_block_store {
        aws.volume_id = disk;
    }
    claim.metadata.name = format!("pvc-{i}");
    claim.metadata.namespace.clone_from(&namespace);
    volume.spec.claim_ref = Some(ClaimReference {
        namespace: claim.metadata.namespace.clone(),
        name: claim.metadata.name.clone(),
        uid: claim.metadata.uid.clone(),
    });
    volume.status.phase = "Bound".to_owned();
    claim.spec.volume_name.clone_from(&volume.metadata.name);
    claim.status.phase = "Bound".to_owned();
    claim.metadata.annotations.insert(BIND_COMPLETED_ANNOTATION.to_owned(), "yes".to_owned());
    let claim_name = claim.metadata.name.clone();
    let persistent_volume_claim = Some(ClaimVolume { claim_name });
    pod.spec.volumes =
        vec![Volume { name: "vol".to_owned(), persistent_volume_claim, ..Volume::default() }].into();
    Ok(Some([
        VolumeObject::PersistentVolume(volume.into()),
        VolumeObject::PersistentVolumeClaim(claim.into()),
    ]))
}

/// The CSINode of a node whose operation has a `nodeAllocatableStrategy`.
pub(super) fn csi_node(strategy: &NodeAllocatableStrategy, node: &str) -> VolumeObject {
    let mut csi_node = CsiNode::default();
    csi_node.metadata.name = node.to_owned();
    let plugins = strategy.migrated_plugins.join(",");
    csi_node.metadata.annotations.insert(MIGRATED_PLUGINS_ANNOTATION.to_owned(), plugins);
    let driver = |(name, allocatable): (&String, &VolumeNodeResources)| CsiNodeDriver {
        name: name.clone(),
        allocatable: Some(allocatable.clone()),
    };
    csi_node.spec.drivers = strategy.csi_node_allocatable.iter().map(driver).collect();
    VolumeObject::CsiNode(csi_node)
}
