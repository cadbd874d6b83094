//! The examples of the repository, one directory for each topic.

use std::fmt::Write;
use std::fs;
use std::path::Path;

use berth_testkit::programs::difference;

use crate::program::berth;

const RUNS: &[(&str, &[&str])] = &[
    ("recording", &["replay", "--timeline", "examples/recording"]),
    ("upgrade", &["what-if", "--dump", "examples/upgrade", "--upgrade", "1.38"]),
    ("console", &["audit", "--dump", "examples/console/cluster.yaml", "--summary"]),
    ("redis-web", &["simulate", "-f", "examples/redis-web", "--nodes", "3", "--zones", "3"]),
    ("autoscaling", &["simulate", "-f", "examples/autoscaling", "--nodes", "3", "--zones", "3"]),
    ("rollout", &["simulate", "-f", "examples/rollout", "--nodes", "3", "--zones", "3"]),
    ("zone-affinity", &["simulate", "-f", "examples/zone-affinity", "-o", "wide"]),
    ("zone-affinity", &["explain", "-f", "examples/zone-affinity", "ledger"]),
    (
        "zone-anti-affinity",
        &["simulate", "-f", "examples/zone-anti-affinity", "--nodes", "6", "--zones", "3"],
    ),
    (
        "zone-anti-affinity",
        &["explain", "-f", "examples/zone-anti-affinity", "quorum-2", "--nodes", "2", "--zones", "2"],
    ),
    ("zone-volumes", &["simulate", "-f", "examples/zone-volumes", "--nodes", "6", "--zones", "3"]),
    ("pod-group", &["simulate", "-f", "examples/pod-group", "-o", "wide"]),
    ("pod-group", &["explain", "-f", "examples/pod-group", "--after-others", "video-0"]),
    ("group-of-owner", &["simulate", "-f", "examples/group-of-owner", "--nodes", "3"]),
    ("job-set", &["simulate", "-f", "examples/job-set"]),
    ("leader-worker-set", &["simulate", "-f", "examples/leader-worker-set"]),
    ("leader-worker-set", &["explain", "-f", "examples/leader-worker-set", "vllm-1-1"]),
    ("ray-cluster", &["simulate", "-f", "examples/ray-cluster"]),
    ("ray-cluster", &["explain", "-f", "examples/ray-cluster", "tune-head-4jq7m"]),
    // No profile has its scheduler's name.
    (
        "ray-cluster",
        &["simulate", "-f", "examples/ray-cluster/nodes.yaml", "-f", "examples/ray-cluster/ray-cluster.yaml"],
    ),
    ("kubeflow", &["simulate", "-f", "examples/kubeflow", "-o", "wide"]),
    ("kueue", &["simulate", "-f", "examples/kueue"]),
    ("kueue", &["explain", "-f", "examples/kueue", "train-3-w7xph"]),
    ("training-job", &["simulate", "-f", "examples/training-job", "-o", "wide"]),
    ("training-job", &["explain", "-f", "examples/training-job", "--all", "job/train"]),
    ("node-affinity", &["simulate", "-f", "examples/node-affinity", "-o", "wide"]),
    (
        "namespace-selector",
        &["simulate", "-f", "examples/namespace-selector", "--nodes", "3", "--zones", "3"],
    ),
    ("scheduler-profiles", &["simulate", "-f", "examples/scheduler-profiles", "--topology-key", "pool"]),
    ("preemption-across-nodes", &["simulate", "-f", "examples/preemption-across-nodes"]),
    ("preemption-across-nodes", &["explain", "-f", "examples/preemption-across-nodes", "database"]),
    // The argument is an extension.
    ("preemption-across-nodes", &["simulate", "-f", "examples/preemption-across-nodes", "--strict-v1"]),
    // Without it.
    (
        "preemption-across-nodes",
        &[
            "explain",
            "-f",
            "examples/preemption-across-nodes/cluster.yaml",
            "-f",
            "examples/preemption-across-nodes/database.yaml",
            "database",
        ],
    ),
    ("tenants", &["simulate", "-f", "examples/tenants", "--topology-key", "node-pool"]),
    ("label-range", &["simulate", "-f", "examples/label-range"]),
    ("label-range", &["simulate", "-f", "examples/label-range", "--strict-v1"]),
    ("exclusive-node", &["simulate", "-f", "examples/exclusive-node", "--nodes", "3"]),
    ("exclusive-node", &["simulate", "-f", "examples/exclusive-node", "--nodes", "3", "--strict-v1"]),
    ("rack-limit", &["simulate", "-f", "examples/rack-limit", "--topology-key", "example.com/rack"]),
    ("rack-limit", &["explain", "-f", "examples/rack-limit", "search-8"]),
    // The enforcer knows which pod came last: tests/it/cluster/scripts/bound-against-rule.txt.
    ("affinity-terms", &["simulate", "-f", "examples/affinity-terms", "-o", "wide"]),
    ("affinity-terms", &["lint", "-f", "examples/affinity-terms"]),
    ("affinity-terms", &["audit", "-f", "examples/affinity-terms"]),
    (
        "blast-radius",
        &[
            "lint",
            "--dump",
            "examples/blast-radius/cluster.yaml",
            "-f",
            "examples/blast-radius/pods.yaml",
            "--policy",
            "examples/blast-radius/policy.yaml",
        ],
    ),
    (
        "blast-radius",
        &[
            "explain",
            "--dump",
            "examples/blast-radius/cluster.yaml",
            "-f",
            "examples/blast-radius/pods.yaml",
            "batch/indexer",
        ],
    ),
    (
        "label-convention",
        &[
            "lint",
            "-f",
            "examples/label-convention/pods.yaml",
            "--policy",
            "examples/label-convention/policy.yaml",
        ],
    ),
    (
        "label-convention",
        &["lint", "-f", "examples/label-convention/pods.yaml", "--require-labels", "example.com/cost-center"],
    ),
    ("proposal-fields", &["lint", "-f", "examples/proposal-fields", "--strict-v1"]),
    ("proposal-fields", &["lint", "-f", "examples/proposal-fields"]),
    ("node-name", &["simulate", "-f", "examples/node-name", "--summary"]),
    ("node-name", &["explain", "-f", "examples/node-name", "encoder-1"]),
    ("node-name", &["explain", "-f", "examples/node-name", "nginx"]),
    ("node-name", &["explain", "-f", "examples/node-name", "recorder"]),
    ("node-name", &["explain", "-f", "examples/node-name", "import"]),
    ("node-name", &["lint", "-f", "examples/node-name"]),
    ("node-name", &["audit", "-f", "examples/node-name"]),
    ("node-name", &["capacity", "-f", "examples/node-name", "deploy/web"]),
    ("node-name", &["what-if", "-f", "examples/node-name", "--set-label", "node/kube-01", "disk=ssd"]),
    ("bound-against-rule", &["audit", "-f", "examples/bound-against-rule", "--nodes", "4", "--zones", "2"]),
    ("held-without-target", &["audit", "-f", "examples/held-without-target", "--nodes", "3"]),
    ("daemon-toleration", &["simulate", "-f", "examples/daemon-toleration", "--nodes", "3"]),
    ("daemon-toleration", &["simulate", "-f", "examples/daemon-toleration", "--nodes", "3", "--strict-v1"]),
    ("runtime-class", &["simulate", "-f", "examples/runtime-class"]),
    ("runtime-class", &["lint", "-f", "examples/runtime-class"]),
    // Without the class.
    (
        "runtime-class",
        &[
            "simulate",
            "-f",
            "examples/runtime-class/nodes.yaml",
            "-f",
            "examples/runtime-class/sandboxes.yaml",
        ],
    ),
    (
        "runtime-class",
        &["lint", "-f", "examples/runtime-class/nodes.yaml", "-f", "examples/runtime-class/sandboxes.yaml"],
    ),
    ("gpus", &["simulate", "-f", "examples/gpus"]),
    ("gpus", &["simulate", "-f", "examples/gpus", "-o", "json"]),
    ("gpus", &["explain", "-f", "examples/gpus", "benchmark"]),
    ("gpus", &["capacity", "-f", "examples/gpus", "sts/train"]),
    ("gpus", &["capacity", "-f", "examples/gpus", "deploy/serve", "-o", "json"]),
    ("gpus", &["explain", "-f", "examples/gpus", "--all", "benchmark"]),
    ("gpus", &["lint", "-f", "examples/gpus"]),
    (
        "gpus",
        &[
            "what-if",
            "-f",
            "examples/gpus",
            "--fail-device",
            "gpu.example.com/gpu-1/gpu-0",
            "--remove-node",
            "mig-1",
        ],
    ),
    // The quota needs an API server: tests/it/cluster/scripts/placement-quota.txt.
    ("placement-quota", &["simulate", "-f", "examples/placement-quota/pods.yaml", "--nodes", "4"]),
    ("rolling-update", &["explain", "-f", "examples/rolling-update", "web-7f9-k2x4p"]),
    ("overlapping-sets", &["sets", "-f", "examples/overlapping-sets"]),
    ("selected-twice", &["sets", "-f", "examples/selected-twice", "--fail-on", "services,monitors"]),
    ("node-sets", &["sets", "-f", "examples/node-sets", "--of", "nodes"]),
    ("placement-policy", &["simulate", "-f", "examples/placement-policy", "-o", "wide"]),
    ("relax-after", &["simulate", "-f", "examples/relax-after", "--nodes", "3", "--zones", "2"]),
    (
        "relax-after",
        &["simulate", "-f", "examples/relax-after", "--nodes", "3", "--zones", "2", "--pending-for", "10m"],
    ),
    (
        "relax-after",
        &[
            "explain",
            "-f",
            "examples/relax-after",
            "search-3",
            "--nodes",
            "3",
            "--zones",
            "2",
            "--pending-for",
            "1h",
        ],
    ),
    ("unschedulable", &["explain", "-f", "examples/unschedulable", "database-1"]),
    ("cpu-vendor", &["simulate", "-f", "examples/cpu-vendor"]),
    ("kernel-version", &["simulate", "-f", "examples/kernel-version"]),
    ("kernel-version", &["explain", "-f", "examples/kernel-version", "ebpf-agent"]),
    ("kernel-version", &["simulate", "-f", "examples/kernel-version", "--strict-v1"]),
    ("shared-pool", &["explain", "-f", "examples/shared-pool", "mounter"]),
    ("node-restriction", &["simulate", "-f", "examples/node-restriction"]),
    ("outage", &["what-if", "--dump", "examples/outage/cluster.yaml", "--remove-node", "a1"]),
    ("outage", &["what-if", "--dump", "examples/outage/cluster.yaml", "--remove-node", "a1", "-o", "json"]),
    ("rebalance", &["rebalance", "--dump", "examples/rebalance/cluster.yaml"]),
    ("rebalance", &["rebalance", "--dump", "examples/rebalance/cluster.yaml", "-o", "json"]),
    ("rebalance", &["rebalance", "--dump", "examples/rebalance/cluster.yaml", "-o", "svg"]),
    ("rebalance", &["rebalance", "--dump", "examples/rebalance/cluster.yaml", "--for", "index-0"]),
    ("rebalance", &["rebalance", "--dump", "examples/rebalance/cluster.yaml", "--goal", "consolidate"]),
    (
        "rebalance",
        &["rebalance", "--dump", "examples/rebalance/cluster.yaml", "--goal", "spread", "--max-moves", "1"],
    ),
    (
        "rebalance",
        &[
            "rebalance",
            "--dump",
            "examples/rebalance/cluster.yaml",
            "--descheduler-policy",
            "examples/rebalance/descheduler.yaml",
            "-o",
            "json",
        ],
    ),
    (
        "rebalance",
        &[
            "capacity",
            "--dump",
            "examples/rebalance/cluster.yaml",
            "-f",
            "examples/rebalance/index.yaml",
            "--after-defragmentation",
        ],
    ),
    ("maintenance", &["what-if", "--dump", "examples/maintenance/cluster.yaml", "--drain", "worker-1"]),
    ("maintenance", &["what-if", "--dump", "examples/maintenance/cluster.yaml", "--drain", "worker-3"]),
    (
        "maintenance",
        &["what-if", "--dump", "examples/maintenance/cluster.yaml", "-f", "examples/maintenance/update.yaml"],
    ),
    (
        "maintenance",
        &[
            "what-if",
            "--dump",
            "examples/maintenance/cluster.yaml",
            "-f",
            "examples/maintenance/update.yaml",
            "-o",
            "json",
        ],
    ),
    (
        "outage",
        &[
            "what-if",
            "--dump",
            "examples/outage/cluster.yaml",
            "--set-label",
            "node/a1",
            "disk=hdd",
            "--evict",
            "shop/batch-x",
        ],
    ),
    (
        "outage",
        &[
            "what-if",
            "--dump",
            "examples/outage/cluster.yaml",
            "--add-nodes",
            "2",
            "--like",
            "b1",
            "--drain",
            "b1",
            "--scale",
            "deploy/web=5",
        ],
    ),
    ("outage", &["what-if", "--dump", "examples/outage/cluster.yaml", "--each", "zone"]),
    ("outage", &["what-if", "--dump", "examples/outage/cluster.yaml", "--each", "zone", "-o", "json"]),
    ("outage", &["capacity", "--dump", "examples/outage/cluster.yaml", "deploy/web"]),
    ("outage", &["capacity", "--dump", "examples/outage/cluster.yaml", "deploy/web", "-o", "json"]),
    (
        "outage",
        &[
            "capacity",
            "--dump",
            "examples/outage/cluster.yaml",
            "deploy/web",
            "--target",
            "12",
            "--like",
            "b1",
        ],
    ),
    (
        "outage",
        &[
            "capacity",
            "--dump",
            "examples/outage/cluster.yaml",
            "deploy/web",
            "--target",
            "12",
            "--node-types",
            "examples/outage/types.yaml",
            "-o",
            "json",
        ],
    ),
    (
        "outage",
        &[
            "compare",
            "--dump",
            "examples/outage/cluster.yaml",
            "--to-config",
            "examples/outage/packing.yaml",
            "--replace-all",
        ],
    ),
    (
        "outage",
        &[
            "compare",
            "--dump",
            "examples/outage/cluster.yaml",
            "--to-config",
            "examples/outage/packing.yaml",
            "--replace-all",
            "-o",
            "json",
        ],
    ),
];

#[test]
fn every_example_has_the_expected_output() {
    let crate_folder = Path::new(env!("CARGO_MANIFEST_DIR"));
    let root = crate_folder.join("../../..");
    let mut wrong = String::new();
    for entry in fs::read_dir(root.join("examples")).unwrap() {
        let folder = entry.unwrap().file_name().into_string().unwrap();
        let mut got = String::new();
        for (_, args) in RUNS.iter().filter(|(name, _)| *name == folder) {
            let ran = berth(&root, args, b"");
            writeln!(got, "$ berth {}\n{}", args.join(" "), ran.stdout).unwrap();
            for line in ran.stderr.lines() {
                writeln!(got, "! {line}").unwrap();
            }
            writeln!(got, "[exit {}]\n", ran.code).unwrap();
        }
        assert!(!got.is_empty(), "examples/{folder} is run by no test");
        wrong.extend(difference(&crate_folder.join(format!("tests/golden/examples/{folder}.txt")), &got));
    }
    assert!(wrong.is_empty(), "{wrong}");
}
