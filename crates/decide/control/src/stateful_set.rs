//! The next steps for the pods of a StatefulSet.

use std::collections::BTreeMap;
use std::ops::Range;

use berth_api::fenceposts::{Round, scaled};
use serde_json::Value;

/// What the steps depend on, beside the pods.
#[derive(Clone, Debug)]
pub struct Spec {
    /// The wanted ordinals; a set may want billions.
    pub ordinals: Range<i64>,
    /// Whether `podManagementPolicy` is `Parallel`.
    pub is_parallel: bool,
    /// Whether `updateStrategy.type` is `OnDelete`.
    pub is_on_delete: bool,
    /// `updateStrategy.rollingUpdate.partition`.
    pub partition: i32,
    /// See [`max_unavailable`].
    pub max_unavailable: i32,
    /// Whether the template differs from that of the current revision.
    pub has_update: bool,
    /// Number of pods that are created at most before anything else.
    pub burst: usize,
}

/// `updateStrategy.rollingUpdate.maxUnavailable`, at least 1.
pub fn max_unavailable(value: Option<&Value>, replicas: i32) -> i32 {
    value.and_then(|value| scaled(value, replicas, Round::Down)).unwrap_or(1).max(1)
}

#[derive(Clone, Copy, Debug, Default)]
pub struct Member {
    /// Whether it has the template of the update.
    pub is_updated: bool,
    /// Whether it is ready for long enough, and not being deleted.
    pub is_available: bool,
    pub is_terminal: bool,
    pub is_deleting: bool,
    /// Whether it has the labels of its identity.
    pub is_identified: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// Create the pod of an ordinal.
    Create {
        ordinal: i64,
        /// Whether it gets the template of the update, or that of the current revision.
        is_updated: bool,
    },
    /// Delete the pod of an ordinal.
    Delete(i64),
    /// Restore the identity labels of the pod of an ordinal.
    Label(i64),
}

/// The next steps: one at a time in the order of the ordinals, unless the policy is `Parallel`. The pods are given by ordinal.
pub fn steps(spec: &Spec, members: &BTreeMap<i64, Member>) -> Vec<Step> {
    let mut steps = Vec::new();
    let ordered = !spec.is_parallel;
    let mut n_created = 0;
    let mut present = members.range(spec.ordinals.clone()).peekable();
    for ordinal in spec.ordinals.clone() {
        let waits = match present.next_if(|(at, _)| **at == ordinal).map(|(_, pod)| pod) {
            None if n_created == spec.burst => return steps,
            None => {
                n_created += 1;
                steps.push(Step::Create { ordinal, is_updated: creates_updated(spec, ordinal) });
                true
            }
            // Deleted first; the next steps create it again.
            Some(pod) if pod.is_terminal => {
                steps.extend((!pod.is_deleting).then_some(Step::Delete(ordinal)));
                true
            }
            Some(pod) => {
                if !pod.is_identified && !pod.is_deleting {
                    steps.push(Step::Label(ordinal));
                }
                !pod.is_available
            }
        };
        if waits && ordered {
            return steps;
        }
    }
    let condemned = || members.range(..spec.ordinals.start).chain(members.range(spec.ordinals.end..));
    // In order, a pod that is not available waits for each lower one that is not either, for ever if need be.
    let first_unavailable = condemned().find(|(_, pod)| !pod.is_available).map(|(ordinal, _)| ordinal);
    for (ordinal, pod) in condemned().rev() {
        if ordered && !pod.is_available && Some(ordinal) != first_unavailable {
            return steps;
        }
        steps.extend((!pod.is_deleting).then_some(Step::Delete(*ordinal)));
        if ordered {
            return steps;
        }
    }
    if !spec.is_on_delete {
        update(spec, members, &mut steps);
    }
    steps
}

/// Replaces pods of other revisions from the highest ordinal down to the partition: all that are not available, which only `Parallel` has
/// here, then as many as may be unavailable besides those that are. Kubernetes 1.37: `MaxUnavailableStatefulSet` is on.
fn update(spec: &Spec, members: &BTreeMap<i64, Member>, steps: &mut Vec<Step>) {
    let Range { start, end } = spec.ordinals;
    let n_available = members.range(start..end).filter(|(_, pod)| pod.is_available).count();
    let n_unavailable = usize::try_from(end - start).unwrap_or(usize::MAX).saturating_sub(n_available);
    let left = usize::try_from(spec.max_unavailable).unwrap_or(0).saturating_sub(n_unavailable);
    let partition = (start + i64::from(spec.partition.max(0))).min(end);
    let is_old = |pod: &Member| !pod.is_updated && !pod.is_deleting && !pod.is_terminal;
    let old = || members.range(partition..end).rev().filter(|(_, pod)| is_old(pod));
    let unavailable = old().filter(|(_, pod)| !pod.is_available);
    let available = old().filter(|(_, pod)| pod.is_available).take(left);
    steps.extend(unavailable.chain(available).map(|(ordinal, _)| Step::Delete(*ordinal)));
}

/// Pods below the partition are recreated from the current revision.
fn creates_updated(spec: &Spec, ordinal: i64) -> bool {
    let is_below = ordinal - spec.ordinals.start < i64::from(spec.partition);
    !(spec.has_update && !spec.is_on_delete && is_below)
}
