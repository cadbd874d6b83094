//! Simulated nodes against the embedded API server, over HTTP.

#![allow(clippy::unwrap_used)]

mod admission;
mod devices;
mod lifecycles;
mod nodes;
mod volumes;
mod world;
