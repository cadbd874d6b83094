//! Consumable capacity (KEP-5075): how much of a device a request takes.

use std::collections::BTreeMap;

use berth_api::feature_gates::FeatureGates;
use berth_api::object::device::{CapacityRequestPolicy, Device};
use berth_api::syntax::quantity::Quantity;

/// Amounts by the name of the capacity.
pub type Amounts = BTreeMap<String, Quantity>;

/// What a request takes of a device that is all free; `None` if the device has too little, or no such capacity.
pub fn taken(device: &Device, requested: &Amounts, gates: FeatureGates) -> Option<Amounts> {
    if requested.keys().any(|name| !device.capacity.contains_key(name)) {
        return None;
    }
    let mut taken = Amounts::new();
    for (name, capacity) in &device.capacity {
        let requested = requested.get(name).copied();
        let policy = capacity.request_policy.as_ref().filter(|_| device.allow_multiple_allocations);
        let amount = match (requested, policy) {
            (Some(requested), Some(policy)) => round_up(requested, policy, gates)?,
            (Some(requested), None) => requested,
            (None, policy) => policy.and_then(|policy| policy.default).unwrap_or(capacity.value),
        };
        if amount > capacity.value {
            return None;
        }
        taken.insert(name.clone(), amount);
    }
    Some(taken)
}

/// The smallest amount that the policy allows and that is enough.
fn round_up(requested: Quantity, policy: &CapacityRequestPolicy, gates: FeatureGates) -> Option<Quantity> {
    if !policy.valid_values.is_empty() {
        return policy.valid_values.iter().copied().filter(|value| *value >= requested).min();
    }
    let Some(range) = &policy.valid_range else { return Some(requested) };
    let min = range.min.unwrap_or_default();
    let mut amount = requested.max(min);
    if let Some(step) = range.step.filter(|_| gates.dra_fractional_capacity_range) {
        let (min, step) = (min.millis(), step.millis());
        let n_steps = (amount.millis() - min + step - 1) / step;
        amount = Quantity::from_millis(min + n_steps * step);
    } else if let Some(step) = range.step.filter(|step| step.units() > 0) {
        let (min, step) = (min.units(), step.units());
        let n_steps = (amount.units() - min + step - 1) / step;
        amount = Quantity::from_binary_units(min + n_steps * step);
    }
    range.max.is_none_or(|max| amount <= max).then_some(amount)
}
