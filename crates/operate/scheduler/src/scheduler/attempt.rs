//! A scheduling attempt: a pod is decided, and then bound, or found unschedulable, or preempts other pods.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use berth_api::config::Plugin;
use berth_api::journal::Entry;
use berth_api::object::VolumeDecision;
use berth_engine::{NotEligible, Outcome, Preemption, Victims};
use tokio::time::Instant;

use super::completions::Eviction;
use super::queued_pods::InFlightBinding;
use super::relaxation::relaxed_sentence;
use super::{DECISIONS_AT_ONCE, GroupFailure, GroupKey, Scheduler};
use crate::bind::Binding;
use crate::metrics::AttemptResult;
use crate::queue::PodId;
use crate::status::{FailureReason, Victim};

impl Scheduler {
    /// Decides pods while they can be bound. Returns whether there are more.
    pub(super) fn decide_some(&mut self) -> bool {
        for _ in 0..DECISIONS_AT_ONCE {
            if !self.may_decide() {
                return false;
            }
            let Some(popped) = self.queue.pop() else { return false };
            if popped.was_in_backoff {
                self.metrics.queued("active", "PopFromBackoffQ");
            }
            if self.pod_groups.is_entry(popped.id) {
                self.decide_pod_group(popped.id);
            } else {
                self.decide(popped.id);
            }
        }
        true
    }

    pub(super) fn group_key(&mut self, id: PodId) -> Option<GroupKey> {
        if let Some(member) = self.pod_groups.first_pending(id) {
            return Some((self.cluster.equivalence(&self.pods.get(member)?.prepared), Some(id)));
        }
        let queued = self.pods.get(id)?;
        let metadata = &queued.pod.metadata;
        let is_nominated = self.cluster.nomination(&metadata.namespace, &metadata.name).is_some();
        let is_alone =
            is_nominated || self.cluster.next_relaxation(&queued.prepared, Duration::ZERO).is_some();
        Some((self.cluster.equivalence(&queued.prepared), is_alone.then_some(id)))
    }

    fn decide(&mut self, id: PodId) {
        if self.park_if_unsupported(id) {
            return;
        }
        let Some(key) = self.group_key(id) else { return };
        let now = Instant::now();
        let epoch = self.cluster.signature_epoch();
        // An equivalent pod failed, and nothing has happened since that could change that.
        if let Some(failure) = self.queue.failure(&key).filter(|failure| failure.epoch == epoch).cloned() {
            self.queue.join(id, key.clone(), now);
            self.metrics.queued("unschedulable", "ScheduleAttemptFailure");
            self.report_failure(id, &key, &failure);
            return;
        }
        let now = self.sample(id, now);
        let before = self.require_all_rules(id);
        let Some(queued) = self.pods.get_mut(id) else { return };
        queued.attempts += 1;
        queued.decided_at = now;
        queued.preemption = None;
        // Victims of an earlier attempt that are not evicted yet may not have to go.
        queued.eviction = None;
        self.instruments.decided(&queued.pod);
        let outcome = self.cluster.decide_nominated_first(&queued.prepared);
        self.metrics.decided(now.elapsed());
        let name = || queued.pod.metadata.namespaced_name();
        self.recorder.record(|| Entry::Decision(Box::new(outcome.recorded(name()))));
        let outcome = self.decide_relaxed(id, outcome, before);
        match outcome {
            Outcome::Placed { node, volumes, .. } => self.bind(id, &node, volumes, now),
            Outcome::Gated { .. } => self.queue.gate(id, now),
            Outcome::Unschedulable { message, plugins } => self.preempt(id, message, plugins),
            Outcome::Failed { error } => self.fail(id, FailureReason::SchedulerError, error, Vec::new()),
        }
    }

    pub(super) fn bind(&mut self, id: PodId, node: &str, volumes: Option<Box<VolumeDecision>>, now: Instant) {
        let Some(queued) = self.pods.get_mut(id) else { return };
        let metadata = &queued.pod.metadata;
        self.cluster.clear_nomination(&metadata.namespace, &metadata.name);
        self.mirror.assume(&mut self.cluster, &queued.pod, queued.decided(), node);
        let volumes: Option<Arc<VolumeDecision>> = volumes.map(Arc::from);
        if let Some(volumes) = &volumes {
            self.cluster.assume_volumes(&queued.prepared, node, volumes);
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
        self.queue.release_group(id, now);
        let binding = Binding { id, pod: queued.pod.clone(), node, relaxed, abandoned };
        match volumes {
            Some(volumes) => self.bind_volumes(binding, volumes, now),
            None => self.send_binding(group, binding),
        }
    }

    fn preempt(&mut self, id: PodId, message: String, plugins: Vec<Plugin>) {
        let Some(queued) = self.pods.get(id) else { return };
        let began = Instant::now();
        if queued.pod.spec.preemption_policy.as_deref() != Some("Never") {
            self.metrics.preemption_attempts.inc();
        }
        let mut preemption = self.cluster.preempt(queued.decided(), self.budgets.list());
        let too_many = match &preemption {
            Preemption::Victims(_) => queued.preemptions.too_many(began, self.options.flush_after),
            _ => None,
        };
        match too_many {
            Some(reason) => preemption = Preemption::NoCandidate { reason },
            None => {
                let name = || queued.pod.metadata.namespaced_name();
                self.recorder.record(|| Entry::Preemption(Box::new(preemption.recorded(name()))));
            }
        }
        let status = match &preemption {
            Preemption::Victims(_) => "Success",
            _ => "Unschedulable",
        };
        let profile = &queued.pod.spec.scheduler_name;
        self.metrics.ran("DefaultPreemption", "PostFilter", status, profile, began.elapsed());
        let message = match preemption.message() {
            Some(why) => format!("{message} {why}"),
            None => message,
        };
        match preemption {
            Preemption::Victims(victims) => self.evict(id, victims),
            // While victims of this pod terminate, its nomination stays.
            Preemption::NotEligible(NotEligible::VictimsTerminating) => self.await_victims(id, Vec::new()),
            Preemption::NotEligible(NotEligible::PolicyNever) => {}
            Preemption::NoCandidate { .. } | Preemption::NotNeeded => {
                let metadata = &queued.pod.metadata;
                self.cluster.clear_nomination(&metadata.namespace, &metadata.name);
            }
        }
        self.fail(id, FailureReason::Unschedulable, message, plugins);
    }

    /// Moves a pod that fits nowhere to the unschedulable pods.
    fn fail(&mut self, id: PodId, reason: FailureReason, message: String, plugins: Vec<Plugin>) {
        let now = Instant::now();
        // Changes made by earlier decisions affect the pods that are unschedulable already, not this one.
        self.wake_unschedulable(now);
        let (Some(key), Some(queued)) = (self.group_key(id), self.pods.get(id)) else { return };
        let message = message + &relaxed_sentence([queued.relaxed.as_ref()]);
        let failure = GroupFailure {
            reason,
            message: message.into(),
            plugins: plugins.into(),
            profile: queued.pod.spec.scheduler_name.as_str().into(),
            bottleneck: None,
            wake: vec![self.cluster.wake_conditions(queued.decided())],
            epoch: self.cluster.signature_epoch(),
            look_again: None,
            is_due: false,
        };
        let profile = &queued.pod.spec.scheduler_name;
        let took = now.saturating_duration_since(queued.decided_at);
        let counters = &mut self.reporter.current;
        let (counter, result) = match reason {
            FailureReason::Unschedulable => (&mut counters.n_unschedulable, AttemptResult::Unschedulable),
            FailureReason::SchedulerError => (&mut counters.n_errors, AttemptResult::Error),
        };
        *counter += 1;
        self.metrics.attempted(result, profile, took);
        self.metrics.queued("unschedulable", "ScheduleAttemptFailure");
        if self.queue.failure_mut(&key).is_some_and(|known| known.epoch != failure.epoch) {
            // This failure may not be that of all pods that were equivalent once.
            self.split(&key, now);
        }
        let is_alone = key.1.is_some();
        if is_alone {
            // The preemption is for this pod only: the next of its group is decided for itself.
            self.queue.release_group(id, now);
        }
        self.queue.add_unschedulable(id, key.clone(), failure.clone(), now);
        self.report_failure(id, &key, &failure);
    }

    /// Nominates a pod to a node, and evicts its victims there.
    fn evict(&mut self, id: PodId, victims: Victims) {
        let Some(queued) = self.pods.get_mut(id) else { return };
        queued.preemptions.add(Instant::now());
        let pod = queued.pod.clone();
        self.cluster.nominate(queued.decided(), &victims.node);
        self.metrics.preemption_victims.observe(victims.victims.len() as f64);
        tracing::info!(
            pod = pod.key(),
            node = victims.node,
            victims = victims.victims.len(),
            violated_budgets = victims.n_pdb_violations,
            "preempting"
        );
        self.clear_nominations(&victims.nominations);
        let found = victims.victims.into_iter().filter_map(|name| {
            let uid = self.mirror.uid(name.namespace(), name.name())?;
            Some(Victim { name, uid })
        });
        let found: Vec<_> = found.collect();
        self.await_victims(id, found.clone());
        self.evict_victims(Eviction { id, pod, node: victims.node.into(), victims: found });
    }
}
