//! Less of a resource: the smallest reduction of one container's requests with which the pod fits.

use std::collections::BTreeMap;

use berth_api::object::{Container, Pod};
use berth_api::syntax::quantity::{Quantity, with_unit};
use berth_engine::{Counts, Verdict};

use super::change::{Change, Repair};
use super::commands;
use super::trial::{Problem, Trial};

/// Number of nodes that are tried.
const MAX_TRIES: usize = 20;

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
        let mut pod = self.pod.pod.clone();
        let mut changes = Vec::new();
        // By container, the requests to be set.
        let mut set: BTreeMap<String, Vec<(String, String)>> = BTreeMap::new();
        for (resource, excess) in &excess.by_resource {
            let amount = |quantity: &Quantity| match *resource {
                "cpu" => quantity.millis(),
                _ => quantity.units(),
            };
            let of = |c: &Container| c.resources.requests.get(*resource).map_or(0, amount);
            let largest = pod.spec.containers.iter_mut().rev().max_by_key(|c| of(c))?;
            let now = of(largest);
            let then = now.checked_sub(*excess).filter(|then| *then > 0)?;
            let (from, to) = (with_unit(resource, now), with_unit(resource, then));
            reduce(largest, resource, &to)?;
            set.entry(largest.name.clone()).or_default().push(((*resource).to_owned(), to.clone()));
            let (container, resource) = (largest.name.clone(), (*resource).to_owned());
            changes.push(Change::RequestLess { container, resource, from, to });
        }
        let (now, workload) = (&self.pod.pod, self.pod.workload.as_deref());
        let commands = set
            .iter()
            .map(|(container, requests)| commands::set_requests(now, workload, container, requests));
        let commands = commands.chain(commands::recreate(now, workload)).collect();
        let restarts = self.n_of_workload();
        Some((pod, Repair { restarts, ..Repair::new(changes, excess.node.to_owned(), commands) }))
    }
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
