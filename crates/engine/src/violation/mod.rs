//! Violations: required rules of running pods that do not hold where they run now.
//!
//! Kubernetes asks such rules once, when a pod is placed; the proposals' required-during-execution rules go on
//! until the pod ends. [`Cluster::audit`] asks all of them once. [`Cluster::watch_violations`] follows those
//! required during execution at a cost that follows what changes. [`Cluster::remedy`] finds out who would have to
//! go so that they hold again, and where to. Nothing here waits, counts or evicts.
//!
//! What is judged:
//!
//! - Pods that are assigned to a node that exists and have not ended. A pod that is being deleted is not judged,
//!   it is on its way out; but until it has gone it counts for others, as company and as conflict: so it does for
//!   the scheduler.
//! - The pod that is judged is taken out in thought: its own labels count neither for it nor against it.
//! - Required affinity asks what the scheduler asked: another pod in the node's domain that matches *all* required
//!   terms of the pod. Of terms required during execution it must match all that are, and no others: what is ignored
//!   during execution evicts nobody. A pod that matches its own terms, with no
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
    Remedies, Remedy, RemedyOptions, Stays, Target, Victim, ViolatedRule, Violation, ViolationChanges,
    ViolationKey,
};
