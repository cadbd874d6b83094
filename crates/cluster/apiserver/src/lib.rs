//! An embedded Kubernetes API server, for laptops, tests and CI.
//!
//! Modules: `store` keeps objects, versions and history; `server` serves HTTPS and checks identities and limits;
//! `strategy` has the rules for creating and changing objects, `kinds` the table of kinds with the rules of each;
//! `handlers` carry out requests. The server never sees the engine: an API server that shared the placement code would
//! agree with its bugs.

pub mod admission;
mod bootstrap;
pub mod cel;
mod custom;
mod discovery;
mod handlers;
mod import;
mod kinds;
mod options;
mod quota;
mod server;
mod store;
mod strategy;
mod table;
mod temporary;
pub mod webhook;

pub use admission::Admission;
pub use import::{ImportError, Imported};
pub use options::{Limits, ServerOptions};
pub use server::{ApiServer, CredentialsError, InProcessServer, StartError};
pub use store::{DiskError, DiskIo, HistoryBounds, Lost, Recovery, StorageOptions, WriteError, recover};
pub use temporary::TemporaryDir;
