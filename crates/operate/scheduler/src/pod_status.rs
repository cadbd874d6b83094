//! Requests that write the status of pods, and that evict preemption victims.

use std::time::Duration;

use berth_api::object::NamespacedName;
use berth_api::object::Pod;
use berth_api::object::time::rfc3339;
use berth_api::resource::PODS;
use berth_client::Backoff;
use berth_client::call::{self, CallError};
use bytes::Bytes;
use http::Method;
use serde_json::{Value, json};

const TIMEOUT: Duration = Duration::from_secs(10);
const MAX_ATTEMPTS: u32 = 4;
const STRATEGIC_MERGE: &str = "application/strategic-merge-patch+json";

berth_api::named! {
    /// Why a pod is not scheduled: the reason of its `PodScheduled` condition.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub(crate) enum FailureReason(as_str) {
        Unschedulable = "Unschedulable",
        /// The attempt failed.
        SchedulerError = "SchedulerError",
    }
}

/// The condition `PodScheduled`, when it is false, and the nominated node.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct ScheduledCondition {
    /// [`FailureReason`], or what another scheduler wrote; empty without such a condition.
    pub(crate) reason: String,
    pub(crate) message: String,
    /// The generation of the pod that was decided; 0 if the server has none.
    pub(crate) observed_generation: i64,
    pub(crate) nominated_node: String,
}

impl ScheduledCondition {
    /// Of a pod that nothing is known of.
    pub(crate) const EMPTY: &'static ScheduledCondition = &ScheduledCondition {
        reason: String::new(),
        message: String::new(),
        observed_generation: 0,
        nominated_node: String::new(),
    };

    /// As a pod's status has it.
    pub(crate) fn of(pod: &Pod) -> ScheduledCondition {
        let condition = pod.status.conditions.iter().find(|c| c.condition_type == "PodScheduled");
        let condition = condition.filter(|c| c.status == "False");
        ScheduledCondition {
            reason: condition.map(|c| c.reason.clone()).unwrap_or_default(),
            message: condition.map(|c| c.message.clone()).unwrap_or_default(),
            observed_generation: condition.map_or(0, |c| c.observed_generation),
            nominated_node: pod.status.nominated_node_name.clone(),
        }
    }

    /// The pod is not scheduled, for this reason.
    pub(crate) fn fail(&mut self, reason: FailureReason, message: &str) {
        self.reason = reason.as_str().to_owned();
        self.message = message.to_owned();
    }

    /// The patch that changes a pod's status from `before` to this.
    pub(crate) fn patch(&self, before: &ScheduledCondition, uid: &str, now: jiff::Timestamp) -> Value {
        let mut status = json!({});
        if self.nominated_node != before.nominated_node {
            status["nominatedNodeName"] = match self.nominated_node.as_str() {
                "" => Value::Null,
                node => json!(node),
            };
        }
        let is_same = |other: &ScheduledCondition| {
            (&self.reason, &self.message, self.observed_generation)
                == (&other.reason, &other.message, other.observed_generation)
        };
        if !self.reason.is_empty() && !is_same(before) {
            let mut condition = json!({
                "type": "PodScheduled",
                "status": "False",
                "reason": self.reason,
                "message": self.message,
            });
            if self.observed_generation > 0 {
                condition["observedGeneration"] = json!(self.observed_generation);
            }
            if before.reason.is_empty() {
                condition["lastTransitionTime"] = json!(rfc3339(now));
            }
            status["conditions"] = json!([condition]);
        }
        json!({"metadata": {"uid": uid}, "status": status})
    }
}

/// Patches the status of a pod that has no node, in this resource version; returns its version then. What another process
/// changed meanwhile is kept: a pod that it bound is not patched. Neither is a pod that was deleted, or replaced by another
/// one of its name.
pub(crate) async fn patch_pending(
    client: &kube::Client,
    namespace: &str,
    name: &str,
    mut patch: Value,
    version: u64,
) -> Result<Option<u64>, CallError> {
    let path = PODS.object_path(namespace, name);
    let status = format!("{path}/status");
    patch["metadata"]["resourceVersion"] = version.to_string().into();
    let mut conflicts = 0;
    let answer = loop {
        match with_retries(client, || patch_request(&status, STRATEGIC_MERGE, &patch), false).await {
            Err(error) if error.is_conflict() && conflicts < MAX_ATTEMPTS => conflicts += 1,
            result => break result?,
        }
        let Some(found) = with_retries(client, || call::get(&path), false).await? else { break None };
        let found: Pod = serde_json::from_slice(&found).unwrap_or_default();
        if patch["metadata"]["uid"] != found.metadata.uid || !found.spec.node_name.is_empty() {
            break None;
        }
        patch["metadata"]["resourceVersion"] = found.metadata.resource_version.into();
    };
    let pod: Option<Value> = answer.and_then(|answer| serde_json::from_slice(&answer).ok());
    Ok(pod.and_then(|pod| pod["metadata"]["resourceVersion"].as_str()?.parse().ok()))
}

/// Patches an object. One that was deleted is no error, and gives no answer.
pub(crate) async fn patch_object(
    client: &kube::Client,
    path: &str,
    patch_type: &'static str,
    patch: &Value,
) -> Result<Option<Bytes>, CallError> {
    with_retries(client, || patch_request(path, patch_type, patch), true).await
}

fn patch_request(path: &str, patch_type: &'static str, patch: &Value) -> http::Request<Vec<u8>> {
    call::with_body(Method::PATCH, path, patch_type, patch.to_string().into_bytes())
}

/// A pod that is preempted.
#[derive(Clone, Debug)]
pub(crate) struct Victim {
    pub(crate) name: NamespacedName,
    pub(crate) uid: String,
}

/// Writes the reason into a victim's status, and deletes the victim.
pub(crate) async fn evict(client: &kube::Client, victim: &Victim, message: &str) -> Result<(), CallError> {
    let Victim { name, uid } = victim;
    let (namespace, name) = (name.namespace(), name.name());
    let path = PODS.object_path(namespace, name);
    // The condition has the victim's generation, which the scheduler's state does not.
    let Some(answer) = with_retries(client, || call::get(&path), true).await? else {
        return Ok(());
    };
    let found = serde_json::from_slice::<Pod>(&answer).unwrap_or_default();
    if found.metadata.uid != *uid {
        return Ok(());
    }
    let generation = found.metadata.generation;
    let mut condition = json!({
        "type": "DisruptionTarget",
        "status": "True",
        "reason": "PreemptionByScheduler",
        "message": message,
        "lastTransitionTime": rfc3339(jiff::Timestamp::now()),
    });
    if generation > 0 {
        condition["observedGeneration"] = json!(generation);
    }
    let patch = json!({"metadata": {"uid": uid}, "status": {"conditions": [condition]}});
    patch_object(client, &format!("{path}/status"), STRATEGIC_MERGE, &patch).await?;
    let body = json!({"apiVersion": "v1", "kind": "DeleteOptions", "preconditions": {"uid": uid}});
    with_retries(client, || call::with_json(Method::DELETE, &path, &body), true).await?;
    Ok(())
}

/// Sends an idempotent request, with a few retries, also after a conflict with another write if `after_conflicts` is set. A pod
/// that was deleted counts as success, without an answer.
async fn with_retries(
    client: &kube::Client,
    request: impl Fn() -> http::Request<Vec<u8>>,
    after_conflicts: bool,
) -> Result<Option<Bytes>, CallError> {
    let mut backoff = Backoff::new(Duration::from_millis(200), Duration::from_secs(5));
    loop {
        let error = match call::send(client, request(), TIMEOUT, call::MAX_OBJECT_BYTES).await {
            Ok(answer) => return Ok(Some(answer)),
            Err(error) if error.is_not_found() => return Ok(None),
            Err(error) => error,
        };
        let wait = backoff.failed(fastrand::f64());
        let may_succeed = error.code() == Some(429) || error.is_conflict() && after_conflicts;
        let is_final = error.is_refusal() && !may_succeed;
        if is_final || backoff.failures() >= MAX_ATTEMPTS {
            return Err(error);
        }
        tokio::time::sleep(error.retry_after().unwrap_or(wait)).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn condition(reason: &str, message: &str, nominated_node: &str) -> ScheduledCondition {
        ScheduledCondition {
            reason: reason.into(),
            message: message.into(),
            observed_generation: 3,
            nominated_node: nominated_node.into(),
        }
    }

    #[test]
    fn a_patch_has_only_what_changed() {
        let now = jiff::Timestamp::UNIX_EPOCH;
        let first = condition("Unschedulable", "0/1", "");
        let patch = first.patch(&ScheduledCondition::default(), "u", now);
        assert_eq!(patch["metadata"]["uid"], "u");
        assert_eq!(patch["status"]["conditions"][0]["lastTransitionTime"], "1970-01-01T00:00:00Z");
        assert_eq!(patch["status"]["conditions"][0]["observedGeneration"], 3);
        assert_eq!(patch["status"].get("nominatedNodeName"), None);

        let second = condition("Unschedulable", "0/2", "n");
        let patch = second.patch(&first, "u", now);
        assert_eq!(patch["status"]["conditions"][0].get("lastTransitionTime"), None);
        assert_eq!(patch["status"]["nominatedNodeName"], "n");

        let cleared = condition("Unschedulable", "0/2", "");
        let patch = cleared.patch(&second, "u", now);
        assert_eq!(patch["status"], json!({"nominatedNodeName": null}));
    }
}
