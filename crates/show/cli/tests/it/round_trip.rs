//! `simulate -o yaml` as input gives the same placement, and keeps unknown fields.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use berth_api::read::collect_manifests;
use berth_testkit::documents::repository;
use berth_testkit::programs::TempDir;
use serde_json::{Value, json};

use crate::program::berth;

/// Pod to node, from `-o json`.
fn placement(directory: &Path, args: &[&str]) -> BTreeMap<String, Value> {
    let args: Vec<_> = ["simulate", "-o", "json"].iter().chain(args).collect();
    let ran = berth(directory, &args, b"");
    let report: Value = serde_json::from_str(&ran.stdout).unwrap_or_else(|e| panic!("{e}: {}", ran.stderr));
    let pods = report["pods"].as_array().unwrap().iter();
    pods.map(|p| (format!("{}/{}", p["namespace"], p["name"]), p["node"].clone())).collect()
}

#[test]
fn placed_pods_of_the_example_stay_on_their_nodes() {
    let root = repository();
    let scratch = TempDir::new("example");
    for nodes in [["--nodes", "3", "--zones", "3"], ["--nodes", "2", "--zones", "1"]] {
        let example = ["-f", "examples/redis-web"];
        let args = ["simulate", "-o", "yaml"].iter().chain(&example).chain(&nodes);
        let placed = scratch.0.join("placed.yaml");
        fs::write(&placed, berth(&root, &args.collect::<Vec<_>>(), b"").stdout).unwrap();

        let before = placement(&root, &[&example[..], &nodes].concat());
        let after = placement(&root, &[&["-f", placed.to_str().unwrap()], &nodes[..]].concat());
        assert_eq!(before, after);
        assert_eq!(
            before.values().filter(|node| !node.is_null()).count(),
            2 * nodes[1].parse::<usize>().unwrap()
        );
    }
}

#[test]
fn unknown_fields_and_ambiguous_strings_are_preserved() {
    let pod = json!({
        "spec": {
            "zzz": {"b": 1, "a": [null, true, 1.5, "x"]},
            "containers": [{
                "name": "c", "image": "i",
                "args": ["yes", "no", "on", "off", "y", "null", "~", "", "0644", "0o17", "1e3", "1_000", "0x1f",
                    "12:30:45", "2024-01-01", ".5", "+1", "-", "- a", "a: b", "a #b", "#a", "*a", "&a", "!a", "%a", "@a", "`a",
                    "{a", "[a", "'a'", "\"a\"", " a", "a ", "a\nb", "a\n", "\n", "\t", "\u{7f}", "<<", "=", "é", "---"],
            }],
        },
        "kind": "Pod",
        "metadata": {"annotations": {"yes": "no", "1": "2", "null": "x", "a/b": "line\n  line\n\n"}, "name": "p"},
        "apiVersion": "v1",
    });
    let scratch = TempDir::new("unharmed");
    fs::write(scratch.0.join("pod.json"), pod.to_string()).unwrap();
    let ran = berth(&scratch.0, &["simulate", "-f", "pod.json", "--nodes", "1", "-o", "yaml"], b"");
    assert_eq!(ran.code, 0, "{}", ran.stderr);

    let mut expected = pod;
    expected["spec"]["nodeName"] = "node-1".into();
    let printed = collect_manifests(&ran.stdout, "output").unwrap();
    // As text: compares the order of fields.
    assert_eq!(printed[0].value.to_string(), expected.to_string());
    assert_eq!(printed.len(), 1);
}
