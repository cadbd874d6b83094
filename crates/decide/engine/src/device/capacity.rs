//! Consumable capacity: what a request takes of a device.

use std::collections::BTreeMap;

use berth_api::feature_gates::{FeatureGates, VersionChange};
use berth_api::object::device::{CapacityRequestPolicy, CapacityRequestPolicyRange, DeviceCapacity};
use berth_api::syntax::quantity::Quantity;

use crate::state::device::Shape;

/// Amounts by the name of the capacity.
type Amounts = BTreeMap<String, Quantity>;

/// What a request takes of each capacity of a device; none if the device lacks one that is requested, or a policy of the
/// device rules it out.
pub(super) fn consumed(requested: &Amounts, shape: &Shape, gates: FeatureGates) -> Option<Amounts> {
    if requested.keys().any(|name| offered(name, shape, gates).is_none()) {
        return None;
    }
    let amount = |(name, capacity): (&String, &DeviceCapacity)| {
        let amount = amount(requested_of(requested, name, shape, gates), capacity, gates);
        is_valid(amount, capacity.request_policy.as_ref(), gates).then(|| (name.clone(), amount))
    };
    shape.capacity.iter().map(amount).collect()
}

/// Whether an unused device has the capacity that a request takes.
pub(super) fn has_whole_capacity(requested: &Amounts, shape: &Shape, gates: FeatureGates) -> bool {
    consumed(requested, shape, gates).is_some_and(|share| {
        share.iter().all(|(name, amount)| shape.capacity.get(name).is_some_and(|of| *amount <= of.value))
    })
}

/// Why what a request takes of a device cannot be calculated, in kube-scheduler's words.
pub(super) fn problem(requested: &Amounts, shape: &Shape, gates: FeatureGates) -> Option<String> {
    if requested.is_empty() || !gates.has(VersionChange::CapacityInFormatOfStep) {
        return None;
    }
    if requested.keys().any(|name| offered(name, shape, gates).is_none()) {
        return None;
    }
    for name in requested.keys().filter(|_| gates.has(VersionChange::QualifiedCapacity)) {
        let other = counterpart(name, &shape.driver);
        let short = name.rsplit('/').next().unwrap_or(name);
        if requested.contains_key(&other) {
            return Some(format!("capacity {short:?} requested both as {name:?} and as {other:?}"));
        }
    }
    const WHY: &str = "capacity request cannot be represented in the device's range arithmetic";
    shape.capacity.iter().find_map(|(name, capacity)| {
        let requested = requested_of(requested, name, shape, gates)?;
        let range = capacity.request_policy.as_ref()?.valid_range.as_ref()?;
        let (min, step) = (range.min?, range.step?);
        if requested < min {
            return None;
        }
        let why = match in_millis(range, gates) {
            Some((min, step)) => match requested.exact_millis() {
                None => format!("request {requested} is not a representable milli value"),
                Some(millis) if rounded_up(millis, min, step).is_none() => {
                    format!("rounding request {requested} up to the next step passes the milli-value range")
                }
                Some(_) => return None,
            },
            None if rounded_up(requested.units(), min.units(), step.units()).is_none() => {
                format!("rounding request {requested} up to the next step passes MaxInt64")
            }
            None => return None,
        };
        Some(format!("capacity {name:?}: {WHY}: {why}"))
    })
}

/// A name with the domain of the driver, or one of these without.
fn counterpart(name: &str, driver: &str) -> String {
    match name.strip_prefix(driver).and_then(|rest| rest.strip_prefix('/')) {
        Some(short) => short.to_owned(),
        None => format!("{driver}/{name}"),
    }
}

/// The capacity of a device that a request names.
pub(super) fn offered<'a>(name: &str, shape: &'a Shape, gates: FeatureGates) -> Option<&'a DeviceCapacity> {
    let other = || gates.has(VersionChange::QualifiedCapacity).then(|| counterpart(name, &shape.driver));
    shape.capacity.get(name).or_else(|| shape.capacity.get(&other()?))
}

/// The amount that is requested of a capacity of a device.
fn requested_of(requested: &Amounts, name: &str, shape: &Shape, gates: FeatureGates) -> Option<Quantity> {
    if requested.is_empty() {
        return None;
    }
    let other = || gates.has(VersionChange::QualifiedCapacity).then(|| counterpart(name, &shape.driver));
    requested.get(name).or_else(|| requested.get(&other()?)).copied()
}

/// The minimum and the step of a range in thousandths, if it is calculated in them.
fn in_millis(range: &CapacityRequestPolicyRange, gates: FeatureGates) -> Option<(i64, i64)> {
    if !gates.dra_fractional_capacity_range {
        return None;
    }
    let step = range.step?.exact_millis().filter(|step| *step > 0)?;
    if let Some(max) = range.max {
        max.exact_millis()?;
    }
    Some((range.min.unwrap_or_default().exact_millis()?, step))
}

/// The smallest sum of a minimum and a multiple of a step that is enough; none if it is too large.
fn rounded_up(amount: i64, min: i64, step: i64) -> Option<i64> {
    let beyond = amount.checked_sub(min)?;
    let steps = beyond.checked_div(step)? + i64::from(beyond % step != 0);
    min.checked_add(steps.checked_mul(step)?)
}

/// Without a request, the default of the policy or all of the capacity; otherwise the requested amount, rounded up as the
/// policy says.
fn amount(requested: Option<Quantity>, capacity: &DeviceCapacity, gates: FeatureGates) -> Quantity {
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
                Some(step) if !step.is_zero() => rounded_up_to_step(requested, min, step, range, gates),
                _ => requested,
            }
        }
        _ => policy.valid_values.iter().copied().find(|valid| requested <= *valid).unwrap_or(requested),
    }
}

fn rounded_up_to_step(
    requested: Quantity,
    min: Quantity,
    step: Quantity,
    range: &CapacityRequestPolicyRange,
    gates: FeatureGates,
) -> Quantity {
    let rounded = match in_millis(range, gates) {
        Some((min, step)) => requested
            .exact_millis()
            .and_then(|millis| rounded_up(millis, min, step))
            .map(Quantity::from_millis),
        None => rounded_up(requested.units(), min.units(), step.units()).map(Quantity::from_binary_units),
    };
    let rounded = rounded.unwrap_or(requested);
    if gates.has(VersionChange::CapacityInFormatOfStep) { rounded.in_format_of(step) } else { rounded }
}

fn is_valid(amount: Quantity, policy: Option<&CapacityRequestPolicy>, gates: FeatureGates) -> bool {
    let Some(policy) = policy else { return true };
    if policy.default == Some(amount) {
        return true;
    }
    match &policy.valid_range {
        Some(range) => {
            let min = range.min.unwrap_or_default();
            let is_step = |step: Quantity| match in_millis(range, gates) {
                Some((min, step)) => amount.exact_millis().is_some_and(|millis| (millis - min) % step == 0),
                None => step.units() == 0 || (amount.units() - min.units()) % step.units() == 0,
            };
            range.max.is_none_or(|max| amount <= max) && range.step.is_none_or(is_step)
        }
        None => policy.valid_values.is_empty() || policy.valid_values.contains(&amount),
    }
}
