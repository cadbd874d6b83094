//! The pods that wait for a node: their place in the queue, and what is written and reported of them.

mod failure;
mod failure_events;
mod pending_pods;
mod preemptions;
mod queued_pods;
mod status_writer;

pub(crate) use failure::{GroupFailure, GroupKey};
pub(crate) use failure_events::FailureEvents;
pub(crate) use pending_pods::PendingPods;
pub(crate) use preemptions::Preemptions;
pub(crate) use queued_pods::{InFlightBinding, QueuedPod, QueuedPods};
pub(crate) use status_writer::StatusWriter;
