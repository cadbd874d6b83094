//! Less of a resource: the smallest reduction of one container's requests with which the pod fits.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use berth_api::object::{Container, Pod};
use berth_api::read::Kind;
use berth_api::syntax::quantity::{Quantity, with_unit};
use berth_api::syntax::shell::Command;
use berth_engine::{Counts, Verdict};

use super::change::{Change, Repair};
use super::commands;
use super::trial::{Problem, Trial};
use crate::simulation::SimulatedPod;

/// Steps of work of an explanation, and of the search for repairs: about a second each.
pub(crate) const EXPLAIN_STEPS: u64 = 10_000_000;

/// Sets of resources of which less is requested.
const MAX_SETS: usize = 4;
/// Steps of work of placing a pod.
pub(super) const PLACE_STEPS: usize = 100;

/// Number of nodes that are tried.
const MAX_TRIES: usize = 20;
/// The parts of requests that are tried where several resources are lacking.
const PARTS: i64 = 1_000;
const MEBIBYTE: i64 = 1 << 20;

/// What the requests of the pod have to lose to fit on a node, by resource.
struct Excess<'v> {
    node: &'v str,
    by_resource: BTreeMap<&'v str, i64>,
    /// The largest part of a request that is removed, in millionths.
    part: i64,
}

impl<'v> Excess<'v> {
    /// What a node lacks, and whether nothing else keeps the pod off.
    fn of(node: &'v str, verdicts: &'v [Verdict]) -> (Excess<'v>, bool) {
        let (mut excess, mut is_all) = (Excess { node, by_resource: BTreeMap::new(), part: 0 }, true);
        for verdict in verdicts {
            match &verdict.counts {
                Some(Counts::Resource { resource, requested, used, allocatable })
                    if resource != "pods" && allocatable > used =>
                {
                    let lacking = requested - (allocatable - used);
                    excess.by_resource.insert(resource, lacking);
                    let part = i128::from(lacking) * 1_000_000 / i128::from((*requested).max(1));
                    excess.part = excess.part.max(i64::try_from(part).unwrap_or(i64::MAX));
                }
                _ => is_all = false,
            }
        }
        (excess, is_all)
    }
}

impl Trial<'_> {
    /// The pod with lower requests, as far as the node lacks resources, for a pair of changes: other rules may still exclude the node.
    pub(super) fn request_less_on(&mut self, node: &str, verdicts: &[Verdict]) -> Option<(Pod, Repair)> {
        let (excess, _) = Excess::of(node, verdicts);
        if excess.by_resource.is_empty() { None } else { self.less(&excess) }
    }

    /// Of the nodes that lack resources alone, the one where the smallest part of a request is too much.
    pub(super) fn request_less(&mut self, problem: &Problem) -> Option<Repair> {
        let sites = problem.rejecting.iter().map(|(node, verdicts)| Excess::of(node, verdicts));
        let mut sites: Vec<_> = sites.filter_map(|(excess, is_all)| is_all.then_some(excess)).collect();
        sites.sort_by(|a, b| (a.part, a.node).cmp(&(b.part, b.node)));
        sites.iter().take(MAX_TRIES).find_map(|excess| self.with_less(problem, excess))
    }

    fn with_less(&mut self, problem: &Problem, excess: &Excess<'_>) -> Option<Repair> {
        let (pod, repair) = self.less(excess)?;
        let prepared = self.cluster.prepare(&pod);
        let fits = self.cluster.fits_on(&prepared, excess.node) && self.breaks_nothing(problem, excess.node);
        fits.then_some(repair)
    }

    fn less(&self, excess: &Excess<'_>) -> Option<(Pod, Repair)> {
        let mut requests = BTreeMap::new();
        for (resource, excess) in &excess.by_resource {
            let (_, now) = largest_request(&self.pod.pod, resource)?;
            let then = now.checked_sub(*excess).filter(|then| *then > 0)?;
            requests.insert((*resource).to_owned(), then);
        }
        self.requests().set(excess.node, &requests)
    }

    /// What the pod requests.
    pub(super) fn requests(&self) -> Requests {
        let SimulatedPod { pod, workload, .. } = self.pod;
        Requests {
            pod: pod.clone(),
            workload: workload.clone(),
            deletion: self.deletion(),
            restarts: self.n_of_workload(),
        }
    }
}

/// The requests of a pod, and what to change them takes.
pub(super) struct Requests {
    pod: Pod,
    workload: Option<String>,
    deletion: Option<Command>,
    restarts: usize,
}

impl Requests {
    /// The pod with these requests of the container that requests most; it fits on the node.
    fn set(&self, node: &str, requests: &BTreeMap<String, i64>) -> Option<(Pod, Repair)> {
        let mut pod = self.pod.clone();
        let mut changes = Vec::new();
        // By container, the requests to be set.
        let mut set: BTreeMap<String, Vec<(String, String)>> = BTreeMap::new();
        for (resource, then) in requests {
            let (at, now) = largest_request(&pod, resource)?;
            let (from, to) = (with_unit(resource, now), with_unit(resource, *then));
            let largest = pod.spec.containers.get_mut(at)?;
            reduce(largest, resource, &to)?;
            set.entry(largest.name.clone()).or_default().push((resource.clone(), to.clone()));
            let (container, resource) = (largest.name.clone(), resource.clone());
            changes.push(Change::RequestLess { container, resource, from, to });
        }
        let workload = self.workload.as_deref();
        // kubectl knows no templates of other kinds.
        let is_known = workload.is_none_or(|workload| {
            workload.split_once(' ').and_then(|(kind, _)| Kind::named(kind)).is_some_and(Kind::is_workload)
        });
        let commands = set
            .iter()
            .filter(|_| is_known)
            .map(|(container, requests)| commands::set_requests(&self.pod, workload, container, requests));
        let commands = commands.chain(self.deletion.clone()).collect();
        Some((pod, Repair { restarts: self.restarts, ..Repair::new(changes, node.to_owned(), commands) }))
    }
}

/// The container that requests most of a resource, and how much, in thousandths of CPU.
fn largest_request(pod: &Pod, resource: &str) -> Option<(usize, i64)> {
    let amount = |quantity: &Quantity| if resource == "cpu" { quantity.millis() } else { quantity.units() };
    let of = |c: &Container| c.resources.requests.get(resource).map_or(0, amount);
    let containers = pod.spec.containers.iter().map(of).enumerate();
    containers.rev().max_by_key(|(_, amount)| *amount)
}

/// The sets of resources that nodes lack which reject the pod for nothing else: the smallest first, then those of most nodes.
pub(super) fn lacking_resources(problem: &Problem) -> Vec<BTreeSet<String>> {
    let mut sets: BTreeMap<BTreeSet<String>, usize> = BTreeMap::new();
    for (_, verdicts) in &problem.rejecting {
        let resource = |verdict: &Verdict| match &verdict.counts {
            Some(Counts::Resource { resource, .. }) if resource != "pods" => Some(resource.clone()),
            _ => None,
        };
        if let Some(set) = verdicts.iter().map(resource).collect::<Option<BTreeSet<_>>>() {
            *sets.entry(set).or_default() += 1;
        }
    }
    let mut sets: Vec<_> = sets.into_iter().filter(|(set, _)| !set.is_empty()).collect();
    sets.sort_by_key(|(set, n_nodes)| (set.len(), Reverse(*n_nodes)));
    sets.into_iter().map(|(set, _)| set).collect()
}

/// The repair with the largest requests of the first of these sets of resources for which `made` accepts one.
pub(super) fn least_reduction(
    sets: Vec<BTreeSet<String>>,
    requests: &Requests,
    mut made: impl FnMut(Repair) -> Option<Repair>,
) -> Option<Repair> {
    let mut attempt = |amounts: &BTreeMap<String, i64>| made(requests.set("", amounts)?.1);
    sets.into_iter().take(MAX_SETS).find_map(|resources| largest(&resources, &requests.pod, &mut attempt))
}

/// The repair with the largest requests of these resources for which `attempt` finds one: of several resources, each loses the same part.
fn largest(
    resources: &BTreeSet<String>,
    pod: &Pod,
    mut attempt: impl FnMut(&BTreeMap<String, i64>) -> Option<Repair>,
) -> Option<Repair> {
    let now = |resource: &String| Some((resource.clone(), largest_request(pod, resource)?.1));
    let now: BTreeMap<String, i64> = resources.iter().map(now).collect::<Option<_>>()?;
    let grain = |resource: &str, now: i64| match resource {
        "memory" | "ephemeral-storage" if now >= 64 * MEBIBYTE => MEBIBYTE,
        _ => 1,
    };
    let (mut most, is_single) = (PARTS - 1, now.len() == 1);
    if let (Some((resource, now)), true) = (now.first_key_value(), is_single) {
        most = (now - 1) / grain(resource, *now);
    }
    let part = |part: i64| {
        let amount = |(resource, now): (&String, &i64)| {
            let grain = grain(resource, *now);
            let amount = match is_single {
                true => part * grain,
                false => {
                    i64::try_from(i128::from(*now) * i128::from(part) / i128::from(PARTS)).unwrap_or(*now)
                }
            };
            (resource.clone(), (amount / grain * grain).clamp(1, *now))
        };
        now.iter().map(amount).collect::<BTreeMap<_, _>>()
    };
    if most < 1 {
        return None;
    }
    let (mut low, mut found) = (1, attempt(&part(1))?);
    while low < most {
        let middle = low + (most - low + 1) / 2;
        match attempt(&part(middle)) {
            Some(repair) => (low, found) = (middle, repair),
            None => most = middle - 1,
        }
    }
    Some(found)
}

/// Sets the request of a container, and its limit where both have to be equal.
pub(super) fn reduce(container: &mut Container, resource: &str, to: &str) -> Option<()> {
    let to = Quantity::parse(to).ok()?;
    container.resources.requests.insert(resource.to_owned(), to);
    if commands::is_extended(resource) && container.resources.limits.contains_key(resource) {
        container.resources.limits.insert(resource.to_owned(), to);
    }
    Some(())
}
