//! Objects for a cluster, from the generator of `bench scale`, and concurrent requests.

use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use berth_api::object::{Node, Pod};
use berth_bench::measure::Samples;
use berth_client::call::{self, CallError};
use http::Method;
use kube::Client;
use serde_json::{Value, json};

pub const TIMEOUT: Duration = Duration::from_secs(60);

/// How often progress is reported.
const PROGRESS_PERIOD: Duration = Duration::from_millis(100);

/// Runs `work` on all items in order with `n_workers` concurrent tasks, and returns the durations.
///
/// # Errors
/// The first error; other tasks are aborted.
pub async fn each<T, F, E>(
    items: Vec<T>,
    n_workers: usize,
    work: impl Fn(usize, Arc<[T]>, usize) -> F + Clone + Send + 'static,
) -> Result<Samples, E>
where
    T: Send + Sync + 'static,
    F: Future<Output = Result<(), E>> + Send + 'static,
    E: Send + 'static,
{
    let items: Arc<[T]> = items.into();
    let next = Arc::new(AtomicUsize::new(0));
    let mut workers = tokio::task::JoinSet::new();
    for worker in 0..n_workers {
        let (items, next, work) = (items.clone(), next.clone(), work.clone());
        workers.spawn(async move {
            let mut samples = Samples::default();
            loop {
                let i = next.fetch_add(1, Ordering::Relaxed);
                if i >= items.len() {
                    return Ok(samples);
                }
                let begin = Instant::now();
                work(worker, items.clone(), i).await?;
                samples.add(begin.elapsed());
            }
        });
    }
    let mut all = Samples::default();
    while let Some(joined) = workers.join_next().await {
        // A panic is already printed, and the caller notices missing results.
        if let Ok(samples) = joined {
            all.extend(&samples?);
        }
    }
    Ok(all)
}

/// Creates an object.
pub async fn post(client: &Client, path: &str, object: &Value) -> Result<(), CallError> {
    let request = call::with_json(Method::POST, path, object);
    call::send(client, request, TIMEOUT, call::MAX_OBJECT_BYTES).await.map(drop)
}

/// Creates `n` objects, each made when its turn comes; calls `progress` with the number of created ones.
pub async fn create_each(
    client: &Client,
    n: usize,
    n_workers: usize,
    progress: &dyn Fn(usize),
    make: impl Fn(usize) -> (String, Value) + Clone + Send + Sync + 'static,
) -> Result<(), CallError> {
    let (client, n_created) = (client.clone(), Arc::new(AtomicUsize::new(0)));
    let created = n_created.clone();
    let creating = each((0..n).collect(), n_workers, move |_, _: Arc<[usize]>, i| {
        let (client, made, created) = (client.clone(), make(i), created.clone());
        async move {
            let (path, object) = made;
            post(&client, &path, &object).await?;
            created.fetch_add(1, Ordering::Relaxed);
            Ok(())
        }
    });
    let mut creating = std::pin::pin!(creating);
    loop {
        tokio::select! {
            created = &mut creating => return created.map(drop),
            () = tokio::time::sleep(PROGRESS_PERIOD) => progress(n_created.load(Ordering::Relaxed)),
        }
    }
}

pub fn namespace_object(name: &str) -> (String, Value) {
    let object = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}});
    ("/api/v1/namespaces".to_owned(), object)
}

pub fn node_object(node: &Node) -> (String, Value) {
    let mut value = json!({"apiVersion": "v1", "kind": "Node"});
    value["metadata"] = json!({"name": node.metadata.name, "labels": node.metadata.labels});
    value["spec"] = json!({"taints": node.spec.taints});
    let amounts = json!(node.status.allocatable);
    let ready = json!({"type": "Ready", "status": "True", "reason": "KubeletReady"});
    value["status"] = json!({"allocatable": amounts, "capacity": amounts, "conditions": [ready]});
    ("/api/v1/nodes".to_owned(), value)
}

pub fn pod_object(template: &Pod, name: &str, scheduler: &str) -> Value {
    let mut spec = template.spec.clone();
    scheduler.clone_into(&mut spec.scheduler_name);
    let mut object = json!({"apiVersion": "v1", "kind": "Pod"});
    object["metadata"] = json!({"name": name, "labels": template.metadata.labels});
    object["spec"] = json!(spec);
    object
}
