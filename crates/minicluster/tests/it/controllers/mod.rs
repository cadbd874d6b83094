//! The controllers against the server, with nodes that are only made believe.

mod cluster;
mod deletion;
mod deployment;
mod job;
mod nodes;
mod replica_set;
mod stateful;
mod world;
