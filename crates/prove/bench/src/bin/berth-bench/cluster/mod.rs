//! Benchmarks of whole clusters, with the API server as a separate process.

pub mod bind;
mod child;
pub mod churn;
pub mod console;
pub mod list;
mod load;
pub mod settle;
pub mod soak;
mod watched;
pub mod webhook;
