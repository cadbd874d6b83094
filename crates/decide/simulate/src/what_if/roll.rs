//! Rolling replacements of nodes: cordon, drain under disruption budgets, replace, and the next.

use std::collections::BTreeMap;

use berth_api::object::Node;
use berth_api::syntax::format::counted;

use super::change::{Change, add_node_like, domain_of};
use super::error::ChangeError;
use super::{State, StepKind, WhatIf};
use crate::simulation::{new_node_name, node_like};

/// A rolling replacement of nodes, by name.
#[derive(Clone, Debug, Default)]
pub struct RollNodes {
    /// Labels of the nodes; without any, all nodes.
    pub labels: BTreeMap<String, String>,
    /// Nodes that are added before as many others are drained; those are removed then.
    pub surge: usize,
    /// Nodes that are drained at one time, without another one in their place.
    pub max_unavailable: usize,
    /// What replaces them; without it, nodes like those before.
    pub with: Option<Box<Node>>,
}

impl RollNodes {
    fn replacement(&self, of: &Node, name: String) -> Node {
        let mut node = node_like(self.with.as_deref().unwrap_or(of), name);
        if self.with.is_some() {
            // The pool is the same: what the replacement does not say stays.
            for (key, value) in &of.metadata.labels {
                node.metadata.labels.entry(key.clone()).or_insert_with(|| value.clone());
            }
        }
        node
    }
}

impl WhatIf {
    /// Replaces nodes one after the other, or several at a time: one that is empty is replaced while others wait for disruption
    /// budgets. Pods of DaemonSets come back on the new nodes. It stops when all that are drained wait for ever: then no later node is replaced.
    ///
    /// # Errors
    /// No node has the labels, or those of [`WhatIf::apply`].
    pub fn roll_nodes(&mut self, roll: &RollNodes) -> Result<(), ChangeError> {
        let has_labels =
            |node: &Node| roll.labels.iter().all(|(key, value)| domain_of(node, key) == Some(value.as_str()));
        let nodes = self.inventory.nodes.iter().map(|entry| &entry.object).filter(|node| has_labels(node));
        let mut nodes: Vec<String> = nodes.map(|node| node.metadata.name.clone()).collect();
        nodes.sort_unstable();
        if nodes.is_empty() {
            let labels: Vec<_> = roll.labels.iter().map(|(key, value)| format!("{key}={value}")).collect();
            return Err(ChangeError::NoNodes { labels: labels.join(",") });
        }
        let n_nodes = nodes.len();
        let mut waiting = nodes.into_iter();
        // Nodes that are drained, and whether the one that replaces them is there.
        let mut draining: Vec<(String, bool)> = Vec::new();
        let mut n_replaced = 0;
        self.shows_steps = true;
        self.then()?;
        while n_replaced < n_nodes {
            self.end_step()?;
            let n_free = (roll.surge + roll.max_unavailable).max(1) - draining.len();
            let n_surged = draining.iter().filter(|(_, is_surged)| *is_surged).count();
            let started: Vec<String> = waiting.by_ref().take(n_free).collect();
            let n_added = started.len().min(roll.surge - n_surged);
            started[..n_added].iter().try_for_each(|node| self.add_replacement(roll, node))?;
            started.iter().try_for_each(|node| self.apply_together(&Change::Drain(node.clone())))?;
            draining.extend(started.into_iter().enumerate().map(|(i, node)| (node, i < n_added)));
            self.end_step()?;
            let has_pods =
                |node: &String| self.departures.evictions.iter().any(|eviction| eviction.node == *node);
            let (open, empty): (Vec<_>, Vec<_>) = draining.into_iter().partition(|(node, _)| has_pods(node));
            if empty.is_empty() {
                let changes = self.steps.last_mut().map(|step| &mut step.changes);
                let stop = format!("stop: {n_replaced} of {} replaced", counted(n_nodes, "node"));
                changes.into_iter().for_each(|changes| changes.push(stop.clone()));
                return Ok(());
            }
            n_replaced += empty.len();
            for (node, is_surged) in empty {
                match is_surged {
                    true => self.apply_together(&Change::RemoveNode(node))?,
                    false => self.replace(roll, &node)?,
                }
            }
            draining = open;
        }
        self.end_step()?;
        Ok(())
    }

    /// Adds the node that replaces another one.
    fn add_replacement(&mut self, roll: &RollNodes, of: &str) -> Result<(), ChangeError> {
        self.settle_objects()?;
        let State::Live { simulation, .. } = &mut self.state else { return Ok(()) };
        let Some(old) = simulation.node(of) else { return Ok(()) };
        let name = new_node_name(of, |name| simulation.has_node(name));
        let node = roll.replacement(old, name.clone());
        add_node_like(&mut self.inventory, simulation, of, node);
        self.step.add(StepKind::Objects, name.clone(), format!("add {name}"));
        Ok(())
    }

    /// Replaces a node that is drained by one of the same name.
    fn replace(&mut self, roll: &RollNodes, name: &str) -> Result<(), ChangeError> {
        let State::Live { simulation, .. } = &mut self.state else { return Ok(()) };
        let Some(old) = simulation.node(name) else { return Ok(()) };
        let node = roll.replacement(old, name.to_owned());
        simulation.set_node(node.clone());
        if let Some(entry) = self.inventory.nodes.iter_mut().find(|entry| entry.object.metadata.name == name)
        {
            entry.object = node;
        }
        self.step.add(StepKind::Objects, name.to_owned(), format!("replace {name}"));
        Ok(())
    }
}
