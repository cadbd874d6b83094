//! Updates: nodes, namespaces, services and assigned pods are set and removed in any order.
//!
//! Every update keeps the counters right at a cost that follows the terms concerned: adding or removing
//! a pod touches the matchers it satisfies and the terms it owns, and nothing else.

use std::sync::Arc;

use berth_api::object::{Namespace, Node, Pod, Service};
use berth_rules::{NodeFeatures, Requirement, Selector, TaintEffect};

use super::State;
use super::change::{Change, NodeParts, PodAt, TrackedChange};
use super::counting::count_placed;
use super::device::PodDevices;
use super::group::Membership;
use super::interned::intern::{Labels, Symbol};
use super::interned::lease::Held;
use super::node::{Allocatable, NodeId, NodeRecord, Resources, TaintRecord};
use super::pod::prepared::PreparedPod;
use super::pod::signature::PodLabels;
use super::pod::uid::Uid;
use super::pod::{PodId, PodRecord, Precedence};
use super::volume::PodVolumes;

impl State {
    /// Adds or changes a namespace.
    pub(crate) fn set_namespace(&mut self, namespace: &Namespace) {
        let name = self.symbols.intern(&namespace.metadata.name);
        let labels = Labels::intern(&mut self.symbols, &namespace.metadata.labels);
        let is_changed = self.namespaces.labels(name) != Some(&labels);
        if let Some(before) = self.namespaces.set(name, Some(labels)) {
            self.symbols.release_all(before.symbols().chain([name]));
        }
        if is_changed {
            self.namespace_changed(name);
        }
    }

    /// Removes a namespace. Pods in it stay until they are removed themselves.
    pub(crate) fn remove_namespace(&mut self, name: &str) {
        let Some(name) = self.symbols.get(name) else { return };
        if let Some(before) = self.namespaces.set(name, None) {
            self.namespace_changed(name);
            self.symbols.release_all(before.symbols().chain([name]));
        }
    }

    fn namespace_changed(&mut self, name: Symbol) {
        if self.recorded.is_some() {
            self.record(Change::NamespaceChanged(self.symbols.shared_text(name)));
        }
        if self.matchers.n_with_namespace_labels == 0 {
            return;
        }
        for id in self.signatures.in_namespace(name) {
            let signature = self.signatures.get(id);
            let (matched, matched_by_existing) = self.match_labels(&signature.of);
            if (&matched, &matched_by_existing) == (&signature.matched, &signature.matched_by_existing) {
                continue;
            }
            self.changes.epochs.layout += 1;
            let signature = self.signatures.table.get_mut(id);
            signature.matched_by_existing = matched_by_existing;
            let before = std::mem::replace(&mut signature.matched, matched.clone());
            let gained = matched.iter().filter(|m| before.binary_search(m).is_err()).map(|m| (*m, 1));
            let lost = before.iter().filter(|m| matched.binary_search(m).is_err()).map(|m| (*m, -1));
            for (matcher, sign) in gained.chain(lost) {
                let signature = self.signatures.get(id);
                for matching in &mut self.matchers.table.get_mut(matcher).matching {
                    let (topology, counter) = (matching.topology, &mut matching.counter);
                    count_placed(&self.topologies, topology, counter, signature, sign);
                }
                self.count_self_matches(matcher, id, sign);
                self.track(|| TrackedChange::Matches(matcher, id));
            }
        }
    }

    /// Adds or changes a service, whose selector default spread constraints use.
    pub(crate) fn set_service(&mut self, service: &Service) {
        let requirement =
            |(key, value): (&String, &String)| Requirement::In(key.clone(), vec![value.clone()]);
        let requirements: Vec<_> = service.spec.selector.iter().map(requirement).collect();
        let selector = (!requirements.is_empty()).then(|| Selector::new(requirements));
        self.change_service(&service.metadata.namespace, &service.metadata.name, selector);
    }

    pub(crate) fn remove_service(&mut self, namespace: &str, name: &str) {
        self.change_service(namespace, name, None);
    }

    fn change_service(&mut self, namespace: &str, name: &str, selector: Option<Selector>) {
        self.mention_selector(selector.as_ref());
        let before = self.workloads.set_service(namespace, name, selector);
        self.selector_changed(namespace, before);
    }

    /// Sets (or with `None` removes) the selector of a `ReplicationController`, `ReplicaSet` or
    /// `StatefulSet`, which default spread constraints of its pods use.
    pub(crate) fn set_owner_selector(
        &mut self,
        kind: &str,
        namespace: &str,
        name: &str,
        selector: Option<Selector>,
    ) {
        self.mention_selector(selector.as_ref());
        let before = self.workloads.set_owner(kind, namespace, name, selector);
        self.selector_changed(namespace, before);
    }

    fn mention_selector(&mut self, selector: Option<&Selector>) {
        let requirements = selector.into_iter().flat_map(Selector::requirements);
        let keys: Vec<_> = requirements.map(|r| self.symbols.intern(r.key())).collect();
        self.mention(&keys);
    }

    fn selector_changed(&mut self, namespace: &str, before: Option<Selector>) {
        self.changes.epochs.layout += 1;
        if let Some(namespace) = self.symbols.get(namespace) {
            self.resolve_defaults_again(namespace);
        }
        let requirements = before.iter().flat_map(Selector::requirements);
        let keys: Vec<_> = requirements.filter_map(|r| self.symbols.get(r.key())).collect();
        self.unmention(keys.iter().copied());
        self.symbols.release_all(keys);
        self.record(Change::SelectorChanged);
    }

    /// Adds or changes a node. Pods that are assigned to it by name begin to count.
    pub(crate) fn set_node(&mut self, node: &Node) {
        let name = self.symbols.intern(&node.metadata.name);
        let mut record = self.node_record(name, node);
        if let Some(id) = self.nodes.find(name) {
            let before = self.nodes.get(id);
            let parts = NodeParts {
                labels: before.labels != record.labels || before.attributes_epoch != record.attributes_epoch,
                taints: before.taints != record.taints,
                allocatable: before.allocatable_id != record.allocatable_id,
                unschedulable: before.unschedulable != record.unschedulable,
                declared_features: before.declared_features != record.declared_features,
                has_pods: !before.pods.is_empty(),
            };
            if before.images != record.images {
                self.changes.epochs.images += 1;
            }
            self.changes.push(id);
            if parts.labels {
                let host = before.labels.get(self.volumes.hostname);
                self.set_host(id, host, record.labels.get(self.volumes.hostname));
                self.count_node(id, -1);
                self.set_topologies(id, Some(&record.labels));
            }
            record.take_pods(self.nodes.get_mut(id));
            let before = std::mem::replace(self.nodes.get_mut(id), record);
            if parts.labels {
                self.count_node(id, 1);
            }
            self.release_node(before);
            if parts.any() {
                self.changes.places += 1;
                self.record_node(id, |name| Change::NodeChanged(name, parts));
            }
            return;
        }
        let labels = record.labels.clone();
        let (id, reused) = self.nodes.insert(record);
        self.set_topologies(id, Some(&labels));
        self.set_host(id, None, labels.get(self.volumes.hostname));
        if self.name_order.insert(self.symbols.shared_text(name), id) || reused {
            self.changes.epochs.layout += 1;
        }
        self.changes.epochs.images += 1;
        self.changes.push(id);
        self.changes.places += 1;
        self.record_node(id, Change::NodeAdded);
        for pod in self.pods.unknown_node_pods.remove(&name).unwrap_or_default() {
            self.attach(pod, id);
        }
    }

    /// A node without pods; its images count.
    fn node_record(&mut self, name: Symbol, node: &Node) -> NodeRecord {
        let labels = self.labels_of_node(node);
        let symbols = &mut self.symbols;
        let taints = node.spec.taints.iter().map(|t| TaintRecord {
            key: symbols.intern(&t.key),
            value: symbols.intern(&t.value),
            effect: TaintEffect::parse(&t.effect),
        });
        let taints = taints.collect();
        // As the API server defaults it: a node that says only what it has offers all of it.
        let offered = node.status.allocatable.as_ref().or(node.status.capacity.as_ref());
        let allocatable = offered.map(|list| Allocatable::compile(symbols, list)).unwrap_or_default();
        let images = self.images.add(symbols, &node.status.images);
        let allocatable_id = match self.allocatables.find(&allocatable) {
            Some(id) => {
                symbols.release_all(allocatable.resources.scalar.iter().map(|(name, _)| *name));
                self.allocatables.retain(id);
                id
            }
            None => self.allocatables.insert(Arc::new(allocatable)),
        };
        NodeRecord {
            name,
            labels,
            attributes_epoch: self.attributes.epoch,
            unschedulable: node.spec.unschedulable,
            declared_features: NodeFeatures::declared(&node.status.declared_features),
            taints,
            allocatable: self.allocatables.get(allocatable_id).clone(),
            allocatable_id,
            images,
            requested: Resources::default(),
            non_zero_milli_cpu: 0,
            non_zero_memory: 0,
            ports: Vec::new(),
            pods: Vec::new(),
        }
    }

    fn release_node(&mut self, record: NodeRecord) {
        self.images.remove(&record.images);
        self.symbols.release_all(record.symbols());
        if let Some(allocatable) = self.allocatables.release(record.allocatable_id) {
            self.symbols.release_all(allocatable.resources.scalar.iter().map(|(name, _)| *name));
        }
    }

    /// Removes a node. Its pods stay assigned to it by name, and count nowhere.
    pub(crate) fn remove_node(&mut self, name: &str) {
        let Some(id) = self.find_node(name) else { return };
        for pod in self.nodes.get(id).pods.clone() {
            self.detach(pod);
            let name = self.pods.get(pod).node_name;
            self.pods.unknown_node_pods.entry(name).or_default().push(pod);
        }
        self.set_topologies(id, None);
        self.set_host(id, self.nodes.get(id).labels.get(self.volumes.hostname), None);
        self.name_order.remove(name);
        self.changes.epochs.images += 1;
        self.changes.push(id);
        if let Some(record) = self.nodes.remove(id) {
            self.release_node(record);
        }
        self.changes.places += 1;
        self.record(Change::NodeRemoved);
    }

    /// Adds or changes an assigned pod (one with `spec.nodeName`). A pod that is not assigned, or has
    /// ended, is removed instead.
    ///
    /// The pod is taken as admitted: defaulted, with matchLabelKeys merged. Returns whether it counts now: it
    /// does not while its node is unknown.
    pub(crate) fn set_pod(&mut self, pod: &Pod) -> bool {
        if pod.spec.node_name.is_empty() || pod.is_terminal() {
            self.remove_pod(&pod.metadata.namespace, &pod.metadata.name);
            return false;
        }
        let (rule_set, label_set) = self.sets_of(pod);
        let node_name = self.symbols.intern(&pod.spec.node_name);
        let PodLabels { namespace, terminating, .. } = self.label_sets.get(label_set).of;
        let membership = self.membership(pod);
        let priority = self.priority_of(pod, membership.as_ref());
        let record = PodRecord {
            name: pod.metadata.name.as_str().into(),
            uid: Uid::new(&pod.metadata.uid),
            precedence: Precedence { priority, ..Precedence::of(pod) },
            rule_set,
            label_set,
            signature: self.label_sets.get(label_set).signature,
            namespace,
            node_name,
            node: None,
            terminating,
            volumes: PodVolumes::parse(pod, namespace).map(Arc::new),
            devices: PodDevices::parse(pod).map(Arc::new),
            group: None,
        };
        self.assign_record(record, membership.as_ref())
    }

    /// Assigns a pod to a node; returns whether the node is known, so that the pod counts.
    pub(crate) fn assign(&mut self, pod: &PreparedPod, node_name: &str) -> bool {
        self.rule_sets.retain(pod.rule_set);
        self.label_sets.retain(pod.label_set);
        let record = PodRecord {
            name: pod.name.clone(),
            uid: pod.uid.clone(),
            precedence: pod.precedence,
            rule_set: pod.rule_set,
            label_set: pod.label_set,
            signature: self.label_sets.get(pod.label_set).signature,
            namespace: pod.namespace,
            node_name: self.symbols.intern(node_name),
            node: None,
            terminating: pod.terminating,
            volumes: pod.volumes.clone(),
            devices: pod.devices.clone(),
            group: None,
        };
        self.assign_record(record, pod.membership.as_ref())
    }

    /// Adds labels to an assigned pod, if it exists; they replace those with the same keys.
    pub(crate) fn add_pod_labels(&mut self, namespace: &str, name: &str, labels: &[(String, String)]) {
        let Some(id) = self.find_pod(namespace, name) else { return };
        let record = self.pods.get(id).clone();
        let of = &self.label_sets.get(record.label_set).of;
        let of = PodLabels { labels: of.labels.with(&mut self.symbols, labels), ..*of };
        for symbol in [record.namespace, record.node_name] {
            self.symbols.retain(symbol);
        }
        self.rule_sets.retain(record.rule_set);
        let label_set = self.label_set(of);
        let signature = self.label_sets.get(label_set).signature;
        let membership = self.membership_of(id);
        let record = PodRecord { label_set, signature, node: None, group: None, ..record };
        self.assign_record(record, membership.as_ref());
    }

    fn assign_record(&mut self, mut record: PodRecord, membership: Option<&Membership>) -> bool {
        if let Some(there) = self.pods.find(record.namespace, &record.name) {
            let is_member = self.is_member(there, membership);
            let before = self.pods.get_mut(there);
            if is_member && before.is_as(&record) {
                let node = before.node;
                before.uid = record.uid.clone();
                if before.label_set != record.label_set {
                    std::mem::swap(&mut before.label_set, &mut record.label_set);
                    node.into_iter().for_each(|node| self.relabelled.push(node));
                }
                self.release_pod(&record);
                return node.is_some();
            }
            self.remove_record(there);
        }
        let node_name = record.node_name;
        let id = self.pods.insert(record);
        let node = self.nodes.find(node_name);
        match node {
            Some(node) => self.attach(id, node),
            None => self.pods.unknown_node_pods.entry(node_name).or_default().push(id),
        }
        if let Some(membership) = membership {
            self.join_group(id, membership);
        }
        node.is_some()
    }

    fn release_pod(&mut self, record: &PodRecord) {
        self.symbols.release(record.node_name);
        self.release(Held::LabelSet(record.label_set));
        self.release(Held::RuleSet(record.rule_set));
    }

    pub(crate) fn remove_pod(&mut self, namespace: &str, name: &str) {
        if let Some(id) = self.find_pod(namespace, name) {
            self.remove_record(id);
        }
    }

    /// Removes the assigned pod of the same namespace and name, if there is one.
    pub(crate) fn forget(&mut self, pod: &PreparedPod) {
        if let Some(id) = self.pods.find(pod.namespace, &pod.name) {
            self.remove_record(id);
        }
    }

    pub(crate) fn remove_record(&mut self, id: PodId) {
        if self.pods.get(id).node.is_some() {
            self.detach(id);
        }
        let Some(record) = self.pods.remove(id) else { return };
        if let Some(group) = record.group {
            self.leave_group(id, group);
        }
        if let Some(unknown_node_pods) = self.pods.unknown_node_pods.get_mut(&record.node_name) {
            unknown_node_pods.retain(|p| *p != id);
            if unknown_node_pods.is_empty() {
                self.pods.unknown_node_pods.remove(&record.node_name);
            }
        }
        self.release_pod(&record);
    }

    fn attach(&mut self, pod: PodId, node: NodeId) {
        self.pods.get_mut(pod).node = Some(node);
        self.nodes.get_mut(node).pods.push(pod);
        self.account(pod, node, 1);
        self.track(|| TrackedChange::Attached(pod));
        self.record_pod(pod, Change::PodAttached);
    }

    fn detach(&mut self, pod: PodId) {
        let Some(node) = self.pods.get(pod).node else { return };
        if let Some(tracked) = &mut self.tracked {
            tracked.push(TrackedChange::Detached(pod, self.pods.get(pod).uid.clone()));
        }
        self.pods.get_mut(pod).node = None;
        let pods = &mut self.nodes.get_mut(node).pods;
        if let Some(i) = pods.iter().position(|p| *p == pod) {
            pods.swap_remove(i);
        }
        self.account(pod, node, -1);
        self.record_pod(pod, Change::PodDetached);
    }

    fn record_pod(&mut self, pod: PodId, change: impl FnOnce(PodAt) -> Change) {
        if self.recorded.is_some() {
            let PodRecord { rule_set, signature, node_name, .. } = *self.pods.get(pod);
            let volumes = self.pods.get(pod).volumes.clone();
            self.rule_sets.retain(rule_set);
            self.signatures.table.retain(signature);
            let _lease = self.lease([Held::RuleSet(rule_set), Held::Signature(signature)]);
            let (node, places) = (self.symbols.shared_text(node_name), self.changes.places);
            self.record(change(PodAt { rule_set, signature, node, places, volumes, _lease }));
        }
    }

    fn record_node(&mut self, node: NodeId, change: impl FnOnce(Arc<str>) -> Change) {
        if self.recorded.is_some() {
            self.record(change(self.symbols.shared_text(self.nodes.get(node).name)));
        }
    }

    fn set_topologies(&mut self, node: NodeId, labels: Option<&Labels>) {
        if self.topologies.set_node(node, labels) {
            self.changes.epochs.layout += 1;
        }
    }

    fn account(&mut self, pod: PodId, node: NodeId, sign: i64) {
        self.changes.push(node);
        let record = self.pods.get(pod);
        if record.volumes.is_some() {
            self.count_volumes(pod, node, sign);
        }
        if let Some(devices) = self.pods.get(pod).devices.clone() {
            self.account_devices(node, &devices, sign);
        }
        let record = self.pods.get(pod);
        let (rule_set, signature) = (record.rule_set, record.signature);
        let compiled = self.rule_sets.get(rule_set);
        let rules = compiled.rules();
        self.nodes.get_mut(node).account(&compiled.requests, &rules.requests, &rules.host_ports, sign);
        self.count(rule_set, signature, node, sign);
    }
}
