//! Objects that decide where pods with claims of devices may run: slices, classes and claims.

use berth_api::object::device::{DeviceKind, DeviceObject};
use berth_client::StreamEvent;
use berth_engine::Cluster;

use crate::cache::CacheSync;
use crate::change::Change;
use crate::device_entry::DeviceClaimState;
use crate::entries::ReadEntry;

impl CacheSync {
    pub(crate) fn apply_device(
        &mut self,
        cluster: &mut Cluster,
        kind: DeviceKind,
        event: StreamEvent<ReadEntry<DeviceObject>>,
        changes: &mut Vec<Change>,
    ) {
        let fingerprints = &self.fingerprints;
        let fingerprint = |entry: &ReadEntry<DeviceObject>| fingerprints.of(&entry.version);
        self.devices.entry(kind).or_default().apply(event, fingerprint, |sync| {
            let (object, key) = sync.object();
            match &object {
                Some(DeviceObject::ResourceClaim(claim)) => {
                    let state = DeviceClaimState::from(&**claim);
                    changes.push(Change::DeviceClaimApplied(key.clone(), state));
                }
                None if kind == DeviceKind::ResourceClaim => {
                    changes.push(Change::DeviceClaimDeleted(key.clone()));
                }
                _ => {}
            }
            match object {
                Some(object) => cluster.set_device_object(&object),
                None => cluster.remove_device_object(kind, key.namespace(), key.name()),
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
    fn a_malformed_claim_of_devices_counts_as_absent_until_it_can_be_read() {
        let (mut cache, mut cluster) = (CacheSync::default(), Cluster::new(Settings::default()));
        let mut apply = |version: &str, requests: Value| {
            let claim = json!({"metadata": {"name": "c", "namespace": "n", "resourceVersion": version},
                "spec": {"devices": {"requests": requests}}});
            let mut changes = Vec::new();
            let kind = DeviceKind::ResourceClaim;
            let event = read(StreamEvent::Apply(claim), |value| DeviceObject::decode(kind, value));
            cache.apply_device(&mut cluster, kind, event, &mut changes);
            changes
        };
        let requests = || json!([{"name": "r", "exactly": {"deviceClassName": "gpu"}}]);
        assert!(matches!(apply("1", requests())[..], [Change::DeviceClaimApplied(..)]));
        assert!(apply("1", requests()).is_empty(), "nothing changed");
        assert!(matches!(apply("2", json!("many"))[..], [Change::DeviceClaimDeleted(_)]));
        assert!(matches!(apply("3", requests())[..], [Change::DeviceClaimApplied(..)]));
    }
}
