//! Reads the objects of a live cluster into an inventory, page by page.

pub mod dump;

use std::time::Duration;

use berth_api::feature_gates::ServerVersion;
use berth_api::read::{Kind, SourceLocation};
use berth_api::resource::{
    CLUSTER_PLACEMENT_POLICIES, COMPOSITE_POD_GROUPS, COSCHEDULING_POD_GROUPS, CSI_DRIVERS, CSI_NODES,
    CSI_STORAGE_CAPACITIES, DAEMON_SETS, DEPLOYMENTS, DEVICE_CLASSES, DEVICE_TAINT_RULES, EVENTS,
    HORIZONTAL_POD_AUTOSCALERS, JOBS, LIMIT_RANGES, NAMESPACES, NETWORK_POLICIES, NODES,
    PERSISTENT_VOLUME_CLAIMS, PERSISTENT_VOLUMES, PLACEMENT_POLICIES, POD_DISRUPTION_BUDGETS, POD_GROUPS,
    POD_MONITORS, PODS, PRIORITY_CLASSES, REPLICA_SETS, REPLICATION_CONTROLLERS, RESOURCE_CLAIM_TEMPLATES,
    RESOURCE_CLAIMS, RESOURCE_QUOTAS, RESOURCE_SLICES, RUNTIME_CLASSES, Resource, SERVICE_MONITORS, SERVICES,
    STATEFUL_SETS, STORAGE_CLASSES, VOLUME_ATTACHMENTS, WORKLOADS,
};
use berth_client::call::{self, CallError};
use berth_client::connect::{self, ConnectError, Connection};
use berth_client::version::server_version;
use berth_client::watch::{ListError, Pages, WatchOptions, is_missing};
use berth_console_server::live::Source;
use berth_input::inventory::{InputError, Inventory};
use berth_mirror::{NodeParser, PodParser};
use bytes::Bytes;
use indicatif::ProgressBar;
use serde_json::Value;
use tokio::sync::mpsc;

/// Timeout of the request that checks permissions.
const TIMEOUT: Duration = Duration::from_secs(60);

const PAGE_SIZE: u32 = 2000;
/// A server may say that a list has more objects than it has.
const MOST_EXPECTED: usize = 2_000_000;
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
    (HORIZONTAL_POD_AUTOSCALERS, false),
    (LIMIT_RANGES, false),
    (RESOURCE_QUOTAS, false),
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
    (DEVICE_TAINT_RULES, false),
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

const OFTEN_MISSING: [Resource; 13] = [
    DEVICE_TAINT_RULES,
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
    #[error(transparent)]
    Connect(#[from] ConnectError),
    /// The server refuses a required resource.
    #[error("{server}: {error}; {}", remedy(error))]
    Call { server: String, error: Box<ListError> },
    /// The server returned an object that cannot be read.
    #[error(transparent)]
    Input(#[from] InputError),
    #[error("{server}: {error}: check that this is the address of a Kubernetes API server")]
    Json { server: String, error: serde_json::Error },
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
            inventory.server_version = server_version(&client).await.ok().flatten();
            read(&client, &server, inventory, progress).await
        })
    }

    /// A client without a credential, for requests of other users.
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

    /// The version of the API server; none if it does not answer.
    pub fn server_version(&self) -> Option<ServerVersion> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().ok()?;
        runtime.block_on(async { server_version(&self.connect().await.ok()?.0).await.ok().flatten() })
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
    let lists = tokio::spawn(list_all(client.clone(), server.to_owned(), RESOURCES.iter(), sender));
    let mut parsers = (NodeParser::default(), PodParser::default());
    let (mut listed, mut place, mut n_items) = (None, SourceLocation::file(server), 0);
    while let Some(event) = events.recv().await {
        match event {
            ListEvent::Begun(resource, n_expected) => {
                let is_again = listed.replace(resource) == Some(resource);
                if let Some(kind) = Kind::of(&resource.api_version(), resource.kind) {
                    if is_again {
                        inventory.remove_all(kind);
                    }
                    inventory.reserve(kind, n_expected.min(MOST_EXPECTED));
                }
                (place, n_items) = (SourceLocation::file(&format!("{server}{}", resource.path(""))), 0);
            }
            ListEvent::Page(resource, texts) => {
                progress.inc(texts.len() as u64);
                for text in texts {
                    let source = SourceLocation { item: Some(n_items), ..place.clone() };
                    add(&text, &resource, source, inventory, &mut parsers)?;
                    n_items += 1;
                }
            }
        }
    }
    lists.await.unwrap_or_else(|error| std::panic::resume_unwind(error.into_panic()))
}

/// A list as it is read.
enum ListEvent {
    /// It begins with about so many objects, or begins again, or ends with an error: what was read of it does not count.
    Begun(Resource, usize),
    /// The JSON of the objects of a page.
    Page(Resource, Vec<Bytes>),
}

/// Adds an object of a list. Those that cannot be read are added as any object: the error then names the field.
fn add(
    text: &[u8],
    resource: &Resource,
    source: SourceLocation,
    inventory: &mut Inventory,
    (nodes, pods): &mut (NodeParser, PodParser),
) -> Result<(), InputError> {
    match *resource {
        NODES if !inventory.keeps_raw(Kind::Node) => {
            if let Ok(node) = nodes.read(text) {
                return inventory.add_node(node, source);
            }
        }
        PODS if !inventory.keeps_raw(Kind::Pod) => {
            if let Ok(pod) = pods.read(text) {
                return inventory.add_pod(pod, source);
            }
        }
        _ => {}
    }
    inventory.add_item(resource, text, source)
}

/// Lists all resources in the first version that the server has, one after the other. Returns warnings.
async fn list_all(
    client: kube::Client,
    server: String,
    resources: impl Iterator<Item = &'static (Resource, bool)>,
    events: mpsc::Sender<ListEvent>,
) -> Result<Vec<String>, LiveError> {
    let mut warnings = Vec::new();
    for (resource, required) in resources {
        let mut listed = Ok(());
        let mut is_unknown = false;
        for version in resource.versions() {
            listed = pages(&client, version, &events).await;
            let Err(error) = &listed else { break };
            // An error if the receiver is gone, which needs no more; here and below.
            _ = events.send(ListEvent::Begun(version, 0)).await;
            is_unknown = is_missing(&client, &version.path(""), error.code(), TIMEOUT).await;
            if !is_unknown {
                break;
            }
        }
        match listed {
            Ok(()) => {}
            // Many clusters do not have these resources.
            Err(_) if OFTEN_MISSING.contains(resource) && is_unknown => {}
            Err(error) if !required && matches!(error.code(), Some(403 | 404)) => {
                warnings.push(format!("{server}: {error}: continuing without these objects"));
            }
            Err(error) => return Err(LiveError::Call { server, error: Box::new(error) }),
        }
    }
    Ok(warnings)
}

/// Lists a resource in its version.
async fn pages(
    client: &kube::Client,
    resource: Resource,
    events: &mpsc::Sender<ListEvent>,
) -> Result<(), ListError> {
    let options = WatchOptions { page_size: PAGE_SIZE, ..WatchOptions::new(resource.path("")) };
    let mut pages = Pages::new(client, &options);
    while let Some(page) = pages.next_texts().await? {
        if pages.is_first() {
            _ = events.send(ListEvent::Begun(resource, page.len().saturating_add(pages.n_remaining()))).await;
        }
        _ = events.send(ListEvent::Page(resource, page)).await;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use http::{Request, Response};
    use kube::client::Body;
    use serde_json::json;

    use super::*;

    /// The client of a server with a node whose lists of pods expire after the first page, unless they are read in one piece.
    fn client() -> kube::Client {
        let service = tower::service_fn(|request: Request<Body>| {
            let query = request.uri().query().unwrap_or_default();
            let object = |name: &str| json!({"metadata": {"name": name}});
            let list = |names: &[&str], token: &str| {
                let items: Vec<Value> = names.iter().copied().map(object).collect();
                (
                    200,
                    json!({"metadata": {"continue": token, "remainingItemCount": u64::MAX}, "items": items}),
                )
            };
            let (code, answer) = match request.uri().path() {
                "/api/v1/nodes" => list(&["n"], ""),
                "/api/v1/pods" if query.contains("continue=") => {
                    (410, json!({"code": 410, "reason": "Expired"}))
                }
                "/api/v1/pods" if query.contains("limit=") => list(&["a", "b"], "next"),
                "/api/v1/pods" => list(&["b", "c"], ""),
                _ => (403, json!({"code": 403, "reason": "Forbidden"})),
            };
            let response = Response::builder().status(code).body(Body::from(answer.to_string().into_bytes()));
            async { Ok::<_, Infallible>(response.unwrap()) }
        });
        kube::Client::new(service, "default")
    }

    #[tokio::test]
    async fn a_list_that_expires_is_read_again_from_its_begin() {
        for mut inventory in [Inventory::default(), Inventory::keeping_raw()] {
            let warnings = read(&client(), "server", &mut inventory, &ProgressBar::hidden()).await.unwrap();
            let pods =
                inventory.pods.iter().map(|entry| (entry.object.metadata.name.as_str(), entry.source.item));
            assert_eq!(pods.collect::<Vec<_>>(), [("b", Some(0)), ("c", Some(1))]);
            assert_eq!((inventory.nodes.len(), inventory.names().count()), (1, 3));
            assert!(warnings.iter().all(|warning| warning.ends_with("continuing without these objects")));
            assert!(!warnings.is_empty());
        }
    }
}
