//! An embedded Kubernetes API server, for laptops, tests and CI.
//!
//! Layers, each of which uses only those before it: `request` (user, target, parameters, status), `store` (objects,
//! versions, history), `authn` and `authz` (tokens, permissions), `strategy` (what a kind defines, and the rules that kinds
//! share), `kinds` (the table of kinds with the rules of each), `lifecycle` (creating, changing and deleting objects),
//! `quota`, `custom` and `webhook`, `handlers` (carry out requests), `server` (HTTPS and limits). The server never sees the
//! engine: an API server that shared the placement code would agree with its bugs.

pub mod admission;
mod authn;
mod authz;
mod bootstrap;
mod custom;
mod discovery;
mod fairness;
mod handlers;
mod import;
mod kinds;
mod lifecycle;
mod offline;
mod options;
mod quota;
mod request;
mod server;
mod store;
mod strategy;
mod table;
mod temporary;
pub mod webhook;

pub use admission::Admission;
pub use import::{ImportError, Imported};
pub use offline::refusals;
pub use options::{Limits, ServerOptions};
pub use server::{ApiServer, CredentialsError, InProcessServer, StartError};
pub use store::{
    DiskError, DiskIo, HistoryBounds, Latency, Lost, Recovery, StorageOptions, WriteError, recover,
};
pub use temporary::TemporaryDir;
