//! Terms of existing pods that match the pod.

use crate::cycle::context::{Context, NodeRef};
use crate::state::State;
use crate::state::counting::counter::{Counter, Tally};
use crate::state::counting::matcher::{Matcher, MatcherId};
use crate::state::counting::topology::{DomainId, TopologyId};

/// The matchers of all terms of existing pods that match the pod.
pub(super) fn existing_matchers<'a>(
    context: Context<'a>,
) -> impl Iterator<Item = (MatcherId, &'a Matcher)> + Clone {
    let Context { state, cycle, .. } = context;
    let matched = &state.signatures.get(cycle.signature).matched_by_existing;
    matched.iter().map(|matcher| (*matcher, state.matchers.get(*matcher)))
}

/// Terms of anti-affinity of existing pods that match the pod, with one matcher, topology and limit.
pub(super) struct Existing<'a> {
    pub(super) matcher: MatcherId,
    pub(super) topology: TopologyId,
    pub(super) limit: u32,
    pub(super) owners: &'a Counter,
    /// Pods that match; read only with a limit.
    pub(super) matching: Option<&'a Counter>,
}

pub(super) fn existing_anti_affinity<'a>(context: Context<'a>) -> impl Iterator<Item = Existing<'a>> {
    let of = |limited: bool| {
        existing_matchers(context).flat_map(move |(id, matcher)| {
            let terms = matcher.anti_affinity().filter(move |(_, limit, _)| (*limit > 0) == limited);
            terms.map(move |(topology, limit, owners)| Existing {
                matcher: id,
                topology,
                limit,
                owners,
                matching: limited.then(|| matcher.matching_in(topology)).flatten(),
            })
        })
    };
    of(false).chain(of(true))
}

impl Existing<'_> {
    /// The domain of the node, the owners in it, and with a limit the matching pods; none if the terms hold for the pod.
    pub(super) fn violated(&self, state: &State, node: NodeRef<'_>) -> Option<(DomainId, Tally, i64)> {
        let Existing { matcher, topology, limit, owners, matching } = *self;
        let domain = state.topologies.domain(topology, node.id)?;
        let owners = owners.get(domain) + node.more_owners_in(state, matcher, topology, limit);
        if limit == 0 {
            return (owners.count > 0).then_some((domain, owners, 0));
        }
        let n_matching =
            matching.map_or(0, |c| c.get(domain).count) + node.more_matching_in(state, matcher, topology);
        exceeds_limit(limit, Some(owners), n_matching).then_some((domain, owners, n_matching))
    }
}

/// Whether one more pod would exceed the limit of anti-affinity in a domain: that of the pod's own term (no `owners`), or
/// that of owners there, which do not count themselves. The weight of `owners` is the number of those that match.
pub(super) fn exceeds_limit(limit: u32, owners: Option<Tally>, n_matching: i64) -> bool {
    match owners {
        None => n_matching > i64::from(limit),
        Some(Tally { count: 0, .. }) => false,
        Some(Tally { count, weight }) => n_matching + 1 - i64::from(weight == count) > i64::from(limit),
    }
}
