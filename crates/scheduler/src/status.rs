//! What the scheduler writes into pods' status, and the removal of pods that make room.

use std::time::Duration;

use berth_api::object::Pod;
use berth_api::object::time::rfc3339;
use berth_client::Backoff;
use berth_client::call::{self, CallError};
use http::Method;
use serde_json::{Value, json};

use crate::bind::path_of;

const TIMEOUT: Duration = Duration::from_secs(10);
const MAX_ATTEMPTS: u32 = 4;

/// The condition `PodScheduled`, when it is false, and the nominated node.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Told {
    /// `Unschedulable` or `SchedulerError`; empty while nothing was said.
    pub(crate) reason: String,
    pub(crate) message: String,
    /// `status.nominatedNodeName`.
    pub(crate) nominated: String,
}

impl Told {
    /// What a pod's status says.
    pub(crate) fn of(pod: &Pod) -> Told {
        let condition = pod.status.conditions.iter().find(|c| c.condition_type == "PodScheduled");
        let condition = condition.filter(|c| c.status == "False");
        Told {
            reason: condition.map(|c| c.reason.clone()).unwrap_or_default(),
            message: condition.map(|c| c.message.clone()).unwrap_or_default(),
            nominated: pod.status.nominated_node_name.clone(),
        }
    }

    /// The patch of a pod's status that turns `before` into this.
    pub(crate) fn patch(&self, before: &Told, uid: &str, now: jiff::Timestamp) -> Value {
        let mut status = json!({});
        if self.nominated != before.nominated {
            status["nominatedNodeName"] = match self.nominated.as_str() {
                "" => Value::Null,
                node => json!(node),
            };
        }
        if !self.reason.is_empty() && (&self.reason, &self.message) != (&before.reason, &before.message) {
            let mut condition = json!({
                "type": "PodScheduled",
                "status": "False",
                "reason": self.reason,
                "message": self.message,
            });
            if before.reason.is_empty() {
                condition["lastTransitionTime"] = json!(rfc3339(now));
            }
            status["conditions"] = json!([condition]);
        }
        json!({"metadata": {"uid": uid}, "status": status})
    }
}

/// Patches a pod's status. The pod's being gone or another one is no error: there is nothing to say to it.
pub(crate) async fn patch_status(
    client: &kube::Client,
    namespace: &str,
    name: &str,
    patch: &Value,
) -> Result<(), CallError> {
    let path = format!("{}/status", path_of(namespace, name));
    let body = patch.to_string().into_bytes();
    let request =
        || call::with_body(Method::PATCH, &path, "application/strategic-merge-patch+json", body.clone());
    persistently(client, request).await
}

/// A pod that has to go.
#[derive(Clone, Debug)]
pub(crate) struct Victim {
    pub(crate) namespace: String,
    pub(crate) name: String,
    pub(crate) uid: String,
}

/// Says in a victim's status why it goes, and deletes it.
pub(crate) async fn evict(
    client: &kube::Client,
    victim: &Victim,
    scheduler_name: &str,
) -> Result<(), CallError> {
    let Victim { namespace, name, uid } = victim;
    let condition = json!({
        "type": "DisruptionTarget",
        "status": "True",
        "reason": "PreemptionByScheduler",
        "message": format!("{scheduler_name}: preempting to accommodate a higher priority pod"),
        "lastTransitionTime": rfc3339(jiff::Timestamp::now()),
    });
    let patch = json!({"metadata": {"uid": uid}, "status": {"conditions": [condition]}});
    patch_status(client, namespace, name, &patch).await?;
    let path = path_of(namespace, name);
    let body = json!({"apiVersion": "v1", "kind": "DeleteOptions", "preconditions": {"uid": uid}});
    let body = body.to_string().into_bytes();
    persistently(client, || call::with_body(Method::DELETE, &path, "application/json", body.clone())).await
}

/// Sends a request that may be repeated, a few times. That the pod is gone, or another one, is success.
async fn persistently(
    client: &kube::Client,
    request: impl Fn() -> http::Request<Vec<u8>>,
) -> Result<(), CallError> {
    let mut backoff = Backoff::new(Duration::from_millis(200), Duration::from_secs(5));
    loop {
        let Err(error) = call::send(client, request(), TIMEOUT, call::MAX_OBJECT_BYTES).await else {
            return Ok(());
        };
        if error.is_not_found() || error.is_conflict() {
            return Ok(());
        }
        let wait = backoff.failed(fastrand::f64());
        let is_final = error.is_refusal() && error.code() != Some(429);
        if is_final || backoff.failures() >= MAX_ATTEMPTS {
            return Err(error);
        }
        tokio::time::sleep(error.retry_after().unwrap_or(wait)).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(reason: &str, message: &str, nominated: &str) -> Told {
        Told { reason: reason.into(), message: message.into(), nominated: nominated.into() }
    }

    #[test]
    fn a_patch_says_only_what_changed() {
        let now = jiff::Timestamp::UNIX_EPOCH;
        let first = told("Unschedulable", "0/1", "");
        let patch = first.patch(&Told::default(), "u", now);
        assert_eq!(patch["metadata"]["uid"], "u");
        assert_eq!(patch["status"]["conditions"][0]["lastTransitionTime"], "1970-01-01T00:00:00Z");
        assert_eq!(patch["status"].get("nominatedNodeName"), None);

        let second = told("Unschedulable", "0/2", "n");
        let patch = second.patch(&first, "u", now);
        assert_eq!(patch["status"]["conditions"][0].get("lastTransitionTime"), None);
        assert_eq!(patch["status"]["nominatedNodeName"], "n");

        let cleared = told("Unschedulable", "0/2", "");
        let patch = cleared.patch(&second, "u", now);
        assert_eq!(patch["status"], json!({"nominatedNodeName": null}));
    }
}
