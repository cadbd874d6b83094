//! A mirror of the cluster: applies watch events to the engine's state.
//!
//! A [`Mirror`] watches what placement needs, applies each event to an engine [`Cluster`](berth_engine::Cluster) as it
//! arrives, knows when the state is complete, and checks it for drift against full lists. The scheduler, the enforcer and
//! the admission webhook share it; each handles the [`Change`]s that concern it.
//!
//! It holds no list as a whole: of an assigned pod it keeps 60 bytes and its name. It never decides about placement and
//! never writes to the API server.

mod cache;
mod change;
mod device_entry;
mod devices;
mod drift;
mod entries;
mod event;
mod fingerprint;
mod known;
mod mirror;
mod node_parser;
mod placement_digest;
mod pod_delta;
mod pod_entries;
mod pod_parser;
mod pod_ref;
mod pods;
mod source;
mod uid;
mod volume_entry;
mod volumes;
mod watches;
mod workloads;

pub use change::{Change, DriftReport};
pub use device_entry::DeviceClaimState;
pub use event::WatchEvent;
pub use mirror::{Mirror, MirrorOptions};
pub use node_parser::NodeParser;
pub use pod_parser::PodParser;
pub use pod_ref::PodRef;
pub use source::{Needs, Source};
pub use volume_entry::{ClaimState, VolumeState};
