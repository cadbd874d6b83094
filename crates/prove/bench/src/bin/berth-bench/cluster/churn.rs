//! `berth-bench churn --scheduler`: the memory of a scheduler process whose pods are created and deleted round after
//! round through an API server process.

use std::time::{Duration, Instant};

use berth_api::resource::{NAMESPACES, NODES, PODS};
use berth_bench::churn::{Churn, ChurnReport, Round, namespaces_of, pod};
use berth_client::call::{self, CallError};
use http::Method;
use kube::Client;
use serde_json::{Value, json};

use super::child::{Server, temporary_dir};
use super::load::{TIMEOUT, create, namespace_object, node_object, node_objects, pod_object};
use super::watched::Watched;
use crate::error::BenchError;

/// Connections that create and delete objects.
const N_CONNECTIONS: usize = 8;
/// A round may take this long.
const ROUND_TIMEOUT: Duration = Duration::from_secs(600);
/// In this time the scheduler handles the last deletions and writes the last events.
const REST: Duration = Duration::from_millis(500);

/// Starts an API server and a scheduler, each a process, and runs all rounds; `progress` is called with the number of
/// finished rounds.
///
/// # Errors
/// A process cannot be started, a request fails, or pods are not bound in time.
pub async fn run(churn: Churn, progress: &dyn Fn(usize)) -> Result<ChurnReport, BenchError> {
    let directory = temporary_dir()?;
    // Without controllers, nodes need no heartbeats.
    let (server, options) = Server::start(&["apiserver", "--controllers=false"], &directory)?;
    let path = directory.path().join("kubeconfig").display().to_string();
    let client = options.client().await?;
    create(&client, node_objects(churn.seed, churn.nodes), N_CONNECTIONS).await?;
    let scheduler = Server::spawn(&["scheduler", "--kubeconfig", &path])?;
    let mut pods = Watched::start(&client, &PODS);
    let mut rounds = Vec::new();
    for round in 1..=churn.rounds {
        for (removed, added) in churn.replaced_nodes(round) {
            delete(&client, NODES.object_path("", &removed)).await?;
            create(&client, vec![node_object(&added)], 1).await?;
        }
        let namespaces = namespaces_of(round);
        create(&client, namespaces.iter().map(|n| namespace_object(&n.metadata.name)).collect(), 1).await?;
        let objects = (0..churn.pods).map(|i| {
            let pod = pod(round, i);
            let path = PODS.path(&pod.metadata.namespace);
            (path, pod_object(&pod, &pod.metadata.name, "berth"))
        });
        let (objects, begin) = (objects.collect(), Instant::now());
        create(&client, objects, N_CONNECTIONS).await?;
        pods.until("all pods are bound", ROUND_TIMEOUT, |pods| n_bound(pods) >= churn.pods).await?;
        let seconds = begin.elapsed().as_secs_f64();
        for namespace in &namespaces {
            let path = PODS.path(&namespace.metadata.name);
            delete(&client, format!("{path}?gracePeriodSeconds=0")).await?;
        }
        pods.until("all pods are deleted", ROUND_TIMEOUT, |pods| pods.len() == 0).await?;
        for namespace in &namespaces {
            delete_namespace(&client, &namespace.metadata.name).await?;
        }
        tokio::time::sleep(REST).await;
        rounds.push(Round {
            round,
            unplaced: 0,
            decisions_per_second: churn.pods as f64 / seconds,
            rss_bytes: scheduler.rss_bytes(),
            apiserver_rss_bytes: server.rss_bytes(),
        });
        progress(round);
    }
    Ok(ChurnReport::new(churn, rounds))
}

async fn delete(client: &Client, path: String) -> Result<(), CallError> {
    let request = call::with_body(Method::DELETE, &path, "", Vec::new());
    call::send(client, request, TIMEOUT, usize::MAX).await.map(drop)
}

/// Deletes a namespace without pods as its controller would: the events in it, and its finalizer.
async fn delete_namespace(client: &Client, name: &str) -> Result<(), CallError> {
    let path = NAMESPACES.object_path("", name);
    delete(client, path.clone()).await?;
    delete(client, format!("/apis/events.k8s.io/v1/namespaces/{name}/events")).await?;
    let mut namespace: Value = call::json(client, call::get(&path), TIMEOUT).await?;
    namespace["spec"] = json!({"finalizers": []});
    let request = call::with_json(Method::PUT, &format!("{path}/finalize"), &namespace);
    call::send(client, request, TIMEOUT, call::MAX_OBJECT_BYTES).await.map(drop)
}

fn n_bound(pods: &Watched) -> usize {
    pods.objects().iter().filter(|pod| pod.node().is_some()).count()
}
