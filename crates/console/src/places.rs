//! The nodes with their pods, what these request, and broken rules.

use std::collections::BTreeMap;

use berth_api::object::{Node, ResourceList};
use berth_api::quantity::with_unit;
use berth_engine::Violation;
use berth_simulate::{SimulatedPod, Simulation};

/// Broken rules that a text names.
const MAX_NAMED: usize = 12;
/// The resources of a text.
const RESOURCES: [&str; 3] = ["cpu", "memory", "pods"];

/// A node with its pods.
pub(crate) struct Place<'a> {
    pub(crate) node: &'a Node,
    pub(crate) pods: Vec<&'a SimulatedPod>,
    simulation: &'a Simulation,
    pub(crate) broken: Vec<&'a Violation>,
    pub(crate) n_evicted: usize,
}

/// The wanted nodes by name. `broken` are the violated rules of running pods.
pub(crate) fn places<'a>(
    simulation: &'a Simulation,
    broken: &'a [Violation],
    is_wanted: impl Fn(&str) -> bool,
) -> BTreeMap<&'a str, Place<'a>> {
    let place = |node: &'a Node| {
        let place = Place { node, pods: Vec::new(), simulation, broken: Vec::new(), n_evicted: 0 };
        (node.metadata.name.as_str(), place)
    };
    let mut places: BTreeMap<_, _> =
        simulation.nodes().filter(|node| is_wanted(&node.metadata.name)).map(place).collect();
    for pod in simulation.pods() {
        if pod.preempted_by.is_some()
            && let Some(place) = places.get_mut(pod.pod.spec.node_name.as_str())
        {
            place.n_evicted += 1;
        }
        let Some(place) = pod.node().and_then(|node| places.get_mut(node)) else { continue };
        place.pods.push(pod);
    }
    for violation in broken {
        if let Some(place) = places.get_mut(violation.node.as_str()) {
            place.broken.push(violation);
        }
    }
    places
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

    pub(crate) fn text(&self) -> String {
        let amount = |resource: &str| {
            let (used, of) = self.amount(resource);
            format!("{resource} {} of {}", with_unit(resource, used), with_unit(resource, of))
        };
        let amounts = RESOURCES.map(amount);
        let mut text = format!("{}: {}", self.node.metadata.name, amounts.join(", "));
        if self.node.spec.unschedulable {
            text.push_str("; cordoned");
        }
        for violation in self.broken.iter().take(MAX_NAMED) {
            let Violation { namespace, name, term, .. } = violation;
            text.push_str(&format!("; broken rule of {namespace}/{name}: {term}"));
        }
        match self.broken.len().saturating_sub(MAX_NAMED) {
            0 => {}
            more => text.push_str(&format!("; {more} more broken rules")),
        }
        text
    }
}
