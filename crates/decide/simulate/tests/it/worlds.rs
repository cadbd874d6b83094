//! Worlds of the test kit as inputs of simulations.

use berth_api::object::Pod;
use berth_api::read::SourceLocation;
use berth_input::inventory::{Entry, Inventory};
use berth_testkit::naive::World;
use jiff::Timestamp;

pub fn entries<T>(objects: impl IntoIterator<Item = T>) -> Vec<Entry<T>> {
    let entry = |(order, object)| Entry { object, raw: None, source: SourceLocation::file("test"), order };
    objects.into_iter().enumerate().map(entry).collect()
}

/// A pod with a node runs there: its node has admitted it.
pub fn start(pod: &mut Pod) {
    if !pod.spec.node_name.is_empty() {
        pod.status.phase = "Running".to_owned();
    }
}

/// The objects of a world. Its pods are taken as the API server stores them; those with a node run there.
pub fn inventory(world: World) -> Inventory {
    let admitted = |mut pod: Pod| {
        pod.metadata.creation_timestamp = Some(Timestamp::UNIX_EPOCH);
        start(&mut pod);
        pod
    };
    let mut inventory = Inventory::default();
    inventory.nodes = entries(world.nodes);
    inventory.namespaces = entries(world.namespaces);
    inventory.services = entries(world.services);
    inventory.pod_disruption_budgets = entries(world.budgets);
    inventory.pods = entries(world.pods.into_iter().map(admitted));
    inventory
}
