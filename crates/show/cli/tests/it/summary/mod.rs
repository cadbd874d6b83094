//! The output of `simulate` without the list of pods.

#![allow(clippy::unwrap_used)]

use std::fmt::Write;
use std::path::Path;

use crate::program::berth;

/// The summary by zone and the reasons of unplaced pods; then standard error, with `! ` before each line.
pub fn summary(folder: &Path, args: &[&str]) -> String {
    let ran = berth(folder, &[&["simulate"], args].concat(), b"");
    assert!(ran.code <= 1, "{args:?}: {}", ran.stderr);
    let (pods, rest) = ran.stdout.split_once("\n\n").unwrap_or_default();
    let mut summary = if pods.starts_with("POD ") { rest } else { &ran.stdout }.to_owned();
    for line in ran.stderr.lines() {
        writeln!(summary, "! {line}").unwrap();
    }
    summary
}
