//! `simulate` and `explain` with a live cluster: the embedded API server.

use std::fs;
use std::path::Path;

use berth_apiserver::{ApiServer, ServerOptions};
use berth_input::inventory::Inventory;
use berth_testkit::documents::repository;
use berth_testkit::programs::Ran;
use berth_testkit::programs::TempDir;
use serde_json::{Value, json};

use crate::program::berth;

/// The objects of a file, unchanged.
fn objects(path: &Path) -> Vec<Value> {
    let inventory = Inventory::from_text(&fs::read_to_string(path).unwrap()).unwrap();
    let raw = |value: &Option<Value>| value.clone().unwrap();
    let nodes = inventory.nodes.iter().map(|e| raw(&e.raw));
    let namespaces = inventory.namespaces.iter().map(|e| raw(&e.raw));
    let pods = inventory.pods.iter().map(|e| raw(&e.raw));
    let workloads = inventory.workloads.iter().map(|e| raw(&e.raw));
    let classes = inventory.priority_classes.iter().map(|e| raw(&e.raw));
    nodes.chain(namespaces).chain(classes).chain(workloads).chain(pods).collect()
}

/// Runs `work` with a server that has these objects.
fn with_server<T>(objects: Vec<Value>, work: impl FnOnce(&ApiServer) -> T) -> T {
    with_server_of(ServerOptions::default(), objects, work)
}

fn with_server_of<T>(options: ServerOptions, objects: Vec<Value>, work: impl FnOnce(&ApiServer) -> T) -> T {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    let server = runtime.block_on(ApiServer::start(options)).unwrap();
    runtime.block_on(server.import(objects)).unwrap();
    let result = work(&server);
    runtime.block_on(server.shutdown());
    result
}

fn run(args: &[&str]) -> Ran {
    berth(&repository(), args, b"")
}

#[test]
fn a_live_cluster_gives_the_same_explanation_as_its_files() {
    let from_files = run(&["explain", "-f", "examples/unschedulable", "database-1"]);
    let cluster = objects(&repository().join("examples/unschedulable/cluster.yaml"));
    let live = with_server(cluster, |server| {
        let kubeconfig = server.kubeconfig_path().to_str().unwrap();
        let options = ["explain", "--kubeconfig", kubeconfig];
        run(&[&options[..], &["-f", "examples/unschedulable/pod.yaml", "database-1"]].concat())
    });
    assert_eq!(
        (live.stdout, live.stderr, live.code),
        (from_files.stdout, from_files.stderr, from_files.code)
    );
}

#[test]
fn a_dump_of_a_cluster_gives_the_same_explanation_as_the_cluster() {
    let scratch = TempDir::new("dump");
    let file = scratch.0.join("cluster.json.gz");
    let file = file.to_str().unwrap();
    let cluster = objects(&repository().join("examples/unschedulable/cluster.yaml"));
    let more = ["-f", "examples/unschedulable/pod.yaml", "database-1"];
    let (dumped, live) = with_server(cluster, |server| {
        let kubeconfig = server.kubeconfig_path().to_str().unwrap();
        let options = ["explain", "--kubeconfig", kubeconfig];
        (run(&["dump", "--kubeconfig", kubeconfig, file]), run(&[&options[..], &more].concat()))
    });
    assert_eq!((dumped.stdout.as_str(), dumped.code), ("", 0), "{dumped:?}");
    let from_dump = run(&[&["explain", "--dump", file][..], &more].concat());
    assert_eq!((from_dump.stdout, from_dump.stderr, from_dump.code), (live.stdout, live.stderr, live.code));
}

#[test]
fn lint_asks_a_live_api_server_whether_it_drops_the_fields_of_the_proposals() {
    let with = |extensions: bool| {
        with_server_of(ServerOptions { extensions, ..ServerOptions::default() }, Vec::new(), |server| {
            let kubeconfig = server.kubeconfig_path().to_str().unwrap();
            run(&["lint", "--kubeconfig", kubeconfig, "-f", "examples/proposal-fields"])
        })
    };
    let standard = with(false);
    let expected =
        "proposal-field-dropped\n  spec.template.spec.affinity.podAntiAffinity.requiredDuringScheduling";
    assert!(standard.stdout.contains(expected), "{standard:?}");
    assert!(
        standard.stdout.contains("the API server of the cluster does not have the field"),
        "{standard:?}"
    );
    assert_eq!(standard.code, 1);
    let extended = with(true);
    assert!(!extended.stdout.contains("proposal-field-dropped"), "{extended:?}");
}

#[test]
fn files_overlay_a_live_cluster() {
    let cluster = objects(&repository().join("examples/zone-affinity/cluster.yaml"));
    let (first, second) = with_server(cluster, |server| {
        let kubeconfig = server.kubeconfig_path().to_str().unwrap();
        let options = ["simulate", "--kubeconfig", kubeconfig, "--context", "nobody"];
        let unknown = run(&options);
        assert_eq!(unknown.code, 2);
        assert!(unknown.stderr.contains("--context"), "{}", unknown.stderr);
        let alone = run(&options[..3]);
        let again = run(&[&options[..3], &["-f", "examples/zone-affinity"]].concat());
        (alone, again)
    });
    let from_files = run(&["simulate", "-f", "examples/zone-affinity"]);
    assert_eq!((&second.stdout, second.code), (&from_files.stdout, from_files.code));
    assert!(second.stderr.contains("note: replaced: "), "{}", second.stderr);
    assert_eq!(first.code, 0, "{}", first.stderr);
}

#[test]
fn long_lists_are_read_to_the_end() {
    let node = json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "a"},
        "status": {"allocatable": {"cpu": "4", "memory": "16Gi", "pods": "2000"}}});
    let pod = |i: usize| {
        json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": format!("p{i}"), "namespace": "default",
            "creationTimestamp": "2026-01-01T00:00:00Z", "labels": {"app": "p"}},
            "spec": {"containers": [{"name": "c", "image": "i"}], "nodeName": "a"}})
    };
    let objects = std::iter::once(node).chain((0..1201).map(pod)).collect();
    let scratch = TempDir::new("long-lists");
    fs::write(
        scratch.0.join("pod.yaml"),
        "{apiVersion: v1, kind: Pod, metadata: {name: new}, spec: {containers: [\
        {name: c, image: i}], affinity: {podAntiAffinity: {requiredDuringSchedulingIgnoredDuringExecution: [\
        {topologyKey: zone, labelSelector: {matchLabels: {app: p}}}]}}}}",
    )
    .unwrap();
    let ran = with_server(objects, |server| {
        let kubeconfig = server.kubeconfig_path().to_str().unwrap();
        berth(&scratch.0, &["simulate", "--kubeconfig", kubeconfig, "-f", "pod.yaml", "-o", "json"], b"")
    });
    let report: Value = serde_json::from_str(&ran.stdout).unwrap();
    let n_pods = report["pods"].as_array().unwrap().len();
    assert_eq!((n_pods, ran.code), (1202, 0), "{}", ran.stderr);
}

#[test]
fn read_errors_name_the_server_and_the_remedy() {
    let scratch = TempDir::new("live-errors");
    let (refused, url) = with_server(Vec::new(), |server| {
        let text = fs::read_to_string(server.kubeconfig_path()).unwrap();
        let token = text.lines().find(|line| line.contains("token:")).unwrap();
        fs::write(scratch.0.join("kubeconfig"), text.replace(token, "    token: wrong")).unwrap();
        fs::write(scratch.0.join("gone"), &text).unwrap();
        let args = ["simulate", "--kubeconfig", "kubeconfig"];
        (berth(&scratch.0, &args, b""), server.url().to_owned())
    });
    assert_eq!((refused.code, refused.stdout.as_str()), (2, ""));
    assert!(refused.stderr.contains(&format!("{url}: GET /api/v1/nodes: 401")), "{}", refused.stderr);
    assert!(refused.stderr.contains("renew the credentials"), "{}", refused.stderr);

    let gone = berth(&scratch.0, &["explain", "--kubeconfig", "gone", "web-0"], b"");
    assert_eq!(gone.code, 2);
    assert!(
        gone.stderr.contains(&url) && gone.stderr.contains("check that the server runs"),
        "{}",
        gone.stderr
    );

    let missing = berth(&scratch.0, &["simulate", "--kubeconfig", "nowhere"], b"");
    assert_eq!(missing.code, 2);
    assert!(
        missing.stderr.contains("nowhere: ") && missing.stderr.contains("--kubeconfig"),
        "{}",
        missing.stderr
    );
}

#[test]
fn a_component_ends_if_what_it_watches_exceeds_the_cache_limit() {
    let ended = with_server(Vec::new(), |server| {
        let kubeconfig = server.kubeconfig_path().to_str().unwrap();
        let limit = ["--kubeconfig", kubeconfig, "--cache-limit", "1Ki"];
        let components: [&[&str]; 4] = [
            &["scheduler"],
            &["enforcer"],
            &["webhook", "--listen", "127.0.0.1:0"],
            &["console", "--live", "--address", "127.0.0.1:0"],
        ];
        components.map(|component| run(&[component, &limit].concat()))
    });
    for Ran { stderr, code, .. } in ended {
        assert_eq!(code, 2, "{stderr}");
        let expected = "the objects exceed the limit of 1024 bytes for their JSON and 2048 bytes for each, or for the memory of the process: if the server \
                        is right, raise the limit (--cache-limit)";
        assert!(stderr.lines().last().unwrap().contains(expected), "{stderr}");
    }
}
