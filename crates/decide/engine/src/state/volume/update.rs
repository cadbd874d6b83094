//! Updates of volume objects, and what is assumed of them.

use std::collections::BTreeSet;
use std::collections::hash_map::Entry;
use std::hash::{BuildHasher, Hash};
use std::sync::Arc;

use berth_api::object::volume::{
    CsiNode, CsiStorageCapacity, PersistentVolume, PersistentVolumeClaim, StorageClass, VolumeAttachment,
};
use berth_api::object::{VolumeDecision, VolumeKind, VolumeObject};
use smallvec::SmallVec;

use super::{
    AttachmentRecord, CapacityRecord, ClaimKey, ClaimRecord, ClassRecord, CsiNodeRecord, DriverRecord,
    VolumeRecord,
};
use crate::state::State;
use crate::state::change::{Change, VolumeChange};
use crate::state::interned::intern::Symbol;
use crate::state::node::NodeId;
use crate::state::pod::PodId;

impl State {
    /// Adds or changes an object.
    pub(crate) fn set_volume_object(&mut self, object: VolumeObject) {
        match object {
            VolumeObject::PersistentVolume(volume) => self.set_volume(&volume),
            VolumeObject::PersistentVolumeClaim(claim) => self.set_claim(&claim),
            VolumeObject::StorageClass(class) => self.set_class(&class),
            VolumeObject::CsiNode(node) => self.set_csi_node(&node),
            VolumeObject::CsiDriver(driver) => {
                let record = DriverRecord::compile(&driver);
                let name = driver.metadata.name.as_str();
                let before = self.volumes.drivers.insert(name.into(), record).unwrap_or_default();
                if before.restricts_more_than(record) {
                    self.record_volume(|| VolumeChange::DriverChanged(name.into()));
                }
            }
            VolumeObject::CsiStorageCapacity(capacity) => self.set_capacity(&capacity),
            VolumeObject::VolumeAttachment(attachment) => self.set_attachment(&attachment),
        }
    }

    /// Removes an object, if it exists.
    pub(crate) fn remove_volume_object(&mut self, kind: VolumeKind, namespace: &str, name: &str) {
        match kind {
            VolumeKind::PersistentVolume => {
                let name = Arc::from(name);
                if let Some(before) = self.take_volume(&name) {
                    self.symbols.release_all(before.symbols());
                    self.volume_changed(&name);
                }
            }
            VolumeKind::PersistentVolumeClaim => {
                let Some(namespace) = self.symbols.get(namespace) else { return };
                let key = (namespace, Box::from(name));
                if let Some(before) = self.volumes.claims.remove(&key) {
                    remove(&mut self.volumes.claims_of_volume, &before.volume, &key);
                    self.claim_changed(&key);
                    self.symbols.release(namespace);
                }
            }
            VolumeKind::StorageClass => {
                if let Some(before) = self.volumes.classes.remove(name) {
                    self.symbols.release_all(before.symbols());
                    self.class_changed(name);
                }
            }
            VolumeKind::CsiNode => {
                let Some(node) = self.symbols.get(name) else { return };
                if self.volumes.csi_nodes.remove(&node).is_some() {
                    self.push_node(node);
                    self.symbols.release(node);
                    self.record_volume(|| VolumeChange::CsiNode(name.into()));
                }
            }
            VolumeKind::CsiDriver => {
                let before = self.volumes.drivers.remove(name).unwrap_or_default();
                if before.restricts_more_than(DriverRecord::default()) {
                    self.record_volume(|| VolumeChange::DriverChanged(name.into()));
                }
            }
            VolumeKind::CsiStorageCapacity => {
                let name = berth_api::object::NamespacedName::new(namespace, name);
                if let Some(before) = self.volumes.capacities.remove(&name) {
                    remove(&mut self.volumes.capacities_of_class, &before.class, &name);
                    self.capacity_changed(&before);
                    self.symbols.release_all(before.symbols());
                }
            }
            VolumeKind::VolumeAttachment => self.remove_attachment(name),
        }
    }

    fn set_claim(&mut self, claim: &PersistentVolumeClaim) {
        let mut record = ClaimRecord::compile(claim);
        let key: ClaimKey =
            (self.symbols.intern(&claim.metadata.namespace), claim.metadata.name.as_str().into());
        let mut moves = true;
        if let Some(before) = self.volumes.claims.remove(&key) {
            self.symbols.release(key.0);
            record.keep_assumption(&before);
            remove(&mut self.volumes.claims_of_volume, &before.volume, &key);
            moves = (&before.volume, &before.class, &before.controller)
                != (&record.volume, &record.class, &record.controller);
        }
        if !record.volume.is_empty() {
            self.volumes.claims_of_volume.entry(record.volume.clone()).or_default().insert(key.clone());
        }
        self.volumes.claims.insert(key.clone(), record);
        if moves {
            self.claim_changed(&key);
        }
        let (namespace, name) = (&claim.metadata.namespace, &claim.metadata.name);
        self.record_volume(|| VolumeChange::Claim {
            namespace: namespace.as_str().into(),
            name: name.as_str().into(),
        });
    }

    fn set_volume(&mut self, volume: &PersistentVolume) {
        let name: Arc<str> = volume.metadata.name.as_str().into();
        let mut record = VolumeRecord::compile(&mut self.symbols, volume);
        if let Some(before) = self.take_volume(&name) {
            record.keep_assumption(&before);
            if let Some((key, _)) = &record.assumed {
                self.symbols.retain(key.0);
            }
            self.symbols.release_all(before.symbols());
        }
        let names_node =
            |symbol: Symbol| record.offer.affinity.iter().any(|a| a.symbols().any(|s| s == symbol));
        if self.volumes.hosts.is_none() && names_node(self.volumes.hostname) {
            self.index_hosts();
        }
        let claim = record
            .claim()
            .map(|((namespace, name), _)| (self.symbols.shared_text(*namespace), Arc::from(&**name)));
        let class = Arc::from(&*record.class);
        self.put_volume(&name, record);
        self.volume_changed(&name);
        self.record_volume(|| VolumeChange::Volume { name, class, claim });
    }

    /// Takes a volume out of the table and its indexes.
    fn take_volume(&mut self, name: &Arc<str>) -> Option<VolumeRecord> {
        let record = self.volumes.volumes.remove(name)?;
        if record.is_free() {
            self.remove_free_volume(name, &record);
        }
        let volumes = &mut self.volumes;
        if let Some((key, _)) = record.claim() {
            remove(&mut volumes.reserved, key, name);
        }
        if let Some(handle) = record.source.handle() {
            remove(&mut volumes.of_handle, &handle, name);
        }
        Some(record)
    }

    fn put_volume(&mut self, name: &Arc<str>, record: VolumeRecord) {
        if record.is_free() {
            self.add_free_volume(name, &record);
        }
        let volumes = &mut self.volumes;
        if let Some((key, _)) = record.claim() {
            volumes.reserved.entry(key.clone()).or_default().insert(name.clone());
        }
        if let Some(handle) = record.source.handle() {
            volumes.of_handle.entry(handle).or_default().insert(name.clone());
        }
        volumes.volumes.insert(name.clone(), record);
    }

    fn set_class(&mut self, class: &StorageClass) {
        let record = ClassRecord::compile(&mut self.symbols, class);
        let name = class.metadata.name.as_str();
        let before = self.volumes.classes.insert(name.into(), record);
        let is_relevant = before.as_ref().is_none_or(|before| {
            self.volumes.classes.get(name).map(|now| &now.allowed_topologies)
                != Some(&before.allowed_topologies)
        });
        if let Some(before) = before {
            self.symbols.release_all(before.symbols());
        }
        self.class_changed(name);
        if is_relevant {
            self.record_volume(|| VolumeChange::Class(name.into()));
        }
    }

    fn set_csi_node(&mut self, csi_node: &CsiNode) {
        let record = CsiNodeRecord::compile(csi_node);
        let node = self.symbols.intern(&csi_node.metadata.name);
        let before = self.volumes.csi_nodes.insert(node, record.clone());
        if before.is_some() {
            self.symbols.release(node);
        }
        if before.as_ref() != Some(&record) {
            self.push_node(node);
            self.record_volume(|| VolumeChange::CsiNode(csi_node.metadata.name.as_str().into()));
        }
    }

    fn set_capacity(&mut self, capacity: &CsiStorageCapacity) {
        let record = CapacityRecord::compile(&mut self.symbols, capacity, self.settings.config.feature_gates);
        let name = capacity.metadata.namespaced_name();
        let before = self.volumes.capacities.remove(&name);
        if before.as_ref() == Some(&record) {
            self.volumes.capacities.insert(name, record);
            self.symbols.release_all(before.iter().flat_map(CapacityRecord::symbols));
            return;
        }
        let helps = before.as_ref().is_none_or(|before| {
            // A list may show an object that has replaced another one of its name.
            let is_another = (&record.class, &record.topology) != (&before.class, &before.topology);
            is_another || record.limit > before.limit
        });
        if let Some(before) = before {
            remove(&mut self.volumes.capacities_of_class, &before.class, &name);
            self.capacity_changed(&before);
            self.symbols.release_all(before.symbols());
        }
        self.volumes.capacities_of_class.entry(record.class.clone()).or_default().insert(name.clone());
        self.capacity_changed(&record);
        self.volumes.capacities.insert(name, record);
        if helps {
            self.record_volume(|| VolumeChange::Capacity(capacity.storage_class_name.as_str().into()));
        }
    }

    fn set_attachment(&mut self, attachment: &VolumeAttachment) {
        let name = attachment.metadata.name.as_str();
        let spec = &attachment.spec;
        if spec.attacher.is_empty() || spec.source.persistent_volume_name.is_empty() {
            return self.remove_attachment(name);
        }
        let record = AttachmentRecord {
            node: self.symbols.intern(&spec.node_name),
            driver: spec.attacher.as_str().into(),
            volume: spec.source.persistent_volume_name.as_str().into(),
        };
        if self.volumes.attachments.get(name) == Some(&record) {
            return self.symbols.release(record.node);
        }
        self.remove_attachment(name);
        self.push_node(record.node);
        let volumes = &mut self.volumes;
        volumes.attachments_of_node.entry(record.node).or_default().insert(name.into());
        volumes.attachments_of_volume.entry(record.volume.clone()).or_default().insert(name.into());
        volumes.attachments.insert(name.into(), record);
    }

    fn remove_attachment(&mut self, name: &str) {
        let Some(before) = self.volumes.attachments.remove(name) else { return };
        remove(&mut self.volumes.attachments_of_node, &before.node, name);
        remove(&mut self.volumes.attachments_of_volume, &before.volume, name);
        self.push_node(before.node);
        let node = self.symbols.shared_text(before.node);
        self.symbols.release(before.node);
        self.record_volume(|| VolumeChange::Detached(node));
    }

    /// Assumes what a decision about a pod in this namespace says, until newer objects come.
    pub(crate) fn assume_volumes(&mut self, namespace: Symbol, node: &str, decision: &VolumeDecision) {
        for (claim, volume) in &decision.bind {
            let key = (namespace, Box::from(claim.as_str()));
            let Some(uid) = self.volumes.claim(&key).map(|claim| claim.uid.clone()) else { continue };
            self.assume_volume(volume, Some((key, uid)));
        }
        for claim in &decision.provision {
            if let Some(claim) = self.volumes.claims.get_mut(&(namespace, Box::from(claim.as_str()))) {
                claim.assumed_node = Some(node.into());
            }
        }
    }

    /// Takes back what was assumed.
    pub(crate) fn restore_volumes(&mut self, namespace: Symbol, decision: &VolumeDecision) {
        for (claim, volume) in &decision.bind {
            let assumed = self.volumes.volume(volume).and_then(|volume| volume.assumed.as_ref());
            if assumed.is_some_and(|((of, name), _)| (*of, &**name) == (namespace, claim.as_str())) {
                self.assume_volume(volume, None);
            }
        }
        for claim in &decision.provision {
            let Some(record) = self.volumes.claims.get_mut(&(namespace, Box::from(claim.as_str()))) else {
                continue;
            };
            if record.assumed_node.take().is_some() {
                let namespace = self.symbols.shared_text(namespace);
                self.record_volume(|| VolumeChange::Claim { namespace, name: claim.as_str().into() });
            }
        }
    }

    fn assume_volume(&mut self, name: &str, assumed: Option<(ClaimKey, crate::state::pod::uid::Uid)>) {
        let name = Arc::from(name);
        let Some(mut record) = self.take_volume(&name) else { return };
        if let Some((key, _)) = &assumed {
            self.symbols.retain(key.0);
        }
        if let Some((key, _)) = std::mem::replace(&mut record.assumed, assumed) {
            self.symbols.release(key.0);
        }
        let is_free = record.is_free();
        let class: Arc<str> = Arc::from(&*record.class);
        self.put_volume(&name, record);
        if is_free {
            self.record_volume(|| VolumeChange::Volume { name, class, claim: None });
        }
    }

    /// Notes that a pod with volumes came to a node (1) or left it (−1).
    pub(in crate::state) fn count_volumes(&mut self, pod: PodId, node: NodeId, sign: i64) {
        let Some(pod_volumes) = self.pods.get(pod).volumes.clone() else { return };
        let volumes = &mut self.volumes;
        if sign > 0 {
            volumes.pods_on_node.entry(node).or_default().push(pod);
            for claim in &pod_volumes.claims {
                volumes.pods_of_claim.entry(claim.key.clone()).or_default().push(pod);
            }
            volumes.n_in_tree_pods += usize::from(!pod_volumes.in_tree.is_empty());
            return;
        }
        volumes.n_in_tree_pods -= usize::from(!pod_volumes.in_tree.is_empty());
        if let Entry::Occupied(mut pods) = volumes.pods_on_node.entry(node) {
            pods.get_mut().retain(|other| *other != pod);
            if pods.get().is_empty() {
                pods.remove();
            }
        }
        for claim in &pod_volumes.claims {
            if let Entry::Occupied(mut pods) = volumes.pods_of_claim.entry(claim.key.clone()) {
                pods.get_mut().retain(|other| *other != pod);
                if pods.get().is_empty() {
                    pods.remove();
                }
            }
        }
    }

    /// Notes the hostname label of a node; `None` if it is removed.
    pub(in crate::state) fn set_host(&mut self, node: NodeId, before: Option<Symbol>, now: Option<Symbol>) {
        let Some(hosts) = &mut self.volumes.hosts else { return };
        if before == now {
            return;
        }
        if let Some(before) = before
            && let Entry::Occupied(mut nodes) = hosts.entry(before)
        {
            nodes.get_mut().retain(|other| *other != node);
            if nodes.get().is_empty() {
                nodes.remove();
            }
        }
        if let Some(now) = now {
            hosts.entry(now).or_default().push(node);
        }
    }

    fn index_hosts(&mut self) {
        let mut hosts = rustc_hash::FxHashMap::<Symbol, SmallVec<[NodeId; 1]>>::default();
        for (id, node) in self.nodes.iter() {
            if let Some(host) = node.labels.get(self.volumes.hostname) {
                hosts.entry(host).or_default().push(id);
            }
        }
        self.volumes.hosts = Some(hosts);
    }

    fn push_node(&mut self, name: Symbol) {
        if let Some(id) = self.nodes.find(name) {
            self.changes.push(id);
        }
    }

    /// The volumes of the nodes on which pods use the claim may have changed.
    fn claim_changed(&mut self, key: &ClaimKey) {
        let nodes: SmallVec<[NodeId; 2]> =
            self.volumes.pods_of_claim(key).iter().filter_map(|pod| self.pods.get(*pod).node).collect();
        for node in nodes {
            self.changes.push(node);
            let name = self.nodes.get(node).name;
            let name = self.symbols.shared_text(name);
            self.record_volume(|| VolumeChange::InUse(name));
        }
    }

    fn volume_changed(&mut self, name: &str) {
        let volumes = &self.volumes;
        let claims: Vec<_> = volumes.claims_of_volume.get(name).into_iter().flatten().cloned().collect();
        let attachments = volumes.attachments_of_volume.get(name).into_iter().flatten();
        let nodes: Vec<_> = attachments.filter_map(|a| Some(volumes.attachments.get(a)?.node)).collect();
        claims.iter().for_each(|key| self.claim_changed(key));
        for node in nodes {
            self.push_node(node);
            let name = self.symbols.shared_text(node);
            self.record_volume(|| VolumeChange::InUse(name));
        }
    }

    /// Claims of the class that have no volume yet are counted by its provisioner.
    fn class_changed(&mut self, class: &str) {
        let is_concerned = |key: &&ClaimKey| self.volumes.claim(key).is_some_and(|c| *c.class == *class);
        let concerned: Vec<_> = self.volumes.pods_of_claim.keys().filter(is_concerned).cloned().collect();
        concerned.iter().for_each(|key| self.claim_changed(key));
    }

    fn capacity_changed(&mut self, capacity: &CapacityRecord) {
        for (id, node) in self.nodes.iter() {
            if capacity.is_accessible(&self.symbols, node) {
                self.changes.push(id);
            }
        }
    }

    fn record_volume(&mut self, change: impl FnOnce() -> VolumeChange) {
        if self.recorded.is_some() {
            self.record(Change::Volume(change()));
        }
    }
}

/// Removes a value from the set of a key, and the key with the last value.
fn remove<K, V, Q, R, S>(map: &mut std::collections::HashMap<K, BTreeSet<V>, S>, key: &Q, value: &R)
where
    K: Eq + Hash + std::borrow::Borrow<Q>,
    Q: Eq + Hash + ?Sized,
    V: Ord + std::borrow::Borrow<R>,
    R: Ord + ?Sized,
    S: BuildHasher,
{
    if let Some(values) = map.get_mut(key) {
        values.remove(value);
        if values.is_empty() {
            map.remove(key);
        }
    }
}
