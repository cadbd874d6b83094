//! Reading Kubernetes objects for Berth.
//!
//! | module | is for |
//! |---|---|
//! | [`object`] | typed objects, metadata, conditions, times; [`object::placement`] lists the fields of a pod that matter for placement |
//! | [`resource`] | the table of resources: group, version, kind, plural, scope, URL paths |
//! | [`read`] | YAML and JSON text to objects |
//! | [`expand`] | workloads to the pods that their controllers create |
//! | [`admission`] | what the API server does to a pod on creation: defaulting, the matchLabelKeys merge, validation |
//! | [`rules`] | placement rules: both dialects of affinity in one internal form, which is all the engine reads |
//! | [`kubelet_labels`] | the labels that a kubelet may set on its node |
//! | [`config`] | `KubeSchedulerConfiguration` |
//! | [`placement_policy`] | placement rules that policies add to pods |
//! | [`recording`], [`journal`] | recorded decisions of kube-scheduler; journals of a running scheduler |
//! | [`cron`], [`fenceposts`] | schedules of CronJobs; the limits of a rolling update |
//! | [`quantity`], [`simulated_nodes`], [`similar`] | quantities of resources; simulated nodes; similar names |
//!
//! The crate has no client and no clock and does no I/O: callers pass bytes or JSON values.

/// The minor version of Kubernetes whose API and decisions Berth follows.
pub const KUBERNETES_VERSION: &str = "1.36";

pub mod admission;
pub mod config;
pub mod cron;
pub mod expand;
pub mod fenceposts;
pub mod journal;
pub mod kubelet_labels;
pub mod object;
pub mod placement_policy;
pub mod quantity;
pub mod read;
pub mod recording;
pub mod resource;
pub mod rules;
pub mod similar;
pub mod simulated_nodes;
