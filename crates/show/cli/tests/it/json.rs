//! The JSON output of commands has the fields that docs/json.md describes.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::common::berth;
use crate::scratch::Scratch;

/// The tables of the document: by heading, the fields with their types.
type Tables = BTreeMap<String, BTreeMap<String, String>>;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../..")
}

fn tables() -> Tables {
    let text = fs::read_to_string(root().join("docs/json.md")).unwrap();
    let (mut tables, mut heading) = (Tables::new(), String::new());
    for line in text.lines() {
        if let Some(title) = line.strip_prefix("## ").or_else(|| line.strip_prefix("### ")) {
            heading = title.replace('`', "");
        } else if let Some((fields, rest)) = line.strip_prefix("| `").and_then(|row| row.split_once("` | ")) {
            let of_type = rest.split(" | ").next().unwrap();
            for field in fields.split("`, `") {
                tables.entry(heading.clone()).or_default().insert(field.to_owned(), of_type.to_owned());
            }
        }
    }
    tables
}

struct Check {
    tables: Tables,
    problems: Vec<String>,
}

impl Check {
    fn value(&mut self, of_type: &str, value: &Value, path: &str) {
        let of_type = of_type.strip_suffix(", optional").unwrap_or(of_type);
        if let Some(of_type) = of_type.strip_suffix(" or null") {
            if !value.is_null() {
                self.value(of_type, value, path);
            }
            return;
        }
        let fits = match (of_type, value) {
            ("string", Value::String(_)) | ("boolean", Value::Bool(_)) | ("any", _) => true,
            ("integer", Value::Number(number)) => number.is_i64() || number.is_u64(),
            ("number", Value::Number(_)) => true,
            (of_type, Value::Array(items)) if of_type.starts_with("array of ") => {
                let item = of_type.trim_start_matches("array of ");
                items
                    .iter()
                    .enumerate()
                    .for_each(|(i, value)| self.value(item, value, &format!("{path}[{i}]")));
                true
            }
            (of_type, Value::Object(entries)) if of_type.starts_with("map of ") => {
                let entry = of_type.trim_start_matches("map of ");
                entries.iter().for_each(|(key, value)| self.value(entry, value, &format!("{path}.{key}")));
                true
            }
            (table, Value::Object(fields)) if self.tables.contains_key(table) => {
                self.object(table, fields, path);
                true
            }
            _ => false,
        };
        if !fits {
            self.problems.push(format!("{path} is {value}, documented as {of_type}"));
        }
    }

    fn object(&mut self, table: &str, fields: &serde_json::Map<String, Value>, path: &str) {
        let documented = self.tables[table].clone();
        for (field, value) in fields {
            match documented.get(field) {
                Some(of_type) => self.value(of_type, value, &format!("{path}.{field}")),
                None => self.problems.push(format!("{path}.{field} is not in the table {table}")),
            }
        }
        let missing = documented.iter().filter(|(_, of_type)| !of_type.ends_with(", optional"));
        for (field, _) in missing.filter(|(field, _)| !fields.contains_key(*field)) {
            self.problems.push(format!("{path}.{field} is missing"));
        }
    }
}

const RUNS: &[&[&str]] = &[
    &["simulate", "-f", "examples/zone-anti-affinity", "--nodes", "6"],
    &["simulate", "-f", "examples/zone-anti-affinity", "--nodes", "2", "--zones", "2"],
    &["simulate", "-f", "examples/pod-group"],
    &["simulate", "-f", "examples/rack-limit", "--topology-key", "example.com/rack"],
    &["simulate", "-f", "examples/shared-pool"],
    &["simulate", "-f", "examples/rolling-update"],
    &["explain", "-f", "examples/zone-affinity", "ledger"],
    &["explain", "-f", "examples/fits-nowhere", "database-1"],
    &["explain", "-f", "examples/rack-limit", "search-8"],
    &["explain", "-f", "examples/shared-pool", "mounter"],
    &["explain", "-f", "examples/rolling-update", "web-7f9-k2x4p"],
    &["explain", "-f", "examples/pod-group", "--after-others", "video-0"],
    &["explain", "-f", "examples/kernel-version", "ebpf-agent"],
    &["audit", "-f", "examples/bound-against-rule", "--nodes", "4", "--zones", "2"],
    &["sets", "-f", "examples/overlapping-sets"],
    &["lint", "-f", "examples/overlapping-sets", "--dump", "examples/zone-affinity"],
    &["lint", "-f", "examples/rollout", "--dump", "examples/zone-affinity"],
    &["what-if", "-f", "examples/zone-affinity", "--remove-node", "node-1"],
    &["what-if", "--dump", "examples/outage/cluster.yaml", "--each", "topology.kubernetes.io/zone"],
    &[
        "capacity",
        "--dump",
        "examples/outage/cluster.yaml",
        "deploy/web",
        "--target",
        "60",
        "--node-types",
        "examples/outage/types.yaml",
    ],
    &["compare", "--dump", "examples/outage/cluster.yaml", "--to-filename", "examples/outage/web.yaml"],
    &["version"],
];

const WORKLOAD: &str = "
- name: Basic
  workloadTemplate:
  - {opcode: createNodes, countParam: $nodes}
  - {opcode: createPods, countParam: $pods, collectMetrics: true}
  workloads: [{name: small, params: {nodes: 5, pods: 10}}]
";

/// Without `soak`, which takes minutes.
const BENCHMARKS: &[&str] = &[
    "scale --nodes 20 --pods 50",
    "volumes --nodes 10 --pods 20",
    "churn --nodes 10 --rounds 2 --pods 20",
    "load examples/outage/cluster.yaml",
    "ops --nodes 10 --op decide --count 5",
    "enforce --nodes 20 --pods 50 --changed 5 --rounds 2",
    "preempt --nodes 10 --pods 10",
    "groups --nodes 20 --groups 3 --members 2",
    "bind --nodes 10 --pods 50 --connections 2 --rounds 1",
    "up --nodes 10 --pods 20",
    "console --nodes 20 --pods 50 --open 2 --changes 2",
    "list --pods 50 --page 25",
    "webhook --nodes 5 --reviews 20 --connections 2",
];

#[test]
fn the_json_of_every_benchmark_is_as_documented() {
    let scratch = Scratch::new("benchmark");
    let file = scratch.0.join("workload.yaml");
    fs::write(&file, WORKLOAD).unwrap();
    let mut check = Check { tables: tables(), problems: Vec::new() };
    let file = format!("{}", file.display());
    let report = |args: &str| -> Value {
        let args: Vec<_> = args.split(' ').collect();
        let ran = berth(&root(), &[&["bench"][..], &args, &["-o", "json"]].concat(), b"");
        assert_eq!(ran.code, 0, "{args:?}: {}", ran.stderr);
        serde_json::from_str(&ran.stdout).unwrap()
    };
    check.value("array of berth bench -o json", &report(&file), "bench");
    for benchmark in BENCHMARKS {
        let name = benchmark.split(' ').next().unwrap();
        check.value(&format!("berth bench {name} -o json"), &report(benchmark), name);
    }
    assert!(check.problems.is_empty(), "{}", check.problems.join("\n"));
}

#[test]
fn the_json_of_every_command_is_as_documented() {
    let mut check = Check { tables: tables(), problems: Vec::new() };
    for run in RUNS {
        let ran = berth(&root(), &[run, &["-o", "json"][..]].concat(), b"");
        let value: Value =
            serde_json::from_str(&ran.stdout).unwrap_or_else(|_| panic!("{run:?}: {}", ran.stderr));
        let each = if run.contains(&"--each") { " --each" } else { "" };
        check.value(&format!("berth {}{each} -o json", run[0]), &value, run[0]);
    }
    let script = fs::read_to_string(root().join("crates/show/cli/tests/golden/replay.txt")).unwrap();
    let recording =
        script.split("== differs.jsonl\n").nth(1).and_then(|rest| rest.split("\n== ").next()).unwrap();
    let ran = berth(&root(), &["replay", "-", "-o", "json"], recording.as_bytes());
    check.value("berth replay -o json", &serde_json::from_str(&ran.stdout).unwrap(), "replay");
    check.problems.sort();
    check.problems.dedup();
    assert!(check.problems.is_empty(), "{}", check.problems.join("\n"));
}
