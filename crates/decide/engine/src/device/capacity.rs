//! Consumable capacity: what a request takes of a device.

use std::collections::BTreeMap;

use berth_api::object::device::{CapacityRequestPolicy, DeviceCapacity};
use berth_api::syntax::quantity::Quantity;

use crate::state::device::{Alternative, DeviceRecord};

/// What a request takes of each capacity of a device; none if the device lacks one that is requested, or a policy of the
/// device rules it out.
pub(super) fn consumed(
    requested: &BTreeMap<String, Quantity>,
    capacity: &BTreeMap<String, DeviceCapacity>,
) -> Option<BTreeMap<String, Quantity>> {
    if requested.keys().any(|name| !capacity.contains_key(name)) {
        return None;
    }
    let amount = |(name, capacity): (&String, &DeviceCapacity)| {
        let amount = amount(requested.get(name).copied(), capacity);
        is_valid(amount, capacity.request_policy.as_ref()).then(|| (name.clone(), amount))
    };
    capacity.iter().map(amount).collect()
}

/// Whether a device that nobody uses has the capacity that a request takes.
pub(super) fn has_whole_capacity(alternative: &Alternative, device: &DeviceRecord) -> bool {
    let capacity = &device.shape.capacity;
    consumed(&alternative.capacity, capacity).is_some_and(|share| {
        share.iter().all(|(name, amount)| capacity.get(name).is_some_and(|of| *amount <= of.value))
    })
}

/// Without a request, the default of the policy or all of the capacity; otherwise the requested amount, rounded up as the
/// policy says.
fn amount(requested: Option<Quantity>, capacity: &DeviceCapacity) -> Quantity {
    let policy = capacity.request_policy.as_ref();
    let Some(requested) = requested else {
        return policy.and_then(|policy| policy.default).unwrap_or(capacity.value);
    };
    let Some(policy) = policy else { return requested };
    match &policy.valid_range {
        Some(range) if range.min.is_some() => {
            let min = range.min.unwrap_or_default();
            match range.step {
                _ if requested < min => min,
                Some(step) if step.units() != 0 => {
                    let beyond = requested.units() - min.units();
                    let steps = beyond / step.units() + i64::from(beyond % step.units() != 0);
                    Quantity::from_binary_units(min.units() + steps * step.units())
                }
                _ => requested,
            }
        }
        _ => policy.valid_values.iter().copied().find(|valid| requested <= *valid).unwrap_or(requested),
    }
}

fn is_valid(amount: Quantity, policy: Option<&CapacityRequestPolicy>) -> bool {
    let Some(policy) = policy else { return true };
    if policy.default == Some(amount) {
        return true;
    }
    match &policy.valid_range {
        Some(range) => {
            let min = range.min.unwrap_or_default();
            let is_step =
                |step: Quantity| step.units() == 0 || (amount.units() - min.units()) % step.units() == 0;
            range.max.is_none_or(|max| amount <= max) && range.step.is_none_or(is_step)
        }
        None => policy.valid_values.is_empty() || policy.valid_values.contains(&amount),
    }
}
