//! Updates: nodes, namespaces, services and assigned pods are set and removed in any order.
//!
//! Every update keeps the counters right at a cost that follows the terms concerned: adding or removing
//! a pod touches the matchers it satisfies and the terms it owns, and nothing else.

use berth_api::object::{Namespace, Node, Pod, Service};
use berth_api::rules::{Selector, TaintEffect};

use super::State;
use super::change::{Change, NodeParts, PodAt, TrackedChange};
use super::counting::count_placed;
use super::intern::{Labels, Symbol};
use super::node::{NodeId, NodeRecord, Resources, TaintRecord};
use super::pod::{PodId, PodRecord};
use super::prepared::PreparedPod;
use super::topology::TopologyId;

impl State {
    /// Adds or changes a namespace.
    pub(crate) fn set_namespace(&mut self, namespace: &Namespace) {
        let name = self.symbols.intern(&namespace.metadata.name);
        let labels = Labels::intern(&mut self.symbols, &namespace.metadata.labels);
        self.change_namespace(name, Some(labels));
    }

    /// Removes a namespace. Pods in it stay: they go by themselves.
    pub(crate) fn remove_namespace(&mut self, name: &str) {
        let name = self.symbols.intern(name);
        self.change_namespace(name, None);
    }

    fn change_namespace(&mut self, name: Symbol, labels: Option<Labels>) {
        if !self.namespaces.set(name, labels) {
            return;
        }
        self.record(Change::NamespaceChanged(name));
        self.changes.epochs.layout += 1;
        if !self.matchers.iter().any(|(_, m)| m.looks_at_namespace_labels()) {
            return;
        }
        let concerned: Vec<_> =
            self.signatures.iter().filter(|(_, i)| i.key.namespace == name).map(|(id, _)| id).collect();
        for id in concerned {
            let (matched, matched_by_existing) = self.match_signature(&self.signatures.get(id).key);
            let before = std::mem::take(&mut self.signatures.get_mut(id).matched);
            let gained = matched.iter().filter(|m| before.binary_search(m).is_err()).map(|m| (*m, 1));
            let lost = before.iter().filter(|m| matched.binary_search(m).is_err()).map(|m| (*m, -1));
            for (matcher, sign) in gained.chain(lost) {
                let placed = self.signatures.get(id).placed.iter();
                for (topology, counter) in &mut self.matchers.get_mut(matcher).matching {
                    count_placed(&self.topologies, *topology, counter, placed.clone(), sign);
                }
                self.track(|| TrackedChange::Matches(matcher, id));
            }
            let signature = self.signatures.get_mut(id);
            signature.matched = matched;
            signature.matched_by_existing = matched_by_existing;
        }
    }

    /// Adds or changes a service, whose selector default spread constraints use.
    pub(crate) fn set_service(&mut self, service: &Service) {
        let namespace = self.symbols.intern(&service.metadata.namespace);
        let selector =
            (!service.spec.selector.is_empty()).then(|| service.spec.selector.clone().into_iter().collect());
        self.mention_text(service.spec.selector.keys());
        self.changes.epochs.layout += 1;
        self.workloads.set_service(namespace, &service.metadata.name, selector);
        self.record(Change::SelectorChanged);
    }

    /// Removes a service.
    pub(crate) fn remove_service(&mut self, namespace: &str, name: &str) {
        let namespace = self.symbols.intern(namespace);
        self.changes.epochs.layout += 1;
        self.workloads.set_service(namespace, name, None);
        self.record(Change::SelectorChanged);
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
        let namespace = self.symbols.intern(namespace);
        let keys: Vec<_> =
            selector.iter().flat_map(|s| s.requirements()).map(|r| r.key().to_owned()).collect();
        self.mention_text(keys.iter());
        self.changes.epochs.layout += 1;
        self.workloads.set_owner(kind, namespace, name, selector);
        self.record(Change::SelectorChanged);
    }

    /// Adds or changes a node. Pods that were waiting for it begin to count.
    pub(crate) fn set_node(&mut self, node: &Node) {
        let symbols = &mut self.symbols;
        let name = symbols.intern(&node.metadata.name);
        let labels = Labels::intern(symbols, &node.metadata.labels);
        let taints = node.spec.taints.iter().map(|t| TaintRecord {
            key: symbols.intern(&t.key),
            value: symbols.intern(&t.value),
            effect: TaintEffect::parse(&t.effect),
        });
        let taints = taints.collect();
        // As the API server defaults it: a node that says only what it has offers all of it.
        let offered = node.status.allocatable.as_ref().or(node.status.capacity.as_ref());
        let (allocatable, allowed_pods) =
            offered.map(|list| Resources::of_node(symbols, list)).unwrap_or_default();

        if let Some(id) = self.nodes.find(name) {
            let record = self.nodes.get(id);
            let parts = NodeParts {
                labels: record.labels != labels,
                taints: record.taints != taints,
                allocatable: record.allocatable != allocatable || record.allowed_pods != allowed_pods,
                unschedulable: record.unschedulable != node.spec.unschedulable,
                has_pods: !record.pods.is_empty(),
            };
            self.images.remove(&self.nodes.get(id).images);
            let images = self.images.add(&mut self.symbols, &node.status.images);
            if self.nodes.get(id).images != images {
                self.changes.epochs.images += 1;
            }
            self.changes.push(id);
            if parts.labels {
                self.count_node(id, -1);
                self.set_topologies(id, Some(&labels));
                self.nodes.get_mut(id).labels = labels;
                self.count_node(id, 1);
            }
            let record = self.nodes.get_mut(id);
            record.unschedulable = node.spec.unschedulable;
            record.taints = taints;
            record.allocatable = allocatable;
            record.allowed_pods = allowed_pods;
            record.images = images;
            if parts.any() {
                self.changes.places += u64::from(parts.labels || parts.taints || parts.unschedulable);
                self.record(Change::NodeChanged(name, parts));
            }
            return;
        }

        let images = self.images.add(&mut self.symbols, &node.status.images);
        let (id, reused) = self.nodes.insert(NodeRecord {
            name,
            labels,
            unschedulable: node.spec.unschedulable,
            taints,
            allocatable,
            allowed_pods,
            images,
            requested: Resources::default(),
            non_zero_milli_cpu: 0,
            non_zero_memory: 0,
            ports: Vec::new(),
            pods: Vec::new(),
        });
        let labels = self.nodes.get(id).labels.clone();
        self.set_topologies(id, Some(&labels));
        if self.name_order.insert(&node.metadata.name, id) || reused {
            self.changes.epochs.layout += 1;
        }
        self.changes.epochs.images += 1;
        self.changes.push(id);
        self.changes.places += 1;
        self.record(Change::NodeAdded(name));
        for pod in self.pods.unknown_node_pods.remove(&name).unwrap_or_default() {
            self.attach(pod, id);
        }
    }

    /// Removes a node. Its pods stay assigned to it by name, and count nowhere.
    pub(crate) fn remove_node(&mut self, name: &str) {
        let Some(id) = self.symbols.get(name).and_then(|name| self.nodes.find(name)) else { return };
        for pod in self.nodes.get(id).pods.clone() {
            self.detach(pod);
            let name = self.pods.get(pod).node_name;
            self.pods.unknown_node_pods.entry(name).or_default().push(pod);
        }
        self.set_topologies(id, None);
        self.name_order.remove(name);
        self.changes.epochs.images += 1;
        self.changes.push(id);
        if let Some(record) = self.nodes.remove(id) {
            self.images.remove(&record.images);
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
        let mut prepared = self.prepare(pod);
        match prepared.node_name.take() {
            Some(node) => self.assign(&prepared, node),
            None => false,
        }
    }

    /// Assigns a pod to a node; tells whether the node is known, so that the pod counts.
    pub(crate) fn assign(&mut self, pod: &PreparedPod, node_name: Symbol) -> bool {
        if let Some(there) = self.pods.find(pod.namespace, &pod.name) {
            let record = self.pods.get(there);
            if record.is_as(pod, node_name) {
                let counts = record.node.is_some();
                if record.uid != pod.uid {
                    self.pods.get_mut(there).uid = pod.uid.clone();
                }
                return counts;
            }
            self.remove_record(there);
        }
        let signature = self.signature_of(pod.namespace, pod.terminating, &pod.labels);
        let id = self.pods.insert(PodRecord {
            namespace: pod.namespace,
            name: pod.name.clone(),
            uid: pod.uid.clone(),
            labels: pod.labels.clone(),
            terminating: pod.terminating,
            precedence: pod.precedence,
            rule_set: pod.rule_set,
            signature,
            node_name,
            node: None,
        });
        match self.nodes.find(node_name) {
            Some(node) => {
                self.attach(id, node);
                true
            }
            None => {
                self.pods.unknown_node_pods.entry(node_name).or_default().push(id);
                false
            }
        }
    }

    /// Removes a pod, if it is there.
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
        if let Some(record) = self.pods.remove(id)
            && let Some(unknown_node_pods) = self.pods.unknown_node_pods.get_mut(&record.node_name)
        {
            unknown_node_pods.retain(|p| *p != id);
            if unknown_node_pods.is_empty() {
                self.pods.unknown_node_pods.remove(&record.node_name);
            }
        }
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
            let places = self.changes.places;
            self.record(change(PodAt { rule_set, signature, node: node_name, places }));
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
        let (rule_set, signature) = (record.rule_set, record.signature);
        let compiled = self.rule_sets.get(rule_set);
        let rules = compiled.rules();
        self.nodes.get_mut(node).account(&compiled.requests, &rules.requests, &rules.host_ports, sign);
        self.count(rule_set, signature, node, sign);
    }

    pub(crate) fn topology(&mut self, keys: Vec<Symbol>) -> TopologyId {
        self.topologies.intern(keys, self.nodes.iter().map(|(id, n)| (id, &n.labels)))
    }
}
