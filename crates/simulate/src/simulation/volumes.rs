//! The volumes of a simulation: the objects of the input, and the claims that controllers create for pods.
//!
//! No controller runs in a simulation. Claims that a controller would bind at once are treated as if they waited for
//! their first pod, and a storage class that is not in the input as one that provides volumes on every node. A warning
//! says so.

use std::collections::BTreeSet;

use berth_api::object::volume::{
    NO_PROVISIONER, PersistentVolumeClaim, STORAGE_CLASS_ANNOTATION, StorageClass, Volume,
};
use berth_api::object::{ObjectMeta, OwnerReference, Pod, VolumeObject};
use berth_engine::Cluster;

/// The annotation of the class for claims that name none.
const DEFAULT_CLASS_ANNOTATION: &str = "storageclass.kubernetes.io/is-default-class";

/// The class for claims that name none, if the input has no default class.
const ASSUMED_CLASS: &str = "assumed-default";

const WAIT_FOR_FIRST_CONSUMER: &str = "WaitForFirstConsumer";

/// The storage classes and claims of a simulation.
#[derive(Default)]
pub(super) struct Volumes {
    classes: BTreeSet<String>,
    /// The classes that are treated as if they waited for the first pod of a claim.
    immediate: BTreeSet<String>,
    default_class: Option<String>,
    /// Namespace and name.
    claims: BTreeSet<(String, String)>,
    warnings: Vec<String>,
}

impl Volumes {
    /// Adds the objects of the input to the cluster, claims last.
    pub(super) fn add_input<'a>(
        &mut self,
        cluster: &mut Cluster,
        objects: impl Iterator<Item = &'a VolumeObject>,
    ) {
        let (mut claims, mut defaults) = (Vec::new(), BTreeSet::new());
        for object in objects {
            match object {
                VolumeObject::PersistentVolumeClaim(claim) => claims.push(claim.clone()),
                VolumeObject::StorageClass(class) => {
                    let metadata = &class.metadata;
                    if metadata.annotation(DEFAULT_CLASS_ANNOTATION) == Some("true") {
                        // The newest; of several, the first by name.
                        let age = std::cmp::Reverse(metadata.creation_timestamp);
                        defaults.insert((age, metadata.name.clone()));
                    }
                    self.add_class(cluster, class.clone());
                }
                other => cluster.set_volume_object(other.clone()),
            }
        }
        self.default_class = defaults.pop_first().map(|(_, name)| name);
        for claim in claims {
            self.add_claim(cluster, *claim);
        }
    }

    fn add_class(&mut self, cluster: &mut Cluster, mut class: StorageClass) {
        let name = class.metadata.name.clone();
        if !class.waits_for_first_consumer() && class.provisioner != NO_PROVISIONER {
            class.volume_binding_mode = Some(WAIT_FOR_FIRST_CONSUMER.to_owned());
            self.immediate.insert(name.clone());
        }
        self.classes.insert(name);
        cluster.set_volume_object(VolumeObject::StorageClass(class));
    }

    /// Adds the claim of a pod, unless it exists.
    pub(super) fn add_claim(&mut self, cluster: &mut Cluster, mut claim: PersistentVolumeClaim) {
        let ObjectMeta { namespace, name, creation_timestamp, .. } = &claim.metadata;
        if !self.claims.insert((namespace.clone(), name.clone())) {
            return;
        }
        let is_unbound = claim.spec.volume_name.is_empty();
        let names_none = claim.spec.storage_class_name.is_none()
            && claim.metadata.annotation(STORAGE_CLASS_ANNOTATION).is_none();
        // As the API server does it for a new claim.
        if is_unbound && names_none && creation_timestamp.is_none() {
            let class = self.default_class.clone().unwrap_or_else(|| ASSUMED_CLASS.to_owned());
            claim.spec.storage_class_name = Some(class);
        }
        let class = claim.storage_class();
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
        cluster.set_volume_object(VolumeObject::PersistentVolumeClaim(Box::new(claim)));
    }

    /// Adds the claims of a pod's generic ephemeral volumes, unless they exist.
    pub(super) fn add_ephemeral_claims(&mut self, cluster: &mut Cluster, pod: &Pod) {
        for Volume { name, ephemeral, .. } in &pod.spec.volumes {
            let Some(template) = ephemeral.as_ref().and_then(|e| e.volume_claim_template.as_ref()) else {
                continue;
            };
            let owner = OwnerReference {
                api_version: "v1".to_owned(),
                kind: "Pod".to_owned(),
                name: pod.metadata.name.clone(),
                uid: pod.metadata.uid.clone(),
                controller: Some(true),
                ..OwnerReference::default()
            };
            let metadata = ObjectMeta {
                name: format!("{}-{name}", pod.metadata.name),
                namespace: pod.metadata.namespace.clone(),
                owner_references: vec![owner],
                ..ObjectMeta::default()
            };
            let spec = template.spec.clone();
            self.add_claim(
                cluster,
                PersistentVolumeClaim { metadata, spec, ..PersistentVolumeClaim::default() },
            );
        }
    }

    /// The warnings about assumptions.
    pub(super) fn take_warnings(&mut self) -> Vec<String> {
        std::mem::take(&mut self.warnings)
    }
}
