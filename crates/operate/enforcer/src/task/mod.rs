//! The enforcer's task: it owns the parts of the enforcer, and passes work between them.

mod begun_groups;
mod completions;
mod enforcer;
mod rebalance;
mod rebalancer;
mod start;
mod victims;
mod watch_events;

pub(crate) use start::start;
