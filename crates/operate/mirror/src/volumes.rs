//! Objects that decide where pods with volumes may run: persistent volumes, claims, storage classes and those of CSI.
//!
//! An object that cannot be read is reported in the log and counts as absent: it must not keep the others from being used.

use berth_api::object::volume::{
    BIND_COMPLETED_ANNOTATION, PersistentVolume, PersistentVolumeClaim, SELECTED_NODE_ANNOTATION,
};
use berth_api::object::{NamespacedName, VolumeKind, VolumeObject};
use berth_client::{KubeObject, StreamEvent};
use berth_engine::Cluster;
use serde_json::Value;

use crate::cache::CacheSync;
use crate::entries::Sync;
use crate::mirror::Change;

/// A claim, as far as its binding is concerned.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClaimState {
    /// `metadata.uid`.
    pub uid: String,
    /// `metadata.resourceVersion`, as a number.
    pub version: u64,
    /// The node that a volume is to be provisioned for.
    pub selected_node: Option<String>,
    /// Whether there is any annotation.
    pub has_annotations: bool,
    /// The volume; empty for none.
    pub volume_name: String,
    /// Whether the binding is complete.
    pub is_bound: bool,
}

impl From<&PersistentVolumeClaim> for ClaimState {
    fn from(claim: &PersistentVolumeClaim) -> ClaimState {
        let PersistentVolumeClaim { metadata, spec, .. } = claim;
        let is_complete = metadata.annotation(BIND_COMPLETED_ANNOTATION).is_some();
        ClaimState {
            uid: metadata.uid.clone(),
            version: metadata.resource_version.parse().unwrap_or_default(),
            selected_node: metadata.annotation(SELECTED_NODE_ANNOTATION).map(str::to_owned),
            has_annotations: !metadata.annotations.is_empty(),
            volume_name: spec.volume_name.clone(),
            is_bound: !spec.volume_name.is_empty() && is_complete,
        }
    }
}

/// A persistent volume, as far as its binding is concerned.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VolumeState {
    /// `metadata.resourceVersion`, as a number.
    pub version: u64,
    /// The claim that it belongs to or is reserved for, and the claim's uid; the uid is empty while it is only reserved.
    pub claim: Option<(NamespacedName, String)>,
}

impl From<&PersistentVolume> for VolumeState {
    fn from(volume: &PersistentVolume) -> VolumeState {
        let claim = volume.spec.claim_ref.as_ref();
        VolumeState {
            version: volume.metadata.resource_version.parse().unwrap_or_default(),
            claim: claim.map(|c| (NamespacedName::new(&c.namespace, &c.name), c.uid.clone())),
        }
    }
}

/// An object of a watch; none if it could not be read.
pub(crate) struct VolumeEntry {
    object: Option<VolumeObject>,
    namespace: String,
    name: String,
    version: String,
}

impl KubeObject for VolumeEntry {
    fn resource_version(&self) -> &str {
        &self.version
    }

    fn key(&self) -> (&str, &str) {
        (&self.namespace, &self.name)
    }
}

/// Reads the object of an event.
pub(crate) fn entry(kind: VolumeKind, event: StreamEvent<Value>) -> StreamEvent<VolumeEntry> {
    let read = |value: Value| {
        let (namespace, name) = value.key();
        let (namespace, name) = (namespace.to_owned(), name.to_owned());
        let version = value.resource_version().to_owned();
        let object = VolumeObject::decode(kind, &value);
        let object = object.inspect_err(|error| tracing::error!("{error}: the object is ignored")).ok();
        VolumeEntry { object, namespace, name, version }
    };
    match event {
        StreamEvent::Init => StreamEvent::Init,
        StreamEvent::InitApply(value) => StreamEvent::InitApply(read(value)),
        StreamEvent::Apply(value) => StreamEvent::Apply(read(value)),
        StreamEvent::Delete(value) => StreamEvent::Delete(read(value)),
        StreamEvent::InitDone => StreamEvent::InitDone,
    }
}

impl CacheSync {
    pub(crate) fn apply_volume(
        &mut self,
        cluster: &mut Cluster,
        kind: VolumeKind,
        event: StreamEvent<VolumeEntry>,
        changes: &mut Vec<Change>,
    ) {
        let fingerprints = &self.fingerprints;
        // An assumption about an object holds until another version of it is set.
        let fingerprint = |entry: &VolumeEntry| fingerprints.of(&entry.version);
        self.volumes.entry(kind).or_default().apply(event, fingerprint, |sync| {
            let (object, key) = match sync {
                Sync::Set(VolumeEntry { object, namespace, name, .. }) => {
                    (object, NamespacedName::new(&namespace, &name))
                }
                Sync::Unset(key) => (None, key),
            };
            match (&object, kind) {
                (Some(VolumeObject::PersistentVolumeClaim(claim)), _) => {
                    changes.push(Change::ClaimApplied(key.clone(), ClaimState::from(&**claim)));
                }
                (Some(VolumeObject::PersistentVolume(volume)), _) => {
                    changes.push(Change::VolumeApplied(key.name().to_owned(), VolumeState::from(&**volume)));
                }
                (None, VolumeKind::PersistentVolumeClaim) => changes.push(Change::ClaimDeleted(key.clone())),
                (None, VolumeKind::PersistentVolume) => {
                    changes.push(Change::VolumeDeleted(key.name().to_owned()));
                }
                _ => {}
            }
            match object {
                Some(object) => cluster.set_volume_object(object),
                None => cluster.remove_volume_object(kind, key.namespace(), key.name()),
            }
        });
    }
}

#[cfg(test)]
mod tests {
    use berth_engine::Settings;
    use serde_json::json;

    use super::*;

    #[test]
    fn a_malformed_claim_counts_as_absent_until_it_can_be_read() {
        let (mut cache, mut cluster) = (CacheSync::default(), Cluster::new(Settings::default()));
        let mut apply = |version: &str, request: Value| {
            let claim = json!({"metadata": {"name": "c", "namespace": "n", "resourceVersion": version},
                "spec": {"resources": {"requests": {"storage": request}}}});
            let mut changes = Vec::new();
            let kind = VolumeKind::PersistentVolumeClaim;
            cache.apply_volume(&mut cluster, kind, entry(kind, StreamEvent::Apply(claim)), &mut changes);
            changes
        };
        assert!(matches!(apply("1", json!("1Gi"))[..], [Change::ClaimApplied(..)]));
        assert!(apply("1", json!("1Gi")).is_empty(), "nothing changed");
        assert!(matches!(apply("2", json!("a lot"))[..], [Change::ClaimDeleted(_)]));
        assert!(matches!(apply("3", json!("2Gi"))[..], [Change::ClaimApplied(..)]));
    }
}
