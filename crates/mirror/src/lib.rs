//! A mirror of the cluster: applies watch events to the engine's state.
//!
//! [`feed`] applies events to an engine [`Cluster`](berth_engine::Cluster) and detects drift from fresh lists;
//! [`sources`] watches everything that placement needs. It never decides and never writes to the API server.

pub mod feed;
pub mod sources;
