//! The API server over real HTTPS.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
#![allow(dead_code, reason = "more tests are about to use it")]

mod support;

mod basics;
mod controllers;
#[path = "../../src/webhook/tests/responder.rs"]
mod responder;
mod surface;
