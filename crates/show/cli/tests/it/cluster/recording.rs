//! Recordings of a scheduler that is killed while pods come and go.

use std::fs::File;
use std::io::Read;
use std::process::{Command, Output};

use berth_api::object::time::rfc3339_micros;
use berth_testkit::programs::TempDir;
use flate2::read::MultiGzDecoder;
use http::Method;
use jiff::Timestamp;
use serde_json::{Value, json};

use crate::client::{connect, create, eventually, list, send};
use crate::process::Berth;

const PODS: &str = "/api/v1/namespaces/default/pods";
const SECRET: &str = "never-to-be-recorded";

fn berth(args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_berth")).args(args).output().unwrap()
}

fn stdout(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr)
}

fn pod(name: &str, priority: &str, cpu: &str) -> Value {
    let term =
        json!({"labelSelector": {"matchLabels": {"app": "web"}}, "topologyKey": "kubernetes.io/hostname"});
    let affinity = json!({"podAntiAffinity": {"preferredDuringSchedulingIgnoredDuringExecution":
        [{"weight": 10, "podAffinityTerm": term}]}});
    let container = json!({"name": "c", "image": "i", "args": [SECRET], "env": [{"name": "P", "value": SECRET}],
        "resources": {"requests": {"cpu": cpu}}});
    json!({"apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": name, "labels": {"app": "web"}, "annotations": {"note": SECRET}},
        "spec": {"priorityClassName": priority, "affinity": affinity, "containers": [container],
            "terminationGracePeriodSeconds": 0}})
}

/// All text of the files, up to where they were cut.
fn recorded(directory: &std::path::Path) -> String {
    let mut text = Vec::new();
    for entry in directory.read_dir().unwrap() {
        let mut gzip = MultiGzDecoder::new(File::open(entry.unwrap().path()).unwrap());
        let mut chunk = [0; 1 << 12];
        while let Ok(n @ 1..) = gzip.read(&mut chunk) {
            text.extend_from_slice(&chunk[..n]);
        }
    }
    String::from_utf8(text).unwrap()
}

#[tokio::test]
async fn a_killed_scheduler_leaves_a_recording_that_replays_and_explains() {
    let directory = TempDir::new("recording");
    let recordings = directory.file("recordings");
    let recordings = recordings.to_str().unwrap();
    let server = Berth::start(
        &directory,
        "server",
        &[
            "up",
            "--nodes",
            "3",
            "--zones",
            "3",
            "--no-summary",
            "--scheduler-name",
            "nobody",
            "--node-cpu",
            "4",
            "--start-after",
            "0s",
            "--stop-after",
            "0s",
        ],
    );
    let kubeconfig = server.line_after("export KUBECONFIG=");
    let client = connect(std::path::Path::new(&kubeconfig)).await;
    for (name, value) in [("low", 1), ("high", 100)] {
        let class = json!({"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass",
            "metadata": {"name": name}, "value": value});
        create(&client, "/apis/scheduling.k8s.io/v1/priorityclasses", class).await;
    }
    let args = [
        "scheduler",
        "--kubeconfig",
        &kubeconfig,
        "--scheduler-name",
        "default-scheduler",
        "--record",
        recordings,
    ];
    let mut scheduler = Berth::start(&directory, "scheduler", &args);

    let until_bound = async |n: usize| {
        eventually(&format!("{n} pods are bound"), async || {
            let pods = list(&client, PODS).await.map_err(|e| e.to_string())?;
            let n_bound = pods.iter().filter(|pod| pod["spec"]["nodeName"].is_string()).count();
            if n_bound == n { Ok(()) } else { Err(format!("{n_bound} are")) }
        })
        .await;
    };
    for round in 0..3 {
        for i in 0..6 {
            create(&client, PODS, pod(&format!("web-{round}-{i}"), "low", "1500m")).await;
        }
        until_bound(6).await;
        if round < 2 {
            for i in 0..6 {
                send(&client, Method::DELETE, &format!("{PODS}/web-{round}-{i}"), None).await.unwrap();
            }
            until_bound(0).await;
        }
    }
    let before = rfc3339_micros(Timestamp::now());
    // It preempts pods; the next is unschedulable.
    create(&client, PODS, pod("important", "high", "3")).await;
    eventually("the important pod is bound", async || {
        let found = send(&client, Method::GET, &format!("{PODS}/important"), None).await;
        found.map_err(|e| e.to_string())?["spec"]["nodeName"]
            .as_str()
            .map(|_| ())
            .ok_or("it is not".to_owned())
    })
    .await;
    create(&client, PODS, pod("huge", "low", "40")).await;
    eventually("the decision about the last pod is written", async || {
        let text = recorded(directory.file("recordings").as_path());
        let is_written = |line: &str| line.starts_with(r#"{"preemption":{"pod":"default/huge""#);
        if text.lines().any(is_written) { Ok(()) } else { Err(scheduler.stderr()) }
    })
    .await;
    scheduler.kill();

    let text = recorded(directory.file("recordings").as_path());
    assert!(!text.contains(SECRET), "a secret is recorded");
    let ran = berth(&["replay", recordings, "-o", "json"]);
    let report: Value = serde_json::from_slice(&ran.stdout).unwrap();
    assert_eq!(report["nDifferences"], 0, "{report}");
    assert!(report["nSteps"].as_u64().unwrap() >= 21, "{report}");

    let config = directory.file("config.yaml");
    std::fs::write(
        &config,
        "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\nprofiles: [{plugins: \
        {filter: {disabled: [{name: NodeResourcesFit}]}}}]\n",
    )
    .unwrap();
    let other = berth(&["replay", recordings, "--config", config.to_str().unwrap()]);
    assert!(stdout(&other).contains("pod default/huge: chosen"), "{}", stdout(&other));
    assert_eq!(other.status.code(), Some(1));

    let now = berth(&["explain", "--recording", recordings, "huge"]);
    assert!(stdout(&now).contains("0/3 nodes are available: 3 Insufficient cpu."), "{}", stdout(&now));
    assert_eq!(now.status.code(), Some(1));
    let missing = berth(&["explain", "--recording", recordings, "--at", &before, "huge"]);
    assert!(stdout(&missing).contains("Pod huge is not in the input"), "{}", stdout(&missing));
    let earlier = berth(&["explain", "--recording", recordings, "--at", &before, "default/web-2-5"]);
    assert!(stdout(&earlier).contains("runs on node-"), "{}", stdout(&earlier));
    let never = berth(&["explain", "--recording", recordings, "--at", "2020-01-01T00:00:00Z", "huge"]);
    assert!(stdout(&never).contains("no journal covers 2020-01-01T00:00:00"), "{}", stdout(&never));
    assert_eq!(never.status.code(), Some(2));
}

#[tokio::test]
async fn decisions_of_another_scheduler_are_recorded_by_watching() {
    let directory = TempDir::new("observed");
    let recordings = directory.file("recordings");
    let recordings = recordings.to_str().unwrap();
    let options = ["up", "--nodes", "3", "--zones", "3", "--no-summary", "--node-cpu", "4", "--strict-v1"];
    let server = Berth::start(&directory, "server", &options);
    let kubeconfig = server.line_after("export KUBECONFIG=");
    let client = connect(std::path::Path::new(&kubeconfig)).await;
    let args = ["record", "--live", "--kubeconfig", &kubeconfig, recordings];
    let mut observer = Berth::start(&directory, "observer", &args);
    let until_recorded = async |what: &str| {
        eventually(&format!("{what} is recorded"), async || {
            let text = directory.file("recordings").is_dir().then(|| recorded(&directory.file("recordings")));
            if text.unwrap_or_default().contains(what) { Ok(()) } else { Err(observer.stderr()) }
        })
        .await;
    };
    until_recorded(r#"{"complete":{}}"#).await;
    // One after the other: then the state is the one in which each was decided.
    for i in 0..5 {
        create(&client, PODS, pod(&format!("web-{i}"), "", "1")).await;
        until_recorded(&format!(r#"{{"decision":{{"pod":"default/web-{i}","node":"node-"#)).await;
    }
    create(&client, PODS, pod("huge", "", "40")).await;
    until_recorded(r#"{"decision":{"pod":"default/huge","message":"0/3 nodes are available"#).await;
    observer.signal("TERM");
    assert!(observer.wait().success(), "{}", observer.stderr());

    let ran = berth(&["replay", recordings]);
    assert_eq!(stdout(&ran), "1 scenario, 6 steps, 0 differences\n");
    assert!(!recorded(&directory.file("recordings")).contains(SECRET), "a secret is recorded");
}
