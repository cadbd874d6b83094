//! Building a simulation: the objects of an inventory, expanded and admitted, become the state of a cluster.

use std::borrow::Cow;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;

use berth_api::object::group::GroupIndex;
use berth_api::object::volume::PersistentVolumeClaim;
use berth_api::object::{GroupKey, Node, Pod};
use berth_api::read::SourceLocation;
use berth_api::simulated_nodes::SimulatedNodes;
use berth_control::budget::Scales;
use berth_control::expand::{DesiredReplicas, ExpandError, OwnerSelector, expand};
use berth_control::taints;
use berth_engine::{Cluster, DisruptionBudget};
use berth_input::inventory::{Entry, Inventory};
use berth_rules::admission::{validate_node, validate_runtime_class};
use berth_rules::{KnownNamespaces, Selector};
use serde_json::Value;

use super::add_pods::InputPod;
use super::admission::Classes;
use super::creation::Creation;
use super::devices::Devices;
use super::error::{InvalidObject, SimulationError};
use super::options::SimulationOptions;
use super::pods::Pods;
use super::rollout::Rollout;
use super::state::Simulation;
use super::volumes::Volumes;
use super::workloads::{self, Workloads};

/// The template of a claim in a StatefulSet.
fn claim_template<'a>(workload: &'a Value, pod: &str, claim: &str) -> Option<&'a Value> {
    let is_of = |template: &&Value| {
        let name = template.pointer("/metadata/name").and_then(Value::as_str);
        name.is_some_and(|name| format!("{name}-{pod}") == claim)
    };
    workload.pointer("/spec/volumeClaimTemplates")?.as_array()?.iter().find(is_of)
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
        Simulation::of(Cow::Owned(inventory), options, None, false)
    }

    /// As [`Simulation::new`]. An inventory that the caller keeps is borrowed. What has not changed since the simulation `before` is taken
    /// over from it. With `has_rollouts`, where a later input changed the template of a workload, its pods run, and the rollout is to come.
    ///
    /// # Errors
    /// As [`Simulation::new`].
    pub(crate) fn of(
        inventory: Cow<'_, Inventory>,
        options: SimulationOptions,
        before: Option<Simulation>,
        has_rollouts: bool,
    ) -> Result<Simulation, SimulationError> {
        let (simulation, invalid) = Simulation::build(inventory, options, before, has_rollouts)?;
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
        Simulation::build(Cow::Owned(inventory), options, None, false)
    }

    fn build(
        mut inventory: Cow<'_, Inventory>,
        options: SimulationOptions,
        before: Option<Simulation>,
        has_rollouts: bool,
    ) -> Result<(Simulation, Vec<InvalidObject>), ExpandError> {
        if inventory.nodes.is_empty() {
            options.add_simulated_nodes(inventory.to_mut());
        }
        let mut expansion = expand(&inventory)?;
        let found = if has_rollouts { Rollout::all(&inventory, &mut expansion) } else { Vec::new() };
        let (workloads, rollouts): (Vec<usize>, Vec<Rollout>) = found.into_iter().unzip();
        let mut creation = Creation::new(&inventory);
        workloads.iter().for_each(|at| creation.is_rolled_out(&inventory.workloads[*at].object));
        let rollout_of: HashMap<_, _> = workloads.into_iter().enumerate().map(|(i, at)| (at, i)).collect();
        let (mut present, nodes): (Vec<_>, Vec<_>) = match &mut inventory {
            Cow::Owned(inventory) => (
                std::mem::take(&mut inventory.pods).into_iter().map(Cow::Owned).collect(),
                std::mem::take(&mut inventory.nodes).into_iter().map(Cow::Owned).collect(),
            ),
            Cow::Borrowed(inventory) => (
                inventory.pods.iter().map(Cow::Borrowed).collect(),
                inventory.nodes.iter().map(Cow::Borrowed).collect(),
            ),
        };
        present.retain(|entry: &Cow<'_, Entry<Pod>>| {
            let deleted = &expansion.deleted;
            let stays = deleted.is_empty() || !deleted.contains(&entry.object.metadata.namespaced_name());
            if !stays {
                creation.release(&entry.object);
            }
            stays
        });
        present.sort_by_key(|entry| entry.order);
        let inventory = &*inventory;
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
                entry: Cow::Owned(entry),
                unchanged: None,
                workload: Some(workloads::name(workload)),
                expanded_from: Some(workload),
                replaces: expanded.replaces,
                claims,
                rollout: rollout_of.get(&expanded.workload).copied(),
            }
        });
        let mut expanded: Vec<_> = expanded.collect();
        expanded.sort_by_key(|pod| pod.entry.order);
        // What is assumed of claims of devices ends with a cluster.
        let before = before.filter(|before| {
            *before.cluster.settings() == options.settings && before.claims().next().is_none()
        });
        let unchanged: Vec<_> = present
            .iter()
            .map(|entry| before.as_ref().and_then(|before| before.unchanged(&entry.object)))
            .collect();
        let (cluster, nodes_before) = match before {
            Some(before) => before.into_cluster(&unchanged, &nodes),
            None => (Cluster::new(options.settings.clone()), BTreeMap::new()),
        };

        let mut simulation = Simulation {
            cluster,
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
            scales: Arc::new(Scales::new(inventory)),
            warnings: DesiredReplicas::new(inventory).warnings(inventory),
            ended: BTreeMap::new(),
            workloads: Workloads::new(inventory),
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
            ending_members: Vec::new(),
            n_vacated: 0,
        };
        let policies = simulation.policies_of(inventory);
        let mut invalid = simulation.add_cluster_objects(inventory, &expansion.owner_selectors);
        simulation.add_nodes(nodes, &nodes_before, &mut invalid);
        let mut volumes = Volumes::default();
        let objects = inventory.volume_objects.iter().map(|entry| &entry.object);
        volumes.add_input(&mut simulation.cluster, objects);
        for entry in &inventory.device_objects {
            simulation.devices.set(&mut simulation.cluster, &entry.object);
        }
        let classes = Classes::of(inventory);
        let n_pods = expanded.len() + present.len();
        simulation.add_templates(expansion.templates, &inventory.workloads, &classes, &policies);
        let present = present.into_iter().zip(unchanged).map(|(entry, unchanged)| InputPod {
            entry,
            unchanged,
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

    fn add_nodes(
        &mut self,
        nodes: Vec<Cow<'_, Entry<Node>>>,
        before: &BTreeMap<String, Node>,
        invalid: &mut Vec<InvalidObject>,
    ) {
        let add = |entry: Cow<'_, Entry<Node>>| {
            let Entry { object: mut node, source, .. } = entry.into_owned();
            taints::follow(&mut node.spec);
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
            if before.get(&name) != Some(&node) {
                self.cluster.set_node(&node);
            }
            (name, node)
        };
        // At once: a map of nodes that come one by one, in the order of their names, is half empty.
        self.nodes = nodes.into_iter().map(add).collect();
    }

    pub(super) fn group_of(&self, pod: &Pod) -> Option<GroupKey> {
        self.groups.group_of(pod, self.cluster.settings().extensions)
    }
}
