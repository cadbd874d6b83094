//! The graph of owners and dependents, by uid. All informers update it.

use std::collections::{HashMap, HashSet};

use berth_api::object::{NamespacedName, Shared};
use berth_api::resource::Resource;

use crate::view::{ObjectMeta, OwnerReference};

pub(super) type Uid = String;

/// Finalizer of an owner whose dependents are deleted first.
pub(super) const FOREGROUND: &str = "foregroundDeletion";
/// Finalizer of an owner whose dependents are orphaned.
pub(super) const ORPHAN: &str = "orphan";

#[derive(Clone, Debug)]
pub(super) struct Node {
    pub(super) kind: &'static Resource,
    pub(super) key: NamespacedName,
    pub(super) uid: Uid,
    pub(super) resource_version: String,
    pub(super) owners: Shared<Vec<OwnerReference>>,
    pub(super) finalizers: Shared<Vec<String>>,
    pub(super) deleting: bool,
}

impl Node {
    pub(super) fn new(kind: &'static Resource, meta: &ObjectMeta) -> Self {
        Node {
            kind,
            key: meta.namespaced_name(),
            uid: meta.uid.clone(),
            resource_version: meta.resource_version.clone(),
            owners: meta.owner_references.clone(),
            finalizers: meta.finalizers.clone(),
            deleting: meta.is_deleting(),
        }
    }

    pub(super) fn has_finalizer(&self, finalizer: &str) -> bool {
        self.finalizers.iter().any(|own| own == finalizer)
    }

    /// Whether the owner waits for the deletion of its dependents.
    pub(super) fn is_deleting_foreground(&self) -> bool {
        self.deleting && self.has_finalizer(FOREGROUND)
    }

    /// Whether the owner orphans its dependents before it is deleted.
    pub(super) fn is_orphaning(&self) -> bool {
        self.deleting && self.has_finalizer(ORPHAN)
    }
}

/// The graph of the objects that the informers have seen. A missing owner is in it only as a reference of its dependents.
#[derive(Default)]
pub(super) struct Graph {
    nodes: HashMap<Uid, Node>,
    dependents: HashMap<Uid, HashSet<Uid>>,
}

impl Graph {
    pub(super) fn node(&self, uid: &str) -> Option<&Node> {
        self.nodes.get(uid)
    }

    /// Objects that refer to an owner.
    pub(super) fn dependents<'a>(&'a self, uid: &str) -> impl Iterator<Item = &'a Node> + use<'a> {
        self.dependents.get(uid).into_iter().flatten().filter_map(|uid| self.nodes.get(uid))
    }

    /// Updates an object; returns the objects to process.
    pub(super) fn observe(&mut self, node: Node) -> Vec<Uid> {
        let uid = node.uid.clone();
        let old = self.nodes.get(&uid);
        let new_owners: Vec<Uid> = node.owners.iter().map(|owner| owner.uid.clone()).collect();
        let old_owners: Vec<Uid> =
            old.map(|old| old.owners.iter().map(|owner| owner.uid.clone()).collect()).unwrap_or_default();
        let is_news = old.is_none_or(|old| {
            old.owners != node.owners || old.deleting != node.deleting || old.finalizers != node.finalizers
        });
        let ends = node.is_deleting_foreground() || node.is_orphaning();
        for owner in old_owners.iter().filter(|owner| !new_owners.contains(owner)) {
            self.untie(owner, &uid);
        }
        for owner in new_owners.iter().filter(|owner| !old_owners.contains(owner)) {
            self.dependents.entry(owner.clone()).or_default().insert(uid.clone());
        }
        // A waiting owner is processed again when a dependent leaves it or stops blocking it.
        let mut look: Vec<Uid> = Vec::new();
        if is_news {
            look.extend(old_owners.into_iter().filter(|owner| self.waits(owner)));
            if !node.owners.is_empty() || ends {
                look.push(uid.clone());
            }
        }
        if ends && is_news {
            look.extend(self.dependents(&uid).map(|dependent| dependent.uid.clone()));
        }
        self.nodes.insert(uid, node);
        look
    }

    /// Updates the version of an object without a relevant change.
    pub(super) fn touch(&mut self, uid: &str, resource_version: &str) {
        if let Some(node) = self.nodes.get_mut(uid) {
            resource_version.clone_into(&mut node.resource_version);
        }
    }

    /// Removes an object; returns the objects to process: its dependents, and owners that wait for it.
    pub(super) fn remove(&mut self, uid: &str) -> Vec<Uid> {
        let Some(node) = self.nodes.remove(uid) else { return Vec::new() };
        let mut look: Vec<Uid> = self.dependents(uid).map(|dependent| dependent.uid.clone()).collect();
        for owner in &node.owners {
            self.untie(&owner.uid, uid);
            if self.waits(&owner.uid) {
                look.push(owner.uid.clone());
            }
        }
        look
    }

    fn waits(&self, uid: &str) -> bool {
        self.nodes.get(uid).is_some_and(|node| node.is_deleting_foreground() || node.is_orphaning())
    }

    fn untie(&mut self, owner: &str, dependent: &str) {
        if let Some(dependents) = self.dependents.get_mut(owner) {
            dependents.remove(dependent);
            if dependents.is_empty() {
                self.dependents.remove(owner);
            }
        }
    }
}
