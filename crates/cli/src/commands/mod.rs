//! The commands: each parses its arguments and connects the components.

mod admission_args;
pub mod apiserver;
pub mod audit;
pub mod bench;
mod bench_churn;
mod bench_volumes;
mod bench_webhook;
mod cluster_args;
pub mod completions;
mod connection_args;
pub mod enforcer;
pub mod explain;
pub mod install;
pub mod kubelet;
mod lease_args;
pub mod man;
mod node_args;
mod provisioner_args;
pub mod replay;
mod rules_args;
pub mod scheduler;
mod server_args;
mod serving_args;
pub mod simulate;
pub mod up;
pub mod version;
pub mod webhook;
