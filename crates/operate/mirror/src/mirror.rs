//! The mirror: watches, completeness, and what events change.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use berth_api::object::group::{GroupKey, GroupKind, PodGroup};
use berth_api::object::{
    DeviceClass, Namespace, NamespacedName, Node, Pod, PodDisruptionBudget, ReplicationController, Service,
    VolumeKind, Workload,
};
use berth_client::{StreamEvent, WatchOptions};
use berth_engine::{Cluster, PreparedPod};
use tokio::sync::mpsc;
use tokio::task::AbortHandle;
use tokio::time::Instant;

use crate::cache::{CacheSync, OwnerKind};
use crate::drift::{DriftCheck, DriftKind, DriftReport, FullList};
use crate::pod_delta::{PodDelta, PodReader, PodRef};
use crate::pods::Placement;
use crate::source::{Source, Watches};
use crate::uid::Uid;
use crate::volumes::{ClaimState, VolumeEntry, VolumeState};

/// Capacity of the event channel; when it is full, the client stops reading from the server.
const EVENT_BUFFER: usize = 512;

/// An event of one of the watches, for [`Mirror::apply`].
pub struct WatchEvent(pub(crate) Payload);

pub(crate) enum Payload {
    /// With the generation of the watch, as for pods.
    Node(u32, StreamEvent<Node>),
    Pod(u32, StreamEvent<PodDelta>),
    Namespace(StreamEvent<Namespace>),
    Service(StreamEvent<Service>),
    Owner(OwnerKind, StreamEvent<Workload>),
    ReplicationController(StreamEvent<ReplicationController>),
    Budget(StreamEvent<PodDisruptionBudget>),
    DeviceClass(StreamEvent<DeviceClass>),
    PodGroup(GroupKind, StreamEvent<PodGroup>),
    Volume(VolumeKind, StreamEvent<VolumeEntry>),
    /// With the number of the drift check.
    Check(u32, FullList),
}

/// What an event changed. The engine's state has it already.
#[derive(Debug)]
pub enum Change {
    /// A node was added or changed.
    NodeApplied(Box<Node>),
    /// A node was deleted.
    NodeDeleted(String),
    /// A pod that has not terminated, with or without a node.
    PodApplied {
        /// The pod as reported.
        pod: Arc<Pod>,
        /// Whether it is new, or a field relevant to placement changed.
        is_changed: bool,
    },
    /// A pod has a node, which is not where the state has it, and is otherwise unchanged. Only pods that
    /// [`MirrorOptions::keeps`] are reported so; [`Mirror::apply_pod`] is to be called with the pod.
    PodBoundElsewhere(PodRef),
    /// A pod was deleted, or has terminated.
    PodDeleted {
        /// The pod.
        pod: NamespacedName,
        /// `metadata.uid`.
        uid: String,
    },
    /// A PodDisruptionBudget was added or changed.
    BudgetApplied(Box<PodDisruptionBudget>),
    /// A PodDisruptionBudget was deleted.
    BudgetDeleted(NamespacedName),
    /// A DeviceClass was added or changed.
    DeviceClassApplied(DeviceClass),
    /// A DeviceClass was deleted.
    DeviceClassDeleted(String),
    /// A PodGroup was added or changed.
    PodGroupApplied(GroupKey, Box<PodGroup>),
    /// A PodGroup was deleted.
    PodGroupDeleted(GroupKey),
    /// A claim was added or changed.
    ClaimApplied(NamespacedName, ClaimState),
    /// A claim was deleted.
    ClaimDeleted(NamespacedName),
    /// A persistent volume was added or changed.
    VolumeApplied(String, VolumeState),
    /// A persistent volume was deleted.
    VolumeDeleted(String),
    /// A list of a source is complete.
    Listed(Source),
    /// All sources are listed; again after each list that replaced another.
    Complete,
    /// A drift check repaired the state. The repairs are reported, too, as the changes that they are.
    Drift(DriftReport),
}

/// What to mirror.
pub struct MirrorOptions {
    /// The resources to watch.
    pub sources: &'static [Source],
    /// See [`WatchOptions::idle_timeout`].
    pub watch_idle_timeout: Duration,
    /// How often the state is compared with full lists.
    pub check_interval: Duration,
    /// How long after a detected difference the confirming lists are requested. Events in flight arrive
    /// meanwhile.
    pub check_grace: Duration,
    /// Whether the component keeps a pod while it is pending, so that its binding can be reported without it.
    pub keeps: Arc<dyn Fn(&Pod) -> bool + Send + Sync>,
}

/// Keeps an engine's [`Cluster`] equal to the API server's objects.
pub struct Mirror {
    options: MirrorOptions,
    watches: Watches,
    cache: CacheSync,
    /// Sources whose list is not complete.
    pending: BTreeSet<Source>,
    nodes_watch: WatchStream,
    pods_watch: WatchStream,
    check: DriftCheck,
    node_attributes: NodeAttributes,
}

/// A watch that may be started again.
#[derive(Default)]
struct WatchStream {
    task: Option<AbortHandle>,
    /// Events of earlier generations are out of date.
    generation: u32,
}

impl WatchStream {
    fn restart(&mut self, start: impl FnOnce(u32) -> AbortHandle) {
        if let Some(task) = self.task.take() {
            task.abort();
        }
        self.generation += 1;
        self.task = Some(start(self.generation));
    }
}

/// When nodes are listed again because rules mention more of their annotations and fields.
#[derive(Default)]
struct NodeAttributes {
    /// The engine's epoch when the last list was requested.
    epoch: u32,
    /// When the list that is not complete was requested.
    requested_at: Option<Instant>,
    /// The next list must not be requested before.
    not_before: Option<Instant>,
}

/// Decisions wait for a list of nodes. Before the next one they get so many times the time that it took, however often
/// rules mention something new.
const DECIDING_PER_LIST: u32 = 4;

impl Mirror {
    /// Starts the watches. The receiver passes their events to [`Mirror::apply`]; dropping it ends the watches.
    pub fn start(client: kube::Client, options: MirrorOptions) -> (Mirror, mpsc::Receiver<WatchEvent>) {
        let (events, receiver) = mpsc::channel(EVENT_BUFFER);
        let watch_options =
            WatchOptions { idle_timeout: options.watch_idle_timeout, ..WatchOptions::new(String::new()) };
        let watches = Watches { client, options: watch_options, events };
        let mut mirror = Mirror {
            watches,
            cache: CacheSync::default(),
            pending: options.sources.iter().copied().collect(),
            nodes_watch: WatchStream::default(),
            pods_watch: WatchStream::default(),
            node_attributes: NodeAttributes::default(),
            check: DriftCheck::new(options.check_interval, options.check_grace),
            options,
        };
        for source in mirror.options.sources {
            mirror.watches.start(*source);
        }
        mirror.nodes_watch.restart(|generation| mirror.watches.start_nodes(generation));
        mirror.relist_pods();
        (mirror, receiver)
    }

    /// Lists pods again and watches from there. The state is not complete until the list is.
    pub fn relist_pods(&mut self) {
        self.pending.insert(Source::Pods);
        let keeps = self.options.keeps.clone();
        // A reader for each watch: what it leaves out was reported by the same watch.
        let reader = PodReader::new(move |pod| keeps(pod));
        self.pods_watch.restart(|generation| self.watches.start_pods(generation, reader));
    }

    /// Lists nodes again and watches from there, if rules mention annotations or fields that nodes were read without. The
    /// state is not complete until the list is.
    pub fn read_node_attributes(&mut self, cluster: &Cluster, now: Instant) {
        let (epoch, reads) = (cluster.node_attributes_epoch(), &mut self.node_attributes);
        let may_list = self.pending.is_empty() && reads.not_before.is_none_or(|at| at <= now);
        if epoch != reads.epoch && may_list {
            *reads = NodeAttributes { epoch, requested_at: Some(now), not_before: None };
            self.pending.insert(Source::Nodes);
            self.nodes_watch.restart(|generation| self.watches.start_nodes(generation));
        }
    }

    /// Whether all sources are listed. The state must not be used for decisions before.
    pub fn is_complete(&self) -> bool {
        self.pending.is_empty()
    }

    /// The names of the sources that are not listed.
    pub fn pending(&self) -> Vec<&'static str> {
        self.pending.iter().map(|source| source.name()).collect()
    }

    /// Number of nodes in the state.
    pub fn n_nodes(&self) -> usize {
        self.cache.nodes.len()
    }

    /// Number of pods on nodes in the state, assumed ones included.
    pub fn n_pods(&self) -> usize {
        self.cache.pods.n_placed
    }

    /// Number of pods that are assumed on a node.
    pub fn n_assumed(&self) -> usize {
        self.cache.pods.n_assumed
    }

    /// Whether a node is in the state.
    pub fn has_node(&self, name: &str) -> bool {
        self.cache.nodes.get(&NamespacedName::new("", name)).is_some()
    }

    /// Whether the state has a pod on a node, assumed or assigned.
    pub fn is_placed(&self, pod: &Pod) -> bool {
        let metadata = &pod.metadata;
        self.cache.pods.get(&metadata.namespace, &metadata.name).is_some_and(|known| {
            known.placement != Placement::Pending && known.uid == Uid::from(metadata.uid.as_str())
        })
    }

    /// The uid of a pod in the state.
    pub fn uid(&self, namespace: &str, name: &str) -> Option<String> {
        self.cache.pods.get(namespace, name).map(|known| known.uid.to_string())
    }

    /// Applies an event to the state. For a pod in a drift check's list, `is_missing` returns whether the component
    /// should have it and does not.
    pub fn apply(
        &mut self,
        cluster: &mut Cluster,
        WatchEvent(event): WatchEvent,
        is_missing: impl Fn(&Pod) -> bool,
    ) -> Vec<Change> {
        let mut changes = Vec::new();
        let list = match &event {
            Payload::Node(generation, _) if *generation != self.nodes_watch.generation => return changes,
            Payload::Pod(generation, _) if *generation != self.pods_watch.generation => return changes,
            event => event.list(),
        };
        if let Some((source, Edge::Begin)) = list {
            self.pending.insert(source);
            if matches!(source, Source::Nodes | Source::Pods) {
                self.check.cancel();
            }
        }
        let cache = &mut self.cache;
        match event {
            Payload::Node(_, event) => cache.apply_node(cluster, event, &mut changes),
            Payload::Pod(_, event) => self.apply_pod_event(cluster, event, &mut changes),
            Payload::Namespace(event) => cache.apply_namespace(cluster, event),
            Payload::Service(event) => cache.apply_service(cluster, event),
            Payload::Owner(kind, event) => cache.apply_owner(cluster, kind, event),
            Payload::ReplicationController(event) => cache.apply_replication_controller(cluster, event),
            Payload::Budget(event) => cache.apply_budget(event, &mut changes),
            Payload::DeviceClass(event) => cache.apply_device_class(event, &mut changes),
            Payload::PodGroup(kind, event) => cache.apply_pod_group(kind, event, &mut changes),
            Payload::Volume(kind, event) => cache.apply_volume(cluster, kind, event, &mut changes),
            Payload::Check(number, object) if number == self.check.number => {
                self.check(cluster, object, is_missing, &mut changes);
            }
            Payload::Check(..) => {}
        }
        if let Some((source, Edge::End)) = list {
            self.pending.remove(&source);
            if source == Source::Nodes
                && let Some(requested_at) = self.node_attributes.requested_at.take()
            {
                let now = Instant::now();
                self.node_attributes.not_before = Some(now + DECIDING_PER_LIST * (now - requested_at));
            }
            changes.push(Change::Listed(source));
            if self.pending.is_empty() {
                self.check.postpone();
                changes.push(Change::Complete);
            }
        }
        changes
    }

    /// Applies a pod that was read otherwise than by the watch.
    pub fn apply_pod(&mut self, cluster: &mut Cluster, pod: Arc<Pod>) -> Vec<Change> {
        let mut changes = Vec::new();
        self.cache.apply_pod(cluster, pod, &mut changes);
        changes
    }

    /// Puts a pod on a node before the API server knows.
    pub fn assume(&mut self, cluster: &mut Cluster, pod: &Pod, prepared: &PreparedPod, node: &str) {
        self.cache.assume(cluster, pod, prepared, node);
    }

    /// Reverts an assumption. Returns false if there was none: the API server may have confirmed it meanwhile, and then
    /// the pod stays.
    pub fn forget(&mut self, cluster: &mut Cluster, pod: &Pod) -> bool {
        self.cache.forget(cluster, pod)
    }

    /// Starts a drift check, if one is due.
    pub fn check_if_due(&mut self, now: Instant) {
        if self.is_complete() && self.check.is_due(now) {
            self.cache.nodes.begin_list();
            self.cache.pods.entries.begin_list();
            self.check.started(self.watches.list_for_check(self.check.number));
        }
    }

    fn apply_pod_event(
        &mut self,
        cluster: &mut Cluster,
        event: StreamEvent<PodDelta>,
        changes: &mut Vec<Change>,
    ) {
        let cache = &mut self.cache;
        match event {
            StreamEvent::Init => cache.pods.entries.begin_list(),
            StreamEvent::InitApply(delta) | StreamEvent::Apply(delta) => match delta {
                PodDelta::Pod(pod) => cache.apply_pod(cluster, pod, changes),
                PodDelta::Bound(pod) if cache.confirm_pod(cluster, &pod) => {}
                PodDelta::Bound(pod) => changes.push(Change::PodBoundElsewhere(pod)),
                PodDelta::Same(_) => {}
            },
            StreamEvent::Delete(PodDelta::Pod(pod)) => cache.delete_pod(cluster, &PodRef::of(&pod), changes),
            StreamEvent::Delete(PodDelta::Bound(pod) | PodDelta::Same(pod)) => {
                cache.delete_pod(cluster, &pod, changes);
            }
            StreamEvent::InitDone => cache.drop_unlisted_pods(cluster, changes),
        }
    }

    fn check(
        &mut self,
        cluster: &mut Cluster,
        object: FullList,
        is_missing: impl Fn(&Pod) -> bool,
        changes: &mut Vec<Change>,
    ) {
        let (cache, check) = (&mut self.cache, &mut self.check);
        match object {
            FullList::Node(node) => {
                if let Some(drift) =
                    cache.node_drift(cluster, &node).filter(|drift| check.is_confirmed(drift))
                {
                    cache.nodes.remove(&drift.key);
                    cache.apply_node(cluster, StreamEvent::Apply(*node), changes);
                }
            }
            FullList::Pod(pod) => {
                let drift = cache.pod_drift(cluster, &pod, is_missing(&pod));
                let Some(drift) = drift.filter(|drift| check.is_confirmed(drift)) else { return };
                if drift.kind == DriftKind::Pod {
                    cache.drop_pod(cluster, &drift.key, changes);
                }
                cache.apply_pod(cluster, pod, changes);
            }
            FullList::Done => {
                let unlisted = cache.unlisted(cluster);
                for drift in unlisted.iter().filter(|drift| check.is_confirmed(drift)) {
                    match drift.kind {
                        DriftKind::Node => cache.drop_node(cluster, &drift.key, changes),
                        DriftKind::Pod | DriftKind::Missing => cache.drop_pod(cluster, &drift.key, changes),
                    }
                }
                changes.extend(check.finish().map(Change::Drift));
            }
            FullList::Failed => check.cancel(),
        }
    }
}

/// Where in a list an event is.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Edge {
    Begin,
    End,
}

impl Payload {
    /// The list that starts or ends with this event.
    fn list(&self) -> Option<(Source, Edge)> {
        fn edge<T>(source: Source, event: &StreamEvent<T>) -> Option<(Source, Edge)> {
            match event {
                StreamEvent::Init => Some((source, Edge::Begin)),
                StreamEvent::InitDone => Some((source, Edge::End)),
                _ => None,
            }
        }
        match self {
            Payload::Node(_, event) => edge(Source::Nodes, event),
            Payload::Pod(_, event) => edge(Source::Pods, event),
            Payload::Namespace(event) => edge(Source::Namespaces, event),
            Payload::Service(event) => edge(Source::Services, event),
            Payload::Owner(OwnerKind::ReplicaSet, event) => edge(Source::ReplicaSets, event),
            Payload::Owner(OwnerKind::StatefulSet, event) => edge(Source::StatefulSets, event),
            Payload::ReplicationController(event) => edge(Source::ReplicationControllers, event),
            Payload::Budget(event) => edge(Source::Budgets, event),
            Payload::DeviceClass(event) => edge(Source::DeviceClasses, event),
            Payload::PodGroup(kind, event) => edge(Source::PodGroups(*kind), event),
            Payload::Volume(kind, event) => edge(Source::Volumes(*kind), event),
            Payload::Check(..) => None,
        }
    }
}
