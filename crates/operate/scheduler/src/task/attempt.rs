//! A scheduling attempt: a pod is decided, and then bound, or found unschedulable, or preempts other pods.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use berth_api::object::VolumeDecision;
use berth_api::object::device::DeviceDecision;
use berth_engine::Outcome;
use berth_input::config::Plugin;
use berth_input::journal::Entry;
use tokio::time::Instant;

use super::scheduler::Scheduler;
use crate::binding::{ClaimsFreed, DeviceBindings};
use crate::completion::Binding;
use crate::context::Context;
use crate::metrics::{ASSUMPTIONS, AttemptResult, DECISIONS};
use crate::pending::{GroupFailure, InFlightBinding};
use crate::pod_status::FailureReason;
use crate::preemption::preempt;
use crate::queue::PodId;
use crate::relaxation::{relaxed_sentence, require_all_rules};
use crate::wake::{add_unschedulable, group_key};

/// What was decided about the volumes and the claims of devices of a pod.
pub(super) struct ClaimDecisions {
    pub(super) volumes: Option<Box<VolumeDecision>>,
    pub(super) devices: Option<Box<DeviceDecision>>,
}

impl Scheduler {
    pub(super) fn decide(&mut self, id: PodId) {
        if self.is_being_taken_back(id, [id]) {
            return;
        }
        let context = &mut self.context;
        if context.pending.park_if_undecidable(&context.state, id) {
            return;
        }
        let Some(key) = group_key(context, &self.groups, id) else { return };
        let now = Instant::now();
        let epoch = context.state.cluster.signature_epoch();
        // An equivalent pod failed, and nothing has happened since that could change that.
        if let Some(failure) =
            context.pending.queue.failure(&key).filter(|failure| failure.epoch == epoch).cloned()
        {
            context.pending.queue.join(id, key.clone(), now);
            self.metrics.queued("unschedulable", "ScheduleAttemptFailure");
            context.pending.report_failure(&context.state, id, &key, &failure);
            return;
        }
        let before = require_all_rules(&mut context.pending.pods, id, &context.state.recorder);
        let Some(queued) = context.pending.pods.get_mut(id) else { return };
        let now = self.instruments.sample(&context.state.cluster, queued, now);
        queued.attempts += 1;
        queued.decided_at = now;
        queued.preemption = None;
        // Victims of an earlier attempt that are not evicted yet may not need to be evicted.
        queued.eviction = None;
        self.instruments.decided(&queued.pod);
        let outcome = DECISIONS.run(|| context.state.cluster.decide_nominated_first(&queued.prepared));
        self.metrics.decided(now.elapsed());
        let name = || queued.pod.metadata.namespaced_name();
        context.state.recorder.record(|| Entry::Decision(Box::new(outcome.recorded(name()))));
        let outcome = self.relaxation.decide(context, id, outcome, before);
        let is_cut = context.state.cluster.device_work().is_cut();
        match outcome {
            Outcome::Placed { node, volumes, devices, .. } => {
                self.bind(id, &node, ClaimDecisions { volumes, devices }, now);
            }
            Outcome::Gated { .. } => context.pending.queue.gate(id, now),
            Outcome::Unschedulable { message, .. } if is_cut => self.wait_for_turn(id, message),
            Outcome::Unschedulable { message, plugins } => {
                let message = match free_claims(context, &mut self.pre_bind.devices, id) {
                    // As a success of PostFilter: no pods are preempted as well.
                    ClaimsFreed::One(done) => message + done,
                    ClaimsFreed::None(why) => {
                        let pod = context.pending.pods.get(id).map(|queued| queued.pod.clone());
                        let group = pod.and_then(|pod| self.groups.object_of(&pod));
                        preempt(context, id, message, why, group, self.flush_after)
                    }
                };
                if context.state.cluster.device_work().is_cut() {
                    return self.wait_for_turn(id, message);
                }
                self.fail(id, FailureReason::Unschedulable, message, plugins);
            }
            Outcome::Failed { error } => self.fail(id, FailureReason::SchedulerError, error, Vec::new()),
        }
    }

    /// Whether what an earlier attempt wrote for one of these pods is being taken back. The entry is decided after that.
    pub(super) fn is_being_taken_back(&mut self, entry: PodId, ids: impl IntoIterator<Item = PodId>) -> bool {
        let pending = &mut self.context.pending;
        let mut pods = ids.into_iter().filter_map(|id| pending.pods.get(id));
        let is_busy = pods.any(|queued| self.pre_bind.devices.is_busy(&queued.pod));
        if is_busy {
            pending.queue.back_off(entry, Instant::now());
        }
        is_busy
    }

    pub(super) fn bind(&mut self, id: PodId, node: &str, decided: ClaimDecisions, now: Instant) {
        let context = &mut self.context;
        let Some(queued) = context.pending.pods.get_mut(id) else { return };
        context.state.clear_nomination(&queued.pod);
        ASSUMPTIONS.run(|| {
            context.state.mirror.assume(&mut context.state.cluster, &queued.pod, queued.decided(), node);
        });
        let volumes: Option<Arc<VolumeDecision>> = decided.volumes.map(Arc::from);
        if let Some(volumes) = &volumes {
            context.state.cluster.assume_volumes(&queued.prepared, node, volumes);
        }
        let abandoned = Arc::new(AtomicBool::new(false));
        let node: Arc<str> = node.into();
        let relaxed = queued.relaxed.as_ref().map(|relaxed| relaxed.paths.join(",").into());
        let group = queued.group;
        queued.binding = Some(InFlightBinding {
            node: node.clone(),
            abandoned: abandoned.clone(),
            volumes: volumes.clone(),
        });
        let binding = Binding { id, pod: queued.pod.clone(), node, relaxed, abandoned };
        let profile = context.state.config.profile(&binding.pod.spec.scheduler_name);
        let has_devices = decided.devices.is_some_and(|devices| {
            let assumed = queued.prepared.assumed_devices(&devices, true);
            let timeout =
                profile.map(|profile| profile.dynamic_resources).unwrap_or_default().binding_timeout;
            self.pre_bind.devices.assume(&mut context.state.cluster, &binding, assumed, timeout, now)
        });
        let volumes = volumes.map(|decision| {
            let seconds = profile.map_or(0, |profile| profile.volume_binding.bind_timeout_seconds);
            (decision, Duration::from_secs(seconds.unsigned_abs()))
        });
        context.pending.queue.release_group(id, now);
        if volumes.is_some() || has_devices {
            // Components such as the cluster autoscaler learn where the pod is going to be (NominatedNodeNameForExpectation).
            let node = binding.node.to_string();
            self.context.pending.write_status(id, |status| status.nominated_node = node);
        }
        if let Some(binding) = self.pre_bind.start(binding, volumes, now) {
            self.send_binding(group, binding);
        }
    }

    /// Sends a binding; that of a member with the others of its batch.
    pub(super) fn send_binding(&mut self, group: Option<PodId>, binding: Binding) {
        let Some(entry) = group else { return self.binds.push(binding) };
        let permitted = self.groups.permit(&mut self.context, entry, binding);
        permitted.into_iter().for_each(|binding| self.binds.push(binding));
    }

    /// A decision ended at its budget of work before a node was found: the pod waits for its turn, marked.
    fn wait_for_turn(&mut self, id: PodId, message: String) {
        self.fail(id, FailureReason::Unschedulable, message, vec![Plugin::DynamicResources]);
        self.context.pending.queue.wait_for_turn(id, Instant::now());
    }

    /// Moves a pod for which no node was found to the unschedulable pods.
    fn fail(&mut self, id: PodId, reason: FailureReason, message: String, plugins: Vec<Plugin>) {
        let now = Instant::now();
        // Changes made by earlier decisions affect the pods that are unschedulable already, not this one.
        self.wake_unschedulable(now);
        let context = &mut self.context;
        let Some(key) = group_key(context, &self.groups, id) else { return };
        let Some(queued) = context.pending.pods.get(id) else { return };
        let message = message + &relaxed_sentence([queued.relaxed.as_deref()]);
        let profile = &queued.pod.spec.scheduler_name;
        let wake = vec![context.state.cluster.wake_conditions(queued.decided())];
        let epoch = context.state.cluster.signature_epoch();
        let failure = GroupFailure::new(reason, message, plugins, profile, wake, epoch);
        let took = now.saturating_duration_since(queued.decided_at);
        let counters = &mut self.reporter.current;
        let (counter, result) = match reason {
            FailureReason::Unschedulable => (&mut counters.n_unschedulable, AttemptResult::Unschedulable),
            FailureReason::SchedulerError => (&mut counters.n_errors, AttemptResult::Error),
        };
        *counter += 1;
        self.metrics.attempted(result, profile, took);
        self.metrics.queued("unschedulable", "ScheduleAttemptFailure");
        add_unschedulable(context, &self.groups, id, &key, &failure, now);
        context.pending.report_failure(&context.state, id, &key, &failure);
    }
}

/// PostFilter of the plugin DynamicResources: starts what can be done about the claims of a pod that no node is feasible for.
fn free_claims(context: &Context, devices: &mut DeviceBindings, id: PodId) -> ClaimsFreed {
    let Some(queued) = context.pending.pods.get(id) else { return ClaimsFreed::None("") };
    devices.post_filter(id, &queued.pod, context.state.cluster.device_post_filter(queued.decided()))
}
