//! The resources that are watched, each by a task of its own.

use berth_api::object::VolumeKind;
use berth_api::object::group::GroupKind;
use berth_api::resource::{
    DEVICE_CLASSES, NAMESPACES, NODES, POD_DISRUPTION_BUDGETS, POD_GROUPS, PODS, REPLICA_SETS,
    REPLICATION_CONTROLLERS, Resource, SERVICES, STATEFUL_SETS,
};
use berth_client::{KubeObject, Pages, StreamEvent, WatchOptions, watch_into, watch_with};
use serde::de::DeserializeOwned;
use std::sync::Arc;
use tokio::sync::mpsc;
use tokio::task::AbortHandle;

use crate::cache::OwnerKind;
use crate::drift::FullList;
use crate::mirror::{Payload, WatchEvent};
use crate::pod_delta::{PodDelta, PodReader};
use crate::volumes::entry;

/// A watched resource.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Source {
    /// `nodes`.
    Nodes,
    /// `pods`.
    Pods,
    /// `namespaces`.
    Namespaces,
    /// `services`.
    Services,
    /// `replicasets`.
    ReplicaSets,
    /// `statefulsets`.
    StatefulSets,
    /// `replicationcontrollers`.
    ReplicationControllers,
    /// `poddisruptionbudgets`.
    Budgets,
    /// `deviceclasses`.
    DeviceClasses,
    /// `podgroups` of an API group.
    PodGroups(GroupKind),
    /// Objects that decide where pods with volumes may run.
    Volumes(VolumeKind),
}

impl Source {
    /// All sources.
    pub const ALL: &'static [Source] = &[
        Source::Nodes,
        Source::Pods,
        Source::Namespaces,
        Source::Services,
        Source::ReplicaSets,
        Source::StatefulSets,
        Source::ReplicationControllers,
        Source::Volumes(VolumeKind::PersistentVolume),
        Source::Volumes(VolumeKind::PersistentVolumeClaim),
        Source::Volumes(VolumeKind::StorageClass),
        Source::Volumes(VolumeKind::CsiNode),
        Source::Volumes(VolumeKind::CsiDriver),
        Source::Volumes(VolumeKind::CsiStorageCapacity),
        Source::Volumes(VolumeKind::VolumeAttachment),
        Source::DeviceClasses,
        Source::PodGroups(GroupKind::Scheduling),
        Source::PodGroups(GroupKind::Coscheduling),
        Source::Budgets,
    ];

    /// What the placement of a single pod depends on: all but PodGroups and PodDisruptionBudgets.
    pub const PLACEMENT: &'static [Source] = match Source::ALL {
        [placement @ .., Source::PodGroups(_), Source::PodGroups(_), Source::Budgets] => placement,
        all => all,
    };

    /// The resource's name in paths.
    pub fn name(self) -> &'static str {
        self.resource().plural
    }

    fn resource(self) -> Resource {
        match self {
            Source::Nodes => NODES,
            Source::Pods => PODS,
            Source::Namespaces => NAMESPACES,
            Source::Services => SERVICES,
            Source::ReplicaSets => REPLICA_SETS,
            Source::StatefulSets => STATEFUL_SETS,
            Source::ReplicationControllers => REPLICATION_CONTROLLERS,
            Source::Budgets => POD_DISRUPTION_BUDGETS,
            Source::DeviceClasses => DEVICE_CLASSES,
            Source::PodGroups(kind) => kind.resource().unwrap_or(POD_GROUPS),
            Source::Volumes(kind) => kind.resource(),
        }
    }
}

/// Starts the watches. They end when the receiver of their events is dropped.
pub(crate) struct Watches {
    pub(crate) client: kube::Client,
    pub(crate) options: WatchOptions,
    pub(crate) events: mpsc::Sender<WatchEvent>,
}

impl Watches {
    fn options(&self, source: Source) -> WatchOptions {
        // A cluster without workloads or budgets can be scheduled, too.
        let missing_is_empty = !matches!(source, Source::Pods | Source::Nodes);
        WatchOptions { path: source.resource().path(""), missing_is_empty, ..self.options.clone() }
    }

    /// Starts the watch of any source but nodes and pods.
    pub(crate) fn start(&self, source: Source) {
        let _: AbortHandle = match source {
            Source::Nodes | Source::Pods => return,
            Source::Namespaces => self.watch(source, Payload::Namespace),
            Source::Services => self.watch(source, Payload::Service),
            Source::ReplicaSets => self.watch(source, |e| Payload::Owner(OwnerKind::ReplicaSet, e)),
            Source::StatefulSets => self.watch(source, |e| Payload::Owner(OwnerKind::StatefulSet, e)),
            Source::ReplicationControllers => self.watch(source, Payload::ReplicationController),
            Source::Budgets => self.watch(source, Payload::Budget),
            Source::DeviceClasses => self.watch(source, Payload::DeviceClass),
            Source::PodGroups(kind) => self.watch(source, move |e| Payload::PodGroup(kind, e)),
            Source::Volumes(kind) => self.watch(source, move |e| Payload::Volume(kind, entry(kind, e))),
        };
    }

    /// Starts a watch of nodes. Its events carry `generation`.
    pub(crate) fn start_nodes(&self, generation: u32) -> AbortHandle {
        self.watch(Source::Nodes, move |event| Payload::Node(generation, event))
    }

    fn watch<T>(
        &self,
        source: Source,
        payload: impl Fn(StreamEvent<T>) -> Payload + Send + Sync + 'static,
    ) -> AbortHandle
    where
        T: KubeObject + DeserializeOwned + Send + 'static,
    {
        let wrap = move |event| WatchEvent(payload(event));
        let events = self.events.clone();
        tokio::spawn(watch_into(self.client.clone(), self.options(source), events, wrap)).abort_handle()
    }

    /// Starts a watch of pods. Its events carry `generation`; `reader` leaves out what placement does not see.
    pub(crate) fn start_pods(&self, generation: u32, reader: PodReader) -> AbortHandle {
        let reader = Arc::new(reader);
        let reads = reader.clone();
        let watch = watch_with(
            self.client.clone(),
            self.options(Source::Pods),
            self.events.clone(),
            move |line, kind| reads.read(line, kind),
            move |event| {
                if event == StreamEvent::Init {
                    reader.clear();
                }
                let is_same = matches!(event, StreamEvent::Apply(PodDelta::Same(_)));
                (!is_same).then_some(WatchEvent(Payload::Pod(generation, event)))
            },
        );
        tokio::spawn(watch).abort_handle()
    }

    /// Lists nodes and pods for a drift check.
    pub(crate) fn list_for_check(&self, number: u32) -> AbortHandle {
        let (client, events) = (self.client.clone(), self.events.clone());
        let (nodes, pods) = (self.options(Source::Nodes), self.options(Source::Pods));
        let list = async move {
            let send = |object| events.send(WatchEvent(Payload::Check(number, object)));
            let listed = async {
                let mut pages = Pages::new(&client, &nodes);
                while let Some(page) = pages.next().await? {
                    for node in page {
                        let _ = send(FullList::Node(Box::new(node))).await;
                    }
                }
                let mut pages = Pages::new(&client, &pods);
                while let Some(page) = pages.next().await? {
                    for pod in page {
                        let _ = send(FullList::Pod(Arc::new(pod))).await;
                    }
                }
                Ok::<_, berth_client::watch::ListError>(())
            };
            let end = match listed.await {
                Ok(()) => FullList::Done,
                Err(error) => {
                    tracing::warn!("drift check skipped, cannot list: {error}");
                    FullList::Failed
                }
            };
            let _ = send(end).await;
        };
        tokio::spawn(list).abort_handle()
    }
}
