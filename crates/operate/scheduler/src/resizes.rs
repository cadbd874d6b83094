//! Running pods whose resize their node defers, as it has no room: pods of lower priority are preempted there. The kubelet then does the
//! resize. With the gate `InPlacePodVerticalScalingSchedulerPreemption` only.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use berth_api::feature_gates::FeatureGates;
use berth_api::object::{Node, Pod};
use berth_client::call::CallError;
use berth_engine::PreparedPod;
use berth_mirror::Source;
use tokio::time::Instant;

use crate::completion::Eviction;
use crate::context::Context;
use crate::pending::Preemptions;
use crate::pod_status::Victim;

/// After a search for victims, none follows for this many times as long as it took.
const SEARCH_COST: u32 = 20;
const PAUSE_AFTER_FAILURE: Duration = Duration::from_secs(1);

pub(crate) struct DeferredResizes {
    is_enabled: bool,
    /// By uid.
    pods: BTreeMap<String, Deferred>,
    /// The nodes where no pod is preempted for the resize of another.
    nodes_without: BTreeSet<String>,
    /// Whether something has changed since the last search.
    is_due: bool,
    not_before: Instant,
    period: Duration,
}

struct Deferred {
    pod: Arc<Pod>,
    prepared: PreparedPod,
    victims: Vec<Victim>,
    preemptions: Preemptions,
}

impl DeferredResizes {
    /// `period`: of preemptions that make no room, one follows in each.
    pub(crate) fn new(gates: FeatureGates, period: Duration, now: Instant) -> DeferredResizes {
        let is_enabled = gates.in_place_pod_vertical_scaling_scheduler_preemption;
        let (pods, nodes_without) = (BTreeMap::new(), BTreeSet::new());
        DeferredResizes { is_enabled, pods, nodes_without, is_due: false, not_before: now, period }
    }

    /// A pod with a node was added or changed.
    pub(crate) fn pod_applied(&mut self, context: &mut Context, pod: &Arc<Pod>) {
        if !self.is_enabled {
            return;
        }
        self.is_due = true;
        let is_ours = context.state.config.profile(&pod.spec.scheduler_name).is_some();
        if !is_ours || !pod.status.is_resize_deferred() || pod.metadata.is_deleting() {
            self.pods.remove(&pod.metadata.uid);
            return;
        }
        let before = self.pods.remove(&pod.metadata.uid);
        let (victims, preemptions) = before.map(|d| (d.victims, d.preemptions)).unwrap_or_default();
        let prepared = context.state.cluster.prepare(pod);
        let deferred = Deferred { pod: pod.clone(), prepared, victims, preemptions };
        self.pods.insert(pod.metadata.uid.clone(), deferred);
    }

    pub(crate) fn pod_deleted(&mut self, uid: &str) {
        self.is_due = self.is_enabled;
        self.pods.remove(uid);
    }

    pub(crate) fn node_applied(&mut self, node: &Node) {
        self.is_due = self.is_enabled;
        if node.spec.pod_preemption_policy.disable_resize_preemption.is_empty() {
            self.nodes_without.remove(&node.metadata.name);
        } else if self.is_enabled {
            self.nodes_without.insert(node.metadata.name.clone());
        }
    }

    pub(crate) fn node_deleted(&mut self, node: &str) {
        self.nodes_without.remove(node);
    }

    /// Preempts for the pods whose node still has no room.
    pub(crate) fn preempt(&mut self, context: &mut Context, now: Instant) {
        let is_readable = context.state.mirror.unreadable(Source::Budgets).is_none();
        if !self.is_due || self.pods.is_empty() || now < self.not_before || !is_readable {
            return;
        }
        self.is_due = false;
        let began = Instant::now();
        let Context { state, pending } = context;
        for deferred in self.pods.values_mut() {
            let Deferred { pod, prepared, victims, preemptions } = deferred;
            victims.retain(|victim| state.exists(victim));
            if !victims.is_empty() || self.nodes_without.contains(&pod.spec.node_name) {
                continue;
            }
            if !pending.statuses.has_room() {
                self.is_due = true;
                break;
            }
            let Some(found) = state.cluster.preempt_for_resize(prepared, state.budgets.list()) else {
                continue;
            };
            if preemptions.too_many(now, self.period).is_some() {
                continue;
            }
            tracing::info!(
                pod = pod.key(),
                node = found.node,
                victims = found.victims.len(),
                "preempting for a resize"
            );
            pending.metrics.preemption_attempts.inc();
            pending.metrics.preemption_victims.observe(found.victims.len() as f64);
            *victims = found.victims.into_iter().filter_map(|name| state.victim(name)).collect();
            pending.statuses.evict_now(Eviction {
                id: None,
                pod: pod.clone(),
                group: None,
                node: found.node.into(),
                victims: victims.clone(),
                chosen_at: now,
            });
        }
        self.not_before = now + began.elapsed() * SEARCH_COST;
    }

    pub(crate) fn evicted(&mut self, eviction: &Eviction, n_evicted: usize, failed: Option<CallError>) {
        let Some(deferred) = self.pods.get_mut(&eviction.pod.metadata.uid) else { return };
        if n_evicted > 0 {
            deferred.preemptions.add(eviction.chosen_at);
        }
        if let Some(error) = failed {
            tracing::warn!(pod = eviction.pod.key(), node = %eviction.node, "preemption failed: {error}");
            deferred.victims.clear();
            (self.is_due, self.not_before) = (true, Instant::now() + PAUSE_AFTER_FAILURE);
        }
    }
}
