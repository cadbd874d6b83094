//! Between a Kubernetes API server and the engine: connecting, following objects, leases and events.
//!
//! [`connect`] makes clients from kubeconfig files or from inside a cluster; [`call`] is one request with a deadline
//! and a limit; [`follow`] turns list and watch into one stream of changes that survives dropped connections,
//! expired versions and servers that hang. It decides nothing about placement.

mod backoff;
pub mod call;
pub mod connect;
pub mod follow;

pub use backoff::Backoff;
pub use follow::{Event, FollowOptions, Following, Generated, Versioned, follow, follow_into};
