//! The JSON output of commands has the fields that docs/json.md describes.

use std::fs;

use berth_testkit::documents::json::Check;
use berth_testkit::documents::repository;
use serde_json::Value;

use crate::program::berth;

const RUNS: &[&[&str]] = &[
    &["simulate", "-f", "examples/zone-anti-affinity", "--nodes", "6"],
    &["simulate", "-f", "examples/zone-anti-affinity", "--nodes", "2", "--zones", "2"],
    &["simulate", "-f", "examples/pod-group"],
    &["simulate", "-f", "examples/rack-limit", "--topology-key", "example.com/rack"],
    &["simulate", "-f", "examples/shared-pool"],
    &["simulate", "-f", "examples/rolling-update"],
    &["simulate", "-f", "examples/node-name"],
    &["explain", "-f", "examples/zone-affinity", "ledger"],
    &["explain", "-f", "examples/unschedulable", "database-1"],
    &["explain", "-f", "examples/rack-limit", "search-8"],
    &["explain", "-f", "examples/shared-pool", "mounter"],
    &["explain", "-f", "examples/rolling-update", "web-7f9-k2x4p"],
    &["explain", "-f", "examples/pod-group", "--after-others", "video-0"],
    &["explain", "-f", "examples/kernel-version", "ebpf-agent"],
    &[
        "explain",
        "--dump",
        "examples/blast-radius/cluster.yaml",
        "-f",
        "examples/blast-radius/pods.yaml",
        "batch/indexer",
    ],
    &["explain", "-f", "examples/preemption-across-nodes", "database"],
    &["explain", "-f", "examples/node-name", "encoder-1"],
    &["explain", "-f", "examples/node-name", "nginx"],
    &["audit", "-f", "examples/node-name"],
    &["audit", "-f", "examples/bound-against-rule", "--nodes", "4", "--zones", "2"],
    &["sets", "-f", "examples/overlapping-sets"],
    &["lint", "-f", "examples/overlapping-sets", "--dump", "examples/zone-affinity"],
    &["lint", "-f", "examples/rollout", "--dump", "examples/zone-affinity"],
    &["what-if", "-f", "examples/zone-affinity", "--remove-node", "node-1"],
    &["what-if", "-f", "examples/node-name", "--remove-node", "kube-01"],
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
    &["rebalance", "--dump", "examples/rebalance/cluster.yaml"],
    &[
        "rebalance",
        "--dump",
        "examples/rebalance/cluster.yaml",
        "--goal",
        "consolidate",
        "--evict-local-storage",
    ],
    &[
        "rebalance",
        "--dump",
        "examples/rebalance/cluster.yaml",
        "--descheduler-policy",
        "examples/rebalance/descheduler.yaml",
    ],
    &["compare", "--dump", "examples/outage/cluster.yaml", "--to-filename", "examples/outage/web.yaml"],
    &["version"],
];

#[test]
fn the_json_of_every_command_is_as_documented() {
    let mut check = Check::of_document();
    for run in RUNS {
        let ran = berth(&repository(), &[run, &["-o", "json"][..]].concat(), b"");
        let value: Value =
            serde_json::from_str(&ran.stdout).unwrap_or_else(|_| panic!("{run:?}: {}", ran.stderr));
        let each = if run.contains(&"--each") { " --each" } else { "" };
        check.value(&format!("berth {}{each} -o json", run[0]), &value, run[0]);
    }
    let script = fs::read_to_string(repository().join("crates/show/cli/tests/golden/replay.txt")).unwrap();
    let recording =
        script.split("== differs.jsonl\n").nth(1).and_then(|rest| rest.split("\n== ").next()).unwrap();
    let ran = berth(&repository(), &["replay", "-", "-o", "json"], recording.as_bytes());
    check.value("berth replay -o json", &serde_json::from_str(&ran.stdout).unwrap(), "replay");
    check.assert_no_problems();
}
