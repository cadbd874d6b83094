//! The status of a pod disruption budget. Pure.

use std::sync::Arc;

use berth_control::budget::Demand;
use jiff::{SignedDuration, Timestamp};

use crate::view::{Condition, Pod, PodDisruptionBudget, PodDisruptionBudgetStatus, set_condition};

/// How long a granted eviction counts while its pod still exists.
const EVICTION_TIMEOUT: SignedDuration = SignedDuration::from_secs(120);

/// The status computed from the covered pods, and when a granted eviction stops counting.
pub(super) fn status(
    budget: &PodDisruptionBudget,
    pods: &[Arc<Pod>],
    demand: Demand,
    now: Timestamp,
) -> (PodDisruptionBudgetStatus, Option<Timestamp>) {
    let Demand { expected: expected_pods, desired_healthy } = demand;
    let mut look_again: Option<Timestamp> = None;
    let mut disrupted_pods = budget.status.disrupted_pods.clone();
    disrupted_pods.retain(|name, granted| {
        let is_there = pods.iter().any(|pod| *pod.metadata.name == **name && !pod.metadata.is_deleting());
        let until = granted.checked_add(EVICTION_TIMEOUT).unwrap_or(Timestamp::MAX);
        let counts = is_there && until > now;
        if counts {
            look_again = Some(look_again.map_or(until, |next| next.min(until)));
        }
        counts
    });
    let is_healthy = |pod: &&Arc<Pod>| {
        pod.is_ready() && !pod.metadata.is_deleting() && !disrupted_pods.contains_key(&*pod.metadata.name)
    };
    let current_healthy = i32::try_from(pods.iter().filter(is_healthy).count()).unwrap_or(i32::MAX);
    let spare = current_healthy.saturating_sub(desired_healthy);
    let disruptions_allowed = if expected_pods <= 0 { 0 } else { spare.max(0) };
    let mut conditions = budget.status.conditions.clone();
    let (allowed, reason) =
        if disruptions_allowed > 0 { ("True", "SufficientPods") } else { ("False", "InsufficientPods") };
    set_condition_of(&mut conditions, budget, allowed, reason, String::new(), now);
    let status = PodDisruptionBudgetStatus {
        observed_generation: budget.metadata.generation,
        disrupted_pods,
        disruptions_allowed,
        current_healthy,
        desired_healthy,
        expected_pods,
        conditions,
    };
    (status, look_again)
}

/// The status when the wanted pod count is unknown: no disruption is allowed.
pub(super) fn failed(
    budget: &PodDisruptionBudget,
    message: String,
    now: Timestamp,
) -> PodDisruptionBudgetStatus {
    let mut status = budget.status.clone();
    status.disruptions_allowed = 0;
    set_condition_of(&mut status.conditions, budget, "False", "SyncFailed", message, now);
    status
}

fn set_condition_of(
    conditions: &mut Vec<Condition>,
    budget: &PodDisruptionBudget,
    status: &str,
    reason: &str,
    message: String,
    now: Timestamp,
) {
    let mut condition = Condition::new("DisruptionAllowed", status, reason, message, now);
    condition.observed_generation = budget.metadata.generation;
    set_condition(conditions, condition);
    if let Some(condition) = conditions.iter_mut().find(|c| c.condition_type == "DisruptionAllowed") {
        condition.observed_generation = budget.metadata.generation;
    }
}

#[cfg(test)]
mod tests {
    use berth_control::budget::{Scale, demand};
    use serde_json::{Value, json};

    use crate::view::OwnerReference;

    use super::*;

    fn pods(ready: usize, not_ready: usize) -> Vec<Arc<Pod>> {
        let pod = |i: usize| {
            let ready = if i < ready { "True" } else { "False" };
            let pod = json!({"metadata": {"name": format!("p{i}")},
                "status": {"conditions": [{"type": "Ready", "status": ready}]}});
            Arc::new(serde_json::from_value(pod).unwrap())
        };
        (0..ready + not_ready).map(pod).collect()
    }

    fn budget(spec: Value, disrupted: Value) -> PodDisruptionBudget {
        serde_json::from_value(json!({"spec": spec, "status": {"disruptedPods": disrupted}})).unwrap()
    }

    #[test]
    fn numbers_and_percentages_are_applied() {
        // spec, ready, not ready, wanted by controllers: expected, desired, allowed
        for (spec, ready, not_ready, wanted, expected) in [
            (json!({"minAvailable": 2}), 3, 0, 9, (3, 2, 1)),
            (json!({"minAvailable": 2}), 2, 1, 9, (3, 2, 0)),
            (json!({"minAvailable": 2}), 1, 2, 9, (3, 2, 0)),
            (json!({"minAvailable": 0}), 0, 0, 0, (0, 0, 0)),
            (json!({"minAvailable": "50%"}), 5, 0, 5, (5, 3, 2)),
            (json!({"maxUnavailable": 1}), 5, 0, 5, (5, 4, 1)),
            (json!({"maxUnavailable": 1}), 4, 1, 5, (5, 4, 0)),
            (json!({"maxUnavailable": "30%"}), 5, 0, 5, (5, 3, 2)),
            (json!({"maxUnavailable": 9}), 5, 0, 5, (5, 0, 5)),
            // Wanted pods that do not exist yet count as unavailable.
            (json!({"maxUnavailable": 1}), 3, 0, 5, (5, 4, 0)),
            (json!({}), 2, 0, 2, (2, 1, 1)),
        ] {
            let now = Timestamp::UNIX_EPOCH;
            let (budget, pods) = (budget(spec.clone(), json!({})), pods(ready, not_ready));
            let owner = OwnerReference::default();
            let (min, max) = (budget.spec.min_available.as_ref(), budget.spec.max_unavailable.as_ref());
            let demand =
                demand(min, max, pods.iter().map(|_| Some(&owner)), |_| Scale::Of(String::new(), wanted));
            let (status, _) = status(&budget, &pods, demand.unwrap(), now);
            let counted = (status.expected_pods, status.desired_healthy, status.disruptions_allowed);
            assert_eq!(
                (counted, status.current_healthy),
                (expected, i32::try_from(ready).unwrap()),
                "{spec}"
            );
            let allowed = status.conditions[0].is_true();
            assert_eq!(allowed, status.disruptions_allowed > 0);
        }
    }

    #[test]
    fn granted_evictions_count_until_deletion_or_timeout() {
        let granted = json!({"p0": "2026-01-01T00:00:00Z", "gone": "2026-01-01T00:00:00Z"});
        let budget = budget(json!({"minAvailable": 1}), granted);
        let demand = || Demand { expected: 3, desired_healthy: 1 };
        let at = |time: &str| status(&budget, &pods(3, 0), demand(), time.parse().unwrap());
        let (early, next) = at("2026-01-01T00:01:00Z");
        assert_eq!((early.current_healthy, early.disruptions_allowed, early.disrupted_pods.len()), (2, 1, 1));
        assert_eq!(next, Some("2026-01-01T00:02:00Z".parse().unwrap()));
        let (late, next) = at("2026-01-01T00:02:00Z");
        assert_eq!((late.current_healthy, late.disrupted_pods.len(), next), (3, 0, None));
    }
}
