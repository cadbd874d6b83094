//! Kubernetes objects and how they are read, in layers: a module uses only modules above it in this table.
//!
//! | module | is for |
//! |---|---|
//! | [`syntax`] | texts in objects: quantities, versions, schedules, names, labels, annotations |
//! | [`feature_gates`] | versions of Kubernetes: their feature gates, and the decisions that differ |
//! | [`resource`] | the table of resources: group, version, kind, plural, scope, URL paths |
//! | [`object`] | typed objects, metadata, conditions, times; [`object::placement`] lists the fields of a pod that matter for placement |
//! | [`read`] | YAML and JSON text to objects |
//! | [`fenceposts`] | numbers that may be percentages |
//! | [`simulated_nodes`], [`split_mix`] | simulated nodes; pseudo-random numbers |
//! | [`by_hash`] | lists whose elements are found by the hash of their key |
//! | [`work`] | how much work one request, event, page or file may cause |
//!
//! The crate has no client and no clock and does no I/O: callers pass bytes or JSON values.

// The attribute `object_type` names functions of this crate.
extern crate self as berth_api;

pub mod by_hash;
pub mod feature_gates;
pub mod fenceposts;
pub mod object;
pub mod read;
pub mod resource;
pub mod simulated_nodes;
pub mod split_mix;
pub mod syntax;
pub mod work;
