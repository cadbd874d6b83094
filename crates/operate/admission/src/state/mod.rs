//! The state of the cluster, for the rules that need it.
//!
//! The mirror applies nodes, namespaces and assigned pods to [`State::cluster`], and reports nodes and pods with
//! [`State::node_applied`], [`State::pod_applied`] and their counterparts. What admission allowed counts before the watch
//! reports it: bound pods on their node, and pods with exclusive nodes against the budget of their namespace. Both for a
//! bounded time, since the API server may still reject what admission allowed.

mod charged;
mod exclusive;
mod holds;
mod offered;

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use berth_api::object::{GroupKey, Node, Pod};
use berth_api::syntax::annotations::AFFINITY_ANNOTATION;
use berth_engine::{Cluster, Settings};
use berth_input::config::{Plugin, Profile, SchedulerConfig};
use berth_input::policy::PolicySet;
use berth_rules::RuleOptions;

use crate::answer::ReviewError;
use crate::policy::{GuardedRule, Measure, Policy};
pub(crate) use charged::{ChargedPod, ChargedPods, cost, may_be_charged};
pub(crate) use exclusive::{ExclusiveNodes, ExclusivePod, exclusive_term, pinned_node};
pub use holds::Hold;
use holds::Holds;
pub(crate) use offered::{Charge, OfferedNodes};

/// The scheduler name of the profile that has the guarded rules only.
pub(crate) const GUARD_PROFILE: &str = "admission.berth.dev/binding-guard";
/// The scheduler name of the profile that predicts placements.
pub(crate) const PLACING_PROFILE: &str = "admission.berth.dev/placing";
/// How long a pod with its own node counts against a budget before it is seen.
const RESERVED_FOR: Duration = Duration::from_secs(10);

/// The state of a cluster, for the rules that need it.
pub struct State {
    cluster: Cluster,
    /// Pending pods, by namespace and name; only for the binding guard.
    waiting: Option<HashMap<String, Pod>>,
    pub(crate) holds: Holds,
    pub(crate) nodes: OfferedNodes,
    pub(crate) exclusive: ExclusiveNodes,
    /// Only for placement quotas.
    pub(crate) charged: Option<ChargedPods>,
}

pub(crate) fn key(namespace: &str, name: &str) -> String {
    format!("{namespace}/{name}")
}

/// The webhook does not watch volumes, devices and claims: it does not decide about them.
fn without_volumes_and_devices(mut profile: Profile) -> Profile {
    let is_other =
        |plugin: &Plugin| !berth_engine::reads_volumes(*plugin) && *plugin != Plugin::DynamicResources;
    profile.pre_filter.retain(is_other);
    profile.filter.retain(is_other);
    profile
}

impl State {
    /// An empty state for a policy.
    pub fn new(policy: &Policy) -> State {
        let RuleOptions { extensions, feature_gates } = policy.rule_options;
        let guard = policy.binding_guard.as_ref();
        let plugins = guard.map(|g| g.rules.iter().copied().map(plugin).collect()).unwrap_or_default();
        let guard_profile = Profile {
            scheduler_name: GUARD_PROFILE.to_owned(),
            scheduling_gates: false,
            preemption: false,
            filter: plugins,
            pre_score: Vec::new(),
            score: Vec::new(),
            ..Profile::default()
        };
        let placing = Profile { scheduler_name: PLACING_PROFILE.to_owned(), ..Profile::default() };
        let profiles = [guard_profile, placing].map(without_volumes_and_devices).into();
        let settings = Settings {
            config: SchedulerConfig { profiles, feature_gates, ..SchedulerConfig::default() },
            extensions,
            exempt_namespaces: policy.exempt_namespaces.clone(),
            exempt_from_v1: policy.exempt_from_v1,
            all_topologies: policy.all_topologies.clone(),
            ..Settings::default()
        };
        State {
            cluster: Cluster::new(settings),
            waiting: guard.map(|_| HashMap::new()),
            holds: Holds::default(),
            nodes: OfferedNodes::default(),
            exclusive: ExclusiveNodes::new(RESERVED_FOR),
            charged: policy.placement_quotas.then(ChargedPods::default),
        }
    }

    /// The engine's state, for the mirror.
    pub fn cluster(&mut self) -> &mut Cluster {
        &mut self.cluster
    }

    /// A node was added or changed. The engine's state has it already.
    pub fn node_applied(&mut self, node: &Node) {
        self.nodes.set(node);
    }

    pub fn node_deleted(&mut self, name: &str) {
        self.nodes.remove(name);
    }

    /// A pod was added or changed, with or without a node. If it has one, the engine's state has it already.
    pub fn pod_applied(&mut self, pod: &Pod) {
        let metadata = &pod.metadata;
        let key = key(&metadata.namespace, &metadata.name);
        if pod.is_terminal() {
            return self.drop_pod(&key, &metadata.namespace, &metadata.name);
        }
        let rules = has_anti_affinity(pod).then(|| self.cluster.rules_of(pod));
        self.exclusive.saw(pod, rules.as_ref());
        if let Some(charged) = &mut self.charged {
            charged.saw(pod, rules.as_ref());
        }
        if !pod.spec.node_name.is_empty() {
            self.holds.remove(&key);
            if let Some(waiting) = &mut self.waiting {
                waiting.remove(&key);
            }
            return;
        }
        // Another pod of the same name has no held binding.
        if self.holds.get(&key).is_some_and(|hold| hold.uid != metadata.uid) {
            self.release(&key, &metadata.namespace, &metadata.name);
        }
        if let Some(waiting) = &mut self.waiting {
            waiting.insert(key, pod.clone());
        }
    }

    /// A pod was deleted. The engine's state does not have it any more.
    pub fn pod_deleted(&mut self, namespace: &str, name: &str, uid: &str) {
        let key = key(namespace, name);
        let waits = self.waiting.as_ref().and_then(|w| w.get(&key));
        // Another pod of the same name may be there by now.
        if waits.is_some_and(|pod| pod.metadata.uid != uid) {
            return;
        }
        self.drop_pod(&key, namespace, name);
    }

    pub(crate) fn waiting(&self, namespace: &str, name: &str) -> Option<&Pod> {
        self.waiting.as_ref()?.get(&key(namespace, name))
    }

    /// The other pods of a pod's group that have no node, and no held binding; none if it belongs to no group.
    pub(crate) fn waiting_members(&self, pod: &Pod) -> Option<Vec<Pod>> {
        let group_of = |pod: &Pod| GroupKey::of(pod, self.cluster.settings().extensions);
        let group = group_of(pod)?;
        let is_member = |(key, other): &(&String, &Pod)| {
            other.metadata.uid != pod.metadata.uid
                && self.holds.get(key).is_none()
                && group_of(other).as_ref() == Some(&group)
        };
        let members = self.waiting.iter().flatten().filter(is_member);
        Some(members.map(|(_, other)| other.clone()).collect())
    }

    pub(crate) fn expire(&mut self, now: Instant) {
        for hold in self.holds.expired(now) {
            self.cluster.remove_pod(&hold.namespace, &hold.name);
        }
        self.exclusive.expire(now);
    }

    /// Releases the held binding of a pod.
    pub(crate) fn release(&mut self, key: &str, namespace: &str, name: &str) {
        if self.holds.remove(key) {
            self.cluster.remove_pod(namespace, name);
        }
    }

    fn drop_pod(&mut self, key: &str, namespace: &str, name: &str) {
        self.release(key, namespace, name);
        self.exclusive.gone(namespace, name);
        if let Some(charged) = &mut self.charged {
            charged.gone(namespace, name);
        }
        if let Some(waiting) = &mut self.waiting {
            waiting.remove(key);
        }
    }

    /// The charge of an exclusive pod: its node, its pinned node, or else the result of `measure`.
    pub(crate) fn charge(&self, pod: &ExclusivePod, measure: Measure) -> Charge {
        let known = pod.node.as_deref().or(pod.pinned.as_deref()).and_then(|name| self.nodes.get(name));
        known.unwrap_or_else(|| self.nodes.charge(measure))
    }

    /// The living pods of a namespace that cost others something.
    pub(crate) fn charged_pods(&mut self, namespace: &str) -> Vec<ChargedPod> {
        let pods = self.charged.as_ref().into_iter().flat_map(|charged| charged.of(namespace));
        pods.filter_map(|pod| cost(&mut self.cluster, pod, &pod.metadata.uid)).collect()
    }

    /// Number of allowed bindings that the state does not show yet.
    pub fn n_held(&self) -> usize {
        self.holds.len()
    }
}

/// Most pods have no anti-affinity at all, and need not be parsed for it.
fn has_anti_affinity(pod: &Pod) -> bool {
    pod.spec.affinity.as_ref().is_some_and(|a| a.pod_anti_affinity.is_some())
        || pod.metadata.annotations.contains_key(AFFINITY_ANNOTATION)
}

fn plugin(rule: GuardedRule) -> Plugin {
    match rule {
        GuardedRule::NodeAffinity => Plugin::NodeAffinity,
        GuardedRule::InterPodAffinity => Plugin::InterPodAffinity,
        GuardedRule::PodTopologySpread => Plugin::PodTopologySpread,
    }
}

/// Access to the state of a cluster, if there is one.
pub trait StateAccess {
    /// Runs `question` on the state; `what` names the caller in errors.
    ///
    /// # Errors
    /// There is no state, or it is not complete.
    fn ask<R>(&self, what: &'static str, question: impl FnOnce(&mut State) -> R) -> Result<R, ReviewError>;

    fn placement(&self) -> Result<Arc<PolicySet>, ReviewError> {
        Ok(Arc::default())
    }
}

/// Nothing is known of the cluster.
#[derive(Clone, Copy, Debug)]
pub struct Nothing;

impl StateAccess for Nothing {
    fn ask<R>(&self, what: &'static str, _: impl FnOnce(&mut State) -> R) -> Result<R, ReviewError> {
        Err(ReviewError::NoState(what))
    }
}

impl StateAccess for Mutex<State> {
    fn ask<R>(&self, _: &'static str, question: impl FnOnce(&mut State) -> R) -> Result<R, ReviewError> {
        Ok(question(&mut self.lock().unwrap_or_else(PoisonError::into_inner)))
    }
}
