//! The search for devices: the first allocation, in the documented order, that meets everything.

use std::collections::BTreeMap;

use berth_api::feature_gates::FeatureGates;
use berth_api::feature_gates::KubernetesVersion::{self, V1_37, V1_38};
use berth_api::object::device::{
    AllocationResult, Device, DeviceAllocationConfiguration, DeviceAllocationResult, DeviceAttribute,
    DeviceConstraint, DeviceRequest, DeviceRequestAllocationResult, DeviceSelector, DeviceTaint,
    ResourceClaim, ResourceSlice,
};
use berth_api::object::{Node, NodeSelector, NodeSelectorTerm, SelectorRequirement, Taint, Toleration};
use berth_api::syntax::quantity::Quantity;
use berth_rules::SelectedDevice;

use super::super::taint_toleration::tolerates;
use super::Devices;
use super::capacity::{Amounts, taken};
use super::pools::{Pool, device_reaches, pools};

/// The most devices of a claim.
const MAX_DEVICES: usize = 32;

/// One way to satisfy a request: the request itself, or an alternative.
pub struct Wish<'a> {
    request: &'a str,
    alternative: Option<&'a str>,
    pub class: &'a str,
    selectors: &'a [DeviceSelector],
    is_for_all: bool,
    count: usize,
    is_for_admin: bool,
    tolerations: &'a [Toleration],
    capacity: Amounts,
}

impl Wish<'_> {
    /// `REQUEST`, or `REQUEST/SUBREQUEST`.
    pub fn full_name(&self) -> String {
        self.alternative.map_or(self.request.to_owned(), |name| format!("{}/{name}", self.request))
    }

    /// Whether a list of names, of requests or of alternatives, names it. An empty one names all.
    fn is_in(&self, names: &[String]) -> bool {
        names.is_empty() || names.iter().any(|name| *name == self.request || *name == self.full_name())
    }
}

/// The ways to satisfy a request, the best first.
pub fn wishes(request: &DeviceRequest) -> Vec<Wish<'_>> {
    let exactly = request.exactly.iter().map(|exactly| Wish {
        request: &request.name,
        alternative: None,
        class: &exactly.device_class_name,
        selectors: &exactly.selectors,
        is_for_all: exactly.is_for_all(),
        count: exactly.count.max(1) as usize,
        is_for_admin: exactly.admin_access == Some(true),
        tolerations: &exactly.tolerations,
        capacity: exactly.capacity.clone().unwrap_or_default().requests,
    });
    let alternatives = request.first_available.iter().map(|alternative| Wish {
        request: &request.name,
        alternative: Some(&alternative.name),
        class: &alternative.device_class_name,
        selectors: &alternative.selectors,
        is_for_all: alternative.is_for_all(),
        count: alternative.count.max(1) as usize,
        is_for_admin: false,
        tolerations: &alternative.tolerations,
        capacity: alternative.capacity.clone().unwrap_or_default().requests,
    });
    exactly.chain(alternatives).collect()
}

pub enum Found {
    /// For each claim.
    Allocation(Vec<AllocationResult>),
    Nothing,
    /// Nothing, but devices of invalid pools were not tried.
    InvalidPools,
    /// Nothing, for this reason.
    UnusablePool(String),
}

/// A device of a node.
#[derive(Clone, Copy)]
struct Candidate<'a> {
    pool: &'a Pool<'a>,
    slice: &'a ResourceSlice,
    device: &'a Device,
}

impl Candidate<'_> {
    fn id(&self) -> (&str, &str, &str) {
        (self.pool.driver, self.pool.name, &self.device.name)
    }
}

/// A wish with what is known of it on the node.
struct Prepared<'a> {
    wish: Wish<'a>,
    /// For each device of the node whether it is selected. An error counts when the device is reached.
    selects: Vec<Result<bool, String>>,
}

/// A device that the search has taken.
#[derive(Clone)]
struct Choice<'a> {
    claim: usize,
    wish: &'a Wish<'a>,
    candidate: Candidate<'a>,
    taken: Amounts,
}

struct Search<'a> {
    claims: &'a [&'a ResourceClaim],
    /// By claim and request, the ways to satisfy the request.
    wishes: &'a [Vec<Vec<Prepared<'a>>>],
    candidates: &'a [Candidate<'a>],
    /// What is in use by claims that were allocated before.
    in_use: &'a [&'a DeviceRequestAllocationResult],
    gates: FeatureGates,
}

/// Finds devices for all claims on a node.
///
/// # Errors
/// What ends the attempt for the pod.
pub fn allocate(
    devices: &Devices,
    node: &Node,
    claims: &[&ResourceClaim],
    gates: FeatureGates,
) -> Result<Found, String> {
    let version = gates.version;
    let pools = pools(devices, node, version);
    let candidates: Vec<Candidate> = pools
        .iter()
        .flat_map(|pool| pool.devices.iter().map(move |&(slice, device)| Candidate { pool, slice, device }))
        .collect();
    let in_use = devices.in_use();
    let mut prepared = Vec::new();
    for claim in claims {
        let mut of_claim = Vec::new();
        let mut n_least = 0;
        for request in &claim.spec.devices.requests {
            let mut of_request = Vec::new();
            for wish in wishes(request) {
                let mut selects: Vec<_> =
                    candidates.iter().map(|c| selects(devices, node, claim, &wish, c, gates)).collect();
                match check_all(claim, &wish, &pools, &candidates, &selects) {
                    Ok(()) => {}
                    Err(Problem::Pool(text)) if version >= V1_38 => return Ok(Found::UnusablePool(text)),
                    Err(Problem::Pool(text) | Problem::Selector(text)) => return Err(text),
                }
                if wish.is_for_all && version < V1_37 {
                    leave_out_used_up(&wish, &candidates, &in_use, &mut selects);
                }
                of_request.push(Prepared { wish, selects });
            }
            let least = of_request.iter().map(Prepared::n_devices).min().unwrap_or(0);
            if version >= V1_37 && n_least + least > MAX_DEVICES {
                return Err(format!(
                    "claim {}, request {}: adding {least} devices exceeds the claim limit of {MAX_DEVICES}, with {n_least} already \
                     accounted for",
                    claim.metadata.namespaced_name(),
                    request.name
                ));
            }
            n_least += least;
            of_claim.push(of_request);
        }
        if n_least > MAX_DEVICES {
            return Err(format!(
                "claim {}: more than {MAX_DEVICES} devices",
                claim.metadata.namespaced_name()
            ));
        }
        prepared.push(of_claim);
    }
    let search = Search { claims, wishes: &prepared, candidates: &candidates, in_use: &in_use, gates };
    Ok(match search.request(0, 0, Vec::new())? {
        Some(choices) => {
            let mut n_shares = 0;
            let each = claims.iter().enumerate();
            let results = each.map(|(i, claim)| {
                let own: Vec<_> = choices.iter().filter(|choice| choice.claim == i).collect();
                result(devices, node, claim, &own, &mut n_shares, version)
            });
            Found::Allocation(results.collect())
        }
        None if pools.iter().any(|pool| pool.is_invalid) => Found::InvalidPools,
        None => Found::Nothing,
    })
}

impl Prepared<'_> {
    fn n_devices(&self) -> usize {
        match self.wish.is_for_all {
            true => self.selects.iter().filter(|selects| **selects == Ok(true)).count(),
            false => self.wish.count,
        }
    }
}

/// Why a request for all devices does not know all of them.
enum Problem {
    Pool(String),
    Selector(String),
}

/// A request for all devices needs to know all of them.
fn check_all(
    claim: &ResourceClaim,
    wish: &Wish,
    pools: &[Pool],
    candidates: &[Candidate],
    selects: &[Result<bool, String>],
) -> Result<(), Problem> {
    if !wish.is_for_all {
        return Ok(());
    }
    for pool in pools {
        let problem = match (pool.is_incomplete, pool.is_invalid) {
            (true, _) => "being updated",
            (_, true) => "invalid",
            _ => {
                let of_pool = candidates.iter().zip(selects).filter(|(c, _)| std::ptr::eq(c.pool, pool));
                for (_, selects) in of_pool {
                    selects.clone().map_err(Problem::Selector)?;
                }
                continue;
            }
        };
        return Err(Problem::Pool(format!(
            "claim {}, request {}: asks for all devices, but resource pool {}/{} is currently {problem}",
            claim.metadata.namespaced_name(),
            wish.alternative.unwrap_or(wish.request),
            pool.driver,
            pool.name
        )));
    }
    Ok(())
}

/// Before Kubernetes 1.37, "all devices" are those that have the capacity: a shared one of which too little is left is none of them.
fn leave_out_used_up(
    wish: &Wish,
    candidates: &[Candidate],
    in_use: &[&DeviceRequestAllocationResult],
    selects: &mut [Result<bool, String>],
) {
    let before_1_37 = FeatureGates::from(KubernetesVersion::V1_36);
    for (candidate, selects) in candidates.iter().zip(selects) {
        if let (true, Some(taken)) = (
            candidate.device.allow_multiple_allocations,
            taken(candidate.device, &wish.capacity, before_1_37),
        ) {
            *selects = selects.clone().map(|selects| selects && has_capacity(candidate, in_use, [&taken]));
        }
    }
}

/// Whether a device is what a request is for: the selectors of the class and of the request, the node, and the
/// whole capacity.
fn selects(
    devices: &Devices,
    node: &Node,
    claim: &ResourceClaim,
    wish: &Wish,
    of: &Candidate,
    gates: FeatureGates,
) -> Result<bool, String> {
    let class = devices.class(wish.class);
    let of_class = class.map(|class| (format!("class {}", wish.class), &class.spec.selectors[..]));
    let of_request = (format!("claim {}", claim.metadata.namespaced_name()), wish.selectors);
    for (owner, selectors) in of_class.into_iter().chain([of_request]) {
        for (i, selector) in selectors.iter().enumerate() {
            let expression = selector.cel.as_ref().map(|cel| cel.expression.as_str()).unwrap_or_default();
            let compiled = berth_rules::DeviceSelector::compile(expression)
                .map_err(|error| format!("{owner}: selector #{i}: CEL compile error: {error}"))?;
            let selected = SelectedDevice {
                driver: of.pool.driver,
                allow_multiple_allocations: of.device.allow_multiple_allocations,
                attributes: &of.device.attributes,
                capacity: &of.device.capacity,
            };
            let matches = compiled.matches(&selected);
            let error = |error: String| match gates.version >= V1_37 {
                true => {
                    let (driver, pool, device) = of.id();
                    let advice = match error.contains("no such key:") {
                        true => {
                            ". consider using CEL optional chaining (.? followed by orValue()) or guarding the check with has() for \
                             optional fields"
                        }
                        false => "",
                    };
                    format!(
                        "{owner}: selector #{i} on device {driver}/{pool}/{device}: CEL runtime error: {error}{advice}"
                    )
                }
                false => format!("{owner}: selector #{i}: CEL runtime error: {error}"),
            };
            if !matches.map_err(|text| error(text.to_string()))? {
                return Ok(false);
            }
        }
    }
    Ok(device_reaches(of.slice, of.device, node) && taken(of.device, &wish.capacity, gates).is_some())
}

type Outcome<'a> = Result<Option<Vec<Choice<'a>>>, String>;

impl<'a> Search<'a> {
    /// Satisfies a request and all that follow.
    fn request(&self, claim: usize, request: usize, choices: Vec<Choice<'a>>) -> Outcome<'a> {
        let Some(of_claim) = self.wishes.get(claim) else { return Ok(Some(choices)) };
        let Some(ways) = of_claim.get(request) else { return self.request(claim + 1, 0, choices) };
        for way in ways {
            let n = way.n_devices();
            let n_before = choices.iter().filter(|choice| choice.claim == claim).count();
            if n == 0 || n_before + n > MAX_DEVICES {
                continue;
            }
            let found = match way.wish.is_for_all {
                true => self.all(claim, request, way, choices.clone())?,
                false => self.some(claim, request, way, n, 0, choices.clone())?,
            };
            if found.is_some() {
                return Ok(found);
            }
        }
        Ok(None)
    }

    /// Takes `n` more devices for a request, from the device `first` on.
    fn some(
        &self,
        claim: usize,
        request: usize,
        way: &'a Prepared<'a>,
        n: usize,
        first: usize,
        choices: Vec<Choice<'a>>,
    ) -> Outcome<'a> {
        if n == 0 {
            return self.request(claim, request + 1, choices);
        }
        for (i, candidate) in self.candidates.iter().enumerate().skip(first) {
            if candidate.pool.is_incomplete
                || candidate.pool.is_invalid
                || self.is_in_use(claim, &way.wish, candidate, &choices)
            {
                continue;
            }
            if !way.selects[i].clone()? {
                continue;
            }
            if let Ok(with) = self.take(claim, &way.wish, candidate, &choices)
                && let Some(found) = self.some(claim, request, way, n - 1, i + 1, with)?
            {
                return Ok(Some(found));
            }
        }
        Ok(None)
    }

    /// Takes all devices that a request selects.
    fn all(
        &self,
        claim: usize,
        request: usize,
        way: &'a Prepared<'a>,
        mut choices: Vec<Choice<'a>>,
    ) -> Outcome<'a> {
        for (candidate, selects) in self.candidates.iter().zip(&way.selects) {
            if *selects != Ok(true) {
                continue;
            }
            if self.is_in_use(claim, &way.wish, candidate, &choices) {
                return Ok(None);
            }
            choices = match self.take(claim, &way.wish, candidate, &choices) {
                Ok(choices) => choices,
                Err(Refusal::Constraint) => {
                    let (driver, pool, device) = candidate.id();
                    return Err(format!(
                        "claim {}, request {}: cannot add device {driver}/{pool}/{device} because a claim \
                         constraint would not be satisfied",
                        self.claims[claim].metadata.namespaced_name(),
                        way.wish.alternative.unwrap_or(way.wish.request),
                    ));
                }
                Err(Refusal::Other) => return Ok(None),
            };
        }
        self.request(claim, request + 1, choices)
    }

    /// Whether a device that is not shared belongs to a claim. For administration only the claim itself counts.
    fn is_in_use(&self, claim: usize, wish: &Wish, candidate: &Candidate, choices: &[Choice]) -> bool {
        if candidate.device.allow_multiple_allocations {
            return false;
        }
        let mut chosen = choices.iter().filter(|choice| choice.candidate.id() == candidate.id());
        match wish.is_for_admin {
            true => chosen.any(|choice| choice.claim == claim),
            false => chosen.next().is_some() || self.is_allocated(candidate),
        }
    }

    fn is_allocated(&self, candidate: &Candidate) -> bool {
        // Before Kubernetes 1.38, a device that claims share is given once more when it can no longer be shared.
        let counts =
            |r: &&&DeviceRequestAllocationResult| self.gates.version >= V1_38 || r.share_id.is_none();
        self.in_use.iter().filter(counts).any(|r| (&*r.driver, &*r.pool, &*r.device) == candidate.id())
    }

    /// Takes one device, if its counters, its taints, the constraints and its capacity permit.
    fn take(
        &self,
        claim: usize,
        wish: &'a Wish<'a>,
        candidate: &Candidate<'a>,
        choices: &[Choice<'a>],
    ) -> Result<Vec<Choice<'a>>, Refusal> {
        let taken = taken(candidate.device, &wish.capacity, self.gates).ok_or(Refusal::Other)?;
        let mut with = choices.to_vec();
        with.push(Choice { claim, wish, candidate: *candidate, taken });
        let is_shared = candidate.device.allow_multiple_allocations;
        if !self.has_counters(candidate, choices) || !is_tolerated(candidate.device, wish) {
            return Err(Refusal::Other);
        }
        let constraints = &self.claims[claim].spec.devices.constraints;
        let own: Vec<_> = with.iter().filter(|choice| choice.claim == claim).collect();
        if !constraints.iter().all(|constraint| holds(constraint, &own, self.gates.version)) {
            return Err(Refusal::Constraint);
        }
        let of_device = with.iter().filter(|choice| choice.candidate.id() == candidate.id());
        if is_shared && !has_capacity(candidate, self.in_use, of_device.map(|choice| &choice.taken)) {
            return Err(Refusal::Other);
        }
        Ok(with)
    }

    /// Whether the counters of the pool suffice for all of its devices in use, for those chosen, and for this one. A
    /// shared device takes from them once.
    fn has_counters(&self, candidate: &Candidate, choices: &[Choice]) -> bool {
        if candidate.device.consumes_counters.is_empty() {
            return true;
        }
        let pool = candidate.pool;
        let of_pool = || pool.slices.iter().flat_map(|slice| &slice.spec.devices);
        let is_allocated = |device: &&Device| {
            let mut results = self.in_use.iter();
            results.any(|r| (&*r.driver, &*r.pool, &*r.device) == (pool.driver, pool.name, &*device.name))
        };
        let mut consumers: Vec<&Device> = of_pool().filter(is_allocated).collect();
        let chosen = choices.iter().map(|choice| &choice.candidate).chain([candidate]);
        for chosen in
            chosen.filter(|chosen| (chosen.pool.driver, chosen.pool.name) == (pool.driver, pool.name))
        {
            let is_counted = consumers.iter().any(|device| device.name == chosen.device.name);
            if !(is_counted && chosen.device.allow_multiple_allocations) {
                consumers.push(chosen.device);
            }
        }
        let mut consumed: BTreeMap<(&str, &str), Quantity> = BTreeMap::new();
        for consumption in consumers.iter().flat_map(|device| &device.consumes_counters) {
            for (name, counter) in &consumption.counters {
                *consumed.entry((&consumption.counter_set, name)).or_default() += counter.value;
            }
        }
        let counters = |set: &str| {
            let mut sets = pool.slices.iter().flat_map(|slice| &slice.spec.shared_counters);
            sets.find(|s| s.name == set).map(|s| &s.counters)
        };
        let own = candidate.device.consumes_counters.iter();
        let mut own = own.flat_map(|c| c.counters.keys().map(|name| (&*c.counter_set, &**name)));
        own.all(|(set, name)| {
            let total = counters(set).and_then(|counters| counters.get(name));
            total.is_some_and(|total| consumed[&(set, name)] <= total.value)
        })
    }
}

/// Whether what claims have of a shared device, with what is taken in addition, is not more than it has.
fn has_capacity<'a>(
    candidate: &Candidate,
    in_use: &[&'a DeviceRequestAllocationResult],
    more: impl IntoIterator<Item = &'a Amounts>,
) -> bool {
    let mut sums = Amounts::new();
    let shares = in_use.iter().filter(|r| (&*r.driver, &*r.pool, &*r.device) == candidate.id());
    for taken in shares.map(|share| &share.consumed_capacity).chain(more) {
        for (name, amount) in taken {
            *sums.entry(name.clone()).or_default() += *amount;
        }
    }
    let capacity = &candidate.device.capacity;
    capacity.iter().all(|(name, capacity)| sums.get(name).is_none_or(|sum| *sum <= capacity.value))
}

/// Why a device cannot be taken.
enum Refusal {
    Constraint,
    Other,
}

fn is_tolerated(device: &Device, wish: &Wish) -> bool {
    let mut taints = device.taints.iter().filter(|t| t.effect == "NoSchedule" || t.effect == "NoExecute");
    taints.all(|taint| {
        let DeviceTaint { key, value, effect, .. } = taint.clone();
        let taint = Taint { key, value, effect };
        wish.tolerations.iter().any(|toleration| tolerates(toleration, &taint, false))
    })
}

/// A toleration as the API server defaults it.
fn defaulted(toleration: &Toleration) -> Toleration {
    let mut toleration = toleration.clone();
    if toleration.operator.is_empty() {
        toleration.operator = "Equal".to_owned();
    }
    toleration
}

/// Whether the devices of a claim meet a constraint. A device without the attribute meets none.
fn holds(constraint: &DeviceConstraint, choices: &[&Choice], version: KubernetesVersion) -> bool {
    let bound = choices.iter().filter(|choice| choice.wish.is_in(&constraint.requests));
    // From Kubernetes 1.38 on, versions are equal whatever their build metadata.
    let compared = |value: &DeviceAttribute| match value {
        DeviceAttribute::Version(text) if version >= V1_38 => {
            DeviceAttribute::Version(text.split('+').next().unwrap_or_default().to_owned())
        }
        value => value.clone(),
    };
    let values = |attribute: &String| -> Option<Vec<DeviceAttribute>> {
        bound.clone().map(|choice| value(&choice.candidate, attribute).map(compared)).collect()
    };
    let is_equal = |attribute| values(attribute).is_some_and(|v| v.windows(2).all(|two| two[0] == two[1]));
    let is_distinct = |attribute| {
        let is_new = |(i, values): (usize, &[DeviceAttribute])| !values[..i].contains(&values[i]);
        values(attribute).is_some_and(|v| (0..v.len()).all(|i| is_new((i, &v))))
    };
    constraint.match_attribute.as_ref().is_none_or(is_equal)
        && constraint.distinct_attribute.as_ref().is_none_or(is_distinct)
}

/// An attribute by its name with domain. The domain of names without one is the driver.
fn value<'a>(candidate: &Candidate<'a>, attribute: &str) -> Option<&'a DeviceAttribute> {
    let attributes = &candidate.device.attributes;
    let short = attribute.split_once('/').filter(|(domain, _)| *domain == candidate.pool.driver);
    attributes.get(attribute).or_else(|| attributes.get(short?.1))
}

/// What is written to a claim.
fn result(
    devices: &Devices,
    node: &Node,
    claim: &ResourceClaim,
    choices: &[&Choice],
    n_shares: &mut usize,
    version: KubernetesVersion,
) -> AllocationResult {
    let mut results = Vec::new();
    for Choice { wish, candidate, taken, .. } in choices.iter().copied() {
        let (driver, pool, device) = candidate.id();
        let is_shared = candidate.device.allow_multiple_allocations;
        *n_shares += usize::from(is_shared);
        results.push(DeviceRequestAllocationResult {
            request: wish.full_name(),
            driver: driver.to_owned(),
            pool: pool.to_owned(),
            device: device.to_owned(),
            admin_access: wish.is_for_admin.then_some(true),
            tolerations: wish.tolerations.iter().map(defaulted).collect(),
            binding_conditions: candidate.device.binding_conditions.clone(),
            binding_failure_conditions: candidate.device.binding_failure_conditions.clone(),
            share_id: is_shared.then(|| format!("share-{n_shares}")),
            consumed_capacity: if is_shared { taken.clone() } else { Amounts::new() },
        });
    }
    let mut config = Vec::new();
    let mut classes: Vec<(&str, Vec<String>)> = Vec::new();
    for wish in choices.iter().map(|choice| choice.wish) {
        match classes.iter_mut().find(|(class, _)| *class == wish.class) {
            Some((_, requests)) if requests.contains(&wish.full_name()) => {}
            Some((_, requests)) => requests.push(wish.full_name()),
            None => classes.push((wish.class, vec![wish.full_name()])),
        }
    }
    for (class, requests) in classes {
        let of_class = devices.class(class).map(|class| &class.spec.config[..]).unwrap_or_default();
        config.extend(of_class.iter().map(|of_class| DeviceAllocationConfiguration {
            source: "FromClass".to_owned(),
            requests: requests.clone(),
            opaque: of_class.opaque.clone(),
        }));
    }
    for of_claim in &claim.spec.devices.config {
        if choices.iter().any(|choice| choice.wish.is_in(&of_claim.requests)) {
            config.push(DeviceAllocationConfiguration {
                source: "FromClaim".to_owned(),
                requests: of_claim.requests.clone(),
                opaque: of_claim.opaque.clone(),
            });
        }
    }
    if version >= V1_37 {
        for config in &mut config {
            let is_for = |wish: &Wish| wish.is_in(&config.requests);
            if choices.iter().all(|choice| is_for(choice.wish)) {
                config.requests.clear();
            }
        }
    }
    AllocationResult {
        devices: DeviceAllocationResult { results, config },
        node_selector: node_selector(node, choices),
        allocation_timestamp: None,
    }
}

/// The nodes that can use all devices: one node, if a device is local to it; else all that the selectors select.
fn node_selector(node: &Node, choices: &[&Choice]) -> Option<NodeSelector> {
    let mut term = NodeSelectorTerm::default();
    for Candidate { slice, device, .. } in choices.iter().map(|choice| choice.candidate) {
        let (name, selector) = match slice.spec.per_device_node_selection {
            true => (&device.node_name, &device.node_selector),
            false => (&slice.spec.node_name, &slice.spec.node_selector),
        };
        if name.is_some() || device.binds_to_node {
            let requirement = SelectorRequirement {
                key: "metadata.name".to_owned(),
                operator: "In".to_owned(),
                values: vec![node.metadata.name.clone()],
            };
            term = NodeSelectorTerm { match_fields: vec![requirement], ..NodeSelectorTerm::default() };
            break;
        }
        for of in selector.iter().flat_map(|selector| &selector.node_selector_terms) {
            let add = |all: &mut Vec<SelectorRequirement>, more: &[SelectorRequirement]| {
                for requirement in more {
                    if !all.contains(requirement) {
                        all.push(requirement.clone());
                    }
                }
            };
            add(&mut term.match_expressions, &of.match_expressions);
            add(&mut term.match_fields, &of.match_fields);
        }
    }
    let is_empty = term.match_expressions.is_empty() && term.match_fields.is_empty();
    (!is_empty).then(|| NodeSelector { node_selector_terms: vec![term], ..NodeSelector::default() })
}
