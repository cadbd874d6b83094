//! The cluster: nodes, namespaces, assigned pods, and the counters kept over them.
//!
//! Every change keeps the counters right at a cost that follows the terms concerned: adding or removing
//! a pod touches the matchers it satisfies and the terms it carries, and nothing else.

use berth_api::config::SchedulerConfig;
use berth_api::object::{Namespace, Node, Pod, Service};
use berth_api::rules::{PodRules, Selector, TaintEffect};
use rustc_hash::FxHashSet;

use super::change::ChangeLog;
use super::class::Classes;
use super::counting::count_placed;
use super::identity::Identities;
use super::image::Images;
use super::incoming::PreparedPod;
use super::intern::{Labels, Symbol, Symbols};
use super::matcher::Matchers;
use super::name_order::NameOrder;
use super::namespace::Namespaces;
use super::node::{NodeId, NodeRecord, Nodes, Resources, TaintRecord};
use super::pod::{PodId, PodRecord, Pods};
use super::profile::ProfileState;
use super::topology::{Topologies, TopologyId};
use super::workload::WorkloadSelectors;
use crate::nomination::Nominations;
use crate::view::Views;
use crate::violation::watch::Watch;
use crate::wake::{Change, ClusterChange, NodeParts, PodAt};

/// Settings that hold for the life of a [`Cluster`].
#[derive(Clone, Debug)]
pub struct Settings {
    /// Scheduling profiles.
    pub config: SchedulerConfig,
    /// Whether the proposals' fields, Gt/Lt in pod terms and exempt namespaces are in force.
    pub extensions: bool,
    /// Namespaces whose pods neither block nor are blocked by anti-affinity of the proposal.
    pub exempt_namespaces: Vec<String>,
    /// Whether exempt namespaces are also exempt from v1 anti-affinity.
    pub exempt_from_v1: bool,
    /// The label keys that "all topologies" stands for.
    pub all_topologies: Vec<String>,
}

impl Default for Settings {
    fn default() -> Self {
        Settings {
            config: SchedulerConfig::default(),
            extensions: true,
            exempt_namespaces: vec!["kube-system".to_owned()],
            exempt_from_v1: false,
            all_topologies: [
                "kubernetes.io/hostname",
                "topology.kubernetes.io/zone",
                "topology.kubernetes.io/region",
            ]
            .map(str::to_owned)
            .to_vec(),
        }
    }
}

impl Settings {
    /// kube-scheduler's behaviour and nothing else.
    pub fn strict_v1(config: SchedulerConfig) -> Self {
        Settings { config, extensions: false, ..Settings::default() }
    }
}

/// The state of a cluster, indexed for decisions.
///
/// Nodes, namespaces, services and assigned pods are set and removed in any order; a pod whose node is
/// not known counts nowhere until the node comes. Nothing here fails.
pub struct Cluster {
    pub(crate) settings: Settings,
    pub(crate) profiles: Vec<ProfileState>,
    pub(crate) symbols: Symbols,
    pub(crate) namespaces: Namespaces,
    pub(crate) exempt_namespaces: FxHashSet<Symbol>,
    pub(crate) nodes: Nodes,
    pub(crate) pods: Pods,
    pub(crate) images: Images,
    pub(crate) topologies: Topologies,
    pub(crate) matchers: Matchers,
    pub(crate) identities: Identities,
    pub(crate) classes: Classes,
    pub(crate) workloads: WorkloadSelectors,
    pub(crate) changes: ChangeLog,
    pub(crate) name_order: NameOrder,
    pub(crate) views: Views,
    pub(crate) nominations: Nominations,
    /// Changes since they were last taken, if they are noted at all.
    pub(crate) noted: Option<Vec<ClusterChange>>,
    /// Which rules required during execution are broken, if that is watched.
    pub(crate) watch: Option<Box<Watch>>,
    /// Label keys that some selector mentions.
    pub(crate) mentioned: FxHashSet<Symbol>,
    /// The empty text.
    pub(crate) empty: Symbol,
}

impl Cluster {
    /// An empty cluster.
    pub fn new(settings: Settings) -> Cluster {
        let mut symbols = Symbols::default();
        let profiles = settings.config.profiles.iter();
        let profiles = profiles.map(|p| ProfileState::new(&mut symbols, p.clone())).collect();
        let exempt = settings.exempt_namespaces.iter().filter(|_| settings.extensions);
        let exempt_namespaces = exempt.map(|n| symbols.intern(n)).collect();
        Cluster {
            empty: symbols.intern(""),
            settings,
            profiles,
            symbols,
            namespaces: Namespaces::default(),
            exempt_namespaces,
            nodes: Nodes::default(),
            pods: Pods::default(),
            images: Images::default(),
            topologies: Topologies::default(),
            matchers: Matchers::default(),
            identities: Identities::default(),
            classes: Classes::default(),
            workloads: WorkloadSelectors::default(),
            changes: ChangeLog::default(),
            name_order: NameOrder::default(),
            views: Views::default(),
            nominations: Nominations::default(),
            noted: None,
            watch: None,
            mentioned: FxHashSet::default(),
        }
    }

    /// Number of nodes.
    pub fn n_nodes(&self) -> usize {
        self.nodes.len()
    }

    /// Number of assigned pods, those on unknown nodes included.
    pub fn n_pods(&self) -> usize {
        self.pods.len()
    }

    /// Number of different sets of rules that pods have had so far: those of pods that were only asked about included,
    /// and those of pods that are gone. It only grows; whoever asks about many pods that never come may want to begin
    /// anew.
    pub fn n_rule_sets(&self) -> usize {
        self.classes.len()
    }

    /// Adds or changes a namespace.
    pub fn set_namespace(&mut self, namespace: &Namespace) {
        let name = self.symbols.intern(&namespace.metadata.name);
        let labels = Labels::intern(&mut self.symbols, &namespace.metadata.labels);
        self.change_namespace(name, Some(labels));
    }

    /// Removes a namespace. Pods in it stay: they go by themselves.
    pub fn remove_namespace(&mut self, name: &str) {
        let name = self.symbols.intern(name);
        self.change_namespace(name, None);
    }

    fn change_namespace(&mut self, name: Symbol, labels: Option<Labels>) {
        if !self.namespaces.set(name, labels) {
            return;
        }
        self.note(Change::NamespaceChanged(name));
        self.changes.epochs.layout += 1;
        if !self.matchers.iter().any(|(_, m)| m.looks_at_namespace_labels()) {
            return;
        }
        let concerned: Vec<_> =
            self.identities.iter().filter(|(_, i)| i.key.namespace == name).map(|(id, _)| id).collect();
        for id in concerned {
            let (matched, matched_by_existing) = self.match_identity(&self.identities.get(id).key);
            let before = std::mem::take(&mut self.identities.get_mut(id).matched);
            let gained = matched.iter().filter(|m| before.binary_search(m).is_err()).map(|m| (*m, 1));
            let lost = before.iter().filter(|m| matched.binary_search(m).is_err()).map(|m| (*m, -1));
            for (matcher, sign) in gained.chain(lost) {
                let placed = self.identities.get(id).placed.iter();
                for (topology, counter) in &mut self.matchers.get_mut(matcher).matching {
                    count_placed(&self.topologies, *topology, counter, placed.clone(), sign);
                }
                self.watch_matching(matcher, id);
            }
            let identity = self.identities.get_mut(id);
            identity.matched = matched;
            identity.matched_by_existing = matched_by_existing;
        }
    }

    /// Adds or changes a service, whose selector default spread constraints use.
    pub fn set_service(&mut self, service: &Service) {
        let namespace = self.symbols.intern(&service.metadata.namespace);
        let selector =
            (!service.spec.selector.is_empty()).then(|| service.spec.selector.clone().into_iter().collect());
        self.mention_text(service.spec.selector.keys());
        self.changes.epochs.layout += 1;
        self.workloads.set_service(namespace, &service.metadata.name, selector);
        self.note(Change::SelectorChanged);
    }

    /// Removes a service.
    pub fn remove_service(&mut self, namespace: &str, name: &str) {
        let namespace = self.symbols.intern(namespace);
        self.changes.epochs.layout += 1;
        self.workloads.set_service(namespace, name, None);
        self.note(Change::SelectorChanged);
    }

    /// Sets (or with `None` removes) the selector of a `ReplicationController`, `ReplicaSet` or
    /// `StatefulSet`, which default spread constraints of its pods use.
    pub fn set_owner_selector(
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
        self.note(Change::SelectorChanged);
    }

    /// Adds or changes a node. Pods that were waiting for it begin to count.
    pub fn set_node(&mut self, node: &Node) {
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
                self.note_topologies(id, Some(&labels));
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
                self.note(Change::NodeChanged(name, parts));
            }
            return;
        }

        let images = self.images.add(&mut self.symbols, &node.status.images);
        let id = self.nodes.insert(NodeRecord {
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
        self.note_topologies(id, Some(&labels));
        if self.name_order.insert(&node.metadata.name, id) {
            self.changes.epochs.layout += 1;
        }
        self.changes.epochs.images += 1;
        self.changes.push(id);
        self.changes.places += 1;
        self.note(Change::NodeAdded(name));
        for pod in self.pods.homeless.remove(&name).unwrap_or_default() {
            self.settle(pod, id);
        }
    }

    /// Removes a node. Its pods stay assigned to it by name, and count nowhere.
    pub fn remove_node(&mut self, name: &str) {
        let Some(id) = self.symbols.get(name).and_then(|name| self.nodes.find(name)) else { return };
        for pod in self.nodes.get(id).pods.clone() {
            self.unsettle(pod);
            let name = self.pods.get(pod).node_name;
            self.pods.homeless.entry(name).or_default().push(pod);
        }
        self.note_topologies(id, None);
        self.name_order.remove(name);
        self.changes.epochs.images += 1;
        self.changes.push(id);
        if let Some(record) = self.nodes.remove(id) {
            self.images.remove(&record.images);
        }
        self.changes.places += 1;
        self.note(Change::NodeRemoved);
    }

    /// Adds or changes an assigned pod (one with `spec.nodeName`). A pod that is not assigned, or has
    /// ended, is removed instead.
    ///
    /// The pod is taken as admitted: defaulted, with matchLabelKeys merged. Returns whether it counts now: it
    /// does not while its node is unknown.
    pub fn set_pod(&mut self, pod: &Pod) -> bool {
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
        let identity = self.identity_of(pod.namespace, pod.terminating, &pod.labels);
        let id = self.pods.insert(PodRecord {
            namespace: pod.namespace,
            name: pod.name.clone(),
            uid: pod.uid.clone(),
            labels: pod.labels.clone(),
            terminating: pod.terminating,
            standing: pod.standing,
            class: pod.class,
            identity,
            node_name,
            node: None,
        });
        match self.nodes.find(node_name) {
            Some(node) => {
                self.settle(id, node);
                true
            }
            None => {
                self.pods.homeless.entry(node_name).or_default().push(id);
                false
            }
        }
    }

    /// Removes a pod, if it is there.
    pub fn remove_pod(&mut self, namespace: &str, name: &str) {
        let Some(namespace) = self.symbols.get(namespace) else { return };
        if let Some(id) = self.pods.find(namespace, name) {
            self.remove_record(id);
        }
    }

    pub(crate) fn remove_record(&mut self, id: PodId) {
        if self.pods.get(id).node.is_some() {
            self.unsettle(id);
        }
        if let Some(record) = self.pods.remove(id)
            && let Some(homeless) = self.pods.homeless.get_mut(&record.node_name)
        {
            homeless.retain(|p| *p != id);
            if homeless.is_empty() {
                self.pods.homeless.remove(&record.node_name);
            }
        }
    }

    fn settle(&mut self, pod: PodId, node: NodeId) {
        self.pods.get_mut(pod).node = Some(node);
        self.nodes.get_mut(node).pods.push(pod);
        self.charge(pod, node, 1);
        self.watch_placed(pod);
        self.note_pod(pod, Change::PodCame);
    }

    fn unsettle(&mut self, pod: PodId) {
        let Some(node) = self.pods.get(pod).node else { return };
        self.watch_left(pod);
        self.pods.get_mut(pod).node = None;
        let pods = &mut self.nodes.get_mut(node).pods;
        if let Some(i) = pods.iter().position(|p| *p == pod) {
            pods.swap_remove(i);
        }
        self.charge(pod, node, -1);
        self.note_pod(pod, Change::PodWent);
    }

    fn note_pod(&mut self, pod: PodId, change: impl FnOnce(PodAt) -> Change) {
        if self.noted.is_some() {
            let PodRecord { class, identity, node_name, .. } = *self.pods.get(pod);
            let places = self.changes.places;
            self.note(change(PodAt { class, identity, node: node_name, places }));
        }
    }

    fn note_topologies(&mut self, node: NodeId, labels: Option<&Labels>) {
        if self.topologies.set_node(node, labels) {
            self.changes.epochs.layout += 1;
        }
    }

    fn charge(&mut self, pod: PodId, node: NodeId, sign: i64) {
        self.changes.push(node);
        let record = self.pods.get(pod);
        let (class, identity) = (record.class, record.identity);
        let compiled = self.classes.get(class);
        let rules = compiled.rules();
        self.nodes.get_mut(node).charge(&compiled.requests, &rules.requests, &rules.host_ports, sign);
        self.count(class, identity, node, sign);
    }

    /// The rules of a pod, as this cluster's settings read it.
    pub fn rules_of(&self, pod: &Pod) -> PodRules {
        PodRules::parse(pod, self.settings.extensions)
    }

    pub(crate) fn is_exempt(&self, namespace: Symbol) -> bool {
        self.exempt_namespaces.contains(&namespace)
    }

    pub(crate) fn topology(&mut self, keys: Vec<Symbol>) -> TopologyId {
        self.topologies.intern(keys, self.nodes.iter().map(|(id, n)| (id, &n.labels)))
    }
}
