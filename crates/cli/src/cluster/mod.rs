//! What the commands that run a cluster, or parts of one, have in common.

pub mod admission;
pub mod apply;
pub mod log;
pub mod observed;
pub mod outcome;
pub mod overview;
pub mod parts;
pub mod runtime;
pub mod settled;
