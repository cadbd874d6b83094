//! The order in which a ReplicaSet deletes pods when it has too many.

use std::cmp::{Ordering, Reverse};

use jiff::Timestamp;

/// The annotation with the deletion cost of a pod.
pub const DELETION_COST: &str = "controller.kubernetes.io/pod-deletion-cost";

/// What the order depends on.
#[derive(Clone, Copy, Debug)]
pub struct Replica<'a> {
    /// `metadata.name`.
    pub name: &'a str,
    /// `metadata.uid`.
    pub uid: &'a str,
    /// `metadata.creationTimestamp`.
    pub created: Option<Timestamp>,
    /// The annotation [`DELETION_COST`].
    pub deletion_cost: Option<&'a str>,
    /// Whether it has a node.
    pub is_assigned: bool,
    /// `status.phase`.
    pub phase: &'a str,
    /// Whether it is ready.
    pub is_ready: bool,
    /// When it became ready.
    pub ready_since: Option<Timestamp>,
    /// Restarts of its containers.
    pub restarts: i64,
    /// Pods of the same Deployment on its node.
    pub n_beside: usize,
}

impl Replica<'_> {
    /// The order of kube-controller-manager: unassigned before assigned, pending before running, not ready before ready,
    /// lower deletion cost first, from nodes with more pods of the same Deployment first, ready for a shorter time first,
    /// more restarts first, younger first. Times are compared by their order of magnitude, so a difference of seconds
    /// between old pods is ignored. Uid and name break ties.
    pub fn deletion_order(&self, other: &Replica<'_>, now: Timestamp) -> Ordering {
        self.usefulness()
            .cmp(&other.usefulness())
            .then_with(|| younger_first(self.ready_since, other.ready_since, now))
            .then_with(|| Reverse(self.restarts).cmp(&Reverse(other.restarts)))
            .then_with(|| younger_first(self.created, other.created, now))
            .then_with(|| self.uid.cmp(other.uid))
            .then_with(|| self.name.cmp(other.name))
    }

    fn usefulness(&self) -> (bool, u8, bool, i32, Reverse<usize>) {
        let phase = match self.phase {
            "Running" => 2,
            "Unknown" => 1,
            _ => 0,
        };
        // An invalid cost counts as 0.
        let cost = self.deletion_cost.filter(|cost| !cost.starts_with('+'));
        let cost = cost.and_then(|cost| cost.parse().ok()).unwrap_or(0);
        (self.is_assigned, phase, self.is_ready, cost, Reverse(self.n_beside))
    }
}

/// By the order of magnitude of the age in nanoseconds. An unknown time counts as the youngest.
fn younger_first(a: Option<Timestamp>, b: Option<Timestamp>, now: Timestamp) -> Ordering {
    let magnitude = |time: Option<Timestamp>| {
        let age = now.duration_since(time?).as_nanos();
        Some(u128::try_from(age).unwrap_or(0).max(1).ilog2())
    };
    magnitude(a).cmp(&magnitude(b))
}
