//! Constraints with `DoNotSchedule`: the filter.

use berth_input::config::Plugin;
use berth_rules::WhenUnsatisfiable;
use rustc_hash::FxHashMap;
use smallvec::SmallVec;

use super::super::rule::{Filter, TermInfo};
use super::constraints::{constraints, has_all_keys};
use crate::cycle::context::{Context, NodeRef};
use crate::state::counting::topology::{DomainId, TopologyId};
use crate::state::node::{NodeId, NodeRecord};
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

/// A node in the eyes of a constraint.
struct Place {
    domain: DomainId,
    /// Matching pods in its domain, beyond those counted.
    more: i64,
    /// The same for other domains.
    elsewhere: SmallVec<[(DomainId, i64); 1]>,
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
    DoNotSchedule::new(context).map(|constraints| Box::new(constraints) as Box<dyn Filter>)
}

impl<'a> DoNotSchedule<'a> {
    /// None without constraints.
    fn new(context: Context<'a>) -> Option<DoNotSchedule<'a>> {
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
        Some(DoNotSchedule { context, constraints: counted, witnesses: WitnessCache::default() })
    }
}

impl CountedConstraint<'_> {
    fn rejects(&self, place: Option<&Place>) -> Option<(Status, &'static str)> {
        match place {
            None => Some((Status::UnschedulableAndUnresolvable, REASON_LABEL)),
            Some(place) => (self.skew(place).skew > self.spread.constraint.max_skew)
                .then_some((Status::Unschedulable, REASON)),
        }
    }

    fn in_domain(&self, domain: DomainId) -> i64 {
        self.by_domain.get(&domain).copied().unwrap_or(0)
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

    fn skew(&self, Place { domain, more, elsewhere }: &Place) -> Skew {
        let matching = self.in_domain(*domain) + more;
        let minimum = match self.fewest {
            _ if !self.enough_domains => 0,
            (_, fewest) if *more == 0 => fewest,
            (Some(lowest), _) if lowest == *domain => self.fewest_elsewhere.min(matching),
            (_, fewest) => fewest.min(matching),
        };
        // Pods only leave other domains.
        let others = elsewhere.iter().filter(|_| self.enough_domains);
        let others = others.map(|(domain, more)| self.in_domain(*domain) + more);
        let minimum = others.fold(minimum, i64::min);
        Skew { matching, minimum, skew: matching + self.spread.self_match - minimum }
    }
}

impl DoNotSchedule<'_> {
    /// Where a node stands for a constraint; none without a domain.
    fn place(&self, counted: &CountedConstraint<'_>, node: NodeRef<'_>) -> Option<Place> {
        let topologies = &self.context.state.topologies;
        let domain = topologies.domain(counted.spread.topology, node.id)?;
        let mut place = Place { domain, more: 0, elsewhere: SmallVec::new() };
        let (Some(matcher), Some(_)) = (counted.spread.matcher, node.delta) else { return Some(place) };
        if self.counts(counted, node.id, node.record) {
            place.more = node.more_matching(matcher);
        }
        for (id, delta) in node.elsewhere() {
            let more = delta.matching(matcher);
            let of_other = topologies.domain(counted.spread.topology, id).filter(|_| more != 0);
            match of_other.filter(|_| self.counts(counted, id, self.context.state.nodes.get(id))) {
                Some(of_other) if of_other == domain => place.more += more,
                Some(of_other) => match place.elsewhere.iter_mut().find(|(known, _)| *known == of_other) {
                    Some((_, known)) => *known += more,
                    None => place.elsewhere.push((of_other, more)),
                },
                None => {}
            }
        }
        Some(place)
    }

    fn counts(&self, counted: &CountedConstraint<'_>, id: NodeId, node: &NodeRecord) -> bool {
        let topologies = &self.context.state.topologies;
        self.constraints.iter().all(|c| topologies.domain(c.spread.topology, id).is_some())
            && counted.spread.includes(self.context, node)
    }
}

/// For preemption: how far the constraints of a pod are exceeded.
pub(crate) struct HardConstraints<'a>(Option<DoNotSchedule<'a>>);

impl<'a> HardConstraints<'a> {
    pub(crate) fn new(context: Context<'a>) -> HardConstraints<'a> {
        HardConstraints(DoNotSchedule::new(context))
    }

    /// The constraints that reject the pod on a node, by their position among those of the pod, and by how much: at least so many
    /// matching pods of the node's domain have to leave.
    pub(crate) fn excess(&self, node: NodeRef<'_>) -> SmallVec<[(usize, i64); 2]> {
        let Some(all) = &self.0 else { return SmallVec::new() };
        let excess = |counted: &CountedConstraint<'_>| {
            Some(counted.skew(&all.place(counted, node)?).skew - counted.spread.constraint.max_skew)
        };
        let by_constraint = all.constraints.iter().enumerate();
        by_constraint.filter_map(|(i, c)| Some((i, excess(c).filter(|excess| *excess > 0)?))).collect()
    }
}

impl Filter for DoNotSchedule<'_> {
    fn check(&self, node: NodeRef<'_>) -> Option<Rejection> {
        let (status, reason) =
            self.constraints.iter().find_map(|c| c.rejects(self.place(c, node).as_ref()))?;
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
            let (status, reason) = counted.rejects(place.as_ref())?;
            let constraint = &counted.spread.constraint;
            let detail = counted.describe();
            let domain = place.as_ref().map(|place| place.domain);
            let pair = state.topology_pair(counted.spread.topology, domain);
            let mut verdict = Verdict::new(Plugin::PodTopologySpread, status, reason, detail)
                .term(&constraint.path)
                .topology(pair);
            if let Some(place) = place {
                let Skew { matching, minimum, skew } = counted.skew(&place);
                verdict = verdict.counts(Counts::Spread {
                    matching,
                    self_match: counted.spread.self_match,
                    minimum,
                    skew,
                    max_skew: constraint.max_skew,
                });
                if let Some(matcher) = counted.spread.matcher {
                    let of =
                        DomainOf { topology: counted.spread.topology, domain: place.domain, node: node.id };
                    verdict = verdict.witnesses(self.witnesses.pods_matching(state, matcher, of));
                }
            }
            Some(verdict)
        };
        self.constraints.iter().filter_map(verdict).collect()
    }
}
