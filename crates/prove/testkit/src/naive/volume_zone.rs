//! `VolumeZone`: the zone and region labels of bound volumes.

use berth_api::object::Node;

use super::storage::claim_not_found;
use super::{Code, Question, Verdict, reject};

const LABELS: [(&str, &str); 4] = [
    ("failure-domain.beta.kubernetes.io/zone", "topology.kubernetes.io/zone"),
    ("failure-domain.beta.kubernetes.io/region", "topology.kubernetes.io/region"),
    ("topology.kubernetes.io/zone", "topology.kubernetes.io/zone"),
    ("topology.kubernetes.io/region", "topology.kubernetes.io/region"),
];

/// A label that the node must have: its key, the key that may replace it, and the values.
type Topology = (&'static str, &'static str, Vec<String>);

/// `Err` with the reason for every node.
pub fn pre_filter(q: Question) -> Result<Vec<Topology>, String> {
    let storage = &q.world.storage;
    let mut topologies = Vec::new();
    for claim in q.pod.spec.volumes.iter().filter_map(|v| v.persistent_volume_claim.as_ref()) {
        if claim.claim_name.is_empty() {
            return Err("PersistentVolumeClaim had no name".to_owned());
        }
        let claim = storage
            .claim(&q.pod.metadata.namespace, &claim.claim_name)
            .ok_or_else(|| claim_not_found(&claim.claim_name))?;
        if claim.spec.volume_name.is_empty() {
            let class = claim.storage_class();
            if class.is_empty() {
                return Err("PersistentVolumeClaim had no pv name and storageClass name".to_owned());
            }
            let class = storage
                .class(class)
                .ok_or_else(|| format!("storageclass.storage.k8s.io {class:?} not found"))?;
            if class.waits_for_first_consumer() {
                continue;
            }
            return Err("PersistentVolume had no name".to_owned());
        }
        let volume = storage
            .volume(&claim.spec.volume_name)
            .ok_or_else(|| format!("persistentvolume {:?} not found", claim.spec.volume_name))?;
        for (key, replacement) in LABELS {
            let values = volume.metadata.label(key).map(|v| v.split("__").map(|v| v.trim().to_owned()));
            let values: Option<Vec<String>> = values.map(Iterator::collect);
            // Values with an empty part are ignored.
            if let Some(values) = values.filter(|v| v.iter().all(|v| !v.is_empty())) {
                topologies.push((key, replacement, values));
            }
        }
    }
    Ok(topologies)
}

pub fn filter(q: Question, node: &Node) -> Verdict {
    let topologies = match pre_filter(q) {
        Ok(topologies) => topologies,
        Err(reason) => return reject(Code::UnschedulableAndUnresolvable, &reason),
    };
    let label = |key: &str| node.metadata.label(key);
    let has_zone = LABELS.iter().any(|(key, _)| label(key).is_some());
    let matches = |(key, replacement, values): &Topology| {
        let value = label(key).or_else(|| label(replacement));
        value.is_some_and(|value| values.iter().any(|v| v == value))
    };
    if has_zone && !topologies.iter().all(matches) {
        return reject(Code::UnschedulableAndUnresolvable, "node(s) had no available volume zone");
    }
    Ok(())
}
