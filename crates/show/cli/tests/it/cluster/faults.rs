//! Killed processes and lost nodes during scheduling.

use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use http::Method;
use kube::Client;
use serde_json::json;

use super::check::assert_every_rule_kept;
use super::running::{Cluster, PODS};
use crate::client::{Eye, apart, create, eventually, list, send, text};
use crate::process::POLL;

const CONFIG_MAPS: &str = "/api/v1/namespaces/default/configmaps";

/// The acknowledged and the unanswered writes of one writer.
#[derive(Default)]
struct Written {
    /// Names and values of ConfigMaps: acknowledged, and without a response.
    counters: Vec<(String, usize, usize)>,
    /// Pods with an acknowledged creation, with their uids.
    pods: Vec<(String, String)>,
    /// ConfigMaps with an acknowledged deletion.
    deleted: Vec<String>,
}

/// Maximum number of pods per writer: all must fit.
const MAX_PODS: usize = 250;

/// Writes until the stop signal, and records the results.
async fn write(
    client: Client,
    writer: usize,
    stop: Arc<AtomicBool>,
    n_acknowledged: Arc<AtomicUsize>,
) -> Written {
    let mut written = Written::default();
    for i in 0.. {
        if stop.load(Ordering::Relaxed) {
            break;
        }
        let name = format!("counter-{writer}-{i}");
        let object = |count: usize| json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": {"count": count.to_string()}});
        let mut counter = (name.clone(), 0, 0);
        for count in 1..=4 {
            counter.2 = count;
            let (method, path) = match counter.1 {
                0 => (Method::POST, CONFIG_MAPS.to_owned()),
                _ => (Method::PUT, format!("{CONFIG_MAPS}/{name}")),
            };
            if send(&client, method, &path, Some(object(count))).await.is_ok() {
                counter.1 = count;
                n_acknowledged.fetch_add(1, Ordering::Relaxed);
            } else {
                // The server restarts.
                tokio::time::sleep(POLL).await;
            }
        }
        let path = format!("{CONFIG_MAPS}/{name}");
        if i % 3 == 0 {
            if counter.1 > 0 && send(&client, Method::DELETE, &path, None).await.is_ok() {
                written.deleted.push(name.clone());
            }
        } else {
            written.counters.push(counter);
        }
        if i >= MAX_PODS {
            continue;
        }
        let pod = format!("pod-{writer}-{i}");
        let group = format!("group-{writer}-{}", i / 8);
        if let Ok(created) = send(&client, Method::POST, PODS, Some(apart(&pod, &group, "berth"))).await {
            written.pods.push((pod, text(&created, "/metadata/uid").to_owned()));
            n_acknowledged.fetch_add(1, Ordering::Relaxed);
        }
    }
    written
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_acknowledged_is_lost_when_the_api_server_is_killed() {
    const N_WRITERS: usize = 4;
    let mut cluster = Cluster::start("killed-server", 12, &[&[]]).await;
    let eye = Eye::open(cluster.client.clone());
    let stop = Arc::<AtomicBool>::default();
    let n_acknowledged = Arc::<AtomicUsize>::default();
    let writers: Vec<_> = (0..N_WRITERS)
        .map(|i| tokio::spawn(write(cluster.client.clone(), i, stop.clone(), n_acknowledged.clone())))
        .collect();
    for round in 1..=3 {
        let until = n_acknowledged.load(Ordering::Relaxed) + 150;
        eventually("writes are acknowledged and pods bound", async || {
            let n = (n_acknowledged.load(Ordering::Relaxed), eye.n_bound());
            if n.0 >= until && n.1 >= round * 10 { Ok(()) } else { Err(format!("{n:?}")) }
        })
        .await;
        cluster.restart_server();
    }
    stop.store(true, Ordering::Relaxed);
    let mut written = Vec::new();
    for writer in writers {
        written.push(writer.await.unwrap());
    }

    let config_maps = list(&cluster.client, CONFIG_MAPS).await.unwrap();
    let count_of = |name: &str| {
        let found = config_maps.iter().find(|c| text(c, "/metadata/name") == name)?;
        text(found, "/data/count").parse::<usize>().ok()
    };
    for (name, acknowledged, asked) in written.iter().flat_map(|w| &w.counters) {
        let count = count_of(name).unwrap_or(0);
        assert!(
            (*acknowledged..=*asked).contains(&count),
            "{name} is {count}, was acknowledged as {acknowledged} and asked to be {asked}"
        );
    }
    for name in written.iter().flat_map(|w| &w.deleted) {
        assert_eq!(count_of(name), None, "{name} was deleted and is back");
    }
    let pods = list(&cluster.client, PODS).await.unwrap();
    for (name, uid) in written.iter().flat_map(|w| &w.pods) {
        let pod = pods.iter().find(|p| text(p, "/metadata/name") == *name);
        assert_eq!(pod.map(|p| text(p, "/metadata/uid")), Some(uid.as_str()), "{name}");
    }
    // The scheduler and the kubelet continue.
    cluster.all_running(pods.len()).await;
    eye.assert_true_to(&cluster.client).await;
    assert_eq!(assert_every_rule_kept(&cluster.client).await, pods.len());
}

/// Creates pods over four connections without delays.
async fn burst(client: &Client, n_pods: usize, scheduler: &'static str) {
    let next = Arc::<AtomicUsize>::default();
    let tasks: Vec<_> = (0..4)
        .map(|_| {
            let (client, next) = (client.clone(), next.clone());
            tokio::spawn(async move {
                loop {
                    let i = next.fetch_add(1, Ordering::Relaxed);
                    if i >= n_pods {
                        return;
                    }
                    create(&client, PODS, apart(&format!("p-{i}"), &format!("g-{}", i / 10), scheduler))
                        .await;
                }
            })
        })
        .collect();
    for task in tasks {
        task.await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_second_scheduler_takes_over_when_the_leader_is_killed() {
    const N_PODS: usize = 400;
    let replica: &[&str] = &["--leader-elect"];
    let mut cluster = Cluster::start("killed-leader", 20, &[replica, replica]).await;
    let first = cluster.leader().await;
    let eye = Eye::open(cluster.client.clone());
    let client = cluster.client.clone();
    let bursting = tokio::spawn(async move { burst(&client, N_PODS, "berth").await });
    eventually("some pods are bound", async || {
        if eye.n_bound() > 20 { Ok(()) } else { Err(eye.n_bound().to_string()) }
    })
    .await;
    cluster.kill_scheduler(&first);
    bursting.await.unwrap();
    cluster.all_running(N_PODS).await;
    eye.assert_true_to(&cluster.client).await;
    assert_eq!(assert_every_rule_kept(&cluster.client).await, N_PODS);
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "at night: it waits a minute for the collection of pods"]
async fn pods_survive_the_deletion_of_their_nodes() {
    const N_REPLICAS: usize = 12;
    const N_DEPLOYMENTS: usize = 15;
    let cluster = Cluster::start("deleted-nodes", 20, &[&[]]).await;
    let eye = Eye::open(cluster.client.clone());
    for i in 0..N_DEPLOYMENTS {
        let pod = apart("", &format!("d-{i}"), "berth");
        let deployment = json!({
            "apiVersion": "apps/v1",
            "kind": "Deployment",
            "metadata": {"name": format!("d-{i}")},
            "spec": {
                "replicas": N_REPLICAS,
                "selector": {"matchLabels": pod["metadata"]["labels"]},
                "template": {"metadata": {"labels": pod["metadata"]["labels"]}, "spec": pod["spec"]},
            },
        });
        create(&cluster.client, "/apis/apps/v1/namespaces/default/deployments", deployment).await;
    }
    let mut gone = HashSet::new();
    for i in 1..=5 {
        eventually("some pods are bound", async || {
            if eye.n_bound() >= i * 20 { Ok(()) } else { Err(eye.n_bound().to_string()) }
        })
        .await;
        let name = format!("node-{i:02}");
        send(&cluster.client, Method::DELETE, &format!("/api/v1/nodes/{name}"), None).await.unwrap();
        gone.insert(name);
    }
    cluster.all_running(N_REPLICAS * N_DEPLOYMENTS).await;
    let pods = list(&cluster.client, PODS).await.unwrap();
    let lost: Vec<_> = pods.iter().filter(|p| gone.contains(text(p, "/spec/nodeName"))).collect();
    assert!(lost.is_empty(), "{} pods are on deleted nodes", lost.len());
    eye.assert_true_to(&cluster.client).await;
    assert_eq!(assert_every_rule_kept(&cluster.client).await, N_REPLICAS * N_DEPLOYMENTS);
}
