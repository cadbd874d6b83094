//! Capacity: how many more replicas of a pod fit, where, what stops the next one, and how many nodes a number of
//! replicas needs.
//!
//! The replicas are placed one after the other, as a scheduler does, after the pending pods of others. Replicas that name their
//! node arrive there instead. No pod is preempted for them.

mod error;
mod node_types;
mod nodes_needed;
mod price;
mod read_label;
mod room;
mod subject;

use std::collections::{BTreeMap, HashMap};

use berth_api::object::Node;
use berth_api::work::WorkBudget;
use berth_engine::{Counts, DeviceModel, Explanation, Outcome, Status, TermSummary, Verdict};
use berth_input::inventory::Inventory;
use berth_rebalance::{Move, Request};
use jiff::Timestamp;
use serde::Serialize;

pub use self::error::CapacityError;
use self::node_types::Model;
pub use self::node_types::NodeType;
pub use self::nodes_needed::{MAX_NODES, NewNodes, Prevention};
pub use self::price::{PRICE_ANNOTATION, Price};
pub use self::read_label::ReadLabel;
use self::read_label::read_labels;
pub use self::subject::Subject;
use crate::explanation::EXPLAIN_STEPS;
use crate::simulation::creation::count_used;
use crate::simulation::{Simulation, SimulationOptions, Unadmitted};
use crate::what_if::place_new;

/// Replicas are not counted beyond this number.
const MAX_REPLICAS: usize = 1_000_000;
/// Number of replicas that get their own claims at first; if all fit, more are tried.
const FIRST_WITH_CLAIMS: usize = 256;
/// A question about the replicas of a pod.
#[derive(Clone, Debug)]
pub struct CapacityRequest {
    /// The node label whose values are the domains.
    pub topology_key: String,
    /// The total number of replicas that is wanted.
    pub target: Option<Target>,
    /// How room is made for replicas by moving pods; none if they stay where they are.
    pub defragmentation: Option<Request>,
}

/// A total number of replicas, and the nodes that may be added for them.
#[derive(Clone, Debug)]
pub struct Target {
    /// The number of replicas, the running ones included.
    pub n_replicas: usize,
    /// The types of nodes, the cheapest first.
    pub node_types: Vec<NodeType>,
    /// Nodes whose labels name the zones of types without one, if no existing node has one.
    pub zones: Vec<Node>,
}

#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Capacity {
    /// How many replicas fit beyond those that run.
    pub replicas: usize,
    /// The term (its path in the pod) or the resource that stops the next one, or the reason of the node that the pod names;
    /// none if there is no limit.
    pub limited_by: Option<String>,
    /// Where they fit: the number of replicas by domain.
    pub by_domain: BTreeMap<String, usize>,
    /// For replicas with claims of devices: the devices by model.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub by_device: Vec<DeviceCapacity>,
    /// The moves that make room for some of them.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub moves: Vec<Move>,
    /// Number of new nodes for the target; none without a target, and if no number of nodes is enough.
    pub nodes_needed: Option<usize>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub new_nodes: Option<NewNodes>,
    /// Why no number of nodes of each type is enough, if this is so.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub prevented_by: Vec<Prevention>,
    /// Number of replicas that run.
    #[serde(skip)]
    pub running: usize,
    /// Number of pending pods of others that a scheduler found no node for.
    #[serde(skip)]
    pub n_unplaced_others: usize,
    /// The rule behind `limited_by`.
    #[serde(skip)]
    pub bottleneck: Option<TermSummary>,
    /// The decision about the next replica.
    #[serde(skip)]
    pub message: String,
}

/// The devices of a model.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct DeviceCapacity {
    /// The model, as it is without the further replicas.
    #[serde(flatten)]
    pub model: DeviceModel,
    /// How many of them the further replicas take.
    pub n_for_replicas: usize,
}

/// How many more replicas of a pod fit. Also returns the cluster, which still has them unless more nodes were tried.
///
/// # Errors
/// The subject or a node does not exist, or the objects are not valid.
pub fn capacity(
    mut inventory: Inventory,
    options: &SimulationOptions,
    subject: &Subject,
    request: &CapacityRequest,
) -> Result<(Capacity, Simulation), CapacityError> {
    options.add_simulated_nodes(&mut inventory);
    count_used(&mut inventory);
    if inventory.workloads.iter().any(|entry| entry.object.replaced.is_some()) {
        place_new(&mut inventory, options, Timestamp::UNIX_EPOCH)?;
    }
    let models = match &request.target {
        Some(target) => Model::all(&inventory, options, target, &request.topology_key)?,
        None => Vec::new(),
    };
    let subject = subject.prepare(&mut inventory)?;
    // With claims, the cluster is built again for more replicas.
    let again = subject.has_claims.then(|| inventory.clone());
    let mut inventory = Some(inventory);
    let mut n_replicas = if subject.has_claims { FIRST_WITH_CLAIMS } else { 1 };
    let mut moves = Vec::new();
    let (mut room, models_before, placed) = loop {
        let objects = inventory.take().or_else(|| again.clone()).unwrap_or_default();
        let mut room = subject.room(objects, options.clone(), n_replicas)?;
        let models_before = room.device_models();
        let placed = match &request.defragmentation {
            None => room.fill(0, MAX_REPLICAS),
            Some(request) => {
                let (placed, made) = room.fill_by_moves(request, MAX_REPLICAS);
                moves = made;
                placed
            }
        };
        if !subject.has_claims || placed.len() < n_replicas || n_replicas > MAX_REPLICAS {
            break (room, models_before, placed);
        }
        n_replicas *= 4;
    };
    let mut by_node: HashMap<&str, usize> = HashMap::new();
    for node in placed.iter().filter_map(Outcome::node) {
        *by_node.entry(node).or_default() += 1;
    }
    let mut by_domain: BTreeMap<String, usize> = BTreeMap::new();
    for (node, n_placed) in by_node {
        *by_domain.entry(room.domain(node, &request.topology_key)).or_default() += n_placed;
    }
    // No device is published or removed meanwhile: the models are the same.
    let by_device = models_before.into_iter().zip(room.device_models()).map(|(model, after)| {
        DeviceCapacity { n_for_replicas: after.n_allocated - model.n_allocated, model }
    });
    let by_device = by_device.collect();
    let is_limited = placed.len() < MAX_REPLICAS;
    let next = room.replica(placed.len()).filter(|_| is_limited);
    let pod = room.replicas.get(if subject.has_claims { placed.len() } else { 0 });
    let budget = WorkBudget::new(EXPLAIN_STEPS);
    let refused = pod.filter(|_| is_limited).and_then(|pod| room.simulation.refusal_of(pod));
    let is_refused = refused.is_some();
    let unadmitted = refused.or_else(|| next.as_ref().and_then(|next| room.unadmitted(next)));
    let explanation = next.zip(pod).filter(|_| room.node.is_none() && !is_refused);
    let explanation =
        explanation.map(|(next, pod)| room.simulation.cluster().explain(pod, &next, None, &budget));
    let terms = explanation.as_ref().map(|explanation| explanation.terms.clone()).unwrap_or_default();
    let (limited_by, limiting) = explanation.as_ref().and_then(limit).unzip();
    let mut capacity = Capacity {
        replicas: placed.len(),
        limited_by: limited_by.or_else(|| unadmitted.as_ref().map(Unadmitted::limit)),
        by_domain,
        by_device,
        moves,
        nodes_needed: None,
        new_nodes: None,
        prevented_by: Vec::new(),
        running: room.n_running,
        n_unplaced_others: room.simulation.pods().iter().filter(|pod| pod.is_unplaced()).count()
            - room.replicas.len(),
        bottleneck: limiting.flatten().cloned(),
        message: explanation
            .map(|e| e.outcome.message().into_owned())
            .or(unadmitted.map(|why| why.to_string()))
            .unwrap_or_default(),
    };
    let required = room.replicas.first().map_or(1, |pod| room.simulation.required_members(pod));
    if capacity.running + placed.len() < required && !placed.is_empty() {
        // Fewer pods of a group than it requires are not placed.
        capacity.message =
            format!("{} of {required} pods that the group requires fit: {}", placed.len(), capacity.message);
        (capacity.replicas, capacity.by_domain) = (0, BTreeMap::new());
    }
    if let Some(target) = &request.target {
        let n_missing = target.n_replicas.saturating_sub(room.n_running);
        if capacity.replicas >= n_missing {
            capacity.nodes_needed = Some(0);
        } else if room.node.is_none() {
            if let Some(pod) = room.replicas.first() {
                let read = read_labels(&room.simulation.rules_of(pod), &terms);
                models.iter().try_for_each(|model| model.check_labels(&read))?;
            }
            room.take_back(&placed);
            if let Some(objects) = again.filter(|_| room.replicas.len() < n_missing) {
                room = subject.room(objects, options.clone(), n_missing)?;
            }
            match room.cheapest(&models, n_missing) {
                Ok(nodes) => {
                    capacity.nodes_needed = Some(nodes.by_domain.values().sum());
                    capacity.new_nodes = Some(nodes);
                }
                Err(prevented) => capacity.prevented_by = prevented,
            }
        }
    }
    Ok((capacity, room.simulation))
}

/// What stops the next replica on most of the nodes that it could use otherwise, and the term that says so.
fn limit(explanation: &Explanation) -> Option<(String, Option<&TermSummary>)> {
    let alone = |limit: &str| Some((limit.to_owned(), None));
    match &explanation.outcome {
        Outcome::Placed { .. } => return None,
        Outcome::Gated { .. } => return alone("spec.schedulingGates"),
        Outcome::Failed { .. } => return alone("spec.schedulerName"),
        Outcome::Unschedulable { .. } if explanation.n_nodes == 0 => return alone("nodes"),
        Outcome::Unschedulable { .. } => {}
    }
    let is_for_good = |verdict: &Verdict| verdict.status == Status::UnschedulableAndUnresolvable;
    let usable = || explanation.excluded.iter().filter(|group| !group.verdicts.iter().any(is_for_good));
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    let mut groups: Vec<_> = match usable().next() {
        Some(_) => usable().collect(),
        None => explanation.excluded.iter().collect(),
    };
    let nearest = groups.iter().map(|group| group.distance()).min();
    groups.retain(|group| Some(group.distance()) == nearest);
    for group in &groups {
        let mut labels: Vec<&str> = group.verdicts.iter().map(label).collect();
        labels.sort_unstable();
        labels.dedup();
        labels.into_iter().for_each(|label| *counts.entry(label).or_default() += group.nodes.len());
    }
    let (most, _) = counts.into_iter().max_by(|(a, n), (b, m)| n.cmp(m).then_with(|| b.cmp(a)))?;
    let is_said_by = |term: &&TermSummary| {
        let mut verdicts = groups.iter().flat_map(|group| &group.verdicts).filter(|v| label(v) == most);
        let key = |verdict: &Verdict| {
            (verdict.plugin, verdict.term.clone().unwrap_or_default(), verdict.detail.clone())
        };
        verdicts.any(|verdict| key(verdict) == (term.plugin, term.term.clone(), term.detail.clone()))
    };
    Some((most.to_owned(), explanation.terms.iter().find(is_said_by)))
}

/// The resource or the term of a verdict.
fn label(verdict: &Verdict) -> &str {
    match &verdict.counts {
        Some(Counts::Resource { resource, .. }) => resource,
        _ => verdict.term.as_deref().unwrap_or_else(|| verdict.plugin.name()),
    }
}
