//! Objects that decide where pods with volumes may run: persistent volumes, claims, storage classes and those of CSI.

use berth_api::object::{VolumeKind, VolumeObject};
use berth_client::StreamEvent;
use berth_engine::Cluster;

use crate::cache::CacheSync;
use crate::change::Change;
use crate::entries::ReadEntry;
use crate::volume_entry::{ClaimState, VolumeState};

impl CacheSync {
    pub(crate) fn apply_volume(
        &mut self,
        cluster: &mut Cluster,
        kind: VolumeKind,
        event: StreamEvent<ReadEntry<VolumeObject>>,
        changes: &mut Vec<Change>,
    ) {
        let fingerprints = &self.fingerprints;
        // An assumption about an object holds until another version of it is set.
        let fingerprint = |entry: &ReadEntry<VolumeObject>| fingerprints.of(&entry.version);
        self.volumes.entry(kind).or_default().apply(event, fingerprint, |sync| {
            let (object, key) = sync.object();
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
    use serde_json::{Value, json};

    use super::*;
    use crate::entries::read;

    #[test]
    fn a_malformed_claim_counts_as_absent_until_it_can_be_read() {
        let (mut cache, mut cluster) = (CacheSync::default(), Cluster::new(Settings::default()));
        let mut apply = |version: &str, request: Value| {
            let claim = json!({"metadata": {"name": "c", "namespace": "n", "resourceVersion": version},
                "spec": {"resources": {"requests": {"storage": request}}}});
            let mut changes = Vec::new();
            let kind = VolumeKind::PersistentVolumeClaim;
            let event = read(StreamEvent::Apply(claim), |value| VolumeObject::decode(kind, value));
            cache.apply_volume(&mut cluster, kind, event, &mut changes);
            changes
        };
        assert!(matches!(apply("1", json!("1Gi"))[..], [Change::ClaimApplied(..)]));
        assert!(apply("1", json!("1Gi")).is_empty(), "nothing changed");
        assert!(matches!(apply("2", json!("a lot"))[..], [Change::ClaimDeleted(_)]));
        assert!(matches!(apply("3", json!("2Gi"))[..], [Change::ClaimApplied(..)]));
    }
}
