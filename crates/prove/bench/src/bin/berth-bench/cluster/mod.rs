//! Benchmarks of whole clusters, with the API server as a separate process.

pub mod bind;
mod child;
pub mod list;
mod load;
mod watched;
