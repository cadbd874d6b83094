//! `berth up` and the component commands: startup, output and exit.

use std::fs;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::Path;

use berth_testkit::documents::repository;
use berth_testkit::programs::TempDir;

use crate::client::{connect, create, eventually, get, text};
use crate::process::{self, Berth};

/// Runs `berth` and returns the exit code, standard output and standard error.
fn finish(directory: &TempDir, args: &[&str]) -> (Option<i32>, String, String) {
    let mut berth = Berth::start(directory, "berth", args);
    let stdout = berth.rest();
    let code = berth.wait().code();
    let stderr = berth.stderr();
    fs::remove_file(directory.file("berth.stderr")).unwrap();
    (code, stdout, stderr)
}

#[test]
fn up_places_the_redis_example_and_shows_the_placement() {
    let directory = TempDir::new("main-job");
    let args = ["up", "--nodes", "3", "--zones", "3", "-f", "examples/redis-web", "--exit-when-settled"];
    let (code, stdout, stderr) = finish(&directory, &args);
    assert_eq!(code, Some(0), "{stdout}{stderr}");
    assert!(!stdout.contains("KUBECONFIG"), "the cluster is gone: {stdout}");
    let nodes_of = |name: &str| {
        let lines = stdout.lines().filter(|l| l.starts_with(&format!("default/{name}-")));
        let mut nodes: Vec<_> = lines.filter_map(|l| l.split_whitespace().nth(1)).collect();
        nodes.sort_unstable();
        nodes
    };
    let all = ["node-1", "node-2", "node-3"];
    assert_eq!((nodes_of("redis-cache"), nodes_of("web-server")), (all.to_vec(), all.to_vec()), "{stdout}");
    assert!(stdout.contains("All 6 pods are placed; 3 nodes"), "{stdout}");
}

#[test]
fn the_printed_kubeconfig_is_absolute_and_the_start_has_no_warnings() {
    let directory = TempDir::new("relative");
    let up_to_root = "../".repeat(repository().canonicalize().unwrap().components().count() - 1);
    let relative = format!("{up_to_root}{}", &directory.file("here").display().to_string()[1..]);
    let args = ["up", "--nodes", "1", "--kubeconfig-out", &relative, "--console=127.0.0.1:0"];
    let up = Berth::start(&directory, "up", &args);
    let printed = up.line_after("export KUBECONFIG=");
    assert!(Path::new(&printed).is_absolute() && Path::new(&printed).exists(), "{printed}");
    let log = process::eventually("the cluster runs", || {
        let log = up.stderr();
        if log.contains("1 node ready") { Ok(log) } else { Err(log) }
    });
    assert!(!log.contains("WARN"), "{log}");
}

#[test]
fn a_console_whose_address_cannot_be_used_fails_before_the_cluster_starts() {
    let directory = TempDir::new("console-address");
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap();
    for (console, why) in [
        (address.to_string(), "cannot listen on"),
        ("192.0.2.1:8080".to_owned(), "on loopback addresses only"),
    ] {
        let (code, stdout, stderr) =
            finish(&directory, &["up", "--nodes", "1", &format!("--console={console}")]);
        assert_eq!(code, Some(2), "{stdout}{stderr}");
        assert!(stderr.contains(why), "{stderr}");
        assert!(!stdout.contains("KUBECONFIG") && !stderr.contains("note: ready"), "{stdout}{stderr}");
    }
}

#[test]
fn unschedulable_pods_are_shown_with_their_reason() {
    let directory = TempDir::new("unplaced");
    let args = ["up", "--nodes", "2", "-f", "examples/redis-web", "--exit-when-settled", "--no-summary"];
    let (code, stdout, stderr) = finish(&directory, &args);
    assert_eq!(code, Some(1), "{stdout}{stderr}");
    assert!(stdout.contains("2 of 6 pods are unplaced; 4 placed; 2 nodes"), "{stdout}");
    assert!(
        stdout.contains("0/2 nodes are available: 2 node(s) didn't match pod anti-affinity rules."),
        "{stdout}"
    );
    // As `simulate` shows them: the rule, and the pods that cause it.
    assert!(stdout.contains("bottleneck:") && stdout.contains("; caused by default/"), "{stdout}");
}

#[test]
fn a_running_cluster_reports_unschedulable_pods_with_their_reason() {
    let directory = TempDir::new("running");
    let up = Berth::start(&directory, "up", &["up", "--nodes", "2", "-f", "examples/redis-web"]);
    let log = process::eventually("the unplaced pods are explained", || {
        let log = up.stderr();
        let is_explained = ["redis-cache", "web-server"].iter().all(|name| {
            let begin = format!("Deployment {name}: 1 pod unplaced: default/{name}-");
            log.lines().any(|line| line.starts_with(&begin))
        });
        if is_explained && log.contains("; caused by default/") { Ok(log) } else { Err(log) }
    });
    assert!(log.contains("bottleneck:"), "{log}");
}

#[test]
fn a_stuck_rolling_update_names_the_change_that_lets_it_proceed() {
    let directory = TempDir::new("stuck");
    let data = directory.file("data").display().to_string();
    let up = |image: &str| {
        let deployment = format!(
            "{{apiVersion: apps/v1, kind: Deployment, metadata: {{name: web}}, spec: {{replicas: 1, \
             strategy: {{rollingUpdate: {{maxSurge: 1, maxUnavailable: 0}}}}, selector: {{matchLabels: {{app: web}}}}, \
             template: {{metadata: {{labels: {{app: web}}}}, \
             spec: {{containers: [{{name: c, image: {image}, resources: {{requests: {{cpu: 3}}}}}}]}}}}}}}}"
        );
        let file = directory.file("deployment.yaml");
        fs::write(&file, deployment).unwrap();
        let file = file.display().to_string();
        let args =
            ["up", "--nodes", "1", "--data-dir", &data, "-f", &file, "--exit-when-settled", "--no-summary"];
        finish(&directory, &args)
    };
    let (code, stdout, stderr) = up("a");
    assert_eq!(code, Some(0), "{stdout}{stderr}");
    let (code, stdout, stderr) = up("b");
    assert_eq!(code, Some(1), "{stdout}{stderr}");
    assert!(stdout.contains("bottleneck:\n  NodeResourcesFit spec.containers[*]"), "{stdout}");
    assert!(
        stdout.contains("the rolling update is stuck") && stdout.contains("maxUnavailable: 1"),
        "{stdout}"
    );
}

#[test]
fn rejected_manifests_are_named_with_file_and_field() {
    let directory = TempDir::new("refused");
    let file = directory.file("bad.yaml");
    let pod = "apiVersion: v1\nkind: Pod\nmetadata: {name: good}\nspec: {containers: [{name: c, image: i}]}\n---\n\
        apiVersion: v1\nkind: Pod\nmetadata: {name: bad}\nspec:\n  nodeSelector: {'not a key': x}\n  \
        containers: [{name: c, image: i}]\n";
    fs::write(&file, pod).unwrap();
    let file = file.display().to_string();
    let (code, _, stderr) = finish(&directory, &["up", "--no-summary", "-f", &file]);
    assert_eq!(code, Some(2), "{stderr}");
    let begin = format!("error: {file}:6: Pod default/bad: spec.nodeSelector: Invalid value: ");
    assert!(stderr.lines().any(|l| l.starts_with(&begin)), "{stderr}");
}

#[test]
fn invalid_usage_is_reported_before_startup() {
    let directory = TempDir::new("usage");
    let own = directory.file(".kube");
    fs::create_dir_all(&own).unwrap();
    let own = own.join("config");
    fs::write(&own, "apiVersion: v1\nkind: Config\nclusters: [{name: mine}]\n").unwrap();
    let own = own.display().to_string();
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = taken.local_addr().unwrap().port().to_string();
    for (args, expected) in [
        (vec!["up", "-f", "no/such.yaml"], "no/such.yaml: no such file"),
        (vec!["up", "--from", "no/such.yaml"], "no/such.yaml: no such file"),
        (vec!["up", "--config", "examples/redis-web/redis-cache.yaml"], "no KubeSchedulerConfiguration"),
        (vec!["up", "--kubeconfig-out", &own], "was not written by berth"),
        (vec!["apiserver", "--port", &port], &port),
        (vec!["scheduler", "--kubeconfig", "no/such"], "no/such"),
        (vec!["kubelet", "--nodes", "3", "--kubeconfig", "no/such"], "no/such"),
        (vec!["kubelet"], "--nodes"),
    ] {
        let (code, stdout, stderr) = finish(&directory, &args);
        assert_eq!((code, stdout.as_str()), (Some(2), ""), "{args:?}: {stderr}");
        assert!(stderr.contains(expected), "{args:?}: {stderr}");
    }
    assert!(fs::read_to_string(own).unwrap().contains("mine"));
}

#[tokio::test(flavor = "multi_thread")]
async fn up_stops_cleanly_and_continues_from_its_data_directory() {
    let directory = TempDir::new("again");
    let data = directory.file("data").display().to_string();
    let args = ["up", "--no-summary", "--data-dir", &data, "--start-after", "0s"];
    let mut before = String::new();
    for signal in ["INT", "TERM"] {
        let mut berth = Berth::start(&directory, "up", &args);
        let kubeconfig = berth.line_after("export KUBECONFIG=");
        assert!(kubeconfig.starts_with(&data), "{kubeconfig}");
        let client = connect(Path::new(&kubeconfig)).await;
        if before.is_empty() {
            let map =
                serde_json::json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "kept"}});
            create(&client, "/api/v1/namespaces/default/configmaps", map).await;
        }
        let kept = get(&client, "/api/v1/namespaces/default/configmaps/kept").await.unwrap();
        let uid = text(&kept, "/metadata/uid").to_owned();
        assert!(before.is_empty() || uid == before);
        before = uid;
        eventually("nodes register", async || {
            let nodes = get(&client, "/api/v1/nodes").await.map_err(|e| e.to_string())?;
            let n_nodes = nodes["items"].as_array().map_or(0, Vec::len);
            if n_nodes == 3 { Ok(()) } else { Err(n_nodes.to_string()) }
        })
        .await;
        berth.signal(signal);
        assert_eq!(berth.wait().code(), Some(0), "{}", berth.stderr());
    }
}

#[test]
fn keys_in_temporary_directories_are_removed_after_any_signal() {
    let directory = TempDir::new("temporary");
    let keys = || {
        let entries = fs::read_dir(&directory.0).unwrap().map(|entry| entry.unwrap().path());
        let berth = entries.filter(|path| path.file_name().unwrap().to_string_lossy().starts_with("berth-"));
        berth.collect::<Vec<_>>()
    };
    // Under `nohup` the processes inherit that SIGHUP is ignored.
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let ignored =
        status.lines().find_map(|line| u64::from_str_radix(line.strip_prefix("SigIgn:")?.trim(), 16).ok());
    let ends_by = |signal: &str| signal != "HUP" || ignored.is_none_or(|signals| signals & 1 == 0);
    for signal in ["HUP", "TERM"].into_iter().filter(|signal| ends_by(signal)) {
        let mut berth = Berth::start(&directory, "berth", &["apiserver"]);
        process::eventually("the kubeconfig exists", || {
            let exists = keys().iter().any(|dir| dir.join("kubeconfig").exists());
            if exists { Ok(()) } else { Err(berth.stderr()) }
        });
        berth.signal(signal);
        berth.wait();
        assert_eq!(keys(), [] as [std::path::PathBuf; 0], "after SIG{signal}: {}", berth.stderr());
    }
}

#[test]
fn imported_pods_stay_on_their_nodes() {
    let dumps = repository().join("../shared/data/dumps");
    if !dumps.exists() {
        eprintln!("{} not found: nothing is started from it", dumps.display());
        return;
    }
    let directory = TempDir::new("dumps");
    for (name, code_expected, expected) in [
        // One of its pods requires a node that does not exist.
        ("minikube-1.34", 1, "1 of 25 pods is unplaced; 24 running; 1 node"),
        ("support-bundle", 0, ""),
    ] {
        let dump = dumps.join(name).display().to_string();
        let args = ["up", "--from", &dump, "--exit-when-settled", "--no-summary", "--start-after", "0s"];
        let (code, stdout, stderr) = finish(&directory, &args);
        assert_eq!(code, Some(code_expected), "{name}: {stdout}{stderr}");
        assert!(stdout.contains(expected), "{name}: {stdout}");
    }
}

#[test]
fn up_from_a_dump_tells_which_of_its_files_are_left_out() {
    let directory = TempDir::new("left-out");
    let dump = directory.file("dump");
    fs::create_dir_all(&dump).unwrap();
    for (name, text) in [
        ("node.yaml", "apiVersion: v1\nkind: Node\nmetadata: {name: node-a}\n"),
        ("broken.yaml", "kind: [\n"),
        ("settings.json", "[1, 2]\n"),
    ] {
        fs::write(dump.join(name), text).unwrap();
    }
    let dump = dump.display().to_string();
    let args = ["up", "--from", &dump, "--exit-when-settled", "--no-summary", "--start-after", "0s"];
    let (code, stdout, stderr) = finish(&directory, &args);
    assert_eq!(code, Some(0), "{stdout}{stderr}");
    assert!(
        stderr.contains("broken.yaml") && stderr.contains("the rest of this file is left out"),
        "{stderr}"
    );
    assert!(stderr.contains("left out: 1 file without objects of Kubernetes"), "{stderr}");
    assert!(!stderr.contains("broken.yaml: no objects"), "{stderr}");
}

#[tokio::test(flavor = "multi_thread")]
async fn invalid_requests_are_rejected_without_side_effects() {
    let directory = TempDir::new("nonsense");
    let mut server = Berth::start(&directory, "apiserver", &["apiserver"]);
    let kubeconfig = server.line_after("export KUBECONFIG=");
    let text = fs::read_to_string(&kubeconfig).unwrap();
    let address = text.split_once("server: https://").unwrap().1.lines().next().unwrap().trim().to_owned();
    for nonsense in [&b"GET / HTTP/1.1\r\n\r\n"[..], &[0xff; 100_000], b"\x16\x03\x01\x00\x01", b""] {
        let mut stream = TcpStream::connect(&address).unwrap();
        // The server can close the connection before the request is complete.
        let _ = stream.write_all(nonsense);
        let _ = stream.shutdown(std::net::Shutdown::Write);
        let _ = stream.read_to_end(&mut Vec::new());
    }
    let client = connect(Path::new(&kubeconfig)).await;
    get(&client, "/api/v1/namespaces/default").await.unwrap();
    let path = "/api/v1/namespaces/default/pods/..%2F..%2F..%2Fetc%2Fpasswd";
    let refused = get(&client, path).await.unwrap_err();
    assert!(refused.is_refusal(), "{refused}");
    server.signal("TERM");
    assert_eq!(server.wait().code(), Some(0));
}
