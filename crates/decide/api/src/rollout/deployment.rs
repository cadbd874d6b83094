//! One step of the rolling update of a Deployment.

use super::Bounds;
use crate::fenceposts::clamp;

/// A ReplicaSet of a Deployment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SetSize {
    /// Its planned number of pods.
    pub replicas: i32,
    /// How many of its pods are available.
    pub available: i32,
}

fn total(of: fn(&SetSize) -> i32, sets: &[SetSize]) -> i64 {
    sets.iter().map(|set| i64::from(of(set))).sum()
}

/// The size of the new ReplicaSet: the surge limits the total with the old ones. `current` is its size now, zero
/// before it exists.
pub fn new_size(wanted: i32, bounds: Bounds, current: i32, old: &[SetSize]) -> i32 {
    if current > wanted {
        return wanted;
    }
    let all = total(|set| set.replicas, old) + i64::from(current);
    let room = i64::from(wanted) + i64::from(bounds.max_surge) - all;
    if room <= 0 {
        return current;
    }
    clamp(i64::from(current) + room.min(i64::from(wanted) - i64::from(current)))
}

/// Scales the old ReplicaSets down while enough pods stay available: first the unavailable pods, then the others,
/// oldest ReplicaSet first. Returns whether a size changed.
pub fn scale_down_old(wanted: i32, bounds: Bounds, new: SetSize, old: &mut [SetSize]) -> bool {
    let n_old = total(|set| set.replicas, old);
    if n_old == 0 {
        return false;
    }
    let min_available = i64::from(wanted) - i64::from(bounds.max_unavailable);
    let new_unavailable = i64::from(new.replicas) - i64::from(new.available);
    let spare = n_old + i64::from(new.replicas) - min_available - new_unavailable;
    if spare <= 0 {
        return false;
    }
    let by_unhealthy = take(old, spare, |set| set.replicas - set.available);
    let available = total(|set| set.available, old) + i64::from(new.available);
    // The status may still count terminating pods: the sizes limit the result as well.
    let by_others = take(old, (available - min_available).min(spare - by_unhealthy), |set| set.replicas);
    by_unhealthy + by_others > 0
}

/// Removes up to `spare` pods; `from` limits the number per ReplicaSet.
fn take(old: &mut [SetSize], spare: i64, from: impl Fn(&SetSize) -> i32) -> i64 {
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
    use super::*;

    fn set((replicas, available): (i32, i32)) -> SetSize {
        SetSize { replicas, available }
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
            let old: Vec<_> = old.into_iter().map(|n| set((n, n))).collect();
            assert_eq!(new_size(wanted, bounds, current, &old), size, "{wanted} {surge} {current}");
        }
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
            let mut old: Vec<_> = old.into_iter().map(set).collect();
            let bounds = Bounds { max_surge: 0, max_unavailable: unavailable };
            let before = old.clone();
            let changed = scale_down_old(wanted, bounds, set(new), &mut old);
            let after: Vec<_> = old.iter().map(|set| set.replicas).collect();
            assert_eq!(after, sizes, "{wanted} {unavailable} {new:?}");
            assert_eq!(changed, old != before);
        }
    }
}
