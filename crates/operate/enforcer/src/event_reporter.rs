//! Events: why a pod is evicted, and why a due pod is not. Each reason is reported once, until it changes.

use std::collections::HashMap;

use berth_api::object::{NamespacedName, Pod};
use berth_api::syntax::annotations::GRACE_ANNOTATION;
use berth_client::call::CallError;
use berth_client::events::{EventRecorder, EventType, NewEvent, ObjectReference};
use berth_engine::{Remedy, ViolationKey};
use berth_rebalance::Move;
use berth_rules::eviction_annotation_problem;
use jiff::Timestamp;

use crate::completion::Sent;
use crate::held_pods::held_until;
use crate::limiter::Throttled;
use crate::message;
use crate::pods::{Pods, Workload};

const ACTION: &str = "Evicting";
const EVICTED: &str = "EvictedForAffinity";
/// A pod was evicted as a step of a plan.
const MOVED: &str = "EvictedForRebalance";
/// The replacement of a pod that was moved is on another node than planned.
const ELSEWHERE: &str = "MovedElsewhere";
/// A due pod is not evicted, or later.
const HELD: &str = "EvictionHeld";
/// The API server rejected an eviction, usually because of a PodDisruptionBudget.
const REFUSED: &str = "EvictionRefused";
/// An eviction failed and will be retried.
const FAILED: &str = "EvictionFailed";
/// The annotation of the grace period is invalid.
const BAD_GRACE: &str = "InvalidEvictionGrace";
/// The annotation about pods without a feasible node is invalid.
const BAD_HOLD: &str = "InvalidWithoutTarget";
/// Rules of a pod cannot be read.
const BAD_RULES: &str = "InvalidPodRules";
/// The cluster limit stops all evictions.
const STOPPED: &str = "EvictionsLimited";

pub(crate) struct EventReporter {
    /// None in a dry run.
    recorder: Option<EventRecorder>,
    /// The reason last reported of why a pod or rule has no eviction, so that each reason is reported once.
    reported: HashMap<String, &'static str>,
}

impl EventReporter {
    pub(crate) fn new(recorder: Option<EventRecorder>) -> EventReporter {
        EventReporter { recorder, reported: HashMap::new() }
    }

    pub(crate) fn n_dropped(&self) -> u64 {
        self.recorder.as_ref().map_or(0, EventRecorder::dropped)
    }

    /// A pod was deleted, or a violation ended.
    pub(crate) fn forget(&mut self, about: &str) {
        self.reported.remove(about);
    }

    fn record(
        &self,
        regarding: ObjectReference,
        related: Option<ObjectReference>,
        reason: &'static str,
        note: String,
    ) {
        let Some(recorder) = &self.recorder else { return };
        let event_type =
            if matches!(reason, EVICTED | MOVED) { EventType::Normal } else { EventType::Warning };
        recorder.record(NewEvent {
            regarding,
            related,
            event_type,
            reason,
            action: ACTION,
            note,
            controller: None,
        });
    }

    /// Records an event of a pod, and one of its controller.
    fn record_both(&self, pod: ObjectReference, workload: &Workload, reason: &'static str, note: String) {
        if let Some(controller) = &workload.controller {
            let of_pod = format!("pod {}: {note}", pod.name);
            self.record(controller.clone(), Some(pod.clone()), reason, of_pod);
        }
        self.record(pod, workload.controller.clone(), reason, note);
    }

    /// Whether this reason was not the last one reported of a pod or a rule.
    fn is_new_report(&mut self, about: String, what: &'static str) -> bool {
        self.reported.insert(about, what) != Some(what)
    }

    pub(crate) fn evicted(&mut self, sent: &Sent) {
        self.reported.remove(&sent.eviction.uid);
        let reason = if sent.eviction.is_move { MOVED } else { EVICTED };
        self.record_both(pod_of(sent), &sent.workload, reason, sent.eviction.message.clone());
    }

    pub(crate) fn refused(&mut self, sent: &Sent, error: &CallError) {
        self.not_carried_out(sent, REFUSED, &format!("Eviction rejected, retrying: {error}"));
    }

    pub(crate) fn failed(&mut self, sent: &Sent, error: &CallError) {
        self.not_carried_out(sent, FAILED, &format!("Eviction failed, retrying: {error}"));
    }

    fn not_carried_out(&mut self, sent: &Sent, reason: &'static str, why: &str) {
        if self.is_new_report(sent.eviction.uid.clone(), reason) {
            let note = message::sentences(&sent.eviction.message, why);
            self.record_both(pod_of(sent), &sent.workload, reason, note);
        }
    }

    pub(crate) fn no_target(
        &mut self,
        remedy: &Remedy,
        workload: &Workload,
        until: Option<Timestamp>,
        now: Timestamp,
        why: &str,
    ) {
        let held = format!("{}no feasible node: {why}", held_until(until, now));
        self.not_evicted(remedy, workload, "no_target", &held);
    }

    pub(crate) fn unreadable(&mut self, remedy: &Remedy, workload: &Workload, why: &str) {
        let why = format!("Not evicted: {why}, so it is not known where the pod fits");
        self.not_evicted(remedy, workload, "no_permission", &why);
    }

    pub(crate) fn delayed(&mut self, remedy: &Remedy, workload: &Workload, throttled: &Throttled) {
        let why = format!("Eviction delayed: {throttled}");
        self.not_evicted(remedy, workload, throttled.limit_kind.name(), &why);
    }

    fn not_evicted(&mut self, remedy: &Remedy, workload: &Workload, what: &'static str, why: &str) {
        let victim = &remedy.victim;
        if self.is_new_report(victim.uid.clone(), what) {
            let note = message::sentences(&message::verdict(&remedy.verdict), why);
            tracing::info!(pod = format!("{}/{}", victim.namespace, victim.name), "{note}");
            let pod = ObjectReference::pod(&victim.namespace, &victim.name, &victim.uid);
            self.record_both(pod, workload, HELD, note);
        }
    }

    /// No eviction would fix a rule.
    pub(crate) fn no_remedy(&mut self, key: &ViolationKey, reason: &str, pods: &Pods) {
        if !self.is_new_report(key.to_string(), "nobody_helps") {
            return;
        }
        tracing::info!(rule = %key, "violated, and no eviction would fix it: {reason}");
        let Some(facts) = pods.get(&key.namespace, &key.name) else { return };
        let pod = ObjectReference::pod(&key.namespace, &key.name, &facts.uid);
        let note = format!("{} is violated, and no eviction would fix it: {reason}", key.term);
        self.record_both(pod, &facts.workload, HELD, note);
    }

    /// The replacement of a pod that was moved is not where the plan has it.
    pub(crate) fn moved_elsewhere(&self, pod: &NamespacedName, uid: &str, made: &Move, node: &str) {
        let note = format!(
            "It replaces {}, which was evicted to move to {}, and is on {node}: the plan is given up",
            made.name, made.to
        );
        self.record(ObjectReference::pod(pod.namespace(), pod.name(), uid), None, ELSEWHERE, note);
    }

    /// The event is about the ledger's ConfigMap, since it concerns no single pod.
    pub(crate) fn stopped(&self, ledger: ObjectReference, throttled: &Throttled) {
        self.record(ledger, None, STOPPED, throttled.to_string());
    }

    pub(crate) fn invalid_annotation(&self, pod: &Pod, annotation: &str, text: &str) {
        let reason = if annotation == GRACE_ANNOTATION { BAD_GRACE } else { BAD_HOLD };
        let problem = eviction_annotation_problem(annotation, text).unwrap_or_default();
        self.warn(pod, reason, format!("metadata.annotations[{annotation}]: {problem}"));
    }

    /// Rules of a running pod cannot be read. A pending pod has an event of the scheduler.
    pub(crate) fn invalid_rules(&self, pod: &Pod, error: &str) {
        self.warn(pod, BAD_RULES, format!("{error}; rules that cannot be read have no effect"));
    }

    fn warn(&self, pod: &Pod, reason: &'static str, note: String) {
        let metadata = &pod.metadata;
        tracing::warn!(pod = pod.key(), "{note}");
        let about = ObjectReference::pod(&metadata.namespace, &metadata.name, &metadata.uid);
        self.record(about, None, reason, note);
    }
}

fn pod_of(sent: &Sent) -> ObjectReference {
    let eviction = &sent.eviction;
    ObjectReference::pod(&eviction.namespace, &eviction.name, &eviction.uid)
}
