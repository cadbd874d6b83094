//! One step of a rolling update.

use super::replica_sets::{Bounds, Sized, total_available, total_replicas};
use berth_api::fenceposts::clamp;

/// The size of the new ReplicaSet: the surge limits the total with the old ones. `current` is its size now, zero
/// before it exists.
pub(super) fn new_size(wanted: i32, bounds: Bounds, rolling: bool, current: i32, old: &[Sized]) -> i32 {
    if current > wanted || !rolling {
        return wanted;
    }
    let all = i64::from(total_replicas(old)) + i64::from(current);
    let room = i64::from(wanted) + i64::from(bounds.max_surge) - all;
    if room <= 0 {
        return current;
    }
    clamp(i64::from(current) + room.min(i64::from(wanted) - i64::from(current)))
}

/// Scales the old ReplicaSets down while enough pods stay available: first the unavailable pods, then the others,
/// oldest ReplicaSet first. Returns whether a size changed.
pub(super) fn scale_down_old(wanted: i32, bounds: Bounds, new: &Sized, old: &mut [Sized]) -> bool {
    let n_old = total_replicas(&*old);
    if n_old == 0 {
        return false;
    }
    let min_available = i64::from(wanted) - i64::from(bounds.max_unavailable);
    let new_unavailable = i64::from(new.replicas) - i64::from(new.object.status.available_replicas);
    let spare = i64::from(n_old) + i64::from(new.replicas) - min_available - new_unavailable;
    if spare <= 0 {
        return false;
    }
    let unhealthy = |set: &Sized| set.replicas - set.object.status.available_replicas;
    let by_unhealthy = take(old, spare, unhealthy);
    let available = i64::from(total_available(&*old)) + i64::from(new.object.status.available_replicas);
    // The status may still count terminating pods: the sizes limit the result as well.
    let by_others = take(old, (available - min_available).min(spare - by_unhealthy), |set| set.replicas);
    by_unhealthy + by_others > 0
}

/// Removes up to `spare` pods; `from` limits the number per ReplicaSet.
fn take(old: &mut [Sized], spare: i64, from: impl Fn(&Sized) -> i32) -> i64 {
    let mut left = spare.max(0);
    for set in old {
        let n = left.min(i64::from(from(set).clamp(0, set.replicas)));
        set.replicas = clamp(i64::from(set.replicas) - n);
        left -= n;
    }
    spare.max(0) - left
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use serde_json::json;

    use super::*;

    fn set(replicas: i32, available: i32) -> Sized {
        let set = json!({"spec": {"replicas": replicas}, "status": {"availableReplicas": available}});
        Sized::new(Arc::new(serde_json::from_value(set).unwrap()))
    }

    #[test]
    fn new_replica_set_grows_within_the_surge() {
        for (wanted, surge, current, old, size) in [
            (10, 3, 0, vec![10], 3),
            (10, 3, 3, vec![10], 3),
            (10, 3, 3, vec![8], 5),
            (10, 3, 9, vec![1], 10),
            (10, 0, 0, vec![10], 0),
            (10, 0, 0, vec![8], 2),
            (5, 2, 8, vec![], 5),
            (5, 100, 0, vec![5], 5),
        ] {
            let bounds = Bounds { max_surge: surge, max_unavailable: 0 };
            let old: Vec<_> = old.into_iter().map(|n| set(n, n)).collect();
            assert_eq!(new_size(wanted, bounds, true, current, &old), size, "{wanted} {surge} {current}");
        }
        assert_eq!(new_size(10, Bounds { max_surge: 0, max_unavailable: 0 }, false, 0, &[set(4, 4)]), 10);
    }

    #[test]
    fn old_replica_sets_shrink_while_enough_pods_are_available() {
        // wanted, maxUnavailable, new (replicas, available), old (replicas, available), old sizes after
        for (wanted, unavailable, new, old, sizes) in [
            (10, 2, (3, 0), vec![(10, 10)], vec![8]),
            (10, 0, (3, 0), vec![(10, 10)], vec![10]),
            (10, 0, (3, 3), vec![(10, 10)], vec![7]),
            (10, 2, (5, 3), vec![(8, 8)], vec![5]),
            // Unavailable pods are removed first, from any ReplicaSet.
            (10, 2, (0, 0), vec![(8, 8), (4, 0)], vec![8, 0]),
            (10, 2, (0, 0), vec![(5, 5), (5, 5)], vec![3, 5]),
            (10, 10, (10, 0), vec![(10, 10)], vec![0]),
            // Scaled down already, but the status does not show it yet.
            (4, 1, (2, 1), vec![(3, 4)], vec![2]),
            (1, 0, (1, 0), vec![(1, 1)], vec![1]),
            (1, 0, (1, 1), vec![(1, 1)], vec![0]),
        ] {
            let mut old: Vec<_> = old.into_iter().map(|(n, available)| set(n, available)).collect();
            let bounds = Bounds { max_surge: 0, max_unavailable: unavailable };
            let before = total_replicas(&old);
            let changed = scale_down_old(wanted, bounds, &set(new.0, new.1), &mut old);
            let after: Vec<_> = old.iter().map(|set| set.replicas).collect();
            assert_eq!(after, sizes, "{wanted} {unavailable} {new:?}");
            assert_eq!(changed, total_replicas(&old) != before);
        }
    }
}
