//! Volumes get bound, and are provisioned, once their pods have nodes.

use std::collections::HashMap;

use berth_api::object::volume::{BIND_COMPLETED_ANNOTATION, ClaimReference, StorageClass};
use berth_api::object::{NamespacedName, ObjectMeta, VolumeObject};
use berth_api::read::SourceLocation;
use berth_control::volume::{for_node, new_volume};
use berth_engine::Outcome;
use berth_input::inventory::{Entry, Inventory};

use crate::simulation::Simulation;

const BOUND: &str = "Bound";

/// Binds the claims of an inventory whose volumes have been decided about. Returns the objects that have changed.
pub(super) fn bind_volumes(inventory: &mut Inventory, simulation: &Simulation) -> Vec<VolumeObject> {
    // To a volume, or else to one that is provisioned for the node.
    let mut decided: HashMap<NamespacedName, (Option<&str>, &str)> = HashMap::new();
    for pod in simulation.pods() {
        let Outcome::Placed { node, volumes: Some(decision), .. } = &pod.outcome else { continue };
        let named = |claim: &str| NamespacedName::new(&pod.pod.metadata.namespace, claim);
        let bound =
            decision.bind.iter().map(|(claim, volume)| (named(claim), (Some(volume.as_str()), &**node)));
        decided.extend(bound.chain(decision.provision.iter().map(|claim| (named(claim), (None, &**node)))));
    }
    if decided.is_empty() {
        return Vec::new();
    }
    let classes = inventory.volume_objects.iter().filter_map(|entry| match &entry.object {
        VolumeObject::StorageClass(class) => Some((class.metadata.name.clone(), class.clone())),
        _ => None,
    });
    let classes: HashMap<String, StorageClass> = classes.collect();
    let mut claim_of: HashMap<String, ClaimReference> = HashMap::new();
    let (mut changed, mut provisioned) = (Vec::new(), Vec::new());
    for entry in &mut inventory.volume_objects {
        let VolumeObject::PersistentVolumeClaim(claim) = &mut entry.object else { continue };
        let ObjectMeta { namespace, name, uid, .. } = &claim.metadata;
        let Some((volume, node)) = decided.get(&NamespacedName::new(namespace, name)) else { continue };
        if claim.status.phase == BOUND {
            continue;
        }
        match volume {
            Some(volume) => {
                let reference =
                    ClaimReference { namespace: namespace.clone(), name: name.clone(), uid: uid.clone() };
                claim_of.insert((*volume).to_owned(), reference);
                (*volume).clone_into(&mut claim.spec.volume_name);
            }
            None => {
                let class = classes.get(claim.storage_class());
                let labels = simulation.node(node).map(|node| &*node.metadata.labels);
                let segments =
                    class.zip(labels).and_then(|(class, labels)| for_node(&class.allowed_topologies, labels));
                let name = format!("pvc-{namespace}-{name}");
                let driver = class.map(|class| class.provisioner.as_str());
                let mut volume = new_volume(name, claim, driver, segments.unwrap_or_default());
                BOUND.clone_into(&mut volume.status.phase);
                claim.spec.volume_name.clone_from(&volume.metadata.name);
                provisioned.push(VolumeObject::PersistentVolume(Box::new(volume)));
            }
        }
        claim.metadata.annotations.insert(BIND_COMPLETED_ANNOTATION.to_owned(), "yes".to_owned());
        BOUND.clone_into(&mut claim.status.phase);
        changed.push(entry.object.clone());
    }
    for entry in &mut inventory.volume_objects {
        if let VolumeObject::PersistentVolume(volume) = &mut entry.object
            && let Some(claim) = claim_of.remove(&volume.metadata.name)
        {
            volume.spec.claim_ref = Some(claim);
            BOUND.clone_into(&mut volume.status.phase);
            changed.push(entry.object.clone());
        }
    }
    changed.extend(provisioned.iter().cloned());
    let source = SourceLocation::file("provisioned");
    let entry = |object| Entry { object, raw: None, source: source.clone(), order: usize::MAX };
    inventory.volume_objects.extend(provisioned.into_iter().map(entry));
    changed
}
