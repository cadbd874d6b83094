//! What one user asks for, and would be much work, beside the requests of another user.
//!
//! How long the other user waits is measured in the processor time that the process uses meanwhile: a request that waits for the work of
//! another one waits at least as long as that takes.

use std::cell::{Cell, RefCell};
use std::time::Duration;

use berth_client::call;
use berth_testkit::programs::TempDir;
use futures::future::join_all;
use http::Method;
use serde_json::{Value, json};

use super::pages::cost_of;
use super::requests::{PODS, RBAC, Server, bind, budget, texts};
use super::scheduling::decided;
use crate::client::{connect, create, eventually, send};
use crate::cluster::console::Viewer;
use crate::process::Berth;

/// How much longer a request may wait beside an attack: half a second of two cores.
const MOST: Duration = Duration::from_secs(1);
/// Probes without an attack, and at least as many beside it.
const PROBES: usize = 3;

/// Fails if a probe waits longer while the requests of an attack are answered.
async fn assert_waits_little(
    process: &Berth,
    attack: impl IntoIterator<Item = impl Future<Output = ()>>,
    probe: impl AsyncFn(),
) {
    let mut alone = Duration::ZERO;
    for _ in 0..PROBES {
        alone = alone.max(cost_of(process, probe()).await.unwrap());
    }
    let (has_ended, mut longest) = (Cell::new(false), Duration::ZERO);
    let attack = async {
        join_all(attack).await;
        has_ended.set(true);
    };
    let probes = async {
        let mut n = 0;
        while n < PROBES || !has_ended.get() {
            let beside = cost_of(process, probe()).await;
            assert!(beside.is_some_and(|beside| beside <= alone + MOST), "{beside:?} instead of {alone:?}");
            longest = longest.max(beside.unwrap());
            n += 1;
        }
        n
    };
    let ((), n) = tokio::join!(attack, probes);
    println!("{n} probes: {longest:?} beside the attack, {alone:?} without it");
}

fn map(n: usize) -> Value {
    Value::Object((0..n).map(|i| (format!("key-{i}"), "v".into())).collect())
}

fn pod(name: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "namespace": "default"},
        "spec": {"containers": [{"name": "c", "image": "i"}]},
    })
}

fn large_pod(n_keys: usize) -> Value {
    let mut pod = pod("large");
    pod["spec"]["nodeSelector"] = map(n_keys);
    pod
}

/// A console of some objects and ten nodes with the labels that the large pod wants.
fn console(directory: &TempDir, objects: impl IntoIterator<Item = Value>) -> (Berth, Viewer) {
    let node = |i: usize| {
        let status = json!({"allocatable": {"cpu": "8", "memory": "32Gi", "pods": "110"}});
        json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": format!("node-{i}"), "labels": map(100)}, "status": status})
    };
    let items: Value = (0..10).map(node).chain(objects).collect();
    let file = directory.file("cluster.json");
    std::fs::write(&file, json!({"apiVersion": "v1", "kind": "List", "items": items}).to_string()).unwrap();
    let args = ["console", "-f", file.to_str().unwrap(), "--address", "127.0.0.1:0"];
    let console = Berth::start(directory, "console", &args);
    let viewer = Viewer::of(&console);
    (console, viewer)
}

/// Asks for pages that are not rendered yet.
async fn assert_pages_wait_little(console: &Berth, viewer: &Viewer, attack: impl Iterator<Item = String>) {
    let get = async |path: String| drop(viewer.get(&path).await);
    let n = Cell::new(0);
    let probe = async || {
        let n = n.replace(n.get() + 1);
        viewer.get(&format!("/nodes?n={n}")).await.unwrap();
    };
    assert_waits_little(console, attack.map(get), probe).await;
}

#[tokio::test]
async fn pages_do_not_wait_for_the_page_of_a_pod_with_many_selector_keys() {
    let directory = TempDir::new("attack-page");
    let (console, viewer) = console(&directory, [large_pod(20_000)]);
    // Three of the four pages that are rendered at a time.
    let attack = (0..3).map(|i| format!("/pods/default/large?n={i}"));
    assert_pages_wait_little(&console, &viewer, attack).await;
}

#[tokio::test]
async fn pages_do_not_wait_for_the_sets_of_many_budgets() {
    let directory = TempDir::new("attack-sets");
    let budget = |i: usize| {
        let expression = json!({"key": format!("key-{}", i % 40), "operator": "DoesNotExist"});
        json!({
            "apiVersion": "policy/v1", "kind": "PodDisruptionBudget",
            "metadata": {"name": format!("budget-{i}"), "namespace": "default"},
            "spec": {"minAvailable": 1, "selector": {"matchExpressions": [expression]}},
        })
    };
    let (console, viewer) = console(&directory, (0..4000).map(budget).chain([pod("web")]));
    assert_pages_wait_little(&console, &viewer, (0..2).map(|i| format!("/sets?n={i}"))).await;
    assert!(resident_bytes(&console) < 1 << 30, "{}", resident_bytes(&console));
}

fn resident_bytes(process: &Berth) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{}/status", process.id())).unwrap();
    let most = status.split_once("VmHWM:").unwrap().1.split_whitespace().next().unwrap();
    most.parse::<u64>().unwrap() << 10
}

#[tokio::test]
async fn a_pod_is_scheduled_beside_one_with_many_selector_keys() {
    let directory = TempDir::new("attack-pod");
    let up = Berth::start(&directory, "up", &["up", "--nodes", "50", "--zones", "2"]);
    let kubeconfig = up.line_after("export KUBECONFIG=");
    let admin = connect(kubeconfig.as_ref()).await;
    let pods = "/api/v1/namespaces/default/pods";
    let n = Cell::new(0);
    let probe = async || {
        let name = format!("small-{}", n.replace(n.get() + 1));
        create(&admin, pods, pod(&name)).await;
        decided(&admin, &name).await;
    };
    let attack = async {
        create(&admin, pods, large_pod(60_000)).await;
        decided(&admin, "large").await;
    };
    assert_waits_little(&up, [attack], probe).await;
}

/// The pods of a group, all different: that a zone has a node less than they need shows only after all arrangements of them.
fn group(i: usize) -> impl Iterator<Item = Value> {
    let name = format!("group-{i}");
    (0..11).map(move |at| {
        let mut member = pod(&format!("{name}-{at}"));
        member["metadata"]["labels"] = json!({"group": name});
        member["metadata"]["annotations"] = json!({
            "scheduling.berth.dev/group": name, "scheduling.berth.dev/group-min": "11",
            "scheduling.berth.dev/group-required-topology": "topology.kubernetes.io/zone",
        });
        let requests = json!({"cpu": format!("{}m", 100 + at + i)});
        member["spec"]["containers"][0]["resources"] = json!({"requests": requests});
        let selector = json!({"matchLabels": {"group": name}});
        let term = json!({"labelSelector": selector, "topologyKey": "kubernetes.io/hostname"});
        let apart = json!({"requiredDuringSchedulingIgnoredDuringExecution": [term]});
        member["spec"]["affinity"] = json!({"podAntiAffinity": apart});
        member
    })
}

#[tokio::test]
async fn a_pod_is_scheduled_beside_groups_whose_searches_are_long() {
    let directory = TempDir::new("attack-groups");
    let up = Berth::start(&directory, "up", &["up", "--nodes", "40", "--zones", "4"]);
    let kubeconfig = up.line_after("export KUBECONFIG=");
    let admin = connect(kubeconfig.as_ref()).await;
    let pods = "/api/v1/namespaces/default/pods";
    let n = Cell::new(0);
    let probe = async || {
        let name = format!("small-{}", n.replace(n.get() + 1));
        create(&admin, pods, pod(&name)).await;
        decided(&admin, &name).await;
    };
    let attack = async {
        for member in (0..10).flat_map(group) {
            create(&admin, pods, member).await;
        }
        for i in 0..10 {
            decided(&admin, &format!("group-{i}-0")).await;
        }
    };
    assert_waits_little(&up, [attack], probe).await;
}

/// An API server with a user who may read config maps, and with as many of them.
async fn server_with_config_maps(directory: &TempDir, n: usize) -> Server {
    let server = Server::start(directory, "server").await;
    let rule = json!({"apiGroups": [""], "resources": ["configmaps"], "verbs": ["get", "list", "watch"]});
    bind(&server.admin, "reader", &json!([rule])).await;
    for i in 0..n {
        create(&server.admin, MAPS, json!({"metadata": {"name": format!("m{i}")}})).await;
    }
    server
}

const MAPS: &str = "/api/v1/namespaces/default/configmaps";

/// Requirements on labels that no object has, of about 60 kB.
fn selector(i: usize) -> String {
    (0..6500).map(|j| format!("!{i:03x}{j:04}")).collect::<Vec<_>>().join(",")
}

#[tokio::test]
async fn requests_do_not_wait_for_lists_with_long_selectors() {
    let directory = TempDir::new("attack-lists");
    let server = server_with_config_maps(&directory, 1000).await;
    let list = async |i| {
        let path = format!("{MAPS}?labelSelector={}", selector(i));
        assert_eq!(send(&server.user, Method::GET, &path, None).await.unwrap_err().code(), Some(413));
    };
    let probe = async || drop(send(&server.admin, Method::GET, &format!("{MAPS}/m0"), None).await.unwrap());
    assert_waits_little(&server.process, (0..20).map(list), probe).await;
}

#[tokio::test]
async fn requests_do_not_wait_for_watches_with_long_selectors_which_take_little_memory() {
    let directory = TempDir::new("attack-watches");
    let server = server_with_config_maps(&directory, 1).await;
    let before = resident_bytes(&server.process);
    let answers = RefCell::new(Vec::new());
    let watch = async |connection: usize| {
        for i in 0..50_usize {
            let path = format!("{MAPS}?watch=true&labelSelector={}", selector(50 * connection + i));
            let answer = server.user.send(call::get(&path).map(kube::client::Body::from)).await.unwrap();
            answers.borrow_mut().push(answer);
        }
    };
    let probe = async || drop(send(&server.admin, Method::GET, &format!("{MAPS}/m0"), None).await.unwrap());
    assert_waits_little(&server.process, (0..8).map(watch), probe).await;
    let answers = answers.into_inner();
    let n_open = answers.iter().filter(|answer| answer.status().is_success()).count();
    assert!(n_open > 0 && n_open < answers.len(), "{n_open} of {} are open", answers.len());
    let grown = resident_bytes(&server.process) - before;
    assert!(grown < 150 << 20, "{n_open} watches, {grown} bytes");
}

/// Waits for reads of an administrator, and for one of the administrator's requests that are always heavy.
async fn assert_requests_wait_little(
    server: &Server,
    attack: impl IntoIterator<Item = impl Future<Output = ()>>,
) {
    let n = Cell::new(0);
    let probe = async || {
        let name = format!("other-{}", n.replace(n.get() + 1));
        let role = json!({"metadata": {"name": name}, "rules": [{"verbs": ["get"], "apiGroups": [""], "resources": ["pods"]}]});
        send(&server.admin, Method::GET, MAPS, None).await.unwrap();
        create(&server.admin, &format!("{RBAC}/roles?dryRun=All"), role).await;
    };
    assert_waits_little(&server.process, attack, probe).await;
}

/// What the user sends; it may be refused.
async fn attack(server: &Server, path: &str, body: Value) {
    let sent = send(&server.user, Method::POST, path, Some(body)).await;
    if let Err(error) = sent {
        assert!(matches!(error.code(), Some(403 | 409 | 413 | 422 | 429)), "{error}");
    }
}

/// Rules of which a user who holds them cannot be compared with a new role by each combination of both.
fn many_rules(n: usize, from: usize) -> Value {
    let rule = |i| json!({"verbs": [format!("v{}", i % 300)], "apiGroups": [""], "resources": [format!("r{}", i / 300)]});
    (from..from + n).map(rule).collect()
}

/// S1, and as many of these requests as would keep all threads for heavy ones.
#[tokio::test]
async fn requests_do_not_wait_for_small_roles_with_many_combinations() {
    let directory = TempDir::new("attack-roles");
    let server = Server::start(&directory, "server").await;
    for i in 0..2 {
        bind(&server.admin, &format!("many-{i}"), &many_rules(10_000, 10_000 * i)).await;
    }
    let rule = json!({"verbs": texts(300, "v"), "apiGroups": [""], "resources": texts(330, "r")});
    let role = json!({"metadata": {"name": "all"}, "rules": [rule]});
    assert!(role.to_string().len() < 5000);
    let path = format!("{RBAC}/roles?dryRun=All");
    assert_requests_wait_little(&server, (0..16).map(|_| attack(&server, &path, role.clone()))).await;
}

/// M1.
#[tokio::test]
async fn requests_do_not_wait_for_the_roles_of_others_to_be_read_again() {
    let directory = TempDir::new("attack-changed-roles");
    let server = Server::start(&directory, "server").await;
    for i in 0..12 {
        bind(&server.admin, &format!("large-{i}"), &many_rules(20_000, 20_000 * i)).await;
    }
    let role = |i: usize| json!({"metadata": {"name": format!("own-{i}")}, "rules": []});
    let path = format!("{RBAC}/roles");
    assert_requests_wait_little(&server, (0..20).map(|i| attack(&server, &path, role(i)))).await;
}

/// Pods of a user that run, so that evictions ask the disruption budgets.
async fn running_pods(server: &Server, n: usize) {
    for i in 0..n {
        let mut pod = pod(&format!("running-{i}"));
        pod["spec"]["nodeName"] = "n".into();
        create(&server.admin, PODS, pod).await;
        let patch = json!({"status": {"phase": "Running"}}).to_string().into_bytes();
        let path = format!("{PODS}/running-{i}/status");
        let request = call::with_body(Method::PATCH, &path, "application/merge-patch+json", patch);
        call::send(&server.admin, request, crate::process::DEADLINE, 1 << 20).await.unwrap();
    }
}

/// S5.
#[tokio::test]
async fn requests_do_not_wait_for_evictions_beside_large_budgets() {
    let directory = TempDir::new("attack-evictions");
    let server = Server::start(&directory, "server").await;
    running_pods(&server, 1).await;
    for i in 0..20 {
        let path = "/apis/policy/v1/namespaces/default/poddisruptionbudgets";
        create(&server.admin, path, budget(i, 30_000)).await;
    }
    let eviction = json!({"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": "running-0"}});
    let path = format!("{PODS}/running-0/eviction?dryRun=All");
    assert_requests_wait_little(&server, (0..20).map(|_| attack(&server, &path, eviction.clone()))).await;
}

/// Each failed creation counts what the namespace uses again.
#[tokio::test]
async fn requests_do_not_wait_for_the_pods_of_a_quota_to_be_counted() {
    let directory = TempDir::new("attack-quota");
    let server = Server::start(&directory, "server").await;
    let quota =
        json!({"metadata": {"name": "q"}, "spec": {"hard": {"pods": "1000", "count/configmaps": "1000"}}});
    create(&server.admin, "/api/v1/namespaces/default/resourcequotas", quota).await;
    for i in 0..20 {
        let mut large = large_pod(20_000);
        large["metadata"]["name"] = format!("large-{i}").into();
        create(&server.admin, PODS, large).await;
    }
    eventually("the quota is counted", async || {
        let path = "/api/v1/namespaces/default/resourcequotas/q";
        let quota = send(&server.admin, Method::GET, path, None).await.map_err(|error| error.to_string())?;
        if quota["status"]["used"]["pods"] == "20" { Ok(()) } else { Err(quota.to_string()) }
    })
    .await;
    let path = PODS.to_owned();
    assert_requests_wait_little(&server, (0..20).map(|_| attack(&server, &path, pod("large-0")))).await;
}

/// A small pod in a namespace with large placement policies.
#[tokio::test]
async fn requests_do_not_wait_for_pods_beside_placement_policies_with_many_rules() {
    let directory = TempDir::new("attack-policies");
    let up = Berth::start(&directory, "up", &["up", "--nodes", "2"]);
    let admin = connect(up.line_after("export KUBECONFIG=").as_ref()).await;
    let policies = "/apis/scheduling.berth.dev/v1alpha1/namespaces/default/placementpolicies";
    for i in 0..10 {
        let term = |j| json!({"topologyKey": "zone", "labelSelector": {"matchLabels": {format!("key-{i}-{j}"): "v"}}});
        let terms: Value = (0..2000).map(term).collect();
        let affinity = json!({"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}});
        let policy = json!({
            "apiVersion": "scheduling.berth.dev/v1alpha1", "kind": "PlacementPolicy",
            "metadata": {"name": format!("policy-{i}")}, "spec": {"affinity": affinity},
        });
        create(&admin, policies, policy).await;
    }
    eventually("the policies are known", async || {
        let refused = send(&admin, Method::POST, &format!("{PODS}?dryRun=All"), Some(pod("small"))).await;
        match refused {
            Err(error) if error.to_string().contains("comparing the rules of the placement policies") => {
                Ok(())
            }
            other => Err(format!("{other:?}")),
        }
    })
    .await;
    let path = format!("{PODS}?dryRun=All");
    let attack = async || {
        let refused = send(&admin, Method::POST, &path, Some(pod("small"))).await;
        assert_eq!(refused.unwrap_err().code(), Some(403));
    };
    let probe = async || drop(send(&admin, Method::GET, MAPS, None).await.unwrap());
    assert_waits_little(&up, (0..20).map(|_| attack()), probe).await;
}
