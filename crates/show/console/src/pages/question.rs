//! The question of what-if, as a request has it.

use berth_input::inventory::Inventory;
use berth_simulate::PendingFor;
use berth_simulate::what_if::{
    Change, ChangeRequest, Changed, WhatIf, key_value, node_name, refusal, topology_key, workload_replicas,
};

use super::answer::PageError;
use crate::writes::WritePlan;
use crate::{Request, State};

/// The changes of the form: parameter, what it does, and an example.
pub(super) const CHANGES: [(&str, &str, &str); 11] = [
    ("remove-node", "Remove a node with its pods", "worker-1"),
    ("drain", "Drain a node", "worker-1"),
    ("cordon", "Cordon a node", "worker-1"),
    ("uncordon", "Uncordon a node", "worker-1"),
    ("remove-domain", "Remove all nodes with a label", "zone=eu-west-1a"),
    ("add-nodes", "Add nodes", "2"),
    ("like", "that are like the node", "worker-1"),
    ("scale", "Scale a workload", "deploy/web=5"),
    ("set-label", "Set or remove a node label", "worker-1 disk=ssd"),
    ("taint", "Taint a node, or remove a taint", "worker-1 dedicated=db:NoExecute"),
    ("evict", "Evict a pod", "default/web-1"),
];
/// Changes of a page, and nodes and replicas that they ask for.
const MAX_CHANGES: usize = 100;
const MAX_NEW_NODES: usize = 10_000;
const MAX_REPLICAS: usize = 150_000;

/// The question of a request: changes, and what to show of their effect.
#[derive(Default)]
pub(super) struct Question {
    pub(super) changes: Vec<ChangeRequest>,
    pub(super) namespace: Option<String>,
    pub(super) each: Option<String>,
    pub(super) has_repairs: bool,
    /// Whether manifests take fields from other field managers when they are applied.
    pub(super) is_forced: bool,
    /// The pod whose repair is tried. Its commands write it: a template that is applied keeps the rules that others have set.
    pub(super) repair_of: Option<String>,
    /// Whether there is a question at all: without changes, the pending pods are placed.
    pub(super) is_posed: bool,
}

impl Question {
    pub(super) fn of(request: &Request<'_>) -> Result<Question, PageError> {
        let mut question = Question::default();
        let mut n_nodes: Option<usize> = None;
        for (name, value) in request.parameters().filter(|(_, value)| !value.trim().is_empty()) {
            let value = value.trim();
            let bad = |message: String| PageError::Parameter(format!("{name}={value}: {message}"));
            let pair = || {
                let expected = || bad("give a node and, after a space, the label or taint".to_owned());
                value
                    .split_once(char::is_whitespace)
                    .map(|(node, text)| (node, text.trim()))
                    .ok_or_else(expected)
            };
            question.is_posed = true;
            let change = match name.as_ref() {
                "remove-node" => ChangeRequest::Change(Change::RemoveNode(node_name(value))),
                "drain" => ChangeRequest::Change(Change::Drain(node_name(value))),
                "cordon" => ChangeRequest::Change(Change::Cordon(node_name(value))),
                "uncordon" => ChangeRequest::Change(Change::Uncordon(node_name(value))),
                "remove-domain" => {
                    let (key, value) = key_value(value).map_err(bad)?;
                    ChangeRequest::Change(Change::RemoveDomain { key: topology_key(&key), value })
                }
                "then" => ChangeRequest::Then,
                "add-nodes" => {
                    let n = value.parse().ok().filter(|n| (1..=MAX_NEW_NODES).contains(n));
                    n_nodes = Some(n.ok_or_else(|| bad(format!("give a number from 1 to {MAX_NEW_NODES}")))?);
                    continue;
                }
                "like" => {
                    let n = n_nodes.take().ok_or_else(|| bad("give add-nodes=N before it".to_owned()))?;
                    ChangeRequest::Change(Change::AddNodes { n_nodes: n, like: node_name(value) })
                }
                "scale" => {
                    let (workload, n) = workload_replicas(value).map_err(bad)?;
                    ChangeRequest::Scale(workload, n)
                }
                "set-label" => ChangeRequest::label(pair()?.0, pair()?.1).map_err(bad)?,
                "taint" => ChangeRequest::taint(pair()?.0, pair()?.1).map_err(bad)?,
                "evict" => ChangeRequest::Evict(value.to_owned()),
                "manifest" => ChangeRequest::Overlay(value.to_owned()),
                "namespace" => {
                    question.namespace = Some(value.to_owned());
                    continue;
                }
                "each" => {
                    question.each = Some(topology_key(value));
                    continue;
                }
                "repairs" => {
                    question.has_repairs = true;
                    continue;
                }
                "repair-of" => {
                    question.repair_of = Some(value.to_owned());
                    continue;
                }
                "force" => {
                    question.is_forced = true;
                    continue;
                }
                "place" | "digest" => continue,
                _ => {
                    let names: Vec<_> = CHANGES.iter().map(|(name, ..)| *name).collect();
                    let names = names.join(", ");
                    return Err(bad(format!(
                        "no such parameter; there are {names}, manifest, each and namespace"
                    )));
                }
            };
            question.changes.push(change);
        }
        let sum = |of: fn(&ChangeRequest) -> usize| question.changes.iter().map(of).sum::<usize>();
        let added = sum(|change| match change {
            ChangeRequest::Change(Change::AddNodes { n_nodes, .. }) => *n_nodes,
            _ => 0,
        });
        let replicas =
            sum(|change| if let ChangeRequest::Scale(_, n) = change { usize::from(*n) } else { 0 });
        for (n, most, what) in [
            (question.changes.len(), MAX_CHANGES, "changes"),
            (added, MAX_NEW_NODES, "nodes with add-nodes"),
            (replicas, MAX_REPLICAS, "replicas with scale"),
        ] {
            if n > most {
                return Err(PageError::Parameter(format!("{n} {what}: give at most {most}")));
            }
        }
        match n_nodes {
            Some(n) => Err(PageError::Parameter(format!("add-nodes={n}: give like=NODE after it"))),
            None => Ok(question),
        }
    }

    /// What the changes write to the cluster of an inventory.
    pub(super) fn writes(&self, inventory: &Inventory) -> Result<WritePlan, PageError> {
        if self.repair_of.is_some() {
            return Ok(WritePlan::default());
        }
        WritePlan::of(&self.changes, self.namespace.as_deref(), self.is_forced, inventory)
            .map_err(PageError::Parameter)
    }

    /// The cluster after the changes, and what they write if the console allows it.
    pub(super) fn answer(&self, state: &State) -> Result<(Changed, WritePlan), PageError> {
        let refused = |message: String| PageError::Parameter(message);
        let (inventory, options) = state.objects();
        let mut writes = Ok(WritePlan::default());
        if state.allows_changes {
            writes = self.writes(&inventory);
        }
        let now = match options.pending_for {
            PendingFor::Until(now) => now,
            // Without a clock: no pod of the cluster is created later.
            PendingFor::All(_) => {
                let created = inventory.pods.iter().filter_map(|pod| pod.object.metadata.creation_timestamp);
                created.max().unwrap_or_default()
            }
        };
        let mut what_if = WhatIf::new(inventory, options, now).map_err(|error| refused(error.to_string()))?;
        for request in &self.changes {
            if let ChangeRequest::Overlay(text) = request {
                let read = what_if.overlay(|inventory| inventory.read(text.as_bytes(), "manifest"));
                read.map_err(|error| refused(error.to_string()))?
                    .map_err(|error| refused(error.to_string()))?;
                continue;
            }
            if let ChangeRequest::Then = request {
                what_if.then().map_err(|error| refused(error.to_string()))?;
                continue;
            }
            for change in request.changes(self.namespace.as_deref(), what_if.inventory()).map_err(refused)? {
                what_if.apply(&change).map_err(|error| refused(refusal(&error)))?;
            }
        }
        if let Some(rules) = state.enforcer {
            what_if.evict_without_target(rules.evicted_without_target);
        }
        let changed = what_if.run(|_, _| ()).map_err(|error| refused(error.to_string()))?;
        // After the errors of the changes, which say more.
        Ok((changed, writes?))
    }
}
