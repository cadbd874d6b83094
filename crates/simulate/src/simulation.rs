//! Simulations: an inventory of objects becomes a cluster, and every waiting pod is placed.
//!
//! Workloads are expanded to the pods their controllers would make; pods are admitted as the API server
//! would; running pods stay where they are; the others are placed by priority, then in input order. Pods that
//! fit nowhere are tried again as long as others find a place, as a scheduler's queue would do.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use berth_api::admission::{Admission, AdmissionOptions, ErrorType, FieldError, admit};
use berth_api::expand::{ExpandError, OwnerSelector, expand};
use berth_api::object::{Pod, PriorityClass};
use berth_api::read::{Entry, Inventory, Kind, SourceLocation, Workload};
use berth_api::rules::Selector;
use berth_api::simulated_nodes::SimulatedNodes;
use berth_engine::{Cluster, Outcome, Settings};
use serde_json::Value;

use crate::PodExplanation;
use crate::workloads::{self, Workloads};

/// What a simulation is made from, besides the inventory.
#[derive(Clone, Debug, Default)]
pub struct SimulationOptions {
    /// Settings of the cluster.
    pub settings: Settings,
    /// Nodes of the cluster if the inventory has none.
    pub simulated_nodes: Option<SimulatedNodes>,
}

/// Why a simulation cannot begin.
#[derive(Debug, thiserror::Error)]
pub enum SimulationError {
    /// A workload cannot be expanded.
    #[error(transparent)]
    Expand(#[from] ExpandError),
    /// Objects that the API server would refuse.
    #[error("{}", InvalidObject::all(.0))]
    Invalid(Vec<InvalidObject>),
}

/// An object that the API server would refuse.
#[derive(Clone, Debug)]
pub struct InvalidObject {
    /// Kind, namespace and name.
    pub object: String,
    /// Where it was read.
    pub source: Option<SourceLocation>,
    /// What is wrong with it.
    pub errors: Vec<String>,
}

impl InvalidObject {
    fn all(objects: &[InvalidObject]) -> String {
        let lines = objects.iter().flat_map(|o| {
            let place = o.source.as_ref().map(|s| format!("{s}: ")).unwrap_or_default();
            o.errors.iter().map(move |e| format!("{place}{}: {e}", o.object))
        });
        lines.collect::<Vec<_>>().join("\n")
    }
}

/// The API server would refuse such a pod, but manifests that a later step completes have no images either.
const NO_IMAGE: &str = "containers without an image: the API server will refuse the pods until they have one";

fn is_missing_image(error: &FieldError) -> bool {
    error.error_type == ErrorType::Required && error.field.ends_with("].image")
}

/// Where the fields of a pod stand in its workload.
fn template_path(workload: &Workload) -> &'static str {
    match workload.kind() {
        Kind::CronJob => "spec.jobTemplate.spec.template.",
        _ => "spec.template.",
    }
}

/// A pod that was read or made.
struct InputPod<'a> {
    entry: Entry<Pod>,
    /// As in [`SimulatedPod::workload`].
    workload: Option<String>,
    made_from: Option<&'a Workload>,
}

/// A pod of the simulation.
#[derive(Clone, Debug)]
pub struct SimulatedPod {
    /// The pod, as admitted.
    pub pod: Pod,
    /// The workload it belongs to, such as `Deployment web`; none for a pod of its own.
    pub workload: Option<String>,
    /// The object as read or made, if the inventory keeps it.
    pub raw: Option<Value>,
    /// Whether it ran already.
    pub ran: bool,
    /// What became of it.
    pub outcome: Outcome,
}

impl SimulatedPod {
    /// The node it is on; none when nowhere.
    pub fn node(&self) -> Option<&str> {
        self.outcome.node()
    }

    fn is_called(&self, namespace: &str, name: &str) -> bool {
        self.pod.metadata.namespace == namespace && self.pod.metadata.name == name
    }

    /// The score of the node at the time it was chosen; none for a pod that ran already or is nowhere.
    pub fn score(&self) -> Option<i64> {
        match self.outcome {
            Outcome::Placed { score, .. } => score,
            _ => None,
        }
    }

    /// The object with `spec.nodeName` set, all else as it was.
    pub fn placed_object(&self) -> Option<Value> {
        let mut raw = self.raw.clone()?;
        if let Some(node) = self.node() {
            raw.get_mut("spec")?.as_object_mut()?.insert("nodeName".to_owned(), node.into());
        }
        Some(raw)
    }
}

/// A cluster with pods to place.
pub struct Simulation {
    cluster: Cluster,
    /// Whether the proposals' fields are read.
    extensions: bool,
    /// All pods, running ones and waiting ones, in input order.
    pods: Vec<SimulatedPod>,
    /// Waiting pods in the order in which they are placed.
    queue: Vec<usize>,
    warnings: Vec<String>,
    workloads: Vec<(String, String)>,
    node_labels: BTreeMap<String, BTreeMap<String, String>>,
}

impl Simulation {
    /// Builds the cluster.
    ///
    /// # Errors
    /// A workload cannot be expanded, or objects are not valid: all of them are told at once.
    pub fn new(inventory: Inventory, options: SimulationOptions) -> Result<Simulation, SimulationError> {
        let mut inventory = inventory;
        if inventory.nodes.is_empty()
            && let Some(simulated) = &options.simulated_nodes
        {
            let source = SourceLocation::file("simulated nodes");
            let entry = |object| Entry { object, raw: None, source: source.clone(), order: 0 };
            inventory.nodes = simulated.nodes().into_iter().map(entry).collect();
        }
        let expansion = expand(&inventory)?;
        let made = expansion.pods.into_iter().map(|made| {
            let Entry { source, order, object: workload, .. } = &inventory.workloads[made.workload];
            let entry = Entry { object: made.pod, raw: made.raw, source: source.clone(), order: *order };
            InputPod { entry, workload: Some(workloads::name(workload)), made_from: Some(workload) }
        });
        let mut pods: Vec<_> = made.collect();
        let workloads = Workloads::new(&inventory);
        let owner = workloads.owners();
        pods.extend(std::mem::take(&mut inventory.pods).into_iter().map(|entry| {
            let workload = owner(&entry.object);
            InputPod { entry, workload, made_from: None }
        }));
        drop(owner);
        pods.sort_by_key(|pod| pod.entry.order);

        let mut simulation = Simulation {
            extensions: options.settings.extensions,
            cluster: Cluster::new(options.settings),
            pods: Vec::new(),
            queue: Vec::new(),
            warnings: Vec::new(),
            workloads: workloads.whole,
            node_labels: BTreeMap::new(),
        };
        let mut invalid = simulation.add_cluster_objects(&inventory, &expansion.owner_selectors);
        let classes: Vec<_> = inventory.priority_classes.into_iter().map(|e| e.object).collect();
        simulation.add_pods(pods, &classes, &mut invalid);
        if invalid.is_empty() { Ok(simulation) } else { Err(SimulationError::Invalid(invalid)) }
    }

    /// The cluster with its running pods, and with waiting ones as far as they have been placed.
    pub fn cluster(&mut self) -> &mut Cluster {
        &mut self.cluster
    }

    fn add_cluster_objects(&mut self, inventory: &Inventory, owners: &[OwnerSelector]) -> Vec<InvalidObject> {
        let mut invalid = Vec::new();
        for namespace in &inventory.namespaces {
            self.cluster.set_namespace(&namespace.object);
        }
        for service in &inventory.services {
            self.cluster.set_service(&service.object);
        }
        for owner in owners {
            if let Ok(selector) = Selector::parse(Some(&owner.selector)) {
                self.cluster.set_owner_selector(
                    owner.kind.name(),
                    &owner.namespace,
                    &owner.name,
                    Some(selector),
                );
            }
        }
        for entry in &inventory.nodes {
            let node = &entry.object;
            let name = &node.metadata.name;
            let offered = node.status.allocatable.as_ref().or(node.status.capacity.as_ref());
            let negative = offered.into_iter().flatten().filter(|(_, q)| q.is_negative());
            let errors: Vec<_> = negative
                .map(|(resource, q)| format!("status.allocatable[{resource}]: Invalid value: \"{q}\": must be greater than or equal to 0"))
                .collect();
            if !errors.is_empty() {
                invalid.push(InvalidObject {
                    object: format!("Node {name}"),
                    source: Some(entry.source.clone()),
                    errors,
                });
            }
            match offered {
                None => self.warnings.push(format!("Node {name}: status.allocatable is missing, so no pod fits on it: add cpu, memory and pods")),
                Some(offered) if !offered.contains_key("pods") => {
                    self.warnings.push(format!("Node {name}: status.allocatable[pods] is missing, so no pod fits on it: add it, for example 110"));
                }
                Some(_) => {}
            }
            self.node_labels.insert(name.clone(), node.metadata.labels.clone());
            self.cluster.set_node(node);
        }
        invalid
    }

    fn add_pods(
        &mut self,
        pods: Vec<InputPod<'_>>,
        classes: &[PriorityClass],
        invalid: &mut Vec<InvalidObject>,
    ) {
        let mut unknown_classes = BTreeSet::new();
        for InputPod { entry, workload, made_from } in pods {
            let Entry { object: mut pod, raw, source, .. } = entry;
            if pod.is_terminal() {
                continue;
            }
            // What an API server has stored was admitted then, with the label keys merged.
            if pod.metadata.creation_timestamp.is_none() {
                let class = pod.spec.priority_class_name.clone();
                let known = class.is_empty()
                    || classes.iter().any(|c| c.metadata.name == class)
                    || class.starts_with("system-");
                if !known {
                    unknown_classes.insert(class);
                }
                let options = AdmissionOptions {
                    extensions: self.extensions,
                    priority_classes: (known && !classes.is_empty()).then_some(classes),
                    ..AdmissionOptions::default()
                };
                let Admission { denied, mut errors, mut warnings } = admit(&mut pod, &options);
                let n_errors = errors.len();
                errors.retain(|error| !is_missing_image(error));
                if errors.len() < n_errors {
                    warnings.push(NO_IMAGE.to_owned());
                }
                let name = || workload.clone().unwrap_or_else(|| format!("Pod {}", pod.key()));
                self.warnings.extend(warnings.iter().map(|w| format!("{}: {w}", name())));
                if denied.is_some() || !errors.is_empty() {
                    let object = made_from.map_or_else(|| format!("Pod {}", pod.key()), Workload::to_string);
                    let path = made_from.map_or("", template_path);
                    let errors = errors.iter().map(|error| format!("{path}{error}")).chain(denied).collect();
                    invalid.push(InvalidObject { object, source: Some(source), errors });
                    continue;
                }
            }
            self.add_pod(pod, raw, workload);
        }
        for class in unknown_classes {
            self.warnings
                .push(format!("PriorityClass {class} is not in the input: pods that name it get priority 0"));
        }
        let mut seen = HashSet::new();
        self.warnings.retain(|warning| seen.insert(warning.clone()));
        // The pods of a workload are refused for the same reasons.
        invalid.dedup_by(|a, b| a.object == b.object);
        let pods = &self.pods;
        self.queue.sort_by_key(|i| std::cmp::Reverse(pods[*i].pod.spec.priority.unwrap_or(0)));
    }

    fn add_pod(&mut self, pod: Pod, raw: Option<Value>, workload: Option<String>) {
        let node = pod.spec.node_name.clone();
        let ran = !node.is_empty();
        let outcome = if ran {
            if !self.cluster.set_pod(&pod) {
                self.warnings.push(format!(
                    "Pod {}: spec.nodeName names node {node}, which is not in the input: the pod is kept, and counts nowhere",
                    pod.key()
                ));
            }
            Outcome::Placed { node, score: None }
        } else if pod.metadata.deletion_timestamp.is_some() {
            Outcome::Failed { error: "the pod is being deleted and is not scheduled".to_owned() }
        } else {
            self.queue.push(self.pods.len());
            Outcome::Unschedulable { message: String::new() }
        };
        self.pods.push(SimulatedPod { pod, workload, raw, ran, outcome });
    }

    /// Places every waiting pod, and tells after each how many are done of how many.
    pub fn run(&mut self, mut progress: impl FnMut(usize, usize)) {
        let n_waiting = self.queue.len();
        let prepare = |i: &usize| (*i, self.cluster.prepare(&self.pods[*i].pod));
        let mut waiting: Vec<_> = self.queue.iter().map(prepare).collect();
        // Pods that nothing tells apart share the answer for as long as nobody else is placed.
        let mut failures = HashMap::new();
        let mut n_placed = 0;
        loop {
            let before = waiting.len();
            waiting.retain(|(i, pod)| {
                let alike = self.cluster.equivalence(pod);
                let outcome = match failures.get(&alike) {
                    Some((at, outcome)) if *at == n_placed => Outcome::clone(outcome),
                    _ => self.cluster.place_prepared(pod),
                };
                let placed = outcome.node().is_some();
                if placed {
                    n_placed += 1;
                    progress(n_placed, n_waiting);
                } else {
                    failures.insert(alike, (n_placed, outcome.clone()));
                }
                self.pods[*i].outcome = outcome;
                !placed
            });
            if waiting.is_empty() || waiting.len() == before {
                break;
            }
        }
    }

    /// Places the pods that come before one in the queue; for explaining that one.
    pub fn run_before(&mut self, namespace: &str, name: &str) {
        if let Some(position) = self.queue.iter().position(|i| self.pods[*i].is_called(namespace, name)) {
            self.queue.truncate(position);
            self.run(|_, _| ());
        }
    }

    /// Places all waiting pods but one; for explaining that one.
    pub fn run_others(&mut self, namespace: &str, name: &str) {
        let pods = &self.pods;
        self.queue.retain(|i| !pods[*i].is_called(namespace, name));
        self.run(|_, _| ());
    }

    /// All pods, in input order.
    pub fn pods(&self) -> &[SimulatedPod] {
        &self.pods
    }

    /// A pod by namespace and name.
    pub fn pod(&self, namespace: &str, name: &str) -> Option<&SimulatedPod> {
        self.pods.iter().find(|p| p.is_called(namespace, name))
    }

    /// Namespace and name, such as `Deployment web`, of every workload of the input that is not part of another;
    /// some may have no pods.
    pub fn workloads(&self) -> &[(String, String)] {
        &self.workloads
    }

    /// What was noticed about the input.
    pub fn warnings(&self) -> &[String] {
        &self.warnings
    }

    /// Number of nodes.
    pub fn n_nodes(&self) -> usize {
        self.cluster.n_nodes()
    }

    /// The value of a label of a node.
    pub fn node_label(&self, node: &str, key: &str) -> Option<&str> {
        self.node_labels.get(node)?.get(key).map(String::as_str)
    }

    /// The values that a label has on the nodes.
    pub fn domains(&self, key: &str) -> BTreeSet<String> {
        self.node_labels.values().filter_map(|labels| labels.get(key)).cloned().collect()
    }

    /// Whether there is a node of this name.
    pub fn has_node(&self, name: &str) -> bool {
        self.node_labels.contains_key(name)
    }

    /// Explains a pod in the present state; with a node, the groups of nodes hold that node alone. None if
    /// there is no such pod.
    pub fn explain(&mut self, namespace: &str, name: &str, node: Option<&str>) -> Option<PodExplanation> {
        let pod = &self.pods.iter().find(|p| p.is_called(namespace, name))?.pod;
        let explanation = self.cluster.explain_on(pod, node);
        Some(PodExplanation::new(explanation, pod, self.pods.iter().map(|p| &p.pod), self.extensions))
    }
}
