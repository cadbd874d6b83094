//! Everything the scheduler is told, in one channel.

use std::sync::Arc;

use berth_api::object::{
    Namespace, Node, Pod, PodDisruptionBudget, ReplicationController, Service, Workload,
};
use berth_watch::feed::OwnerKind;
use berth_watch::{Event, FollowOptions, follow_into};
use tokio::sync::mpsc;
use tokio::task::AbortHandle;

use crate::options::SchedulerOptions;

/// Something told by the server.
pub(crate) enum Told {
    Nodes(Event<Node>),
    /// Pods, with the number of the following that tells them.
    Pods(u32, PodEvent),
    Namespaces(Event<Namespace>),
    Services(Event<Service>),
    Owners(OwnerKind, Event<Workload>),
    ReplicationControllers(Event<ReplicationController>),
    Budgets(Event<PodDisruptionBudget>),
    /// A list made to compare the state with.
    Fresh(Fresh),
}

/// As [`Event`], with pods that waiting ones are kept as.
pub(crate) enum PodEvent {
    Restarted(Vec<Pod>),
    Applied(Arc<Pod>),
    Deleted(Arc<Pod>),
}

/// Lists made to compare the state with.
pub(crate) struct Fresh {
    pub(crate) nodes: Vec<Node>,
    pub(crate) pods: Vec<Pod>,
}

/// What must have been listed before anything is decided.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Source {
    Nodes,
    Pods,
    Namespaces,
    Services,
    ReplicaSets,
    StatefulSets,
    ReplicationControllers,
    Budgets,
}

impl Source {
    pub(crate) const ALL: [Source; 8] = [
        Source::Nodes,
        Source::Pods,
        Source::Namespaces,
        Source::Services,
        Source::ReplicaSets,
        Source::StatefulSets,
        Source::ReplicationControllers,
        Source::Budgets,
    ];

    pub(crate) fn name(self) -> &'static str {
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
    pub(crate) fn completes(&self) -> Option<Source> {
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
pub(crate) struct Sources {
    client: kube::Client,
    told: mpsc::Sender<Told>,
    patience: FollowOptions,
    pods: Option<AbortHandle>,
    /// Number of the following of pods that counts.
    pub(crate) pods_number: u32,
}

impl Sources {
    /// Follows everything the scheduler needs to know.
    pub(crate) fn start(
        client: kube::Client,
        options: &SchedulerOptions,
        told: mpsc::Sender<Told>,
    ) -> Sources {
        let patience =
            FollowOptions { idle_timeout: options.watch_idle_timeout, ..FollowOptions::new(String::new()) };
        let mut sources = Sources { client, told, patience, pods: None, pods_number: 0 };
        sources.follow(NODES, Told::Nodes);
        sources.follow("/api/v1/namespaces", Told::Namespaces);
        sources.follow("/api/v1/services", Told::Services);
        sources.follow("/api/v1/replicationcontrollers", Told::ReplicationControllers);
        sources.follow("/apis/apps/v1/replicasets", |e| Told::Owners(OwnerKind::ReplicaSet, e));
        sources.follow("/apis/apps/v1/statefulsets", |e| Told::Owners(OwnerKind::StatefulSet, e));
        sources.follow("/apis/policy/v1/poddisruptionbudgets", Told::Budgets);
        sources.restart_pods();
        sources
    }

    fn options(&self, path: &str) -> FollowOptions {
        // An API without workloads or budgets is one to schedule on as well.
        let missing_is_empty = path != PODS && path != NODES;
        FollowOptions { path: path.to_owned(), missing_is_empty, ..self.patience.clone() }
    }

    fn follow<T>(&self, path: &str, wrap: impl Fn(Event<T>) -> Told + Send + Sync + 'static) -> AbortHandle
    where
        T: berth_watch::Versioned + serde::de::DeserializeOwned + Send + 'static,
    {
        let following = follow_into(self.client.clone(), self.options(path), self.told.clone(), wrap);
        tokio::spawn(following).abort_handle()
    }

    /// Lists pods anew and follows them from there. What the following before still tells has an old number.
    pub(crate) fn restart_pods(&mut self) {
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
    pub(crate) fn list_fresh(&self) {
        let (client, told) = (self.client.clone(), self.told.clone());
        let (nodes, pods) = (self.options(NODES), self.options(PODS));
        tokio::spawn(async move {
            let listed = async {
                let nodes = berth_watch::list(&client, &nodes).await?;
                let pods = berth_watch::list(&client, &pods).await?;
                Ok::<_, berth_watch::follow::ListError>(Fresh { nodes, pods })
            };
            match listed.await {
                // Nobody takes it when the scheduler has ended.
                Ok(fresh) => _ = told.send(Told::Fresh(fresh)).await,
                Err(error) => tracing::warn!("the state cannot be compared with a fresh list: {error}"),
            }
        });
    }
}
