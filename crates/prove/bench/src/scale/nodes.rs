//! The nodes of a generated cluster.

use berth_api::object::{Node, ObjectMeta, Taint};
use berth_api::split_mix::SplitMix64;
use berth_api::syntax::labels::HOSTNAME;
pub use berth_api::syntax::labels::ZONE;
use berth_api::syntax::quantity::Quantity;
use serde::de::DeserializeOwned;
use serde_json::Value;

pub const INSTANCE_TYPE: &str = "node.kubernetes.io/instance-type";
pub const DISK: &str = "example.com/disk";
pub const RACK: &str = "example.com/rack";

pub(crate) const N_ZONES: usize = 10;
pub(crate) const NODES_PER_RACK: usize = 40;

/// Name, CPUs, memory in GiB, pods.
const SIZES: [(&str, i64, i64, i64); 4] =
    [("small", 4, 16, 58), ("medium", 8, 32, 110), ("large", 16, 64, 110), ("huge", 32, 128, 250)];

/// The name of a node. Names are in the order of their numbers.
pub fn node_name(i: usize) -> String {
    format!("node-{i:07}")
}

/// An object from its JSON form.
pub(crate) fn object<T: DeserializeOwned>(value: Value) -> T {
    serde_json::from_value(value).expect("an object of its type")
}

pub fn node_index(name: &str) -> Option<usize> {
    name.strip_prefix("node-")?.parse().ok()
}

/// A node. Racks have 40 nodes and are distributed over ten zones in turn; there are four sizes; 30% of the nodes have an
/// SSD, 5% a `NoSchedule` taint, 2% a `PreferNoSchedule` taint.
pub fn node(seed: u64, i: usize) -> Node {
    let random = SplitMix64::nth(seed, i as u64);
    let of_hundred = |shift: u32| (random >> shift) % 100;
    let (size, cpus, gibibytes, pods) = SIZES[match of_hundred(0) {
        0..40 => 0,
        40..75 => 1,
        75..95 => 2,
        _ => 3,
    }];
    let rack = i / NODES_PER_RACK;
    let disk = if of_hundred(16) < 30 { "ssd" } else { "hdd" };
    let name = node_name(i);
    let labels = [
        (HOSTNAME, name.clone()),
        (ZONE, format!("zone-{}", rack % N_ZONES)),
        (RACK, format!("rack-{rack:05}")),
        (INSTANCE_TYPE, size.to_owned()),
        (DISK, disk.to_owned()),
    ];
    let labels = labels.map(|(key, value)| (key.to_owned(), value)).into();
    let taint = match of_hundred(32) {
        0..5 => Some(("dedicated", "NoSchedule")),
        5..7 => Some(("maintenance", "PreferNoSchedule")),
        _ => None,
    };
    let amounts = [
        ("cpu", Quantity::from_units(cpus)),
        ("memory", Quantity::from_units(gibibytes << 30)),
        ("pods", Quantity::from_units(pods)),
    ];
    let mut node = Node { metadata: ObjectMeta { name, labels, ..ObjectMeta::default() }, ..Node::default() };
    node.spec.taints = taint
        .map(|(key, effect)| Taint {
            key: key.to_owned(),
            value: "true".to_owned(),
            effect: effect.to_owned(),
        })
        .into_iter()
        .collect();
    node.status.allocatable = Some(amounts.map(|(name, amount)| (name.to_owned(), amount)).into());
    node
}
