//! The scheduling queue: which pending pod is decided next, and which pods are not worth a decision now.
//!
//! A pod is *active* (to be decided), in *backoff* (it failed, and its back-off is not over), *unschedulable* (no node fits,
//! and nothing has happened that could change that), *gated*, or *in flight* (being decided or bound). Unschedulable pods
//! that no rule can tell apart form a group with one failure: when a change could help, one pod of the group is decided,
//! and the next one only after that one was placed. So ten thousand pods that wait for the same thing cost one look at
//! each change, one decision for each node found, and one more.
//!
//! It does not use the cluster or a clock: time is passed in.

mod group;
mod rank;
mod scheduling_queue;
#[cfg(test)]
mod tests;
mod unschedulable;

pub(crate) use rank::PodId;
pub use scheduling_queue::QueueCounts;
pub(crate) use scheduling_queue::{Queue, QueueOptions};
