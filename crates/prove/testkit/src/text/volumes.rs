//! Volumes, claims and the objects that decide about them, and the volumes of pods.

use berth_api::object::volume::{
    AwsElasticBlockStore, BIND_COMPLETED_ANNOTATION, ClaimReference, ClaimVolume, CsiDriver, CsiNode,
    CsiNodeDriver, CsiStorageCapacity, CsiVolume, EphemeralVolume, GcePersistentDisk, Iscsi,
    MIGRATED_PLUGINS_ANNOTATION, NO_PROVISIONER, PersistentVolume, PersistentVolumeClaim, Rbd,
    SELECTED_NODE_ANNOTATION, STORAGE, StorageClass, TopologySelectorLabelRequirement, TopologySelectorTerm,
    Volume, VolumeAttachment, VolumeNodeAffinity, VolumeNodeResources,
};
use berth_api::object::{LabelSelector, OwnerReference, StringMap, VolumeObject};

use super::terms::{node_selector, topology_key};
use super::words::{bad, key, name_and_words, pair, quantity};

/// The driver where none is named.
const DRIVER: &str = "csi.example.com";

/// Reads one line of an object, if it is of one of these kinds.
pub fn object(line: &str) -> Option<VolumeObject> {
    let kind = line.split_whitespace().next()?;
    Some(match kind {
        "pv" => VolumeObject::PersistentVolume(Box::new(persistent_volume(line))),
        "pvc" => VolumeObject::PersistentVolumeClaim(Box::new(claim(line))),
        "class" => VolumeObject::StorageClass(class(line)),
        "csinode" => VolumeObject::CsiNode(csi_node(line)),
        "csidriver" => VolumeObject::CsiDriver(csi_driver(line)),
        "capacity" => VolumeObject::CsiStorageCapacity(capacity(line)),
        "attachment" => VolumeObject::VolumeAttachment(attachment(line)),
        _ => return None,
    })
}

fn access_modes(line: &str, text: &str) -> Vec<String> {
    let mode = |word: &str| match word {
        "RWO" => "ReadWriteOnce",
        "ROX" => "ReadOnlyMany",
        "RWX" => "ReadWriteMany",
        "RWOP" => "ReadWriteOncePod",
        _ => bad(line, "has an unknown access mode"),
    };
    text.split(',').map(|word| mode(word).to_owned()).collect()
}

/// `WORD:VALUE`, or the whole word and an empty value.
fn split(word: &str) -> (&str, &str) {
    word.split_once(':').unwrap_or((word, ""))
}

fn persistent_volume(line: &str) -> PersistentVolume {
    let (name, words) = name_and_words(line);
    let mut volume = PersistentVolume::default();
    volume.metadata.name = name;
    volume.spec.access_modes = access_modes(line, "RWO");
    volume.spec.capacity.insert(STORAGE.to_owned(), quantity(line, "10Gi"));
    volume.status.phase = "Available".to_owned();
    for word in words {
        if let Some(content) = word.strip_prefix("node(").and_then(|rest| rest.strip_suffix(')')) {
            let required = Some(node_selector(line, content));
            volume.spec.node_affinity = Some(VolumeNodeAffinity { required });
            continue;
        }
        match split(&word) {
            ("size", size) => {
                volume.spec.capacity.insert(STORAGE.to_owned(), quantity(line, size));
            }
            ("class", class) => volume.spec.storage_class_name = class.to_owned(),
            ("access", modes) => volume.spec.access_modes = access_modes(line, modes),
            ("block", "") => volume.spec.volume_mode = Some("Block".to_owned()),
            ("phase", phase) => volume.status.phase = phase.to_owned(),
            ("deleting", "") => volume.metadata.deletion_timestamp = "2026-01-01T00:00:00Z".parse().ok(),
            ("claim", claim) => {
                let (namespace, name) = key(line, claim);
                let uid = claim.to_owned();
                volume.spec.claim_ref = Some(ClaimReference { namespace, name, uid });
                volume.status.phase = "Bound".to_owned();
            }
            ("reserved", claim) => {
                let (namespace, name) = key(line, claim);
                volume.spec.claim_ref = Some(ClaimReference { namespace, name, uid: String::new() });
            }
            ("csi", handle) => {
                let (driver, handle) = handle.split_once('/').unwrap_or((DRIVER, handle));
                let csi = CsiVolume { driver: driver.to_owned(), volume_handle: handle.to_owned() };
                volume.spec.csi = Some(csi);
            }
            ("gce", name) => {
                let disk = GcePersistentDisk { pd_name: name.to_owned(), read_only: false };
                volume.spec.gce_persistent_disk = Some(disk);
            }
            ("ebs", id) => {
                let disk = AwsElasticBlockStore { volume_id: id.to_owned(), read_only: false };
                volume.spec.aws_elastic_block_store = Some(disk);
            }
            _ => {
                let (key, value) = pair(line, &word);
                volume.metadata.labels.insert(topology_key(&key), value);
            }
        }
    }
    volume
}

fn claim(line: &str) -> PersistentVolumeClaim {
    let (name, words) = name_and_words(line);
    let mut claim = PersistentVolumeClaim::default();
    (claim.metadata.namespace, claim.metadata.name) = key(line, &name);
    claim.metadata.uid = name;
    claim.spec.access_modes = access_modes(line, "RWO");
    claim.spec.resources.requests.insert(STORAGE.to_owned(), quantity(line, "1Gi"));
    claim.status.phase = "Pending".to_owned();
    for word in words {
        match split(&word) {
            ("size", size) => {
                claim.spec.resources.requests.insert(STORAGE.to_owned(), quantity(line, size));
            }
            ("class", class) => claim.spec.storage_class_name = Some(class.to_owned()),
            ("access", modes) => claim.spec.access_modes = access_modes(line, modes),
            ("block", "") => claim.spec.volume_mode = Some("Block".to_owned()),
            ("volume", volume) => {
                claim.spec.volume_name = volume.to_owned();
                claim.metadata.annotations.insert(BIND_COMPLETED_ANNOTATION.to_owned(), "yes".to_owned());
                claim.status.phase = "Bound".to_owned();
            }
            ("asks", volume) => claim.spec.volume_name = volume.to_owned(),
            ("lost", "") => claim.status.phase = "Lost".to_owned(),
            ("deleting", "") => claim.metadata.deletion_timestamp = "2026-01-01T00:00:00Z".parse().ok(),
            ("selected", node) => {
                claim.metadata.annotations.insert(SELECTED_NODE_ANNOTATION.to_owned(), node.to_owned());
            }
            ("of", pod) => claim.metadata.owner_references.push(OwnerReference {
                api_version: "v1".to_owned(),
                kind: "Pod".to_owned(),
                name: pod.to_owned(),
                uid: format!("{}/{pod}", claim.metadata.namespace),
                controller: Some(true),
                ..OwnerReference::default()
            }),
            _ => {
                let (key, value) = pair(line, &word);
                let selector: &mut LabelSelector = claim.spec.selector.get_or_insert_default();
                selector.match_labels.insert(key, value);
            }
        }
    }
    claim
}

fn class(line: &str) -> StorageClass {
    let (name, words) = name_and_words(line);
    let mut class = StorageClass::default();
    (class.metadata.name, class.provisioner) = (name, DRIVER.to_owned());
    let mut topology = TopologySelectorTerm::default();
    for word in words {
        match split(&word) {
            ("waits", "") => class.volume_binding_mode = Some("WaitForFirstConsumer".to_owned()),
            ("static", "") => class.provisioner = NO_PROVISIONER.to_owned(),
            ("provisioner", provisioner) => class.provisioner = provisioner.to_owned(),
            _ => {
                let (key, values) = pair(line, &word);
                let values = values.split(',').map(str::to_owned).collect();
                let requirement = TopologySelectorLabelRequirement { key: topology_key(&key), values };
                topology.match_label_expressions.push(requirement);
            }
        }
    }
    if topology != TopologySelectorTerm::default() {
        class.allowed_topologies.push(topology);
    }
    class
}

fn csi_node(line: &str) -> CsiNode {
    let (name, words) = name_and_words(line);
    let mut node = CsiNode::default();
    node.metadata.name = name;
    for word in words {
        if let Some(plugins) = word.strip_prefix("migrated:") {
            node.metadata.annotations.insert(MIGRATED_PLUGINS_ANNOTATION.to_owned(), plugins.to_owned());
            continue;
        }
        let (name, limit) = word.split_once('=').map_or((word.as_str(), None), |(n, limit)| (n, Some(limit)));
        let limit =
            limit.map(|n| n.parse().unwrap_or_else(|_| bad(line, "has a limit that is not a number")));
        let allocatable = limit.map(|n| VolumeNodeResources { count: Some(n) });
        node.spec.drivers.push(CsiNodeDriver { name: name.to_owned(), allocatable });
    }
    node
}

fn csi_driver(line: &str) -> CsiDriver {
    let (name, words) = name_and_words(line);
    let mut driver = CsiDriver::default();
    driver.metadata.name = name;
    let is = |what: &str| words.iter().any(|word| word == what).then_some(true);
    driver.spec.storage_capacity = is("capacity");
    driver.spec.prevent_pod_scheduling_if_missing = is("required");
    driver
}

fn capacity(line: &str) -> CsiStorageCapacity {
    let (name, words) = name_and_words(line);
    let mut capacity = CsiStorageCapacity::default();
    (capacity.metadata.namespace, capacity.metadata.name) = key(line, &name);
    let mut labels = Some(StringMap::new());
    for word in words {
        match split(&word) {
            ("class", class) => capacity.storage_class_name = class.to_owned(),
            ("size", size) => capacity.capacity = Some(quantity(line, size)),
            ("max", size) => capacity.maximum_volume_size = Some(quantity(line, size)),
            ("nowhere", "") => labels = None,
            _ => {
                let (key, value) = pair(line, &word);
                labels.get_or_insert_default().insert(topology_key(&key), value);
            }
        }
    }
    let selector = |match_labels| LabelSelector { match_labels, match_expressions: Vec::new() };
    capacity.node_topology = labels.map(selector);
    capacity
}

fn attachment(line: &str) -> VolumeAttachment {
    let (name, words) = name_and_words(line);
    let mut attachment = VolumeAttachment::default();
    attachment.metadata.name = name;
    attachment.spec.attacher = DRIVER.to_owned();
    for word in words {
        match split(&word) {
            ("driver", driver) => attachment.spec.attacher = driver.to_owned(),
            ("node", node) => attachment.spec.node_name = node.to_owned(),
            ("volume", volume) => attachment.spec.source.persistent_volume_name = volume.to_owned(),
            _ => bad(line, &format!("has the unknown word {word:?}")),
        }
    }
    attachment
}

pub fn pod_volume(word: &str, number: usize) -> Option<Volume> {
    let (kind, value) = word.split_once(':')?;
    let (value, read_only) = value.strip_suffix(":ro").map_or((value, false), |value| (value, true));
    let mut volume = Volume { name: format!("v{number}"), ..Volume::default() };
    let value = value.to_owned();
    match kind {
        "claim" => volume.persistent_volume_claim = Some(ClaimVolume { claim_name: value }),
        "ephemeral" => {
            volume.name = value;
            volume.ephemeral = Some(EphemeralVolume::default());
        }
        "gce" => volume.gce_persistent_disk = Some(GcePersistentDisk { pd_name: value, read_only }),
        "ebs" => volume.aws_elastic_block_store = Some(AwsElasticBlockStore { volume_id: value, read_only }),
        "iscsi" => volume.iscsi = Some(Iscsi { iqn: value, read_only }),
        "rbd" => {
            let (image, monitors) = value.split_once('@').unwrap_or((&value, ""));
            volume.rbd = Some(Rbd {
                monitors: monitors.split(',').map(str::to_owned).collect(),
                image: image.to_owned(),
                pool: "rbd".to_owned(),
                read_only,
            });
        }
        _ => return None,
    }
    Some(volume)
}
