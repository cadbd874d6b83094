//! Decision tests: a cluster in a few lines, a policy, a request, and the expected answer.

#![allow(clippy::unwrap_used)]

mod bindings;
mod budgets;
mod daemons;
mod documented;
mod nodes;
mod pods;
mod policies;
mod world;
