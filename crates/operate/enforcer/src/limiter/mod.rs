//! Limits of evictions.
//!
//! A pure state machine: time is passed in, and its state can be exported and imported, so that a new leader continues
//! with the counts of the one before it. The state is an entry for each eviction of the last window, and the rounds of
//! each workload ([`repeat_guard`]). Its size is limited: evictions that do not fit wait.
//!
//! An eviction is *reserved* before it is sent. The reservation is cancelled only if the eviction was certainly not carried
//! out, and only by the process that made it. Several processes share the limits through the stored state: what one has
//! not stored yet is void as soon as it reads what another stored, and is reserved again with that counted.

mod entry;
mod eviction_limiter;
mod options;
mod repeat_guard;
mod state;
#[cfg(test)]
mod tests;
mod throttled;
mod times;
mod usage;

pub(crate) use entry::{Candidate, GroupMember};
pub(crate) use eviction_limiter::{ClusterStop, EvictionLimiter};
pub use options::{LEAST_CLUSTER_LIMIT, LimitOptions};
pub(crate) use state::LimiterState;
pub(crate) use throttled::{LimitKind, Throttled};
pub use usage::LimitInUse;
