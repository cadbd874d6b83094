//! Real clusters, and clusters of another simulator.

use std::fmt::Write;
use std::fs::{self, File};
use std::io::Read;
use std::path::{Path, PathBuf};

use berth_testkit::programs::TempDir;
use berth_testkit::programs::difference;
use flate2::read::GzDecoder;
use serde_json::Value;

use crate::program::berth;
use crate::summary::summary;

/// A directory next to the repository, if it exists.
fn shared(name: &str) -> Option<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../../shared").join(name);
    if folder.is_dir() {
        return Some(folder);
    }
    eprintln!("{}: the clusters were not found; nothing was simulated", folder.display());
    None
}

fn golden(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/clusters").join(name)
}

#[test]
fn openb_is_placed_pod_by_pod_as_recorded() {
    let (Some(data), Some(recordings)) = (shared("data"), shared("conformance/large")) else { return };
    let ran = berth(&data, &["simulate", "-f", "openb", "-o", "json"], b"");
    assert_eq!((ran.stderr.as_str(), ran.code), ("", 1));
    let report: Value = serde_json::from_str(&ran.stdout).unwrap();

    let mut recording = String::new();
    let file = File::open(recordings.join("openb.jsonl.gz")).unwrap();
    GzDecoder::new(file).read_to_string(&mut recording).unwrap();
    let recording: Value = serde_json::from_str(&recording).unwrap();
    let steps = recording["expect"]["steps"].as_array().unwrap();

    let pods = report["pods"].as_array().unwrap();
    assert_eq!((pods.len(), steps.len()), (8152, 8152));
    for (pod, step) in pods.iter().zip(steps) {
        let name = format!("{}/{}", pod["namespace"].as_str().unwrap(), pod["name"].as_str().unwrap());
        assert_eq!(step["pod"], name);
        assert_eq!(pod["node"], step["chosen"], "{name}");
    }
    let summary = &report["summary"];
    assert_eq!([&summary["nNodes"], &summary["nPlaced"], &summary["nUnplaced"]], [1523, 7949, 203]);
}

#[test]
fn placed_openb_pods_stay_on_their_nodes() {
    let Some(data) = shared("data") else { return };
    let placed = berth(&data, &["simulate", "-f", "openb", "-o", "yaml"], b"").stdout;
    let scratch = TempDir::new("openb");
    fs::write(scratch.0.join("placed.yaml"), placed).unwrap();
    fs::copy(data.join("openb/nodes.json.gz"), scratch.0.join("nodes.json.gz")).unwrap();
    let ran = berth(&scratch.0, &["simulate", "-f", "."], b"");
    let expected = "203 of 8,152 pods are unplaced; 7,949 running; 1,523 nodes\n";
    assert!(ran.stdout.starts_with(expected), "{}", ran.stdout.lines().next().unwrap_or_default());
}

/// Runs a command in the directory with the clusters, and appends its output to `got`.
fn explain(got: &mut String, data: &Path, args: &[&str]) {
    let ran = berth(data, &[&["explain"], args].concat(), b"");
    assert_eq!(ran.stderr, "", "{args:?}");
    writeln!(got, "# explain {}\n{}", args.join(" "), ran.stdout).unwrap();
}

#[test]
fn pods_of_a_dump_stay_on_their_nodes() {
    let Some(data) = shared("data") else { return };
    let mut got = String::new();
    let (minikube, bundle) = ("dumps/minikube-1.34", "dumps/support-bundle");
    for dump in [minikube, bundle] {
        writeln!(got, "# {dump}\n{}", summary(&data, &["-f", dump])).unwrap();
    }
    explain(&mut got, &data, &["-f", minikube, "kube-system/coredns-66bc5c9577-d98t2"]);
    explain(&mut got, &data, &["-f", bundle, "kube-system/coredns-56f6fc8fd7-p4x9z"]);
    explain(&mut got, &data, &["-f", minikube, "e2e-container-pending"]);
    assert_eq!(difference(&golden("dumps.txt"), &got), None);
}

#[test]
fn applications_are_placed_on_nodes_that_they_tolerate_and_fit() {
    let Some(data) = shared("data") else { return };
    let examples = data.join("open-simulator/example");
    let mut got = String::new();
    for (cluster, application) in [
        ("demo_1", "simple"),
        ("demo_1", "complicate"),
        ("demo_1", "more_pods"),
        ("demo_1", "open_local"),
        ("gpushare", "gpushare"),
    ] {
        let (cluster, application) = (format!("cluster/{cluster}"), format!("application/{application}"));
        // The applications of this cluster do not use zones: count by node.
        // As dumps: an API server refuses a volume mount of one of them.
        let args = ["--dump", &cluster, "--dump", &application, "--topology-key", "kubernetes.io/hostname"];
        writeln!(got, "# {cluster} {application}\n{}", summary(&examples, &args)).unwrap();
    }
    assert_eq!(difference(&golden("open-simulator.txt"), &got), None);
}
