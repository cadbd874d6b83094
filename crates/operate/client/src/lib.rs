//! A Kubernetes client: what every component uses to talk to an API server.
//!
//! [`connect`] makes clients from kubeconfig files or from inside a cluster. [`call`] sends one request with a deadline
//! and a limit on the answer. [`watch`](mod@watch) turns list and watch into one stream of events that survives dropped
//! connections, expired resource versions and servers that hang. [`informer`] keeps caches of objects with them. [`lease`] elects a
//! leader, [`serving`] serves health and metrics to those whom [`delegated`] authorization admits, [`events`] records
//! events, [`eviction`] evicts pods, [`mod@apply`] applies manifests, and [`component`] holds a spawned component.
//!
//! This crate does not use the engine and makes no decisions.

pub mod apply;
mod backoff;
pub mod call;
pub mod component;
pub mod connect;
pub mod delegated;
pub mod events;
pub mod eviction;
mod failure_log;
pub mod informer;
pub mod lease;
pub mod ledger;
mod outage_log;
pub mod rate_limit;
mod server_certificate;
pub mod serving;
mod transport;
pub mod version;
pub mod watch;

pub use backoff::Backoff;
pub use failure_log::FailureLog;
pub use informer::{Cache, Change, ChangedKeys, Indexer, Informer, ObservedObject};
pub use watch::{
    Event, Generated, HasMetadata, KubeObject, Missing, Pages, StreamEvent, WatchFailure, WatchGroup,
    WatchOptions, WatchStream, list, watch, watch_into, watch_with,
};
