//! Simulated nodes against the embedded API server, over HTTP.

mod admission;
mod lives;
mod nodes;
mod world;
