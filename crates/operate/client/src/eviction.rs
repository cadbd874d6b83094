//! The Eviction API, which checks PodDisruptionBudgets.

use std::time::Duration;

use berth_api::resource::PODS;
use http::Method;
use serde_json::json;

use crate::call::{self, CallError};

/// Evicts the pod with this UID: another pod of the same name is not evicted.
///
/// # Errors
/// 429 if a PodDisruptionBudget does not allow it now, or the server is overloaded; 409 if the UID is of another pod.
pub async fn evict(
    client: &kube::Client,
    namespace: &str,
    name: &str,
    uid: &str,
    timeout: Duration,
) -> Result<(), CallError> {
    let body = json!({
        "apiVersion": "policy/v1",
        "kind": "Eviction",
        "metadata": {"name": name, "namespace": namespace},
        "deleteOptions": {"apiVersion": "v1", "kind": "DeleteOptions", "preconditions": {"uid": uid}},
    });
    let path = format!("{}/eviction", PODS.object_path(namespace, name));
    let request = call::with_json(Method::POST, &path, &body);
    call::send(client, request, timeout, call::MAX_OBJECT_BYTES).await.map(|_| ())
}

/// Why an eviction is refused for now, and may be tried again; none for other errors. Names the budget as kube-apiserver does in the
/// cause of its Status.
pub fn refused_for_now(error: &CallError) -> Option<String> {
    if error.code() != Some(429) {
        return None;
    }
    let budget =
        error.cause("DisruptionBudget").and_then(|cause| cause.strip_prefix("The disruption budget "));
    Some(match budget.and_then(|budget| budget.split_once(' ')) {
        Some((name, why)) if why.starts_with("needs ") => {
            format!("blocked by PodDisruptionBudget {name}: 0 disruptions allowed, {why}")
        }
        Some((name, why)) => format!("blocked by PodDisruptionBudget {name}, which {why}"),
        None => error.message(),
    })
}
