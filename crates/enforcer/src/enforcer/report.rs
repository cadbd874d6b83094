//! Events: why somebody goes, and why somebody stays. Each thing is said once, until another one is true.

use berth_api::object::Pod;
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
/// A pod that breaks a rule stays, for now or for good.
const HELD: &str = "EvictionHeld";
/// The Eviction API does not let a pod go now, most often for a PodDisruptionBudget.
const REFUSED: &str = "EvictionRefused";
/// An eviction failed, and is tried again.
const FAILED: &str = "EvictionFailed";
/// An annotation cannot be read.
const BAD_GRACE: &str = "InvalidEvictionGrace";
/// Too much of the cluster would go.
const BRAKE: &str = "EvictionBrakeEngaged";

fn regarding(namespace: &str, name: &str, uid: &str) -> ObjectReference {
    ObjectReference {
        api_version: "v1".into(),
        kind: "Pod".into(),
        namespace: namespace.to_owned(),
        name: name.to_owned(),
        uid: uid.to_owned(),
    }
}

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
        let event = NewEvent { regarding: about, related, event_type, reason, action: ACTION, note };
        recorder.record(event);
    }

    /// About a pod, and about its controller.
    fn record_both(&self, pod: ObjectReference, workload: &Workload, reason: &'static str, note: String) {
        if let Some(controller) = &workload.controller {
            let of_pod = format!("pod {}: {note}", pod.name);
            self.record(controller.clone(), Some(pod.clone()), reason, of_pod);
        }
        self.record(pod, workload.controller.clone(), reason, note);
    }

    /// Whether this is news about a pod or a rule.
    fn is_news(&mut self, about: String, what: &'static str) -> bool {
        self.said.insert(about, what) != Some(what)
    }

    pub(super) fn say_evicted(&mut self, sent: &Sent) {
        let eviction = &sent.eviction;
        self.said.remove(&eviction.uid);
        let pod = regarding(&eviction.namespace, &eviction.name, &eviction.uid);
        self.record_both(pod, &sent.workload, EVICTED, eviction.message.clone());
    }

    pub(super) fn say_refused(&mut self, sent: &Sent, error: &CallError) {
        let eviction = &sent.eviction;
        if self.is_news(eviction.uid.clone(), REFUSED) {
            let pod = regarding(&eviction.namespace, &eviction.name, &eviction.uid);
            let note = format!("{}. Not now, and tried again: {error}", eviction.message);
            self.record_both(pod, &sent.workload, REFUSED, note);
        }
    }

    pub(super) fn say_failed(&mut self, sent: &Sent, error: &CallError) {
        let eviction = &sent.eviction;
        if self.is_news(eviction.uid.clone(), FAILED) {
            let pod = regarding(&eviction.namespace, &eviction.name, &eviction.uid);
            let note = format!("{}. It failed, and is tried again: {error}", eviction.message);
            self.record_both(pod, &sent.workload, FAILED, note);
        }
    }

    pub(super) fn say_no_target(&mut self, remedy: &Remedy, workload: &Workload, why: &str) {
        self.say_stays(remedy, workload, "no_target", &format!("It stays: no node would take it: {why}"));
    }

    pub(super) fn say_held(&mut self, remedy: &Remedy, workload: &Workload, held: &Throttled) {
        self.say_stays(remedy, workload, held.brake.name(), &format!("It stays for now: {held}"));
    }

    fn say_stays(&mut self, remedy: &Remedy, workload: &Workload, what: &'static str, why: &str) {
        let victim = &remedy.victim;
        if self.is_news(victim.uid.clone(), what) {
            let verdict = message::verdict(&remedy.verdict);
            tracing::info!(pod = format!("{}/{}", victim.namespace, victim.name), "{verdict}. {why}");
            let pod = regarding(&victim.namespace, &victim.name, &victim.uid);
            self.record_both(pod, workload, HELD, format!("{verdict}. {why}"));
        }
    }

    /// Nobody's going makes a rule hold again.
    pub(super) fn say_rule_stays(&mut self, key: &ViolationKey, reason: &str) {
        if !self.is_news(key.to_string(), "nobody_helps") {
            return;
        }
        tracing::info!(rule = %key, "broken, and nobody goes: {reason}");
        let Some(facts) = self.pods.get(&key.namespace, &key.name) else { return };
        let pod = regarding(&key.namespace, &key.name, &facts.uid);
        let workload = facts.workload.clone();
        let note = format!("{} does not hold any more, and nobody goes: {reason}", key.term);
        self.record_both(pod, &workload, HELD, note);
    }

    /// About the ConfigMap of the ledger, since it concerns no pod more than another.
    pub(super) fn say_brake(&self, held: &Throttled) {
        let place = &self.written.place;
        let about = ObjectReference {
            api_version: "v1".into(),
            kind: "ConfigMap".into(),
            namespace: place.namespace.clone(),
            name: place.name.clone(),
            uid: self.written.uid.clone(),
        };
        self.record(about, None, BRAKE, held.to_string());
    }

    pub(super) fn say_bad_grace(&self, pod: &Pod, text: &str) {
        let metadata = &pod.metadata;
        let note = format!(
            "metadata.annotations[{GRACE_ANNOTATION}]: {text:?} is not a duration such as 90s, 5m or 1h30m; the \
             enforcer's own graces hold"
        );
        tracing::warn!(pod = pod.key(), "{note}");
        let about = regarding(&metadata.namespace, &metadata.name, &metadata.uid);
        self.record(about, None, BAD_GRACE, note);
    }
}
