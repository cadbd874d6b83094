//! The scheduler's task: it owns the parts of the scheduler, and passes work between them.

mod attempt;
mod completions;
mod group_attempt;
mod scheduler;
mod start;
mod watch_events;

pub(crate) use start::start;
