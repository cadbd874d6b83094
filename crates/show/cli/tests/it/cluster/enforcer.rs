//! `berth enforcer`, and `berth up` with the enforcer, as processes, also killed during evictions.

use std::collections::HashSet;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::Command;

use berth_client::call;
use berth_testkit::documents::repository;
use berth_testkit::programs::TempDir;
use http::Method;
use kube::Client;
use serde_json::{Value, json};

use super::running::{PODS, REPLICA};
use crate::client::{connect, create, eventually, get, list, send, text};
use crate::kubectl::has_kubectl;
use crate::process::{self, Berth, DEADLINE};

const REPLICA_SETS: &str = "/apis/apps/v1/namespaces/default/replicasets";

/// This many pods that require the node label `disk: ssd` during execution.
fn on_ssd(replicas: usize) -> Value {
    let term = json!({"matchExpressions": [{"key": "disk", "operator": "In", "values": ["ssd"]}]});
    let rule = json!({"requiredDuringSchedulingRequiredDuringExecution": {"nodeSelectorTerms": [term]}});
    json!({
        "apiVersion": "apps/v1",
        "kind": "ReplicaSet",
        "metadata": {"name": "web"},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": {"app": "web"}},
            "template": {
                "metadata": {"labels": {"app": "web"}},
                "spec": {
                    "schedulerName": "berth",
                    "affinity": {"nodeAffinity": rule},
                    "containers": [{"name": "c", "image": "i"}],
                },
            },
        },
    })
}

#[test]
fn the_script_rebalances_the_cluster_after_an_outage() {
    if !has_kubectl("the_script_rebalances_the_cluster_after_an_outage") {
        return;
    }
    let programs = Path::new(env!("CARGO_BIN_EXE_berth")).parent().unwrap();
    let path = std::env::join_paths(
        [programs.to_owned()].into_iter().chain(std::env::split_paths(&std::env::var_os("PATH").unwrap())),
    );
    let script = repository().join("examples/rebalance/run.sh");
    let output = Command::new("sh").arg(script).env("PATH", path.unwrap()).output().unwrap();
    let (text, log) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{text}{log}");
    let (plan, rest) = text.split_once("After:\n").unwrap();
    let (after, moves) = rest.split_once("Moves:\n").unwrap();
    let n_web = |text: &str, zone: &str| {
        let is_there = |line: &&str| {
            line.starts_with("web-")
                && line.split_whitespace().nth(1).is_some_and(|node| node.starts_with(zone))
        };
        text.lines().filter(is_there).count()
    };
    // The enforcer makes the moves of the plan, in its order.
    let of_plan = plan.lines().filter_map(|line| {
        let [pod, from, to, _goal] = line.strip_prefix("shop/")?.split_whitespace().collect::<Vec<_>>()[..]
        else {
            return None;
        };
        Some(format!("{pod} from {from} to {to}: moved"))
    });
    let of_plan: Vec<String> = of_plan.collect();
    assert!(plan.starts_with("4 moves") && of_plan.len() == 4, "{text}");
    let moves: Vec<String> = moves.lines().map(str::to_owned).collect();
    assert!(!moves.is_empty() && of_plan.ends_with(&moves), "{text}");
    assert_eq!(["a", "b", "c"].map(|zone| n_web(after, zone)), [2, 2, 2], "{text}");
}

pub async fn label(client: &Client, node: &str, disk: Value) {
    let patch = json!({"metadata": {"labels": {"disk": disk}}}).to_string().into_bytes();
    let path = format!("/api/v1/nodes/{node}");
    let request = call::with_body(Method::PATCH, &path, "application/merge-patch+json", patch);
    call::send(client, request, DEADLINE, call::MAX_OBJECT_BYTES).await.unwrap();
}

/// Waits until exactly this many pods exist and run; returns uids and nodes.
async fn running(client: &Client, n: usize) -> Vec<(String, String)> {
    eventually("all pods run", async || {
        let pods = list(client, PODS).await.map_err(|e| e.to_string())?;
        let runs = |p: &&Value| {
            text(p, "/status/phase") == "Running" && text(p, "/metadata/deletionTimestamp").is_empty()
        };
        let n_running = pods.iter().filter(runs).count();
        if (pods.len(), n_running) != (n, n) {
            return Err(format!("{n_running} of {}, of {n}", pods.len()));
        }
        let found = |p: &Value| (text(p, "/metadata/uid").to_owned(), text(p, "/spec/nodeName").to_owned());
        Ok(pods.iter().map(found).collect())
    })
    .await
}

fn uids(pods: &[(String, String)]) -> HashSet<String> {
    pods.iter().map(|(uid, _)| uid.clone()).collect()
}

/// The metrics of an enforcer.
fn metrics(enforcer: &Berth) -> String {
    let address = process::eventually("the address is printed", || {
        let stderr = enforcer.stderr();
        let after = stderr.split("/metrics at http://").nth(1);
        after.and_then(|a| a.split_whitespace().next()).map(str::to_owned).ok_or(stderr.clone())
    });
    let mut stream = TcpStream::connect(address).unwrap();
    stream.write_all(b"GET /metrics HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}

async fn until_metrics(enforcer: &Berth, lines: &[&str]) {
    eventually("it is where it should be", async || {
        let metrics = metrics(enforcer);
        match lines.iter().find(|line| !metrics.lines().any(|l| l == **line)) {
            None => Ok(()),
            Some(line) => Err(format!("{line} is not in\n{metrics}")),
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_second_enforcer_takes_over_when_the_first_is_killed_and_respects_the_limits() {
    const N_PODS: usize = 10;
    const BUDGET: usize = 4;
    let directory = TempDir::new("killed-enforcer");
    let kubeconfig = directory.file("kubeconfig").display().to_string();
    let server = Berth::start(&directory, "apiserver", &["apiserver", "--kubeconfig-out", &kubeconfig]);
    server.line_after("export KUBECONFIG=");
    let client = connect(Path::new(&kubeconfig)).await;
    let with_config = |args: &[&str]| {
        let name = format!("{}-{}", args[0], args.len());
        Berth::start(&directory, &name, &[args, &["--kubeconfig", &kubeconfig]].concat())
    };
    let _kubelet = with_config(&["kubelet", "--nodes", "2", "--start-after", "0s", "--stop-after", "0s"]);
    let _scheduler = with_config(&["scheduler"]);
    eventually("the nodes exist", async || {
        let n = list(&client, "/api/v1/nodes").await.map_err(|e| e.to_string())?.len();
        if n == 2 { Ok(()) } else { Err(n.to_string()) }
    })
    .await;
    label(&client, "node-1", json!("ssd")).await;
    create(&client, REPLICA_SETS, on_ssd(N_PODS)).await;
    let before = uids(&running(&client, N_PODS).await);
    label(&client, "node-2", json!("ssd")).await;

    let budget = BUDGET.to_string();
    let replica = |name: &str| {
        let args = [
            "enforcer",
            "--kubeconfig",
            &kubeconfig,
            "--listen",
            "127.0.0.1:0",
            "--max-evictions-per-node",
            &budget,
            "--max-cluster-share",
            "100%",
            "--max-workload-share",
            "100%",
            // Slow enough to kill the enforcer between evictions.
            "--evictions-per-second",
            "1",
        ];
        Berth::start(&directory, name, &[&args[..], &REPLICA].concat())
    };
    let mut first = replica("first");
    until_metrics(&first, &["berth_enforcer_leader 1", "berth_enforcer_cache_size{type=\"pods\"} 10"]).await;
    let second = replica("second");
    until_metrics(&second, &["berth_enforcer_leader 0", "berth_enforcer_cache_size{type=\"pods\"} 10"]).await;
    label(&client, "node-1", Value::Null).await;
    eventually("a pod was evicted", async || {
        let pods = list(&client, PODS).await.map_err(|e| e.to_string())?;
        let n_left = pods.iter().filter(|p| before.contains(text(p, "/metadata/uid"))).count();
        if n_left < N_PODS { Ok(()) } else { Err(n_left.to_string()) }
    })
    .await;
    first.kill();
    until_metrics(
        &second,
        &[
            "berth_enforcer_leader 1",
            "berth_enforcer_held{reason=\"node_limit\"} 6",
            "berth_enforcer_violations{rule=\"node_affinity\"} 6",
        ],
    )
    .await;
    let after = running(&client, N_PODS).await;
    assert_eq!(before.difference(&uids(&after)).count(), BUDGET, "exactly the allowed number was evicted");
    let ledger = get(&client, "/api/v1/namespaces/kube-system/configmaps/berth-enforcer").await.unwrap();
    let written: Value = serde_json::from_str(text(&ledger, "/data/ledger.json")).unwrap();
    assert_eq!(written["evictions"].as_array().map(Vec::len), Some(BUDGET), "{written}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_dry_run_logs_the_evictions_of_the_enforcer_of_berth_up() {
    let directory = TempDir::new("enforced");
    let data = directory.file("data").display().to_string();
    let up = |name: &str, more: &[&str]| {
        let args = [&["up", "--nodes", "2", "--data-dir", &data, "--start-after", "0s"][..], more].concat();
        let up = Berth::start(&directory, name, &args);
        let kubeconfig = up.line_after("export KUBECONFIG=");
        (up, kubeconfig)
    };
    let (mut without, kubeconfig) = up("without", &["--no-enforcer"]);
    let client = connect(Path::new(&kubeconfig)).await;
    for node in ["node-1", "node-2"] {
        eventually("the nodes exist", async || {
            get(&client, &format!("/api/v1/nodes/{node}")).await.map_err(|e| e.to_string())
        })
        .await;
    }
    label(&client, "node-1", json!("ssd")).await;
    create(&client, REPLICA_SETS, on_ssd(1)).await;
    let before = running(&client, 1).await;
    label(&client, "node-2", json!("ssd")).await;
    label(&client, "node-1", Value::Null).await;

    let mut dry = Berth::start(&directory, "dry", &["enforcer", "--dry-run", "--kubeconfig", &kubeconfig]);
    process::eventually("the dry run logs the evictions", || {
        let stderr = dry.stderr();
        let is_logged = stderr.lines().any(|l| l.contains("would be evicted") && l.contains("disk"));
        if is_logged { Ok(()) } else { Err(stderr) }
    });
    dry.signal("TERM");
    assert_eq!(dry.wait().code(), Some(0));
    assert_eq!(running(&client, 1).await, before);
    without.signal("TERM");
    without.wait();

    let (up, kubeconfig) = up("with", &[]);
    let client = connect(Path::new(&kubeconfig)).await;
    eventually("the pod is on the other node", async || {
        let pods = running(&client, 1).await;
        if pods[0].1 == "node-2" { Ok(()) } else { Err(format!("{pods:?}")) }
    })
    .await;
    process::eventually("the summary counts it", || {
        let stderr = up.stderr();
        if stderr.contains("1 evicted") { Ok(()) } else { Err(stderr) }
    });
    let deleted = send(&client, Method::DELETE, &format!("{REPLICA_SETS}/web"), None).await;
    assert!(deleted.is_ok());
}
