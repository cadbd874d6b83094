//! The tests of single commands, in one binary; those of whole clusters are in `cluster`.

#![allow(clippy::unwrap_used)]

mod clusters;
mod common;
mod docs;
mod examples;
mod expected;
mod golden;
mod input;
mod install;
mod json;
mod kubectl_plugin;
mod live;
mod manifests;
mod monitoring;
mod output;
mod pictures;
mod privileges;
#[allow(dead_code, reason = "the tests of clusters use the rest")]
#[path = "../cluster/process.rs"]
mod process;
mod recording;
mod replay;
mod round_trip;
mod schema;
mod scratch;
mod summary;
