//! Inter-pod affinity and anti-affinity, from the counters per term and topology domain.

use berth_api::config::Plugin;
use berth_api::rules::{PodTerm, Selector, TopologyScope};
use smallvec::SmallVec;

mod score;

pub(super) use score::scorer;

use super::{Filter, PreFilter, TermInfo};
use crate::context::{Context, NodeRef};
use crate::state::State;
use crate::state::counter::{Counter, Tally};
use crate::state::matcher::{MatcherId, TermOwners};
use crate::state::node::NodeId;
use crate::state::rule_set::RequiredTerm;
use crate::state::topology::{DomainId, TopologyId};
use crate::verdict::{Counts, Rejection, Status, Verdict};
use crate::witness::{DomainOf, WitnessCache};

pub(crate) const REASON_AFFINITY: &str = "node(s) didn't match pod affinity rules";
pub(crate) const REASON_ANTI_AFFINITY: &str = "node(s) didn't match pod anti-affinity rules";
const REASON_EXISTING: &str = "node(s) didn't satisfy existing pods anti-affinity rules";

/// A pod with an invalid term fits nowhere.
pub(super) fn pre_filter(context: Context<'_>) -> PreFilter {
    match &context.rule_set.rules().pod_term_error {
        None => PreFilter::AllNodes,
        Some(error) => PreFilter::Rejected(Rejection {
            plugin: Plugin::InterPodAffinity,
            status: Status::UnschedulableAndUnresolvable,
            reasons: [format!("parsing pod: {error}").into()].into_iter().collect(),
        }),
    }
}

struct InterPodAffinity<'a> {
    context: Context<'a>,
    /// Whether the pod matches its own affinity terms.
    matches_itself: bool,
    /// Whether no existing pod matches them. A pod that matches itself is then the first of its group.
    no_pod_matches: bool,
    affinity: Vec<Term<'a>>,
    anti_affinity: Vec<Term<'a>>,
    /// Terms of existing pods that match the pod.
    existing: Vec<Existing<'a>>,
    witnesses: WitnessCache,
}

/// A required term with the counters of its topologies.
struct Term<'a> {
    term: &'a PodTerm,
    matcher: MatcherId,
    counters: Vec<(TopologyId, &'a Counter)>,
}

/// Terms of anti-affinity of existing pods that match the pod, with one matcher, topology and limit.
struct Existing<'a> {
    matcher: MatcherId,
    topology: TopologyId,
    limit: u32,
    owners: &'a Counter,
    /// Pods that match; read only with a limit.
    matching: Option<&'a Counter>,
}

/// Whether one more pod would exceed the limit of anti-affinity in a domain: that of the pod's own term (no `owners`), or
/// that of owners there, which do not count themselves. The weight of `owners` is the number of those that match.
pub(crate) fn exceeds_limit(limit: u32, owners: Option<Tally>, n_matching: i64) -> bool {
    match owners {
        None => n_matching > i64::from(limit),
        Some(Tally { count: 0, .. }) => false,
        Some(Tally { count, weight }) => n_matching + 1 - i64::from(weight == count) > i64::from(limit),
    }
}

pub(super) fn filter<'a>(context: Context<'a>) -> Option<Box<dyn Filter + 'a>> {
    let Context { state, rule_set, cycle, .. } = context;
    let rules = rule_set.rules();
    let affinity = terms(state, &rule_set.required_affinity, &rules.required_affinity);
    let anti_affinity = terms(state, &rule_set.required_anti_affinity, &rules.required_anti_affinity);
    let existing = state.existing_anti_affinity_against(context);
    // The terms of nominated pods are not counted.
    let existing: Vec<_> = existing.filter(|e| !e.owners.is_empty() || !cycle.nominated.is_empty()).collect();
    if affinity.is_empty() && anti_affinity.is_empty() && existing.is_empty() {
        return None;
    }
    let no_pod_matches = affinity.iter().all(|t| t.counters.iter().all(|(_, c)| c.is_empty()));
    let matched = &state.signatures.get(cycle.signature).matched;
    let matches_itself = affinity.first().is_some_and(|t| matched.binary_search(&t.matcher).is_ok());
    let rule = InterPodAffinity {
        context,
        matches_itself,
        no_pod_matches,
        affinity,
        anti_affinity,
        existing,
        witnesses: WitnessCache::default(),
    };
    Some(Box::new(rule))
}

fn terms<'a>(state: &'a State, compiled: &'a [RequiredTerm], terms: &'a [PodTerm]) -> Vec<Term<'a>> {
    let term = |required: &'a RequiredTerm| {
        let matcher = state.matchers.get(required.matcher);
        let counters = required.topologies.iter().filter_map(|t| Some((*t, matcher.matching_in(*t)?)));
        Term { term: &terms[required.index], matcher: required.matcher, counters: counters.collect() }
    };
    compiled.iter().map(term).collect()
}

impl State {
    /// The terms of existing pods that match the pod, by matcher and topology.
    fn existing_terms_against<'a>(
        &'a self,
        context: Context<'a>,
    ) -> impl Iterator<Item = (MatcherId, TopologyId, &'a TermOwners)> {
        let matched = &self.signatures.get(context.cycle.signature).matched_by_existing;
        matched.iter().flat_map(|matcher| {
            let owners = self.matchers.get(*matcher).owners.iter();
            owners.map(|owners| (*matcher, owners.topology, &owners.counter))
        })
    }

    fn existing_anti_affinity_against<'a>(
        &'a self,
        context: Context<'a>,
    ) -> impl Iterator<Item = Existing<'a>> {
        let unlimited = self.existing_terms_against(context).map(|(matcher, topology, owners)| Existing {
            matcher,
            topology,
            limit: 0,
            owners: &owners.required_anti_affinity,
            matching: None,
        });
        let matched = &self.signatures.get(context.cycle.signature).matched_by_existing;
        let limited = matched.iter().flat_map(|id| {
            let matcher = self.matchers.get(*id);
            matcher.limited_owners.iter().map(|owners| Existing {
                matcher: *id,
                topology: owners.topology,
                limit: owners.limit,
                owners: &owners.counter,
                matching: matcher.matching_in(owners.topology),
            })
        });
        unlimited.chain(limited)
    }
}

impl Existing<'_> {
    /// The domain of the node, the owners in it, and with a limit the matching pods; none if the terms hold for the pod.
    fn violated(&self, state: &State, node: NodeRef<'_>) -> Option<(DomainId, Tally, i64)> {
        let Existing { matcher, topology, limit, owners, matching } = *self;
        let domain = state.topologies.domain(topology, node.id)?;
        let owners = owners.get(domain) + node.more_owners(matcher, topology, limit);
        if limit == 0 {
            return (owners.count > 0).then_some((domain, owners, 0));
        }
        let n_matching = matching.map_or(0, |c| c.get(domain).count) + node.more_matching(matcher);
        exceeds_limit(limit, Some(owners), n_matching).then_some((domain, owners, n_matching))
    }
}

impl Term<'_> {
    /// The domains of the node in which more pods match than the limit of the term.
    fn matching_domains(
        &self,
        state: &State,
        node: NodeRef<'_>,
    ) -> impl Iterator<Item = (TopologyId, DomainId, i64)> {
        let more = node.more_matching(self.matcher);
        let domains = self.counters.iter().filter_map(move |(topology, counter)| {
            let domain = state.topologies.domain(*topology, node.id)?;
            Some((*topology, domain, counter.get(domain).count + more))
        });
        let limit = i64::from(self.term.limit);
        domains.filter(move |(.., n_pods)| *n_pods > limit)
    }

    /// Whether no pod of the cluster matches; the pods of `node` are those of the [`NodeRef`].
    fn is_matched_by_no_pod(&self, state: &State, node: NodeRef<'_>) -> bool {
        let more = node.more_matching(self.matcher);
        self.counters.iter().all(|(topology, counter)| match state.topologies.domain(*topology, node.id) {
            Some(domain) if more != 0 => {
                let here = counter.get(domain).count;
                here + more == 0 && counter.n_domains() == usize::from(here > 0)
            }
            _ => counter.is_empty(),
        })
    }

    /// Whether the node is in a domain of the term's topology at all.
    fn has_domain(&self, state: &State, node: NodeId) -> bool {
        self.counters.iter().any(|(topology, _)| state.topologies.domain(*topology, node).is_some())
    }
}

impl InterPodAffinity<'_> {
    /// Whether the pod is the first of its group: it matches its own affinity terms, and no other pod does.
    fn is_first_of_group(&self, node: NodeRef<'_>) -> bool {
        let no_pod_matches = match node.delta {
            None => self.no_pod_matches,
            Some(_) => self.affinity.iter().all(|t| t.is_matched_by_no_pod(self.context.state, node)),
        };
        self.matches_itself && no_pod_matches
    }

    fn satisfies_pod_affinity(&self, node: NodeRef<'_>) -> bool {
        let state = self.context.state;
        self.affinity.iter().all(|t| t.has_domain(state, node.id))
            && (self.affinity.is_empty()
                || self.is_first_of_group(node)
                || self.affinity.iter().all(|t| t.matching_domains(state, node).next().is_some()))
    }

    fn satisfies_pod_anti_affinity(&self, node: NodeRef<'_>) -> bool {
        let state = self.context.state;
        self.anti_affinity.iter().all(|t| t.matching_domains(state, node).next().is_none())
    }

    fn describe_affinity(&self, term: &Term<'_>) -> String {
        let together = match self.affinity.len() {
            1 => String::new(),
            n => format!(" (pods that match all {n} required terms)"),
        };
        format!("{}{together}", requires(term.term))
    }

    /// Terms of existing pods that the pod would violate on the node.
    fn violated_existing(
        &self,
        node: NodeRef<'_>,
    ) -> impl Iterator<Item = (&Existing<'_>, DomainId, Tally, i64)> {
        self.existing.iter().filter_map(move |existing| {
            let (domain, owners, n_matching) = existing.violated(self.context.state, node)?;
            Some((existing, domain, owners, n_matching))
        })
    }
}

impl Filter for InterPodAffinity<'_> {
    fn check(&self, node: NodeRef<'_>) -> Option<Rejection> {
        let (status, reason) = if !self.satisfies_pod_affinity(node) {
            (Status::UnschedulableAndUnresolvable, REASON_AFFINITY)
        } else if !self.satisfies_pod_anti_affinity(node) {
            (Status::Unschedulable, REASON_ANTI_AFFINITY)
        } else if self.violated_existing(node).next().is_some() {
            (Status::Unschedulable, REASON_EXISTING)
        } else {
            return None;
        };
        Some(Rejection::new(Plugin::InterPodAffinity, status, reason))
    }

    /// Without the terms of existing pods, which appear in the verdicts of the nodes that they reject.
    fn shared_topologies(&self) -> SmallVec<[TopologyId; 2]> {
        let own = self.affinity.iter().chain(&self.anti_affinity).flat_map(|t| &t.counters).map(|(t, _)| *t);
        let existing = self.existing.iter().map(|e| e.topology);
        own.chain(existing).filter(|t| self.context.state.topologies.is_shared(*t)).collect()
    }

    fn inputs(&self, node: NodeId, max_pods: i64, inputs: &mut Vec<i64>) {
        let topologies = &self.context.state.topologies;
        let tally = |topology: TopologyId, counter: &Counter| {
            let domain = topologies.is_shared(topology).then(|| topologies.domain(topology, node))?;
            Some(domain.map_or(Tally { count: -1, weight: -1 }, |domain| counter.get(domain)))
        };
        // More pods than may leave the node are as good as any number.
        let count = |topology, counter, limit: u32| {
            Some(tally(topology, counter)?.count.min(max_pods + i64::from(limit)))
        };
        for (topology, counter) in self.affinity.iter().flat_map(|t| &t.counters) {
            // Whether no pod matches, or those of one domain only: the node may be in it.
            inputs.push(counter.n_domains().min(2) as i64);
            inputs.extend(count(*topology, counter, 0));
        }
        for term in &self.anti_affinity {
            inputs
                .extend(term.counters.iter().filter_map(|(t, counter)| count(*t, counter, term.term.limit)));
        }
        for Existing { matcher, topology, limit, owners, matching } in &self.existing {
            let Some(owners) = tally(*topology, owners).filter(|owners| owners.count > 0) else { continue };
            inputs.extend([matcher.number() as i64, topology.number() as i64, owners.count.min(max_pods)]);
            if let Some(matching) = matching {
                let not_themselves = (owners.count - owners.weight).min(max_pods);
                inputs.extend([i64::from(*limit), not_themselves]);
                inputs.extend(count(*topology, matching, *limit));
            }
        }
    }

    fn terms(&self) -> Vec<TermInfo> {
        let asked = |t: &Term<'_>, detail| TermInfo { term: t.term.path.clone(), detail };
        let affinity = self.affinity.iter().map(|t| asked(t, self.describe_affinity(t)));
        affinity.chain(self.anti_affinity.iter().map(|t| asked(t, rejects(t.term)))).collect()
    }

    fn verdicts(&self, node: NodeRef<'_>) -> Vec<Verdict> {
        let state = self.context.state;
        let mut verdicts = Vec::new();
        for term in &self.affinity {
            let satisfied = term.has_domain(state, node.id)
                && (self.is_first_of_group(node) || term.matching_domains(state, node).next().is_some());
            if satisfied {
                continue;
            }
            let detail = self.describe_affinity(term);
            let elsewhere =
                term.counters.iter().map(|(_, c)| c.iter().map(|(_, t)| t.count).sum::<i64>()).max();
            let verdict = Verdict::new(
                Plugin::InterPodAffinity,
                Status::UnschedulableAndUnresolvable,
                REASON_AFFINITY,
                detail,
            );
            let first = term.counters.first();
            let pair = first.and_then(|(t, _)| state.topology_pair(*t, state.topologies.domain(*t, node.id)));
            verdicts.push(
                verdict
                    .term(&term.term.path)
                    .topology(pair)
                    .counts(Counts::Affinity { matching: 0, elsewhere: elsewhere.unwrap_or(0) }),
            );
        }
        for term in &self.anti_affinity {
            for (topology, domain, n_pods) in term.matching_domains(state, node) {
                let detail = rejects(term.term);
                verdicts.push(
                    Verdict::new(
                        Plugin::InterPodAffinity,
                        Status::Unschedulable,
                        REASON_ANTI_AFFINITY,
                        detail,
                    )
                    .term(&term.term.path)
                    .topology(state.topology_pair(topology, Some(domain)))
                    .counts(Counts::AntiAffinity { matching: n_pods, limit: term.term.limit })
                    .witnesses(self.witnesses.pods_matching(
                        state,
                        term.matcher,
                        DomainOf { topology, domain, node: node.id },
                    )),
                );
            }
        }
        for (existing, domain, owners, matching) in self.violated_existing(node) {
            let Existing { matcher, topology, limit, .. } = *existing;
            let of = DomainOf { topology, domain, node: node.id };
            let (witnesses, terms) = self.witnesses.anti_affinity_owners(state, matcher, limit, of);
            let counts = match (limit, owners.count) {
                (0, owners) => Counts::ExistingAntiAffinity { owners },
                (limit, owners) => Counts::ExistingLimit { owners, matching, limit },
            };
            for (path, term) in terms {
                let detail = format!("an existing pod's anti-affinity {}", rejects(&term));
                verdicts.push(
                    Verdict::new(Plugin::InterPodAffinity, Status::Unschedulable, REASON_EXISTING, detail)
                        .term(path)
                        .topology(state.topology_pair(topology, Some(domain)))
                        .counts(counts.clone())
                        .witnesses(witnesses.clone()),
                );
            }
        }
        verdicts
    }
}

/// An affinity term in words.
pub(crate) fn requires(term: &PodTerm) -> String {
    format!("requires {}", pods_of(term))
}

/// An anti-affinity term in words.
pub(crate) fn rejects(term: &PodTerm) -> String {
    let verb = if term.limit == 0 || term.selector == Selector::Nothing { "rejects" } else { "allows" };
    format!("{verb} {}", pods_of(term))
}

fn pods_of(term: &PodTerm) -> String {
    let pods = match (&term.selector, term.limit) {
        (Selector::Nothing, _) => "no pods (null label selector)".to_owned(),
        (selector, 0) if selector.is_everything() => "any pod".to_owned(),
        (selector, 0) => format!("pods with `{selector}`"),
        (selector, limit) => {
            let pods = if limit == 1 { "pod" } else { "pods" };
            let which = if selector.is_everything() { String::new() } else { format!(" with `{selector}`") };
            format!("at most {limit} other {pods}{which}")
        }
    };
    let namespaces = match (&term.namespaces.selector, term.namespaces.names.as_slice()) {
        (selector, _) if selector.is_everything() => "in all namespaces".to_owned(),
        (Selector::Nothing, [one]) => format!("in namespace {one}"),
        (Selector::Nothing, names) => format!("in namespaces {}", names.join(", ")),
        (selector, []) => format!("in namespaces with `{selector}`"),
        (selector, names) => format!("in namespaces {} and those with `{selector}`", names.join(", ")),
    };
    let topology = match &term.topology {
        TopologyScope::Key(key) => key.as_str(),
        TopologyScope::All => "domain of any topology",
    };
    format!("{pods} {namespaces} in the same {topology}")
}
