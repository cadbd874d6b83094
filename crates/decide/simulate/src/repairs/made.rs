//! The changes of a repair, made: of nodes and of pods.

use std::collections::BTreeMap;

use berth_api::object::device::DeviceObject;
use berth_api::object::{Node, Pod};
use berth_api::read::from_value;

use super::add_node::like;
use super::change::{Change, Repair};
use super::node::changed_node;
use super::requests::reduce;
use crate::simulation::{Devices, Simulation, new_node_name};

impl Repair {
    /// The nodes that it changes or adds, and the devices of these. None if it names nodes that are not known.
    pub(super) fn nodes(
        &self,
        known: &BTreeMap<String, Node>,
        devices: &Devices,
    ) -> Option<(Vec<Node>, Vec<DeviceObject>)> {
        let mut nodes: BTreeMap<String, Node> = BTreeMap::new();
        let mut slices = Vec::new();
        for change in &self.changes {
            match change {
                Change::Uncordon { node }
                | Change::RemoveTaint { node, .. }
                | Change::SetLabel { node, .. }
                | Change::RemoveLabel { node, .. } => {
                    let before = nodes.get(node).or_else(|| known.get(node))?;
                    let changed = changed_node(before, std::slice::from_ref(change));
                    nodes.insert(node.clone(), changed);
                }
                Change::AddNode { like: other, in_new_domain, .. } => {
                    let is_taken = |name: &str| known.contains_key(name) || nodes.contains_key(name);
                    let name = match is_taken(&self.node) {
                        true => new_node_name(other, is_taken),
                        false => self.node.clone(),
                    };
                    let mut node = like(known.get(other)?, &name);
                    for pair in in_new_domain {
                        node.metadata.labels.insert(pair.key.clone(), pair.value.clone()?);
                    }
                    let of_node = devices.slices_like(other, &name).into_iter();
                    slices.extend(of_node.map(|slice| DeviceObject::ResourceSlice(Box::new(slice))));
                    nodes.insert(name, node);
                }
                _ => {}
            }
        }
        Some((nodes.into_values().collect(), slices))
    }
}

impl Simulation {
    /// Makes the changes of nodes.
    pub(super) fn change_nodes(&mut self, repair: &Repair) -> Option<()> {
        let (nodes, slices) = repair.nodes(&self.nodes, &self.devices)?;
        nodes.into_iter().for_each(|node| _ = self.set_node(node));
        slices.iter().for_each(|slice| self.set_device(slice));
        Some(())
    }
}

pub(super) fn changed_pod(pod: &Pod, repair: &Repair) -> Option<Pod> {
    let mut pod = pod.clone();
    if !repair.patch.is_empty() {
        let patch: json_patch::Patch = serde_json::from_value(repair.patch.clone().into()).ok()?;
        let mut object = serde_json::to_value(&pod).ok()?;
        json_patch::patch(&mut object, &patch).ok()?;
        pod = from_value(&object).ok()?;
    }
    for change in &repair.changes {
        if let Change::RequestLess { container, resource, to, .. } = change {
            let container = pod.spec.containers.iter_mut().find(|of| of.name == *container)?;
            reduce(container, resource, to)?;
        }
    }
    Some(pod)
}
