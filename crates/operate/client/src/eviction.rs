//! The Eviction API, which checks PodDisruptionBudgets.

use std::time::Duration;

use berth_api::fenceposts::evicts_unready;
use berth_api::object::{Pod, PodDisruptionBudget};
use berth_api::resource::{POD_DISRUPTION_BUDGETS, PODS};
use berth_rules::Selector;
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
    let mut budgets: Vec<_> = budgets.items.iter().map(Left::of).collect();
    for name in names {
        let pod: Pod = call::json(client, call::get(&PODS.object_path(namespace, name)), timeout).await?;
        if let Some(refusing) = budgets.iter_mut().find_map(|left| (!left.take(&pod)).then_some(left.budget))
        {
            let path = format!("{}/eviction", PODS.object_path(namespace, name));
            return Err(CallError::too_many(&path, &too_few(refusing, names.len())));
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

/// How many pods of a budget may still be evicted.
struct Left<'a> {
    budget: &'a PodDisruptionBudget,
    selector: Selector,
    n_allowed: i32,
}

impl<'a> Left<'a> {
    fn of(budget: &'a PodDisruptionBudget) -> Left<'a> {
        let selector = Selector::parse(budget.spec.selector.as_ref()).unwrap_or(Selector::Nothing);
        Left { budget, selector, n_allowed: budget.status.disruptions_allowed.unwrap_or(0) }
    }

    /// Counts an eviction, as the Eviction API does. Returns whether the budget allows it.
    fn take(&mut self, pod: &Pod) -> bool {
        let PodDisruptionBudget { spec, status, .. } = self.budget;
        let (healthy, desired) = (status.current_healthy.unwrap_or(0), status.desired_healthy.unwrap_or(0));
        let evicts_unready =
            || evicts_unready(&spec.unhealthy_pod_eviction_policy, healthy.into(), desired.into());
        let labels = &pod.metadata.labels;
        if !self.selector.matches(|key| labels.get(key).map(String::as_str))
            || status.disrupted_pods.contains_key(&pod.metadata.name)
            || (pod.is_unready() && evicts_unready())
        {
            return true;
        }
        self.n_allowed -= 1;
        self.n_allowed >= 0
    }
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

#[cfg(test)]
mod tests {
    use super::*;

    /// How many pods the budget allows to be evicted, one after the other, by the status of their condition Ready.
    fn n_allowed(policy: &str, n_healthy: i32, allowed: i32, ready: &[&str]) -> usize {
        let budget: PodDisruptionBudget = serde_json::from_value(json!({
            "metadata": {"name": "b"},
            "spec": {"selector": {}, "unhealthyPodEvictionPolicy": policy},
            "status": {"disruptionsAllowed": allowed, "currentHealthy": n_healthy, "desiredHealthy": 2},
        }))
        .unwrap();
        let mut left = Left::of(&budget);
        let pod = |ready: &&str| -> Pod {
            let status = json!({"conditions": [{"type": "Ready", "status": ready}]});
            serde_json::from_value(json!({"metadata": {"name": "p"}, "status": status})).unwrap()
        };
        ready.iter().map(pod).take_while(|pod| left.take(pod)).count()
    }

    #[test]
    fn members_of_a_group_that_are_not_ready_take_nothing_of_a_budget_that_is_met() {
        assert_eq!(n_allowed("", 3, 1, &["True", "True"]), 1);
        assert_eq!(n_allowed("", 3, 1, &["True", "False", "False"]), 3);
        assert_eq!(n_allowed("", 1, 0, &["False"]), 0);
        assert_eq!(n_allowed("AlwaysAllow", 1, 0, &["False", "True"]), 1);
    }
}
