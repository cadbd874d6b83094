//! Changes of a cluster, as edits of the objects that describe it.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::fmt;

use berth_api::object::device::ResourceClaim;
use berth_api::object::volume::CsiNode;
use berth_api::object::{DeviceObject, NamespacedName, Node, Pod, Taint, VolumeObject};
use berth_api::read::{Kind, SourceLocation};
use berth_api::syntax::format::counted;
use berth_api::syntax::labels::HOSTNAME;
use berth_control::expand::{pin, target_node};
use berth_control::taints::{self, Stay, stay, taint_unreachable};
use berth_control::zones::Zones;
use berth_input::inventory::{Entry, Inventory};
use berth_rules::TaintEffect;
use jiff::Timestamp;

use super::departures::Departures;
use super::error::ChangeError;
use super::scale;
use crate::simulation::{
    Contact, SimulatedPod, Simulation, new_node_name, node_like, recreate, slices_like, slices_of,
    unreachable,
};

/// One change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    /// Removes a node with its pods.
    RemoveNode(String),
    /// Cordons a node and evicts its pods, except those of DaemonSets, as far as disruption budgets allow.
    Drain(String),
    /// Cordons a node: no pod is placed there any more.
    Cordon(String),
    /// Ends the cordon of a node.
    Uncordon(String),
    /// Removes all nodes with a label.
    RemoveDomain {
        /// The label key.
        key: String,
        value: String,
    },
    /// The nodes with a label cannot be reached: they stay, with the taints of such nodes.
    LoseContact {
        /// The label key.
        key: String,
        value: String,
        /// For how long; none for ever.
        seconds: Option<i64>,
    },
    /// Adds nodes that are empty, apart from the pods of DaemonSets, and otherwise like an existing one.
    AddNodes {
        /// The number of nodes.
        n_nodes: usize,
        /// The existing node.
        like: String,
    },
    /// Sets a label of a node.
    SetLabel {
        node: String,
        /// The label key.
        key: String,
        /// The value; none removes the label.
        value: Option<String>,
    },
    /// Adds a taint to a node, or replaces the one with the same key and effect. `NoExecute` evicts pods that do not
    /// tolerate it.
    SetTaint { node: String, taint: Taint },
    /// Removes the taints with a key from a node.
    RemoveTaint {
        node: String,
        key: String,
        /// The effect; none for all effects.
        effect: Option<String>,
    },
    /// Sets the number of replicas of a workload.
    Scale {
        /// The kind of the workload.
        kind: Kind,
        /// Namespace and name of the workload.
        name: NamespacedName,
        /// The number of replicas.
        n_replicas: u16,
    },
    /// Evicts a pod, if disruption budgets allow it.
    Evict(NamespacedName),
    /// Evicts a pod, whose controller creates it again, and sends it to a node. The node admits it or not.
    Move {
        pod: NamespacedName,
        /// The node that it is on, as far as that is known.
        from: Option<String>,
        /// The node that it goes to.
        to: String,
    },
    /// Devices fail: they are gone, and the pods that use them lose them and are created again.
    FailDevices {
        driver: String,
        /// The pool; none for all pools.
        pool: Option<String>,
        /// The device; none for all devices.
        device: Option<String>,
    },
}

impl Change {
    /// Whether the change is made in the present state: the cluster is not built again.
    pub(super) fn is_live(&self) -> bool {
        !matches!(self, Change::Scale { .. })
    }

    /// Makes a change of objects, from which the cluster is built again. `now` is the time by which the pods to delete are selected.
    pub(super) fn apply(&self, inventory: &mut Inventory, now: Timestamp) -> Result<(), ChangeError> {
        let Change::Scale { kind, name, n_replicas } = self else { return Ok(()) };
        scale::scale(inventory, *kind, name, *n_replicas, now)
    }

    /// The object that is changed.
    pub(super) fn object(&self) -> String {
        match self {
            Change::RemoveNode(node)
            | Change::Drain(node)
            | Change::Cordon(node)
            | Change::Uncordon(node) => node.clone(),
            Change::RemoveDomain { key, value } | Change::LoseContact { key, value, .. } => {
                format!("{key}={value}")
            }
            Change::AddNodes { like, .. } => like.clone(),
            Change::SetLabel { node, key, .. } | Change::RemoveTaint { node, key, .. } => {
                format!("{node} {key}")
            }
            Change::SetTaint { node, taint } => format!("{node} {}:{}", taint.key, taint.effect),
            Change::Scale { kind, name, .. } => format!("{} {name}", kind.name()),
            Change::Evict(pod) | Change::Move { pod, .. } => pod.to_string(),
            Change::FailDevices { driver, pool, device } => [Some(driver), pool.as_ref(), device.as_ref()]
                .into_iter()
                .flatten()
                .cloned()
                .collect::<Vec<_>>()
                .join("/"),
        }
    }

    /// Makes a change in the present state: nodes and devices are changed in the inventory as well, pods leave when the cluster advances.
    pub(super) fn make(
        &self,
        inventory: &mut Inventory,
        simulation: &mut Simulation,
        departures: &mut Departures,
    ) -> Result<(), ChangeError> {
        match self {
            Change::RemoveNode(name) => {
                let at = position(inventory, name)?;
                inventory.nodes.remove(at);
                departures.lose(name.clone());
            }
            Change::RemoveDomain { key, value } => {
                let has_label = |node: &Node| domain_of(node, key) == Some(value);
                has_domain(inventory, key, value)?;
                let removed = inventory.nodes.extract_if(.., |entry| has_label(&entry.object));
                removed.for_each(|entry| departures.lose(entry.object.metadata.name));
            }
            Change::LoseContact { key, value, seconds } => {
                has_domain(inventory, key, value)?;
                let unreachable = lose_contact(inventory, departures, key, value, *seconds);
                change_nodes(inventory, simulation, departures, &unreachable);
            }
            Change::AddNodes { n_nodes, like } => {
                let like = find_node(inventory, like)?.clone();
                for _ in 0..*n_nodes {
                    let name = new_node_name(&like.metadata.name, |name| simulation.has_node(name));
                    let node = node_like(&like, name);
                    add_node_like(inventory, simulation, &like.metadata.name, node);
                }
            }
            Change::Drain(name) => {
                cordon(inventory, simulation, name, true)?;
                let why = format!("has no controller: draining {name} deletes it");
                departures.evict(simulation, &why, |pod, node| node == name && !pod.belongs_to_node());
            }
            Change::Cordon(name) => cordon(inventory, simulation, name, true)?,
            Change::Uncordon(name) => {
                cordon(inventory, simulation, name, false)?;
                departures.give_up(name);
            }
            Change::Evict(name) => {
                running(simulation, name)?;
                let why = "has no controller: the eviction deletes it";
                departures.evict(simulation, why, |pod, _| pod.metadata.namespaced_name() == *name);
            }
            Change::SetLabel { node, key, value } => {
                change_node(inventory, simulation, departures, node, |node| match value {
                    Some(value) => _ = node.metadata.labels.insert(key.clone(), value.clone()),
                    None => _ = node.metadata.labels.remove(key),
                })?;
            }
            Change::SetTaint { node: name, taint } => {
                change_node(inventory, simulation, departures, name, |node| {
                    node.spec.taints.retain(|t| (&t.key, &t.effect) != (&taint.key, &taint.effect));
                    node.spec.taints.push(taint.clone());
                })?;
                let evicts = TaintEffect::parse(&taint.effect) == TaintEffect::NoExecute;
                if evicts {
                    departures.tainted.push((name.clone(), taint.clone()));
                }
                let why = format!("has no controller: the taint {} on {name} deletes it", taint.key);
                let gates = simulation.cluster.settings().config.feature_gates;
                let contact = departures.without_contact.get(name);
                let ended = contact.filter(|_| !simulation.keeps_terminating(name)).copied();
                // A toleration with a time limit only postpones the eviction.
                let leaves = |pod: &Pod| {
                    let is_evicted = evicts && stay(&pod.spec.tolerations, taint, gates) != Stay::Forever;
                    let is_terminating = |seconds| {
                        let contact = unreachable(pod, seconds, true, gates);
                        pod.metadata.is_deleting() || matches!(contact, Contact::Lost(_))
                    };
                    is_evicted || ended.is_some_and(is_terminating)
                };
                departures.leave(simulation, &why, |pod, node| node == name && leaves(pod));
            }
            Change::RemoveTaint { node, key, effect } => {
                let is_removed =
                    |t: &Taint| t.key == *key && effect.as_ref().is_none_or(|effect| t.effect == *effect);
                let taints = &find_node(inventory, node)?.spec.taints;
                if !taints.iter().any(is_removed) {
                    let taint =
                        effect.as_ref().map_or_else(|| key.clone(), |effect| format!("{key}:{effect}"));
                    let known = taints.iter().map(|taint| match taint.value.as_str() {
                        "" => format!("{}:{}", taint.key, taint.effect),
                        value => format!("{}={value}:{}", taint.key, taint.effect),
                    });
                    return Err(ChangeError::NoTaint { node: node.clone(), taint, known: known.collect() });
                }
                change_node(inventory, simulation, departures, node, |node| {
                    node.spec.taints.retain(|taint| !is_removed(taint));
                })?;
            }
            Change::Move { pod: name, from, to } => {
                find_node(inventory, to)?;
                let (pod, node) = running(simulation, name)?;
                if let Some(from) = from.as_ref().filter(|from| *from != node) {
                    let (node, from) = (node.to_owned(), from.clone());
                    return Err(ChangeError::NotFrom { pod: name.clone(), node, from });
                }
                if pod.belongs_to_node() || !pod.is_recreated() {
                    return Err(ChangeError::NotMovable(name.clone()));
                }
                departures.moves.push((name.clone(), to.clone()));
            }
            Change::FailDevices { driver, pool, device } => {
                fail_devices(inventory, simulation, departures, driver, pool.as_deref(), device.as_deref())?;
            }
            // Made in the objects.
            Change::Scale { .. } => {}
        }
        Ok(())
    }
}

/// As the flags of `berth what-if`.
impl fmt::Display for Change {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let object = self.object();
        match self {
            Change::RemoveNode(_) => write!(f, "remove node {object}"),
            Change::RemoveDomain { .. } => write!(f, "remove {object}"),
            Change::LoseContact { seconds: None, .. } => write!(f, "lose {object}"),
            Change::LoseContact { seconds: Some(n), .. } => write!(f, "lose {object} for {n} s"),
            Change::Drain(_) => write!(f, "drain {object}"),
            Change::Cordon(_) => write!(f, "cordon {object}"),
            Change::Uncordon(_) => write!(f, "uncordon {object}"),
            Change::AddNodes { n_nodes, .. } => write!(f, "add {} like {object}", counted(*n_nodes, "node")),
            Change::SetLabel { value: Some(value), .. } => write!(f, "label {object}={value}"),
            Change::SetLabel { .. } => write!(f, "label {object}-"),
            Change::SetTaint { .. } => write!(f, "taint {object}"),
            Change::RemoveTaint { .. } => write!(f, "taint {object}-"),
            Change::Scale { n_replicas, .. } => write!(f, "scale {object} to {n_replicas}"),
            Change::Evict(_) => write!(f, "evict {object}"),
            Change::Move { to, .. } => write!(f, "move {object} to {to}"),
            Change::FailDevices { .. } => write!(f, "fail {object}"),
        }
    }
}

fn fail_devices(
    inventory: &mut Inventory,
    simulation: &mut Simulation,
    departures: &mut Departures,
    driver: &str,
    pool: Option<&str>,
    device: Option<&str>,
) -> Result<(), ChangeError> {
    let is_meant = |of: (&str, &str, &str)| {
        of.0 == driver && pool.is_none_or(|pool| of.1 == pool) && device.is_none_or(|name| of.2 == name)
    };
    let (mut has_failed, mut known) = (false, BTreeSet::new());
    for object in inventory.device_objects.iter_mut().map(|entry| &mut entry.object) {
        let DeviceObject::ResourceSlice(slice) = object else { continue };
        let (driver, pool) = (slice.spec.driver.clone(), slice.spec.pool.name.clone());
        known.extend(slice.spec.devices.iter().map(|device| format!("{driver}/{pool}/{}", device.name)));
        let n_before = slice.spec.devices.len();
        slice.spec.devices.retain(|device| !is_meant((&driver, &pool, &device.name)));
        if slice.spec.devices.len() < n_before {
            has_failed = true;
            simulation.set_device(object);
        }
    }
    if !has_failed {
        let name = [Some(driver), pool, device].into_iter().flatten().collect::<Vec<_>>().join("/");
        return Err(ChangeError::NotFound { kind: "device", name, known: known.into_iter().collect() });
    }
    let uses_failed = |claim: &&ResourceClaim| {
        let results = claim.status.allocation.iter().flat_map(|allocation| &allocation.devices.results);
        results.into_iter().any(|result| is_meant((&result.driver, &result.pool, &result.device)))
    };
    let affected = simulation.claims().filter(uses_failed).flat_map(|claim| &claim.status.reserved_for);
    let affected: HashSet<String> = affected.map(|consumer| consumer.uid.clone()).collect();
    let why = "has no controller: it is lost with its device";
    departures.leave(simulation, why, |pod, _| affected.contains(&pod.metadata.uid));
    Ok(())
}

/// Nodes cannot be reached. Returns all such nodes, with their taints, which depend on how many others of their zones are ready.
fn lose_contact(
    inventory: &Inventory,
    departures: &mut Departures,
    key: &str,
    value: &str,
    seconds: Option<i64>,
) -> Vec<Node> {
    let nodes = inventory.nodes.iter().map(|entry| &entry.object);
    for node in nodes.clone().filter(|node| domain_of(node, key) == Some(value)) {
        departures.unreachable.push((node.metadata.name.clone(), seconds));
        departures.without_contact.insert(node.metadata.name.clone(), seconds);
    }
    let not_ready = &departures.without_contact;
    let zones = Zones::new(nodes.clone().map(|node| &node.metadata));
    let evicts = zones.evicting(not_ready.keys().map(String::as_str));
    let unreachable =
        nodes.filter(|node| not_ready.contains_key(&node.metadata.name)).cloned().map(|mut node| {
            taint_unreachable(&mut node.spec, evicts(&node.metadata.name));
            node
        });
    unreachable.collect()
}

/// Changes a node. DaemonSets follow at once.
fn change_node(
    inventory: &mut Inventory,
    simulation: &mut Simulation,
    departures: &mut Departures,
    name: &str,
    change: impl FnOnce(&mut Node),
) -> Result<(), ChangeError> {
    let mut node = find_node(inventory, name)?.clone();
    change(&mut node);
    taints::follow(&mut node.spec);
    if !taints::is_unreachable(&node.spec) {
        departures.without_contact.remove(name);
    }
    change_nodes(inventory, simulation, departures, &[node]);
    Ok(())
}

/// Nodes are what they are here from now on.
fn change_nodes(
    inventory: &mut Inventory,
    simulation: &mut Simulation,
    departures: &mut Departures,
    nodes: &[Node],
) {
    let changed: HashMap<&str, &Node> =
        nodes.iter().map(|node| (node.metadata.name.as_str(), node)).collect();
    for entry in &mut inventory.nodes {
        if let Some(node) = changed.get(entry.object.metadata.name.as_str()) {
            entry.object.clone_from(node);
            simulation.set_node(Node::clone(node));
        }
    }
    departures.leaving.extend(simulation.follow_daemons(inventory, nodes));
    nodes.iter().for_each(|node| simulation.arrive_waiting(&node.metadata.name));
}

pub(crate) fn find_node<'a>(inventory: &'a Inventory, name: &str) -> Result<&'a Node, ChangeError> {
    Ok(&inventory.nodes[position(inventory, name)?].object)
}

/// Cordons a node, or ends that. The node controller follows at once.
fn cordon(
    inventory: &mut Inventory,
    simulation: &mut Simulation,
    name: &str,
    is_cordoned: bool,
) -> Result<(), ChangeError> {
    let position = position(inventory, name)?;
    let node = &mut inventory.nodes[position].object;
    node.spec.unschedulable = is_cordoned;
    taints::follow(&mut node.spec);
    simulation.set_node(node.clone());
    Ok(())
}

fn position(inventory: &Inventory, name: &str) -> Result<usize, ChangeError> {
    let nodes = || inventory.nodes.iter().map(|entry| &entry.object.metadata.name);
    nodes().position(|node| node == name).ok_or_else(|| ChangeError::NotFound {
        kind: "Node",
        name: name.to_owned(),
        known: nodes().cloned().collect(),
    })
}

/// A pod that has a node, and the node.
fn running<'a>(simulation: &'a Simulation, name: &NamespacedName) -> Result<(&'a Pod, &'a str), ChangeError> {
    let Some(pod) = simulation.pod(name.namespace(), name.name()) else {
        let known = simulation.pods().iter().map(|pod| pod.pod.key()).collect();
        return Err(ChangeError::NotFound { kind: "Pod", name: name.to_string(), known });
    };
    Ok((&pod.pod, pod.node().ok_or_else(|| ChangeError::NotRunning(name.clone()))?))
}

/// The value of a label. A node without the label of its name has it all the same.
pub(super) fn domain_of<'a>(node: &'a Node, key: &str) -> Option<&'a str> {
    let name = (key == HOSTNAME).then_some(node.metadata.name.as_str());
    node.metadata.label(key).or(name)
}

/// Whether a node has the label, else an error with the values that nodes have.
fn has_domain(inventory: &Inventory, key: &str, value: &str) -> Result<(), ChangeError> {
    let values = inventory.nodes.iter().filter_map(|entry| domain_of(&entry.object, key));
    let known: BTreeSet<&str> = values.collect();
    if known.contains(value) {
        return Ok(());
    }
    let known = known.into_iter().map(str::to_owned).collect();
    Err(ChangeError::NoDomain { key: key.to_owned(), value: value.to_owned(), known })
}

/// Adds a node that is like another one, with its CSI drivers, devices and daemon pods.
pub(super) fn add_node_like(inventory: &mut Inventory, simulation: &mut Simulation, like: &str, node: Node) {
    let name = node.metadata.name.clone();
    let source = inventory.nodes.iter().find(|entry| entry.object.metadata.name == like);
    let Some(Entry { source, .. }) = source else { return };
    let source = source.clone();
    simulation.set_node(node.clone());
    inventory.nodes.push(new_entry(node, &source));
    let csi_node = inventory.volume_objects.iter().find_map(|entry| match &entry.object {
        VolumeObject::CsiNode(csi_node) if csi_node.metadata.name == like => Some(csi_node.clone()),
        _ => None,
    });
    if let Some(mut csi_node) = csi_node {
        csi_node.metadata = CsiNode::default().metadata;
        csi_node.metadata.name.clone_from(&name);
        let object = VolumeObject::CsiNode(csi_node);
        simulation.cluster().set_volume_object(object.clone());
        inventory.volume_objects.push(new_entry(object, &source));
    }
    let slices: Vec<_> = slices_of(inventory, like).cloned().collect();
    for slice in slices_like(&slices, like, &name) {
        let object = DeviceObject::ResourceSlice(Box::new(slice));
        simulation.set_device(&object);
        inventory.device_objects.push(new_entry(object, &source));
    }
    // Those of DaemonSets, also where they are pending, or not created, on the other node.
    let is_daemon = |pod: &Pod| pod.metadata.controller().is_some_and(|owner| owner.kind == "DaemonSet");
    let is_of_node = |pod: &&SimulatedPod| match pod.node() {
        None => is_daemon(&pod.pod) && target_node(&pod.pod) == Some(like),
        on => on == Some(like) && pod.pod.belongs_to_node(),
    };
    let of_node: Vec<Pod> = simulation.pods().iter().filter(is_of_node).map(|pod| pod.pod.clone()).collect();
    let old = simulation.node(like).cloned();
    for mut pod in of_node {
        pod.metadata.name = format!("{}-{name}", pod.metadata.name);
        pod.metadata.uid.clear();
        recreate(&mut pod, old.as_ref());
        pin(&mut pod, &name);
        // Those of the other node may run there since before its taints.
        if is_daemon(&pod) && !simulation.is_eligible(&pod, &name) {
            continue;
        }
        if target_node(&pod).is_some() {
            simulation.create_daemon(pod);
        } else {
            pod.spec.node_name.clone_from(&name);
            simulation.set_pod(pod);
        }
    }
    simulation.arrive_waiting(&name);
}

fn new_entry<T>(object: T, source: &SourceLocation) -> Entry<T> {
    Entry { object, raw: None, source: source.clone(), order: usize::MAX }
}
