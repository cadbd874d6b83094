//! Numbers of pods that may be written as percentages: limits of a rolling update, and of a disruption budget.

use serde_json::Value;

/// Rounding of a fractional pod count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Round {
    /// To the next larger number.
    Up,
    /// To the next smaller number.
    Down,
}

/// A number, or a percentage of `total`. `None` if it is neither.
pub fn scaled(value: &Value, total: i32, round: Round) -> Option<i32> {
    if let Some(number) = value.as_i64() {
        return Some(clamp(number));
    }
    let percent: i64 = value.as_str()?.strip_suffix('%')?.parse().ok()?;
    let scaled = percent.checked_mul(i64::from(total))?;
    Some(clamp(match round {
        Round::Up => scaled.div_euclid(100) + i64::from(scaled.rem_euclid(100) > 0),
        Round::Down => scaled.div_euclid(100),
    }))
}

/// `maxSurge` (rounded up) and `maxUnavailable` (rounded down) of a rolling update, 25 % each when absent. They cannot
/// both be zero: then one pod may be unavailable, otherwise the rollout could not progress.
pub fn fenceposts(max_surge: Option<&Value>, max_unavailable: Option<&Value>, replicas: i32) -> (i32, i32) {
    let quarter = Value::from("25%");
    let resolve = |value: Option<&Value>, round| {
        scaled(value.filter(|v| !v.is_null()).unwrap_or(&quarter), replicas, round).unwrap_or(0).max(0)
    };
    match (resolve(max_surge, Round::Up), resolve(max_unavailable, Round::Down)) {
        (0, 0) => (0, 1),
        both => both,
    }
}

/// The number of pods that a disruption budget expects, and how many of them must be healthy. `n_pods` are there, `wanted` by their
/// controllers.
pub fn desired_healthy(
    min_available: Option<&Value>,
    max_unavailable: Option<&Value>,
    n_pods: i32,
    wanted: i32,
) -> (i32, i32) {
    let part = |value, total| scaled(value, total, Round::Up).unwrap_or(0);
    match (min_available, max_unavailable) {
        (_, Some(max)) => (wanted, wanted.saturating_sub(part(max, wanted)).max(0)),
        (Some(min), None) if min.is_string() => (wanted, part(min, wanted)),
        (Some(min), None) => (n_pods, part(min, 0)),
        // Neither field is set: one pod must stay.
        (None, None) => (n_pods, 1),
    }
}

/// Whether the Eviction API evicts a pod that is not ready whatever number of disruptions its budget allows: with the policy `AlwaysAllow`, or
/// if the budget is met without it (`IfHealthyBudget`). A budget that wants no healthy pod is not met.
pub fn evicts_unready(unhealthy_pod_eviction_policy: &str, n_healthy: i64, desired_healthy: i64) -> bool {
    unhealthy_pod_eviction_policy == "AlwaysAllow" || (n_healthy >= desired_healthy && desired_healthy > 0)
}

/// A number limited to the API's range of pod counts.
pub fn clamp(number: i64) -> i32 {
    i32::try_from(number).unwrap_or(if number < 0 { i32::MIN } else { i32::MAX })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn surge_rounds_up_and_unavailable_rounds_down() {
        for (surge, unavailable, replicas, expected) in [
            (json!(null), json!(null), 10, (3, 2)),
            (json!("25%"), json!("25%"), 3, (1, 0)),
            (json!(0), json!("10%"), 5, (0, 1)),
            (json!("0%"), json!("0%"), 5, (0, 1)),
            (json!(2), json!(0), 5, (2, 0)),
            (json!("100%"), json!("100%"), 7, (7, 7)),
            (json!("x"), json!(-3), 7, (0, 1)),
        ] {
            assert_eq!(
                fenceposts(Some(&surge), Some(&unavailable), replicas),
                expected,
                "{surge} {unavailable}"
            );
        }
        assert_eq!(fenceposts(None, None, i32::MAX), (536_870_912, 536_870_911));
    }
}
