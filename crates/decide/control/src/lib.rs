//! The control plane around a decision, written once: the embedded cluster puts watches and writes around these functions,
//! simulations run them on their own state. Objects in, what to write out; no clock, no I/O.

pub mod bounds;
pub mod budget;
pub mod claim;
pub mod cron_job;
pub mod daemon_set;
pub mod deployment;
pub mod expand;
pub mod job;
pub mod limits;
pub mod pod_gc;
pub mod quota;
pub mod replica_set;
pub mod stateful_set;
pub mod taints;
pub mod volume;
pub mod zones;
