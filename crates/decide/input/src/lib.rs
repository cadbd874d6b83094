//! What a user gives Berth, in layers: a module uses only modules above it in this table.
//!
//! | module | is for |
//! |---|---|
//! | [`config`] | `KubeSchedulerConfiguration` |
//! | [`policy`] | placement rules that policies add to pods |
//! | [`inventory`] | the objects of an input, by kind |
//! | [`recording`], [`journal`] | recorded decisions of kube-scheduler; journals of a running scheduler |
//!
//! The crate has no client and no clock and does no I/O: callers pass bytes or JSON values.

pub mod config;
pub mod inventory;
pub mod journal;
pub mod policy;
pub mod recording;
