//! Constraints with `DoNotSchedule`: the filter.

use berth_api::config::Plugin;
use berth_api::rules::WhenUnsatisfiable;
use rustc_hash::FxHashMap;
use smallvec::SmallVec;

use super::super::rule::{Filter, TermInfo};
use super::constraints::{constraints, has_all_keys};
use crate::cycle::context::{Context, NodeRef};
use crate::state::counting::topology::{DomainId, TopologyId};
use crate::state::node::NodeId;
use crate::state::rule_set::spread::Spread;
use crate::verdict::witness::{DomainOf, WitnessCache};
use crate::verdict::{Counts, Rejection, Status, Verdict, bounded};

const REASON: &str = "node(s) didn't match pod topology spread constraints";
const REASON_LABEL: &str = "node(s) didn't match pod topology spread constraints (missing required label)";

struct DoNotSchedule<'a> {
    context: Context<'a>,
    constraints: Vec<CountedConstraint<'a>>,
    witnesses: WitnessCache,
}

/// A constraint with the matching pods of each domain.
struct CountedConstraint<'a> {
    spread: &'a Spread,
    by_domain: FxHashMap<DomainId, i64>,
    enough_domains: bool,
    /// The domain with the fewest matching pods, and their number.
    fewest: (Option<DomainId>, i64),
    /// The fewest matching pods of any other domain.
    fewest_elsewhere: i64,
}

/// The skew of a constraint in one domain.
struct Skew {
    matching: i64,
    /// The fewest matching pods of any included domain.
    minimum: i64,
    /// Matching pods above the minimum, with the pod placed in the domain.
    skew: i64,
}

/// The minimum without any domain: no skew exceeds it.
const NO_MINIMUM: i64 = i32::MAX as i64;

pub(super) fn filter<'a>(context: Context<'a>) -> Option<Box<dyn Filter + 'a>> {
    let state = context.state;
    let constraints = constraints(context, WhenUnsatisfiable::DoNotSchedule);
    if constraints.is_empty() {
        return None;
    }
    let mut counted: Vec<_> = constraints
        .iter()
        .map(|spread| CountedConstraint {
            spread,
            by_domain: FxHashMap::default(),
            enough_domains: false,
            fewest: (None, NO_MINIMUM),
            fewest_elsewhere: NO_MINIMUM,
        })
        .collect();
    for (id, node) in state.nodes.iter() {
        if !has_all_keys(state, &constraints, id) {
            continue;
        }
        for counted in &mut counted {
            let Some(domain) = state.topologies.domain(counted.spread.topology, id) else { continue };
            if counted.spread.includes(context, node) {
                *counted.by_domain.entry(domain).or_default() += counted.spread.n_pods_on(state, id);
            }
        }
    }
    for counted in &mut counted {
        counted.enough_domains = counted.by_domain.len() as i64 >= counted.spread.constraint.min_domains;
        for (domain, n_pods) in &counted.by_domain {
            if *n_pods < counted.fewest.1 {
                counted.fewest_elsewhere = counted.fewest.1;
                counted.fewest = (Some(*domain), *n_pods);
            } else {
                counted.fewest_elsewhere = counted.fewest_elsewhere.min(*n_pods);
            }
        }
    }
    Some(Box::new(DoNotSchedule { context, constraints: counted, witnesses: WitnessCache::default() }))
}

impl CountedConstraint<'_> {
    fn rejects(&self, node: NodeRef<'_>, place: Option<(DomainId, bool)>) -> Option<(Status, &'static str)> {
        match place {
            None => Some((Status::UnschedulableAndUnresolvable, REASON_LABEL)),
            Some((domain, counts)) => (self.skew(node, domain, counts).skew
                > self.spread.constraint.max_skew)
                .then_some((Status::Unschedulable, REASON)),
        }
    }

    fn describe(&self) -> String {
        let constraint = &self.spread.constraint;
        let pods = match &constraint.selector {
            selector if selector.is_everything() => "pods".to_owned(),
            selector => bounded(format_args!("pods with `{selector}`")),
        };
        format!(
            "a domain of {} may have at most {} more {pods} than the domain with the fewest",
            constraint.topology_key, constraint.max_skew
        )
    }

    /// The skew in the domain of a node; `counts` tells whether the pods of the node itself count.
    fn skew(&self, node: NodeRef<'_>, domain: DomainId, counts: bool) -> Skew {
        let more = self.spread.matcher.filter(|_| counts).map_or(0, |m| node.more_matching(m));
        let matching = self.by_domain.get(&domain).copied().unwrap_or(0) + more;
        let minimum = match self.fewest {
            _ if !self.enough_domains => 0,
            (_, fewest) if more == 0 => fewest,
            (Some(lowest), _) if lowest == domain => self.fewest_elsewhere.min(matching),
            (_, fewest) => fewest.min(matching),
        };
        Skew { matching, minimum, skew: matching + self.spread.self_match - minimum }
    }
}

impl DoNotSchedule<'_> {
    /// The domain of a node for a constraint, and whether the pods of the node count.
    fn place(&self, counted: &CountedConstraint<'_>, node: NodeRef<'_>) -> Option<(DomainId, bool)> {
        let topologies = &self.context.state.topologies;
        let domain = topologies.domain(counted.spread.topology, node.id)?;
        let has_all_keys =
            || self.constraints.iter().all(|c| topologies.domain(c.spread.topology, node.id).is_some());
        let counts =
            node.delta.is_some() && has_all_keys() && counted.spread.includes(self.context, node.record);
        Some((domain, counts))
    }
}

impl Filter for DoNotSchedule<'_> {
    fn check(&self, node: NodeRef<'_>) -> Option<Rejection> {
        let (status, reason) = self.constraints.iter().find_map(|c| c.rejects(node, self.place(c, node)))?;
        Some(Rejection::new(Plugin::PodTopologySpread, status, reason))
    }

    fn shared_topologies(&self) -> SmallVec<[TopologyId; 2]> {
        let topologies = self.constraints.iter().map(|c| c.spread.topology);
        topologies.filter(|t| self.context.state.topologies.is_shared(*t)).collect()
    }

    fn inputs(&self, node: NodeId, _max_pods: i64, inputs: &mut Vec<i64>) {
        let topologies = &self.context.state.topologies;
        for counted in &self.constraints {
            let CountedConstraint { spread, by_domain, enough_domains, fewest, fewest_elsewhere } = counted;
            let domain = topologies.domain(spread.topology, node);
            let lowest = fewest.0.filter(|_| fewest.1 != *fewest_elsewhere);
            inputs.push(i64::from(*enough_domains));
            if topologies.is_shared(spread.topology) {
                // The skew does not change if all counts rise alike.
                let base = if *enough_domains { fewest.1 } else { 0 };
                let matching = domain.and_then(|d| by_domain.get(&d)).copied().unwrap_or(0);
                let is_lowest = domain.is_some() && lowest == domain;
                inputs.extend([matching - base, fewest_elsewhere - base, i64::from(is_lowest)]);
            } else {
                inputs.extend([fewest.1, *fewest_elsewhere, lowest.map_or(-1, |d| d.0.into())]);
            }
        }
    }

    fn terms(&self) -> Vec<TermInfo> {
        let info = |c: &CountedConstraint<'_>| TermInfo {
            term: c.spread.constraint.path.clone(),
            detail: c.describe(),
        };
        self.constraints.iter().map(info).collect()
    }

    fn n_compared(&self, _node: NodeRef<'_>) -> usize {
        self.constraints.len()
    }

    fn verdicts(&self, node: NodeRef<'_>) -> Vec<Verdict> {
        let state = self.context.state;
        let verdict = |counted: &CountedConstraint<'_>| {
            let place = self.place(counted, node);
            let (status, reason) = counted.rejects(node, place)?;
            let constraint = &counted.spread.constraint;
            let detail = counted.describe();
            let pair = state.topology_pair(counted.spread.topology, place.map(|(domain, _)| domain));
            let mut verdict = Verdict::new(Plugin::PodTopologySpread, status, reason, detail)
                .term(&constraint.path)
                .topology(pair);
            if let Some((domain, counts)) = place {
                let Skew { matching, minimum, skew } = counted.skew(node, domain, counts);
                verdict = verdict.counts(Counts::Spread {
                    matching,
                    self_match: counted.spread.self_match,
                    minimum,
                    skew,
                    max_skew: constraint.max_skew,
                });
                if let Some(matcher) = counted.spread.matcher {
                    let of = DomainOf { topology: counted.spread.topology, domain, node: node.id };
                    verdict = verdict.witnesses(self.witnesses.pods_matching(state, matcher, of));
                }
            }
            Some(verdict)
        };
        self.constraints.iter().filter_map(verdict).collect()
    }
}
