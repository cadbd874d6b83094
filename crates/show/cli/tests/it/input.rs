//! Forms of input, and output that is used as input together with its workloads.

use std::fs;
use std::io::Write;
use std::path::Path;

use berth_api::read::collect_manifests;
use berth_testkit::programs::TempDir;
use flate2::Compression;
use flate2::write::GzEncoder;
use serde_json::{Value, json};

use crate::program::berth;

/// One workload of each kind, on two nodes, with fields that Berth does not know.
const WORKLOADS: &str = "\
{apiVersion: v1, kind: Node, metadata: {name: n1}, status: {allocatable: {cpu: '8', memory: 8Gi, pods: '20'}}}
---
{apiVersion: v1, kind: Node, metadata: {name: n2}, status: {allocatable: {cpu: '8', memory: 8Gi, pods: '20'}}}
---
{apiVersion: v1, kind: Pod, metadata: {name: single}, spec: {containers: [{name: c, image: i}]}}
---
{apiVersion: apps/v1, kind: Deployment, metadata: {name: web}, spec: {replicas: 3, selector: {matchLabels: {app: web}},
 template: {metadata: {labels: {app: web}, zeta: 1, annotations: {b: '2', a: '1'}},
  spec: {zeta: {y: 2, x: [1, 0.5, null]}, containers: [{image: i, futureField: true, name: c}], alpha: '0x1f'}}}}
---
{apiVersion: apps/v1, kind: ReplicaSet, metadata: {name: rs}, spec: {replicas: 2, selector: {matchLabels: {app: rs}},
 template: {metadata: {labels: {app: rs}}, spec: {containers: [{name: c, image: i}]}}}}
---
{apiVersion: v1, kind: ReplicationController, metadata: {name: rc}, spec: {replicas: 2,
 template: {metadata: {labels: {app: rc}}, spec: {containers: [{name: c, image: i}]}}}}
---
{apiVersion: apps/v1, kind: StatefulSet, metadata: {name: db}, spec: {replicas: 2, selector: {matchLabels: {app: db}},
 template: {metadata: {labels: {app: db}}, spec: {containers: [{name: c, image: i}]}}}}
---
{apiVersion: apps/v1, kind: DaemonSet, metadata: {name: agent}, spec: {selector: {matchLabels: {app: agent}},
 template: {metadata: {labels: {app: agent}}, spec: {containers: [{name: c, image: i}]}}}}
---
{apiVersion: batch/v1, kind: Job, metadata: {name: once}, spec: {parallelism: 2, completions: 4,
 template: {spec: {restartPolicy: Never, containers: [{name: c, image: i}]}}}}
---
{apiVersion: batch/v1, kind: Job, metadata: {name: each}, spec: {completionMode: Indexed, parallelism: 2, completions: 2,
 template: {spec: {restartPolicy: Never, containers: [{name: c, image: i}]}}}}
---
{apiVersion: batch/v1, kind: CronJob, metadata: {name: nightly}, spec: {schedule: '0 0 * * *', jobTemplate: {spec:
 {template: {spec: {restartPolicy: Never, containers: [{name: c, image: i}]}}}}}}
";

fn simulate(directory: &Path, args: &[&str], stdin: &[u8]) -> String {
    let ran = berth(directory, &[&["simulate"], args].concat(), stdin);
    let is_expected = ran.stderr.lines().all(|line| line.ends_with(": unknown field"));
    assert!(is_expected && ran.code == 0, "{args:?}: {}", ran.stderr);
    ran.stdout
}

#[test]
fn all_forms_of_input_give_the_same_result() {
    let scratch = TempDir::new("input");
    let path = |name: &str| scratch.0.join(name);
    fs::create_dir_all(path("folder/deeper")).unwrap();
    fs::write(path("all.yaml"), WORKLOADS).unwrap();
    let mut compressed = GzEncoder::new(Vec::new(), Compression::default());
    compressed.write_all(WORKLOADS.as_bytes()).unwrap();
    let compressed = compressed.finish().unwrap();
    fs::write(path("all.yaml.gz"), &compressed).unwrap();
    // Files of a directory are read in the order of their names; other files than YAML and JSON are ignored.
    let (first, rest) = WORKLOADS.split_at(WORKLOADS.find("---").unwrap());
    fs::write(path("folder/a.json"), r#"{"apiVersion": "v1", "kind": "List", "items": []}"#).unwrap();
    fs::write(path("folder/b.yml"), first).unwrap();
    fs::write(path("folder/deeper/c.yaml"), rest).unwrap();
    fs::write(path("folder/README.md"), "# not: {a manifest").unwrap();

    let expected = simulate(&scratch.0, &["-f", "all.yaml", "-o", "json"], b"");
    assert!(expected.contains("\"nPlaced\": 17"), "{expected}");
    for (args, stdin) in [
        (["-f", "all.yaml.gz"], &b""[..]),
        (["-f", "folder"], b""),
        (["-f", "-"], WORKLOADS.as_bytes()),
        (["-f", "-"], &compressed),
    ] {
        let got = simulate(&scratch.0, &[&args[..], &["-o", "json"]].concat(), stdin);
        assert_eq!(got, expected, "{args:?}");
    }
}

#[test]
fn existing_pods_of_workloads_are_not_duplicated() {
    let scratch = TempDir::new("fed-back");
    fs::write(scratch.0.join("all.yaml"), WORKLOADS).unwrap();
    let placed = simulate(&scratch.0, &["-f", "all.yaml", "-o", "yaml"], b"");
    fs::write(scratch.0.join("placed.yaml"), &placed).unwrap();
    // The single pod is in both.
    let (before, after) = WORKLOADS.split_once("{apiVersion: v1, kind: Pod").unwrap();
    fs::write(scratch.0.join("workloads.yaml"), [before, after.split_once("---\n").unwrap().1].concat())
        .unwrap();

    let report = |args: &[&str]| -> Value {
        let report = simulate(&scratch.0, &[args, &["-o", "json"]].concat(), b"");
        serde_json::from_str(&report).unwrap()
    };
    let nodes = |report: &Value| {
        let pods = report["pods"].as_array().unwrap().iter();
        let mut nodes: Vec<_> =
            pods.map(|p| [&p["name"], &p["workload"], &p["node"]].map(Value::to_string)).collect();
        nodes.sort();
        nodes
    };
    let first = report(&["-f", "all.yaml"]);
    let again = report(&["-f", "workloads.yaml", "placed.yaml"]);
    assert_eq!([&again["summary"]["nRunning"], &again["summary"]["nPlaced"]], [17, 0]);
    assert_eq!(nodes(&first), nodes(&again));
    let yaml_again = simulate(&scratch.0, &["-f", "workloads.yaml", "placed.yaml", "-o", "yaml"], b"");
    assert_eq!(yaml_again, placed);
}

#[test]
fn fields_of_a_template_keep_their_order() {
    let ran = berth(&std::env::temp_dir(), &["simulate", "-f", "-", "-o", "yaml"], WORKLOADS.as_bytes());
    let pods = collect_manifests(&ran.stdout, "output").unwrap();
    let web = pods.iter().map(|p| &p.value).find(|p| p["metadata"]["labels"]["app"] == "web").unwrap();
    let mut metadata = web["metadata"].clone();
    let metadata = metadata.as_object_mut().unwrap();
    for added in ["name", "namespace", "ownerReferences"] {
        assert!(metadata.shift_remove(added).is_some(), "{added}");
    }
    metadata["labels"].as_object_mut().unwrap().shift_remove("pod-template-hash").unwrap();
    let mut spec = web["spec"].clone();
    assert!(spec.as_object_mut().unwrap().shift_remove("nodeName").is_some());
    // As text: compares the order of fields.
    let expected = json!({"labels": {"app": "web"}, "zeta": 1, "annotations": {"b": "2", "a": "1"}});
    assert_eq!(Value::from(metadata.clone()).to_string(), expected.to_string());
    let expected = json!({
        "zeta": {"y": 2, "x": [1, 0.5, null]},
        "containers": [{"image": "i", "futureField": true, "name": "c"}],
        "alpha": "0x1f",
    });
    assert_eq!(spec.to_string(), expected.to_string());
}
