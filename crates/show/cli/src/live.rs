//! Reads the objects of a live cluster into an inventory, page by page.

use std::time::Duration;

use berth_api::inventory::{InputError, Inventory};
use berth_api::object::{Node, Pod};
use berth_api::read::{Kind, SourceLocation};
use berth_api::resource::{
    CLUSTER_PLACEMENT_POLICIES, COMPOSITE_POD_GROUPS, COSCHEDULING_POD_GROUPS, CSI_DRIVERS, CSI_NODES,
    CSI_STORAGE_CAPACITIES, DAEMON_SETS, DEPLOYMENTS, DEVICE_CLASSES, EVENTS, JOBS, NAMESPACES,
    NETWORK_POLICIES, NODES, PERSISTENT_VOLUME_CLAIMS, PERSISTENT_VOLUMES, PLACEMENT_POLICIES,
    POD_DISRUPTION_BUDGETS, POD_GROUPS, POD_MONITORS, PODS, PRIORITY_CLASSES, REPLICA_SETS,
    REPLICATION_CONTROLLERS, RESOURCE_CLAIM_TEMPLATES, RESOURCE_CLAIMS, RESOURCE_SLICES, RUNTIME_CLASSES,
    Resource, SERVICE_MONITORS, SERVICES, STATEFUL_SETS, STORAGE_CLASSES, VOLUME_ATTACHMENTS, WORKLOADS,
};
use berth_client::call::{self, CallError};
use berth_client::connect::{self, ConnectError, Connection};
use berth_client::watch::{ListError, Pages, WatchOptions};
use berth_console_server::live::Source;
use berth_mirror::{NodeParser, PodParser};
use bytes::Bytes;
use indicatif::ProgressBar;
use serde_json::Value;
use tokio::sync::mpsc;

/// Timeout of the request that checks permissions.
const TIMEOUT: Duration = Duration::from_secs(60);

/// Objects in a page.
const PAGE_SIZE: u32 = 2000;
/// Pages that wait to be read; when there are as many, the next one is not requested.
const MAX_WAITING: usize = 4;

/// The resources to read, and whether reading must succeed: others may be forbidden or unknown to the server.
///
/// Without CronJobs: their runs are Jobs, and the simulation has no time for the next run.
const RESOURCES: &[(Resource, bool)] = &[
    (NODES, true),
    (NAMESPACES, false),
    (PRIORITY_CLASSES, false),
    (RUNTIME_CLASSES, false),
    (POD_DISRUPTION_BUDGETS, false),
    (POD_GROUPS, false),
    (COSCHEDULING_POD_GROUPS, false),
    (COMPOSITE_POD_GROUPS, false),
    (WORKLOADS, false),
    (SERVICES, false),
    (NETWORK_POLICIES, false),
    (POD_MONITORS, false),
    (SERVICE_MONITORS, false),
    (REPLICATION_CONTROLLERS, false),
    (DEPLOYMENTS, false),
    (REPLICA_SETS, false),
    (STATEFUL_SETS, false),
    (DAEMON_SETS, false),
    (JOBS, false),
    (DEVICE_CLASSES, false),
    (RESOURCE_SLICES, false),
    (RESOURCE_CLAIMS, false),
    (RESOURCE_CLAIM_TEMPLATES, false),
    (STORAGE_CLASSES, false),
    (PERSISTENT_VOLUMES, false),
    (PERSISTENT_VOLUME_CLAIMS, false),
    (CSI_NODES, false),
    (CSI_DRIVERS, false),
    (CSI_STORAGE_CAPACITIES, false),
    (VOLUME_ATTACHMENTS, false),
    (CLUSTER_PLACEMENT_POLICIES, false),
    (PLACEMENT_POLICIES, false),
    (PODS, true),
];

const OFTEN_MISSING: [Resource; 12] = [
    DEVICE_CLASSES,
    RESOURCE_SLICES,
    RESOURCE_CLAIMS,
    RESOURCE_CLAIM_TEMPLATES,
    POD_GROUPS,
    COSCHEDULING_POD_GROUPS,
    COMPOSITE_POD_GROUPS,
    WORKLOADS,
    POD_MONITORS,
    SERVICE_MONITORS,
    CLUSTER_PLACEMENT_POLICIES,
    PLACEMENT_POLICIES,
];

/// Why a live cluster cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum LiveError {
    /// The client cannot be created.
    #[error(transparent)]
    Connect(#[from] ConnectError),
    /// The server refuses a required resource.
    #[error("{server}: {error}; {}", remedy(error))]
    Call {
        /// URL of the server.
        server: String,
        /// The error of the call.
        error: Box<ListError>,
    },
    /// The server returned an object that cannot be read.
    #[error(transparent)]
    Input(#[from] InputError),
    /// The async runtime cannot be created.
    #[error("cannot create the async runtime: {0}")]
    Runtime(std::io::Error),
}

fn remedy(error: &ListError) -> &'static str {
    match error.code() {
        Some(401) => "renew the credentials of the kubeconfig, or choose another context with --context",
        Some(403) => {
            "grant permission to list nodes and pods, for example with the ClusterRole view and a role for nodes"
        }
        Some(429 | 500..) => "the server is overloaded or failing: try again later",
        Some(_) => "check that this is the address of a Kubernetes API server",
        None => {
            "check that the server runs and is reachable at this address, or choose another context with --context"
        }
    }
}

/// The cluster to read.
pub struct LiveCluster(pub connect::Options);

impl LiveCluster {
    /// Reads the cluster into the inventory; returns warnings about optional resources that could not be read.
    ///
    /// # Errors
    /// The server cannot be reached, or refuses to list nodes or pods.
    pub fn read(&self, inventory: &mut Inventory, progress: &ProgressBar) -> Result<Vec<String>, LiveError> {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build();
        runtime.map_err(LiveError::Runtime)?.block_on(async {
            let (client, server) = self.connect().await?;
            read(&client, &server, inventory, progress).await
        })
    }

    /// A client without a credential, for requests of other users.
    ///
    /// # Errors
    /// The configuration cannot be used.
    pub async fn anonymous_client(&self) -> Result<kube::Client, LiveError> {
        Ok(connect::client(Connection::from(self.0.config().await?).anonymous())?)
    }

    /// Whether the API server has the fields of the design proposals, by the schema that it publishes; none if that cannot be
    /// read.
    pub fn has_proposal_fields(&self) -> Option<bool> {
        const NODE_AFFINITY: &str = "/components/schemas/io.k8s.api.core.v1.NodeAffinity/properties";
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().ok()?;
        let schema: Value = runtime.block_on(async {
            let (client, _) = self.connect().await.ok()?;
            call::json(&client, call::get("/openapi/v3/api/v1"), TIMEOUT).await.ok()
        })?;
        let fields = schema.pointer(NODE_AFFINITY)?;
        Some(fields.get("requiredDuringSchedulingRequiredDuringExecution").is_some())
    }

    async fn connect(&self) -> Result<(kube::Client, String), LiveError> {
        let config = self.0.config().await?;
        let server = config.cluster_url.to_string().trim_end_matches('/').to_owned();
        Ok((connect::client(config)?, server))
    }

    /// A client that may list the required resources.
    ///
    /// # Errors
    /// The server cannot be reached, or refuses to list nodes or pods.
    pub async fn checked_client(&self) -> Result<kube::Client, LiveError> {
        let (client, server) = self.connect().await?;
        for (resource, _) in RESOURCES.iter().filter(|(_, required)| *required) {
            let request = call::get(&format!("{}?limit=1", resource.path("")));
            let answer: Result<Value, CallError> = call::json(&client, request, TIMEOUT).await;
            answer
                .map_err(|error| LiveError::Call { server: server.clone(), error: Box::new(error.into()) })?;
        }
        Ok(client)
    }
}

/// What a console follows: these resources, and events.
pub fn sources() -> Vec<Source> {
    // They need a gate, which the console does not have.
    let followed = RESOURCES.iter().copied().filter(|(resource, _)| *resource != COMPOSITE_POD_GROUPS);
    let resources = followed.chain([(EVENTS, false)]);
    resources.map(|(resource, is_required)| Source { resource, is_required }).collect()
}

/// Reads the cluster of a client into the inventory; returns warnings about optional resources that could not be read.
///
/// # Errors
/// The server cannot be reached, or refuses to list nodes or pods.
pub async fn read(
    client: &kube::Client,
    server: &str,
    inventory: &mut Inventory,
    progress: &ProgressBar,
) -> Result<Vec<String>, LiveError> {
    let (sender, mut events) = mpsc::channel(MAX_WAITING);
    // Another thread requests the next page while this one reads the objects of the last.
    let lists = tokio::spawn(list_all(client.clone(), server.to_owned(), sender));
    let mut parsers = (NodeParser::default(), PodParser::default());
    let mut objects: Vec<Object> = Vec::new();
    while let Some(event) = events.recv().await {
        match event {
            ListEvent::Begun => objects.clear(),
            ListEvent::Page(resource, texts) => {
                progress.inc(texts.len() as u64);
                objects.extend(
                    texts.into_iter().map(|text| Object::read(text, resource, inventory, &mut parsers)),
                );
            }
            ListEvent::Complete(resource) => {
                let place = SourceLocation::file(&format!("{server}{}", resource.path("")));
                inventory.reserve(resource, objects.len());
                for (item, object) in std::mem::take(&mut objects).into_iter().enumerate() {
                    object.add_to(
                        inventory,
                        resource,
                        SourceLocation { item: Some(item), ..place.clone() },
                    )?;
                }
            }
        }
    }
    lists.await.unwrap_or_else(|error| std::panic::resume_unwind(error.into_panic()))
}

/// A list as it is read.
enum ListEvent {
    /// It begins, or begins again: earlier pages do not count.
    Begun,
    /// The JSON of the objects of a page.
    Page(&'static Resource, Vec<Bytes>),
    Complete(&'static Resource),
}

/// An object of a list that is not complete.
enum Object {
    Node(Box<Node>),
    Pod(Box<Pod>),
    /// The others are added from their text, and also those that cannot be read: the error then names the field.
    Text(Bytes),
}

impl Object {
    fn read(
        text: Bytes,
        resource: &Resource,
        inventory: &Inventory,
        (nodes, pods): &mut (NodeParser, PodParser),
    ) -> Object {
        let object = match resource {
            &PODS if !inventory.keeps_raw(Kind::Pod) => {
                pods.read(&text).ok().map(|pod| Object::Pod(pod.into()))
            }
            &NODES if !inventory.keeps_raw(Kind::Node) => {
                nodes.read(&text).ok().map(|node| Object::Node(node.into()))
            }
            _ => None,
        };
        object.unwrap_or(Object::Text(text))
    }

    fn add_to(
        self,
        inventory: &mut Inventory,
        resource: &Resource,
        source: SourceLocation,
    ) -> Result<(), InputError> {
        match self {
            Object::Node(node) => inventory.add_node(*node, source),
            Object::Pod(pod) => inventory.add_pod(*pod, source),
            Object::Text(text) => inventory.add_item(resource, &text, source),
        }
    }
}

/// Lists all resources, one after the other. Returns warnings.
async fn list_all(
    client: kube::Client,
    server: String,
    events: mpsc::Sender<ListEvent>,
) -> Result<Vec<String>, LiveError> {
    let mut warnings = Vec::new();
    for (resource, required) in RESOURCES {
        match list(&client, resource, &events).await {
            // An error if the receiver is gone, which needs no more.
            Ok(()) => _ = events.send(ListEvent::Complete(resource)).await,
            // Many clusters do not have these resources.
            Err(error) if OFTEN_MISSING.contains(resource) && error.code() == Some(404) => {}
            Err(error) if !required && matches!(error.code(), Some(403 | 404)) => {
                warnings.push(format!("{server}: {error}: continuing without these objects"));
            }
            Err(error) => return Err(LiveError::Call { server, error: Box::new(error) }),
        }
    }
    Ok(warnings)
}

/// Lists a resource, in the newest version that the server has.
async fn list(
    client: &kube::Client,
    resource: &'static Resource,
    events: &mpsc::Sender<ListEvent>,
) -> Result<(), ListError> {
    let mut options = WatchOptions { page_size: PAGE_SIZE, ..WatchOptions::of(resource) };
    match pages(client, resource, &options, events).await {
        Err(error) if error.code() == Some(404) && options.change_version() => {
            pages(client, resource, &options, events).await
        }
        listed => listed,
    }
}

async fn pages(
    client: &kube::Client,
    resource: &'static Resource,
    options: &WatchOptions,
    events: &mpsc::Sender<ListEvent>,
) -> Result<(), ListError> {
    let mut pages = Pages::new(client, options);
    while let Some(page) = pages.next_texts().await? {
        if pages.is_first() {
            _ = events.send(ListEvent::Begun).await;
        }
        _ = events.send(ListEvent::Page(resource, page)).await;
    }
    Ok(())
}
