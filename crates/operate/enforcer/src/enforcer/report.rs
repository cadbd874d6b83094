//! Events: why a pod is evicted, and why a due pod is not. Each reason is reported once, until it changes.

use berth_api::object::Pod;
use berth_api::object::support::unsupported_message;
use berth_client::call::CallError;
use berth_client::events::{EventType, NewEvent, ObjectReference};
use berth_engine::{Remedy, ViolationKey};

use super::Enforcer;
use super::completions::Sent;
use crate::limiter::Throttled;
use crate::message;
use crate::options::GRACE_ANNOTATION;
use crate::pods::Workload;

const ACTION: &str = "Evicting";
/// A pod was evicted.
const EVICTED: &str = "EvictedForAffinity";
/// A due pod is not evicted, or later.
const HELD: &str = "EvictionHeld";
/// The API server rejected an eviction, usually because of a PodDisruptionBudget.
const REFUSED: &str = "EvictionRefused";
/// An eviction failed and will be retried.
const FAILED: &str = "EvictionFailed";
/// The annotation of the grace period is invalid.
const BAD_GRACE: &str = "InvalidEvictionGrace";
/// The cluster limit stops all evictions.
const STOPPED: &str = "EvictionsLimited";

impl Enforcer {
    fn record(
        &self,
        about: ObjectReference,
        related: Option<ObjectReference>,
        reason: &'static str,
        note: String,
    ) {
        let Some(recorder) = &self.recorder else { return };
        let event_type = if reason == EVICTED { EventType::Normal } else { EventType::Warning };
        let event = NewEvent {
            regarding: about,
            related,
            event_type,
            reason,
            action: ACTION,
            note,
            controller: None,
        };
        recorder.record(event);
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

    pub(super) fn report_evicted(&mut self, sent: &Sent) {
        let eviction = &sent.eviction;
        self.reported.remove(&eviction.uid);
        let pod = ObjectReference::pod(&eviction.namespace, &eviction.name, &eviction.uid);
        self.record_both(pod, &sent.workload, EVICTED, eviction.message.clone());
    }

    pub(super) fn report_refused(&mut self, sent: &Sent, error: &CallError) {
        let eviction = &sent.eviction;
        if self.is_new_report(eviction.uid.clone(), REFUSED) {
            let pod = ObjectReference::pod(&eviction.namespace, &eviction.name, &eviction.uid);
            let note = format!("{}. Eviction rejected, retrying: {error}", eviction.message);
            self.record_both(pod, &sent.workload, REFUSED, note);
        }
    }

    pub(super) fn report_failed(&mut self, sent: &Sent, error: &CallError) {
        let eviction = &sent.eviction;
        if self.is_new_report(eviction.uid.clone(), FAILED) {
            let pod = ObjectReference::pod(&eviction.namespace, &eviction.name, &eviction.uid);
            let note = format!("{}. Eviction failed, retrying: {error}", eviction.message);
            self.record_both(pod, &sent.workload, FAILED, note);
        }
    }

    pub(super) fn report_no_target(&mut self, remedy: &Remedy, workload: &Workload, why: &str) {
        self.report_not_evicted(
            remedy,
            workload,
            "no_target",
            &format!("Not evicted: no feasible node: {why}"),
        );
    }

    pub(super) fn report_unsupported(&mut self, remedy: &Remedy, workload: &Workload, fields: &[String]) {
        let why =
            format!("Not evicted: {}, so it is not known where the pod fits", unsupported_message(fields));
        self.report_not_evicted(remedy, workload, "unsupported", &why);
    }

    pub(super) fn report_delayed(&mut self, remedy: &Remedy, workload: &Workload, throttled: &Throttled) {
        self.report_not_evicted(
            remedy,
            workload,
            throttled.limit_kind.name(),
            &format!("Eviction delayed: {throttled}"),
        );
    }

    fn report_not_evicted(&mut self, remedy: &Remedy, workload: &Workload, what: &'static str, why: &str) {
        let victim = &remedy.victim;
        if self.is_new_report(victim.uid.clone(), what) {
            let verdict = message::verdict(&remedy.verdict);
            tracing::info!(pod = format!("{}/{}", victim.namespace, victim.name), "{verdict}. {why}");
            let pod = ObjectReference::pod(&victim.namespace, &victim.name, &victim.uid);
            self.record_both(pod, workload, HELD, format!("{verdict}. {why}"));
        }
    }

    /// No eviction would fix a rule.
    pub(super) fn report_no_remedy(&mut self, key: &ViolationKey, reason: &str) {
        if !self.is_new_report(key.to_string(), "nobody_helps") {
            return;
        }
        tracing::info!(rule = %key, "violated, and no eviction would fix it: {reason}");
        let Some(facts) = self.pods.get(&key.namespace, &key.name) else { return };
        let pod = ObjectReference::pod(&key.namespace, &key.name, &facts.uid);
        let workload = facts.workload.clone();
        let note = format!("{} is violated, and no eviction would fix it: {reason}", key.term);
        self.record_both(pod, &workload, HELD, note);
    }

    /// The event is about the ledger's ConfigMap, since it concerns no single pod.
    pub(super) fn report_stop(&self, throttled: &Throttled) {
        let place = &self.ledger.client;
        let about = ObjectReference {
            api_version: "v1".into(),
            kind: "ConfigMap".into(),
            namespace: place.namespace.clone(),
            name: place.name.clone(),
            uid: self.ledger.uid.clone(),
        };
        self.record(about, None, STOPPED, throttled.to_string());
    }

    pub(super) fn report_invalid_grace(&self, pod: &Pod, text: &str) {
        let metadata = &pod.metadata;
        let note = format!(
            "metadata.annotations[{GRACE_ANNOTATION}]: {text:?} is not a duration such as 90s, 5m or 1h30m; the \
             default grace period applies"
        );
        tracing::warn!(pod = pod.key(), "{note}");
        let about = ObjectReference::pod(&metadata.namespace, &metadata.name, &metadata.uid);
        self.record(about, None, BAD_GRACE, note);
    }
}
