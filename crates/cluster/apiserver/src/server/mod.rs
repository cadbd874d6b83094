//! HTTPS, identities and limits.

mod authenticate;
mod body;
mod budget;
mod credentials;
mod expiry;
mod in_process;
mod metrics;
mod offload;
mod paths;
mod sending;
mod service;
mod start;
mod state;
mod throttle;
mod websocket;

pub use credentials::CredentialsError;
pub use in_process::InProcessServer;
pub use start::{ApiServer, StartError};
