//! The cluster as decisions see it: the engine's state, and the mirror that keeps it equal to the API server's objects.

use std::collections::HashMap;
use std::sync::Arc;

use berth_api::feature_gates::VersionChange;
use berth_api::object::{NamespacedName, ObjectMeta, Pod, PodDisruptionBudget, PodLimits, PodSpec};
use berth_engine::{Cluster, DisruptionBudget, PreparedPod};
use berth_input::config::SchedulerConfig;
use berth_input::journal::Entry;
use berth_mirror::{Change, Mirror, WatchEvent};

use crate::pod_status::Victim;
use crate::recorder::Recorder;

/// Whether this scheduler has to find a node for a pod.
pub(crate) fn is_pending(config: &SchedulerConfig, pod: &Pod) -> bool {
    pod.spec.node_name.is_empty()
        && !pod.is_terminal()
        && pod.metadata.deletion_timestamp.is_none()
        && config.profile(&pod.spec.scheduler_name).is_some()
}

fn without_rules(pod: &Pod) -> Pod {
    let spec = PodSpec {
        scheduler_name: pod.spec.scheduler_name.clone(),
        priority: pod.spec.priority,
        ..PodSpec::default()
    };
    let metadata = ObjectMeta { annotations: Default::default(), ..pod.metadata.clone() };
    Pod { metadata, spec: spec.into(), status: pod.status.clone() }
}

/// The PodDisruptionBudgets, as preemption takes them.
#[derive(Default)]
pub(crate) struct Budgets {
    by_name: HashMap<NamespacedName, DisruptionBudget>,
    /// The same as a list; none after a change.
    list: Option<Vec<DisruptionBudget>>,
}

impl Budgets {
    pub(crate) fn set(&mut self, budget: &PodDisruptionBudget) {
        self.by_name.insert(budget.metadata.namespaced_name(), DisruptionBudget::from(budget));
        self.list = None;
    }

    pub(crate) fn remove(&mut self, name: &NamespacedName) {
        self.by_name.remove(name);
        self.list = None;
    }

    pub(crate) fn list(&mut self) -> &[DisruptionBudget] {
        self.list.get_or_insert_with(|| self.by_name.values().cloned().collect())
    }
}

/// The state of the cluster, and its recording.
pub(crate) struct State {
    pub(crate) config: Arc<SchedulerConfig>,
    pub(crate) cluster: Cluster,
    pub(crate) mirror: Mirror,
    pub(crate) budgets: Budgets,
    pub(crate) limits: PodLimits,
    pub(crate) recorder: Recorder,
}

impl State {
    /// Applies an event. `is_queued`: whether the scheduler has a pending pod.
    pub(crate) fn apply(&mut self, event: WatchEvent, is_queued: impl Fn(&Pod) -> bool) -> Vec<Change> {
        let is_missing = |pod: &Pod| is_pending(&self.config, pod) && !is_queued(pod);
        self.mirror.apply(&mut self.cluster, event, is_missing)
    }

    pub(crate) fn is_pending(&self, pod: &Pod) -> bool {
        is_pending(&self.config, pod)
    }

    pub(crate) fn is_gated(&self, pod: &Pod) -> bool {
        let profile = self.config.profile(&pod.spec.scheduler_name);
        !pod.spec.scheduling_gates.is_empty() && profile.is_none_or(|p| p.scheduling_gates)
    }

    /// Whether room is held for a pod that is nominated when it comes to the scheduler.
    pub(crate) fn holds_room(&self, pod: &Pod) -> bool {
        self.config.feature_gates.has(VersionChange::GatedNomination) || !self.is_gated(pod)
    }

    /// Prepares a pod that is to be decided, for the first time or after a change.
    /// The rules of one that is parked because it `exceeds` the limits are not compiled.
    pub(crate) fn prepare(&mut self, pod: &Arc<Pod>, exceeds: bool) -> PreparedPod {
        let pod = if exceeds { Arc::new(without_rules(pod)) } else { pod.clone() };
        self.recorder.record(|| Entry::Queue(pod.clone()));
        self.cluster.prepare(&pod)
    }

    /// Gives the nomination of a pod that was prepared again its present rules.
    pub(crate) fn renew_nomination(&mut self, pod: &Pod, prepared: &PreparedPod) {
        if let Some(node) = self.nomination(pod).map(str::to_owned) {
            self.cluster.nominate(prepared, &node);
        } else if !self.config.feature_gates.has(VersionChange::GatedNomination) && self.holds_room(pod) {
            let node = &pod.status.nominated_node_name;
            if !node.is_empty() {
                self.cluster.nominate(prepared, node);
            }
        }
    }

    /// Reverts an assumption; see [`Mirror::forget`].
    pub(crate) fn forget(&mut self, pod: &Pod) -> bool {
        self.mirror.forget(&mut self.cluster, pod)
    }

    /// The node that a pod is nominated to.
    pub(crate) fn nomination(&self, pod: &Pod) -> Option<&str> {
        self.cluster.nomination(&pod.metadata.namespace, &pod.metadata.name)
    }

    pub(crate) fn clear_nomination(&mut self, pod: &Pod) {
        self.cluster.clear_nomination(&pod.metadata.namespace, &pod.metadata.name);
    }

    /// Whether a pod is nominated to a node that was deleted.
    pub(crate) fn has_lost_node(&self, pod: &Pod) -> bool {
        self.nomination(pod).is_some_and(|node| !self.cluster.has_node(node))
    }

    /// A pod with its uid; none if the state does not have it.
    pub(crate) fn victim(&self, name: NamespacedName) -> Option<Victim> {
        let uid = self.mirror.uid(name.namespace(), name.name())?;
        Some(Victim { name, uid })
    }

    pub(crate) fn exists(&self, victim: &Victim) -> bool {
        self.mirror.uid(victim.name.namespace(), victim.name.name()).as_ref() == Some(&victim.uid)
    }

    /// Whether a pod exists and has a node.
    pub(crate) fn runs(&self, victim: &Victim) -> bool {
        self.exists(victim) && self.cluster.node_of(victim.name.namespace(), victim.name.name()).is_some()
    }
}
