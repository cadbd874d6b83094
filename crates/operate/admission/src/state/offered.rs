//! What nodes offer, for charging whole nodes.

use std::collections::HashMap;

use berth_api::object::Node;
use berth_api::syntax::quantity::Quantity;

use crate::policy::Measure;

/// What one pod with its own node takes from others.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Charge {
    /// Thousandths of a CPU.
    pub(crate) milli_cpu: i64,
    /// Bytes.
    pub(crate) memory: i64,
}

#[derive(Default)]
pub(crate) struct OfferedNodes {
    nodes: HashMap<String, Offered>,
}

struct Offered {
    uid: String,
    charge: Charge,
}

impl OfferedNodes {
    pub(crate) fn set(&mut self, node: &Node) {
        let offered = node.status.allocatable.as_ref().or(node.status.capacity.as_ref());
        let of = |resource: &str| offered.and_then(|list| list.get(resource)).copied();
        let charge = Charge {
            milli_cpu: of("cpu").map_or(0, Quantity::millis),
            memory: of("memory").map_or(0, Quantity::units),
        };
        let uid = node.metadata.uid.clone();
        self.nodes.insert(node.metadata.name.clone(), Offered { uid, charge });
    }

    pub(crate) fn remove(&mut self, name: &str) {
        self.nodes.remove(name);
    }

    pub(crate) fn get(&self, name: &str) -> Option<Charge> {
        self.nodes.get(name).map(|offered| offered.charge)
    }

    pub(crate) fn uid(&self, name: &str) -> Option<&str> {
        self.nodes.get(name).map(|offered| offered.uid.as_str())
    }

    /// The largest node (each resource by itself) or the average one; nothing without nodes.
    pub(crate) fn charge(&self, measure: Measure) -> Charge {
        let charges = self.nodes.values().map(|offered| offered.charge);
        match measure {
            Measure::Average => {
                let n_nodes = i128::try_from(self.nodes.len().max(1)).unwrap_or(1);
                let mean = |of: fn(Charge) -> i64| {
                    let sum: i128 = charges.clone().map(|charge| i128::from(of(charge))).sum();
                    i64::try_from(sum / n_nodes).unwrap_or(i64::MAX)
                };
                Charge { milli_cpu: mean(|c| c.milli_cpu), memory: mean(|c| c.memory) }
            }
            // `Actual` depends on one pod; the caller computes it.
            Measure::Largest | Measure::Actual => charges.fold(Charge::default(), |most, charge| Charge {
                milli_cpu: most.milli_cpu.max(charge.milli_cpu),
                memory: most.memory.max(charge.memory),
            }),
        }
    }
}
