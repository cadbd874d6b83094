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

/// The templates of an operation.
pub(super) struct VolumeTemplates {
    volume: PersistentVolume,
    claim: PersistentVolumeClaim,
}

impl VolumeTemplates {
    /// Reads them; none without a template of claims.
    pub fn of(op: &CreatePods, templates: &mut Templates<'_>) -> Result<Option<VolumeTemplates>, Stop> {
        let Some(path) = &op.persistent_volume_claim_template_path else { return Ok(None) };
        let claim = templates.get(path, "PersistentVolumeClaim")?;
        let Some(path) = &op.persistent_volume_template_path else {
            let needed = "persistentVolumeClaimTemplatePath without persistentVolumeTemplatePath";
            return Err(Stop::Failed(format!("createPods: {needed}")));
        };
        Ok(Some(VolumeTemplates { volume: templates.get(path, "PersistentVolume")?, claim }))
    }

    /// The volume and the claim of the `i`th pod, which refers to the claim from now on.
    pub fn give(&self, pod: &mut Pod, i: usize) -> [VolumeObject; 2] {
        let namespace = pod.metadata.namespace.clone();
        let disk = format!("vol-{i}");
        let mut volume = self.volume.clone();
        volume.metadata.name = format!("{namespace}-{disk}");
        if let Some(csi) = &mut volume.spec.csi {
            csi.volume_handle.clone_from(&volume.metadata.name);
        } else if let Some(aws) = &mut volume.spec.aws_elastic_block_store {
            aws.volume_id = disk;
        }
        let mut claim = self.claim.clone();
        claim.metadata.name = format!("pvc-{i}");
        claim.metadata.namespace.clone_from(&namespace);
        bind(&mut volume, &mut claim);
        let claim_name = claim.metadata.name.clone();
        let persistent_volume_claim = Some(ClaimVolume { claim_name });
        pod.spec.volumes =
            vec![Volume { name: "vol".to_owned(), persistent_volume_claim, ..Volume::default() }].into();
        [
            VolumeObject::PersistentVolume(Box::new(volume)),
            VolumeObject::PersistentVolumeClaim(Box::new(claim)),
        ]
    }
}

/// Binds a claim and a volume to each other.
pub(crate) fn bind(volume: &mut PersistentVolume, claim: &mut PersistentVolumeClaim) {
    volume.spec.claim_ref = Some(ClaimReference {
        namespace: claim.metadata.namespace.clone(),
        name: claim.metadata.name.clone(),
        uid: claim.metadata.uid.clone(),
    });
    volume.status.phase = "Bound".to_owned();
    claim.spec.volume_name.clone_from(&volume.metadata.name);
    claim.status.phase = "Bound".to_owned();
    claim.metadata.annotations.insert(BIND_COMPLETED_ANNOTATION.to_owned(), "yes".to_owned());
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
