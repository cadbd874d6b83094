//! Proportional scaling of a Deployment during a rollout or while it is paused.

use std::cmp::Reverse;

use super::replica_sets::{Sized, age, bounds, total_replicas};
use super::revision::max_replicas_annotation;
use crate::view::Deployment;
use berth_api::fenceposts::clamp;
use berth_api::rollout::Bounds;

/// Distributes the Deployment's replicas over its ReplicaSets.
///
/// A single active ReplicaSet gets all. When the new one is complete, the old ones shrink to 0. Otherwise each active
/// one changes by its share, and the largest takes the rounding remainder.
pub(super) fn scale(deployment: &Deployment, new: &mut Option<Sized>, old: &mut [Sized]) {
    let wanted = deployment.replicas();
    if let Some(only) = active_or_latest(new, old) {
        only.replicas = wanted;
        return;
    }
    if new.as_ref().is_some_and(|new| is_saturated(deployment, new)) {
        for set in old {
            set.replicas = 0;
        }
        return;
    }
    if !deployment.is_rolling() {
        return;
    }
    let bounds = bounds(deployment);
    let mut active: Vec<&mut Sized> = new.iter_mut().chain(old).filter(|set| set.replicas > 0).collect();
    let allowed = if wanted > 0 { i64::from(wanted) + i64::from(bounds.max_surge) } else { 0 };
    let to_add = allowed - i64::from(total_replicas(active.iter().map(|set| &**set)));
    // The largest first; among equals, the newest grow first and the oldest shrink first.
    active.sort_by(|a, b| {
        let by_age = age(&a.object).cmp(&age(&b.object));
        Reverse(a.replicas).cmp(&Reverse(b.replicas)).then(if to_add > 0 { by_age.reverse() } else { by_age })
    });
    let mut added = 0;
    for set in &mut active {
        let share = share(deployment, bounds, set, to_add - added, to_add);
        set.replicas = clamp(i64::from(set.replicas) + share);
        added += share;
    }
    if let Some(largest) = active.first_mut() {
        largest.replicas = clamp((i64::from(largest.replicas) + to_add - added).max(0));
    }
}

fn active_or_latest<'a>(new: &'a mut Option<Sized>, old: &'a mut [Sized]) -> Option<&'a mut Sized> {
    match new.iter().chain(&*old).filter(|set| set.replicas > 0).count() {
        0 if new.is_some() => new.as_mut(),
        0 => old.last_mut(),
        1 => new.iter_mut().chain(old).find(|set| set.replicas > 0),
        _ => None,
    }
}

fn is_saturated(deployment: &Deployment, new: &Sized) -> bool {
    let wanted = deployment.replicas();
    let annotated = super::revision::desired_replicas_annotation(&new.object);
    new.replicas == wanted && annotated == Some(wanted) && new.object.status.available_replicas == wanted
}

/// The share of one ReplicaSet in `left`; negative when it shrinks.
fn share(deployment: &Deployment, bounds: Bounds, set: &Sized, left: i64, to_add: i64) -> i64 {
    if set.replicas == 0 || left == 0 || to_add == 0 {
        return 0;
    }
    let fraction = if deployment.replicas() == 0 {
        -i64::from(set.replicas)
    } else {
        let max = i64::from(deployment.replicas()) + i64::from(bounds.max_surge);
        let before = max_replicas_annotation(&set.object).unwrap_or(deployment.status.replicas);
        let before = if before > 0 { i64::from(before) } else { max };
        let scaled = i128::from(set.replicas) * i128::from(max);
        // Rounds to the nearest, halves up; all numbers are positive here.
        let new_size = (2 * scaled + i128::from(before)) / (2 * i128::from(before));
        i64::try_from(new_size).unwrap_or(i64::MAX) - i64::from(set.replicas)
    };
    if to_add > 0 { fraction.min(left) } else { fraction.max(left) }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use serde_json::json;

    use super::*;

    fn set(name: &str, replicas: i32, max: i32) -> Sized {
        let set = json!({
            "metadata": {"name": name, "creationTimestamp": format!("2026-01-0{}T00:00:00Z", name.len()),
                "annotations": {"deployment.kubernetes.io/max-replicas": max.to_string()}},
            "spec": {"replicas": replicas},
        });
        Sized::new(Arc::new(serde_json::from_value(set).unwrap()))
    }

    #[test]
    fn replica_sets_scale_in_proportion() {
        // wanted, maxSurge, previous maximum, sizes (new, old...) before and after
        for (wanted, surge, max_before, before, after) in [
            (20, 0, 10, vec![5, 5], vec![10, 10]),
            (5, 0, 10, vec![5, 5], vec![3, 2]),
            (15, 3, 13, vec![8, 5], vec![11, 7]),
            (0, 3, 13, vec![8, 5], vec![0, 0]),
            (12, 2, 12, vec![0, 10], vec![0, 12]),
            (7, 0, 0, vec![0], vec![7]),
            (10, 0, 3, vec![1, 1, 1], vec![4, 3, 3]),
        ] {
            let deployment: Deployment = serde_json::from_value(json!({
                "spec": {"replicas": wanted, "strategy": {"rollingUpdate": {"maxSurge": surge, "maxUnavailable": 1}}},
            }))
            .unwrap();
            // The new one is the youngest.
            let names = ["xxxx", "x", "xx"];
            let mut sets = before.iter().zip(names).map(|(&n, name)| set(name, n, max_before));
            let (mut new, mut old) = (sets.next(), sets.collect::<Vec<_>>());
            scale(&deployment, &mut new, &mut old);
            let sizes: Vec<_> = new.iter().chain(&old).map(|set| set.replicas).collect();
            assert_eq!(sizes, after, "{wanted} with surge {surge} from {before:?}");
        }
    }
}
