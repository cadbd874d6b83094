//! Results of requests.

use std::sync::Arc;

use berth_api::object::NamespacedName;
use berth_client::call::CallError;
use tokio::time::Instant;

use super::scheduler::Scheduler;
use crate::binding::PreBindOutcome;
use crate::completion::{BindResult, Binding, Completion, Eviction};
use crate::context::Context;
use crate::metrics::AttemptResult;
use crate::pod_status::FailureReason;
use crate::queue::PodId;
use crate::wake::group_key;

impl Scheduler {
    pub(super) fn completed(&mut self, completion: Completion) {
        match completion {
            Completion::Binding { binding, result, took } => {
                self.binds.completed(took, Instant::now());
                if matches!(result, BindResult::Bound | BindResult::Failed(_)) {
                    let status = if matches!(result, BindResult::Bound) { "Success" } else { "Error" };
                    let profile = &binding.pod.spec.scheduler_name;
                    self.metrics.ran("DefaultBinder", "Bind", status, profile, took);
                }
                self.bind_completed(&binding, result);
            }
            Completion::VolumesWritten { id, abandoned, result } => {
                let leads = self.leadership.leads();
                let outcome = self.pre_bind.volumes.written(id, &abandoned, result, leads);
                self.pre_bind_written(id, outcome);
            }
            Completion::DevicesWritten { id, result } => {
                let outcome = self.pre_bind.devices.written(id, result, Instant::now());
                self.pre_bind_written(id, outcome);
                self.report_waiting_devices(id);
            }
            Completion::DevicesRolledBack { id, versions } => {
                self.pre_bind.devices.rolled_back(&mut self.context.state.cluster, id, versions);
            }
            Completion::ClaimGone { claim } => self.device_claim_changed(&claim, None),
            Completion::ClaimFreed { id, claim, result } => self.claim_freed(id, &claim, result),
            Completion::Status { id, written, result } => {
                let (statuses, pods) = (&mut self.context.pending.statuses, &mut self.context.pending.pods);
                statuses.completed();
                if statuses.written(pods, id, written, result) {
                    self.check_pre_bind(&[id]);
                }
            }
            Completion::Eviction { eviction, n_evicted, failed } => {
                self.context.pending.statuses.completed();
                self.eviction_completed(&eviction, n_evicted, failed);
            }
            Completion::PodGroupStatus { key, result } => self.groups.status_written(key, result),
        }
    }

    /// The requests for the volumes or the claims of a pod have been answered.
    fn pre_bind_written(&mut self, id: PodId, outcome: Option<PreBindOutcome>) {
        match outcome {
            Some(outcome) => self.pre_bind_ended(outcome),
            None => self.check_pre_bind(&[id]),
        }
    }

    /// Binds the pods whose volumes and claims are bound now.
    pub(super) fn check_pre_bind(&mut self, pods: &[PodId]) {
        for id in pods {
            let Context { state, pending } = &self.context;
            if let Some(outcome) = self.pre_bind.check(*id, &pending.pods, &state.cluster, Instant::now()) {
                self.pre_bind_ended(outcome);
            }
        }
    }

    /// The wait of a pod for its volumes and claims ended.
    pub(super) fn pre_bind_ended(&mut self, outcome: PreBindOutcome) {
        match outcome {
            PreBindOutcome::Bound(binding) => {
                let group = self.context.pending.pods.get(binding.id).and_then(|queued| queued.group);
                self.send_binding(group, binding);
            }
            PreBindOutcome::Failed(binding, error) => {
                self.bind_completed(&binding, BindResult::ClaimsFailed(error));
            }
            PreBindOutcome::NotSent(binding) => self.bind_completed(&binding, BindResult::NotSent),
        }
    }

    fn report_waiting_devices(&self, id: PodId) {
        let queued =
            self.context.pending.pods.get(id).filter(|_| self.pre_bind.devices.waits_for_conditions(id));
        if let Some((queued, binding)) = queued.and_then(|queued| Some((queued, queued.binding.as_ref()?))) {
            self.context.pending.events.waits_for_devices(&queued.pod, &binding.node);
        }
    }

    /// PostFilter has changed a claim for a pod. The watch wakes the pods that this helps.
    fn claim_freed(&mut self, id: PodId, claim: &NamespacedName, result: Result<(), CallError>) {
        self.pre_bind.devices.freed(claim);
        let Err(error) = result else { return };
        let pending = &mut self.context.pending;
        tracing::warn!("claim {claim} is not freed: {error}");
        let entry = pending.entry_of(id);
        if pending.pods.get(id).is_some_and(|queued| queued.binding.is_none()) {
            pending.queue.keep_backoff(entry);
            pending.activate(entry, Instant::now());
        }
    }

    fn bind_completed(&mut self, binding: &Binding, result: BindResult) {
        let now = Instant::now();
        let (id, pod) = (binding.id, &binding.pod);
        let context = &mut self.context;
        // A pod that was deleted meanwhile is not in the queue, and not assumed any more.
        let Some(queued) = context.pending.pods.get_mut(id) else { return };
        let volumes = queued.binding.take().and_then(|binding| binding.volumes);
        if let Some(volumes) = volumes.filter(|_| !matches!(result, BindResult::Bound)) {
            context.state.cluster.restore_volumes(&queued.prepared, &volumes);
        }
        let (attempts, waited) = (queued.attempts, now.saturating_duration_since(queued.first_seen));
        let took = now.saturating_duration_since(queued.decided_at);
        match result {
            BindResult::Bound => {
                self.pre_bind.devices.keep(&mut context.state.cluster, id);
                self.reporter.current.n_bound += 1;
                self.metrics.attempted(AttemptResult::Scheduled, &pod.spec.scheduler_name, took);
                self.metrics.scheduled(attempts, waited);
                context.pending.events.scheduled(pod, &binding.node);
                self.dequeue(id);
            }
            BindResult::Deleted => {
                context.state.forget(pod);
                self.dequeue(id);
            }
            BindResult::Elsewhere(found) => {
                tracing::warn!(
                    pod = pod.key(),
                    node = %binding.node,
                    found = found.spec.node_name,
                    "the pod is bound to another node already"
                );
                context.state.forget(pod);
                // The pod runs with its claims.
                self.pre_bind.devices.keep(&mut context.state.cluster, id);
                self.dequeue(id);
                self.apply_pod(Arc::new(*found));
            }
            BindResult::NotSent => {
                if !context.state.forget(pod) {
                    self.pre_bind.devices.keep(&mut context.state.cluster, id);
                    return self.dequeue(id);
                }
                self.pre_bind.devices.roll_back(&mut context.state.cluster, id);
                if !queued.written().nominated_node.is_empty() {
                    context.state.cluster.nominate(&queued.prepared, &queued.written().nominated_node);
                }
                context.pending.queue.put_back(id);
                self.return_to_group(id, None);
                self.after_binding(id);
            }
            BindResult::Failed(error) => {
                let error = format!("binding to node {}: {error}", binding.node);
                self.bind_failed(binding, error, now);
            }
            BindResult::ClaimsFailed(error) => self.bind_failed(binding, error, now),
        }
    }

    fn bind_failed(&mut self, binding: &Binding, error: String, now: Instant) {
        let (id, pod) = (binding.id, &binding.pod);
        let Some(queued) = self.context.pending.pods.get(id) else { return };
        let took = now.saturating_duration_since(queued.decided_at);
        tracing::warn!(pod = pod.key(), node = %binding.node, "the pod is not bound: {error}");
        self.reporter.current.n_errors += 1;
        self.metrics.attempted(AttemptResult::Error, &pod.spec.scheduler_name, took);
        if !self.context.state.forget(pod) {
            // The watch reported the binding after all.
            self.pre_bind.devices.keep(&mut self.context.state.cluster, id);
            return self.dequeue(id);
        }
        self.pre_bind.devices.roll_back(&mut self.context.state.cluster, id);
        self.context.pending.queue.back_off(id, now);
        self.metrics.queued("backoff", "ScheduleAttemptFailure");
        self.context.pending.write_status(id, |status| {
            status.fail(FailureReason::SchedulerError, &error);
            status.observed_generation = pod.metadata.generation;
            status.nominated_node.clear();
        });
        self.return_to_group(id, Some(&error));
        self.context.pending.events.failed(pod, error);
        self.after_binding(id);
    }

    /// Changes of a pod that arrived while it was being bound take effect.
    fn after_binding(&mut self, id: PodId) {
        let Some(queued) = self.context.pending.pods.get(id) else { return };
        if !self.context.state.is_pending(&queued.pod) {
            self.dequeue(id);
        } else if queued.is_stale {
            self.requeue(id);
        }
    }

    fn eviction_completed(&mut self, eviction: &Eviction, n_evicted: usize, failed: Option<CallError>) {
        self.reporter.current.n_preempted += n_evicted as u64;
        let Some(id) = eviction.id else { return self.resizes.evicted(eviction, n_evicted, failed) };
        let (context, now) = (&mut self.context, Instant::now());
        let entry = context.pending.entry_of(id);
        let Some(queued) = context.pending.pods.get_mut(id) else { return };
        if n_evicted > 0 {
            queued.preemptions.add(eviction.chosen_at);
            self.groups.preempted(entry, eviction.chosen_at);
        }
        let Some(error) = failed else { return };
        tracing::warn!(pod = eviction.pod.key(), node = %eviction.node, "preemption failed: {error}");
        queued.preemption = None;
        context.state.clear_nomination(&eviction.pod);
        context.pending.write_status(id, |status| status.nominated_node.clear());
        self.groups.give_up_preemption(context, entry);
        // Without a pause, a pod whose evictions are refused would preempt again and again.
        context.pending.queue.keep_backoff(entry);
        context.pending.activate(entry, now);
        // While this pod was nominated, equivalent ones found no victims.
        if let Some(key) = group_key(context, &self.groups, entry) {
            context.pending.wake(&key, "PreemptionFailed", now);
        }
    }
}
