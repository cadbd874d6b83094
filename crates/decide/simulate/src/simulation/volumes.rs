//! The volumes of a simulation: the objects of the input, and the claims that controllers create for pods.
//!
//! No controller runs in a simulation. A volume without a status is available, and a claim that names a volume without
//! another claim is bound to it. Claims that a controller would bind at once are treated as if they waited for their
//! first pod, and a storage class that is not in the input as one that provides volumes on every node. A warning says so.

use std::collections::{BTreeMap, BTreeSet, HashSet};

use berth_api::object::volume::{
    BIND_COMPLETED_ANNOTATION, ClaimReference, NO_PROVISIONER, PersistentVolume, PersistentVolumeClaim,
    SELECTED_NODE_ANNOTATION, StorageClass, Volume,
};
use berth_api::object::{NamespacedName, ObjectMeta, OwnerReference, Pod, VolumeObject};
use berth_control::claim::{default_class, mismatch};
use berth_engine::Cluster;
use serde_json::Value;

/// The class for claims that name none, if the input has no default class.
const ASSUMED_CLASS: &str = "assumed-default";

const WAIT_FOR_FIRST_CONSUMER: &str = "WaitForFirstConsumer";

/// The storage classes and claims of a simulation.
#[derive(Default)]
pub(super) struct Volumes {
    classes: BTreeSet<String>,
    /// The classes that are treated as if they waited for the first pod of a claim.
    immediate: BTreeSet<String>,
    /// The classes whose claims wait for the scheduler to select a node for their first pod.
    delayed: BTreeSet<String>,
    /// The claims that wait for it.
    waiting: HashSet<NamespacedName>,
    default_class: Option<String>,
    claims: BTreeSet<(String, String)>,
    /// By name, the volumes without `claimRef`.
    unclaimed: BTreeMap<String, Box<PersistentVolume>>,
    claim_refs: BTreeMap<String, NamespacedName>,
    /// The claims that name a volume to which they are not bound, and why.
    lost: BTreeMap<NamespacedName, String>,
    warnings: Vec<String>,
}

impl Volumes {
    /// Adds the objects of the input to the cluster, claims last.
    pub(super) fn add_input<'a>(
        &mut self,
        cluster: &mut Cluster,
        objects: impl Iterator<Item = &'a VolumeObject>,
    ) {
        let (mut claims, mut classes) = (Vec::new(), Vec::new());
        for object in objects {
            match object {
                VolumeObject::PersistentVolumeClaim(claim) => claims.push(claim.clone()),
                VolumeObject::StorageClass(class) => {
                    classes.push(&class.metadata);
                    self.add_class(cluster, class.clone());
                }
                VolumeObject::PersistentVolume(volume) if volume.spec.claim_ref.is_none() => {
                    let mut volume = volume.clone();
                    // A manifest has no status.
                    if volume.status.phase.is_empty() {
                        volume.status.phase = "Available".to_owned();
                    }
                    self.unclaimed.insert(volume.metadata.name.clone(), volume.clone());
                    cluster.set_volume_object(VolumeObject::PersistentVolume(volume));
                }
                other => {
                    if let VolumeObject::PersistentVolume(volume) = other
                        && let Some(claim) = volume.claim()
                    {
                        self.claim_refs.insert(volume.metadata.name.clone(), claim);
                    }
                    cluster.set_volume_object(other.clone());
                }
            }
        }
        self.default_class = default_class(classes.into_iter()).map(str::to_owned);
        for claim in claims {
            self.add_claim(cluster, *claim);
        }
    }

    fn add_class(&mut self, cluster: &mut Cluster, mut class: StorageClass) {
        let name = class.metadata.name.clone();
        if class.waits_for_first_consumer() {
            self.delayed.insert(name.clone());
        }
        if wait_for_first_consumer(&mut class) {
            self.immediate.insert(name.clone());
        }
        self.classes.insert(name);
        cluster.set_volume_object(VolumeObject::StorageClass(class));
    }

    pub(super) fn has_claim(&self, claim: &PersistentVolumeClaim) -> bool {
        self.has_named(&claim.metadata.namespaced_name())
    }

    fn has_named(&self, claim: &NamespacedName) -> bool {
        self.claims.contains(&(claim.namespace().to_owned(), claim.name().to_owned()))
    }

    /// Why a claim is never bound to a volume that can be mounted.
    pub(super) fn why_lost(&self, claim: &NamespacedName) -> Option<String> {
        let missing = || format!("PersistentVolumeClaim {claim} does not exist");
        if self.has_named(claim) { self.lost.get(claim).cloned() } else { Some(missing()) }
    }

    /// Adds the claim of a pod, unless it exists. Returns whether it did not.
    pub(super) fn add_claim(&mut self, cluster: &mut Cluster, mut claim: PersistentVolumeClaim) -> bool {
        let ObjectMeta { namespace, name, creation_timestamp, .. } = &claim.metadata;
        if !self.claims.insert((namespace.clone(), name.clone())) {
            return false;
        }
        let is_unbound = claim.spec.volume_name.is_empty();
        // As the API server does it for a new claim.
        if is_unbound && claim.needs_class() && creation_timestamp.is_none() {
            let class = self.default_class.clone().unwrap_or_else(|| ASSUMED_CLASS.to_owned());
            claim.spec.storage_class_name = Some(class);
        }
        let class = claim.storage_class();
        if is_unbound
            && self.delayed.contains(class)
            && claim.metadata.annotation(SELECTED_NODE_ANNOTATION).is_none()
        {
            self.waiting.insert(claim.metadata.namespaced_name());
        }
        if is_unbound && self.immediate.contains(class) {
            self.warnings.push(format!(
                "StorageClass {class}: volumeBindingMode is Immediate: volumes that do not exist are assumed to be \
                 provisioned where their pods are placed"
            ));
        }
        if is_unbound && !class.is_empty() && !self.classes.contains(class) {
            self.warnings.push(match class {
                ASSUMED_CLASS => "the input has no default StorageClass: volumes of claims without a class are \
                                  assumed to be available on every node"
                    .to_owned(),
                class => format!(
                    "StorageClass {class} is not in the input: its volumes are assumed to be available on every node"
                ),
            });
            let assumed = StorageClass {
                metadata: ObjectMeta { name: class.to_owned(), ..ObjectMeta::default() },
                provisioner: ASSUMED_CLASS.to_owned(),
                volume_binding_mode: Some(WAIT_FOR_FIRST_CONSUMER.to_owned()),
                ..StorageClass::default()
            };
            self.classes.insert(class.to_owned());
            cluster.set_volume_object(VolumeObject::StorageClass(assumed));
        }
        let mismatch = self.unclaimed.get(&claim.spec.volume_name).map(|volume| mismatch(volume, &claim));
        if mismatch == Some(None)
            && let Some(volume) = self.unclaimed.remove(&claim.spec.volume_name)
        {
            bind(cluster, volume, &mut claim);
        } else if self.claim_refs.get(&claim.spec.volume_name) == Some(&claim.metadata.namespaced_name()) {
            complete(&mut claim);
        } else if !is_unbound && claim.status.phase != "Bound" {
            let (name, volume) = (claim.metadata.namespaced_name(), &claim.spec.volume_name);
            let why = match (self.claim_refs.get(volume), mismatch.flatten()) {
                (Some(other), _) => format!("is that of PersistentVolumeClaim {other}"),
                (None, Some(why)) => format!("does not satisfy it: {why}"),
                (None, None) => "does not exist".to_owned(),
            };
            let why = format!("PersistentVolume {volume} of PersistentVolumeClaim {name} {why}");
            self.lost.insert(name, why);
        }
        cluster.set_volume_object(VolumeObject::PersistentVolumeClaim(Box::new(claim)));
        true
    }

    /// The claims that wait for a scheduler to select a node, but for those of these pods, which it decides about or has decided about.
    pub(super) fn take_waiting<'p>(
        &mut self,
        scheduled: impl Iterator<Item = &'p Pod>,
    ) -> HashSet<NamespacedName> {
        let mut waiting = std::mem::take(&mut self.waiting);
        for claim in scheduled.take_while(|_| !waiting.is_empty()).flat_map(volume_claims).collect::<Vec<_>>()
        {
            waiting.remove(&claim);
        }
        waiting
    }

    pub(super) fn take_warnings(&mut self) -> Vec<String> {
        std::mem::take(&mut self.warnings)
    }
}

/// Treats a class whose claims a controller would bind at once as if they waited for their first pod. Returns whether it does
/// so.
pub(super) fn wait_for_first_consumer(class: &mut StorageClass) -> bool {
    let is_immediate = !class.waits_for_first_consumer() && class.provisioner != NO_PROVISIONER;
    if is_immediate {
        class.volume_binding_mode = Some(WAIT_FOR_FIRST_CONSUMER.to_owned());
    }
    is_immediate
}

/// Binds a claim to the volume that it names, as a controller does.
fn bind(cluster: &mut Cluster, mut volume: Box<PersistentVolume>, claim: &mut PersistentVolumeClaim) {
    complete(claim);
    let ObjectMeta { namespace, name, uid, .. } = &claim.metadata;
    volume.spec.claim_ref =
        Some(ClaimReference { namespace: namespace.clone(), name: name.clone(), uid: uid.clone() });
    volume.status.phase = "Bound".to_owned();
    cluster.set_volume_object(VolumeObject::PersistentVolume(volume));
}

/// Completes the binding of a claim to the volume that it names and that names it.
fn complete(claim: &mut PersistentVolumeClaim) {
    claim.metadata.annotations.insert(BIND_COMPLETED_ANNOTATION.to_owned(), "yes".to_owned());
    claim.status.phase = "Bound".to_owned();
}

pub fn volume_claims(pod: &Pod) -> impl Iterator<Item = NamespacedName> {
    let ObjectMeta { namespace, name: pod_name, .. } = &pod.metadata;
    pod.spec.volumes.iter().filter_map(move |Volume { name, ephemeral, persistent_volume_claim, .. }| match (
        persistent_volume_claim,
        ephemeral,
    ) {
        (Some(source), _) => Some(NamespacedName::new(namespace, &source.claim_name)),
        (None, Some(_)) => Some(NamespacedName::new(namespace, &format!("{pod_name}-{name}"))),
        (None, None) => None,
    })
}

/// The claims of a pod's generic ephemeral volumes, with their templates if the whole pod is given.
pub(super) fn ephemeral_claims<'a>(
    pod: &'a Pod,
    raw: Option<&'a Value>,
) -> impl Iterator<Item = (PersistentVolumeClaim, Option<Value>)> {
    pod.spec.volumes.iter().filter_map(move |Volume { name, ephemeral, .. }| {
        let template = ephemeral.as_ref()?.volume_claim_template.as_ref()?;
        let owner = OwnerReference::of_pod(&pod.metadata);
        let metadata = ObjectMeta {
            name: format!("{}-{name}", pod.metadata.name),
            namespace: pod.metadata.namespace.clone(),
            owner_references: vec![owner].into(),
            ..ObjectMeta::default()
        };
        let spec = template.spec.clone();
        let claim = PersistentVolumeClaim { metadata, spec, ..PersistentVolumeClaim::default() };
        let volumes = raw.and_then(|raw| raw.pointer("/spec/volumes")?.as_array());
        let named = |volume: &&Value| volume["name"] == name.as_str();
        let raw =
            volumes.and_then(|volumes| volumes.iter().find(named)?.pointer("/ephemeral/volumeClaimTemplate"));
        Some((claim, raw.cloned()))
    })
}
