//! The Eviction API, which checks PodDisruptionBudgets.

use std::time::Duration;

use berth_api::object::{Pod, PodDisruptionBudget};
use berth_api::resource::{POD_DISRUPTION_BUDGETS, PODS};
use berth_api::rules::Selector;
use http::Method;
use serde::Deserialize;
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

/// Checks that PodDisruptionBudgets allow all of some pods of a namespace, by name, to be evicted now. The Eviction API looks at one pod
/// at a time.
///
/// # Errors
/// As the Eviction API, 429 if a budget does not allow it; or a pod, or the budgets of the namespace, are not read.
pub async fn allows_all(
    client: &kube::Client,
    namespace: &str,
    names: &[&str],
    timeout: Duration,
) -> Result<(), CallError> {
    let list = POD_DISRUPTION_BUDGETS.path(namespace);
    let budgets: BudgetList = call::json(client, call::get(&list), timeout).await?;
    let mut n_allowed: Vec<_> = budgets.items.iter().map(allowed).collect();
    for name in names {
        let pod: Pod = call::json(client, call::get(&PODS.object_path(namespace, name)), timeout).await?;
        for (budget, (selector, left)) in budgets.items.iter().zip(&mut n_allowed) {
            let protects = selector.matches(|key| pod.metadata.labels.get(key).map(String::as_str));
            if budget.status.disrupted_pods.contains_key(*name) || !protects {
                continue;
            }
            *left -= 1;
            if *left < 0 {
                let path = format!("{}/eviction", PODS.object_path(namespace, name));
                return Err(CallError::too_many(&path, &too_few(budget, names.len())));
            }
        }
    }
    Ok(())
}

fn too_few(budget: &PodDisruptionBudget, n: usize) -> String {
    let (name, n_allowed) = (&budget.metadata.name, budget.status.disruptions_allowed.unwrap_or(0));
    format!("PodDisruptionBudget {name} allows {n_allowed} disruptions, and {n} pods are evicted together")
}

#[derive(Deserialize)]
struct BudgetList {
    items: Vec<PodDisruptionBudget>,
}

/// The pods of a budget, and how many of them may be evicted.
fn allowed(budget: &PodDisruptionBudget) -> (Selector, i32) {
    let selector = Selector::parse(budget.spec.selector.as_ref()).unwrap_or(Selector::Nothing);
    (selector, budget.status.disruptions_allowed.unwrap_or(0))
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
