//! What commands that run a cluster or its components share.

pub mod admission;
pub mod apply;
pub mod components;
pub mod log;
pub mod observed;
pub mod outcome;
pub mod overview;
pub mod rejections;
pub mod settled;
pub mod status_line;
pub mod workload;
