//! The sizes of the ReplicaSets of a Deployment: rollouts, and scaling in proportion.

use std::cmp::Reverse;

use berth_api::fenceposts::clamp;

use crate::bounds::Bounds;

/// What the sizes depend on, beside the ReplicaSets.
#[derive(Clone, Copy, Debug)]
pub struct Spec {
    /// `spec.replicas`, not negative.
    pub replicas: i32,
    /// The limits of a rolling update; none with the strategy `Recreate`.
    pub rolling: Option<Bounds>,
    pub is_paused: bool,
    /// `status.replicas`, for ReplicaSets that do not say how many pods there were.
    pub status_replicas: i32,
}

impl Spec {
    fn bounds(&self) -> Bounds {
        self.rolling.unwrap_or(Bounds { max_surge: 0, max_unavailable: 0 })
    }

    /// The number of pods at most: what proportional scaling starts from the next time.
    pub fn max_replicas(&self) -> i32 {
        self.replicas.saturating_add(self.bounds().max_surge)
    }
}

/// A ReplicaSet of a Deployment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SetSize {
    pub replicas: i32,
    /// How many of its pods are available.
    pub available: i32,
    /// `spec.replicas` of the Deployment when it was scaled the last time.
    pub desired: Option<i32>,
    /// [`Spec::max_replicas`] of that time.
    pub max_replicas: Option<i32>,
    /// Its position among all by age, oldest first.
    pub age: usize,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plan {
    /// Whether the Deployment is scaled, or paused: nothing is rolled out.
    pub is_scaling: bool,
    /// The ReplicaSet of the current template, to be created where there is none.
    pub new: Option<i32>,
    /// The others, as they were given.
    pub old: Vec<i32>,
    /// Whether a size changes, or the creation of new pods waits for the end of old ones.
    pub goes_on: bool,
}

/// The next sizes of the ReplicaSets. `old` are those of other templates, oldest first; `has_old_pods`: whether pods of these have not
/// ended, those included that are being deleted.
pub fn plan(spec: &Spec, new: Option<SetSize>, old: &[SetSize], has_old_pods: impl FnOnce() -> bool) -> Plan {
    let (mut sized_new, mut sized_old) = (new, old.to_vec());
    // The Deployment was scaled after the ReplicaSets.
    let is_outdated = |set: &SetSize| set.replicas > 0 && set.desired.is_some_and(|n| n != spec.replicas);
    let is_scaling = spec.is_paused || new.iter().chain(old).any(is_outdated);
    let mut waits = false;
    if is_scaling {
        scale(spec, &mut sized_new, &mut sized_old);
    } else if spec.rolling.is_some() {
        roll(spec, &mut sized_new, &mut sized_old);
    } else {
        sized_old.iter_mut().for_each(|set| set.replicas = 0);
        // All old pods must be gone, not only terminating.
        waits = total(|set| set.replicas, old) > 0 || has_old_pods();
        if !waits {
            sized_new.get_or_insert_default().replicas = spec.replicas;
        }
    }
    let goes_on = waits || sized_new != new || sized_old != old;
    let (new, old) = (sized_new.map(|set| set.replicas), sized_old.iter().map(|set| set.replicas).collect());
    Plan { is_scaling, new, old, goes_on }
}

/// Grows the new ReplicaSet, or else shrinks the old ones.
fn roll(spec: &Spec, new: &mut Option<SetSize>, old: &mut [SetSize]) {
    let (current, bounds) = (new.unwrap_or_default(), spec.bounds());
    let size = new_size(spec.replicas, bounds, current.replicas, old);
    if new.is_none() || size != current.replicas {
        *new = Some(SetSize { replicas: size, ..current });
    } else {
        scale_down_old(spec.replicas, bounds, current, old);
    }
}

/// Distributes the replicas over the ReplicaSets.
///
/// A single active ReplicaSet gets all. When the new one is complete, the old ones shrink to 0. Otherwise each active
/// one changes by its share, and the largest takes the rounding remainder.
fn scale(spec: &Spec, new: &mut Option<SetSize>, old: &mut [SetSize]) {
    let wanted = spec.replicas;
    if let Some(only) = active_or_latest(new, old) {
        only.replicas = wanted;
        return;
    }
    let is_saturated =
        |new: SetSize| new.replicas == wanted && new.desired == Some(wanted) && new.available == wanted;
    if new.is_some_and(is_saturated) {
        old.iter_mut().for_each(|set| set.replicas = 0);
        return;
    }
    if spec.rolling.is_none() {
        return;
    }
    let mut active: Vec<&mut SetSize> = new.iter_mut().chain(old).filter(|set| set.replicas > 0).collect();
    let allowed = if wanted > 0 { i64::from(spec.max_replicas()) } else { 0 };
    let to_add = allowed - active.iter().map(|set| i64::from(set.replicas)).sum::<i64>();
    // The largest first; among equals, the newest grow first and the oldest shrink first.
    active.sort_by(|a, b| {
        let by_age = a.age.cmp(&b.age);
        Reverse(a.replicas).cmp(&Reverse(b.replicas)).then(if to_add > 0 { by_age.reverse() } else { by_age })
    });
    let mut added = 0;
    for set in &mut active {
        let share = share(spec, set, to_add - added, to_add);
        set.replicas = clamp(i64::from(set.replicas) + share);
        added += share;
    }
    if let Some(largest) = active.first_mut() {
        largest.replicas = clamp((i64::from(largest.replicas) + to_add - added).max(0));
    }
}

fn active_or_latest<'a>(new: &'a mut Option<SetSize>, old: &'a mut [SetSize]) -> Option<&'a mut SetSize> {
    match new.iter().chain(&*old).filter(|set| set.replicas > 0).count() {
        0 if new.is_some() => new.as_mut(),
        0 => old.last_mut(),
        1 => new.iter_mut().chain(old).find(|set| set.replicas > 0),
        _ => None,
    }
}

/// The share of one ReplicaSet in `left`; negative when it shrinks.
fn share(spec: &Spec, set: &SetSize, left: i64, to_add: i64) -> i64 {
    if left == 0 || to_add == 0 {
        return 0;
    }
    let fraction = if spec.replicas == 0 {
        -i64::from(set.replicas)
    } else {
        let max = i64::from(spec.max_replicas());
        let before = set.max_replicas.unwrap_or(spec.status_replicas);
        let before = if before > 0 { i64::from(before) } else { max };
        let scaled = i128::from(set.replicas) * i128::from(max);
        // Rounds to the nearest, halves up; all numbers are positive here.
        let new_size = (2 * scaled + i128::from(before)) / (2 * i128::from(before));
        i64::try_from(new_size).unwrap_or(i64::MAX) - i64::from(set.replicas)
    };
    if to_add > 0 { fraction.min(left) } else { fraction.max(left) }
}

fn total(of: fn(&SetSize) -> i32, sets: &[SetSize]) -> i64 {
    sets.iter().map(|set| i64::from(of(set))).sum()
}

/// The size of the new ReplicaSet: the surge limits the total with the old ones. `current` is its size now, zero
/// before it exists.
fn new_size(wanted: i32, bounds: Bounds, current: i32, old: &[SetSize]) -> i32 {
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
/// oldest ReplicaSet first.
fn scale_down_old(wanted: i32, bounds: Bounds, new: SetSize, old: &mut [SetSize]) {
    let n_old = total(|set| set.replicas, old);
    let min_available = i64::from(wanted) - i64::from(bounds.max_unavailable);
    let new_unavailable = i64::from(new.replicas) - i64::from(new.available);
    let spare = n_old + i64::from(new.replicas) - min_available - new_unavailable;
    if n_old == 0 || spare <= 0 {
        return;
    }
    let by_unhealthy = take(old, spare, |set| set.replicas - set.available);
    let available = total(|set| set.available, old) + i64::from(new.available);
    // The status may still count terminating pods: the sizes limit the result as well.
    take(old, (available - min_available).min(spare - by_unhealthy), |set| set.replicas);
}

/// Removes up to `spare` pods; `from` limits the number per ReplicaSet. Returns the number of removed ones.
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
        SetSize { replicas, available, ..SetSize::default() }
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
            scale_down_old(wanted, bounds, set(new), &mut old);
            let after: Vec<_> = old.iter().map(|set| set.replicas).collect();
            assert_eq!(after, sizes, "{wanted} {unavailable} {new:?}");
        }
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
            let bounds = Bounds { max_surge: surge, max_unavailable: 1 };
            let spec = Spec { replicas: wanted, rolling: Some(bounds), is_paused: true, status_replicas: 0 };
            // The new one is the youngest.
            let set = |(i, replicas)| SetSize {
                replicas,
                max_replicas: Some(max_before),
                age: [3, 0, 1][i],
                ..SetSize::default()
            };
            let mut sets = before.iter().copied().enumerate().map(set);
            let (new, old) = (sets.next(), sets.collect::<Vec<_>>());
            let planned = plan(&spec, new, &old, || false);
            let sizes: Vec<_> = planned.new.into_iter().chain(planned.old).collect();
            assert_eq!(sizes, after, "{wanted} with surge {surge} from {before:?}");
        }
    }
}
