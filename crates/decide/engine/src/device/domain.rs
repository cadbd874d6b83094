//! Domains of the topology of groups that attributes of devices give.

use std::borrow::Cow;

use berth_api::object::device::DeviceAttribute;
use berth_api::object::group::TopologyLevel;

use super::DevicesInUse;
use super::pools::pools_of;
use crate::state::State;
use crate::state::device::NodeScope;
use crate::state::node::NodeRecord;

impl State {
    /// The domain of a node at a level of a group: the value of its label, or that of an attribute of its devices.
    pub(crate) fn domain_value(&self, node: &NodeRecord, key: &str) -> Option<Cow<'_, str>> {
        match TopologyLevel::device_attribute(key) {
            Some(attribute) => self.attribute_of_devices(node, attribute).map(Cow::Owned),
            None => {
                let value = node.labels.get(self.symbols.get(key)?)?;
                Some(Cow::Borrowed(self.symbols.text(value)))
            }
        }
    }

    /// The value of an attribute that all devices of a node have which have the attribute at all; none if they differ.
    fn attribute_of_devices(&self, node: &NodeRecord, attribute: &str) -> Option<String> {
        let in_use = DevicesInUse::default();
        let pools = pools_of(self, node, &in_use);
        let slices = pools.iter().flat_map(|pool| &pool.slices);
        let devices = slices.flat_map(|slice| slice.devices.iter().map(move |device| (*slice, device)));
        let usable = devices.filter(|(slice, device)| {
            slice.scope != NodeScope::PerDevice || device.scope.includes(&self.symbols, node)
        });
        let mut values = usable.filter_map(|(_, device)| device.shape.attribute(attribute));
        let first = values.next().filter(|value| **value != DeviceAttribute::Unset)?;
        values.all(|value| value == first).then(|| first.to_string())
    }
}
