//! Nodes and pods of a running cluster, and what happened to pods.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use berth_api::object::{NamespacedName, find_condition};
use berth_api::resource::{NODES, PODS};
use berth_client::{Cache, Change, Informer, ObservedObject, WatchOptions};
use berth_simulate::Unadmitted;
use kube::Client;
use tokio::sync::watch;
use tokio_util::sync::{CancellationToken, DropGuard};

berth_api::named! {
    /// The stage of a pod's life.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
    pub enum Stage(name) {
        /// No scheduler has processed it.
        New = "new",
        /// It is unschedulable or has scheduling gates.
        Pending = "pending",
        /// The node that it names does not exist, or cannot mount its volumes.
        Waiting = "waiting for nodes or volumes",
        /// It has a node and has not started.
        Bound = "starting",
        Running = "running",
        Succeeded = "succeeded",
        Rejected = "rejected by their nodes",
        Failed = "failed",
        Terminating = "terminating",
    }
}

impl Stage {
    /// The stage of a pod whose node exists, if it has one.
    fn on_known_node(pod: &ObservedObject) -> Stage {
        match pod.status.phase.as_str() {
            "Succeeded" => Stage::Succeeded,
            "Failed" if pod.rejection().is_some() && !pod.metadata.is_deleting() => Stage::Rejected,
            "Failed" => Stage::Failed,
            _ if pod.metadata.is_deleting() => Stage::Terminating,
            "Running" => Stage::Running,
            _ if pod.node().is_some() => Stage::Bound,
            _ if pod.unscheduled_condition().is_some() => Stage::Pending,
            _ => Stage::New,
        }
    }
}

/// A pod that a scheduler preempted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Victim {
    pub node: String,
    /// The uid of the pod that preempted it; none if the scheduler does not tell.
    pub preemptor: Option<String>,
}

/// All nodes and pods, from informers.
pub struct Observed {
    nodes: Arc<Cache<ObservedObject>>,
    pods: Arc<Cache<ObservedObject>>,
    /// Whether nodes and pods have been listed.
    synced: [watch::Receiver<bool>; 2],
    history: Arc<Mutex<History>>,
    /// Pods that wait for volumes that their nodes cannot mount, as `namespace/name`.
    unmounted: Mutex<HashMap<String, Unadmitted>>,
    _stop: DropGuard,
}

/// What happened so far.
#[derive(Debug, Default)]
pub struct History {
    /// Pods that a scheduler preempted.
    pub victims: BTreeMap<NamespacedName, Victim>,
    /// Pods that were nominated, by node.
    pub nominated: BTreeMap<String, BTreeSet<NamespacedName>>,
    pub n_bound: u64,
    /// Increases with every change of a node or pod.
    pub version: u64,
}

impl Observed {
    /// Starts the informers; they stop when this is dropped.
    pub fn start(client: &Client) -> Observed {
        let stop = CancellationToken::new();
        let history: Arc<Mutex<History>> = Arc::default();
        let mut nodes = Informer::<ObservedObject>::new(WatchOptions::new(NODES.path("")));
        let mut pods = Informer::<ObservedObject>::new(WatchOptions::new(PODS.path("")));
        let changes = history.clone();
        nodes.on_change(move |_| lock(&changes).version += 1);
        let changes = history.clone();
        pods.on_change(move |change| lock(&changes).pod_changed(change));
        let observed = Observed {
            nodes: nodes.cache(),
            pods: pods.cache(),
            synced: [nodes.synced(), pods.synced()],
            history,
            unmounted: Mutex::default(),
            _stop: stop.clone().drop_guard(),
        };
        tokio::spawn(nodes.run(client.clone(), stop.clone()));
        tokio::spawn(pods.run(client.clone(), stop));
        observed
    }

    pub fn node(&self, name: &str) -> Option<Arc<ObservedObject>> {
        self.nodes.get(&NamespacedName::new("", name))
    }

    /// All nodes, unordered.
    pub fn nodes(&self) -> Vec<Arc<ObservedObject>> {
        self.nodes.all()
    }

    pub fn stage(&self, pod: &ObservedObject) -> Stage {
        match Stage::on_known_node(pod) {
            Stage::Bound if pod.node().is_some_and(|node| self.node(node).is_none()) => Stage::Waiting,
            Stage::Bound if self.unmounted(pod).is_some() => Stage::Waiting,
            stage => stage,
        }
    }

    /// Why the node of a pod cannot mount its volumes, as far as that was found out.
    pub fn unmounted(&self, pod: &ObservedObject) -> Option<Unadmitted> {
        let unmounted = self.unmounted.lock().unwrap_or_else(PoisonError::into_inner);
        unmounted.get(&pod.metadata.namespaced_name().to_string()).cloned()
    }

    pub fn set_unmounted(&self, pods: HashMap<String, Unadmitted>) {
        *self.unmounted.lock().unwrap_or_else(PoisonError::into_inner) = pods;
    }

    /// All pods, unordered.
    pub fn pods(&self) -> Vec<Arc<ObservedObject>> {
        self.pods.all()
    }

    pub fn history(&self) -> MutexGuard<'_, History> {
        lock(&self.history)
    }

    /// Whether a pod is unschedulable, does not run on the node that it names, or was preempted.
    pub fn has_failures(&self) -> bool {
        let fails = |pod| matches!(self.stage(pod), Stage::Pending | Stage::Rejected | Stage::Waiting);
        !self.history().victims.is_empty() || self.pods().iter().any(|pod| fails(pod))
    }

    /// Whether nodes and pods have been listed.
    pub fn is_complete(&self) -> bool {
        self.synced.iter().all(|synced| *synced.borrow())
    }

    pub fn tally(&self) -> Tally {
        let (nodes, pods) = (self.nodes(), self.pods());
        let n_ready = nodes.iter().filter(|node| node.is_ready()).count();
        let mut tally = Tally { n_nodes: nodes.len(), n_ready, ..Tally::default() };
        let mut messages: HashMap<&str, usize> = HashMap::new();
        for pod in &pods {
            let stage = self.stage(pod);
            *tally.stages.entry(stage).or_default() += 1;
            if stage == Stage::Pending {
                let message = pod.unscheduled_condition().map(|c| c.message.as_str()).unwrap_or_default();
                *messages.entry(message).or_default() += 1;
            }
        }
        // The most frequent message; ties are broken by text.
        let top = messages.into_iter().max_by(|a, b| a.1.cmp(&b.1).then_with(|| b.0.cmp(a.0)));
        tally.top_message = top.map(|(message, n_pods)| (message.to_owned(), n_pods));
        tally
    }
}

fn lock(history: &Mutex<History>) -> MutexGuard<'_, History> {
    history.lock().unwrap_or_else(PoisonError::into_inner)
}

impl History {
    fn pod_changed(&mut self, change: &Change<'_, ObservedObject>) {
        self.version += 1;
        let Some(pod) = change.latest() else { return };
        let name = || pod.metadata.namespaced_name();
        let target = find_condition(&pod.status.conditions, "DisruptionTarget");
        if let Some(condition) = target.filter(|c| c.is_true() && c.reason == "PreemptionByScheduler")
            && let Some(node) = pod.node()
        {
            let uid = condition.message.rsplit_once(" (uid ").and_then(|(_, uid)| uid.strip_suffix(')'));
            self.victims.insert(name(), Victim { node: node.to_owned(), preemptor: uid.map(str::to_owned) });
        }
        if pod.is_nominated() {
            self.nominated.entry(pod.status.nominated_node_name.clone()).or_default().insert(name());
        }
        if pod.node().is_some() && change.old.is_some_and(|old| old.node().is_none()) {
            self.n_bound += 1;
        }
    }
}

/// Counts of nodes and pods.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    pub n_nodes: usize,
    pub n_ready: usize,
    /// Pods by stage; stages without pods are left out.
    pub stages: BTreeMap<Stage, usize>,
    /// The most frequent message of pending pods, and their number.
    pub top_message: Option<(String, usize)>,
}

impl Tally {
    pub fn n_pods(&self) -> usize {
        self.stages.values().sum()
    }
}

#[cfg(test)]
pub mod tests {
    use serde_json::{Value, json};

    use super::*;

    impl Observed {
        /// A cluster that has been listed.
        pub fn of(nodes: Vec<ObservedObject>, pods: Vec<ObservedObject>) -> Observed {
            let observed = Observed {
                nodes: Arc::default(),
                pods: Arc::default(),
                synced: [true, true].map(|synced| watch::Sender::new(synced).subscribe()),
                history: Arc::default(),
                unmounted: Mutex::default(),
                _stop: CancellationToken::new().drop_guard(),
            };
            nodes.into_iter().for_each(|node| _ = observed.nodes.insert(Arc::new(node)));
            pods.into_iter().for_each(|pod| observed.set(pod));
            observed
        }

        fn set(&self, pod: ObservedObject) {
            let pod = Arc::new(pod);
            let old = self.pods.insert(pod.clone());
            self.history().pod_changed(&Change { old: old.as_ref(), new: Some(&pod) });
        }
    }

    fn pod(name: &str, spec: Value, status: Value) -> ObservedObject {
        let pod = json!({"metadata": {"name": name, "namespace": "a"}, "spec": spec, "status": status});
        serde_json::from_value(pod).unwrap()
    }

    fn pending(name: &str, message: &str) -> ObservedObject {
        let condition = json!({"type": "PodScheduled", "status": "False", "message": message});
        pod(name, json!({}), json!({"phase": "Pending", "conditions": [condition]}))
    }

    #[test]
    fn pods_are_counted_by_stage() {
        let mut pods = vec![
            pod("new", json!({}), json!({"phase": "Pending"})),
            pod("bound", json!({"nodeName": "n"}), json!({"phase": "Pending"})),
            pod("waiting", json!({"nodeName": "gone"}), json!({"phase": "Pending"})),
            pod("failed", json!({"nodeName": "n"}), json!({"phase": "Failed", "message": "Pod was evicted"})),
            pod(
                "rejected",
                json!({"nodeName": "n"}),
                json!({"phase": "Failed", "reason": "OutOfcpu", "message": "Pod was rejected: no room"}),
            ),
            pod("running", json!({"nodeName": "n"}), json!({"phase": "Running"})),
        ];
        pods.extend([("x", "0/3 nodes"), ("y", "0/3 nodes"), ("z", "gated")].map(|(n, why)| pending(n, why)));
        let node = serde_json::from_value(json!({"metadata": {"name": "n"}})).unwrap();
        let tally = Observed::of(vec![node], pods).tally();
        let expected = [
            (Stage::New, 1),
            (Stage::Pending, 3),
            (Stage::Waiting, 1),
            (Stage::Bound, 1),
            (Stage::Running, 1),
            (Stage::Rejected, 1),
            (Stage::Failed, 1),
        ];
        assert_eq!(tally.stages, BTreeMap::from(expected));
        assert_eq!(tally.n_pods(), 9);
        assert_eq!(tally.top_message, Some(("0/3 nodes".to_owned(), 2)));
    }

    #[test]
    fn victims_are_known_with_their_preemptors_and_nodes() {
        let target = json!({"type": "DisruptionTarget", "status": "True", "reason": "PreemptionByScheduler",
            "message": "berth: preempting to accommodate a higher priority pod (uid u)"});
        let victim = pod("low", json!({"nodeName": "n"}), json!({"conditions": [target]}));
        let high = pod("high", json!({}), json!({"nominatedNodeName": "n"}));
        let observed = Observed::of(Vec::new(), vec![high]);
        let deleted = Change { old: Some(&Arc::new(victim)), new: None };
        observed.history().pod_changed(&deleted);
        let keys = |name: &str| NamespacedName::new("a", name);
        let victim = Victim { node: "n".to_owned(), preemptor: Some("u".to_owned()) };
        let history = observed.history();
        assert_eq!(history.victims, BTreeMap::from([(keys("low"), victim)]));
        assert_eq!(history.nominated["n"], BTreeSet::from([keys("high")]));
    }

    #[test]
    fn a_binding_is_counted_once_and_only_when_seen() {
        let states = [("there", json!({"nodeName": "n"}), json!({})), ("p", json!({}), json!({}))];
        let bound =
            [json!({}), json!({"phase": "Running"})].map(|status| ("p", json!({"nodeName": "n"}), status));
        let pods = states.into_iter().chain(bound).map(|(name, spec, status)| pod(name, spec, status));
        assert_eq!(Observed::of(Vec::new(), pods.collect()).history().n_bound, 1);
    }
}
