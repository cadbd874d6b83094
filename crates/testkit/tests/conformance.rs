//! Holds the naive evaluator to the recorded answers of kube-scheduler.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};

use berth_api::config::{Profile, SchedulerConfig};
use berth_api::object::Pod;
use berth_testkit::naive::{Decision, NodeResult, Options, Rejection, World, evaluate};
use serde_json::{Map, Value, json};

fn recordings() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/conformance")
}

fn read<T: serde::de::DeserializeOwned>(value: &Value) -> T {
    serde_json::from_value(value.clone()).expect("a readable recording")
}
