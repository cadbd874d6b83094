//! Between a Kubernetes API server and the engine: connecting, following objects, leases and events.
//!
//! [`connect`] makes clients from kubeconfig files or from inside a cluster; [`call`] is one request with a deadline
//! and a limit; [`follow`](mod@follow) turns list and watch into one stream of changes that survives dropped connections,
//! expired versions and servers that hang; [`feed`] applies those changes to an engine
//! [`Cluster`](berth_engine::Cluster); [`sources`] follows all that placement needs to know; [`lease`] elects a leader;
//! [`record`] writes events; [`health`] serves metrics and whether a part is ready; [`running`] is what is held of a part
//! that runs. It decides nothing about placement.

mod backoff;
pub mod call;
pub mod connect;
pub mod feed;
pub mod follow;
pub mod health;
pub mod lease;
pub mod record;
pub mod running;
pub mod sources;

pub use backoff::Backoff;
pub use follow::{
    Event, FollowOptions, Following, Generated, Versioned, follow, follow_into, follow_with, list,
};
