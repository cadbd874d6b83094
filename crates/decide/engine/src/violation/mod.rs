//! Violations: required rules of running pods that do not hold where they run now.
//!
//! Kubernetes evaluates such rules once, when a pod is placed. The proposals' required-during-execution rules apply
//! until the pod ends. [`audit`] evaluates all of them once. [`tracker`] tracks those required during execution at a cost
//! that follows what changes. [`remedy`] selects the pods to evict so that they hold again, and their targets. Nothing here
//! waits, counts or evicts.
//!
//! What is evaluated:
//!
//! - Pods that are assigned to a known node and have not ended. A pod that is being deleted is not evaluated, but until it
//!   is deleted it counts for the rules of others, as it does for the scheduler.
//! - The evaluated pod itself is left out: its own labels count neither for it nor against it.
//! - Required affinity as in scheduling: another pod in the node's domain that matches *all* required
//!   terms of the pod. For terms required during execution it must match all of those, and no others: what is ignored
//!   during execution evicts no pod. A pod that matches its own terms, with no
//!   other such pod in the cluster, is the first of its group and its rule holds. On a node without the topology
//!   key required affinity is broken, and anti-affinity holds.
//! - Exempt namespaces and "all topologies" mean what they mean in scheduling.

mod audit;
mod remedy;

mod rule;
pub(crate) mod tracker;
mod types;

pub(crate) use audit::{audit, violations};
pub(crate) use remedy::remedy;
pub use types::{
    Remedies, Remedy, RemedyOptions, Stays, Target, Victim, Violation, ViolationChanges, ViolationKey,
};
