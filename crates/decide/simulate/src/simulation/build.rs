//! Building a simulation: the objects of an inventory, expanded and admitted, become the state of a cluster.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::sync::Arc;

use berth_api::feature_gates::VersionChange;
use berth_api::object::group::GroupIndex;
use berth_api::object::volume::PersistentVolumeClaim;
use berth_api::object::{GroupKey, NamespacedName, Node, Pod, PriorityClass, RuntimeClass};
use berth_api::read::{Kind, SourceLocation};
use berth_api::simulated_nodes::SimulatedNodes;
use berth_control::budget::Scales;
use berth_control::expand::{DesiredReplicas, ExpandError, ExpandedPod, OwnerSelector, expand};
use berth_engine::{Cluster, DisruptionBudget, Outcome};
use berth_input::inventory::{Entry, Inventory, Workload};
use berth_input::policy::{PolicySet, changes};
use berth_rules::admission::{
    AdmissionOptions, AdmissionResult, ErrorType, FieldError, admit, known_runtime_classes,
    unknown_runtime_class, validate_node, validate_runtime_class,
};
use berth_rules::{KnownNamespaces, Selector, unmerge_label_keys};
use serde_json::{Value, json};

use super::created_claims::CreatedClaim;
use super::creation::{self, Creation};
use super::devices::Devices;
use super::error::{InvalidObject, SimulationError};
use super::node_admission::is_starting;
use super::options::SimulationOptions;
use super::pod::SimulatedPod;
use super::pods::Pods;
use super::rollout::Rollout;
use super::state::Simulation;
use super::unadmitted::Unadmitted;
use super::volumes::{Volumes, ephemeral_claims, volume_claims};
use super::workloads::{self, Workloads};

/// A warning and no error: templates that another tool completes have no images yet.
const NO_IMAGE: &str = "containers without an image: the API server rejects the pods until each has one";

fn is_missing_image(error: &FieldError) -> bool {
    error.error_type == ErrorType::Required && error.field.ends_with("].image")
}

/// The path of the pod template in a workload.
fn template_path(workload: &Workload) -> &'static str {
    match workload.kind() {
        Kind::CronJob => "spec.jobTemplate.spec.template.",
        _ => "spec.template.",
    }
}

/// The classes that admission reads.
pub(super) struct Classes {
    priority: Vec<PriorityClass>,
    runtime: Vec<RuntimeClass>,
}

impl Classes {
    pub(super) fn of(inventory: &Inventory) -> Classes {
        Classes {
            priority: inventory.priority_classes.iter().map(|entry| entry.object.clone()).collect(),
            runtime: inventory.runtime_classes.iter().map(|entry| entry.object.clone()).collect(),
        }
    }
}

/// Whether the PriorityClass of a pod is built in, or one of these.
fn is_known(pod: &Pod, classes: &[PriorityClass]) -> bool {
    let class = &pod.spec.priority_class_name;
    class.is_empty() || class.starts_with("system-") || classes.iter().any(|c| c.metadata.name == *class)
}

/// A pod of the inventory, or one of an expanded workload.
struct InputPod<'a> {
    entry: Entry<Pod>,
    /// As in [`SimulatedPod::workload`]; of an expanded workload.
    workload: Option<String>,
    expanded_from: Option<&'a Workload>,
    /// As in [`SimulatedPod::replaces`].
    replaces: Option<NamespacedName>,
    /// The claims that its controller creates with it, with their templates if the inventory keeps whole objects.
    claims: Vec<(PersistentVolumeClaim, Option<Value>)>,
    /// The position of the rollout that creates it, in [`Simulation::rollouts`].
    rollout: Option<usize>,
}

/// The template of a claim in a StatefulSet.
fn claim_template<'a>(workload: &'a Value, pod: &str, claim: &str) -> Option<&'a Value> {
    let is_of = |template: &&Value| {
        let name = template.pointer("/metadata/name").and_then(Value::as_str);
        name.is_some_and(|name| format!("{name}-{pod}") == claim)
    };
    workload.pointer("/spec/volumeClaimTemplates")?.as_array()?.iter().find(is_of)
}

/// Writes what a RuntimeClass adds to a pod into its object.
fn write_runtime_class(pod: &Pod, raw: &mut Value) {
    let Pod { spec, .. } = pod;
    let (selector, tolerations) =
        (serde_json::to_value(&spec.node_selector), serde_json::to_value(&spec.tolerations));
    let fields = [
        ("nodeSelector", spec.node_selector.is_empty(), selector),
        ("tolerations", spec.tolerations.is_empty(), tolerations),
        ("overhead", spec.overhead.is_empty(), serde_json::to_value(&spec.overhead)),
    ];
    for (field, is_empty, value) in fields {
        if let Ok(value) = value
            && !is_empty
        {
            raw["spec"][field] = value;
        }
    }
}

/// Writes the requests and limits of the containers of a pod into its object.
fn write_resources(pod: &Pod, raw: &mut Value) {
    let lists = [("containers", &pod.spec.containers), ("initContainers", &pod.spec.init_containers)];
    for (list, containers) in lists {
        let raw = raw["spec"].get_mut(list).and_then(Value::as_array_mut).into_iter().flatten();
        for (raw, container) in raw.zip(containers.iter()) {
            let resources = &container.resources;
            for (part, amounts) in [("requests", &resources.requests), ("limits", &resources.limits)] {
                if !amounts.is_empty() {
                    raw["resources"][part] = json!(amounts);
                }
            }
        }
    }
}

/// Adds simulated nodes to an inventory without nodes.
pub fn add_simulated_nodes(inventory: &mut Inventory, simulated: &SimulatedNodes) {
    if inventory.nodes.is_empty() {
        let source = SourceLocation::file("simulated nodes");
        let entry = |object| Entry { object, raw: None, source: source.clone(), order: 0 };
        inventory.nodes = simulated.nodes().into_iter().map(entry).collect();
    }
}

impl SimulationOptions {
    /// Adds the simulated nodes to an inventory without nodes.
    pub(crate) fn add_simulated_nodes(&self, inventory: &mut Inventory) {
        if let Some(simulated) = &self.simulated_nodes {
            add_simulated_nodes(inventory, simulated);
        }
    }
}

impl Simulation {
    /// Builds the state of the cluster. No pending pod is placed yet.
    ///
    /// # Errors
    /// A workload cannot be expanded, or objects are not valid; the error lists all of them.
    pub fn new(inventory: Inventory, options: SimulationOptions) -> Result<Simulation, SimulationError> {
        let (simulation, invalid) = Simulation::of_valid(inventory, options)?;
        if invalid.is_empty() { Ok(simulation) } else { Err(SimulationError::Invalid(invalid)) }
    }

    /// As [`Simulation::new`]. Where a later input changed the template of a workload, its pods run, and the rollout is to come.
    ///
    /// # Errors
    /// As [`Simulation::new`].
    pub(crate) fn before_rollouts(
        inventory: Inventory,
        options: SimulationOptions,
    ) -> Result<Simulation, SimulationError> {
        let (simulation, invalid) = Simulation::build(inventory, options, true)?;
        if invalid.is_empty() { Ok(simulation) } else { Err(SimulationError::Invalid(invalid)) }
    }

    /// As [`Simulation::new`], without the pods that the API server would reject. Returns all objects that it would reject.
    ///
    /// # Errors
    /// A workload cannot be expanded.
    pub fn of_valid(
        inventory: Inventory,
        options: SimulationOptions,
    ) -> Result<(Simulation, Vec<InvalidObject>), ExpandError> {
        Simulation::build(inventory, options, false)
    }

    fn build(
        mut inventory: Inventory,
        options: SimulationOptions,
        has_rollouts: bool,
    ) -> Result<(Simulation, Vec<InvalidObject>), ExpandError> {
        options.add_simulated_nodes(&mut inventory);
        let mut expansion = expand(&inventory)?;
        let found = if has_rollouts { Rollout::all(&inventory, &mut expansion) } else { Vec::new() };
        let (workloads, rollouts): (Vec<usize>, Vec<Rollout>) = found.into_iter().unzip();
        let mut creation = Creation::new(&inventory);
        workloads.iter().for_each(|at| creation.is_rolled_out(&inventory.workloads[*at].object));
        let rollout_of: HashMap<_, _> = workloads.into_iter().enumerate().map(|(i, at)| (at, i)).collect();
        let expanded = expansion.pods.into_iter().map(|expanded| {
            let Entry { source, order, object: workload, raw } = &inventory.workloads[expanded.workload];
            let pod_name = expanded.pod.metadata.name.clone();
            let with_template = |claim: PersistentVolumeClaim| {
                let template =
                    raw.as_ref().and_then(|raw| claim_template(raw, &pod_name, &claim.metadata.name));
                (claim, template.cloned())
            };
            let claims = expanded.claims.into_iter().map(with_template).collect();
            let entry =
                Entry { object: expanded.pod, raw: expanded.raw, source: source.clone(), order: *order };
            InputPod {
                entry,
                workload: Some(workloads::name(workload)),
                expanded_from: Some(workload),
                replaces: expanded.replaces,
                claims,
                rollout: rollout_of.get(&expanded.workload).copied(),
            }
        });
        let mut expanded: Vec<_> = expanded.collect();
        expanded.sort_by_key(|pod| pod.entry.order);
        let mut present = std::mem::take(&mut inventory.pods);
        present.sort_by_key(|entry| entry.order);

        let mut simulation = Simulation {
            cluster: Cluster::new(options.settings),
            pods: Pods::default(),
            queue: Vec::new(),
            preempts: true,
            vain_preemptors: HashSet::new(),
            pending_for: options.pending_for,
            budgets: inventory
                .pod_disruption_budgets
                .iter()
                .map(|b| DisruptionBudget::from(&b.object))
                .collect(),
            budget_objects: inventory.pod_disruption_budgets.iter().map(|b| b.object.clone()).collect(),
            scales: Arc::new(Scales::new(&inventory)),
            warnings: DesiredReplicas::new(&inventory).warnings(&inventory),
            ended: BTreeMap::new(),
            workloads: Workloads::new(&inventory),
            nodes: BTreeMap::new(),
            namespaces: KnownNamespaces::new(inventory.namespaces.iter().map(|e| &e.object)),
            devices: Devices::default(),
            created_claims: Vec::new(),
            waiting_claims: HashSet::new(),
            lost_claims: HashMap::new(),
            groups: GroupIndex::default(),
            group_disruptions: BTreeMap::new(),
            group_placements: BTreeMap::new(),
            policies: inventory.placement_policies.iter().map(|entry| entry.object.clone()).collect(),
            runtime_classes: inventory.runtime_classes.iter().map(|entry| entry.object.clone()).collect(),
            policy_uses: BTreeMap::new(),
            rolled_out: expansion
                .rolled_out
                .iter()
                .filter(|of| !of.old.is_empty())
                .map(|of| (inventory.workloads[of.workload].object.to_string(), of.old.len()))
                .collect(),
            rollouts,
            creation,
            vacated: None,
            n_vacated: 0,
        };
        let policies = simulation.policies_of(&inventory);
        let mut invalid = simulation.add_cluster_objects(&inventory, &expansion.owner_selectors);
        simulation.add_nodes(std::mem::take(&mut inventory.nodes), &mut invalid);
        let mut volumes = Volumes::default();
        let objects = inventory.volume_objects.iter().map(|entry| &entry.object);
        volumes.add_input(&mut simulation.cluster, objects);
        for entry in &inventory.device_objects {
            simulation.devices.set(&mut simulation.cluster, &entry.object);
        }
        let classes = Classes::of(&inventory);
        let n_pods = expanded.len() + present.len();
        simulation.add_templates(expansion.templates, &inventory.workloads, &classes, &policies);
        let is_left = |e: &Entry<Pod>| !expansion.deleted.contains(&e.object.metadata.namespaced_name());
        for entry in present.iter().filter(|entry| !expansion.deleted.is_empty() && !is_left(entry)) {
            simulation.creation.release(&entry.object);
        }
        let present = present.into_iter().filter(is_left).map(|entry| InputPod {
            entry,
            workload: None,
            expanded_from: None,
            replaces: None,
            claims: Vec::new(),
            rollout: None,
        });
        let (mut expanded, mut present) = (expanded.into_iter().peekable(), present.peekable());
        let in_order = std::iter::from_fn(|| match (expanded.peek(), present.peek()) {
            (Some(next), Some(other)) if next.entry.order <= other.entry.order => expanded.next(),
            (Some(_), None) => expanded.next(),
            _ => present.next(),
        });
        simulation.add_pods(n_pods, in_order, &classes, &policies, &mut volumes, &mut invalid);
        Ok((simulation, invalid))
    }

    /// Admits the pods of templates, for those that are created again. One that is refused is of no use.
    fn add_templates(
        &mut self,
        templates: Vec<ExpandedPod>,
        workloads: &[Entry<Workload>],
        classes: &Classes,
        policies: &PolicySet,
    ) {
        let mut admitted = HashMap::new();
        for ExpandedPod { mut pod, workload, .. } in templates {
            if self.admits_template(&mut pod, classes, policies) {
                admitted.insert(creation::key_of(&workloads[workload].object), pod);
            }
        }
        self.creation.set_templates(admitted);
    }

    /// Admits a pod of a template, which may have no name so far. Returns whether nothing refuses it.
    pub(super) fn admits_template(&self, pod: &mut Pod, classes: &Classes, policies: &PolicySet) -> bool {
        self.creation.set_defaults(pod);
        let applied = policies.apply(pod).is_ok();
        let options = self.admission_options(pod, classes);
        let AdmissionResult { denied, mut errors, .. } = admit(pod, &options);
        errors.retain(|error| !is_missing_image(error) && !error.field.starts_with("metadata.name"));
        applied && denied.is_none() && errors.is_empty()
    }

    /// The placement policies that are in force.
    pub(super) fn policies_of(&self, inventory: &Inventory) -> PolicySet {
        let policies = self.policies.iter().filter(|_| self.cluster.settings().extensions).cloned();
        let labels = inventory.namespaces.iter().map(|e| &e.object.metadata);
        PolicySet::new(policies, labels.map(|m| (m.name.clone(), m.labels.clone())).collect())
    }

    fn admission_options<'c>(&self, pod: &Pod, classes: &'c Classes) -> AdmissionOptions<'c> {
        let Classes { priority, runtime } = classes;
        AdmissionOptions {
            rules: self.cluster.settings().rule_options(),
            priority_classes: (is_known(pod, priority) && !priority.is_empty()).then_some(priority),
            runtime_classes: known_runtime_classes(pod, runtime),
            ..AdmissionOptions::default()
        }
    }

    fn add_cluster_objects(&mut self, inventory: &Inventory, owners: &[OwnerSelector]) -> Vec<InvalidObject> {
        let mut invalid = Vec::new();
        for namespace in &inventory.namespaces {
            self.cluster.set_namespace(&namespace.object);
        }
        self.set_pod_groups(inventory);
        self.set_group_disruptions(inventory);
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
        for entry in &inventory.runtime_classes {
            let errors: Vec<_> =
                validate_runtime_class(&entry.object).iter().map(ToString::to_string).collect();
            if !errors.is_empty() {
                let object = format!("RuntimeClass {}", entry.object.metadata.name);
                invalid.push(InvalidObject { object, source: Some(entry.source.clone()), errors });
            }
        }
        invalid
    }

    fn add_nodes(&mut self, nodes: Vec<Entry<Node>>, invalid: &mut Vec<InvalidObject>) {
        let add = |Entry { object: node, source, .. }: Entry<Node>| {
            let name = node.metadata.name.clone();
            let allocatable = node.status.allocatable.as_ref().or(node.status.capacity.as_ref());
            let errors: Vec<_> = validate_node(&node).iter().map(ToString::to_string).collect();
            if !errors.is_empty() {
                invalid.push(InvalidObject { object: format!("Node {name}"), source: Some(source), errors });
            }
            match allocatable {
                None => self.warnings.push(format!("Node {name}: status.allocatable is missing, so no pod fits on it: add cpu, memory and pods")),
                Some(allocatable) if !allocatable.contains_key("pods") => {
                    self.warnings.push(format!("Node {name}: status.allocatable[pods] is missing, so no pod fits on it: add it, for example 110"));
                }
                Some(_) => {}
            }
            self.cluster.set_node(&node);
            (name, node)
        };
        // At once: a map of nodes that come one by one, in the order of their names, is half empty.
        self.nodes = nodes.into_iter().map(add).collect();
    }

    fn add_pods<'i>(
        &mut self,
        n_pods: usize,
        pods: impl Iterator<Item = InputPod<'i>>,
        classes: &Classes,
        policies: &PolicySet,
        volumes: &mut Volumes,
        invalid: &mut Vec<InvalidObject>,
    ) {
        let (mut unknown_classes, mut unknown_runtime_classes) = (BTreeSet::new(), BTreeSet::new());
        let (mut arriving, mut new) = (Vec::new(), Vec::new());
        self.pods.reserve(n_pods);
        self.cluster.reserve_pods(n_pods);
        for InputPod { entry, workload, expanded_from, replaces, claims, rollout } in pods {
            let Entry { object: mut pod, mut raw, source, .. } = entry;
            let workload = workload.or_else(|| self.workloads.owner(&pod));
            if pod.is_terminal() {
                if pod.lasting_rejection().is_some() {
                    let pod = self.simulated(pod, raw, workload);
                    self.pods.push(pod);
                } else {
                    self.ended.insert(pod.metadata.namespaced_name(), pod.status);
                }
                continue;
            }
            let mut is_new = false;
            // A pod with a creation timestamp comes from an API server, which has admitted it.
            if pod.metadata.creation_timestamp.is_none() {
                if !pod.spec.node_name.is_empty() {
                    unmerge_label_keys(&mut pod);
                }
                is_new = expanded_from.is_some() || pod.spec.node_name.is_empty();
                let has_defaults = is_new && self.creation.set_defaults(&mut pod);
                if let Some(raw) = raw.as_mut().filter(|_| has_defaults) {
                    write_resources(&pod, raw);
                }
                if !is_known(&pod, &classes.priority) {
                    unknown_classes.insert(pod.spec.priority_class_name.clone());
                }
                let options = self.admission_options(&pod, classes);
                let has_runtime_class =
                    options.runtime_classes.is_some() && !pod.spec.runtime_class_name.is_empty();
                if options.runtime_classes.is_none() {
                    unknown_runtime_classes.insert(pod.spec.runtime_class_name.clone());
                }
                let mut warnings = self.apply_policies(policies, &mut pod, raw.as_mut());
                let AdmissionResult { denied, mut errors, warnings: more } = admit(&mut pod, &options);
                warnings.extend(more);
                let n_errors = errors.len();
                errors.retain(|error| !is_missing_image(error));
                if errors.len() < n_errors {
                    warnings.push(NO_IMAGE.to_owned());
                }
                let name = || workload.clone().unwrap_or_else(|| format!("Pod {}", pod.key()));
                self.warnings.extend(warnings.iter().map(|w| format!("{}: {w}", name())));
                if has_defaults && !errors.is_empty() {
                    // The workload is valid: its controller tries in vain to create pods.
                    self.creation.note_invalid(&pod, &errors);
                } else if denied.is_some() || !errors.is_empty() {
                    let object =
                        expanded_from.map_or_else(|| format!("Pod {}", pod.key()), Workload::to_string);
                    let path = expanded_from.map_or("", template_path);
                    let errors = errors.iter().map(|error| format!("{path}{error}")).chain(denied).collect();
                    invalid.push(InvalidObject { object, source: Some(source), errors });
                    continue;
                }
                if let Some(raw) = raw.as_mut().filter(|_| has_runtime_class) {
                    write_runtime_class(&pod, raw);
                }
            }
            self.devices.make_claims(&mut self.cluster, &mut pod, raw.as_mut());
            pod = self.groups.join_workload(&pod).unwrap_or(pod);
            let ephemeral = ephemeral_claims(&pod, raw.as_ref());
            let n_own = claims.len();
            for (i, (claim, template)) in claims.into_iter().chain(ephemeral).enumerate() {
                let created = template.map(|template| CreatedClaim::new(&claim.metadata, &template));
                if i < n_own && !volumes.has_claim(&claim) {
                    self.creation.note_claim(&pod, &claim);
                }
                if volumes.add_claim(&mut self.cluster, claim) {
                    self.created_claims.extend(created);
                }
            }
            if let Some(rollout) = rollout {
                let pod = SimulatedPod { replaces, ..self.simulated(pod, raw, workload) };
                self.rollouts[rollout].add(pod);
                continue;
            }
            if is_new {
                new.push(self.pods.len());
            }
            if pod.awaits_node_admission() {
                arriving.push((self.pods.len(), self.cluster.prepare(&pod)));
            }
            self.add_pod(pod, raw, workload, replaces);
        }
        let is_named = |pod: &&Pod| pod.awaits_node_admission() || is_starting(pod);
        let pods = || self.pods.iter().map(|pod| &pod.pod);
        let lost = pods().filter(is_named).flat_map(volume_claims);
        self.lost_claims =
            lost.filter_map(|claim| Some((claim.clone(), volumes.why_lost(&claim)?))).collect();
        self.waiting_claims = volumes.take_waiting(pods().filter(|pod| !is_named(pod)));
        let (alone, new): (Vec<_>, Vec<_>) = new.into_iter().partition(|i| self.arrives_in_order(*i));
        let not_created: HashSet<usize> = new.into_iter().filter(|i| !self.create_at(*i)).collect();
        self.queue.retain(|i| !not_created.contains(i));
        arriving.retain(|(i, _)| !not_created.contains(i) && alone.binary_search(i).is_err());
        self.arrive(arriving);
        for position in alone {
            if self.create_at(position) {
                self.arrive_alone(position);
            }
        }
        self.refuse_unmounted();
        for SimulatedPod { pod, workload, .. } in &self.pods {
            if let Some(error) = self.cluster.rule_error(&pod.metadata.namespace, &pod.metadata.name) {
                let name = workload.clone().unwrap_or_else(|| format!("Pod {}", pod.key()));
                self.warnings.push(format!("{name}: {error}; rules that cannot be read have no effect"));
            }
        }
        self.warnings.extend(volumes.take_warnings());
        for class in unknown_classes {
            self.warnings
                .push(format!("PriorityClass {class} is not in the input: pods that use it get priority 0"));
        }
        self.warnings.extend(unknown_runtime_classes.iter().map(|class| unknown_runtime_class(class)));
        let mut seen = HashSet::new();
        self.warnings.retain(|warning| seen.insert(warning.clone()));
        // All pods of a workload are rejected for the same reasons.
        invalid.dedup_by(|a, b| a.object == b.object);
        self.sort_queue();
    }

    /// Adds the rules of placement policies to a new pod, and to its object. Returns warnings.
    fn apply_policies(
        &mut self,
        policies: &PolicySet,
        pod: &mut Pod,
        raw: Option<&mut Value>,
    ) -> Vec<String> {
        let before = pod.clone();
        let applied = match policies.apply(pod) {
            Ok(applied) => applied,
            Err(error) => {
                let name = pod.metadata.namespaced_name();
                return vec![format!(
                    "pod {name}: placement policies are not applied: comparing their rules takes {error}"
                )];
            }
        };
        for (policy, _) in applied.policies {
            *self.policy_uses.entry(policy).or_default() += 1;
        }
        if let Some(raw) = raw {
            for change in changes(&before, pod) {
                raw[change.section][change.field] = change.value;
            }
        }
        applied.warnings
    }

    fn add_pod(
        &mut self,
        pod: Pod,
        raw: Option<Value>,
        workload: Option<String>,
        replaces: Option<NamespacedName>,
    ) {
        let awaits_admission = pod.awaits_node_admission();
        if !awaits_admission && !pod.spec.node_name.is_empty() {
            self.cluster.set_pod(&pod);
        }
        let pod = SimulatedPod { replaces, ..self.simulated(pod, raw, workload) };
        match &pod.outcome {
            Outcome::Placed { node, .. } if !awaits_admission && !self.has_node(node) => {
                self.warnings.push(format!(
                    "Pod {}: spec.nodeName names node {node}, which is not in the input: the pod is ignored for placement",
                    pod.pod.key()
                ));
            }
            Outcome::Unschedulable { .. } => {
                self.hold_room(&pod.pod);
                self.queue.push(self.pods.len());
            }
            _ => {}
        }
        self.pods.push(pod);
    }

    /// Keeps the room that a pod with scheduling gates is nominated for.
    fn hold_room(&mut self, pod: &Pod) {
        let (config, node) = (&self.cluster.settings().config, &pod.status.nominated_node_name);
        let profile = config.profile(&pod.spec.scheduler_name);
        let is_gated = !pod.spec.scheduling_gates.is_empty() && profile.is_some_and(|p| p.scheduling_gates);
        if is_gated && !node.is_empty() && config.feature_gates.has(VersionChange::GatedNomination) {
            let prepared = self.cluster.prepare(pod);
            self.cluster.nominate(&prepared, node);
        }
    }

    /// A pod as the API server has admitted it. If it names a node, it runs there, unless the node has rejected it.
    pub(super) fn simulated(&self, pod: Pod, raw: Option<Value>, workload: Option<String>) -> SimulatedPod {
        let node = pod.spec.node_name.clone();
        let was_running = !node.is_empty();
        let outcome = if was_running {
            Outcome::on(node)
        } else if pod.metadata.deletion_timestamp.is_some() {
            Outcome::Failed { error: "the pod is being deleted and is not scheduled".to_owned() }
        } else {
            Outcome::Unschedulable { message: String::new(), plugins: Vec::new() }
        };
        let rejected = Unadmitted::written(&pod);
        let mut simulated = SimulatedPod {
            group: self.group_of(&pod),
            pod,
            workload,
            replaces: None,
            raw: raw.map(Box::new),
            was_running,
            outcome,
            unadmitted: None,
            relaxed: Vec::new().into(),
            victims: Vec::new().into(),
            preempted_by: None,
        };
        if let Some(why) = rejected {
            simulated.refuse(why);
        }
        simulated
    }

    pub(super) fn group_of(&self, pod: &Pod) -> Option<GroupKey> {
        self.groups.group_of(pod, self.cluster.settings().extensions)
    }
}
