//! Watch events.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use berth_api::config::SchedulerConfig;
use berth_api::journal::Entry;
use berth_api::object::{NamespacedName, Pod};
use berth_engine::DisruptionBudget;
use berth_mirror::{Change, PodRef, WatchEvent};
use tokio::time::Instant;

use super::Scheduler;
use super::queued_pods::QueuedPod;
use crate::queue::PodId;

/// The PodDisruptionBudgets, as preemption takes them.
#[derive(Default)]
pub(super) struct Budgets {
    by_name: HashMap<NamespacedName, DisruptionBudget>,
    /// The same as a list; none after a change.
    list: Option<Vec<DisruptionBudget>>,
}

impl Budgets {
    pub(super) fn list(&mut self) -> &[DisruptionBudget] {
        self.list.get_or_insert_with(|| self.by_name.values().cloned().collect())
    }
}

/// Whether this scheduler has to find a node for a pod.
pub(crate) fn is_pending(config: &SchedulerConfig, pod: &Pod) -> bool {
    pod.spec.node_name.is_empty()
        && !pod.is_terminal()
        && pod.metadata.deletion_timestamp.is_none()
        && config.profile(&pod.spec.scheduler_name).is_some()
}

impl Scheduler {
    pub(super) fn apply(&mut self, event: WatchEvent) {
        let (pods, config) = (&self.pods, &self.options.settings.config);
        let is_missing = |pod: &Pod| is_pending(config, pod) && pods.id(&pod.metadata.uid).is_none();
        let changes = self.mirror.apply(&mut self.cluster, event, is_missing);
        changes.into_iter().for_each(|change| self.changed(change));
    }

    fn changed(&mut self, change: Change) {
        match change {
            Change::NodeApplied(_) | Change::Listed(_) => {}
            Change::NodeDeleted(node) => {
                self.abandon_bindings(&node);
                self.abandon_volumes(&node);
            }
            Change::DeviceClassApplied(class) => self.device_classes_changed(|devices| devices.set(&class)),
            Change::DeviceClassDeleted(name) => self.device_classes_changed(|devices| devices.remove(&name)),
            Change::ClaimApplied(key, state) => self.claim_applied(&key, state),
            Change::ClaimDeleted(key) => self.claim_deleted(&key),
            Change::VolumeApplied(name, state) => self.volume_applied(&name, state),
            Change::VolumeDeleted(name) => self.volume_deleted(&name),
            Change::PodApplied { pod, is_changed } => self.pod_applied(pod, is_changed),
            Change::PodBoundElsewhere(pod) => self.pod_bound_elsewhere(pod),
            Change::PodDeleted { uid, .. } => {
                if let Some(id) = self.pods.id(&uid) {
                    self.dequeue(id);
                }
                self.placed_pod_deleted(&uid);
            }
            Change::PodGroupApplied(key, object) => self.pod_group_applied(key, &object),
            Change::PodGroupDeleted(key) => self.pod_group_deleted(&key),
            Change::BudgetApplied(budget) => {
                let name = budget.metadata.namespaced_name();
                self.budgets.by_name.insert(name, DisruptionBudget::from(&*budget));
                self.budgets.list = None;
                self.recorder.record(|| Entry::Budget(budget));
            }
            Change::BudgetDeleted(name) => {
                self.budgets.by_name.remove(&name);
                self.budgets.list = None;
                self.recorder.record(|| Entry::RemoveBudget(name));
            }
            Change::Complete => {
                self.recorder.record(|| Entry::Complete {});
                self.order_listed();
                tracing::info!(
                    nodes = self.mirror.n_nodes(),
                    pods = self.mirror.n_pods(),
                    queued = self.pods.len(),
                    "the state of the cluster is complete"
                );
            }
            Change::Drift(report) => {
                let kinds =
                    [("node", report.n_nodes), ("pod", report.n_pods), ("queued_pod", report.n_missing)];
                for (kind, n) in kinds.into_iter().filter(|(_, n)| *n > 0) {
                    self.metrics.drifted(kind, n as u64);
                    self.reporter.current.n_drifted += n as u64;
                }
            }
        }
    }

    /// Pods of a list come by name. They arrived in the order of their creation; within a second, in the order of their
    /// versions.
    fn order_listed(&mut self) {
        let age = |id: &PodId| {
            let metadata = &self.pods.get(*id)?.pod.metadata;
            Some((metadata.creation_timestamp, metadata.resource_version.parse::<u64>().ok(), *id))
        };
        let mut listed: Vec<_> = self.listed.drain(..).filter_map(|id| age(&id)).collect();
        listed.sort_unstable();
        // A group arrived with the first of its members.
        let mut seen = HashSet::new();
        for (.., id) in listed {
            let entry = self.entry_of(id);
            if seen.insert(entry) {
                self.queue.arrived(entry);
            }
        }
    }

    /// Bindings to a deleted node that have not been sent yet are not sent any more.
    fn abandon_bindings(&mut self, node: &str) {
        let mut members = Vec::new();
        for (id, queued) in self.pods.iter() {
            if let Some(binding) = queued.binding.as_ref().filter(|binding| *binding.node == *node) {
                binding.abandoned.store(true, Ordering::Relaxed);
                members.extend(queued.group.map(|_| id));
            }
        }
        for id in members {
            self.take_back_member(id);
        }
    }

    /// Another scheduler bound a pod.
    fn pod_bound_elsewhere(&mut self, bound: PodRef) {
        match self.pods.id(&bound.uid).and_then(|id| self.pods.get(id)) {
            Some(queued) => {
                let mut pod = Pod::clone(&queued.pod);
                pod.spec.node_name = bound.node;
                pod.metadata.resource_version = bound.resource_version;
                pod.metadata.labels.extend(bound.added_labels);
                self.apply_pod(Arc::new(pod));
            }
            None => {
                let PodRef { namespace, name, node, .. } = &bound;
                tracing::warn!("pod {namespace}/{name} on {node} is unknown: listing pods again");
                self.mirror.relist_pods();
            }
        }
    }

    /// Applies a pod that was read otherwise than by the watch.
    pub(super) fn apply_pod(&mut self, pod: Arc<Pod>) {
        let changes = self.mirror.apply_pod(&mut self.cluster, pod);
        changes.into_iter().for_each(|change| self.changed(change));
    }

    /// A pod is not pending any more, for whatever reason. The result of a binding in flight is ignored.
    pub(super) fn dequeue(&mut self, id: PodId) {
        let Some(queued) = self.pods.remove(id) else { return };
        self.forget_volumes(id);
        if let Some(volumes) = queued.binding.as_ref().and_then(|binding| binding.volumes.as_ref()) {
            self.cluster.restore_volumes(&queued.prepared, volumes);
        }
        let metadata = &queued.pod.metadata;
        self.cluster.clear_nomination(&metadata.namespace, &metadata.name);
        self.recorder.record(|| Entry::Dequeue(metadata.namespaced_name()));
        self.queue.remove(id, Instant::now());
        if let Some(entry) = queued.group {
            self.leave_pod_group(entry, id, &queued.pod);
        }
    }

    pub(super) fn is_pending(&self, pod: &Pod) -> bool {
        is_pending(&self.options.settings.config, pod)
    }

    fn pod_applied(&mut self, pod: Arc<Pod>, is_changed: bool) {
        let is_pending = self.is_pending(&pod);
        match self.pods.id(&pod.metadata.uid) {
            Some(id) if is_pending => self.pod_updated(id, pod, is_changed),
            // The result of its binding settles the rest.
            Some(id) => match self.pods.get_mut(id) {
                Some(queued) if queued.binding.is_some() => queued.set_pod(pod),
                _ => self.dequeue(id),
            },
            // The watch may report a pod as pending although the result of its binding has already arrived.
            None if is_pending && !self.mirror.is_placed(&pod) => self.pod_added(pod),
            None if !pod.spec.node_name.is_empty() => self.placed_pod_applied(&pod),
            None => {}
        }
    }

    pub(super) fn is_gated(&self, pod: &Pod) -> bool {
        let profile = self.options.settings.config.profile(&pod.spec.scheduler_name);
        !pod.spec.scheduling_gates.is_empty() && profile.is_none_or(|p| p.scheduling_gates)
    }

    fn pod_added(&mut self, pod: Arc<Pod>) {
        self.recorder.record(|| Entry::Queue(pod.clone()));
        let prepared = self.cluster.prepare(&pod);
        let nominated = &pod.status.nominated_node_name;
        if !nominated.is_empty() {
            self.cluster.nominate(&prepared, nominated);
        }
        let (priority, is_gated) = (pod.spec.priority.unwrap_or(0), self.is_gated(&pod));
        let id = self.pods.add(QueuedPod::new(pod, prepared, Instant::now()));
        if !self.join_pod_group(id) {
            self.queue.add(id, priority, is_gated);
        }
        if !self.mirror.is_complete() {
            self.listed.push(id);
        }
        self.metrics.queued(if is_gated { "gated" } else { "active" }, "PodAdd");
    }

    fn pod_updated(&mut self, id: PodId, pod: Arc<Pod>, is_changed: bool) {
        let is_nominated = self.nominated_elsewhere(id, &pod);
        let Some(queued) = self.pods.get_mut(id) else { return };
        queued.set_pod(pod);
        if (is_changed || is_nominated) && queued.binding.is_some() {
            queued.is_stale = true;
            self.take_back_member(id);
        } else if is_changed || is_nominated {
            self.requeue(id);
        }
    }

    /// Prepares a changed pod again and activates it: the change may make it schedulable.
    pub(super) fn requeue(&mut self, id: PodId) {
        let Some(queued) = self.pods.get_mut(id) else { return };
        queued.is_stale = false;
        (queued.relaxed, queued.relax_at) = (None, None);
        queued.prepared = self.cluster.prepare(&queued.pod);
        let pod = queued.pod.clone();
        self.recorder.record(|| Entry::Queue(pod.clone()));
        let metadata = &pod.metadata;
        if let Some(node) = self.cluster.nomination(&metadata.namespace, &metadata.name).map(str::to_owned) {
            self.cluster.nominate(&queued.prepared, &node);
        }
        if self.regroup_member(id) {
            return;
        }
        let now = Instant::now();
        self.queue.set_priority(id, pod.spec.priority.unwrap_or(0));
        if self.is_gated(&pod) {
            self.queue.gate(id, now);
        } else {
            self.queue.release_group(id, now);
            self.queue.activate(id, now);
            self.metrics.queued("active", "PodUpdate");
        }
    }
}
