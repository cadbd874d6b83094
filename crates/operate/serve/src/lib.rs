//! Listening for HTTP: connections over TLS and without it, their limits, certificates, health and metrics.
//!
//! The API server, the admission webhook, the scheduler and the enforcer listen with [`Listener`]; what they answer is
//! theirs. This crate reads no Kubernetes object and knows no component.

pub mod authority;
mod certificate;
mod client_certificate;
pub mod health;
mod listener;
mod metered;
pub mod metrics;
pub mod parts;
mod sources;
mod tls;

pub use certificate::{CertificateError, CertificateSource, Certificates};
pub use client_certificate::{ClientAuthorities, ClientChain, ClientIdentity};
pub use listener::{Connection, ConnectionLimits, ListenError, Listener};
pub use metered::Metered;
pub use sources::with_sources;
pub use tls::{reloading_tls, tls_acceptor};
