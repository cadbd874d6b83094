//! Everything a part that follows a whole cluster is told, in one channel.

use std::sync::Arc;
use std::time::Duration;

use berth_api::object::{
    Namespace, Node, Pod, PodDisruptionBudget, ReplicationController, Service, Workload,
};
use tokio::sync::mpsc;
use tokio::task::AbortHandle;

use crate::feed::OwnerKind;
use berth_client::watch::{Event, KubeObject, ListError, WatchOptions, list, watch_into};

/// Something told by the server.
pub enum Told {
    /// Nodes.
    Nodes(Event<Node>),
    /// Pods, with the number of the following that tells them.
    Pods(u32, PodEvent),
    /// Namespaces.
    Namespaces(Event<Namespace>),
    /// Services.
    Services(Event<Service>),
    /// ReplicaSets or StatefulSets.
    Owners(OwnerKind, Event<Workload>),
    /// ReplicationControllers.
    ReplicationControllers(Event<ReplicationController>),
    /// PodDisruptionBudgets.
    Budgets(Event<PodDisruptionBudget>),
    /// A list made to compare the state with.
    Fresh(Fresh),
}

/// As [`Event`], with pods that can be kept without another copy.
pub enum PodEvent {
    /// All pods there are now.
    Restarted(Vec<Pod>),
    /// A pod as it is now.
    Applied(Arc<Pod>),
    /// A pod as it was when it went.
    Deleted(Arc<Pod>),
}

/// Lists made to compare the state with.
pub struct Fresh {
    /// All nodes.
    pub nodes: Vec<Node>,
    /// All pods.
    pub pods: Vec<Pod>,
}

/// What is followed, and must have been listed before anything is decided.
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
}

impl Source {
    /// Everything.
    pub const ALL: [Source; 8] = [
        Source::Nodes,
        Source::Pods,
        Source::Namespaces,
        Source::Services,
        Source::ReplicaSets,
        Source::StatefulSets,
        Source::ReplicationControllers,
        Source::Budgets,
    ];

    /// The resource's name in paths.
    pub fn name(self) -> &'static str {
        match self {
            Source::Nodes => "nodes",
            Source::Pods => "pods",
            Source::Namespaces => "namespaces",
            Source::Services => "services",
            Source::ReplicaSets => "replicasets",
            Source::StatefulSets => "statefulsets",
            Source::ReplicationControllers => "replicationcontrollers",
            Source::Budgets => "poddisruptionbudgets",
        }
    }
}

impl Told {
    /// The source that is complete with this.
    pub fn completes(&self) -> Option<Source> {
        match self {
            Told::Nodes(Event::Restarted(_)) => Some(Source::Nodes),
            Told::Pods(_, PodEvent::Restarted(_)) => Some(Source::Pods),
            Told::Namespaces(Event::Restarted(_)) => Some(Source::Namespaces),
            Told::Services(Event::Restarted(_)) => Some(Source::Services),
            Told::Owners(OwnerKind::ReplicaSet, Event::Restarted(_)) => Some(Source::ReplicaSets),
            Told::Owners(OwnerKind::StatefulSet, Event::Restarted(_)) => Some(Source::StatefulSets),
            Told::ReplicationControllers(Event::Restarted(_)) => Some(Source::ReplicationControllers),
            Told::Budgets(Event::Restarted(_)) => Some(Source::Budgets),
            _ => None,
        }
    }
}

const PODS: &str = "/api/v1/pods";
const NODES: &str = "/api/v1/nodes";

/// The followings. They end when the receiver of what they tell is dropped.
pub struct Sources {
    client: kube::Client,
    told: mpsc::Sender<Told>,
    patience: WatchOptions,
    pods: Option<AbortHandle>,
    /// Number of the following of pods that counts.
    pods_number: u32,
}

impl Sources {
    /// Follows what is wanted. A watch that is silent for longer than `idle_timeout` is started again; see
    /// [`WatchOptions::idle_timeout`].
    pub fn start(
        client: kube::Client,
        wanted: &[Source],
        idle_timeout: Duration,
        told: mpsc::Sender<Told>,
    ) -> Sources {
        let patience = WatchOptions { idle_timeout, ..WatchOptions::new(String::new()) };
        let mut sources = Sources { client, told, patience, pods: None, pods_number: 0 };
        for source in wanted {
            sources.start_one(*source);
        }
        sources
    }

    fn start_one(&mut self, source: Source) {
        match source {
            Source::Pods => self.restart_pods(),
            Source::Nodes => _ = self.follow(NODES, Told::Nodes),
            Source::Namespaces => _ = self.follow("/api/v1/namespaces", Told::Namespaces),
            Source::Services => _ = self.follow("/api/v1/services", Told::Services),
            Source::ReplicationControllers => {
                self.follow("/api/v1/replicationcontrollers", Told::ReplicationControllers);
            }
            Source::ReplicaSets => {
                self.follow("/apis/apps/v1/replicasets", |e| Told::Owners(OwnerKind::ReplicaSet, e));
            }
            Source::StatefulSets => {
                self.follow("/apis/apps/v1/statefulsets", |e| Told::Owners(OwnerKind::StatefulSet, e));
            }
            Source::Budgets => _ = self.follow("/apis/policy/v1/poddisruptionbudgets", Told::Budgets),
        }
    }

    /// Number of the following of pods that counts; what others tell is out of date.
    pub fn pods_number(&self) -> u32 {
        self.pods_number
    }

    fn options(&self, path: &str) -> WatchOptions {
        // An API without workloads or budgets is one to schedule on as well.
        let missing_is_empty = path != PODS && path != NODES;
        WatchOptions { path: path.to_owned(), missing_is_empty, ..self.patience.clone() }
    }

    fn follow<T>(&self, path: &str, wrap: impl Fn(Event<T>) -> Told + Send + Sync + 'static) -> AbortHandle
    where
        T: KubeObject + serde::de::DeserializeOwned + Send + 'static,
    {
        let following = watch_into(self.client.clone(), self.options(path), self.told.clone(), wrap);
        tokio::spawn(following).abort_handle()
    }

    /// Lists pods anew and follows them from there. What the following before still tells has an old number.
    pub fn restart_pods(&mut self) {
        if let Some(before) = self.pods.take() {
            before.abort();
        }
        self.pods_number += 1;
        let number = self.pods_number;
        self.pods = Some(self.follow(PODS, move |event| {
            let event = match event {
                Event::Restarted(pods) => PodEvent::Restarted(pods),
                Event::Applied(pod) => PodEvent::Applied(Arc::new(pod)),
                Event::Deleted(pod) => PodEvent::Deleted(Arc::new(pod)),
            };
            Told::Pods(number, event)
        }));
    }

    /// Lists nodes and pods in a task of its own.
    pub fn list_fresh(&self) {
        let (client, told) = (self.client.clone(), self.told.clone());
        let (nodes, pods) = (self.options(NODES), self.options(PODS));
        tokio::spawn(async move {
            let listed = async {
                let nodes = list(&client, &nodes).await?;
                let pods = list(&client, &pods).await?;
                Ok::<_, ListError>(Fresh { nodes, pods })
            };
            match listed.await {
                // Nobody takes it when its receiver has ended.
                Ok(fresh) => _ = told.send(Told::Fresh(fresh)).await,
                Err(error) => tracing::warn!("the state cannot be compared with a fresh list: {error}"),
            }
        });
    }
}
