//! The binding guard: independent schedulers bind concurrently.

use kube::Client;
use serde_json::{Value, json};

use super::world::{PODS, Reply, World, pod, post, rules};
use crate::client::{eventually, list, text};
use crate::process::Berth;

const GUARD: &str = "bindingGuard: {enabled: true}\n";

pub async fn bind(client: &Client, name: &str, node: &str) -> Reply {
    let binding = json!({"apiVersion": "v1", "kind": "Binding", "metadata": {"name": name},
        "target": {"apiVersion": "v1", "kind": "Node", "name": node}});
    post(client, &format!("{PODS}/{name}/binding"), &binding).await
}

pub async fn zones(admin: &Client) {
    for zone in ["z1", "z2"] {
        let labels = json!({"topology.kubernetes.io/zone": zone, "kubernetes.io/hostname": zone});
        let amounts = json!({"cpu": "64", "memory": "64Gi", "pods": "110"});
        let node = json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": zone, "labels": labels},
            "status": {"allocatable": amounts, "capacity": amounts}});
        assert_eq!(post(admin, "/api/v1/nodes", &node).await.code, 201);
    }
}

/// A pod of a group with a required zone rule for its own group.
pub fn grouped(name: &str, group: &str, rule: &str) -> Value {
    let term = json!({"labelSelector": {"matchLabels": {"group": group}}, "topologyKey": "topology.kubernetes.io/zone"});
    let affinity = json!({rule: {"requiredDuringSchedulingIgnoredDuringExecution": [term]}});
    pod(name, json!({"labels": {"group": group}}), json!({"affinity": affinity}))
}

/// In every round, exactly one of two concurrent bindings succeeds.
pub async fn race(one: &Client, other: &Client, rule: &str, nodes: [&str; 2], words: &str) {
    for round in 0..12 {
        let group = format!("{}-{round}", rule.to_lowercase());
        let names = ["a", "b"].map(|who| format!("{group}-{who}"));
        for name in &names {
            assert_eq!(post(one, PODS, &grouped(name, &group, rule)).await.code, 201);
        }
        let (a, b) = tokio::join!(bind(one, &names[0], nodes[0]), bind(other, &names[1], nodes[1]));
        let mut codes = [a.code, b.code];
        codes.sort_unstable();
        assert_eq!(codes, [201, 403], "{a:?} {b:?}");
        let refused = if a.code == 403 { a } else { b };
        assert!(refused.message().contains(words), "{refused:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn only_one_of_two_concurrent_bindings_succeeds() {
    let world = World::new("webhook-bindings", true).await;
    let webhook = world.webhook(GUARD, &[]).await;
    let entry = webhook.entry(
        "bindings.berth.dev",
        "/validate-bindings",
        "Fail",
        rules("", &["pods/binding"], &["CREATE"]),
    );
    world.register("Validating", "berth", entry).await;
    zones(&world.admin).await;
    let other = Client::try_from(world.server.admin_config()).unwrap();
    // The first pod of a group with affinity to itself fits anywhere, but only one pod is the first.
    race(&world.admin, &other, "podAffinity", ["z1", "z2"], "node(s) didn't match pod affinity rules").await;
    // The last free domain has space for one pod.
    race(
        &world.admin,
        &other,
        "podAntiAffinity",
        ["z1", "z1"],
        "node(s) didn't match pod anti-affinity rules",
    )
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn only_one_of_two_concurrent_bindings_succeeds_with_two_replicas() {
    let world = World::new("webhook-replicas", true).await;
    let policy = "bindingGuard: {enabled: true, ledgerNamespace: kube-system}\n";
    let namespaces = ["a", "b"];
    let mut replicas = Vec::new();
    for name in namespaces {
        let replica = world.replica(name, policy, &[]).await;
        let bindings = rules("", &["pods/binding"], &["CREATE"]);
        let mut entry = replica.entry(&format!("{name}.berth.dev"), "/validate-bindings", "Fail", bindings);
        entry["namespaceSelector"] = json!({"matchLabels": {"kubernetes.io/metadata.name": name}});
        world.register("Validating", name, entry).await;
        let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}});
        world.make("/api/v1/namespaces", &namespace).await;
        replicas.push(replica);
    }
    zones(&world.admin).await;
    let pods = |namespace| format!("/api/v1/namespaces/{namespace}/pods");
    for round in 0..12 {
        let group = format!("group-{round}");
        for namespace in namespaces {
            let mut apart = grouped("p", &group, "podAntiAffinity");
            apart["metadata"]["name"] = json!(group);
            let terms =
                "/spec/affinity/podAntiAffinity/requiredDuringSchedulingIgnoredDuringExecution/0/namespaces";
            let (term, field) = terms.rsplit_once('/').unwrap();
            apart.pointer_mut(term).unwrap()[field] = json!(namespaces);
            world.make(&pods(namespace), &apart).await;
        }
        let bind = async |namespace| {
            let binding = json!({"apiVersion": "v1", "kind": "Binding", "metadata": {"name": group},
                "target": {"apiVersion": "v1", "kind": "Node", "name": "z1"}});
            post(&world.admin, &format!("{}/{group}/binding", pods(namespace)), &binding).await
        };
        let (a, b) = tokio::join!(bind("a"), bind("b"));
        let mut codes = [a.code, b.code];
        codes.sort_unstable();
        assert_eq!(codes, [201, 403], "{a:?} {b:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn concurrent_bindings_to_different_zones_end_in_one_zone() {
    const N_GROUPS: usize = 15;
    let world = World::new("webhook-schedulers", true).await;
    let webhook = world.webhook(GUARD, &[]).await;
    let rules = rules("", &["pods/binding"], &["CREATE"]);
    world
        .register(
            "Validating",
            "berth",
            webhook.entry("bindings.berth.dev", "/validate-bindings", "Fail", rules),
        )
        .await;
    zones(&world.admin).await;
    let kubeconfig = world.directory.file("kubeconfig").display().to_string();
    let scheduler = |name: &str| {
        Berth::start(
            &world.directory,
            name,
            &["scheduler", "--kubeconfig", &kubeconfig, "--scheduler-name", name],
        )
    };
    let _schedulers = ["one", "other"].map(scheduler);
    let wanting = |name: String, group: &str, scheduler: &str, zone: &str| {
        let mut pod = grouped(&name, group, "podAffinity");
        pod["spec"]["schedulerName"] = scheduler.into();
        let zone = json!({"key": "topology.kubernetes.io/zone", "operator": "In", "values": [zone]});
        pod["spec"]["affinity"]["nodeAffinity"] = json!({"preferredDuringSchedulingIgnoredDuringExecution": [
            {"weight": 100, "preference": {"matchExpressions": [zone]}}]});
        pod
    };
    for i in 0..N_GROUPS {
        let group = format!("g{i}");
        let (one, other) = (
            wanting(format!("{group}-one"), &group, "one", "z1"),
            wanting(format!("{group}-other"), &group, "other", "z2"),
        );
        let (one, other) = tokio::join!(post(&world.admin, PODS, &one), post(&world.admin, PODS, &other));
        assert_eq!((one.code, other.code), (201, 201));
    }
    let pods = eventually("all pods are bound", async || {
        let pods = list(&world.admin, PODS).await.map_err(|error| error.to_string())?;
        let n_bound = pods.iter().filter(|pod| !text(pod, "/spec/nodeName").is_empty()).count();
        if n_bound == 2 * N_GROUPS { Ok(pods) } else { Err(format!("{n_bound} are")) }
    })
    .await;
    for i in 0..N_GROUPS {
        let of_group = pods.iter().filter(|pod| text(pod, "/metadata/labels/group") == format!("g{i}"));
        let nodes: Vec<_> = of_group.map(|pod| text(pod, "/spec/nodeName")).collect();
        assert!(nodes.len() == 2 && nodes[0] == nodes[1], "group {i} is on {nodes:?}");
    }
}
