//! An embedded Kubernetes API server and the workload controllers, for laptops, tests and CI.
//!
//! Rooms: `store` keeps objects, versions and history; `server` is HTTPS, identities and limits; `resource`
//! says which resources there are and what creating and changing each means; `handlers` do what requests ask
//! for; `patch` holds the four kinds of patch; `schema` what types look like (OpenAPI, list keys);
//! `controllers` are clients of the API like any other. Nothing here sees the engine: an API server that
//! shared the placement code would agree with its bugs.

pub mod admission;
mod bootstrap;
pub mod controllers;
pub mod discovery;
mod handlers;
mod import;
mod options;
pub mod patch;
pub mod resource;
pub mod schema;
mod server;
mod store;
pub mod table;
pub mod webhook;

pub use admission::Admission;
pub use import::{ImportError, Imported};
pub use options::{Limits, ServerOptions};
pub use server::{ApiServer, CredentialsError, StartError};
pub use store::{DiskError, WriteError};
