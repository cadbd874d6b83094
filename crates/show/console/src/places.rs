//! The nodes with their pods, what these request, and broken rules.

use berth_api::object::{Node, ResourceList};
use berth_api::syntax::quantity::with_unit;
use berth_engine::Violation;
use berth_simulate::Simulation;

use crate::overview::{Overview, Pods};
use crate::pod_table::ByNode;

/// The resources of a text.
const RESOURCES: [&str; 3] = ["cpu", "memory", "pods"];

/// A node with the positions of its pods.
pub(crate) struct Place<'a> {
    pub(crate) node: &'a Node,
    pub(crate) pods: &'a [usize],
    pub(crate) broken: Vec<&'a Violation>,
    simulation: &'a Simulation,
}

/// The nodes by name.
pub(crate) fn places<'a>(overview: Overview<'a>, by_node: &'a ByNode<'_>) -> Vec<Place<'a>> {
    overview
        .pods
        .simulation
        .nodes()
        .map(|node| place(overview, node, by_node.on(&node.metadata.name)))
        .collect()
}

pub(crate) fn place<'a>(overview: Overview<'a>, node: &'a Node, pods: &'a [usize]) -> Place<'a> {
    let Overview { pods: Pods { simulation, .. }, broken } = overview;
    Place { node, pods, broken: broken.on_node(&node.metadata.name), simulation }
}

impl Place<'_> {
    pub(crate) fn allocatable(&self) -> Option<&ResourceList> {
        let status = &self.node.status;
        status.allocatable.as_ref().or(status.capacity.as_ref())
    }

    /// The requested and the allocatable amount of a resource.
    pub(crate) fn amount(&self, resource: &str) -> (i64, i64) {
        let quantity = self.allocatable().and_then(|list| list.get(resource));
        let amount = quantity.map_or(0, |q| if resource == "cpu" { q.millis() } else { q.units() });
        (self.simulation.requested(&self.node.metadata.name, resource), amount)
    }

    /// The largest requested part of a resource, in percent.
    pub(crate) fn utilization(&self) -> usize {
        let percent = |resource| {
            let (used, of) = self.amount(resource);
            if of > 0 { used * 100 / of } else { 0 }
        };
        usize::try_from(RESOURCES.into_iter().map(percent).max().unwrap_or(0)).unwrap_or(0)
    }

    /// The name, the amounts, and at most this many of the broken rules.
    pub(crate) fn text(&self, most_broken: usize) -> String {
        let amount = |resource: &str| {
            let (used, of) = self.amount(resource);
            format!("{resource} {} of {}", with_unit(resource, used), with_unit(resource, of))
        };
        let amounts = RESOURCES.map(amount);
        let mut text = format!("{}: {}", self.node.metadata.name, amounts.join(", "));
        if self.node.spec.unschedulable {
            text.push_str("; cordoned");
        }
        for violation in self.broken.iter().take(most_broken) {
            let Violation { namespace, name, term, .. } = violation;
            text.push_str(&format!("; broken rule of {namespace}/{name}: {term}"));
        }
        match self.broken.len().saturating_sub(most_broken) {
            0 => {}
            more => text.push_str(&format!("; {more} more broken rules")),
        }
        text
    }
}
