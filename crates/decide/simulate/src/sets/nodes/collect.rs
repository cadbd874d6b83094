//! The rules about nodes of an input.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::fmt::Write;
use std::hash::Hash;

use berth_api::object::Pod;
use berth_api::read::Kind;
use berth_api::syntax::annotations::AFFINITY_ANNOTATION;
use berth_control::expand::workload_pods;
use berth_input::inventory::{Inventory, WorkloadSpec};
use berth_rules::{Dialect, NodeRequirement, NodeSelectorRule, NodeTerm, Requirement, Tolerations};

use crate::Simulation;
use crate::sets::PodGroup;
use crate::simulation::{SimulatedPod, SimulationError, workloads};

/// The workloads of an input whose rules about nodes are compared, in case that they have no pods.
#[derive(Clone, Debug)]
pub struct NodeSets {
    pub(super) templates: Vec<Template>,
}

/// The template of a workload.
#[derive(Clone, Debug)]
pub(super) struct Template {
    object: String,
    is_daemon: bool,
    pod: Pod,
}

impl NodeSets {
    /// The workloads of an input.
    ///
    /// # Errors
    /// The API server would reject a workload.
    pub fn new(inventory: &Inventory) -> Result<NodeSets, SimulationError> {
        let mut templates = Vec::new();
        for entry in &inventory.workloads {
            let is_finished =
                matches!(&entry.object.spec, WorkloadSpec::Job(job) if job.status.is_finished());
            if !is_finished && workloads::owning_workload(entry.object.metadata()).is_none() {
                let (object, is_daemon) =
                    (workloads::name(&entry.object), entry.object.kind() == Kind::DaemonSet);
                templates.push(Template { object, is_daemon, pod: workload_pods(entry)?.template });
            }
        }
        Ok(NodeSets { templates })
    }
}

/// Required rules about nodes: each must hold, which it does if one of its terms does.
pub(super) type Conjunction = Vec<Vec<NodeTerm>>;

/// Pods that rules about nodes treat alike: positions in the tables of [`PodClasses`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct PodClass {
    /// The node selector; none for pods that select no nodes.
    pub selector: Option<usize>,
    pub tolerations: usize,
    /// The added affinity of the profile.
    pub added: Option<usize>,
    pub is_daemon: bool,
}

/// Different values, each with the workloads whose pods have it.
pub(super) struct Table<T> {
    pub values: Vec<T>,
    pub workloads: Vec<Workloads>,
    positions: HashMap<T, usize>,
}

/// Workloads by whether they are DaemonSets, namespace and name, with the numbers of their pods.
pub(super) type Workloads = BTreeMap<(bool, String, String), usize>;

/// The pods of an input by their rules about nodes.
#[derive(Default)]
pub(super) struct PodClasses {
    pub selectors: Table<Conjunction>,
    pub tolerations: Table<Tolerations>,
    /// The added affinity of profiles.
    pub added: Table<Conjunction>,
    /// The `schedulerName` of the profiles that have it.
    pub profiles: Vec<Vec<String>>,
    pub all: BTreeSet<PodClass>,
    /// The nodes that pods name (`spec.nodeName`). No scheduler reads the rules of these pods: they have no class.
    pub named_nodes: HashSet<String>,
    pub n_pods: usize,
    pub n_pods_without_selector: usize,
}

impl<T: Clone + Eq + Hash> Table<T> {
    fn position(&mut self, value: T) -> usize {
        let Table { values, workloads, positions } = self;
        *positions.entry(value).or_insert_with_key(|value| {
            values.push(value.clone());
            workloads.push(Workloads::new());
            values.len() - 1
        })
    }
}

impl<T> Default for Table<T> {
    fn default() -> Table<T> {
        Table { values: Vec::new(), workloads: Vec::new(), positions: HashMap::new() }
    }
}

impl PodClasses {
    /// The pods of a simulation in some namespaces, and the templates of workloads without pods.
    pub(super) fn new(
        templates: &[Template],
        simulation: &Simulation,
        is_wanted: impl Fn(&str) -> bool,
    ) -> PodClasses {
        let mut classes = PodClasses::default();
        let mut added_to = HashMap::new();
        for profile in &simulation.cluster.settings().config.profiles {
            let added = profile.node_affinity.added_affinity.as_ref();
            let required = added.and_then(|a| a.required_during_scheduling_ignored_during_execution.as_ref());
            if let Some(selector) = required {
                let rule = NodeSelectorRule::parse(selector, String::new(), Dialect::V1, false);
                let position = classes.added.position(vec![rule.terms]);
                classes.profiles.resize_with(classes.added.values.len(), Vec::new);
                classes.profiles[position].push(profile.scheduler_name.clone());
                added_to.insert(profile.scheduler_name.as_str(), position);
            }
        }
        let mut with_pods = HashSet::new();
        for SimulatedPod { pod, workload, .. } in simulation.pods() {
            let namespace = pod.metadata.namespace.as_str();
            if let Some(workload) = workload {
                with_pods.insert((namespace, workload.as_str()));
            }
            if !is_wanted(namespace) || pod.metadata.is_deleting() {
                continue;
            }
            let named = simulation.workloads.template_node(namespace, workload.as_deref());
            let named = named.or_else(|| pod.awaits_node_admission().then_some(pod.spec.node_name.as_str()));
            if let Some(node) = named {
                classes.named_nodes.insert(node.to_owned());
            } else {
                let object = workload.clone().unwrap_or_else(|| format!("Pod {}", pod.metadata.name));
                classes.add(simulation, &added_to, pod, (object, pod.belongs_to_node()), 1);
            }
        }
        for Template { object, is_daemon, pod } in templates {
            let namespace = pod.metadata.namespace.as_str();
            if !is_wanted(namespace) || with_pods.contains(&(namespace, object.as_str())) {
                continue;
            }
            if !pod.spec.node_name.is_empty() {
                classes.named_nodes.insert(pod.spec.node_name.clone());
            } else {
                classes.add(simulation, &added_to, pod, (object.clone(), *is_daemon), 0);
            }
        }
        classes
    }

    /// `added_to`: the positions of the added affinity of profiles.
    fn add(
        &mut self,
        simulation: &Simulation,
        added_to: &HashMap<&str, usize>,
        pod: &Pod,
        (object, is_daemon): (String, bool),
        n_pods: usize,
    ) {
        let selector = node_selector(simulation, pod, is_daemon);
        if !is_daemon {
            self.n_pods += n_pods;
            self.n_pods_without_selector += if selector.is_empty() { n_pods } else { 0 };
        }
        let selector = (!selector.is_empty()).then(|| self.selectors.position(selector));
        let config = &simulation.cluster.settings().config;
        let tolerations = Tolerations::parse(&pod.spec.tolerations, config.feature_gates);
        let tolerations = self.tolerations.position(tolerations);
        let profile = config.profile(&pod.spec.scheduler_name);
        let added = profile.and_then(|profile| added_to.get(profile.scheduler_name.as_str())).copied();
        self.all.insert(PodClass { selector, tolerations, added, is_daemon });
        let workload = (is_daemon, pod.metadata.namespace.clone(), object);
        let of_selector = selector.map(|i| &mut self.selectors.workloads[i]);
        let of_added = added.map(|i| &mut self.added.workloads[i]);
        let of_tolerations = &mut self.tolerations.workloads[tolerations];
        for workloads in [of_selector, of_added, Some(of_tolerations)].into_iter().flatten() {
            *workloads.entry(workload.clone()).or_default() += n_pods;
        }
    }
}

/// `nodeSelector` and required node affinity of a pod. The controller of a DaemonSet adds the node of each pod: without it.
fn node_selector(simulation: &Simulation, pod: &Pod, is_daemon: bool) -> Conjunction {
    let has_affinity = pod.spec.affinity.as_ref().is_some_and(|affinity| affinity.node_affinity.is_some())
        || pod.metadata.annotations.contains_key(AFFINITY_ANNOTATION);
    let mut selector = Conjunction::new();
    if !pod.spec.node_selector.is_empty() {
        let label = |(key, value): (&String, &String)| {
            NodeRequirement::Label(Requirement::In(key.clone(), vec![value.clone()]))
        };
        selector.push(vec![NodeTerm::All(pod.spec.node_selector.iter().map(label).collect())]);
    }
    if has_affinity {
        let rules = simulation.rules_of(pod).required_node_affinity;
        selector.extend(rules.into_iter().map(|rule| rule.terms));
    }
    if is_daemon {
        let requirements = selector.iter_mut().flatten().filter_map(|term| match term {
            NodeTerm::All(requirements) => Some(requirements),
            NodeTerm::Nothing | NodeTerm::Invalid(_) => None,
        });
        for requirements in requirements {
            requirements.retain(|r| !matches!(r, NodeRequirement::Name(Requirement::In(..))));
        }
        selector.retain(|terms| !terms.iter().any(|term| *term == NodeTerm::All(Vec::new())));
    }
    selector
}

pub(super) fn text(conjunction: &Conjunction) -> String {
    let mut text = String::new();
    for (i, terms) in conjunction.iter().enumerate() {
        let is_list = terms.len() > 1;
        text.push_str(if i > 0 { ", " } else { "" });
        text.push_str(if is_list && conjunction.len() > 1 { "(" } else { "" });
        if terms.is_empty() {
            text.push_str("no node (no terms)");
        }
        for (j, term) in terms.iter().enumerate() {
            text.push_str(if j > 0 { " or " } else { "" });
            write_term(&mut text, term);
        }
        text.push_str(if is_list && conjunction.len() > 1 { ")" } else { "" });
    }
    text
}

fn write_term(text: &mut String, term: &NodeTerm) {
    match term {
        NodeTerm::Nothing => text.push_str("no node (empty term)"),
        NodeTerm::Invalid(error) => _ = write!(text, "no node (invalid term: {error})"),
        NodeTerm::All(requirements) if requirements.is_empty() => text.push_str("every node"),
        NodeTerm::All(requirements) => {
            for (i, requirement) in requirements.iter().enumerate() {
                _ = write!(text, "{}{requirement}", if i > 0 { ", " } else { "" });
            }
        }
    }
}

/// The workloads with the numbers of their pods, DaemonSets last.
pub(super) fn groups(workloads: &Workloads) -> impl Iterator<Item = PodGroup> {
    workloads.iter().map(|((_, namespace, object), n_pods)| PodGroup {
        namespace: namespace.clone(),
        object: object.clone(),
        n_pods: *n_pods,
    })
}
