//! The console over HTTP: who may see it, from where, and how pages follow the cluster.
//!
//! What a page shows is decided by [`berth_console::respond`]; this crate renders each page once for all its viewers
//! ([`Console`]), checks requests, and tells open pages when the state has changed. It decides nothing about placement.

mod access;
mod changes;
mod checks;
mod console;
mod events;
pub mod live;
mod server;
pub mod writer;

pub use access::{AccessToken, Authenticator, RandomnessError};
pub use changes::{Changes, EvictionRetries, WriteError, WriteFn};
pub use console::Console;
pub use server::{Bound, ServerOptions, StartError, start, start_at};
