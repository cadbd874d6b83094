//! What the commands that run a cluster, or parts of one, have in common.

pub mod log;
pub mod parts;
pub mod runtime;
