//! Why requests of claims cannot be satisfied on a node: one reason for each device, the first that applies.
//!
//! The reasons are those of the search, which is not repeated: a device is looked at as if no other request took one.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use berth_api::object::NamespacedName;
use berth_api::object::device::DeviceAttribute;

use super::capacity::{consumed, offered};
use super::pools::try_take;
use super::search::{Candidate, Search, Wanted, tolerates};
use super::{DevicesInUse, Requested, WORK_SPENT};
use crate::state::State;
use crate::state::device::{CountMode, PoolName};
use crate::state::node::NodeRecord;
use crate::verdict::ExcludedDevices;

/// The claims that have devices for themselves.
pub(crate) type Holders = HashMap<(PoolName, Arc<str>), NamespacedName>;

/// A request that cannot be satisfied.
#[derive(Clone, Debug)]
pub(crate) struct Obstacle {
    /// Its claim, by its place.
    pub(crate) claim: usize,
    /// Its place in the claim; none if every request could be satisfied alone.
    pub(crate) request: Option<usize>,
    pub(crate) requested: usize,
    /// How many devices could be allocated for it, if it were alone.
    pub(crate) available: usize,
    pub(crate) excluded: Vec<ExcludedDevices>,
}

/// What keeps claims from being allocated on a node where the search finds nothing.
pub(crate) fn obstacles(
    state: &State,
    node: &NodeRecord,
    claims: &[&Requested],
    holders: &Holders,
) -> Vec<Obstacle> {
    let in_use = DevicesInUse::default();
    let mut search = Search::on(state, node, &in_use, claims, state.settings.device_work.meter());
    if search.prepare().is_err() {
        return Vec::new();
    }
    let search = &search;
    let mut obstacles = Vec::new();
    for (claim, requests) in search.wanted.iter().enumerate() {
        for (request, alternatives) in requests.iter().enumerate() {
            let of_each = alternatives.iter().map(|wanted| of_alternative(search, claim, wanted, holders));
            let mut of_each: Vec<_> = of_each.collect();
            if of_each.iter().any(Option::is_none) {
                continue;
            }
            // Of several alternatives, the one that lacks the fewest devices has the numbers, and all have their reasons.
            let has_names = alternatives.len() > 1;
            for (wanted, obstacle) in alternatives.iter().zip(of_each.iter_mut().flatten()) {
                let name = &wanted.alternative.full_name;
                let excluded = obstacle.excluded.iter_mut().filter(|_| has_names);
                excluded.for_each(|excluded| excluded.reason = format!("{name}: {}", excluded.reason));
            }
            let mut of_each: Vec<_> = of_each.into_iter().flatten().collect();
            let excluded = of_each.iter_mut().flat_map(|of| std::mem::take(&mut of.excluded)).collect();
            let nearest = of_each.into_iter().min_by_key(|of| of.requested.saturating_sub(of.available));
            obstacles.extend(nearest.map(|of| Obstacle { request: Some(request), excluded, ..of }));
        }
    }
    if obstacles.is_empty() {
        obstacles.extend((0..search.wanted.len()).filter_map(|claim| of_constraints(search, claim, holders)));
    }
    if obstacles.is_empty() && !claims.is_empty() {
        let reason = match search.meter.is_spent() {
            true => WORK_SPENT,
            false => "the requests together need more of the devices than each alone",
        };
        let reason = reason.to_owned();
        let excluded = vec![ExcludedDevices { n_devices: 0, reason, taints: None }];
        obstacles.push(Obstacle { claim: 0, request: None, requested: 0, available: 0, excluded });
    }
    obstacles
}

/// None if there are enough devices.
fn of_alternative(
    search: &Search<'_>,
    claim: usize,
    wanted: &Wanted<'_>,
    holders: &Holders,
) -> Option<Obstacle> {
    let is_for_all = wanted.alternative.count == CountMode::All;
    let mut reasons: BTreeMap<String, ExcludedDevices> = BTreeMap::new();
    let mut available = 0;
    for (i, candidate) in search.candidates.iter().enumerate() {
        match reason(search, claim, wanted, (i, candidate), holders) {
            None => available += 1,
            Some(Reason { text, taints }) => {
                let excluded = reasons.entry(text).or_insert_with_key(|text| ExcludedDevices {
                    n_devices: 0,
                    reason: text.clone(),
                    taints,
                });
                excluded.n_devices += 1;
            }
        }
    }
    let requested = if is_for_all { wanted.all.len().max(1) } else { wanted.n_devices };
    if available >= requested {
        return None;
    }
    let mut excluded: Vec<_> = reasons.into_values().collect();
    excluded.sort_by(|a, b| b.n_devices.cmp(&a.n_devices).then_with(|| a.reason.cmp(&b.reason)));
    for pool in &search.pools {
        let Some(why) = pool.condition.problem() else { continue };
        let reason = format!("pool {}/{} {why}", pool.name.driver, pool.name.pool);
        excluded.push(ExcludedDevices { n_devices: 0, reason, taints: None });
    }
    Some(Obstacle { claim, request: None, requested, available, excluded })
}

/// Why a device cannot be allocated.
struct Reason {
    text: String,
    taints: Option<String>,
}

impl From<String> for Reason {
    fn from(text: String) -> Reason {
        Reason { text, taints: None }
    }
}

/// Why a device cannot be allocated for a request; none if it can.
fn reason(
    search: &Search<'_>,
    claim: usize,
    wanted: &Wanted<'_>,
    (i, candidate): (usize, &Candidate<'_>),
    holders: &Holders,
) -> Option<Reason> {
    let Candidate { pool, device, used, .. } = *candidate;
    let alternative = wanted.alternative;
    let of_class = wanted.class.selectors.iter().map(|selector| (selector, true));
    for (selector, is_of_class) in of_class.chain(alternative.selectors.iter().map(|s| (s, false))) {
        let whose =
            if is_of_class { format!("class {}", wanted.class.name) } else { "the request".to_owned() };
        match device.shape.selected_by(selector, &search.meter) {
            Some(Ok(true)) => {}
            Some(Ok(false)) => {
                return Some(format!("not selected by {whose}: {}", selector.expression).into());
            }
            Some(Err(error)) => return Some(format!("the selector of {whose} fails: {error}").into()),
            None => return Some(WORK_SPENT.to_owned().into()),
        }
    }
    if !matches!(search.selects(claim, wanted, candidate), Ok(true)) {
        return Some("not for this node".to_owned().into());
    }
    if !tolerates(alternative, device) {
        let taints = device.taints.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
        return Some(Reason { text: format!("with the taints {taints}"), taints: Some(taints) });
    }
    let pool = &search.pools[pool];
    if !alternative.admin_access && used.is_some_and(|used| used.n_exclusive > 0) {
        let holder = holders.get(&(pool.name.clone(), device.name.clone()));
        let text = holder.map_or_else(|| "in use".to_owned(), |claim| format!("in use by claim {claim}"));
        return Some(text.into());
    }
    if search.share_of(alternative, i).is_none() {
        let absent =
            alternative.capacity.keys().find(|name| offered(name, &device.shape, search.gates()).is_none());
        let text = match (absent, consumed(&alternative.capacity, &device.shape, search.gates())) {
            (Some(name), _) => format!("without the capacity {name}"),
            (None, None) => "the policy of its capacity does not allow the requested amount".to_owned(),
            (None, Some(_)) => "too little of its capacity is left".to_owned(),
        };
        return Some(text.into());
    }
    let mut left = pool.counters.clone();
    if search.takes_counters(i, used) && !try_take(&mut left, device) {
        let sets: Vec<&str> = device.consumes.iter().map(|(set, _)| &**set).collect();
        return Some(format!("too little is left of the shared counters {}", sets.join(", ")).into());
    }
    None
}

/// The constraint of a claim that no choice of the available devices satisfies, each constraint taken alone.
fn of_constraints(search: &Search<'_>, claim: usize, holders: &Holders) -> Option<Obstacle> {
    for constraint in search.constraints_of(claim) {
        let mut needed = 0;
        let mut by_value: Vec<(&DeviceAttribute, usize)> = Vec::new();
        let mut counted = vec![false; search.candidates.len()];
        for alternatives in &search.wanted[claim] {
            let concerned = || {
                alternatives.iter().filter(|wanted| constraint.concerns(wanted.request, wanted.alternative))
            };
            needed += concerned().map(|wanted| wanted.n_devices).min().unwrap_or(0);
            for wanted in concerned() {
                for (i, candidate) in search.candidates.iter().enumerate() {
                    let Some(value) = candidate.device.shape.attribute(&constraint.attribute) else {
                        continue;
                    };
                    if counted[i] || reason(search, claim, wanted, (i, candidate), holders).is_some() {
                        continue;
                    }
                    counted[i] = true;
                    match by_value.iter_mut().find(|(known, _)| *known == value) {
                        Some((_, n)) => *n += 1,
                        None => by_value.push((value, 1)),
                    }
                }
            }
        }
        let (kind, most) = match constraint.is_distinct {
            true => ("distinctAttribute", by_value.len()),
            false => ("matchAttribute", by_value.iter().map(|(_, n)| *n).max().unwrap_or(0)),
        };
        if most < needed {
            let values = if constraint.is_distinct { "different values" } else { "one value" };
            let reason = format!(
                "{kind} {}: at most {most} of the available devices have {values}",
                constraint.attribute
            );
            let excluded = vec![ExcludedDevices { n_devices: 0, reason, taints: None }];
            return Some(Obstacle { claim, request: None, requested: needed, available: most, excluded });
        }
    }
    None
}
