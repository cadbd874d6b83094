//! The controllers against the server, with simulated nodes.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod autoscaler;
mod cluster;
mod cron_job;
mod deletion;
mod deployment;
mod devices;
mod endpoints;
mod job;
mod nodes;
mod replica_set;
mod stateful;
mod volumes;
mod world;
