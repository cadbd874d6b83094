//! Checks allocations of devices from the claims and slices alone, after a test with a whole cluster.

use std::collections::BTreeMap;

use berth_api::object::device::{
    Device, DeviceAttribute, DeviceRequestAllocationResult, ResourceClaim, ResourceSlice,
};
use berth_api::syntax::quantity::Quantity;

type Id = (String, String, String);

fn id(result: &DeviceRequestAllocationResult) -> Id {
    (result.driver.clone(), result.pool.clone(), result.device.clone())
}

/// What is wrong with the allocations of claims, a sentence each: devices that do not exist, exclusive devices that are
/// allocated twice, counters and capacities that do not suffice, and constraints that do not hold. Devices that are
/// allocated for administration take nothing.
pub fn check(claims: &[ResourceClaim], slices: &[ResourceSlice]) -> Vec<String> {
    let mut problems = Vec::new();
    let mut holders: BTreeMap<Id, Vec<(&ResourceClaim, &DeviceRequestAllocationResult)>> = BTreeMap::new();
    for claim in claims {
        let results = claim.status.allocation.iter().flat_map(|a| &a.devices.results);
        for result in results.clone() {
            if device(slices, &id(result)).is_none() {
                problems.push(format!(
                    "{}: {:?} does not exist",
                    claim.metadata.namespaced_name(),
                    id(result)
                ));
            }
            if result.admin_access != Some(true) {
                holders.entry(id(result)).or_default().push((claim, result));
            }
        }
        constraints(claim, slices, &mut problems);
    }
    // Driver, pool, set and counter.
    let mut consumed: BTreeMap<(&str, &str, &str, &str), Quantity> = BTreeMap::new();
    for (id, holders) in &holders {
        let Some(device) = device(slices, id) else { continue };
        if !device.allow_multiple_allocations && holders.len() > 1 {
            let names: Vec<_> =
                holders.iter().map(|(c, _)| c.metadata.namespaced_name().to_string()).collect();
            problems.push(format!("{id:?} is exclusive, and allocated to {}", names.join(", ")));
        }
        for (name, capacity) in &device.capacity {
            let taken = holders.iter().filter_map(|(_, result)| result.consumed_capacity.get(name));
            let taken = taken.fold(Quantity::ZERO, |sum, amount| sum + *amount);
            if taken > capacity.value {
                problems.push(format!("{id:?}: {taken} of {name} are taken, of {}", capacity.value));
            }
        }
        for consumption in &device.consumes_counters {
            for (counter, amount) in &consumption.counters {
                let key = (&*id.0, &*id.1, &*consumption.counter_set, &**counter);
                *consumed.entry(key).or_default() += amount.value;
            }
        }
    }
    for ((driver, pool, set, counter), amount) in consumed {
        let of_pool = newest(slices, driver, pool).flat_map(|slice| &slice.spec.shared_counters);
        let total = of_pool.filter(|s| s.name == set).find_map(|s| s.counters.get(counter));
        if total.is_none_or(|total| amount > total.value) {
            problems.push(format!("{driver}/{pool}: {amount} of counter {set}/{counter} are taken"));
        }
    }
    problems
}

/// The slices of a pool's newest generation.
fn newest<'a>(
    slices: &'a [ResourceSlice],
    driver: &'a str,
    pool: &'a str,
) -> impl Iterator<Item = &'a ResourceSlice> {
    let of_pool = move |slice: &&ResourceSlice| slice.spec.driver == driver && slice.spec.pool.name == pool;
    let generation = slices.iter().filter(of_pool).map(|slice| slice.spec.pool.generation).max();
    slices.iter().filter(of_pool).filter(move |slice| Some(slice.spec.pool.generation) == generation)
}

fn device<'a>(slices: &'a [ResourceSlice], (driver, pool, name): &'a Id) -> Option<&'a Device> {
    newest(slices, driver, pool).flat_map(|slice| &slice.spec.devices).find(|device| device.name == *name)
}

fn constraints(claim: &ResourceClaim, slices: &[ResourceSlice], problems: &mut Vec<String>) {
    for constraint in &claim.spec.devices.constraints {
        let is_bound = |result: &&DeviceRequestAllocationResult| {
            let parent = result.request.split('/').next().unwrap_or_default();
            let mut names = constraint.requests.iter();
            constraint.requests.is_empty() || names.any(|name| *name == result.request || name == parent)
        };
        let results = claim.status.allocation.iter().flat_map(|a| &a.devices.results).filter(is_bound);
        let ids: Vec<Id> = results.map(id).collect();
        let values = |name: &String| -> Vec<Option<&DeviceAttribute>> {
            let value = |id| {
                let attributes = &device(slices, id)?.attributes;
                let own = name.strip_prefix(&*id.0).and_then(|rest| rest.strip_prefix('/'));
                attributes.get(name).or_else(|| attributes.get(own?))
            };
            ids.iter().map(value).collect()
        };
        let named = constraint.match_attribute.iter().map(|name| (name, true));
        for (name, is_equal) in named.chain(constraint.distinct_attribute.iter().map(|name| (name, false))) {
            let values = values(name);
            let pairs = (0..values.len()).flat_map(|i| (0..i).map(move |j| (i, j)));
            let holds = values.iter().all(Option::is_some)
                && pairs.into_iter().all(|(i, j)| (values[i] == values[j]) == is_equal);
            if !holds {
                let claim = claim.metadata.namespaced_name();
                problems.push(format!("{claim}: the constraint on {name} does not hold: {values:?}"));
            }
        }
    }
}
