//! From what a server tells to the state of the engine.
//!
//! A [`Feed`] remembers a fingerprint of everything it has put into a [`Cluster`]. Heartbeats and other changes that
//! placement does not see cost no more than the fingerprint; a list after an interruption is applied as the
//! differences it makes; and a fresh list can be held against the state from time to time, which is how an error
//! in any of this would come to light ([`Feed::compare_nodes`], [`Feed::compare_pods`]).

mod digest;
mod fingerprint;
mod known;
mod pod_news;
mod pods;

use berth_api::object::{Namespace, Node, ReplicationController, Service, Workload};
use berth_api::rules::Selector;
use berth_engine::Cluster;

pub use fingerprint::Fingerprint;
use fingerprint::Fingerprints;
pub use known::{Difference, Differences};
use known::{Known, Memo};
pub use pod_news::{PodName, PodNews, PodReader};
use pods::PodMemos;
pub use pods::{PodChange, PodMemo};

use berth_client::watch::{Event, KubeObject};

/// Keeps a [`Cluster`] equal to what a server tells.
#[derive(Default)]
pub struct Feed {
    fingerprints: Fingerprints,
    nodes: Known<Memo>,
    namespaces: Known<Memo>,
    services: Known<Memo>,
    replica_sets: Known<Memo>,
    stateful_sets: Known<Memo>,
    replication_controllers: Known<Memo>,
    pods: PodMemos,
}

/// The owners of pods whose selectors default spread constraints use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OwnerKind {
    /// `apps/v1` ReplicaSet.
    ReplicaSet,
    /// `apps/v1` StatefulSet.
    StatefulSet,
}

impl OwnerKind {
    fn name(self) -> &'static str {
        match self {
            OwnerKind::ReplicaSet => "ReplicaSet",
            OwnerKind::StatefulSet => "StatefulSet",
        }
    }
}

impl Feed {
    /// A feed for an empty cluster.
    pub fn new() -> Feed {
        Feed::default()
    }

    /// Number of nodes put into the cluster.
    pub fn n_nodes(&self) -> usize {
        self.nodes.len()
    }

    /// Whether a node is there.
    pub fn has_node(&self, name: &str) -> bool {
        self.nodes.contains("", name)
    }

    /// A change of nodes. Returns how many are different now.
    pub fn nodes(&mut self, cluster: &mut Cluster, event: Event<Node>) -> usize {
        let fingerprints = &self.fingerprints;
        let memo = |node: &Node| Memo::new(fingerprints.of_node(node));
        self.nodes.apply(event, memo, |change| match change {
            Change::Set(node) => cluster.set_node(node),
            Change::Unset(_, name) => cluster.remove_node(name),
        })
    }

    /// A change of namespaces. Returns how many are different now.
    pub fn namespaces(&mut self, cluster: &mut Cluster, event: Event<Namespace>) -> usize {
        let fingerprints = &self.fingerprints;
        let memo = |namespace: &Namespace| Memo::new(fingerprints.of(&namespace.metadata.labels));
        self.namespaces.apply(event, memo, |change| match change {
            Change::Set(namespace) => cluster.set_namespace(namespace),
            Change::Unset(_, name) => cluster.remove_namespace(name),
        })
    }

    /// A change of services. Returns how many are different now.
    pub fn services(&mut self, cluster: &mut Cluster, event: Event<Service>) -> usize {
        let fingerprints = &self.fingerprints;
        let memo = |service: &Service| Memo::new(fingerprints.of(&service.spec.selector));
        self.services.apply(event, memo, |change| match change {
            Change::Set(service) => cluster.set_service(service),
            Change::Unset(namespace, name) => cluster.remove_service(namespace, name),
        })
    }

    /// A change of ReplicaSets or StatefulSets. Returns how many are different now.
    pub fn owners(&mut self, cluster: &mut Cluster, kind: OwnerKind, event: Event<Workload>) -> usize {
        let fingerprints = &self.fingerprints;
        let memo = |workload: &Workload| Memo::new(fingerprints.of(&workload.spec.selector));
        let known = match kind {
            OwnerKind::ReplicaSet => &mut self.replica_sets,
            OwnerKind::StatefulSet => &mut self.stateful_sets,
        };
        known.apply(event, memo, |change| match change {
            Change::Set(workload) => {
                let (namespace, name) = workload.key();
                let selector = Selector::parse(workload.spec.selector.as_ref()).ok();
                cluster.set_owner_selector(kind.name(), namespace, name, selector);
            }
            Change::Unset(namespace, name) => {
                cluster.set_owner_selector(kind.name(), namespace, name, None);
            }
        })
    }

    /// A change of ReplicationControllers. Returns how many are different now.
    pub fn replication_controllers(
        &mut self,
        cluster: &mut Cluster,
        event: Event<ReplicationController>,
    ) -> usize {
        const KIND: &str = "ReplicationController";
        let fingerprints = &self.fingerprints;
        let memo = |owner: &ReplicationController| Memo::new(fingerprints.of(&owner.spec.selector));
        self.replication_controllers.apply(event, memo, |change| match change {
            Change::Set(owner) => {
                let (namespace, name) = owner.key();
                let equal = |(key, value): (&String, &String)| {
                    berth_api::rules::Requirement::In(key.clone(), vec![value.clone()])
                };
                let selector = Selector::new(owner.spec.selector.iter().map(equal).collect());
                cluster.set_owner_selector(KIND, namespace, name, Some(selector));
            }
            Change::Unset(namespace, name) => cluster.set_owner_selector(KIND, namespace, name, None),
        })
    }

    /// How a fresh list of nodes differs from what is in the cluster. A difference that two lists in a row show
    /// alike, some seconds apart, cannot be a change that is still on its way.
    pub fn compare_nodes(&self, listed: &[Node]) -> Differences {
        self.nodes.compare(listed, |node| Memo::new(self.fingerprints.of_node(node)))
    }
}

/// What is to be done to the cluster.
enum Change<'a, T> {
    Set(&'a T),
    Unset(&'a str, &'a str),
}
