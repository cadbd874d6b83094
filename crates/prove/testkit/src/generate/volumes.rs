//! Random volumes, claims and what decides about them, and the volumes of pods.

use berth_api::object::volume::{
    AwsElasticBlockStore, BIND_COMPLETED_ANNOTATION, ClaimReference, ClaimVolume, CsiDriver, CsiNode,
    CsiNodeDriver, CsiStorageCapacity, CsiVolume, EphemeralVolume, GcePersistentDisk, Iscsi,
    MIGRATED_PLUGINS_ANNOTATION, NO_PROVISIONER, PersistentVolume, PersistentVolumeClaim,
    PersistentVolumeClaimSpec, PersistentVolumeSpec, Rbd, SELECTED_NODE_ANNOTATION, STORAGE, StorageClass,
    TopologySelectorLabelRequirement, TopologySelectorTerm, Volume, VolumeAttachment, VolumeNodeAffinity,
    VolumeNodeResources,
};
use berth_api::object::{
    LabelSelector, NamespacedName, NodeSelector, NodeSelectorTerm, ObjectMeta, OwnerReference, Pod,
    SelectorRequirement, VolumeDecision, VolumeObject,
};
use berth_api::syntax::labels::HOSTNAME;

use super::names::{REGION, REGIONS, ZONE, ZONES, node_name};
use super::objects::{DELETED_AT, quantity};
use super::{Operation, Random};
use crate::naive::World;

/// The node label of a CSI driver that replaces an in-tree plugin.
pub const DRIVER_ZONE: &str = "topology.gke.io/zone";
/// Pods and claims of volumes are in few namespaces, so that they meet.
pub const NAMESPACES: [&str; 2] = ["default", "team-a"];
const BETA_ZONE: &str = "failure-domain.beta.kubernetes.io/zone";
const CSI: &str = "csi.example.com";
const CAP: &str = "cap.example.com";
const GCE: &str = "kubernetes.io/gce-pd";
const EBS: &str = "kubernetes.io/aws-ebs";
const DRIVERS: [&str; 4] = [CSI, CAP, "pd.csi.storage.gke.io", "ebs.csi.aws.com"];
/// Name, provisioner, and whether its claims wait for their first consumer.
const CLASSES: [(&str, &str, bool); 6] = [
    ("wait", CSI, true),
    ("local", NO_PROVISIONER, true),
    ("cap", CAP, true),
    ("gce", GCE, true),
    ("ebs", EBS, false),
    ("now", CSI, false),
];
const EPHEMERAL: &str = "scratch";

fn class_name(random: &mut Random) -> String {
    random.word(&["local", "local", "local", "wait", "wait", "cap", "gce", "now", "ebs"])
}

fn volume_name(random: &mut Random) -> String {
    format!("v{}", random.below(12))
}

fn claim_name(random: &mut Random) -> String {
    format!("c{}", random.below(6))
}

/// Every change is a new version of the object.
fn set(version: usize, mut object: VolumeObject) -> Operation {
    object.metadata_mut().resource_version = version.to_string();
    Operation::SetVolumeObject(object)
}

/// One of the 30 objects at the start of a history: volumes before claims, and all classes.
pub fn first(random: &mut Random, world: &World, n_left: usize, i: usize) -> Operation {
    set(
        i,
        match n_left {
            0..6 => VolumeObject::StorageClass(class(random, n_left)),
            6..12 => {
                let key = (random.word(&NAMESPACES), claim_name(random));
                VolumeObject::PersistentVolumeClaim(Box::new(claim(random, world, key)))
            }
            12..16 => VolumeObject::CsiNode(csi_node(random)),
            16 => VolumeObject::CsiDriver(csi_driver(random)),
            17..20 => VolumeObject::CsiStorageCapacity(capacity(random)),
            20 => VolumeObject::VolumeAttachment(attachment(random)),
            _ => VolumeObject::PersistentVolume(Box::new(volume(random, world))),
        },
    )
}

/// A change of an object. Claims of ephemeral volumes are made for the pod of the next operation.
pub fn change(random: &mut Random, world: &World, i: usize) -> Operation {
    set(
        i,
        match random.below(100) {
            0..24 => VolumeObject::PersistentVolume(Box::new(volume(random, world))),
            24..50 => {
                let key = (random.word(&NAMESPACES), claim_name(random));
                VolumeObject::PersistentVolumeClaim(Box::new(claim(random, world, key)))
            }
            50..64 => VolumeObject::PersistentVolumeClaim(Box::new(ephemeral_claim(random, world, i + 1))),
            64..67 => {
                let which = random.below(CLASSES.len());
                VolumeObject::StorageClass(class(random, which))
            }
            67..76 => VolumeObject::CsiNode(csi_node(random)),
            76..80 => VolumeObject::CsiDriver(csi_driver(random)),
            80..86 => VolumeObject::CsiStorageCapacity(capacity(random)),
            86..92 => VolumeObject::VolumeAttachment(attachment(random)),
            _ => {
                let objects: Vec<_> = world.storage.objects().collect();
                match random.pick(&objects) {
                    Some(object) => {
                        let key = object.metadata().namespaced_name();
                        return Operation::RemoveVolumeObject(object.kind(), key);
                    }
                    None => VolumeObject::CsiDriver(csi_driver(random)),
                }
            }
        },
    )
}

fn volume(random: &mut Random, world: &World) -> PersistentVolume {
    let mut volume = PersistentVolume::default();
    volume.metadata.name = volume_name(random);
    // Some are like another one, but free.
    if random.chance(40)
        && let Some(other) = random.pick(&world.storage.volumes)
    {
        volume.spec = PersistentVolumeSpec { claim_ref: None, ..other.spec.clone() };
        volume.metadata.labels.clone_from(&other.metadata.labels);
        volume.status.phase = "Available".to_owned();
        return volume;
    }
    volume.spec.storage_class_name = class_name(random);
    let size = format!("{}Gi", 1 + random.below(20));
    volume.spec.capacity.insert(STORAGE.to_owned(), quantity(&size));
    let modes = ["ReadWriteOnce", "ReadOnlyMany", "ReadWriteOncePod"];
    volume.spec.access_modes =
        if random.chance(60) { modes.map(str::to_owned).to_vec() } else { random.words(&modes, 1, 2) };
    volume.spec.volume_mode = random.chance(8).then(|| "Block".to_owned());
    volume.spec.volume_attributes_class_name = random.chance(5).then(|| "gold".to_owned());
    volume.status.phase =
        random.word(&["Available", "Available", "Available", "Available", "Bound", "Released"]);
    if random.chance(4) {
        volume.metadata.deletion_timestamp = DELETED_AT.parse().ok();
    }
    if random.chance(30) {
        volume.metadata.labels.insert("tier".to_owned(), random.word(&["gold", "iron"]));
    }
    if random.chance(15) {
        let zones = random.words(&ZONES, 1, 2).join("__");
        volume.metadata.labels.insert(random.word(&[ZONE, ZONE, BETA_ZONE]), zones);
    }
    if random.chance(5) {
        volume.metadata.labels.insert(REGION.to_owned(), random.word(&REGIONS));
    }
    if random.chance(35)
        && let Some(claim) = random.pick(&world.storage.claims)
    {
        let ObjectMeta { namespace, name, uid, .. } = claim.metadata.clone();
        let uid = if random.chance(70) { uid } else { random.word(&["", "", "another"]) };
        volume.spec.claim_ref = Some(ClaimReference { namespace, name, uid });
    }
    volume.spec.node_affinity = match random.below(10) {
        0..4 => Some(in_one_of(ZONE, random.words(&ZONES, 1, 2))),
        4..6 => Some(in_one_of(HOSTNAME, vec![node_name(random)])),
        6 => Some(in_one_of(BETA_ZONE, random.words(&ZONES, 1, 2))),
        _ => None,
    };
    match random.below(10) {
        0..4 => {
            let driver = random.word(&[CSI, CSI, CAP, "ebs.csi.aws.com"]);
            let volume_handle = random.word(&["h0", "h1", "h2", "h3", "vol-0"]);
            volume.spec.csi = Some(CsiVolume { driver, volume_handle });
        }
        // kube-scheduler fails on several zones whose names tell no region.
        4..6 if !volume.metadata.labels.values().any(|value| value.contains("__")) => {
            volume.spec.gce_persistent_disk = Some(gce(random));
        }
        6..8 => volume.spec.aws_elastic_block_store = Some(ebs(random)),
        _ => {}
    }
    volume
}

fn in_one_of(key: &str, values: Vec<String>) -> VolumeNodeAffinity {
    let requirement = SelectorRequirement { key: key.to_owned(), operator: "In".to_owned(), values };
    let term = NodeSelectorTerm { match_expressions: vec![requirement], ..NodeSelectorTerm::default() };
    VolumeNodeAffinity {
        required: Some(NodeSelector { node_selector_terms: vec![term], ..NodeSelector::default() }),
    }
}

fn claim(random: &mut Random, world: &World, (namespace, name): (String, String)) -> PersistentVolumeClaim {
    let mut claim = PersistentVolumeClaim::default();
    claim.metadata.uid = format!("uid-{namespace}-{name}-{}", random.below(2));
    (claim.metadata.namespace, claim.metadata.name) = (namespace, name);
    claim.status.phase = "Pending".to_owned();
    // Some need what another one needs, and are not bound.
    if random.chance(25)
        && let Some(other) = random.pick(&world.storage.claims)
    {
        claim.spec = PersistentVolumeClaimSpec { volume_name: String::new(), ..other.spec.clone() };
        return claim;
    }
    claim.spec.access_modes =
        vec![random.word(&["ReadWriteOnce", "ReadWriteOnce", "ReadOnlyMany", "ReadWriteOncePod"])];
    if !random.chance(4) {
        let size = format!("{}Gi", 1 + random.below(12));
        claim.spec.resources.requests.insert(STORAGE.to_owned(), quantity(&size));
    }
    claim.spec.storage_class_name = (!random.chance(4)).then(|| class_name(random));
    claim.spec.volume_mode = random.chance(5).then(|| "Block".to_owned());
    claim.spec.volume_attributes_class_name = random.chance(4).then(|| "gold".to_owned());
    if random.chance(15) {
        let mut selector = LabelSelector::default();
        selector.match_labels.insert("tier".to_owned(), random.word(&["gold", "iron"]));
        claim.spec.selector = Some(selector);
    }
    match random.below(20) {
        0..7 => {
            let volume = random.pick(&world.storage.volumes).map(|v| v.metadata.name.clone());
            claim.spec.volume_name = match volume {
                Some(volume) if !random.chance(15) => volume,
                _ => "gone".to_owned(),
            };
            if !random.chance(8) {
                claim.metadata.annotations.insert(BIND_COMPLETED_ANNOTATION.to_owned(), "yes".to_owned());
            }
            claim.status.phase = "Bound".to_owned();
        }
        7 if random.chance(60) => claim.status.phase = "Lost".to_owned(),
        8 if random.chance(60) => claim.metadata.deletion_timestamp = DELETED_AT.parse().ok(),
        9 => {
            let node = node_name(random);
            claim.metadata.annotations.insert(SELECTED_NODE_ANNOTATION.to_owned(), node);
        }
        _ => {}
    }
    claim
}

/// The claim for the ephemeral volume of a pod with this number, rarely owned by another.
fn ephemeral_claim(random: &mut Random, world: &World, number: usize) -> PersistentVolumeClaim {
    let namespace = random.word(&NAMESPACES);
    let mut claim = claim(random, world, (namespace, format!("p{number}-{EPHEMERAL}")));
    let uid = if random.chance(90) { format!("u{number}") } else { "another".to_owned() };
    claim.metadata.owner_references.push(OwnerReference {
        api_version: "v1".to_owned(),
        kind: "Pod".to_owned(),
        name: format!("p{number}"),
        uid,
        controller: Some(true),
        ..OwnerReference::default()
    });
    claim
}

fn class(random: &mut Random, which: usize) -> StorageClass {
    let (name, provisioner, waits) = CLASSES[which];
    let mut class = StorageClass { provisioner: provisioner.to_owned(), ..StorageClass::default() };
    class.metadata.name = name.to_owned();
    let mode = if waits { "WaitForFirstConsumer" } else { "Immediate" };
    class.volume_binding_mode = Some(mode.to_owned());
    while random.chance(25) {
        let (key, values): (_, &[&str]) = if random.chance(80) { (ZONE, &ZONES) } else { (REGION, &REGIONS) };
        let requirement =
            TopologySelectorLabelRequirement { key: key.to_owned(), values: random.words(values, 1, 2) };
        class.allowed_topologies.push(TopologySelectorTerm { match_label_expressions: vec![requirement] });
    }
    class
}

fn csi_node(random: &mut Random) -> CsiNode {
    let mut node = CsiNode::default();
    node.metadata.name = node_name(random);
    if random.chance(50) {
        let plugins = random.words(&[GCE, EBS], 1, 2).join(",");
        node.metadata.annotations.insert(MIGRATED_PLUGINS_ANNOTATION.to_owned(), plugins);
    }
    for name in random.words(&DRIVERS, 1, 4) {
        let count = random.chance(85).then(|| random.below(4) as i32);
        let allocatable = random.chance(95).then_some(VolumeNodeResources { count });
        node.spec.drivers.push(CsiNodeDriver { name, allocatable });
    }
    node
}

fn csi_driver(random: &mut Random) -> CsiDriver {
    let mut driver = CsiDriver::default();
    driver.metadata.name = random.word(&[CAP, CAP, CSI]);
    driver.spec.storage_capacity = random.chance(80).then(|| random.chance(80));
    driver.spec.prevent_pod_scheduling_if_missing = Some(driver.spec.storage_capacity != Some(true));
    driver
}

fn capacity(random: &mut Random) -> CsiStorageCapacity {
    let mut capacity = CsiStorageCapacity::default();
    capacity.metadata.namespace = random.word(&NAMESPACES);
    capacity.metadata.name = format!("k{}", random.below(4));
    capacity.storage_class_name = random.word(&["cap", "cap", "cap", "wait"]);
    let size = |random: &mut Random| quantity(&format!("{}Gi", random.below(14)));
    capacity.capacity = random.chance(90).then(|| size(random));
    capacity.maximum_volume_size = random.chance(30).then(|| size(random));
    capacity.node_topology = random.chance(92).then(|| {
        let mut selector = LabelSelector::default();
        if random.chance(80) {
            selector.match_labels.insert(ZONE.to_owned(), random.word(&ZONES));
        }
        selector
    });
    capacity
}

fn attachment(random: &mut Random) -> VolumeAttachment {
    let mut attachment = VolumeAttachment::default();
    attachment.metadata.name = format!("a{}", random.below(6));
    attachment.spec.attacher = random.word(&[CSI, CSI, CAP]);
    attachment.spec.node_name = node_name(random);
    attachment.spec.source.persistent_volume_name = volume_name(random);
    attachment
}

fn gce(random: &mut Random) -> GcePersistentDisk {
    GcePersistentDisk { pd_name: random.word(&["pd-0", "pd-1"]), read_only: random.chance(30) }
}

fn ebs(random: &mut Random) -> AwsElasticBlockStore {
    let volume_id = random.word(&["vol-0", "vol-1", "aws://z0/vol-0"]);
    AwsElasticBlockStore { volume_id, read_only: random.chance(30) }
}

/// Gives a pod volumes. Its namespace becomes one with claims. An ephemeral volume mostly has its claim.
pub fn draw(random: &mut Random, world: &World, pod: &mut Pod) {
    pod.metadata.namespace = random.word(&NAMESPACES);
    let claim = format!("{}-{EPHEMERAL}", pod.metadata.name);
    let made = world.storage.claims.iter().find(|c| c.metadata.name == claim);
    if made.is_some() || random.chance(2) {
        if let Some(made) = made {
            pod.metadata.namespace.clone_from(&made.metadata.namespace);
        }
        let ephemeral = Some(EphemeralVolume::default());
        pod.spec.volumes.push(Volume { name: EPHEMERAL.to_owned(), ephemeral, ..Volume::default() });
    }
    while random.chance(55) {
        let mut volume = Volume { name: format!("v{}", pod.spec.volumes.len()), ..Volume::default() };
        match random.below(20) {
            0..13 => {
                let namespace = &pod.metadata.namespace;
                let known = world.storage.claims.iter().filter(|c| c.metadata.namespace == *namespace);
                let known: Vec<&str> = known.map(|c| c.metadata.name.as_str()).collect();
                let used = |name: &str| {
                    let mut claims =
                        pod.spec.volumes.iter().filter_map(|v| v.persistent_volume_claim.as_ref());
                    claims.any(|c| c.claim_name == name)
                };
                let name = if known.is_empty() || random.chance(4) {
                    claim_name(random)
                } else {
                    random.word(&known)
                };
                if used(&name) {
                    continue;
                }
                volume.persistent_volume_claim = Some(ClaimVolume { claim_name: name });
            }
            13..15 => volume.gce_persistent_disk = Some(gce(random)),
            15..17 => volume.aws_elastic_block_store = Some(ebs(random)),
            17 => {
                volume.iscsi =
                    Some(Iscsi { iqn: random.word(&["iqn-0", "iqn-1"]), read_only: random.chance(40) })
            }
            18 => {
                volume.rbd = Some(Rbd {
                    monitors: random.words(&["m0", "m1"], 1, 2),
                    image: random.word(&["i0", "i1"]),
                    pool: "rbd".to_owned(),
                    read_only: random.chance(40),
                });
            }
            _ => {
                let volume_handle = String::new();
                volume.csi = Some(CsiVolume { driver: CSI.to_owned(), volume_handle });
            }
        }
        pod.spec.volumes.push(volume);
    }
}

/// A placement with a decision about claims that is assumed, and not written yet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AssumedPlacement {
    pub pod: NamespacedName,
    pub node: String,
    /// What was decided about its claims.
    pub decision: VolumeDecision,
}

impl AssumedPlacement {
    /// The objects after the scheduler, the volume controller and the provisioner have done their work. A claim about
    /// which nothing is assumed any longer is left alone: it has changed since.
    pub fn written(&self, world: &World) -> Vec<VolumeObject> {
        let storage = &world.storage;
        let claim_of = |name: &str| {
            let key = NamespacedName::new(self.pod.namespace(), name);
            storage.claims.iter().find(|c| c.metadata.namespaced_name() == key).cloned()
        };
        let mut pairs = Vec::new();
        for (claim, volume) in &self.decision.bind {
            let volume = storage.volumes.iter().find(|v| v.metadata.name == *volume);
            let volume = volume.filter(|v| {
                let assumed = storage.assumed_volumes.get(&v.metadata.name);
                assumed.is_some_and(|r| r.namespace == self.pod.namespace() && r.name == *claim)
            });
            pairs.extend(claim_of(claim).zip(volume.cloned()));
        }
        for claim in self.decision.provision.iter().filter_map(|claim| claim_of(claim)) {
            if storage.assumed_nodes.get(&claim.metadata.namespaced_name()) != Some(&self.node) {
                continue;
            }
            let mut volume = PersistentVolume::default();
            volume.metadata.name = format!("pvc-{}", claim.metadata.uid);
            volume.spec.storage_class_name = claim.storage_class().to_owned();
            volume.spec.access_modes.clone_from(&claim.spec.access_modes);
            volume.spec.capacity.insert(STORAGE.to_owned(), claim.requested());
            let volume_handle = volume.metadata.name.clone();
            volume.spec.csi = Some(CsiVolume { driver: CSI.to_owned(), volume_handle });
            let node = world.nodes.iter().find(|n| n.metadata.name == self.node);
            let zone = node.and_then(|node| node.metadata.label(ZONE));
            volume.spec.node_affinity = zone.map(|zone| in_one_of(ZONE, vec![zone.to_owned()]));
            pairs.push((claim, volume));
        }
        let mut objects = Vec::new();
        for (mut claim, mut volume) in pairs {
            if claim.metadata.uid.is_empty() || !claim.spec.volume_name.is_empty() {
                continue;
            }
            let ObjectMeta { namespace, name, uid, .. } = claim.metadata.clone();
            volume.spec.claim_ref = Some(ClaimReference { namespace, name, uid });
            volume.status.phase = "Bound".to_owned();
            claim.spec.volume_name.clone_from(&volume.metadata.name);
            claim.metadata.annotations.insert(BIND_COMPLETED_ANNOTATION.to_owned(), "yes".to_owned());
            claim.status.phase = "Bound".to_owned();
            for metadata in [&mut claim.metadata, &mut volume.metadata] {
                metadata.resource_version.push_str("-bound");
            }
            objects.push(VolumeObject::PersistentVolume(Box::new(volume)));
            objects.push(VolumeObject::PersistentVolumeClaim(Box::new(claim)));
        }
        objects
    }
}
