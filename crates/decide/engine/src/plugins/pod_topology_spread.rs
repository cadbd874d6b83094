//! Topology spread constraints.

use berth_api::config::Plugin;
use berth_api::rules::WhenUnsatisfiable;
use rustc_hash::{FxHashMap, FxHashSet};
use smallvec::SmallVec;

use super::{Filter, MAX_NODE_SCORE, Scorer, TermInfo};
use crate::context::{Context, NodeRef};
use crate::state::State;
use crate::state::node::{NodeId, NodeRecord};
use crate::state::spread::Spread;
use crate::state::topology::{DomainId, TopologyId};
use crate::verdict::{Counts, Rejection, Status, Verdict};
use crate::witness::{DomainOf, WitnessCache};

const REASON: &str = "node(s) didn't match pod topology spread constraints";
const REASON_LABEL: &str = "node(s) didn't match pod topology spread constraints (missing required label)";
/// Each node is a domain of its own: its pods are counted without a map of domains.
pub(crate) const HOSTNAME: &str = "kubernetes.io/hostname";

impl Spread {
    /// Matching pods on one node.
    pub(crate) fn n_pods_on(&self, state: &State, node: NodeId) -> i64 {
        let Some(matcher) = self.matcher else { return 0 };
        let counter = state.matchers.get(matcher).matching_in(TopologyId::NODE);
        counter.map_or(0, |c| c.get(DomainId(node.0)).count)
    }

    /// Whether the inclusion policies include the node.
    pub(crate) fn includes(&self, context: Context<'_>, node: &NodeRecord) -> bool {
        (!self.constraint.honor_node_affinity
            || context.rule_set.satisfies_required_node_affinity(context.state, node))
            && (!self.constraint.honor_node_taints || context.tolerates_node(node))
    }
}

fn constraints<'a>(context: Context<'a>, when: WhenUnsatisfiable) -> Vec<&'a Spread> {
    context.cycle.spread.iter().filter(|s| s.constraint.when_unsatisfiable == when).collect()
}

fn has_all_keys(state: &State, constraints: &[&Spread], node: NodeId) -> bool {
    constraints.iter().all(|s| state.topologies.domain(s.topology, node).is_some())
}

struct DoNotSchedule<'a> {
    context: Context<'a>,
    constraints: Vec<Counted<'a>>,
    witnesses: WitnessCache,
}

/// A constraint with the matching pods of each domain.
struct Counted<'a> {
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
        .map(|spread| Counted {
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

impl Counted<'_> {
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
            selector => format!("pods with `{selector}`"),
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
    fn place(&self, counted: &Counted<'_>, node: NodeRef<'_>) -> Option<(DomainId, bool)> {
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
            let Counted { spread, by_domain, enough_domains, fewest, fewest_elsewhere } = counted;
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
        let asked =
            |c: &Counted<'_>| TermInfo { term: c.spread.constraint.path.clone(), detail: c.describe() };
        self.constraints.iter().map(asked).collect()
    }

    fn verdicts(&self, node: NodeRef<'_>) -> Vec<Verdict> {
        let state = self.context.state;
        let verdict = |counted: &Counted<'_>| {
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

struct ScheduleAnyway<'a> {
    context: Context<'a>,
    constraints: Vec<Weighted<'a>>,
    /// Feasible nodes without a topology key; they score 0.
    ignored: FxHashSet<NodeId>,
}

/// A constraint with the matching pods of each domain of the feasible nodes.
struct Weighted<'a> {
    spread: &'a Spread,
    per_node: bool,
    by_domain: FxHashMap<DomainId, i64>,
    /// Grows with the number of domains, so that small topologies count beside large ones.
    weight: f64,
}

pub(super) fn scorer<'a>(context: Context<'a>, feasible: &[NodeId]) -> Option<Box<dyn Scorer + 'a>> {
    let state = context.state;
    let constraints = constraints(context, WhenUnsatisfiable::ScheduleAnyway);
    if constraints.is_empty() {
        return None;
    }
    // The default constraints of kube-scheduler still spread by hostname if nodes have no zone.
    let require_all = !context.cycle.system_spread;
    // A missing label counts as an empty one.
    let domain = |spread: &Spread, node| {
        state.topologies.domain(spread.topology, node).unwrap_or(DomainId(state.empty.0))
    };
    let mut weighted: Vec<_> = constraints
        .iter()
        .map(|spread| Weighted {
            spread,
            per_node: spread.constraint.topology_key == HOSTNAME,
            by_domain: FxHashMap::default(),
            weight: 0.0,
        })
        .collect();

    let mut ignored = FxHashSet::default();
    for node in feasible {
        if require_all && !has_all_keys(state, &constraints, *node) {
            ignored.insert(*node);
            continue;
        }
        for w in weighted.iter_mut().filter(|w| !w.per_node) {
            w.by_domain.entry(domain(w.spread, *node)).or_insert(0);
        }
    }
    for w in &mut weighted {
        let n_domains = if w.per_node { feasible.len() - ignored.len() } else { w.by_domain.len() };
        w.weight = natural_logarithm((n_domains + 2) as f64);
    }
    if weighted.iter().any(|w| !w.per_node) {
        for (id, node) in state.nodes.iter() {
            if require_all && !has_all_keys(state, &constraints, id) {
                continue;
            }
            for w in weighted.iter_mut().filter(|w| !w.per_node) {
                if let Some(count) = w.by_domain.get_mut(&domain(w.spread, id))
                    && w.spread.includes(context, node)
                {
                    *count += w.spread.n_pods_on(state, id);
                }
            }
        }
    }
    Some(Box::new(ScheduleAnyway { context, constraints: weighted, ignored }))
}

impl Weighted<'_> {
    /// Matching pods in the node's domain; none if it lacks the key.
    fn n_pods(&self, state: &State, node: NodeId) -> Option<i64> {
        let domain = state.topologies.domain(self.spread.topology, node)?;
        if self.per_node {
            return Some(self.spread.n_pods_on(state, node));
        }
        Some(self.by_domain.get(&domain).copied().unwrap_or(0))
    }
}

impl Scorer for ScheduleAnyway<'_> {
    /// Weighted number of matching pods: fewer is better.
    fn score(&self, node: NodeRef<'_>) -> i64 {
        if self.ignored.contains(&node.id) {
            return 0;
        }
        let mut score = 0.0;
        for w in &self.constraints {
            if let Some(n_pods) = w.n_pods(self.context.state, node.id) {
                score += n_pods as f64 * w.weight + (w.spread.constraint.max_skew - 1) as f64;
            }
        }
        score.round() as i64
    }

    fn normalize(&self, nodes: &[NodeId], scores: &mut [i64]) {
        let considered =
            || nodes.iter().zip(&*scores).filter(|(n, _)| !self.ignored.contains(n)).map(|(_, s)| *s);
        let min = considered().min().unwrap_or(i64::MAX);
        let max = considered().max().unwrap_or(0).max(0);
        for (node, score) in nodes.iter().zip(scores) {
            *score = match max {
                _ if self.ignored.contains(node) => 0,
                0 => MAX_NODE_SCORE,
                _ => MAX_NODE_SCORE * (max + min - *score) / max,
            };
        }
    }

    fn parts(&self, node: NodeRef<'_>) -> Vec<(String, i64)> {
        if self.ignored.contains(&node.id) {
            return vec![("the node lacks a topology key of the constraints".to_owned(), 0)];
        }
        let part = |w: &Weighted<'_>| {
            let n_pods = w.n_pods(self.context.state, node.id)?;
            let constraint = &w.spread.constraint;
            Some((format!("matching pods per {} ({})", constraint.topology_key, constraint.path), n_pods))
        };
        self.constraints.iter().filter_map(part).collect()
    }
}

/// The natural logarithm of a finite number of at least 1, with the algorithm of the FreeBSD math library that Go
/// uses. The function of the platform may differ in the last bit, and scores are rounded.
pub(crate) fn natural_logarithm(x: f64) -> f64 {
    const LN2_HI: f64 = 6.931_471_803_691_238e-1;
    const LN2_LO: f64 = 1.908_214_929_270_587_7e-10;
    // Coefficients of the approximation by a polynomial in s².
    const L: [f64; 7] = [
        6.666_666_666_666_735e-1,
        3.999_999_999_940_942e-1,
        2.857_142_874_366_239e-1,
        2.222_219_843_214_978_4e-1,
        1.818_357_216_161_805e-1,
        1.531_383_769_920_937_3e-1,
        1.479_819_860_511_658_6e-1,
    ];
    // x = 2^k × (1 + f), with 1 + f between √½ and √2.
    let bits = x.to_bits();
    let mut k = ((bits >> 52) & 0x7ff) as i64 - 1022;
    let mut fraction = f64::from_bits((bits & !(0x7ff << 52)) | (1022 << 52));
    if fraction < std::f64::consts::SQRT_2 / 2.0 {
        fraction *= 2.0;
        k -= 1;
    }
    let f = fraction - 1.0;
    let k = k as f64;
    let s = f / (2.0 + f);
    let s2 = s * s;
    let s4 = s2 * s2;
    let t1 = s2 * (L[0] + s4 * (L[2] + s4 * (L[4] + s4 * L[6])));
    let t2 = s4 * (L[1] + s4 * (L[3] + s4 * L[5]));
    let r = t1 + t2;
    let half_square = 0.5 * f * f;
    k * LN2_HI - ((half_square - (s * (half_square + r) + k * LN2_LO)) - f)
}

#[cfg(test)]
mod tests {
    use super::natural_logarithm;

    #[test]
    pub(crate) fn natural_logarithm_is_right_to_the_last_bits() {
        for n in 1..100_000 {
            let (ours, platform) = (natural_logarithm(f64::from(n)), f64::from(n).ln());
            assert!((ours - platform).abs() <= platform.abs() * 2.3e-16, "{n}: {ours} {platform}");
        }
    }
}
