//! Rebalancing: plans of moves, carried out one at a time.
//!
//! A plan is made at intervals and after changes of nodes, and its steps are made in order: before each, the rest of the plan is
//! checked in the cluster as it is now ([`planning`]); the limits allow the eviction and the ledger counts it; the pod is marked, and the
//! step checked again when the watch has the mark, and so all pods as they were then; the pod is evicted; and the next step waits until
//! the replacement is ready on its target ([`step`]). Whatever does not go as planned ends the plan, and
//! another one is made of what is there.

mod groups;
mod objects;
mod planning;
mod progress;
mod status_writer;
mod step;

pub(crate) use objects::{Exceptions, Objects, is_ready};
pub(crate) use planning::{Answer, Question};
pub(crate) use progress::{Progress, StepResult};
pub(crate) use status_writer::{DESCRIPTION, StatusWriter};
pub use status_writer::{STATUS_KEY, STATUS_NAME};
pub(crate) use step::{Replacement, Step};
