//! The watches, each in a separate task.

use std::sync::{Arc, Mutex, PoisonError};

use berth_api::object::VolumeObject;
use berth_api::object::device::{DeviceKind, DeviceObject};
use berth_api::object::group::GroupOwner;
use berth_client::watch::ListError;
use berth_client::{KubeObject, Missing, Pages, StreamEvent, WatchOptions, watch_into, watch_with};
use serde::de::DeserializeOwned;
use tokio::sync::mpsc;
use tokio::task::AbortHandle;

use crate::entries::read;
use crate::event::{FullList, Payload, WatchEvent};
use crate::node_parser::NodeParser;
use crate::pod_delta::{PodDelta, PodReader};
use crate::source::Source;

/// Starts the watches. They end when the receiver of their events is dropped.
pub(crate) struct Watches {
    pub(crate) client: kube::Client,
    pub(crate) options: WatchOptions,
    pub(crate) events: mpsc::Sender<WatchEvent>,
}

impl Watches {
    fn options(&self, source: Source) -> WatchOptions {
        let resource = source.resource();
        // A cluster without workloads or budgets can also be scheduled.
        let missing = if source.is_required() { Missing::Failure } else { Missing::empty(&resource) };
        let WatchOptions { path, other_versions, .. } = WatchOptions::of(&resource);
        WatchOptions { path, other_versions, missing, ..self.options.clone() }
    }

    /// Starts the watch of any source but those that may be started again: nodes, pods and claims of devices.
    pub(crate) fn start(&self, source: Source) {
        let _: AbortHandle = match source {
            Source::Nodes | Source::Pods | Source::Devices(DeviceKind::ResourceClaim) => return,
            Source::Namespaces => self.watch(source, Payload::Namespace),
            Source::Services => self.watch(source, Payload::Service),
            Source::ReplicaSets => self.watch(source, |e| Payload::Owner(GroupOwner::ReplicaSet, e)),
            Source::StatefulSets => self.watch(source, |e| Payload::Owner(GroupOwner::StatefulSet, e)),
            Source::Jobs => self.watch(source, Payload::Job),
            Source::ReplicationControllers => self.watch(source, Payload::ReplicationController),
            Source::Budgets => self.watch(source, Payload::Budget),
            Source::Devices(kind) => self.start_devices(kind, 0),
            Source::PodGroups(kind) => self.watch(source, move |e| Payload::PodGroup(kind, e)),
            Source::CompositePodGroups => self.watch(source, Payload::CompositePodGroup),
            Source::Workloads => self.watch(source, Payload::Workload),
            Source::Volumes(kind) => self.watch(source, move |event| {
                Payload::Volume(kind, read(event, |value| VolumeObject::decode(kind, value)))
            }),
        };
    }

    /// Starts a watch of nodes. Its events carry `generation`.
    pub(crate) fn start_nodes(&self, generation: u32) -> AbortHandle {
        let parser = Mutex::new(NodeParser::default());
        let watch = watch_with(
            self.client.clone(),
            self.options(Source::Nodes),
            self.events.clone(),
            move |line, _| parser.lock().unwrap_or_else(PoisonError::into_inner).read_line(line),
            move |event| Some(WatchEvent(Payload::Node(generation, event))),
        );
        tokio::spawn(watch).abort_handle()
    }

    /// Starts a watch of objects about devices. Its events carry `generation`.
    pub(crate) fn start_devices(&self, kind: DeviceKind, generation: u32) -> AbortHandle {
        self.watch(Source::Devices(kind), move |event| {
            Payload::Device(kind, generation, read(event, |value| DeviceObject::decode(kind, value)))
        })
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
                Ok::<_, ListError>(())
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

/// A watch that may be started again.
#[derive(Default)]
pub(crate) struct WatchTask {
    task: Option<AbortHandle>,
    /// Events of earlier generations are out of date.
    pub(crate) generation: u32,
}

impl WatchTask {
    pub(crate) fn restart(&mut self, start: impl FnOnce(u32) -> AbortHandle) {
        if let Some(task) = self.task.take() {
            task.abort();
        }
        self.generation += 1;
        self.task = Some(start(self.generation));
    }
}
