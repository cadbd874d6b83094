//! The user of a scene: creates its objects, lets the cluster settle, and makes the changes there and in a simulation.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::PoisonError;
use std::time::Duration;

use berth_api::feature_gates::FeatureGates;
use berth_api::object::{NamespacedName, Node, Pod};
use berth_api::read::Kind;
use berth_api::resource::{self, Resource};
use berth_api::syntax::labels::ZONE;
use berth_client::call::{self, CallError};
use berth_client::{WatchOptions, list};
use berth_input::inventory::Inventory;
use berth_simulate::what_if::{Change, WhatIf};
use berth_simulate::{SimulationOptions, Workloads};
use http::Method;
use jiff::Timestamp;
use serde_json::{Value, json};
use tokio::time::Instant;

use super::budgets;
use super::scene::{Scene, Step};
use super::states::{Key, differences, in_cluster, offline, without_order, without_reasons};
use crate::workload::Switches;

const TIMEOUT: Duration = Duration::from_secs(10);
/// How fast time passes.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Pace {
    Simulated,
    Real,
}

/// Between two looks at the pods, and two attempts to evict.
const LOOK: Duration = Duration::from_secs(5);
/// The same in real time.
const REAL_LOOK: Duration = Duration::from_secs(1);
/// The time without a change after which a real cluster has settled, where nothing waits for seconds of a toleration or for a removed node.
const SHORT_QUIET: Duration = Duration::from_secs(8);
/// The cluster has settled when its pods have not changed for so long: longer than seconds of tolerations in scenes, and than pods of removed
/// nodes are kept.
const QUIET: Duration = Duration::from_secs(100);
/// The same after nodes have lost contact: they are found out after 40 s, one after the other, and pods tolerate that for 300 s.
const QUIET_AFTER_LOSS: Duration = Duration::from_secs(500);
/// A cluster that has not settled after this time does not.
const LONGEST: Duration = Duration::from_secs(5_000);

/// What a simulation reads of scenes.
const DUMPED: [Resource; 21] = [
    resource::NODES,
    resource::NAMESPACES,
    resource::POD_DISRUPTION_BUDGETS,
    resource::HORIZONTAL_POD_AUTOSCALERS,
    resource::LIMIT_RANGES,
    resource::RESOURCE_QUOTAS,
    resource::SERVICES,
    resource::DEPLOYMENTS,
    resource::REPLICA_SETS,
    resource::STATEFUL_SETS,
    resource::DAEMON_SETS,
    resource::JOBS,
    resource::STORAGE_CLASSES,
    resource::PERSISTENT_VOLUMES,
    resource::PERSISTENT_VOLUME_CLAIMS,
    resource::CSI_NODES,
    resource::CSI_DRIVERS,
    resource::CSI_STORAGE_CAPACITIES,
    resource::PRIORITY_CLASSES,
    resource::POD_GROUPS_V1BETA1,
    resource::PODS,
];

/// The kinds whose number of pods follows from the object, and where it is. Pods of DaemonSets may also stay where they are not desired.
const WITH_NUMBER: [(Resource, &str); 5] = [
    (resource::REPLICA_SETS, "/spec/replicas"),
    (resource::STATEFUL_SETS, "/spec/replicas"),
    (resource::DAEMON_SETS, "/status/desiredNumberScheduled"),
    (resource::DAEMON_SETS, "/status/numberMisscheduled"),
    (resource::JOBS, "/spec/parallelism"),
];

pub struct User {
    client: kube::Client,
    pace: Pace,
    switches: Switches,
    /// Evictions that are to be made, with the nodes of the pods; tried again until they succeed or the drain is given up.
    evictions: BTreeSet<(NamespacedName, String)>,
    /// Nodes without contact.
    lost: BTreeSet<String>,
    /// Whether several pods may have left at once, in any order.
    has_lost_pods: bool,
    /// Whether there are Jobs: they wait after each pod that has left.
    has_jobs: bool,
}

impl User {
    pub fn new(client: kube::Client, switches: Switches, pace: Pace) -> User {
        let (evictions, lost) = (BTreeSet::new(), BTreeSet::new());
        User { client, pace, switches, evictions, lost, has_lost_pods: false, has_jobs: false }
    }

    /// Plays the scene on both sides. Returns what differs.
    pub async fn compare(mut self, scene: &Scene) -> Vec<String> {
        match self.play(scene).await {
            Ok(findings) => findings,
            Err(error) => vec![error],
        }
    }

    async fn play(&mut self, scene: &Scene) -> Result<Vec<String>, String> {
        while berth_controllers::install_storage_class(self.client.clone()).await.is_err() {
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        self.has_jobs = scene.workloads.iter().any(|workload| workload.kind == Kind::Job);
        for object in &scene.objects {
            self.create(object).await?;
        }
        self.settle(self.quiet()).await?;
        self.fail_probes(scene).await?;
        self.settle(self.quiet()).await?;
        let dump = self.dump().await?;
        if let Some(path) = std::env::var_os("FAULTSIM_HISTORY") {
            std::fs::write(&path, dump.to_string()).map_err(|error| error.to_string())?;
        }
        let inventory = Inventory::from_text(&dump.to_string()).map_err(|error| error.to_string())?;
        let disagreements = budgets::disagreements(&inventory, &self.would_evict(&inventory).await?)?;
        if !disagreements.is_empty() {
            return Ok(disagreements);
        }
        let workloads = Workloads::new(&inventory);
        let mut what_if = WhatIf::new(inventory, SimulationOptions::default(), Timestamp::now())
            .map_err(|error| format!("offline: {error}"))?;
        let mut played = Vec::new();
        for step in &scene.steps {
            let made = match step {
                Step::NewTemplate(kind, name) => Some(self.change_template(*kind, name, &mut what_if).await?),
                step => self.change_both(step, &workloads, &mut what_if).await?,
            };
            let Some((change, quiet)) = made else { continue };
            played.push(change);
            let pods = match self.settle(quiet).await {
                Ok(pods) => pods,
                Err(_) if scene.has_pods_that_return() => return Ok(Vec::new()),
                Err(error) => return Err(format!("after {}: {error}", played.join(", "))),
            };
            let simulation = what_if.simulation().map_err(|error| format!("offline: {error}"))?;
            let on_nodes =
                pods.iter().map(|pod| (pod.key(), &pod.spec.node_name)).collect::<BTreeMap<_, _>>();
            let simulated = simulation.pods().iter().map(|pod| (pod.pod.key(), pod.node()));
            let simulated = simulated.collect::<BTreeMap<_, _>>();
            tracing::info!(change = played.last(), cluster = ?on_nodes, offline = ?simulated, "settled");
            let cluster = in_cluster(&pods, &workloads, &self.wanted().await?, &self.lost);
            let offline = offline(&simulation, &self.lost);
            let [mut offline, mut cluster] = [offline, cluster];
            if self.pace == Pace::Real {
                [offline, cluster] = [offline, cluster].map(without_reasons);
            }
            if self.has_lost_pods {
                [offline, cluster] = [offline, cluster].map(without_order);
            }
            let different = differences(&offline, &cluster);
            if !different.is_empty() {
                return Ok(different
                    .into_iter()
                    .map(|d| format!("after {}: {d}", played.join(", ")))
                    .collect());
            }
        }
        Ok(Vec::new())
    }

    /// Makes a change on both sides, unless there is nothing to change. Returns it, and how long pods do not change once the cluster has
    /// settled.
    async fn change_both(
        &mut self,
        step: &Step,
        workloads: &Workloads,
        what_if: &mut WhatIf,
    ) -> Result<Option<(String, Duration)>, String> {
        let pods = self.pods().await?;
        let Some(change) = self.change(step, &pods, workloads)? else { return Ok(None) };
        let nodes_before = names(what_if);
        // The names of pods differ between both sides.
        let offline_change = match (&change, step) {
            (Change::Evict(pod), Step::EvictOneOf(..)) => {
                match self.alike(pod, &pods, workloads, what_if)? {
                    Some(pod) => Change::Evict(pod),
                    None => return Ok(None),
                }
            }
            (change, _) => change.clone(),
        };
        // Where no other node is left, nothing is evicted, which is not simulated.
        if let Change::LoseContact { value, .. } = &change
            && self.is_last_zone(value).await?
        {
            return Ok(None);
        }
        // Nodes may be gone.
        if what_if.apply(&offline_change).is_err() {
            return Ok(None);
        }
        what_if.then().map_err(|error| format!("offline: {error}"))?;
        tracing::info!(change = %change, "a user changes the cluster");
        let added = what_if.inventory().nodes.iter().map(|entry| &entry.object);
        let added: Vec<Node> =
            added.filter(|node| !nodes_before.contains(&node.metadata.name)).cloned().collect();
        Ok(Some((offline_change.to_string(), self.make(&change, &added).await?)))
    }

    /// Changes the template of a workload on both sides.
    async fn change_template(
        &self,
        kind: Kind,
        name: &NamespacedName,
        what_if: &mut WhatIf,
    ) -> Result<(String, Duration), String> {
        let resource = Resource::of_kind("apps/v1", kind.name());
        let path = resource.map(|r| r.object_path(name.namespace(), name.name())).unwrap_or_default();
        let mut object = self.send(Method::GET, &path, &Value::Null).await?;
        let at = &object["metadata"]["resourceVersion"];
        object["spec"]["template"]["metadata"]["annotations"]["changed"] = at.clone();
        object["spec"]["template"]["spec"]["containers"][0]["resources"]["requests"]["cpu"] = json!("150m");
        let read =
            |inventory: &mut Inventory| inventory.read(object.to_string().as_bytes(), "change").map(drop);
        let read = what_if.overlay(read).map_err(|error| format!("offline: {error}"))?;
        read.map_err(|error| format!("offline: {error}"))?;
        what_if.then().map_err(|error| format!("offline: {error}"))?;
        self.patch(&path, json!({"spec": {"template": object["spec"]["template"]}})).await?;
        Ok((format!("a new template of {} {name}", kind.name()), self.quiet()))
    }

    /// Pods are not ready from now on.
    async fn fail_probes(&self, scene: &Scene) -> Result<(), String> {
        for (i, pod) in self.items(&resource::PODS).await?.iter().enumerate() {
            if pod["status"]["phase"] == "Running" && scene.fails_probes(i) {
                let text = |field: &str| pod["metadata"][field].as_str().unwrap_or_default().to_owned();
                let path = resource::PODS.object_path(&text("namespace"), &text("name"));
                self.patch(&format!("{path}/status"), json!({"status": budgets::unready(&pod["status"])}))
                    .await?;
            }
        }
        Ok(())
    }

    /// Whether the API server would evict each running pod now.
    async fn would_evict(&self, inventory: &Inventory) -> Result<BTreeMap<String, bool>, String> {
        let mut answers = BTreeMap::new();
        for pod in inventory.pods.iter().map(|entry| &entry.object) {
            if pod.spec.node_name.is_empty() || pod.is_terminal() || pod.metadata.is_deleting() {
                continue;
            }
            let answer = match self.try_evict(&pod.metadata.namespaced_name(), "?dryRun=All").await {
                Err(error) if matches!(error.code(), Some(429 | 500)) => false,
                Err(error) => return Err(error.to_string()),
                Ok(_) => true,
            };
            answers.insert(pod.key(), answer);
        }
        Ok(answers)
    }

    async fn try_evict(&self, pod: &NamespacedName, query: &str) -> Result<Value, CallError> {
        let (namespace, name) = (pod.namespace(), pod.name());
        let path = format!("{}/eviction{query}", resource::PODS.object_path(namespace, name));
        let metadata = json!({"namespace": namespace, "name": name});
        let eviction = json!({"apiVersion": "policy/v1", "kind": "Eviction", "metadata": metadata});
        self.try_send(Method::POST, &path, &eviction).await
    }

    /// The change of a step; none if there is nothing to change.
    fn change(&self, step: &Step, pods: &[Pod], workloads: &Workloads) -> Result<Option<Change>, String> {
        Ok(match step {
            Step::Change(change) => Some(change.clone()),
            Step::EvictOneOf(namespace, workload) => {
                let is_of = |pod: &&Pod| {
                    pod.metadata.namespace == *namespace
                        && workloads.owner(pod).as_deref() == Some(workload)
                        && pod.status.phase == "Running"
                        && !self.lost.contains(&pod.spec.node_name)
                };
                pods.iter().find(is_of).map(|pod| Change::Evict(pod.metadata.namespaced_name()))
            }
            // Not one of the changes.
            Step::NewTemplate(..) => None,
        })
    }

    /// A pod of the simulation of the same workload: on the same node if there is one, as ready as it, of the same name.
    fn alike(
        &self,
        pod: &NamespacedName,
        pods: &[Pod],
        workloads: &Workloads,
        what_if: &WhatIf,
    ) -> Result<Option<NamespacedName>, String> {
        let Some(pod) = pods.iter().find(|other| other.metadata.namespaced_name() == *pod) else {
            return Ok(None);
        };
        let simulation = what_if.simulation().map_err(|error| format!("offline: {error}"))?;
        let owner = workloads.owner(pod);
        let of_workload = simulation.pods().iter().filter(|other| {
            other.pod.metadata.namespace == pod.metadata.namespace
                && other.workload == owner
                && other.node().is_some_and(|node| !self.lost.contains(node))
        });
        let best = of_workload.max_by_key(|other| {
            let is_as_ready = other.pod.is_unready() == pod.is_unready();
            let has_name = other.pod.metadata.name == pod.metadata.name;
            (other.node() == Some(&pod.spec.node_name), is_as_ready, has_name)
        });
        Ok(best.map(|other| other.pod.metadata.namespaced_name()))
    }

    /// Makes a change in the cluster. Returns how long its pods do not change once it has settled.
    async fn make(&mut self, change: &Change, added: &[Node]) -> Result<Duration, String> {
        match change {
            Change::Cordon(node) => self.cordon(node, true).await?,
            Change::Uncordon(node) => {
                self.evictions.retain(|(_, of)| of != node);
                self.cordon(node, false).await?;
            }
            Change::Drain(node) => {
                self.cordon(node, true).await?;
                let pods = self.pods().await?;
                let on_node = pods.iter().filter(|pod| pod.spec.node_name == *node && !pod.belongs_to_node());
                self.evictions.extend(on_node.map(|pod| (pod.metadata.namespaced_name(), node.clone())));
            }
            Change::RemoveNode(node) => self.remove(node).await?,
            Change::RemoveDomain { key, value } => {
                for node in self.nodes_with(key, value).await? {
                    self.remove(&node).await?;
                }
            }
            Change::LoseContact { key, value, .. } => {
                for node in self.nodes_with(key, value).await? {
                    let controls = self.switches.lock().unwrap_or_else(PoisonError::into_inner).clone();
                    for control in controls {
                        control.stop_node(&node).await.map_err(|error| error.to_string())?;
                    }
                    self.lost.insert(node);
                }
                return Ok(QUIET_AFTER_LOSS);
            }
            Change::AddNodes { .. } => {
                for node in added {
                    let mut node = serde_json::to_value(node).map_err(|error| error.to_string())?;
                    (node["apiVersion"], node["kind"]) = (json!("v1"), json!("Node"));
                    for of_server in ["resourceVersion", "uid", "creationTimestamp"] {
                        node["metadata"].as_object_mut().and_then(|metadata| metadata.remove(of_server));
                    }
                    self.create(&node).await?;
                }
            }
            Change::Scale { kind, name, n_replicas } => {
                let resource = Resource::of_kind("apps/v1", kind.name());
                let path = resource.map(|r| r.object_path(name.namespace(), name.name())).unwrap_or_default();
                self.patch(&path, json!({"spec": {"replicas": n_replicas}})).await?;
            }
            Change::SetTaint { node, taint } => {
                let path = resource::NODES.object_path("", node);
                let object = self.send(Method::GET, &path, &Value::Null).await?;
                let mut taints = object["spec"]["taints"].as_array().cloned().unwrap_or_default();
                let taint = json!({"key": taint.key, "value": taint.value, "effect": taint.effect});
                taints.retain(|t| (&t["key"], &t["effect"]) != (&taint["key"], &taint["effect"]));
                taints.push(taint);
                self.patch(&path, json!({"spec": {"taints": taints}})).await?;
            }
            Change::RemoveTaint { node, key, .. } => {
                let path = resource::NODES.object_path("", node);
                let object = self.send(Method::GET, &path, &Value::Null).await?;
                let mut taints = object["spec"]["taints"].as_array().cloned().unwrap_or_default();
                taints.retain(|taint| taint["key"] != key.as_str());
                self.patch(&path, json!({"spec": {"taints": taints}})).await?;
            }
            Change::Evict(pod) => {
                let pods = self.pods().await?;
                let node = pods.iter().find(|other| other.metadata.namespaced_name() == *pod);
                let node = node.map(|pod| pod.spec.node_name.clone()).unwrap_or_default();
                self.evictions.insert((pod.clone(), node));
            }
            _ => return Err(format!("scenes do not have this change: {change}")),
        }
        Ok(match change {
            Change::RemoveNode(_) | Change::RemoveDomain { .. } | Change::SetTaint { .. } => {
                self.has_lost_pods = true;
                QUIET
            }
            _ => self.quiet(),
        })
    }

    /// How long nothing changes once a cluster has settled.
    fn quiet(&self) -> Duration {
        if self.pace == Pace::Real && !self.has_jobs { SHORT_QUIET } else { QUIET }
    }

    async fn cordon(&self, node: &str, unschedulable: bool) -> Result<(), String> {
        self.patch(&resource::NODES.object_path("", node), json!({"spec": {"unschedulable": unschedulable}}))
            .await
    }

    async fn remove(&mut self, node: &str) -> Result<(), String> {
        self.evictions.retain(|(_, of)| of != node);
        self.lost.remove(node);
        self.send(Method::DELETE, &resource::NODES.object_path("", node), &Value::Null).await.map(drop)
    }

    async fn nodes_with(&self, key: &str, value: &str) -> Result<Vec<String>, String> {
        let nodes = self.items(&resource::NODES).await?;
        let has = nodes.iter().filter(|node| node["metadata"]["labels"][key] == value);
        Ok(has.filter_map(|node| Some(node["metadata"]["name"].as_str()?.to_owned())).collect())
    }

    async fn is_last_zone(&self, zone: &str) -> Result<bool, String> {
        let nodes = self.items(&resource::NODES).await?;
        let is_left = |node: &Value| {
            let metadata = &node["metadata"];
            metadata["labels"][ZONE] != zone
                && !metadata["name"].as_str().is_some_and(|name| self.lost.contains(name))
        };
        Ok(!nodes.iter().any(is_left))
    }

    /// Waits until the pods have not changed for a time, and tries to evict. Returns the pods.
    async fn settle(&mut self, quiet: Duration) -> Result<Vec<Pod>, String> {
        let begin = Instant::now();
        let (mut since, mut last) = (begin, Vec::new());
        loop {
            self.evict().await?;
            tokio::time::sleep(if self.pace == Pace::Real { REAL_LOOK } else { LOOK }).await;
            let pods = self.pods().await?;
            let state = |pod: &Pod| {
                let Pod { metadata, spec, status } = pod;
                (
                    metadata.uid.clone(),
                    spec.node_name.clone(),
                    status.phase.clone(),
                    metadata.is_deleting(),
                    pod.is_unready(),
                )
            };
            let mut states: Vec<_> = pods.iter().map(state).collect();
            states.sort();
            if states != last {
                (since, last) = (Instant::now(), states);
            } else if since.elapsed() >= quiet {
                return Ok(pods);
            } else if begin.elapsed() > LONGEST {
                return Err("the cluster does not settle".to_owned());
            }
        }
    }

    async fn evict(&mut self) -> Result<(), String> {
        for (pod, node) in self.evictions.clone() {
            match self.try_evict(&pod, "").await {
                // Refused by a budget, or by several of them.
                Err(error) if matches!(error.code(), Some(429 | 500)) => {}
                Err(error) if !error.is_not_found() => return Err(error.to_string()),
                _ => _ = self.evictions.remove(&(pod, node)),
            }
        }
        Ok(())
    }

    /// How many pods the workloads want.
    async fn wanted(&self) -> Result<BTreeMap<Key, usize>, String> {
        let mut wanted = BTreeMap::new();
        for (resource, number) in WITH_NUMBER {
            for object in self.items(&resource).await? {
                let metadata = &object["metadata"];
                let text = |field: &str| metadata[field].as_str().unwrap_or_default().to_owned();
                let n = object.pointer(number).and_then(Value::as_u64).unwrap_or(0);
                // A Deployment wants what its ReplicaSets want.
                let owner = &metadata["ownerReferences"][0];
                let workload = match owner["name"].as_str() {
                    Some(name) => format!("{} {name}", owner["kind"].as_str().unwrap_or_default()),
                    None => format!("{} {}", resource.kind, text("name")),
                };
                *wanted.entry((text("namespace"), workload)).or_default() +=
                    usize::try_from(n).unwrap_or(usize::MAX);
            }
        }
        Ok(wanted)
    }

    async fn dump(&self) -> Result<Value, String> {
        let mut objects = Vec::new();
        for resource in DUMPED {
            for mut object in self.items(&resource).await? {
                (object["apiVersion"], object["kind"]) =
                    (json!(resource.api_version()), json!(resource.kind));
                objects.push(object);
            }
        }
        Ok(json!({"apiVersion": "v1", "kind": "List", "items": objects}))
    }

    pub async fn items(&self, resource: &Resource) -> Result<Vec<Value>, String> {
        let list = self.send(Method::GET, &resource.path(""), &Value::Null).await?;
        Ok(list["items"].as_array().cloned().unwrap_or_default())
    }

    async fn pods(&self) -> Result<Vec<Pod>, String> {
        let options = WatchOptions::new(resource::PODS.path(""));
        list(&self.client, &options).await.map_err(|error| error.to_string())
    }

    async fn create(&self, object: &Value) -> Result<(), String> {
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let resource = Resource::of_kind(&text(&object["apiVersion"]), &text(&object["kind"]));
        let path =
            resource.map(|r| r.served(FeatureGates::default()).path(&text(&object["metadata"]["namespace"])));
        loop {
            match self.try_send(Method::POST, path.as_deref().unwrap_or_default(), object).await {
                // The server starts, or a namespace has no service account so far.
                Err(error) if !matches!(error.code(), Some(400..=499)) => {
                    tokio::time::sleep(Duration::from_millis(500)).await;
                }
                Err(error) => return Err(format!("{}: {error}", object["metadata"]["name"])),
                Ok(_) => return Ok(()),
            }
        }
    }

    async fn patch(&self, path: &str, patch: Value) -> Result<(), String> {
        self.send(Method::PATCH, path, &patch).await.map(drop)
    }

    async fn send(&self, method: Method, path: &str, body: &Value) -> Result<Value, String> {
        self.try_send(method.clone(), path, body).await.map_err(|error| format!("{method} {path}: {error}"))
    }

    pub async fn try_send(&self, method: Method, path: &str, body: &Value) -> Result<Value, CallError> {
        let media_type =
            if method == Method::PATCH { "application/merge-patch+json" } else { "application/json" };
        let body = if body.is_null() { Vec::new() } else { body.to_string().into_bytes() };
        call::json(&self.client, call::with_body(method, path, media_type, body), TIMEOUT).await
    }
}

fn names(what_if: &WhatIf) -> BTreeSet<String> {
    what_if.inventory().nodes.iter().map(|entry| entry.object.metadata.name.clone()).collect()
}
