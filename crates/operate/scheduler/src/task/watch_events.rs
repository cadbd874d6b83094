//! Watch events.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use berth_api::object::device::DeviceKind;
use berth_api::object::{GroupKey, NamespacedName, Pod};
use berth_input::journal::Entry;
use berth_mirror::{Change, DeviceClaimState, DriftReport, Needs, PodRef, Source, WatchEvent};
use tokio::time::Instant;

use super::scheduler::Scheduler;
use crate::context::Context;
use crate::queue::PodId;

impl Scheduler {
    pub(super) fn apply(&mut self, event: WatchEvent) {
        let pods = &self.context.pending.pods;
        let changes = self.context.state.apply(event, |pod| pods.id(&pod.metadata.uid).is_some());
        changes.into_iter().for_each(|change| self.changed(change));
    }

    fn changed(&mut self, change: Change) {
        match change {
            Change::Listed(Source::Devices(DeviceKind::ResourceClaim)) => {
                self.pre_bind.devices.claims_listed()
            }
            Change::NodeApplied(node) => self.resizes.node_applied(&node),
            Change::NamespaceApplied(_) | Change::NamespaceDeleted(_) | Change::Listed(_) => {}
            Change::Readability(source) => self.readability_changed(source),
            Change::Failed(failure) => self.failure = Some(failure),
            Change::NodeDeleted(node) => {
                self.resizes.node_deleted(&node);
                self.abandon_bindings(&node);
                for id in self.pre_bind.on_node(&node) {
                    if let Some(outcome) = self.pre_bind.abandon(id) {
                        self.pre_bind_ended(outcome);
                    }
                }
            }
            Change::DeviceClaimApplied(key, state) => self.device_claim_changed(&key, Some(state)),
            Change::DeviceClaimDeleted(key) => self.device_claim_changed(&key, None),
            Change::ClaimApplied(key, state) => {
                let pods = self.pre_bind.volumes.claims.observe(&key, state);
                self.check_pre_bind(&pods);
            }
            Change::ClaimDeleted(key) => {
                let pods = self.pre_bind.volumes.claims.deleted(&key);
                self.check_pre_bind(&pods);
            }
            Change::VolumeApplied(name, state) => {
                let pods = self.pre_bind.volumes.volumes.observe(&name, state);
                self.check_pre_bind(&pods);
            }
            Change::VolumeDeleted(name) => {
                let pods = self.pre_bind.volumes.volumes.deleted(&name);
                self.check_pre_bind(&pods);
            }
            Change::PodApplied { pod, is_changed } => self.pod_applied(pod, is_changed),
            Change::PodBoundElsewhere(pod) => self.pod_bound_elsewhere(&pod),
            Change::PodDeleted { uid, .. } => {
                if let Some(id) = self.context.pending.pods.id(&uid) {
                    self.dequeue(id);
                }
                self.replacements.pod_deleted(&uid);
                self.resizes.pod_deleted(&uid);
                self.groups.placed_pod_deleted(&mut self.context, &uid);
            }
            Change::PodGroupApplied(key, object) => {
                self.prepare_members(&key, object.spec.priority);
                self.groups.object_applied(&mut self.context, &key, &object);
            }
            Change::PodGroupDeleted(key) => {
                self.prepare_members(&key, None);
                self.groups.object_deleted(&mut self.context, &key);
            }
            Change::CompositePodGroup(name, object) => {
                self.groups.composite_changed(name, object.map(|object| *object));
            }
            Change::GroupOwnerChanged(key, n_members) => {
                self.groups.owner_changed(&mut self.context, key, n_members);
            }
            Change::BudgetApplied(budget) => {
                self.context.state.budgets.set(&budget);
                self.context.state.recorder.record(|| Entry::Budget(budget));
            }
            Change::BudgetDeleted(name) => {
                self.context.state.budgets.remove(&name);
                self.context.state.recorder.record(|| Entry::RemoveBudget(name));
            }
            Change::Complete => {
                self.context.state.recorder.record(|| Entry::Complete {});
                self.context.pending.order_listed();
                tracing::info!(
                    nodes = self.context.state.mirror.n_nodes(),
                    pods = self.context.state.mirror.n_pods(),
                    queued = self.context.pending.pods.len(),
                    "the state of the cluster is complete"
                );
            }
            Change::Drift(DriftReport { n_nodes, n_pods, n_missing }) => {
                let kinds = [("node", n_nodes), ("pod", n_pods), ("queued_pod", n_missing)];
                for (kind, n) in kinds.into_iter().filter(|(_, n)| *n > 0) {
                    self.metrics.drifted(kind, n as u64);
                    self.reporter.current.n_drifted += n as u64;
                }
            }
        }
    }

    /// Decides again the pods that need a source, and those that may preempt now.
    fn readability_changed(&mut self, source: Source) {
        let cluster = &self.context.state.cluster;
        let is_concerned = |id: &PodId| {
            let queued = self.context.pending.pods.get(*id).filter(|queued| queued.binding.is_none());
            queued.is_some_and(|queued| {
                source == Source::Budgets || source.is_needed_by(Needs::of(&queued.pod, cluster))
            })
        };
        let concerned: Vec<_> = self.context.pending.pods.ids().filter(is_concerned).collect();
        concerned.into_iter().for_each(|id| self.requeue(id));
    }

    pub(super) fn device_claim_changed(&mut self, claim: &NamespacedName, state: Option<DeviceClaimState>) {
        let pods = self.pre_bind.devices.claim_changed(&mut self.context.state.cluster, claim, state);
        self.check_pre_bind(&pods);
    }

    /// Bindings to a deleted node that have not been sent yet are not sent any more.
    fn abandon_bindings(&mut self, node: &str) {
        let mut members = Vec::new();
        for (id, queued) in self.context.pending.pods.iter() {
            if let Some(binding) = queued.binding.as_ref().filter(|binding| *binding.node == *node) {
                binding.abandoned.store(true, Ordering::Relaxed);
                members.extend(queued.group.map(|_| id));
            }
        }
        for id in members {
            self.take_back_member(id);
        }
    }

    fn pod_bound_elsewhere(&mut self, bound: &PodRef) {
        let id = self.context.pending.pods.id(&bound.uid);
        let Some((id, queued)) = id.and_then(|id| Some((id, self.context.pending.pods.get_mut(id)?))) else {
            let PodRef { namespace, name, node, .. } = bound;
            tracing::warn!("pod {namespace}/{name} on {node} is unknown: listing pods again");
            self.context.state.mirror.relist_pods();
            return;
        };
        if queued.is_stale || queued.excess.is_some() {
            queued.prepared = self.context.state.cluster.prepare(&queued.pod);
        }
        self.context.state.mirror.bind_pod(
            &mut self.context.state.cluster,
            &queued.pod,
            &queued.prepared,
            bound,
        );
        // The result of a binding in flight settles the rest.
        if queued.binding.is_none() {
            self.dequeue(id);
        }
    }

    /// Applies a pod that was read otherwise than by the watch.
    pub(super) fn apply_pod(&mut self, pod: Arc<Pod>) {
        let changes = self.context.state.mirror.apply_pod(&mut self.context.state.cluster, pod);
        changes.into_iter().for_each(|change| self.changed(change));
    }

    /// A pod is not pending any more, for whatever reason. The result of a binding in flight is ignored.
    pub(super) fn dequeue(&mut self, id: PodId) {
        let Some(queued) = self.context.pending.pods.remove(id) else { return };
        self.pre_bind.roll_back(&mut self.context.state.cluster, id);
        let Context { state, pending } = &mut self.context;
        if let Some(volumes) = queued.binding.as_ref().and_then(|binding| binding.volumes.as_ref()) {
            state.cluster.restore_volumes(&queued.prepared, volumes);
        }
        state.clear_nomination(&queued.pod);
        state.recorder.record(|| Entry::Dequeue(queued.pod.metadata.namespaced_name()));
        pending.queue.remove(id, Instant::now());
        if let Some(entry) = queued.group
            && self.groups.leave(&mut self.context, entry, id, &queued.pod)
        {
            self.take_back(entry, None);
        }
    }

    fn pod_applied(&mut self, pod: Arc<Pod>, is_changed: bool) {
        if !pod.spec.node_name.is_empty() {
            self.replacements.pod_applied(&pod, Instant::now());
            self.resizes.pod_applied(&mut self.context, &pod);
        }
        let is_pending = self.context.state.is_pending(&pod);
        match self.context.pending.pods.id(&pod.metadata.uid) {
            Some(id) if is_pending => self.pod_updated(id, pod, is_changed),
            // The result of its binding settles the rest.
            Some(id) => match self.context.pending.pods.get_mut(id) {
                Some(queued) if queued.binding.is_some() => queued.set_pod(pod, self.context.state.limits),
                _ => self.dequeue(id),
            },
            // The watch may report a pod as pending although the result of its binding has already arrived.
            None if is_pending && !self.context.state.mirror.is_placed(&pod) => self.pod_added(pod),
            None if !pod.spec.node_name.is_empty() => {
                self.groups.placed_pod_applied(&mut self.context, &pod);
            }
            None => {}
        }
    }

    fn pod_added(&mut self, pod: Arc<Pod>) {
        let is_gated = self.context.state.is_gated(&pod);
        let target = self.replacements.take(&pod, Instant::now());
        let id = self.context.pending.add(&mut self.context.state, pod);
        if let (Some(node), Some(queued)) = (target, self.context.pending.pods.get(id)) {
            self.context.state.cluster.nominate(&queued.prepared, &node);
        }
        if !self.groups.join(&mut self.context, id) {
            let priority = self.context.pending.pods.get(id).map_or(0, |queued| queued.prepared.priority());
            self.context.pending.queue.add(id, priority, is_gated);
        }
        self.metrics.queued(if is_gated { "gated" } else { "active" }, "PodAdd");
    }

    fn pod_updated(&mut self, id: PodId, pod: Arc<Pod>, is_changed: bool) {
        let is_nominated = self.context.pending.nominated_elsewhere(&mut self.context.state, id, &pod);
        let Some(queued) = self.context.pending.pods.get_mut(id) else { return };
        queued.set_pod(pod, self.context.state.limits);
        if (is_changed || is_nominated) && queued.binding.is_some() {
            queued.is_stale = true;
            self.take_back_member(id);
        } else if is_changed || is_nominated {
            self.requeue(id);
        }
    }

    /// Prepares the pending pods of a group again whose priority it changes.
    fn prepare_members(&mut self, group: &GroupKey, priority: Option<i32>) {
        let pods = &self.context.pending.pods;
        let is_changed = |id: &PodId| {
            let queued = pods.get(*id).filter(|queued| queued.binding.is_none());
            queued.is_some_and(|queued| {
                queued.prepared.priority() != priority.or(queued.pod.spec.priority).unwrap_or(0)
            })
        };
        let changed: Vec<_> = self.groups.pending_members(group).filter(is_changed).collect();
        changed.into_iter().for_each(|id| self.requeue(id));
    }

    /// Prepares a changed pod again and activates it: the change may make it schedulable.
    pub(super) fn requeue(&mut self, id: PodId) {
        let Some(queued) = self.context.pending.pods.get_mut(id) else { return };
        queued.is_stale = false;
        (queued.relaxed, queued.relax_at) = (None, None);
        queued.prepared = self.context.state.prepare(&queued.pod, queued.excess.is_some());
        self.context.state.renew_nomination(&queued.pod, &queued.prepared);
        let (pod, priority) = (queued.pod.clone(), queued.prepared.priority());
        if self.groups.regroup(&mut self.context, id) {
            return;
        }
        let now = Instant::now();
        self.context.pending.queue.set_priority(id, priority);
        if self.context.state.is_gated(&pod) {
            self.context.pending.queue.gate(id, now);
        } else {
            self.context.pending.activate_for("PodUpdate", id, now);
        }
    }
}
