//! Less of a resource: the smallest reduction of one container's requests with which the pod fits.

use std::collections::BTreeMap;

use berth_api::syntax::quantity::{Quantity, with_unit};
use berth_engine::Counts;

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

impl Trial<'_> {
    /// Of the nodes that lack resources alone, the one where the smallest part of a request is too much.
    pub(super) fn request_less(&mut self, problem: &Problem) -> Option<Repair> {
        let mut sites: Vec<_> = problem
            .rejecting
            .iter()
            .filter_map(|(node, verdicts)| {
                let mut excess = Excess { node, by_resource: BTreeMap::new(), part: 0 };
                for verdict in verdicts {
                    let Some(Counts::Resource { resource, requested, used, allocatable }) = &verdict.counts
                    else {
                        return None;
                    };
                    let free = allocatable - used;
                    if resource == "pods" || free <= 0 {
                        return None;
                    }
                    excess.by_resource.insert(resource, requested - free);
                    let part = i128::from(requested - free) * 1_000_000 / i128::from((*requested).max(1));
                    excess.part = excess.part.max(i64::try_from(part).unwrap_or(i64::MAX));
                }
                Some(excess)
            })
            .collect();
        sites.sort_by(|a, b| (a.part, a.node).cmp(&(b.part, b.node)));
        sites.iter().take(MAX_TRIES).find_map(|excess| self.with_less(problem, excess))
    }

    fn with_less(&mut self, problem: &Problem, excess: &Excess<'_>) -> Option<Repair> {
        let mut pod = self.pod.pod.clone();
        let mut changes = Vec::new();
        // By container, the requests to be set.
        let mut set: BTreeMap<String, Vec<String>> = BTreeMap::new();
        for (resource, excess) in &excess.by_resource {
            let amount = |quantity: &Quantity| match *resource {
                "cpu" => quantity.millis(),
                _ => quantity.units(),
            };
            let of = |c: &berth_api::object::Container| c.resources.requests.get(*resource).map_or(0, amount);
            let largest = pod.spec.containers.iter_mut().rev().max_by_key(|c| of(c))?;
            let now = of(largest);
            let then = now.checked_sub(*excess).filter(|then| *then > 0)?;
            let (from, to) = (with_unit(resource, now), with_unit(resource, then));
            largest.resources.requests.insert((*resource).to_owned(), Quantity::parse(&to).ok()?);
            set.entry(largest.name.clone()).or_default().push(format!("{resource}={to}"));
            let (container, resource) = (largest.name.clone(), (*resource).to_owned());
            changes.push(Change::RequestLess { container, resource, from, to });
        }
        let prepared = self.cluster.prepare(&pod);
        if !self.cluster.fits_on(&prepared, excess.node) || !self.breaks_nothing(problem, excess.node) {
            return None;
        }
        let (pod, workload) = (&self.pod.pod, self.pod.workload.as_deref());
        let commands = set.iter().map(|(container, requests)| {
            commands::set_request(pod, workload, container, &requests.join(","))
        });
        Some(Repair::new(changes, excess.node.to_owned(), commands.collect()))
    }
}
