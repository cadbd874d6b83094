//! The nodes with their pods, what these request, and broken rules.

use std::cell::OnceCell;

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
    scarcest: OnceCell<Option<(&'a str, usize)>>,
}

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
    Place { node, pods, broken: broken.on_node(&node.metadata.name), simulation, scarcest: OnceCell::new() }
}

impl<'a> Place<'a> {
    pub(crate) fn allocatable(&self) -> Option<&'a ResourceList> {
        let status = &self.node.status;
        status.allocatable.as_ref().or(status.capacity.as_ref())
    }

    /// The requested and the allocatable amount of a resource.
    pub(crate) fn amount(&self, resource: &str) -> (i64, i64) {
        let quantity = self.allocatable().and_then(|list| list.get(resource));
        let amount = quantity.map_or(0, |q| if resource == "cpu" { q.millis() } else { q.units() });
        (self.simulation.requested(&self.node.metadata.name, resource), amount)
    }

    /// The resource of which the largest part is requested, extended ones included, and that part in percent; none if the node
    /// offers nothing.
    pub(crate) fn scarcest(&self) -> Option<(&'a str, usize)> {
        let find = || {
            let part = |resource: &'_ str| {
                let (used, of) = self.amount(resource);
                (of > 0).then(|| usize::try_from(used.saturating_mul(100) / of).unwrap_or(0))
            };
            let resources = self.allocatable()?.keys().map(String::as_str);
            let parts = resources.filter_map(|resource| Some((resource, part(resource)?)));
            parts.max_by(|(a, n_a), (b, n_b)| n_a.cmp(n_b).then_with(|| b.cmp(a)))
        };
        *self.scarcest.get_or_init(find)
    }

    /// The requested part of the scarcest resource, in percent.
    pub(crate) fn utilization(&self) -> usize {
        self.scarcest().map_or(0, |(_, percent)| percent)
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
