//! What changes write to a cluster: the list that a viewer confirms, as data. A server carries it out.

use std::collections::HashSet;
use std::fmt;
use std::time::Duration;

use berth_api::object::{NamespacedName, Pod, Taint};
use berth_api::read::{Kind, Manifest, collect_manifests};
use berth_input::inventory::Inventory;
use berth_simulate::what_if::{Change, evicted_by_drain};

use berth_api::syntax::format::counted;
use berth_simulate::what_if::ChangeRequest;

#[derive(Clone, Debug, PartialEq)]
pub enum Write {
    /// Sets a label of a node; no value removes it.
    SetLabel {
        node: String,
        key: String,
        value: Option<String>,
        /// The value that the viewer saw.
        before: Option<String>,
    },
    /// Adds a taint to a node; it replaces the one with the same key and effect.
    SetTaint {
        node: String,
        taint: Taint,
    },
    /// Removes the taints with a key from a node.
    RemoveTaints {
        node: String,
        key: String,
        /// The effect; none for all effects.
        effect: Option<String>,
    },
    Cordon {
        node: String,
    },
    Uncordon {
        node: String,
    },
    /// Evicts a pod with the Eviction API.
    Evict {
        name: NamespacedName,
        /// Its UID: another pod of the name is not evicted.
        uid: String,
        /// Whether a controller creates another pod in its place.
        is_recreated: bool,
    },
    /// Sets the number of replicas with the subresource `scale`.
    Scale {
        kind: Kind,
        name: NamespacedName,
        n_replicas: u16,
        /// The number that the viewer saw, if it is known.
        before: Option<i32>,
    },
    /// Creates or changes an object by server-side apply.
    Apply {
        manifest: Box<Manifest>,
        /// Whether it takes fields from other field managers.
        is_forced: bool,
    },
}

impl fmt::Display for Write {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Write::SetLabel { node, key, value, before } => {
                match value {
                    Some(value) => write!(f, "Set the label {key}={value} of node {node}")?,
                    None => write!(f, "Remove the label {key} of node {node}")?,
                }
                match before {
                    Some(before) => write!(f, " (now {key}={before})"),
                    None => f.write_str(" (now not set)"),
                }
            }
            Write::SetTaint { node, taint: Taint { key, value, effect } } => {
                let value = if value.is_empty() { String::new() } else { format!("={value}") };
                write!(f, "Set the taint {key}{value}:{effect} of node {node}")
            }
            Write::RemoveTaints { node, key, effect } => {
                let effect = effect.as_ref().map(|effect| format!(":{effect}")).unwrap_or_default();
                write!(f, "Remove the taints {key}{effect} of node {node}")
            }
            Write::Cordon { node } => write!(f, "Cordon node {node}: no more pods are placed on it"),
            Write::Uncordon { node } => write!(f, "Uncordon node {node}: pods are placed on it again"),
            Write::Evict { name, is_recreated, .. } => {
                write!(f, "Evict pod {name}")?;
                f.write_str(if *is_recreated { "" } else { ": nothing creates it again" })
            }
            Write::Scale { kind, name, n_replicas, before } => {
                write!(f, "Scale {} {name} to {n_replicas} replicas", kind.name())?;
                before.map_or(Ok(()), |before| write!(f, " (now {before})"))
            }
            Write::Apply { manifest, is_forced } => {
                write!(f, "Apply {manifest} by server-side apply")?;
                f.write_str(if *is_forced { ", also fields that other managers own" } else { "" })
            }
        }
    }
}

impl Write {
    /// The change that takes the write back, as a parameter of a what-if; none if there is none: evicted pods run elsewhere.
    pub(crate) fn way_back(&self) -> Option<(&'static str, String)> {
        match self {
            Write::Cordon { node } => Some(("uncordon", node.clone())),
            Write::SetLabel { node, key, before, .. } => Some((
                "set-label",
                match before {
                    Some(before) => format!("{node} {key}={before}"),
                    None => format!("{node} {key}-"),
                },
            )),
            Write::Scale { kind, name, before, .. } => {
                let before = u16::try_from((*before)?).ok()?;
                Some(("scale", format!("{}/{}={before}", kind.name(), name.name())))
            }
            _ => None,
        }
    }

    /// The namespace in which a change names its object.
    pub(crate) fn namespace(&self) -> Option<&str> {
        match self {
            Write::Scale { name, .. } => Some(name.namespace()),
            _ => None,
        }
    }
}

/// What a list of changes writes.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct WritePlan {
    pub writes: Vec<Write>,
    /// Changes that cannot be written to a cluster, each with the reason.
    pub not_applicable: Vec<(String, &'static str)>,
}

/// What has become of a write of a list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WriteState {
    /// Its turn has not come.
    NotTried,
    Done,
    /// An eviction that is refused for now, with the reason and the number of attempts.
    Refused(String, u32),
    /// It is not made, or its answer is lost; the reason says so.
    Failed(String),
}

impl WriteState {
    /// After one more attempt that was refused.
    pub fn refuse(&mut self, reason: String) {
        let before = match self {
            WriteState::Refused(_, n_attempts) => *n_attempts,
            _ => 0,
        };
        *self = WriteState::Refused(reason, before.saturating_add(1));
    }
}

/// A pause before refused evictions are tried again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pause {
    pub length: Duration,
    /// After this time without an eviction, the list ends.
    pub remaining: Duration,
}

/// What has become of a list of writes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Progress {
    /// Of each write, in their order.
    pub states: Vec<WriteState>,
    /// The pause that goes on.
    pub pause: Option<Pause>,
    /// Whether nothing more is tried.
    pub is_ended: bool,
}

impl Progress {
    /// Before the first of `n` writes.
    pub fn begin(n: usize) -> Progress {
        Progress { states: vec![WriteState::NotTried; n], pause: None, is_ended: false }
    }

    /// Nothing more is tried: what is refused has failed.
    pub fn end(&mut self) {
        for state in &mut self.states {
            if let WriteState::Refused(reason, n_attempts) = state {
                *state = WriteState::Failed(format!("{reason}; tried {}", times(*n_attempts)));
            }
        }
        *self = Progress { states: std::mem::take(&mut self.states), pause: None, is_ended: true };
    }

    pub fn is_done(&self) -> bool {
        self.states.iter().all(|state| *state == WriteState::Done)
    }
}

/// `once`, or `3 times`.
pub(crate) fn times(n: u32) -> String {
    if n == 1 { "once".to_owned() } else { format!("{n} times") }
}

const NODES_JOIN: &str = "nodes join a cluster when their machines start";
const NODES_LEAVE: &str = "nodes leave a cluster with their machines; drain them here first";
const DEVICES_FAIL: &str = "drivers publish the devices of a cluster";
const NO_NODE: &str = "the cluster has no such node";
const NO_POD: &str = "the cluster has no such pod";
const CONFIGURATION: &str = "it is a file of the scheduler, not an object of the cluster";

impl WritePlan {
    /// The writes of changes to the cluster of an inventory. `namespace` and errors are those of [`ChangeRequest::changes`]. `is_forced`:
    /// manifests take fields from other field managers.
    pub(crate) fn of(
        requests: &[ChangeRequest],
        namespace: Option<&str>,
        is_forced: bool,
        inventory: &Inventory,
    ) -> Result<WritePlan, String> {
        let mut plan = WritePlan::default();
        for request in requests {
            match request {
                ChangeRequest::Overlay(text) => {
                    let manifests = collect_manifests(text, "manifest").map_err(|error| error.to_string())?;
                    manifests
                        .into_iter()
                        .for_each(|manifest| plan.add_manifest(manifest, is_forced, inventory));
                }
                ChangeRequest::Then => {}
                request => {
                    let changes = request.changes(namespace, inventory)?;
                    changes.into_iter().for_each(|change| plan.add(change, inventory));
                }
            }
        }
        // A drain and an eviction may name the same pod.
        let mut evicted = HashSet::new();
        plan.writes.retain(|write| match write {
            Write::Evict { name, .. } => evicted.insert(name.clone()),
            _ => true,
        });
        Ok(plan)
    }

    fn add(&mut self, change: Change, inventory: &Inventory) {
        let mut refuse = |what: String, why| self.not_applicable.push((what, why));
        match change {
            Change::RemoveNode(name) => refuse(format!("Remove node {name}"), NODES_LEAVE),
            Change::RemoveDomain { key, value } => {
                refuse(format!("Remove the nodes with {key}={value}"), NODES_LEAVE);
            }
            Change::LoseContact { key, value, .. } => {
                refuse(format!("Lose the nodes with {key}={value}"), NODES_LEAVE);
            }
            Change::AddNodes { n_nodes, like } => {
                refuse(format!("Add {} like {like}", counted(n_nodes, "node")), NODES_JOIN);
            }
            Change::FailDevices { driver, .. } => refuse(format!("Fail devices of {driver}"), DEVICES_FAIL),
            Change::Cordon(node) => {
                self.add_of_node(Write::Cordon { node: node.clone() }, &node, inventory);
            }
            Change::Drain(node) => {
                // What is done is not written again: after a list that stopped half way, this is the rest.
                if !is_cordoned(inventory, &node) {
                    self.add_of_node(Write::Cordon { node: node.clone() }, &node, inventory);
                }
                let pods = inventory.pods.iter().map(|entry| &entry.object);
                evicted_by_drain(pods, &node).for_each(|pod| self.add_eviction(pod));
            }
            Change::Uncordon(node) => {
                self.add_of_node(Write::Uncordon { node: node.clone() }, &node, inventory);
            }
            Change::SetLabel { node, key, value } => {
                // Of several changes of a label, the last counts: the others would be in its way.
                self.writes.retain(
                    |write| !matches!(write, Write::SetLabel { node: n, key: k, .. } if *n == node && *k == key),
                );
                let before = label(inventory, &node, &key);
                if before != value || before.is_none() {
                    let write = Write::SetLabel { node: node.clone(), key, value, before };
                    self.add_of_node(write, &node, inventory);
                }
            }
            Change::SetTaint { node, taint } => {
                self.add_of_node(Write::SetTaint { node: node.clone(), taint }, &node, inventory);
            }
            Change::RemoveTaint { node, key, effect } => {
                self.add_of_node(Write::RemoveTaints { node: node.clone(), key, effect }, &node, inventory);
            }
            Change::Scale { kind, name, n_replicas } => {
                self.writes.retain(
                    |write| !matches!(write, Write::Scale { kind: k, name: n, .. } if *k == kind && *n == name),
                );
                let before = replicas(inventory, kind, &name);
                if before != Some(i32::from(n_replicas)) {
                    self.writes.push(Write::Scale { kind, name, n_replicas, before });
                }
            }
            Change::Evict(name) | Change::Move { pod: name, .. } => {
                let mut pods = inventory.pods.iter().map(|entry| &entry.object);
                match pods.find(|pod| pod.metadata.namespaced_name() == name) {
                    Some(pod) => self.add_eviction(pod),
                    None => refuse(format!("Evict pod {name}"), NO_POD),
                }
            }
        }
    }

    fn add_of_node(&mut self, write: Write, node: &str, inventory: &Inventory) {
        match has_node(inventory, node) {
            true => self.writes.push(write),
            false => self.not_applicable.push((write.to_string(), NO_NODE)),
        }
    }

    fn add_eviction(&mut self, pod: &Pod) {
        self.writes.push(Write::Evict {
            name: pod.metadata.namespaced_name(),
            uid: pod.metadata.uid.clone(),
            is_recreated: pod.is_recreated(),
        });
    }

    fn add_manifest(&mut self, manifest: Manifest, is_forced: bool, inventory: &Inventory) {
        let why = match Kind::of(&manifest.api_version, &manifest.kind) {
            Some(Kind::KubeSchedulerConfiguration) => CONFIGURATION,
            Some(Kind::Node) if !has_node(inventory, manifest.name()) => NODES_JOIN,
            _ => return self.writes.push(Write::Apply { manifest: Box::new(manifest), is_forced }),
        };
        self.not_applicable.push((format!("Apply {manifest}"), why));
    }
}

fn is_cordoned(inventory: &Inventory, name: &str) -> bool {
    let mut nodes = inventory.nodes.iter().map(|entry| &entry.object);
    nodes.any(|node| node.metadata.name == name && node.spec.unschedulable)
}

fn has_node(inventory: &Inventory, name: &str) -> bool {
    inventory.nodes.iter().any(|entry| entry.object.metadata.name == name)
}

fn label(inventory: &Inventory, node: &str, key: &str) -> Option<String> {
    let node = inventory.nodes.iter().find(|entry| entry.object.metadata.name == node)?;
    node.object.metadata.label(key).map(str::to_owned)
}

/// `spec.replicas`, if the workload is known and has it.
fn replicas(inventory: &Inventory, kind: Kind, name: &NamespacedName) -> Option<i32> {
    let mut workloads = inventory.workloads.iter().map(|entry| &entry.object);
    let workload = workloads.find(|w| w.kind() == kind && w.metadata().namespaced_name() == *name)?;
    Some(workload.spec.replicas()?.unwrap_or(1))
}
