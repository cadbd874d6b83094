//! The console over HTTP, as browsers and attackers see it.

#![allow(clippy::unwrap_used)]

mod attacks;
mod client;
mod cluster_token;
mod live;
mod pages;
mod writes;
