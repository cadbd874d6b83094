//! The mirror: which sources are listed, and how their events reach the state.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use berth_api::object::device::DeviceKind;
use berth_api::object::{NamespacedName, Pod};
use berth_client::{StreamEvent, WatchFailure, WatchGroup, WatchOptions};
use berth_engine::{Cluster, PreparedPod};
use tokio::sync::mpsc;
use tokio::time::Instant;

use crate::cache::CacheSync;
use crate::change::Change;
use crate::drift::{DriftCheck, DriftKind};
use crate::event::{Edge, FullList, Payload, WatchEvent};
use crate::pod_delta::{PodDelta, PodReader};
use crate::pod_entries::Placement;
use crate::pod_ref::PodRef;
use crate::source::{Needs, Source};
use crate::uid::Uid;
use crate::watches::{WatchTask, Watches};

/// Capacity of the event channel; when it is full, the client stops reading from the server.
const EVENT_BUFFER: usize = 512;

/// How long a required source may be forbidden when a component starts: an API server that starts has no roles at first.
const FORBIDDEN_FOR: Duration = Duration::from_secs(10);

pub struct MirrorOptions {
    pub sources: &'static [Source],
    /// See [`WatchOptions::idle_timeout`].
    pub watch_idle_timeout: Duration,
    /// How often the state is compared with full lists.
    pub check_interval: Duration,
    /// How long after a detected difference the confirming lists are requested. Events in flight arrive
    /// meanwhile.
    pub check_grace: Duration,
    /// What all watches share.
    pub group: WatchGroup,
    /// Whether a pod is reported again when its condition `Ready` changes.
    pub readiness: bool,
    /// Whether the component keeps a pod while it is pending, so that its binding can be reported without it.
    pub keeps: Arc<dyn Fn(&Pod) -> bool + Send + Sync>,
}

impl MirrorOptions {
    /// These resources, with defaults that suit a cluster of any size.
    pub fn new(sources: &'static [Source]) -> MirrorOptions {
        MirrorOptions {
            sources,
            watch_idle_timeout: Duration::from_secs(90),
            check_interval: Duration::from_secs(600),
            check_grace: Duration::from_secs(15),
            group: WatchGroup::default(),
            readiness: false,
            keeps: Arc::new(|_| false),
        }
    }
}

/// Keeps an engine's [`Cluster`] equal to the API server's objects.
pub struct Mirror {
    options: MirrorOptions,
    watches: Watches,
    watched_also: BTreeSet<Source>,
    cache: CacheSync,
    /// Sources whose list is not complete.
    pending: BTreeSet<Source>,
    /// Sources that may not be read and were never listed, since when, and what to do about it.
    forbidden: BTreeMap<Source, (Instant, String)>,
    was_complete: bool,
    nodes_watch: WatchTask,
    pods_watch: WatchTask,
    claims_watch: WatchTask,
    check: DriftCheck,
    node_attributes: NodeAttributes,
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

/// Decisions wait for a list of nodes. Before the next one they get this many times the time that it took, however often
/// rules mention something new.
const DECIDING_PER_LIST: u32 = 4;

impl Mirror {
    /// Starts the watches. The receiver passes their events to [`Mirror::apply`]; dropping it ends the watches.
    pub fn start(client: kube::Client, options: MirrorOptions) -> (Mirror, mpsc::Receiver<WatchEvent>) {
        let (events, receiver) = mpsc::channel(EVENT_BUFFER);
        let watch_options = WatchOptions {
            idle_timeout: options.watch_idle_timeout,
            group: options.group.clone(),
            ..WatchOptions::new(String::new())
        };
        let watches = Watches { client, options: watch_options, events };
        let mut mirror = Mirror {
            watches,
            watched_also: BTreeSet::new(),
            cache: CacheSync::default(),
            pending: options.sources.iter().copied().collect(),
            forbidden: BTreeMap::new(),
            was_complete: false,
            nodes_watch: WatchTask::default(),
            pods_watch: WatchTask::default(),
            claims_watch: WatchTask::default(),
            node_attributes: NodeAttributes::default(),
            check: DriftCheck::new(options.check_interval, options.check_grace),
            options,
        };
        for source in mirror.options.sources {
            mirror.watches.start(*source);
        }
        mirror.nodes_watch.restart(|generation| mirror.watches.start_nodes(generation));
        mirror.relist_pods();
        mirror.relist_device_claims();
        (mirror, receiver)
    }

    /// Watches another source from now on: Jobs whose pods are groups, or CompositePodGroups.
    pub fn watch_also(&mut self, source: Source) {
        if self.watched_also.insert(source) {
            self.watches.start(source);
        }
    }

    /// Lists pods again and watches from there. The state is not complete until the list is.
    pub fn relist_pods(&mut self) {
        self.pending.insert(Source::Pods);
        let keeps = self.options.keeps.clone();
        // A reader for each watch: what it leaves out was reported by the same watch.
        let reader = PodReader::new(move |pod| keeps(pod)).with_readiness(self.options.readiness);
        self.pods_watch.restart(|generation| self.watches.start_pods(generation, reader));
    }

    /// Lists claims of devices again and watches from there, if they are watched. The state is not complete until the list is.
    pub fn relist_device_claims(&mut self) {
        const CLAIMS: Source = Source::Devices(DeviceKind::ResourceClaim);
        if self.options.sources.contains(&CLAIMS) {
            self.pending.insert(CLAIMS);
            let watches = &self.watches;
            self.claims_watch
                .restart(|generation| watches.start_devices(DeviceKind::ResourceClaim, generation));
        }
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

    /// Why a source is treated as empty, if it may not be read.
    pub fn unreadable(&self, source: Source) -> Option<&str> {
        self.forbidden.get(&source).map(|(_, why)| why.as_str())
    }

    /// The same for the first source that a pod needs.
    pub fn unreadable_for(&self, needs: impl FnOnce() -> Needs) -> Option<&str> {
        if self.forbidden.is_empty() {
            return None;
        }
        let needs = needs();
        let mut needed = self.forbidden.iter().filter(|(source, _)| source.is_needed_by(needs));
        needed.next().map(|(_, (_, why))| why.as_str())
    }

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
            Payload::Device(DeviceKind::ResourceClaim, generation, _)
                if *generation != self.claims_watch.generation =>
            {
                return changes;
            }
            event => event.list(),
        };
        if let Some((source, Edge::Failed(failure))) = list {
            self.fail(source, failure, &mut changes);
            return changes;
        }
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
            Payload::Namespace(event) => cache.apply_namespace(cluster, event, &mut changes),
            Payload::Service(event) => cache.apply_service(cluster, event),
            Payload::Owner(kind, event) => cache.apply_owner(cluster, kind, event, &mut changes),
            Payload::ReplicationController(event) => {
                cache.apply_replication_controller(cluster, event, &mut changes);
            }
            Payload::Job(event) => cache.apply_job(event, &mut changes),
            Payload::Budget(event) => cache.apply_budget(event, &mut changes),
            Payload::Device(kind, _, event) => cache.apply_device(cluster, kind, event, &mut changes),
            Payload::PodGroup(kind, event) => cache.apply_pod_group(cluster, kind, event, &mut changes),
            Payload::CompositePodGroup(event) => cache.apply_composite_group(event, &mut changes),
            Payload::Workload(event) => cache.apply_workload(cluster, event, &mut changes),
            Payload::Volume(kind, event) => cache.apply_volume(cluster, kind, event, &mut changes),
            Payload::Check(number, object) if number == self.check.number => {
                self.check(cluster, object, is_missing, &mut changes);
            }
            Payload::Check(..) => {}
        }
        // Pods are not kept: which of them are members of other groups now is read from the API server.
        let is_list = self.pending.contains(&Source::Workloads) && list.is_none();
        if !is_list && self.cache.workloads.take_changed() {
            self.relist_pods();
        }
        if let Some((source, Edge::End)) = list {
            if self.forbidden.remove(&source).is_some() {
                tracing::info!("{} can be read again", source.name());
                changes.push(Change::Readability(source));
            }
            if source == Source::Nodes
                && let Some(requested_at) = self.node_attributes.requested_at.take()
            {
                let now = Instant::now();
                self.node_attributes.not_before = Some(now + DECIDING_PER_LIST * (now - requested_at));
            }
            self.listed(source, &mut changes);
        }
        changes
    }

    fn listed(&mut self, source: Source, changes: &mut Vec<Change>) {
        self.pending.remove(&source);
        changes.push(Change::Listed(source));
        if self.pending.is_empty() {
            self.was_complete = true;
            self.check.postpone();
            changes.push(Change::Complete);
        }
    }

    /// The objects of a source are not known.
    fn fail(&mut self, source: Source, failure: WatchFailure, changes: &mut Vec<Change>) {
        if matches!(failure, WatchFailure::TooLarge { .. }) {
            return changes.push(Change::Failed(failure));
        }
        let now = Instant::now();
        let (since, _) = self.forbidden.entry(source).or_insert_with(|| {
            changes.push(Change::Readability(source));
            (now, failure.to_string())
        });
        if source.is_required() {
            if !self.was_complete && now.saturating_duration_since(*since) >= FORBIDDEN_FOR {
                changes.push(Change::Failed(failure));
            }
        } else if self.pending.contains(&source) {
            self.listed(source, changes);
        }
    }

    /// Applies a pod that was read otherwise than by the watch.
    pub fn apply_pod(&mut self, cluster: &mut Cluster, pod: Arc<Pod>) -> Vec<Change> {
        let mut changes = Vec::new();
        self.cache.apply_pod(cluster, pod, &mut changes);
        changes
    }

    /// Puts a pod where another scheduler bound it ([`Change::PodBoundElsewhere`]): `pod` is the pod as the component keeps
    /// it, `prepared` has its rules.
    pub fn bind_pod(&mut self, cluster: &mut Cluster, pod: &Pod, prepared: &PreparedPod, bound: &PodRef) {
        self.cache.bind_pod(cluster, pod, prepared, bound);
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
            StreamEvent::Failed(_) => {}
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
            FullList::Pod(mut pod) => {
                cache.workloads.join(&mut pod);
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
