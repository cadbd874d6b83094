//! Unreachable nodes: sets their conditions to unknown, taints them against new pods, and later evicts their pods.

mod eviction;
mod health;
mod zones;

pub(crate) use eviction::{Eviction, Leaves, TaintEviction, leaves};

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use berth_api::object::NamespacedName;
use berth_api::resource::{NODES, PODS};
use berth_control::taints::{Evict, wanted};
use futures::future::join_all;
use jiff::Timestamp;
use serde_json::json;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use self::health::{Heard, unknown_conditions};
use self::zones::Zones;
use super::api::Api;
use super::events::{Recorder, Reference};
use super::index::Index;
use super::informers::{Caches, Informers};
use super::options::ControllerOptions;
use super::queue::{Next, Queue, work};
use super::view::{Condition, Node, NodeTaint};
use berth_client::call::CallError;

/// The namespace of the node leases.
const NODE_LEASES: &str = "kube-node-lease";

pub(crate) struct NodeLifecycle {
    api: Api,
    recorder: Recorder,
    caches: Caches,
    options: ControllerOptions,
    /// Decisions of the last round, by node, for nodes that change between two rounds.
    decisions: Mutex<HashMap<String, Evict>>,
    queue: Arc<Queue<NamespacedName>>,
}

impl NodeLifecycle {
    /// Creates a controller and registers its handlers with these informers.
    pub(crate) fn new(
        api: &Api,
        recorder: Recorder,
        informers: &mut Informers,
        options: ControllerOptions,
    ) -> Self {
        let queue: Arc<Queue<NamespacedName>> = Arc::default();
        let handler = queue.clone();
        informers.nodes.on_change(move |change| {
            let Some(node) = change.new else { return };
            // A heartbeat without other changes causes no sync.
            let same = change.old.is_some_and(|old| {
                let states = |node: &Node| -> Vec<(String, String)> {
                    node.status
                        .conditions
                        .iter()
                        .map(|c| (c.condition_type.clone(), c.status.clone()))
                        .collect()
                };
                old.spec.unschedulable == node.spec.unschedulable
                    && old.spec.taints == node.spec.taints
                    && states(old) == states(node)
            });
            if !same {
                handler.add(node.metadata.namespaced_name());
            }
        });
        let (api, caches) = (api.clone(), informers.caches());
        NodeLifecycle { api, recorder, caches, options, decisions: Mutex::default(), queue }
    }

    pub(crate) async fn run(self, n_workers: usize, stop: CancellationToken) {
        let by_change = work("node-lifecycle", &self.queue, n_workers, |key| self.sync(key), stop.clone());
        tokio::join!(by_change, self.monitor(stop));
    }

    /// Sets the taints of a changed node.
    async fn sync(&self, key: NamespacedName) -> Result<Next, CallError> {
        let Some(node) = self.caches.nodes.get(&key) else { return Ok(Next::Wait) };
        // The eviction turn is used once; afterwards the taints stay as they are.
        let never = self.lock_decisions().get(key.name()) == Some(&Evict::Never);
        self.set_taints(&node, if never { Evict::Never } else { Evict::Keep }).await?;
        Ok(Next::Wait)
    }

    async fn monitor(&self, stop: CancellationToken) {
        let mut heard: HashMap<String, Heard> = HashMap::new();
        let mut zones = Zones::default();
        loop {
            tokio::select! {
                () = self.look_around(&mut heard, &mut zones) => {}
                () = stop.cancelled() => return,
            }
            tokio::select! {
                () = tokio::time::sleep(self.options.node_monitor_period) => {}
                () = stop.cancelled() => return,
            }
        }
    }

    async fn look_around(&self, heard: &mut HashMap<String, Heard>, zones: &mut Zones) {
        let nodes = self.caches.nodes.all();
        let now = Instant::now();
        let mut silent = Vec::new();
        let mut next = HashMap::with_capacity(nodes.len());
        for node in &nodes {
            let name = &node.metadata.name;
            let lease = self.caches.leases.get(&NamespacedName::new(NODE_LEASES, name));
            let heard = Heard::of(heard.get(name), node, lease.as_deref(), now);
            if heard.is_silent(self.options.node_monitor_grace_period, now) {
                silent.push(node);
            }
            next.insert(name.clone(), heard);
        }
        *heard = next;
        join_all(silent.into_iter().map(|node| self.mark_silent(node))).await;

        let alive: Vec<&Node> =
            nodes.iter().map(|node| &**node).filter(|n| !n.metadata.is_deleting()).collect();
        let decisions = zones.decide(&alive, &self.options.eviction_rates, now);
        let kept = decisions.iter().map(|(name, decision)| ((*name).to_owned(), *decision)).collect();
        let changed = alive.into_iter().filter_map(|node| {
            let decision = decisions.get(&*node.metadata.name).copied().unwrap_or(Evict::Keep);
            (decision != Evict::Keep).then_some((node, decision))
        });
        let written = join_all(changed.map(|(node, decision)| self.set_taints(node, decision))).await;
        for error in written.into_iter().filter_map(Result::err) {
            // The next round uses the new state of the node.
            tracing::debug!(%error, "taints not written");
        }
        *self.lock_decisions() = kept;
    }

    /// Sets the node's conditions to unknown and its pods to not ready.
    async fn mark_silent(&self, node: &Node) {
        let name = &node.metadata.name;
        let conditions = unknown_conditions(node, Timestamp::now());
        if !conditions.is_empty() {
            if let Err(error) =
                self.api.merge_status(&NODES, &node.metadata, &json!({"conditions": conditions})).await
            {
                tracing::warn!(node = %name, %error, "the conditions are not written yet and will be retried");
                return;
            }
            if conditions.iter().any(|condition| condition.condition_type == "Ready") {
                let about = Reference::new(&NODES, &node.metadata);
                let message = format!("Node {name} status is now: NodeNotReady");
                self.recorder.normal(&about, "NodeNotReady", message);
            }
        }
        let pods = self.caches.pods.by(&Index::Node(name.clone()));
        let ready = pods.iter().filter(|pod| pod.is_ready() && !pod.metadata.is_deleting());
        let updates = ready.map(|pod| async {
            let condition =
                Condition::new("Ready", "False", "NodeNotReady", "The node is not ready.", Timestamp::now());
            let status = json!({"conditions": [condition]});
            if let Err(error) = self.api.merge_status(&PODS, &pod.metadata, &status).await {
                tracing::debug!(%error, "the pod is not marked yet and will be retried");
                return;
            }
            self.recorder.warning(&Reference::new(&PODS, &pod.metadata), "NodeNotReady", "Node is not ready");
        });
        join_all(updates).await;
    }

    async fn set_taints(&self, node: &Node, evict: Evict) -> Result<(), CallError> {
        let new = |taint| NodeTaint { taint, time_added: Some(Timestamp::now()) };
        let spec = &node.spec;
        let holds = |condition: &str, status: &str| node.holds(condition, status);
        let taints = wanted(&spec.taints, spec.unschedulable, &holds, evict, new);
        if taints == spec.taints {
            return Ok(());
        }
        let patch = json!({
            "metadata": {"uid": node.metadata.uid, "resourceVersion": node.metadata.resource_version},
            "spec": {"taints": taints},
        });
        self.api.patch_existing(&NODES, &node.metadata.namespaced_name(), &patch).await.map(drop)
    }

    fn lock_decisions(&self) -> std::sync::MutexGuard<'_, HashMap<String, Evict>> {
        self.decisions.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
