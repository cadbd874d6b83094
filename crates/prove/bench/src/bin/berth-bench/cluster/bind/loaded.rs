//! An API server with nodes and pending pods.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Instant;

use berth_api::resource::PODS;
use berth_apiserver::{ApiServer, ServerOptions, StorageOptions, TemporaryDir};
use berth_bench::scale::templates::{PodTemplate, namespaces, templates};
use berth_bench::scale::{nodes, pod_name};
use berth_client::call;
use berth_client::connect::{self, Options};
use http::Method;
use kube::Client;
use serde_json::Value;

use super::super::child::{Server, temporary_dir};
use super::super::load::{TIMEOUT, create_each, namespace_object, node_object, pod_object, post};
use super::Bind;
use crate::error::BenchError;

const N_CREATORS: usize = 16;
/// Objects that are imported at a time.
const BATCH: usize = 5_000;
/// The directory of the store.
const DATA: &str = "data";

/// An API server with nodes and pending pods.
pub struct Loaded {
    pub n_pods: usize,
    pub templates: Arc<[PodTemplate]>,
    pub server: Server,
    pub options: Options,
    pub client: Client,
    pub load_seconds: f64,
    /// From the start of the API server until it served.
    pub start_seconds: f64,
    /// Memory of the API server with them.
    pub rss_bytes: Option<u64>,
    pub directory: TemporaryDir,
}

impl Loaded {
    /// Fills the store of an API server, and starts the server with it.
    ///
    /// The first node, and the first pod of each template, are created as any client does. The others are copies with other
    /// names, which are imported: creating two million objects would take longer than all that is measured.
    ///
    /// # Errors
    /// The API server cannot be started, or rejects an object.
    pub async fn load(
        bind: &Bind,
        n_nodes: usize,
        n_pods: usize,
        progress: &dyn Fn(usize),
    ) -> Result<Loaded, BenchError> {
        let directory = temporary_dir()?;
        let templates: Arc<[PodTemplate]> = templates(false).into();
        let begin = Instant::now();
        fill(bind, &directory, &templates, (n_nodes, n_pods), progress).await?;
        let load_seconds = begin.elapsed().as_secs_f64();
        let begin = Instant::now();
        let (server, options) = start_server(&directory)?;
        let start_seconds = begin.elapsed().as_secs_f64();
        let rss_bytes = server.rss_bytes();
        let client = options.client().await?;
        Ok(Loaded {
            n_pods,
            templates,
            server,
            options,
            client,
            load_seconds,
            start_seconds,
            rss_bytes,
            directory,
        })
    }

    pub fn kubeconfig(&self) -> PathBuf {
        self.directory.path().join("kubeconfig")
    }

    /// Starts the API server again, after it was killed.
    pub async fn restart_server(&mut self) -> Result<(), BenchError> {
        self.server.kill();
        (self.server, self.options) = start_server(&self.directory)?;
        self.client = self.options.client().await?;
        Ok(())
    }

    /// Creates more pending pods.
    pub async fn add_pods(&self, n: usize) -> Result<(), BenchError> {
        let (templates, n_pods) = (self.templates.clone(), self.n_pods);
        create_each(&self.client, n, N_CREATORS, &|_| (), move |i| pending_pod(&templates, n_pods + i))
            .await?;
        Ok(())
    }
}

/// Fills a store in this process.
async fn fill(
    bind: &Bind,
    directory: &TemporaryDir,
    templates: &[PodTemplate],
    (n_nodes, n_pods): (usize, usize),
    progress: &dyn Fn(usize),
) -> Result<(), BenchError> {
    let storage = StorageOptions { max_bytes: u64::MAX, ..StorageOptions::default() };
    let data_dir = Some(directory.path().join(DATA));
    let options = ServerOptions { data_dir, storage, ..ServerOptions::default() };
    let server = ApiServer::start(options).await.map_err(|error| BenchError::Other(error.to_string()))?;
    let client = connect::client(server.admin_config())?;
    for namespace in namespaces() {
        let (path, object) = namespace_object(&namespace.metadata.name);
        post(&client, &path, &object).await?;
    }
    let node = |i| node_object(&nodes::node(bind.seed, i));
    let first_node = created(&client, node(0)).await?;
    let mut first_pods = Vec::new();
    for i in 0..templates.len().min(n_pods) {
        first_pods.push(created(&client, pending_pod(templates, i)).await?);
    }
    let others = (1..n_nodes).map(|i| copied(&first_node, node(i).1));
    import(&server, others, progress).await?;
    let others = (first_pods.len()..n_pods)
        .map(|i| copied(&first_pods[i % templates.len()], pending_pod(templates, i).1));
    import(&server, others, &|n| progress(n_nodes + n)).await?;
    server.shutdown().await;
    Ok(())
}

/// Creates an object, and returns it as it is stored.
async fn created(client: &Client, (path, object): (String, Value)) -> Result<Value, BenchError> {
    Ok(call::json(client, call::with_json(Method::POST, &path, &object), TIMEOUT).await?)
}

/// A new object as the API server stores it, after an object of the same kind.
fn copied(stored: &Value, new: Value) -> Value {
    let mut copy = stored.clone();
    let metadata = [("name", &new["metadata"]["name"]), ("labels", &new["metadata"]["labels"])];
    for (field, value) in metadata {
        copy["metadata"][field] = value.clone();
    }
    if let Some(metadata) = copy["metadata"].as_object_mut() {
        metadata.remove("uid");
    }
    if new["kind"] == "Node" {
        copy["spec"] = new["spec"].clone();
        copy["status"] = new["status"].clone();
    }
    copy
}

async fn import(
    server: &ApiServer,
    objects: impl Iterator<Item = Value>,
    progress: &dyn Fn(usize),
) -> Result<(), BenchError> {
    let (mut objects, mut n_imported) = (objects, 0);
    loop {
        let batch: Vec<Value> = objects.by_ref().take(BATCH).collect();
        if batch.is_empty() {
            return Ok(());
        }
        n_imported += batch.len();
        server.import(batch).await.map_err(|error| BenchError::Other(error.to_string()))?;
        progress(n_imported);
    }
}

/// Without controllers, no other component uses the API server, and nodes need no heartbeats.
fn start_server(directory: &TemporaryDir) -> Result<(Server, Options), BenchError> {
    let data = directory.path().join(DATA).display().to_string();
    let large = ["--quota-backend-bytes", "1Ti"];
    let args = [&["apiserver", "--controllers=false", "--data-dir", &data][..], &large].concat();
    Server::start(&args, directory)
}

/// The pod with this number, of the templates in turn, and where it is created.
fn pending_pod(templates: &[PodTemplate], i: usize) -> (String, Value) {
    let template = &templates[i % templates.len()].pod;
    let name = pod_name(&template.metadata.name, i);
    (PODS.path(&template.metadata.namespace), pod_object(template, &name, "berth"))
}
