//! Reading Kubernetes objects for Berth.
//!
//! This crate turns text into objects ([`read`]), workloads into the pods their controllers would
//! make ([`expand`]), and treats pods as the API server does on creation: defaulting, the
//! matchLabelKeys merge and validation ([`admission`]). Both dialects of affinity are parsed once into
//! one internal form ([`rules`]), which is all the engine sees. [`config`] reads
//! `KubeSchedulerConfiguration`, [`recording`] the recorded decisions of a scheduler.
//!
//! It has no client, no clock and does no I/O: callers hand in bytes or JSON values.

/// The minor version of Kubernetes whose API and decisions Berth follows.
pub const KUBERNETES_VERSION: &str = "1.36";

pub mod admission;
pub mod config;
pub mod expand;
pub mod object;
pub mod quantity;
pub mod read;
pub mod recording;
pub mod resource;
pub mod rules;
pub mod simulated_nodes;
