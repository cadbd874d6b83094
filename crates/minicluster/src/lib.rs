//! An embedded Kubernetes API server and the workload controllers, for laptops, tests and CI.
//!
//! Rooms: `store` keeps objects, versions and history; `server` is HTTPS, identities and limits; `resource` says which
//! resources there are and what creating and changing each means; `patch` holds the four kinds of patch; `schema` what types look
//! like (OpenAPI, list keys); `controllers` are clients of the API like any other. Nothing here sees the engine: an
//! API server that shared the placement code would agree with its bugs.

pub mod controllers;
pub mod discovery;
pub mod patch;
pub mod resource;
pub mod schema;
pub mod table;
