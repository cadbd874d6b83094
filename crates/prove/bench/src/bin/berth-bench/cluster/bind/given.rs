//! The run on an API server that exists, of Kubernetes or of Berth: objects are created by requests, and deleted at the end.

use std::collections::HashSet;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use berth_api::resource::{NODES, PODS};
use berth_bench::bind::Rates;
use berth_bench::scale::templates::{PodTemplate, namespaces, templates};
use berth_bench::scale::{nodes, pod_name};
use berth_client::ObservedObject;
use berth_client::call::{self, CallError};
use berth_client::connect::Options;
use berth_terminal::output::note;
use http::Method;
use kube::Client;
use serde_json::{Value, json};

use super::super::load::{TIMEOUT, each, namespace_object, node_object, pod_object, post};
use super::super::watched::Watched;
use super::observed::{PATIENCE, Scheduler, WARM_UP};
use super::{Bind, BindSize, Memory, placed};
use crate::error::BenchError;

const N_WORKERS: usize = 32;
/// How often progress is shown while nothing happens.
const PERIOD: Duration = Duration::from_millis(200);

#[derive(Clone)]
struct Objects {
    client: Client,
    templates: Arc<[PodTemplate]>,
    scheduler: Arc<str>,
    seed: u64,
    n_nodes: usize,
    n_pods: usize,
}

/// Measures one size.
///
/// # Errors
/// The API server has nodes or pods, or rejects a request, or the scheduler cannot be started.
pub async fn size(
    bind: &Bind,
    kubeconfig: &Path,
    n_nodes: usize,
    n_pods: usize,
    progress: &dyn Fn(usize),
) -> Result<BindSize, BenchError> {
    let options = Options { kubeconfig: Some(kubeconfig.to_owned()), ..Options::default() };
    let client = options.client().await?;
    // Objects of others with the names of these would be deleted.
    for resource in [&NODES, &PODS] {
        let request = call::get(&format!("{}?limit=1", resource.path("")));
        let first: Value = call::json(&client, request, TIMEOUT).await?;
        if !first["items"].as_array().is_none_or(Vec::is_empty) {
            let plural = resource.plural;
            let why =
                format!("the API server has {plural}: give the kubeconfig of one without nodes and pods");
            return Err(BenchError::Other(why));
        }
    }
    let scheduler = bind.scheduler_name.as_deref().unwrap_or("berth").into();
    let templates = templates(false).into();
    let objects = Objects { client, templates, scheduler, seed: bind.seed, n_nodes, n_pods };
    let measured = measure(bind, kubeconfig, &objects, progress).await;
    let deleted = objects.delete().await;
    let measured = measured?;
    deleted?;
    Ok(measured)
}

async fn measure(
    bind: &Bind,
    kubeconfig: &Path,
    objects: &Objects,
    progress: &dyn Fn(usize),
) -> Result<BindSize, BenchError> {
    let Objects { client, templates, seed, n_nodes, n_pods, .. } = objects;
    let begin = Instant::now();
    objects.create().await?;
    progress(n_nodes + n_pods);
    let load_seconds = begin.elapsed().as_secs_f64();
    let mut pods = Watched::start(client, &PODS);
    pods.until("the pods are listed", TIMEOUT, |pods| pods.len() >= *n_pods).await?;
    let begin = Instant::now();
    // It ends with the run.
    let _scheduler = match &bind.scheduler_name {
        Some(name) => {
            note(&format!("the pods are created: start the scheduler {name} now"));
            None
        }
        None => Some(Scheduler::start(bind, kubeconfig)?),
    };
    let bound_uid = |pod: &ObservedObject| pod.node().map(|_| pod.metadata.uid.clone());
    // The other scheduler may run already.
    let mut bound: HashSet<_> = pods.objects().iter().filter_map(|pod| bound_uid(pod)).collect();
    let (mut first, mut warm) = (None, None);
    let mut last = begin;
    while bound.len() < *n_pods && last.elapsed() < PATIENCE {
        let n_before = bound.len();
        let changes = pods.next(|pod| bound.extend(bound_uid(pod)));
        let _ = tokio::time::timeout(PERIOD, changes).await;
        if bound.len() > n_before {
            last = Instant::now();
            first.get_or_insert(last);
            if bound.len() >= n_pods / WARM_UP {
                warm.get_or_insert((bound.len(), last));
            }
            progress(n_nodes + n_pods + bound.len());
        }
    }
    // Another scheduler is started by hand: its time begins with its first binding.
    let begin = if bind.scheduler_name.is_some() { first.unwrap_or(begin) } else { begin };
    let (n_warm, warm) = warm.unwrap_or((0, begin));
    let per_second = (bound.len() - n_warm) as f64 / (last - warm).as_secs_f64().max(1e-3);
    let placed = placed::read(*seed, client, templates, *n_pods).await?;
    Ok(BindSize {
        nodes: *n_nodes,
        pods: *n_pods,
        load_seconds,
        start_seconds: None,
        first_binding_seconds: (first.unwrap_or(last) - begin).as_secs_f64(),
        seconds: (last - begin).as_secs_f64(),
        unbound: n_pods.saturating_sub(placed.len()),
        rates: Rates { per_second, ..Rates::default() },
        memory: Memory::default(),
        failures: Default::default(),
        check: placed::check(*seed, templates, *n_nodes, &placed),
    })
}

impl Objects {
    /// Creates nodes and pending pods. Namespaces and their accounts may exist.
    async fn create(&self) -> Result<(), CallError> {
        for namespace in namespaces() {
            let name = &namespace.metadata.name;
            // A kube-apiserver accepts pods only with an account, which a controller creates.
            let account =
                json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "default"}});
            let of_namespace = (format!("/api/v1/namespaces/{name}/serviceaccounts"), account);
            for (path, object) in [namespace_object(name), of_namespace] {
                match post(&self.client, &path, &object).await {
                    Err(error) if error.is_already_exists() => {}
                    created => created?,
                }
            }
        }
        self.each(self.n_nodes, |objects, i| async move { objects.create_node(i).await }).await?;
        self.each(self.n_pods, |objects, i| async move {
            let (path, template) = objects.pod(i);
            let name = pod_name(&template.metadata.name, i);
            post(&objects.client, &path, &pod_object(template, &name, &objects.scheduler)).await
        })
        .await
    }

    /// A kube-apiserver taints new nodes, since no kubelet has reported yet: the taints are set again.
    async fn create_node(&self, i: usize) -> Result<(), CallError> {
        let (path, node) = node_object(&nodes::node(self.seed, i));
        let created: Value =
            call::json(&self.client, call::with_json(Method::POST, &path, &node), TIMEOUT).await?;
        let taints = |node: &Value| node["spec"]["taints"].as_array().cloned().unwrap_or_default();
        if taints(&created) == taints(&node) {
            return Ok(());
        }
        let patch = json!({"spec": {"taints": taints(&node)}}).to_string().into_bytes();
        let path = NODES.object_path("", &nodes::node_name(i));
        let request = call::with_body(Method::PATCH, &path, "application/merge-patch+json", patch);
        call::send(&self.client, request, TIMEOUT, call::MAX_OBJECT_BYTES).await.map(drop)
    }

    /// The collection and the template of a pod.
    fn pod(&self, i: usize) -> (String, &berth_api::object::Pod) {
        let pod = &self.templates[i % self.templates.len()].pod;
        (PODS.path(&pod.metadata.namespace), pod)
    }

    /// Deletes what was created but for the namespaces. What is missing is not created, or deleted.
    async fn delete(&self) -> Result<(), CallError> {
        let delete = |client: Client, path: String| async move {
            let request = call::with_body(Method::DELETE, &path, "", Vec::new());
            match call::send(&client, request, TIMEOUT, call::MAX_OBJECT_BYTES).await {
                Err(error) if error.is_not_found() => Ok(()),
                deleted => deleted.map(drop),
            }
        };
        self.each(self.n_pods, move |objects, i| {
            let (path, template) = objects.pod(i);
            let path = format!("{path}/{}?gracePeriodSeconds=0", pod_name(&template.metadata.name, i));
            delete(objects.client.clone(), path)
        })
        .await?;
        self.each(self.n_nodes, move |objects, i| {
            delete(objects.client.clone(), NODES.object_path("", &nodes::node_name(i)))
        })
        .await
    }

    /// Makes requests for the numbers below `n`, several at a time.
    async fn each<F>(
        &self,
        n: usize,
        work: impl Fn(Objects, usize) -> F + Clone + Send + 'static,
    ) -> Result<(), CallError>
    where
        F: Future<Output = Result<(), CallError>> + Send + 'static,
    {
        let objects = self.clone();
        let requests = each((0..n).collect(), N_WORKERS, move |_, numbers: Arc<[usize]>, i| {
            work(objects.clone(), numbers[i])
        });
        requests.await.map(drop)
    }
}
