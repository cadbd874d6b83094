//! Commands that read files.

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use berth_testkit::programs::TempDir;
use wait4::Wait4;

use super::{Costs, FACTOR, LIMIT, dimensions, is_even, report};

/// The processor time of `berth` until it ends; `None` if it is beyond the limit, or needs more than 4 GB.
fn processor_time(directory: &Path, args: &[&str]) -> Option<Duration> {
    let limited = format!("ulimit -t {}; ulimit -v 4000000; exec \"$0\" \"$@\"", LIMIT.as_secs());
    let mut command = Command::new("sh");
    command.args(["-c", &limited, env!("CARGO_BIN_EXE_berth")]).args(args).current_dir(directory);
    let quiet = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    let used = quiet.spawn().unwrap().wait4().unwrap();
    assert!(used.status.code().is_none_or(|code| code <= 2), "{args:?}: {}", used.status);
    used.status.code().map(|_| used.rusage.utime + used.rusage.stime)
}

/// Fails if a command is slower than `n log n` in any dimension.
fn assert_grows_evenly(command: &str, args: &[&str]) {
    let directory = TempDir::new("cost");
    let mut failures = Vec::new();
    for dimension in dimensions() {
        let costs = || -> Costs {
            [1, dimension.size, dimension.size * FACTOR].map(|n| {
                let objects = dimension.objects(n);
                std::fs::write(directory.file("subject.json"), objects.pending).unwrap();
                std::fs::write(directory.file("cluster.json"), objects.all).unwrap();
                processor_time(&directory.0, &[&[command], args].concat())
            })
        };
        let measured = costs();
        let line = report(command, dimension.name, measured);
        if !is_even(measured) && !is_even(costs()) {
            failures.push(line);
        }
    }
    assert!(failures.is_empty(), "costs grow faster than the input:\n{}", failures.join("\n"));
}

#[test]
fn explain_grows_with_its_input() {
    assert_grows_evenly("explain", &["-f", "cluster.json", "default/subject"]);
}

#[test]
fn simulate_grows_with_its_input() {
    assert_grows_evenly("simulate", &["-f", "cluster.json"]);
}

#[test]
#[ignore = "at night"]
fn audit_grows_with_its_input() {
    assert_grows_evenly("audit", &["-f", "cluster.json"]);
}

#[test]
#[ignore = "at night"]
fn sets_grows_with_its_input() {
    assert_grows_evenly("sets", &["-f", "cluster.json"]);
}

#[test]
#[ignore = "at night"]
fn sets_of_nodes_grows_with_its_input() {
    assert_grows_evenly("sets", &["--of", "nodes", "-f", "cluster.json"]);
}

#[test]
fn lint_grows_with_its_input() {
    assert_grows_evenly("lint", &["-f", "cluster.json"]);
}

#[test]
#[ignore = "at night"]
fn what_if_grows_with_its_input() {
    assert_grows_evenly("what-if", &["--dump", "cluster.json", "--remove-node", "node-0", "--repairs"]);
}

#[test]
#[ignore = "at night"]
fn capacity_grows_with_its_input() {
    assert_grows_evenly("capacity", &["--dump", "cluster.json", "-f", "subject.json"]);
}

#[test]
#[ignore = "at night"]
fn compare_grows_with_its_input() {
    assert_grows_evenly("compare", &["-f", "cluster.json", "--to-filename", "cluster.json"]);
}
