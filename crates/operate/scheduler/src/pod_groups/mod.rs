//! Pod groups: their members, and the one entry that each group has in the queue.
//!
//! Members are not in the queue themselves. The entry of a group is active when the required members exist, those with a
//! node counted. It is gated before.

mod attempt;
mod groups;
mod members;
mod objects;
mod preemption;
mod reservations;
mod room;

pub(crate) use attempt::GroupAttempt;
pub(crate) use groups::PodGroups;
