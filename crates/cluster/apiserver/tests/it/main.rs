//! The API server over real HTTPS.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod support;

mod admission;
mod attacks;
mod bad_input;
mod basics;
mod custom;
mod deletion;
mod devices;
mod eviction;
mod feature_gates;
mod flow;
mod history;
mod identities;
mod kinds;
mod limits;
mod lists;
mod media_types;
mod permissions;
mod pods;
mod quotas;
mod recorded;
#[allow(dead_code, reason = "the tests of the module use the rest")]
#[path = "../../src/webhook/tests/responder.rs"]
mod responder;
mod restart;
mod roles;
mod services;
mod surface;
mod validation;
mod watches;
mod work;
mod workloads;
