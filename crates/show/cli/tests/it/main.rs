//! The tests of the program in one binary: single commands, whole clusters as processes ([`cluster`]), and pages in a browser
//! ([`browser`]).

#![allow(clippy::unwrap_used)]

mod browser;
mod client;
mod cluster;
mod clusters;
mod cost;
mod docs;
mod examples;
mod hostile;
mod input;
mod install;
mod json;
mod kubectl;
mod kubectl_plugin;
mod live;
mod manifests;
mod mcp;
mod monitoring;
mod output;
mod pictures;
mod privileges;
mod process;
mod program;
mod recording;
mod replay;
mod round_trip;
mod schema;
mod summary;
